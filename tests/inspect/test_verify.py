"""`verify=True`: a fault put into one stage is found in that stage, with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.config import config
from minicompile.errors import VerificationError
from minicompile.ir.graph import Graph, Node
from minicompile.ir.ops import POINTWISE
from minicompile.ir.rewrite import keep
from minicompile.lowering import rule_tables, rules


def program(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x) * 2
    z = torch.exp(y * 0.1)
    return (z - y).sum(-1)


EXP_LINE = program.__code__.co_firstlineno + 2
X = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))


def message(monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]) -> str:
    fault(monkeypatch)
    with torch.no_grad(), pytest.raises(VerificationError) as caught:
        minicompile.compile(program, verify=True)(X)
    return str(caught.value)


def wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rule_tables.load_rules()
    monkeypatch.setitem(rules.RULES, torch.ops.aten.exp.default, lambda c, x: c.pointwise("sin", x))


def wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(graph: Graph) -> Graph:
        def rule(node: Node, args: tuple[Any, ...]) -> Any:
            return replace(node, op="sin", args=args) if node.op == "exp" else keep(node, args)

        return graph.rewrite(rule)

    monkeypatch.setitem(passes.PASSES, "algebra", swap)


def wrong_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The printer writes sin where the table says exp; the reference interpreter goes by torch's own."""
    monkeypatch.setitem(POINTWISE, "exp", replace(POINTWISE["exp"], cpp=POINTWISE["sin"].cpp))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (wrong_rule, "lowering, first at torch.exp"),
        (wrong_pass, "pass algebra, first at sin"),
        (wrong_code, "code, first at exp in"),
    ],
)
def test_stage_and_line_are_named(fault: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = message(monkeypatch, fault)
    assert f"stage at fault: {says}" in text and f"{__file__}:{EXP_LINE}" in text
    assert "result 0 of a compiled graph differs from eager" in text


def test_warn_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_code(monkeypatch)
    compiled = minicompile.compile(program, verify="warn")
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="stage at fault: code"):
        assert torch.equal(compiled(X), program(X))
    with torch.no_grad():
        assert torch.equal(compiled(X + 1), program(X + 1)) and len(compiled.entries) == 1


def test_warn_repairs_written_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_code(monkeypatch)
    ours, eager = torch.zeros(6, 9), torch.zeros(6, 9)

    def writes(x: torch.Tensor, into: torch.Tensor) -> None:
        into.copy_(torch.exp(x))

    with torch.no_grad(), pytest.warns(RuntimeWarning, match="input"):
        minicompile.compile(writes, verify="warn")(X, ours)
    writes(X, eager)
    assert torch.equal(ours, eager)


def test_right_graphs_pass_once_an_entry() -> None:
    with config.patch(verify=True), torch.no_grad():
        compiled = minicompile.compile(program)
        for shape in ((6, 9), (6, 9), (2, 3)):
            compiled(torch.randn(shape))
    grads = torch.randn(4, 4, requires_grad=True)
    minicompile.compile(program, verify=True)(grads).sum().backward()
    assert grads.grad is not None


def test_unknown_way() -> None:
    with pytest.raises(ValueError, match='True, False or "warn"'):
        minicompile.compile(program, verify="loudly")  # type: ignore[arg-type]


