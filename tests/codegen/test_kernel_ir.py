"""Kernels as text: what axes, indices and stages come out of a group; and the pieces they are made with."""

from __future__ import annotations

import pytest
import sympy

from minicompile.codegen.axes import AxisSpace, NoCommonRefinement, exact_quotient
from minicompile.codegen.cpp_math import prelude
from minicompile.codegen.fusion import fuse
from minicompile.codegen.kernel_ir import Kernel
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare
from minicompile.codegen.stages import stage
from minicompile.codegen.views import is_dense, through, whole
from minicompile.ir.graph import Graph

from .build import B, softmax, tensor_type

S = sympy.Symbol("s0", integer=True, positive=True)


def kernels(graph: Graph) -> list[Kernel]:
    graph = prepare(graph)
    return [low.kernel for low in lower_units(fuse(graph, Views()).units, graph).values()]


def text(graph: Graph) -> str:
    (kernel,) = kernels(graph)
    return str(kernel)


def test_contiguous_pointwise_has_one_axis() -> None:
    b = B()
    assert text(b.finish(b.exp(b.input(4, 5, 6)))) == (
        "kernel kernel_0_exp(in0, out0) over p0 parallel 120:\n"
        "  %0: f32 = in0[p0]\n"
        "  %1: f32 = exp %0\n"
        "  out0[p0] = %1"
    )


def test_views_vanish_into_indices() -> None:
    b = B()
    x = b.slice(b.permute(b.input(4, 6), 1, 0), 0, 1, 2, 3)
    assert text(b.finish(b.neg(x))) == (
        "kernel kernel_0_neg(in0, out0) over p0 parallel 2, p1 parallel 4:\n"
        "  %0: f32 = in0[p0*3 + p1*6 + 1]\n"
        "  %1: f32 = neg %0\n"
        "  out0[p0*4 + p1] = %1"
    )


def test_softmax_over_a_symbolic_batch() -> None:
    b = B()
    assert text(b.finish(softmax(b, b.input(S, 3, 8)), symbols={"s0": 4})) == (
        "kernel kernel_0_exp_sum_div(in0, out0) over p0 parallel (3*s0), r0 reduce 8:\n"
        "  %0: f32 = in0[p0*8 + r0]\n"
        "  %1: f32 = reduce amax %0\n"
        "  %2: f32 = sub %0, %1\n"
        "  %3: f32 = exp %2\n"
        "  %4: f32 = reduce sum %3\n"
        "  %5: f32 = div %3, %4\n"
        "  out0[p0*8 + r0] = %5"
    )


def test_stages_keep_what_is_dear_and_recompute_what_is_cheap() -> None:
    b = B()
    (kernel,) = kernels(b.finish(softmax(b, b.input(4, 8))))
    stages = stage(kernel, frozenset({"r0"}), 8)
    assert [[v.op for v in loop] for loop in stages.loops] == [
        ["load", "reduce"], ["load", "sub", "exp", "reduce"], ["exp", "div", "store"]]
    assert [v.op for v in stages.kept] == ["exp"]
    again = stage(kernel, frozenset({"r0"}), 1 << 30)
    assert [v.op for v in again.loops[2]] == ["load", "sub", "exp", "div", "store"] and not again.kept


def test_common_refinement_of_two_factorisations() -> None:
    space = AxisSpace()
    left, right = (space.new(6), space.new(4)), (space.new(2), space.new(12))
    space.unify((left[0] + left[1],), (right[0] + right[1],))
    atoms = space.resolve(left[0] + left[1])
    assert atoms == space.resolve(right[0] + right[1]) and [space.sizes[a] for a in atoms] == [2, 3, 4]
    assert space.coefficients(left[0], 4) == [(atoms[1], 4), (atoms[0], 12)]


def test_no_common_refinement() -> None:
    space = AxisSpace()
    with pytest.raises(NoCommonRefinement, match="4 and 6|6 and 4"):
        space.unify((space.new(3) + space.new(4),), (space.new(2) + space.new(6),))


def test_nothing_is_no_multiple_of_something() -> None:
    """0 = 24 · 0 = 24 · 24 · 0 …: cut off for ever."""
    space = AxisSpace()
    with pytest.raises(NoCommonRefinement, match="0"):
        space.unify((space.new(0) + space.new(4) + space.new(96),), (space.new(0) + space.new(4),))


def test_exact_quotients() -> None:
    assert exact_quotient(12, 4) == 3 and exact_quotient(12, 5) is None and exact_quotient(5, 0) is None
    assert exact_quotient(6 * S, 3) == 2 * S and exact_quotient(S, 2) is None and exact_quotient(S * 4, S) == 4


def test_strided_views() -> None:
    b = B()
    x = b.input(2, 3, 4)
    merged = b.reshape(b.permute(x, 1, 0, 2), 3, 8)
    view = through(through(whole((2, 3, 4), (12, 4, 1)), merged.args[0]), merged)
    assert view.dims == (((3, 4),), ((2, 12), (4, 1))) and view.strides is None
    flat = b.reshape(x, 6, 4)
    assert through(whole((2, 3, 4), (12, 4, 1)), flat).strides == (4, 1)


def test_dense_strides() -> None:
    assert is_dense(tensor_type((2, 3))) and is_dense(tensor_type((2, 3), strides=(1, 2)))
    assert not is_dense(tensor_type((2, 3), strides=(6, 1))) and not is_dense(tensor_type((2, 3), strides=(0, 1)))


def test_prelude_holds_only_what_is_used() -> None:
    text = prelude("x = mc_tanh(y);")
    assert "mc_exp_mid" in text and "mc_log" not in text and "mc_turns" not in text
    with pytest.raises(ValueError, match="mc_nothing"):
        prelude("mc_nothing(x)")
