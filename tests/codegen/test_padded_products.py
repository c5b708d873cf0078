"""Half-precision products of odd sizes are padded; the caller sees eager's sizes, strides and values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minicompile.codegen import plan
from minicompile.codegen.compile import compile_ir
from minicompile.codegen.padded_products import pad_products
from minicompile.codegen.prepare import prepare

from ..lowering.support import lowered

A, B = (264, 304), (304, 257)


def both_gradients(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    grad = (a @ b) * 2
    return grad @ b.T, a.T @ grad


PROGRAMS: list[tuple[Callable[..., object], list[tuple[int, ...]]]] = [
    (lambda a, b: a @ b, [(264, 264)]),
    (lambda a, b: (a @ b).view(2, 132, 257), [(264, 264)]),
    (lambda a, b: (a @ b).relu(), [(264, 264)]),
    (lambda a, b: torch.addmm(b[0], a, b), [(264, 264)]),
    (lambda a, b: torch.addmm(b[:264, :1], a, b), [(264, 257)]),
    (lambda a, b: (a @ b).T, [(264, 264)]),
    (lambda a, b: b.T @ a.T, [(264, 264)]),
    (lambda a, b: a[:257] @ b[:, :256], [(264, 256)]),
    (lambda a, b: a[:, :259] @ b[:259, :256], [(264, 256)]),
    (lambda a, b: a[:, :200] @ b[:200], [(264, 257)]),
    (lambda a, b: a[:, :256].contiguous() @ b[:256, :256].contiguous(), [(264, 256)]),
    (both_gradients, [(264, 264), (264, 304), (304, 264)]),
]
"""Programs, and the shapes of the products that are computed."""


@pytest.mark.parametrize("program, shapes", PROGRAMS)
def test_values_and_strides_are_eager_s(
    program: Callable[..., object], shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "prepare", lambda graph: prepare(pad_products(graph)))
    a, b = (torch.randn(shape).bfloat16() for shape in (A, B))
    compiled = compile_ir(lowered(program, a, b), backend="cpp")
    got, want = compiled.call(a, b), program(a, b)
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(g, w, rtol=1.6e-2, atol=1e-3)
        assert g.stride() == w.stride()
    assert compiled.prepared is not None
    assert [node.tensor.shape for node in compiled.prepared.nodes if node.op == "extern"] == shapes


def test_a_matrix_and_its_transpose_share_their_padding() -> None:
    graph = pad_products(lowered(both_gradients, *(torch.randn(shape).bfloat16() for shape in (A, B))))
    assert sum(node.op == "gather" for node in graph.nodes) == 2  # of `grad` and of b
