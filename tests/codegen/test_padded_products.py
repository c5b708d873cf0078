"""Half-precision products with odd rows write into padded buffers; the caller sees eager's strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minicompile.codegen import compile as main_line
from minicompile.codegen.compile import compile_ir
from minicompile.codegen.padded_products import pad_products
from minicompile.codegen.prepare import prepare

from ..lowering.support import lowered

A, B = (264, 304), (304, 257)


def both_gradients(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    grad = (a @ b) * 2
    return grad @ b.T, a.T @ grad


PROGRAMS: list[tuple[Callable[..., object], int]] = [
    (lambda a, b: a @ b, 1),
    (lambda a, b: (a @ b).view(2, 132, 257), 1),
    (lambda a, b: (a @ b).relu(), 1),
    (lambda a, b: torch.addmm(b[0], a, b), 1),
    (lambda a, b: (a @ b).T, 1),
    (lambda a, b: a[:, :200] @ b[:200], 0),
    (lambda a, b: a[:, :256].contiguous() @ b[:256, :256].contiguous(), 0),
    (both_gradients, 2),
]
"""Programs, and how many of their products write padded rows."""


@pytest.mark.parametrize("program, count", PROGRAMS)
def test_values_and_strides_are_eager_s(
    program: Callable[..., object], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_line, "prepare", lambda graph: prepare(pad_products(graph)))
    a, b = (torch.randn(shape).bfloat16() for shape in (A, B))
    compiled = compile_ir(lowered(program, a, b), backend="cpp")
    got, want = compiled.call(a, b), program(a, b)
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(g, w, rtol=2e-2, atol=0.3)
        assert g.stride() == w.stride()
    assert compiled.wrapper_source.count("out=") == count


def test_a_matrix_and_its_transpose_share_their_padding() -> None:
    graph = pad_products(lowered(both_gradients, *(torch.randn(shape).bfloat16() for shape in (A, B))))
    assert sum(node.op == "cast" and bool(node.attrs.get("exact")) for node in graph.nodes) == 2  # of `grad` and of b
