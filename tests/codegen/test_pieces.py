"""Kernels cut where their masks change: what is cut, what is left alone, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp
from minicompile.codegen.fusion import fuse
from minicompile.codegen.kernel_ir import Affine, Axis, Buffer, Kernel, Value
from minicompile.codegen.pieces import AT_MOST, _at_most, pieces
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare


def kernels_of(fn: Callable[..., Any], *args: Tensor) -> list[Kernel]:
    """The kernels of a function as code generation sees them; its results are checked against eager's."""
    compiled = minicompile.compile(fn, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), fn(*args))
    graph = prepare(compiled.entries[0].graphs[0].compiled.ir)
    return [low.kernel for low in lower_units(fuse(graph, Views()).units, graph).values()]


def masked_loads(kernel: Kernel) -> int:
    return sum(value.op == "load" and bool(value.attrs.get("masked")) for value in kernel.body)


def test_concatenated_tensors_are_loaded_without_masks() -> None:
    (kernel,) = kernels_of(lambda *xs: torch.relu(torch.cat(xs)), *(torch.randn(3 + i, 40) for i in range(4)))
    parts = pieces(kernel)
    assert len(parts) == 4 and masked_loads(kernel) == 4 and not any(map(masked_loads, parts))
    assert len({part.name for part in parts} | {kernel.name}) == 5


def test_padding_on_all_sides() -> None:
    (kernel,) = kernels_of(lambda x: F.pad(x, (20, 24, 2, 3), value=1.5) * 2, torch.randn(2, 30, 64))
    parts = pieces(kernel)
    assert len(parts) == 9 and not any(map(masked_loads, parts))
    assert sum(any(value.op == "load" for value in part.body) for part in parts) == 1


def test_short_ends_of_a_row_are_not_cut_off() -> None:
    (kernel,) = kernels_of(lambda x: F.pad(x, (1, 1)) * 2, torch.randn(30, 64))
    assert pieces(kernel) == [kernel]


def test_too_many_parts_stay_together() -> None:
    count = AT_MOST + 1
    kernels = kernels_of(lambda *xs: torch.cat(xs) + 1, *(torch.randn(2, 40) for _ in range(count)))
    assert [pieces(kernel) for kernel in kernels] == [[kernel] for kernel in kernels]


def test_halves_of_a_row_that_change_places() -> None:
    def rotate(x: Tensor, cos: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1)

    kernels = kernels_of(rotate, torch.randn(4, 6, 64), torch.randn(6, 64))
    assert any(len(pieces(kernel)) == 2 for kernel in kernels)


def walks(fn: Callable[..., Any], *args: Tensor) -> int:
    """How many C++ functions the function's one kernel calls, or 1 if it does all by itself."""
    (kernel,) = kernels_of(fn, *args)
    return cpp.print_cpp(kernel).count("static int ") or 1


def test_parts_of_the_same_rows_share_a_walk() -> None:
    xs = [torch.randn(30, 40) for _ in range(3)]
    assert walks(lambda *xs: torch.relu(torch.cat(xs, 1)), *xs) == 1
    assert walks(lambda *xs: torch.relu(torch.cat(xs, 0)), *xs) == 3, "these are rows of their own"
    assert walks(lambda x: F.pad(x, (20, 24, 2, 3), value=1.5) * 2, torch.randn(30, 64)) == 3
    assert walks(lambda x, y: torch.cat((x, y.t()), 1) * 2, torch.randn(256, 128), torch.randn(128, 256)) == 2, "tiles"
    assert walks(lambda *xs: torch.relu(torch.cat(xs)), *(torch.randn(40) for _ in range(3))) == 3, "no rows"


def test_an_index_is_refused_in_any_part() -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        return torch.cat((x * 2, x[i]), 1) + 1

    compiled, x = minicompile.compile(fn), torch.randn(20, 32)
    torch.testing.assert_close(compiled(x, torch.arange(20).flip(0)), fn(x, torch.arange(20).flip(0)))
    with pytest.raises(IndexError, match="out of"):
        compiled(x, torch.arange(20) + 1)


def test_a_reduction_of_a_concatenation() -> None:
    kernels_of(lambda x, y: torch.cat((x, y)).sum(1), torch.randn(20, 50), torch.randn(30, 50))
    kernels_of(lambda x, y: torch.cat((x, y)).softmax(0), torch.randn(20, 50), torch.randn(30, 50))


def test_a_reduction_that_a_mask_removes_in_one_part() -> None:
    """For p0 ≥ 40 each row is copied whole, without any reduction: that part alone would have no loop over the row."""
    x, y, out = (Buffer(name, torch.float32, 500, name == "out0") for name in ("in0", "in1", "out0"))
    row = Affine((("p0", 5), ("r0", 1)))
    index = Value("index", (), torch.int64, {"index": Affine((("p0", 1),))})
    limit = Value("const", (), torch.int64, {"value": 40})
    mask = Value("lt", (index, limit), torch.bool)
    loads = [Value("load", (), torch.float32, {"buffer": buffer, "index": row}) for buffer in (x, y)]
    total = Value("reduce", (loads[0],), torch.float32, {"kind": "sum"})
    chosen = Value("where", (mask, total, loads[1]), torch.float32)
    store = Value("store", (chosen,), torch.float32, {"buffer": out, "index": row, "block": True})
    axes = (Axis("p0", 100, "parallel", 100), Axis("r0", 5, "reduce", 5))
    kernel = Kernel("k", axes, (x, y, out), (index, limit, mask, *loads, total, chosen, store), ())
    assert pieces(kernel) == [kernel]


def comparison_kernel(op: str, constant: int, offset: int) -> Kernel:
    """out[i] = op(i + offset, constant) over i < 100, as a kernel of its own."""
    index = Value("index", (), torch.int64, {"index": Affine((("p0", 1),), offset)})
    other = Value("const", (), torch.int64, {"value": constant})
    compared = Value(op, (index, other), torch.bool)
    out = Buffer("out0", torch.bool, 100, True)
    place = {"buffer": out, "index": Affine((("p0", 1),)), "block": True}
    store = Value("store", (compared,), torch.bool, place)
    return Kernel("k", (Axis("p0", 100, "parallel", 100),), (out,), (index, other, compared, store), ())


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize(("constant", "offset"), [(40, 0), (40, -7), (-5, 0), (99, 0), (100, 0), (1000, 0), (40, 24)])
def test_each_piece_decides_the_comparison_rightly(op: str, constant: int, offset: int) -> None:
    want = getattr(torch, op)(torch.arange(100) + offset, constant).tolist()
    got: list[bool] = []
    kernel = comparison_kernel(op, constant, offset)
    parts = pieces(kernel)
    for part in parts:
        (value,) = next(iter(part.stores())).args
        if value.op != "const":
            assert parts == [kernel]  # an end is too short to be cut off
            return
        assert next(iter(part.stores())).attrs["index"].offset == len(got)
        got += [value.attrs["value"]] * int(part.axes[0].size)
    assert got == want


def test_parts_of_unknown_sizes() -> None:
    """Sums of sizes are in order whatever the sizes are; sizes 0 and 1 are compiled anew."""
    compiled = minicompile.compile(lambda *xs: torch.relu(torch.cat(xs)), fullgraph=True, dynamic=True)
    for sizes in ((3, 4, 5), (7, 2, 6), (2, 9, 2), (5, 0, 3)):
        xs = [torch.randn(size, 40) for size in sizes]
        torch.testing.assert_close(compiled(*xs), torch.relu(torch.cat(xs)))
    graph = prepare(compiled.entries[0].graphs[0].compiled.ir)
    (low,) = lower_units(fuse(graph, Views()).units, graph).values()
    parts = pieces(low.kernel)
    assert len(parts) == 3 and not any(map(masked_loads, parts))


def test_halves_of_an_unknown_size() -> None:
    """A half is at most the whole, and its length while tracing is known."""

    def rotate(x: Tensor, cos: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1)

    compiled = minicompile.compile(rotate, fullgraph=True, dynamic=True)
    for size in (256, 35, 8):  # a half of one element would be compiled anew
        x, cos = torch.randn(4, 6, size), torch.randn(6, size)
        torch.testing.assert_close(compiled(x, cos), rotate(x, cos))
    graph = prepare(compiled.entries[0].graphs[0].compiled.ir)
    (low,) = lower_units(fuse(graph, Views()).units, graph).values()
    parts = pieces(low.kernel)
    assert len(compiled.entries) == 1 and len(parts) == 2 and not any(map(masked_loads, parts))
    assert [part.axes[-1].hint for part in parts] == [128, 128]


@pytest.mark.parametrize(("one", "other", "certain"), [
    ("0", "s - floor((s + 1) / 2)", True), ("floor(s / 2)", "s", True), ("s", "2 * floor(s / 2)", False),
    ("s - 1", "2 * floor(s / 2)", True), ("floor(s / 2)", "floor((s + 1) / 2)", True),
    ("floor(s / 3)", "floor(s / 2)", True), ("1", "floor(s / 2)", False), ("floor(s / 2)", "floor(t / 2)", False),
    ("floor(s / 2)", "floor(s / 2) + t", True),
])  # fmt: skip
def test_the_order_of_floor_divisions(one: str, other: str, certain: bool) -> None:
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    s, t = sympy.symbols("s t", integer=True, positive=True)

    def read(text: str) -> Any:
        expr = sympy.sympify(text, locals={"s": s, "t": t})
        floors = {floor: FloorDiv(*sympy.fraction(sympy.together(floor.args[0]))) for floor in expr.atoms(sympy.floor)}
        return expr.xreplace(floors)

    assert _at_most(read(one), read(other)) is certain


@pytest.mark.parametrize("fn", [
    lambda x, n: F.pad(x, (0, 0, n, 2)) + 1, lambda x, n: F.pad(x, (n, 20), value=2.0) * 2,
    lambda x, n: torch.cat((x[:n], x, x[n:])) * 2,
])  # fmt: skip
def test_places_that_may_be_negative(fn: Callable[..., Tensor]) -> None:
    """What a Python int says is no size: its sign, and so the order of the places, is not certain."""
    compiled = minicompile.compile(fn, dynamic=True)
    x = torch.randn(30, 40)
    for n in (3, 5, -2, -4, 9):
        torch.testing.assert_close(compiled(x, n), fn(x, n))
