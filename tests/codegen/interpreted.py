"""Generated Triton kernels in Triton's interpreter, against the reference. Run by test_triton.py in a process of its
own: TRITON_INTERPRET must be set before triton is imported."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import sympy
import torch

from minicompile import passes
from minicompile.codegen import triton_shape
from minicompile.codegen.compile import compile_ir
from minicompile.codegen.fusion import fuse
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare, storage_strides
from minicompile.codegen.split_reductions import split_reductions
from minicompile.codegen.triton import print_triton
from minicompile.codegen.triton_build import interpret
from minicompile.ir.graph import Graph
from minicompile.ir.ops import POINTWISE, VIEWS
from minicompile.ir.reference import bind_sizes, run, shape_of
from minicompile.ir.special_ops import LIBDEVICE
from minicompile.ir.types import dtype_kind

from ..lowering.support import lowered
from ..lowering.test_index_rules import ONE_TENSOR, grid
from .build import B, entropy, gelu, layer_norm, softmax
from .checked_addresses import addresses_are_checked  # noqa: F401 - for every test here
from .random_graphs import random_graph

WITHOUT_LIBDEVICE = {"asin", "acos", "atan", "atan2"}


def interpreted(graph: Graph, *inputs: Any) -> list[torch.Tensor]:
    """Run the graph's kernels one after the other; outputs must be nodes that kernels store."""
    graph = prepare(split_reductions(graph))
    plan = fuse(graph, Views())
    sizes = bind_sizes(graph, inputs)
    memory: dict[Any, Any] = dict(zip(graph.inputs, inputs, strict=True))
    memory.update((node, node.attrs["value"]) for node in graph.nodes if node.op == "constant")
    for unit, low in lower_units(plan.units, graph).items():
        for node in unit.stored:
            shape, strides = shape_of(node.tensor.shape, sizes), shape_of(storage_strides(node), sizes)
            memory[node] = torch.empty_strided(shape, strides, dtype=node.tensor.dtype)
        interpret(low.kernel, *(memory[n] for n in low.nodes), *(sizes[s] for s in low.kernel.symbols))
    return [memory[out] for out in graph.outputs]


def sources(graph: Graph) -> list[str]:
    """The texts of the graph's kernels."""
    graph = prepare(split_reductions(graph))
    return [print_triton(low.kernel).source for low in lower_units(fuse(graph, Views()).units, graph).values()]


def check(graph: Graph, *inputs: Any, tolerance: float = 1e-5) -> None:
    wanted = run(graph, *inputs)
    for got, want in zip(interpreted(graph, *inputs), wanted, strict=True):
        assert got.dtype == want.dtype and torch.allclose(
            got.double(), want.double(), rtol=tolerance, atol=tolerance, equal_nan=True), (got, want)


@pytest.mark.parametrize("n", [1, 5, 100, 128])
def test_scorers(n: int) -> None:
    b = B()
    check(b.finish(softmax(b, b.input(7, n))), torch.randn(7, n))
    b = B()
    check(b.finish(entropy(b, b.input(2, 5, n))), torch.randn(2, 5, n))


@pytest.mark.parametrize("n", [384, 1152, 1100, 515, 2049])
def test_rows_in_pieces(n: int) -> None:
    x = torch.randn(3, n)
    b = B()
    check(b.finish(entropy(b, b.input(3, n))), x)
    b = B()
    check(b.finish(softmax(b, b.input(3, n))), x)


def test_log_is_right_to_a_few_ulp() -> None:
    x = torch.cat([torch.logspace(-38, 38, 500), torch.linspace(0.5, 2, 500), torch.tensor([0.0, -1.0, math.inf])])
    b = B()
    got = interpreted(b.finish(b.log(b.input_like(x))), x)[0]
    want = x.double().log()
    assert torch.allclose(got.double(), want, rtol=4e-7, atol=0, equal_nan=True)


EXTREMES = {
    "all -inf": [-math.inf] * 900, "a row with inf": [1.0] * 400 + [math.inf] + [2.0] * 499,
    "a row with NaN": [1.0] * 899 + [math.nan], "starts with -inf": [-math.inf] * 500 + [3.0] * 400,
    "far apart": [-200.0] * 450 + [90.0] * 450,
}
KEPT = {
    "in pieces that are alike": (1024, 1024, 0, 1), "in registers": (0, 1024, 0, 1),
    "partly read again": (0, 512, 512, 1), "looped online": (0, 0, 0, 10),
}  # fmt: skip
"""What of a long row is held, alike or not, what is read again at most (small: the interpreter is slow); how often it
is repeated."""


def hold(patch: pytest.MonkeyPatch, alike: int, held: int, again: int) -> None:
    sizes = {"PERSISTENT": 64, "HELD": held, "AGAIN": again, "HELD_WARPS": 4}
    for name, value in {**sizes, "ALIKE": ((alike // 2, 4, 128), (alike, 4, 256))}.items():
        patch.setattr(triton_shape, name, value)


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("name", EXTREMES)
def test_softmax_of_long_rows_keeps_the_edges(name: str, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *sizes, times = KEPT[kept]
    hold(monkeypatch, *sizes)
    x = torch.tensor(EXTREMES[name]).repeat_interleave(times)[None].repeat(2, 1)
    check(lowered(lambda x: (x.log_softmax(1), x.softmax(1)), x), x)


@pytest.mark.parametrize("name", [*EXTREMES, "all inf"])
def test_logsumexp_of_long_rows_keeps_the_edges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(monkeypatch, *KEPT["looped online"][:3])
    row = torch.tensor({"all inf": [math.inf] * 900, **EXTREMES}[name]).repeat_interleave(3)
    x = torch.stack([row, row.flip(0)])
    check(lowered(lambda x: x.logsumexp(1, keepdim=True), x), x)


SKEWED = {
    "in registers": (1, 2200, lambda x: x.softmax(1) * 1e2),
    "looped online": (5, 0, lambda x: x.logsumexp(1, keepdim=True)),
    "stored in another dtype": (1, 2200, lambda x: x.softmax(1).bfloat16()),
    "from the second on": (5, 0, lambda x: x[:, 1:].logsumexp(1, keepdim=True)),
}  # fmt: skip
"""How often a row is repeated, how much of it may be held, and what is computed of rows that start at any address."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [1021, 1022, 1023, 1025])
@pytest.mark.parametrize("name", SKEWED)
def test_rows_that_start_anywhere(name: str, n: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before a row, here a NaN or an infinity, is read and must not count."""
    times, held, fn = SKEWED[name]
    hold(monkeypatch, held, held, 0)
    x = torch.randn(9, n * times).to(dtype)
    x[::2, -1], x[5, -1] = math.nan, math.inf
    graph = lowered(fn, x)
    assert all("skew = " in text for text in sources(graph))
    check(graph, x, tolerance=1e-5 if dtype == torch.float32 and name != "stored in another dtype" else 2e-2)


@pytest.mark.parametrize("alike", [0, 800])
@pytest.mark.parametrize("n", [65, 256, 300, 513, 700, 785, 1000, 1024, 1025])
def test_rows_that_one_processor_holds(n: int, alike: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(monkeypatch, alike, 512, 512)
    x = torch.randn(2, n) + 3
    check(lowered(lambda x: x.softmax(1) * 1e2, x), x)
    check(lowered(lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True), x), x)


@pytest.mark.parametrize("divisor", [0.0, 1e-44, 1e-30, 3.0, 1e38, math.inf, math.nan])
def test_division_by_a_row_sum(divisor: float) -> None:
    x = torch.tensor([[divisor, 0, 0, 0], [divisor, 1, 2, 3]]).repeat(1, 1)
    y = torch.tensor([[1.0, 0.0, -2.0, 1e-42], [0.0, 5.0, math.inf, 1e38]])
    check(lowered(lambda x, y: y / x.sum(1, keepdim=True), x, y), x, y, tolerance=1e-6)


def test_transposes_in_tiles() -> None:
    x, y, z = torch.randn(3, 70, 100), torch.randn(3, 100, 70), torch.randn(100, 70)
    check(lowered(lambda x, y, z: x + y.transpose(1, 2) * 2 + z.T, x, y, z), x, y, z)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    check(lowered(lambda a, b: torch.where(a > b.T, a, 0).exp() + a[:, 5:6].T, a, b), a, b)


SPLIT = {
    "all": (lambda x: ((x * x).sum(), x.amax(), x.mean()), (64, 2048)),
    "columns": (lambda x: (x.sum(0), x.amin(0)), (2048, 40)),
    "inner dimensions": (lambda x: x.var((0, 2)), (16, 5, 1024)),
    "a prime": (lambda x: x.sum(), (65537,)),
    "few rows": (lambda x: x.softmax(1), (2, 65536)),
    "variance of columns": (lambda x: torch.var_mean(x + 30, 0), (40000, 7)),
    "variance of channels": (lambda x: (x - 50).std((0, 2)), (16, 8, 2048)),
    "variance of all": (lambda x: (x * 3 + 100).std(), (1 << 16,)),
}


@pytest.mark.parametrize("name", SPLIT)
def test_split_reductions(name: str) -> None:
    fn, shape = SPLIT[name]
    x = torch.randn(shape)
    check(without_views(lowered(fn, x)), x, tolerance=1e-4)


def test_an_index_out_of_range_stops_the_kernel() -> None:
    x, index = torch.randn(10, 4), torch.tensor([1, 10])
    graph = lowered(lambda x, i: x[i] * 2, x, torch.tensor([1, 9]))
    with pytest.raises(Exception, match="index out of range"):
        interpreted(graph, x, index)


def test_layer_norm_and_gelu() -> None:
    b = B()
    graph = b.finish(gelu(b, layer_norm(b, b.input(6, 50), b.input(50), b.input(50))))
    check(graph, torch.randn(6, 50), torch.randn(50), torch.randn(50))


def test_long_rows_are_looped(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(monkeypatch, 0, 0, 0)
    b = B()
    x = b.input(3, 9000)
    check(b.finish(softmax(b, x), b.sum(x, 1), b.amin(x, 1)), torch.randn(3, 9000))


def test_columns_and_several_dimensions() -> None:
    b = B()
    x = b.input(4, 9, 6)
    check(b.finish(b.sum(x, 0), b.amax(x, 1), b.sum(x, 0, 2), b.sum(x, 0, 1, 2)), torch.randn(4, 9, 6))


def test_nan_wins() -> None:
    data = torch.randn(3, 20)
    data[0, 3], data[1] = math.nan, -math.inf
    b = B()
    x = b.input(3, 20)
    check(b.finish(b.amax(x, 1), b.amin(x, 1), b.relu(x), b.maximum(x, 0.5)), data)


def test_rows_and_columns_without_elements() -> None:
    """Nothing is read: an empty tensor's address is null."""
    for dtype in (torch.int32, torch.float32):
        b = B()
        x, y = b.input(0, 4, dtype=dtype), b.input(5, 0, dtype=dtype)
        outputs = (b.sum(x, 0), b.prod(x, 0), b.sum(y, 1), b.prod(y, 1), b.sum(x, 0, 1))
        check(b.finish(*outputs), torch.empty(0, 4, dtype=dtype), torch.empty(5, 0, dtype=dtype))


def test_the_sign_of_a_zero_is_turned() -> None:
    for dtype in (torch.float32, torch.float64):
        b = B()
        (got,) = interpreted(b.finish(b.neg(b.input(3, dtype=dtype))), torch.tensor([0.0, -0.0, 1.0], dtype=dtype))
        assert got.signbit().tolist() == [True, False, True]


def test_integers_and_bools() -> None:
    data = torch.randint(-50, 50, (5, 33), dtype=torch.int32)
    b = B()
    x = b.input(5, 33, dtype=torch.int32)
    divided = b.floor_divide(x, 7), b.remainder(x, -7), b.trunc_divide(x, 4), b.fmod(x, 5)
    check(b.finish(b.sum(x, 1), b.prod(x, 1), b.amax(x, 1), *divided, b.pow(x, 3)), data)
    b = B()
    flag = b.input(5, 33, dtype=torch.bool)
    check(b.finish(b.any(flag, 1), b.all(flag, 1), b.amax(flag, 1), b.logical_not(flag)), data > 45)


def test_half_types() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        b = B()
        x = b.input(5, 33, dtype=dtype)
        y = b.cast(b.mul(b.cast(x, torch.float32), 3.0), dtype)
        check(b.finish(b.add(y, y), b.sum(x, 1)), torch.randn(5, 33).to(dtype), tolerance=2e-2)


def test_views_masks_and_indices() -> None:
    b = B()
    x = b.input(6, 6)
    mask = b.le(b.iota(1, 6, 6), b.iota(0, 6, 6))
    y = b.where(mask, b.permute(x, 1, 0), float("-inf"))
    check(b.finish(softmax(b, y), b.mul(b.slice(x, 1, 1, 3), b.slice(x, 1, 0, 3, 2))), torch.randn(6, 6))


def test_symbolic_sizes() -> None:
    size = sympy.Symbol("s0", integer=True, positive=True)
    b = B()
    graph = b.finish(softmax(b, b.input(size, 40)), symbols={"s0": 8})
    check(graph, torch.randn(11, 40))
    b = B()
    check(b.finish(softmax(b, b.input(4, size)), symbols={"s0": 8}), torch.randn(4, 2100))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool], ids=str)
def test_every_row_that_needs_no_libdevice(dtype: torch.dtype) -> None:
    kind = dtype_kind(dtype)
    x = torch.linspace(0.0531, 0.949, 40) if kind == "f" else torch.randint(1, 9, (40,)).to(dtype)
    y = x.flip(0)
    b = B()
    nodes = [b.input_like(x), b.input_like(y), b.input(40, dtype=torch.bool)]
    absent = WITHOUT_LIBDEVICE | LIBDEVICE | {"acosh"}
    rows = [row for row in POINTWISE.values() if kind in row.kinds and row.name not in absent and row.triton]
    outputs = []
    for row in rows:
        arguments = nodes[: row.arity] if row.name != "where" else [nodes[2], nodes[0], nodes[1]]
        outputs.append(getattr(b, row.name)(*arguments))
    check(b.finish(*outputs), x, y, x > x.flip(0), tolerance=1e-4)


INDEXED = ("cat", "stack", "pad", "flip", "roll", "unfold", "diagonal", "index", "two indices", "gather", "embedding",
           "slice_scatter", "slice_scatter by steps", "argmax", "avg_pool", "max_pool places")


@pytest.mark.parametrize("name", INDEXED)
def test_masked_and_indirect_loads(name: str) -> None:
    x = grid(4, 6)
    check(without_views(passes.run(lowered(ONE_TENSOR[name], x))), x)


@pytest.mark.parametrize("length", [6, 5000, 9000])
def test_scans(length: int) -> None:
    x = torch.randn(3, length) / length**0.5
    check(lowered(lambda x: x.cumsum(1) * 2, x), x, tolerance=1e-4)
    check(lowered(lambda x: (x > 0).cumsum(1), x), x)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int) -> None:
    graph, inputs = random_graph(seed, nodes=12)
    check(without_views(graph), *inputs, tolerance=1e-4)


def without_views(graph: Graph) -> Graph:
    """The graph with those outputs only that kernels store."""
    return replace(graph, outputs=tuple(out for out in graph.outputs if out.op not in VIEWS and out.op != "input"))


def test_an_output_may_be_an_input() -> None:
    def step(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)

    p, g, m = torch.randn(3000), torch.randn(3000), torch.randn(3000)
    compiled = compile_ir(passes.run(lowered(step, p, g, m)), backend="triton")
    assert "copy_" not in compiled.wrapper_source and "debug_barrier" in compiled.native_source
    want = [p.clone(), g.clone(), m.clone()]
    compiled(p, g, m)
    step(*want)
    assert torch.allclose(p, want[0]) and torch.allclose(m, want[2])


BATCHES = {
    "sizes differ": (lambda *xs: [x.sin() * 2 for x in xs], ((3,), (70, 64), (7,), (300, 40))),
    "reductions": (lambda *xs: [x.pow(2).sum(1) for x in xs], ((4, 50),) * 5),
    "long rows": (lambda *xs: [x.softmax(1) for x in xs], ((2, 9000),) * 3),
    "tiles": (lambda *xs: [x + x.t() for x in xs], ((40, 40),) * 4),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name: str) -> None:
    function, sizes = BATCHES[name]
    args = [torch.randn(size) for size in sizes]
    compiled = compile_ir(passes.run(lowered(function, *args)), backend="triton")
    assert len(compiled.kernels) == 1 and f"_x{len(args)}" in compiled.kernels[0].name
    for got, want in zip(compiled(*args), function(*args), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_rotary_is_one_kernel() -> None:
    def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    x, cos, sin = torch.randn(2, 3, 5, 8), torch.randn(5, 8), torch.randn(5, 8)
    graph = passes.run(lowered(rotary, x, cos, sin))
    assert len(fuse(prepare(graph), Views()).units) == 1
    check(graph, x, cos, sin)
