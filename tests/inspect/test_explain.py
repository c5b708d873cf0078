"""`explain`: break rows with source and rewrite, eager in plain words, effects, recompiles, fusion, costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile
from minicompile.config import config
from minicompile.frontend.breaks import BreakKind
from minicompile.inspect.advice import suggestion
from minicompile.inspect.explain import Explanation
from minicompile.inspect.explain_html import kernel_groups

Tensor = torch.Tensor


def lines_of(fn: Any) -> int:
    return fn.__code__.co_firstlineno


def branches(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    if x.sum() > 0:
        return y * 2
    return y - 1


def test_a_break_in_a_loop_is_one_row_with_its_text() -> None:
    def loops(x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.sin(x)
            print("step")
        return x

    explanation = minicompile.explain(loops)(torch.ones(4))
    (row,) = explanation.advice
    assert (row.file, row.line, row.source) == (__file__, lines_of(loops) + 3, 'print("step")')
    assert "is_compiling" in row.rewrite and "print" in row.why


def test_the_rewrite_is_made_from_the_line() -> None:
    (row,) = minicompile.explain(branches)(torch.ones(4)).advice
    assert row.source == "if x.sum() > 0:" and "torch.where(x.sum() > 0, a, b)" in row.rewrite
    assert f"try: {row.rewrite}" in str(minicompile.explain(branches)(torch.ones(4)))


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        (BreakKind.BRANCH, "elif (y > 1).any():", "torch.where((y > 1).any(), a, b)"),
        (BreakKind.BRANCH, "while err > 1e-3:", "torch.where(err > 0.001, new, old)"),
        (BreakKind.BRANCH, "assert x.min() >= 0, 'no'", "torch._assert_async(x.min() >= 0)"),
        (BreakKind.BRANCH, "z = a if c.any() else b", "torch.where(c.any(), a, b)"),
        (BreakKind.VALUE, "n = x.sum().item()", "x.sum() itself instead of x.sum().item()"),
        (BreakKind.CALL, "y = float(x[0])", "x[0] instead of float(x[0])"),
        (BreakKind.CALL, "print(x)", "print it outside"),
        (BreakKind.EXPLICIT, "minicompile.graph_break()", "Delete the line."),
        (BreakKind.CALL, "y = something(x)", ""),
        (BreakKind.CALL, "", ""),
        (BreakKind.CALL, "))((", ""),
    ],
)
def test_suggestions(kind: BreakKind, line: str, says: str) -> None:
    found = suggestion(kind, line)
    assert says in found and bool(says) == bool(found)


def test_eager_is_said_in_plain_words() -> None:
    def generates(x: Tensor) -> Any:
        yield x

    explanation = minicompile.explain(generates)(torch.ones(2))
    if explanation.entries:  # with a hook, a generator's frame is not even looked at
        assert explanation.ran_wholly_in_eager

    def raises(x: Tensor) -> Tensor:
        return x.view(3)

    compiled = minicompile.compile(raises)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(2))
    found = Explanation.of(compiled.entries)
    assert found.ran_wholly_in_eager and "Nothing was compiled" in str(found) and "it raised" in str(found)


class Holder:
    count = 0


@pytest.mark.parametrize("cached", [False, True])
def test_effects_are_listed_where_made_and_where_repeated(cached: bool, tmp_path: Any) -> None:
    log: list[int] = []
    holder = Holder()

    def effects(x: Tensor, log: list[int], holder: Holder) -> Tensor:
        y = x + 1
        log.append(7)
        holder.count = 3
        return y * 2

    with config.patch(entry_cache=cached, cache_dir=tmp_path):
        for _ in range(1 + cached):
            explanation = minicompile.explain(effects)(torch.ones(2), log, holder)
    first, second = explanation.effects
    start = lines_of(effects)
    assert (first.place.line, second.place.line) == (start + 2, start + 3)
    assert "append(7)" in first.statement and "log" in first.statement
    assert "count" in second.statement and "3" in second.statement
    for effect in explanation.effects:
        line = explanation.glue[0].splitlines()[effect.replayed_at - 1]
        assert "append" in line or "count" in line
    assert "Side effects" in str(explanation)


def test_recompiles_name_the_guard() -> None:
    compiled = minicompile.compile(lambda x, flag: x + 1 if flag else x - 1, dynamic=False)
    explained = minicompile.explain(compiled)
    explained(torch.ones(2), True)
    explanation = explained(torch.ones(2), False)
    (record,) = explanation.recompiles
    assert "flag" in str(record) and "flag" in str(explanation)


def test_fusion_refusals_have_reasons() -> None:
    def two(x: Tensor) -> Tensor:
        a = torch.relu(x + 1)
        return torch.exp(a @ a) + 1

    explanation = minicompile.explain(two)(torch.ones(8, 8))
    assert explanation.kernel_count == 2
    assert all(decision.reason for decision in explanation.fusions)
    assert [row.language for row in explanation.costs] == ["cpp", "extern", "cpp"]


def test_costs_against_the_bound() -> None:
    explanation = minicompile.explain(lambda x, y: torch.relu(x + y) * 2)(torch.ones(64, 8), torch.ones(64, 8))
    (row,) = explanation.costs
    assert row.bytes == explanation.least_bytes == 3 * 512 * 4 and row.flops == 3 * 512
    with torch.no_grad():
        product = minicompile.explain(torch.nn.Linear(16, 32))(torch.ones(4, 16))
    (call,) = product.costs
    assert call.language == "extern" and call.flops == 2 * 4 * 16 * 32


def test_notebooks_get_tables_and_drawings() -> None:
    explanation = minicompile.explain(lambda x: torch.softmax(x, -1))(torch.ones(4, 8))
    html = explanation._repr_html_()
    assert "<svg" in html and "kernel_0" in html and "<table>" in html
    (graph,) = explanation.graphs
    groups = kernel_groups(graph.compiled)
    (kernel,) = graph.compiled.kernels
    assert set(groups.values()) == {kernel.name} and len(groups) == len(kernel.ops)
