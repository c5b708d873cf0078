"""`verify=True` where gradients are recorded: forward, gradients, and the stage at fault in either half."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.codegen import compile as code
from minicompile.config import config
from minicompile.errors import VerificationError
from minicompile.ir.graph import Graph, Node
from minicompile.ir.ops import POINTWISE
from minicompile.ir.rewrite import keep
from minicompile.lowering import partition as cutting
from minicompile.lowering import rule_tables, rules

Patch = pytest.MonkeyPatch


def program(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x) * 2
    z = torch.tanh(y * 0.1)
    return (z - y).sum(-1)


Y_LINE = program.__code__.co_firstlineno + 1


def inputs() -> torch.Tensor:
    return torch.randn(6, 9, generator=torch.Generator().manual_seed(0)).requires_grad_()


def swapped(graph: Graph, wanted: Callable[[Node], bool], op: str) -> Graph:
    def rule(node: Node, args: tuple[Any, ...]) -> Any:
        return replace(node, op=op, args=args) if wanted(node) else keep(node, args)

    return graph.rewrite(rule)


def in_backward(node: Node) -> bool:
    return node.origin is not None and "(backward)" in node.origin.call


def wrong_forward_rule(patch: Patch) -> None:
    rule_tables.load_rules()
    patch.setitem(rules.RULES, torch.ops.aten.tanh.default, lambda c, x: c.pointwise("sin", x))


def wrong_backward_rule(patch: Patch) -> None:
    """A product that autograd has written becomes a sum."""
    right = rules.RULES[torch.ops.aten.mul.Tensor]

    def rule(c: Any, x: Any, y: Any) -> Any:
        is_backward = c.builder.origin is not None and "(backward)" in c.builder.origin.call
        return c.pointwise("add", x, y) if is_backward else right(c, x, y)

    patch.setitem(rules.RULES, torch.ops.aten.mul.Tensor, rule)


def wrong_pass(patch: Patch) -> None:
    right = passes.PASSES["cse"]
    patch.setitem(passes.PASSES, "cse", lambda graph: swapped(right(graph), lambda n: n.op == "tanh", "sin"))


def wrong_pass_in_backward(patch: Patch) -> None:
    """Only gradients are wrong: a product of the backward half becomes a sum."""

    def wrong(graph: Graph) -> Graph:
        return swapped(graph, lambda n: n.op == "mul" and in_backward(n), "add")

    patch.setitem(passes.PASSES, "algebra", wrong)


def wrong_cut(patch: Patch) -> None:
    from minicompile import pipeline  # noqa: F401  (partition is imported there when it is used)

    def partition(joint: Any, budget: float = 1.0) -> Any:
        split = right(joint, budget)
        return replace(split, backward=swapped(split.backward, lambda n: n.op == "mul", "add"))

    right = cutting.partition
    patch.setattr(cutting, "partition", partition)


def wrong_code(patch: Patch) -> None:
    patch.setitem(POINTWISE, "tanh", replace(POINTWISE["tanh"], cpp=POINTWISE["sin"].cpp))


def wrong_code_in_backward(patch: Patch) -> None:
    """Kernels of graphs that take a tangent are printed with a wrong product."""
    right = code._build

    def build(lowered: Any, *rest: Any) -> Any:
        if not any(in_backward(node) for unit in lowered for node in unit.members):
            return right(lowered, *rest)
        with pytest.MonkeyPatch.context() as inner:
            inner.setitem(POINTWISE, "mul", replace(POINTWISE["mul"], cpp=POINTWISE["add"].cpp))
            return right(lowered, *rest)

    patch.setattr(code, "_build", build)


@pytest.mark.parametrize(
    ("fault", "what", "says", "line"),
    [
        (wrong_forward_rule, "result 0", "lowering, first at torch.tanh", 1),
        (wrong_backward_rule, "gradient of input 0", "lowering, first at operator.mul", 0),
        (wrong_pass, "result 0", "pass cse, first at sin", 1),
        (wrong_pass_in_backward, "gradient of input 0", "pass algebra, first at add", 1),
        (wrong_cut, "gradient of input 0", "partition, first at add", 0),
        (wrong_code, "result 0", "code, first at tanh in", 1),
        (wrong_code_in_backward, "gradient of input 0", "code, first at mul in", 1),
    ],
)
def test_stage_and_line_are_named(fault: Any, what: str, says: str, line: int, monkeypatch: Patch) -> None:
    rule_tables.load_rules()
    fault(monkeypatch)
    with pytest.raises(VerificationError) as caught, config.patch(strict=True):
        minicompile.compile(program, verify=True)(inputs())
    text = str(caught.value)
    assert f"{what} of a compiled graph differs from eager" in text and f"stage at fault: {says}" in text, text
    assert f"({__file__}:{Y_LINE + line} in program" in text, text


def test_a_graph_that_was_cut_names_its_section(monkeypatch: Patch) -> None:
    def logits_and_loss(x: torch.Tensor) -> Any:
        logits = torch.exp(x) * 2
        return logits, torch.tanh(logits).sum()

    wrong_code(monkeypatch)
    with pytest.raises(VerificationError) as caught, config.patch(strict=True):
        minicompile.compile(logits_and_loss, verify=True)(inputs())
    line = logits_and_loss.__code__.co_firstlineno + 2
    assert "code, first at tanh" in str(caught.value) and f"{__file__}:{line}" in str(caught.value)


def test_warn_gives_eagers_gradients(monkeypatch: Patch) -> None:
    wrong_code_in_backward(monkeypatch)
    ours, eager = inputs(), inputs()
    with pytest.warns(RuntimeWarning, match="stage at fault: code"):
        minicompile.compile(program, verify="warn")(ours).sum().backward()
    program(eager).sum().backward()
    assert torch.equal(ours.grad, eager.grad)  # type: ignore[arg-type]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(256, 512), torch.nn.LayerNorm(512), torch.nn.GELU(), torch.nn.Linear(512, 256)
        )

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.body(x) * 5, target)


def non_leaf_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.mul_(torch.sigmoid(x))
    return y.cumsum(0).t()


@pytest.mark.parametrize("dynamic", [None, True])
def test_right_programs_pass(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    net = Net()
    with config.patch(strict=True):
        loss = minicompile.compile(net, verify=True, dynamic=dynamic)(torch.randn(700, 256), torch.arange(700) % 256)
        loss.backward()
        for shape in ((5, 3), (4, 7)):
            x = torch.randn(shape, requires_grad=True)
            minicompile.compile(non_leaf_in_place, verify=True, dynamic=dynamic)(x).sum().backward()
        expanded = torch.randn(1, 9, requires_grad=True)
        minicompile.compile(program, verify=True, dynamic=dynamic)(expanded.expand(6, 9)).sum().backward()
    assert expanded.grad is not None and net.body[0].weight.grad is not None
