"""Triton code: interpreted on the CPU (in a process of its own), and cross-compiled for a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minicompile.codegen.compile import compile_ir
from minicompile.codegen.fusion import fuse
from minicompile.codegen.kernel_ir import Kernel
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare
from minicompile.codegen.triton import fits_int32, print_triton
from minicompile.config import config
from minicompile.inspect.cubins import cubins
from minicompile.ir.graph import Graph
from minicompile.ir.ops import POINTWISE
from minicompile.ir.types import dtype_kind

from ..lowering.support import lowered
from .build import B, entropy, gelu, layer_norm, softmax
from .in_interpreter import run_interpreted

pytest.importorskip("triton")


def kernels(graph: Graph) -> list[Kernel]:
    graph = prepare(graph)
    plan = fuse(graph, Views())
    return [lowered.kernel for lowered in lower_units(plan.units, graph).values()]


def test_kernels_in_the_interpreter() -> None:
    run_interpreted("interpreted.py", "interpreted_blocks.py", timeout=550)


def scorers() -> dict[str, Graph]:
    graphs = {}
    b = B()
    graphs["softmax"] = b.finish(softmax(b, b.input(64, 768)))
    b = B()
    graphs["softmax in registers"] = b.finish(softmax(b, b.input(64, 32000)))
    b = B()
    graphs["softmax of 50257"] = b.finish(softmax(b, b.input(64, 50257)))
    b = B()
    graphs["logsumexp of 50257"] = lowered(lambda x: x.logsumexp(1), torch.empty(600, 50257, dtype=torch.bfloat16))
    b = B()
    graphs["softmax partly read again"] = b.finish(softmax(b, b.input(64, 60000)))
    b = B()
    graphs["looped softmax"] = b.finish(softmax(b, b.input(64, 128256)))
    b = B()
    graphs["entropy"] = b.finish(entropy(b, b.input(32, 196, 768)))
    b = B()
    graphs["layer_norm + gelu"] = b.finish(gelu(b, layer_norm(b, b.input(64, 768), b.input(768), b.input(768))))
    b = B()
    x, y = b.input(64, 96, dtype=torch.bfloat16), b.input(64, 96, dtype=torch.bfloat16)
    graphs["pointwise"] = b.finish(b.add(b.mul(b.relu(b.add(x, y)), 2.0), b.sigmoid(x)))
    return graphs


SOFTMAXES = {
    "softmax": (lambda x: x.softmax(1), 1, 0), "log_softmax": (lambda x: x.log_softmax(1), 1, 0),
    "logsumexp": (lambda x: x.logsumexp(1), 1, 0), "of what is computed": (lambda x: (x * 2).softmax(1), 1, 0),
    "another maximum": (lambda x: (x - (x * 2).amax(1, True)).exp(), 0, 0),
    "a minimum": (lambda x: (x - x.amin(1, True)).exp(), 0, 0),
    "a power": (lambda x: (x - x.amax(1, True)).exp2(), 0, 0),
    "divided by another sum": (lambda x: (e := (x - x.amax(1, True)).exp()) / (e * e).sum(1, True), 1, 1),
    "wide": (lambda x: x.double().softmax(1), 0, 0),
}  # fmt: skip
"""A function, how many of its exponentials are of a difference from the row's maximum, and how many divisions by a sum
need that to be scaled."""


@pytest.mark.parametrize("name", SOFTMAXES)
def test_exponentials_below_the_maximum(name: str) -> None:
    fn, below, scaled = SOFTMAXES[name]
    x = torch.randn(600, 512)
    (kernel,) = kernels(lowered(fn, x))
    source = print_triton(kernel).source
    assert source.count("mc_exp_below(") == below and source.count("mc_divisor_scale(") == scaled


@pytest.mark.parametrize("fn", [lambda x: x.log_softmax(1), lambda x: x.logsumexp(1)])
def test_maximum_and_sum_of_a_long_row_are_one_loop(fn: Any) -> None:
    (kernel,) = kernels(lowered(fn, torch.empty(600, 70000)))
    source = print_triton(kernel).source
    assert source.count("mc_online_sum(") == 2 and "amax" not in source  # whole blocks, and the rest


UNSKEWED = {
    "of whole 16 bytes": lambda x: x[:, :50256].contiguous().softmax(1),
    "stored elsewhere": lambda x: x[:, 1:].softmax(1),
    "with a row of weights": lambda x: (x + x[0]).softmax(1),
    "gathered": lambda x: x[:, torch.arange(50257).flip(0)].softmax(1),
    "numbered": lambda x: (x + torch.arange(50257)).softmax(1),
    "summed along two dimensions": lambda x: x.softmax(1).view(8, -1).sum(1),
}


@pytest.mark.parametrize("fn", UNSKEWED.values(), ids=UNSKEWED)
def test_rows_whose_lanes_stay_where_they_are(fn: Any) -> None:
    texts = [print_triton(kernel).source for kernel in kernels(lowered(fn, torch.empty(64, 50257)))]
    assert "skew" not in "".join(texts[-1:])


def test_loads_come_first() -> None:
    x, y = torch.randn(2, 4096)
    (kernel,) = kernels(lowered(lambda x, y: x.sigmoid() * y, x, y))
    lines = [line for line in print_triton(kernel).source.splitlines() if " = " in line]
    assert ["tl.load(" in line for line in lines[2:5]] == [True, True, False]


@pytest.mark.parametrize("name", scorers())
def test_cross_compiles_to_a_cubin(name: str) -> None:
    from minicompile.codegen.triton_build import compile_to_cubin

    (kernel,) = kernels(scorers()[name])
    cubin = compile_to_cubin(kernel, arch=90)
    assert cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bool], ids=str)
def test_every_row_cross_compiles(dtype: torch.dtype) -> None:
    from minicompile.codegen.triton_build import compile_to_cubin

    b = B()
    x, y, flag = b.input(64, dtype=dtype), b.input(64, dtype=dtype), b.input(64, dtype=torch.bool)
    rows = [row for row in POINTWISE.values() if dtype_kind(dtype) in row.kinds and row.triton is not None]
    outputs = [getattr(b, row.name)(*([flag, x, y] if row.name == "where" else [x, y][: row.arity])) for row in rows]
    for kernel in kernels(b.finish(*outputs)):
        assert compile_to_cubin(kernel, arch=90)[:4] == b"\x7fELF"


def test_no_row_takes_subnormals_for_zeros() -> None:
    """Only the hardware's approximations may, which libdevice scales arguments for."""
    from minicompile.codegen.triton_build import load_functions
    from minicompile.codegen.triton_launch import Launcher

    b = B()
    x, y = b.input(64), b.input(64)
    rows = [row for row in POINTWISE.values() if "f" in row.kinds and row.triton is not None and row.arity < 3]
    found = set[str]()
    for kernel in kernels(b.finish(*(getattr(b, row.name)(*[x, y][: row.arity]) for row in rows))):
        text = print_triton(kernel)
        ptx = Launcher(text, load_functions([text])[0]).cross_compile(90).asm["ptx"]
        found |= {word for word in ptx.split() if ".ftz" in word and ".approx." not in word}
    assert not found


def test_a_batch_cross_compiles() -> None:
    from minicompile.codegen.batches import batch
    from minicompile.codegen.triton_build import compile_to_cubin

    b = B()
    xs = [b.input(size, dtype=torch.bfloat16) for size in (4096, 100, 8192, 64)]
    graph = prepare(b.finish(*(b.mul(b.exp(x), 2.0) for x in xs)))
    plan = fuse(graph, Views())
    batched = batch(plan, lower_units(plan.units, graph), at_most=8)
    (low,) = batched.lowered.values()
    assert compile_to_cubin(low.kernel)[:4] == b"\x7fELF"
    assert len(batch(plan, lower_units(plan.units, graph), at_most=4).units) == 2


def test_offsets_are_64_bit_where_they_must_be() -> None:
    b = B()
    assert fits_int32(kernels(b.finish(b.exp(b.input(1000, 1000))))[0])
    b = B()
    (large,) = kernels(b.finish(b.exp(b.input(70000, 70000))))
    assert not fits_int32(large) and "to(tl.int64)" in print_triton(large).source


def test_rows_are_persistent_or_looped() -> None:
    b = B()
    (short,) = kernels(b.finish(softmax(b, b.input(8, 768))))
    b = B()
    (long,) = kernels(b.finish(softmax(b, b.input(8, 70000))))
    assert "for start" not in print_triton(short).source and "for start" in print_triton(long).source
    assert [(p.start, p.lanes, p.masked) for p in print_triton(short).shape.pieces] == [
        (0, 256, False), (256, 256, False), (512, 256, False)]


def test_a_long_row_is_read_once_but_for_what_registers_cannot_hold() -> None:
    b = B()
    (kernel,) = kernels(b.finish(softmax(b, b.input(8, 60000))))
    text = print_triton(kernel)
    assert [(p.start, p.lanes, p.masked, p.again) for p in text.shape.pieces] == [
        (0, 32768, False, False), (32768, 8192, False, True), (40960, 8192, False, True), (49152, 8192, False, True),
        (57344, 4096, True, True)]
    assert text.source.count("tl.load(") == 1 + 4 * 3


@pytest.mark.parametrize(("n", "warps", "lanes"), [(9000, 16, 2048), (32000, 16, 4096), (50256, 8, 4096)])
def test_a_long_row_is_held_in_pieces_that_are_joined_before_their_lanes(n: int, warps: int, lanes: int) -> None:
    b = B()
    (kernel,) = kernels(b.finish(softmax(b, b.input(8, n))))
    text = print_triton(kernel)
    assert {p.lanes for p in text.shape.pieces} == {lanes} and text.shape.num_warps == warps
    assert [p.masked for p in text.shape.pieces] == [False] * (n // lanes) + [True]
    assert text.source.count("tl.reduce(") == 2 and text.source.count("tl.load(") == len(text.shape.pieces)


def test_rows_that_start_anywhere_have_few_masked_lanes() -> None:
    b = B()
    (kernel,) = kernels(b.finish(softmax(b, b.input(8, 50257))))
    shape = print_triton(kernel).shape
    assert shape.skew is not None and shape.skew.period == 4 and shape.num_warps == 8
    whole = [(1024 + 4096 * k, 4096, False) for k in range(12)]
    assert [(p.start, p.lanes, p.masked) for p in shape.pieces] == [(0, 1024, True), *whole, (50176, 1024, True)]


def test_fewer_elements_fit_where_more_of_each_is_kept() -> None:
    """Here x and exp(x), both needed after the sum."""
    b = B()
    x = b.input(8, 50257)
    (kernel,) = kernels(b.finish(b.mul(x, softmax(b, x))))
    assert print_triton(kernel).shape.rereads


@pytest.mark.parametrize(("rows", "warps"), [(1, 1), (3, 2)])
def test_weights_that_rows_share_need_no_further_warp(rows: int, warps: int) -> None:
    b = B()
    total = b.input(64, 768)
    for _ in range(rows - 1):
        total = b.add(total, b.input(64, 768))
    (kernel,) = kernels(b.finish(layer_norm(b, total, b.input(768), b.input(768))))
    assert print_triton(kernel).shape.num_warps == warps


def test_a_tile_keeps_its_lines_for_its_neighbours() -> None:
    (kernel,) = kernels(lowered(lambda x, y: x + y.T, torch.empty(512, 256), torch.empty(256, 512)))
    source = print_triton(kernel).source
    assert source.count("tl.load(") == source.count('eviction_policy="evict_last")') == 2


def test_what_lies_on_the_cpu_is_computed_there() -> None:
    """A step count beside parameters on a GPU: its kernel is C++, and is no part of a batch with theirs."""
    cuda = torch.device("cuda", 0)
    b = B()
    count, x = b.input(64), b.input(64, device=cuda)
    graph = compile_ir(b.finish(b.add(count, 1.0), b.add(x, 1.0)), backend="triton")
    assert [kernel.language for kernel in graph.kernels] == ["cpp", "triton"]


def test_max_autotune_tries_other_shapes_for_long_rows_too() -> None:
    from minicompile.codegen.triton_shape import alternatives

    b = B()
    (kernel,) = kernels(b.finish(softmax(b, b.input(8, 50257))))
    found = alternatives(kernel)
    assert {bool(shape.pieces) for shape in found} == {True, False} and len({shape.num_warps for shape in found}) > 1
    b = B()
    (wide,) = kernels(b.finish(softmax(b, b.input(8, 50257, dtype=torch.float64))))
    assert "for start" in print_triton(wide).source  # two registers an element


@pytest.mark.parametrize("exact", [False, True])
def test_machine_code_is_of_the_kernels_that_would_be_launched(exact: bool) -> None:
    """One of them stores into what it reads; and half types may be rounded at every step."""
    b = B()
    p, g, h = (b.input(64, 64, dtype=torch.bfloat16, device=torch.device("cuda", 0)) for _ in range(3))
    graph = b.finish(b.sum(b.add(b.mul(h, 3.0), 0.5), 0), writes=[(0, b.sub(p, b.mul(g, 0.1)))])
    with config.patch(exact_rounding=exact):
        compiled = compile_ir(graph, backend="triton")
        assert [cubin.source for cubin in cubins(graph)] == [kernel.source for kernel in compiled.kernels]
    assert "debug_barrier" in compiled.native_source
