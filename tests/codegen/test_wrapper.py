"""The generated wrapper: extern calls, memory, aliases, written inputs, symbolic sizes."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import sympy
import torch

from minicompile.codegen import compile_ir
from minicompile.codegen.memory import plan_memory
from minicompile.ir.graph import BufferView, GraphBuilder, InputView
from minicompile.ir.reference import run
from minicompile.ir.types import SizeType

from .build import CPU, B, entropy, softmax, tensor_type

aten = torch.ops.aten
S = sympy.Symbol("s0", integer=True, positive=True)


def test_extern_between_kernels() -> None:
    b = B()
    x, w = b.input(6, 8), b.input(8, 5)
    product = b.extern(aten.mm.default, b.relu(x), w, type=tensor_type((6, 5)))
    graph = b.finish(b.exp(product))
    compiled = compile_ir(graph)
    inputs = torch.randn(6, 8), torch.randn(8, 5)
    assert torch.allclose(compiled(*inputs)[0], run(graph, *inputs)[0])
    assert compiled.externs == ["aten.mm.default"] and len(compiled.kernels) == 2
    assert "del buf" in compiled.wrapper_source


def test_extern_gets_views_lists_keywords_and_sizes() -> None:
    b = B()
    x, y = b.input(4, 3), b.input(4, 3)
    joined = b.extern(aten.cat.default, (b.permute(x, 1, 0), b.permute(b.exp(y), 1, 0)), 1, type=tensor_type((3, 8)))
    scaled = b.extern(aten.add.Tensor, joined, joined, type=tensor_type((3, 8)), kwargs={"alpha": 2})
    summed = b.extern(aten.add.Tensor, scaled, joined, type=tensor_type((3, 8)), keywords=("other",))
    graph = b.finish(summed)
    inputs = torch.randn(4, 3), torch.randn(4, 3)
    assert torch.allclose(compile_ir(graph)(*inputs)[0], run(graph, *inputs)[0])


def test_extern_with_several_results() -> None:
    b = B()
    x = b.input(4, 6)
    types = (tensor_type((4,)), tensor_type((4,), torch.int64))
    both = b.extern(aten.max.dim, x, 1, type=types)
    values, indices = (b.builder.add("getitem", (both, i), t) for i, t in enumerate(types))
    graph = b.finish(b.exp(values), indices)
    data = torch.randn(4, 6)
    got, want = compile_ir(graph)(data), run(graph, data)
    assert torch.allclose(got[0], want[0]) and torch.equal(got[1], want[1])


def test_merged_heads_are_copied_for_an_extern() -> None:
    b = B()
    x, w = b.input(2, 3, 5, 4), b.input(12, 7)
    merged = b.reshape(b.permute(x, 0, 2, 1, 3), 10, 12)
    graph = b.finish(b.extern(aten.mm.default, merged, w, type=tensor_type((10, 7))))
    inputs = torch.randn(2, 3, 5, 4), torch.randn(12, 7)
    compiled = compile_ir(graph)
    assert torch.allclose(compiled(*inputs)[0], run(graph, *inputs)[0]) and len(compiled.kernels) == 1


def test_effects_keep_their_order() -> None:
    b = B()
    t = tensor_type((100,))
    x = b.input(100)
    draws = [b.extern(aten.rand_like.default, x, type=t, effect=True) for _ in range(3)]
    graph = b.finish(b.add(draws[2], 0.0), b.add(draws[0], 0.0), draws[1])
    compiled = compile_ir(graph)
    torch.manual_seed(5)
    got = compiled(torch.zeros(100))
    torch.manual_seed(5)
    want = [torch.rand(100) for _ in range(3)]
    assert torch.equal(got[0], want[2]) and torch.equal(got[1], want[0]) and torch.equal(got[2], want[1])


def test_inputs_are_written_last_and_may_be_swapped() -> None:
    b = B()
    x, y = b.input(5), b.input(5)
    graph = b.finish(b.add(x, y), writes=[(0, y), (1, x)])
    p, q = torch.randn(5), torch.randn(5)
    old_p, old_q = p.clone(), q.clone()
    (total,) = compile_ir(graph)(p, q)
    assert torch.equal(p, old_q) and torch.equal(q, old_p) and torch.equal(total, old_p + old_q)


def test_a_written_value_that_is_an_output_too() -> None:
    b = B()
    x = b.input(5)
    y = b.exp(x)
    data = torch.randn(5)
    old = data.clone()
    (out,) = compile_ir(b.finish(y, writes=[(0, y)]))(data)
    assert torch.equal(data, out) and torch.allclose(out, old.exp()) and out.data_ptr() != data.data_ptr()


def test_views_of_inputs_as_outputs() -> None:
    b = B()
    x = b.input(4, 6)
    view = InputView(0, tensor_type((6,)), offset=6)
    graph = b.finish(InputView(0, x.tensor, whole=True), view, writes=[(0, b.exp(x))])
    base = torch.randn(5, 6)
    data = base[1:]
    whole, row = compile_ir(graph)(data)
    assert whole is data and row.data_ptr() == data[1].data_ptr() and torch.equal(row, data[1])


def test_outputs_that_share_memory() -> None:
    b = B()
    y = b.exp(b.input(4, 6))
    one = BufferView(y, y.tensor)
    graph = b.finish(one, one, BufferView(y, tensor_type((6,)), 12), y)
    first, second, row, own = compile_ir(graph)(torch.randn(4, 6))
    assert first is second and row.data_ptr() == first[2].data_ptr() and torch.equal(row, first[2])
    assert torch.equal(own, first) and own.data_ptr() != first.data_ptr()


def test_constants_scalars_and_none() -> None:
    b = B()
    value = torch.randn(3)
    constant = b.builder.add("constant", (), tensor_type((3,)), value=value)
    compiled = compile_ir(b.finish(b.add(b.input(3), constant), 5, None, True, constant))
    data = torch.randn(3)
    out = compiled(data)
    assert torch.allclose(out[0], data + value) and out[1:4] == (5, None, True)
    assert torch.equal(out[4], value) and out[4].data_ptr() != value.data_ptr()


def test_output_strides_are_eagers() -> None:
    b = B()
    x = b.builder.input(tensor_type((4, 6), strides=(1, 4)), "x")
    y = b.builder.add("exp", (x,), tensor_type((4, 6), strides=(1, 4)))
    data = torch.randn(6, 4).t()
    (out,) = compile_ir(b.finish(y))(data)
    assert out.stride() == (1, 4) and torch.allclose(out, data.exp())


# --- symbolic sizes -----------------------------------------------------------------------------------------


def symbolic(build: Any, *, argument: bool) -> Any:
    """A graph over x[s0, 96], with s0 as an argument of its own or read from the shape."""
    b = B()
    if argument:
        b.builder.input(SizeType(S), "s0")
    return compile_ir(b.finish(build(b, b.input(S, 96)), symbols={"s0": 8}))


@pytest.mark.parametrize("argument", [True, False])
@pytest.mark.parametrize("build", [entropy, softmax, lambda b, x: b.exp(x), lambda b, x: b.sum(x, 0)])
def test_one_build_serves_several_sizes(build: Any, argument: bool) -> None:
    compiled = symbolic(build, argument=argument)
    for n in (2, 7, 8, 300):
        data = torch.randn(n, 96)
        b = B()
        want = run(b.finish(build(b, b.input(n, 96))), data)[0]
        got = compiled(n, data)[0] if argument else compiled(data)[0]
        assert got.shape == want.shape and torch.allclose(got, want, atol=1e-5)


def test_symbolic_reduced_dimension_reshape_and_output() -> None:
    b = B()
    x = b.input(4, S)
    y = softmax(b, b.reshape(x, 2, 2, S))
    flat = b.reshape(y, 4 * S)
    compiled = compile_ir(b.finish(flat, S, S * 4 + 1, symbols={"s0": 16}))
    for n in (2, 33, 5000):
        data = torch.randn(4, n)
        out, size, more = compiled(data)
        assert torch.allclose(out.view(4, n), data.softmax(-1), atol=1e-6) and (size, more) == (n, 4 * n + 1)


def test_size_as_a_value() -> None:
    b = B()
    x = b.input(S, 4)
    compiled = compile_ir(b.finish(b.div(x, S), symbols={"s0": 8}))
    assert torch.allclose(compiled(torch.ones(5, 4))[0], torch.full((5, 4), 0.2))


# --- memory -------------------------------------------------------------------------------------------------


def _chain(b: B, x: Any, n: int) -> Any:
    for _ in range(n):
        x = b.extern(aten.mm.default, b.exp(b.mul(x, 0.01)), x, type=tensor_type((16, 16)))
    return x


def test_dead_buffers_are_reused() -> None:
    b = B()
    graph = b.finish(_chain(b, b.input(16, 16), 4))
    compiled = compile_ir(graph)
    assert compiled.wrapper_source.count("empty_cpu") == 3, compiled.wrapper_source
    data = torch.randn(16, 16) * 0.1
    assert torch.allclose(compiled(data)[0], run(graph, data)[0], rtol=1e-4)


def test_a_buffer_still_read_by_an_output_is_not_reused() -> None:
    b = B()
    x = b.input(16, 16)
    first = b.exp(b.mul(x, 0.01))
    product = b.extern(aten.mm.default, first, x, type=tensor_type((16, 16)))
    second = b.sigmoid(product)
    again = b.extern(aten.mm.default, second, x, type=tensor_type((16, 16)))
    graph = b.finish(b.permute(first, 1, 0), again)
    data = torch.randn(16, 16)
    for got, want in zip(compile_ir(graph)(data), run(graph, data), strict=True):
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)


def test_memory_plan() -> None:
    builder = GraphBuilder()
    a, c, d, e = (builder.add("full", (0.0,), tensor_type((8,))) for _ in range(4))
    plan = plan_memory([[a], [c], [d], [e]], [[], [a], [c], [d]], [e], [a, c, d, e])
    assert plan.dies == [[], [a], [c], [d]]
    assert plan.reuse == {d: a, e: c}  # c may not take a, which its own kernel reads


# --- the rest -----------------------------------------------------------------------------------------------


def test_wrapper_source_is_in_tracebacks() -> None:
    b = B()
    compiled = compile_ir(b.finish(b.exp(b.input(3))))
    code: Any = compiled.call.__code__  # type: ignore[attr-defined]
    assert "".join(linecache.getlines(code.co_filename)) == compiled.wrapper_source


def test_backend_is_checked() -> None:
    b = B()
    graph = b.finish(b.exp(b.input(3)))
    with pytest.raises(ValueError, match="known: auto, cpp, triton"):
        compile_ir(graph, backend="opencl")
    with pytest.raises(ValueError, match="CUDA"):
        compile_ir(graph, backend="triton")
    b = B()
    with pytest.raises(ValueError, match="CPU"):
        compile_ir(b.finish(b.exp(b.input(3, device=torch.device("cuda")))), backend="cpp")


def test_description_names_lines_bytes_and_decisions() -> None:
    b = B()
    compiled = compile_ir(b.finish(entropy(b, b.input(4, 8, 32))))
    text = compiled.describe()
    assert "1 kernel(s)" in text and "fused: saves" in text and "4.1 KB" in text
    assert CPU.type == "cpu"


def test_two_views_of_a_whole_buffer_are_two_objects() -> None:
    b = B()
    buffer = b.exp(b.input(4, 6))
    first, second = (BufferView(buffer, buffer.tensor) for _ in range(2))
    one, other, again = compile_ir(b.finish(first, second, first))(torch.randn(4, 6))
    assert one is again and one is not other and one.data_ptr() == other.data_ptr()


def test_results_of_what_is_recorded_are_allocated_apart() -> None:
    """Their own memory, whatever it was first; not what is only needed on the way; nothing if ATen allocates one."""
    cuda = torch.device("cuda", 0)

    def recorded(returns_extern: bool) -> str:
        b = B()
        x, w = b.input(64, 64, device=cuda), b.input(64, 128, device=cuda)
        product = b.extern(torch.ops.aten.mm.default, b.exp(x), w, type=tensor_type((64, 128), device=cuda))
        solved = b.extern(torch.ops.aten.cumsum.default, product, 1, type=tensor_type((64, 128), device=cuda))
        results = [solved] if returns_extern else [b.relu(solved), b.reshape(b.exp(solved), 8192)]
        return compile_ir(b.finish(*results), backend="triton", options={"cuda_graphs": True}).wrapper_source

    assert recorded(False).count("= empty_kept(") == 2 and recorded(False).count("= empty_strided(") == 1
    assert "empty_kept" not in recorded(True)
