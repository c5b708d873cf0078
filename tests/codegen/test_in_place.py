"""Memory that a kernel overwrites while it reads it: where that is done, and every way in which it must not be."""

from __future__ import annotations

from typing import Any

import torch

from minicompile.codegen import compile_ir
from minicompile.codegen.memory import plan_memory

from .build import B, softmax, tensor_type


def check_writes(graph: Any, *args: torch.Tensor, want: list[torch.Tensor]) -> Any:
    """Run it; the inputs become `want`, and their version counters move."""
    compiled = compile_ir(graph)
    versions = [arg._version for arg in args]
    compiled(*args)
    for arg, expected in zip(args, want, strict=True):
        torch.testing.assert_close(arg, expected)
    written = {index for index, _ in graph.writes}
    assert [arg._version > version for arg, version in zip(args, versions, strict=True)] == [
        i in written for i in range(len(args))
    ]
    return compiled


def test_a_step_is_stored_straight_into_its_inputs() -> None:
    b = B("step")
    p, g = b.input(50, 40), b.input(50, 40)
    graph = b.finish(writes=[(0, b.add(p, b.mul(g, -0.1)))])
    x, y = torch.randn(50, 40), torch.randn(50, 40)
    compiled = check_writes(graph, x, y, want=[x - 0.1 * y, y.clone()])
    assert "empty" not in compiled.wrapper_source and "copy_" not in compiled.wrapper_source


def test_an_input_that_is_only_written() -> None:
    b = B("fill")
    x, _ = b.input(30), b.input(30)
    graph = b.finish(writes=[(1, b.exp(x))])
    a, o = torch.randn(30), torch.zeros(30)
    assert "copy_" not in check_writes(graph, a, o, want=[a.clone(), a.exp()]).wrapper_source


def test_swapped_inputs_are_copied() -> None:
    b = B("swap")
    x, y = b.input(1000), b.input(1000)
    graph = b.finish(writes=[(0, b.add(y, 1.0)), (1, b.add(x, 1.0))])
    a, c = torch.randn(1000), torch.randn(1000)
    check_writes(graph, a, c, want=[c + 1, a + 1])


def test_an_input_read_at_other_places_is_copied() -> None:
    b = B("flip")
    x = b.input(40, 40)
    graph = b.finish(writes=[(0, b.add(x, b.permute(x, 1, 0)))])
    a = torch.randn(40, 40)
    assert "copy_" in check_writes(graph, a, want=[a + a.T]).wrapper_source


def test_an_input_that_a_reduction_reads_is_copied() -> None:
    b = B("rows")
    x = b.input(20, 100)
    graph = b.finish(writes=[(0, softmax(b, x))])
    a = torch.randn(20, 100)
    assert "copy_" in check_writes(graph, a, want=[a.softmax(-1)]).wrapper_source


def test_a_run_that_may_be_done_again_does_not_overwrite_its_input() -> None:
    b = B("sines")
    x = b.input(5000)
    graph = b.finish(writes=[(0, b.sin(x))])
    a = torch.randn(5000)
    a[17] = 1e12
    assert "copy_" in check_writes(graph, a, want=[a.sin()]).wrapper_source


def test_a_later_reader_sees_the_old_value() -> None:
    b = B("later")
    x = b.input(8, 8)
    new = b.add(x, 1.0)
    old = b.extern(torch.ops.aten.mm.default, x, new, type=tensor_type((8, 8)))
    graph = b.finish(old, writes=[(0, new)])
    a = torch.randn(8, 8)
    before = a.clone()
    (got,) = compile_ir(graph)(a)
    torch.testing.assert_close(got, before @ (before + 1))
    assert torch.equal(a, before + 1)


def test_an_extern_result_may_be_a_view_of_the_input() -> None:
    b = B("view")
    x = b.input(6, 4)
    seen = b.extern(torch.ops.aten.view.default, x, [24], type=tensor_type((24,)))
    graph = b.finish(b.add(seen, 0.0), writes=[(0, b.mul(x, 3.0))])
    a = torch.randn(6, 4)
    before = a.clone()
    (got,) = compile_ir(graph)(a)
    assert torch.equal(got, before.flatten()) and torch.equal(a, before * 3)


def test_a_call_that_raises_has_changed_nothing() -> None:
    b = B("fails")
    x, y = b.input(8), b.input(3, 3)
    failing = b.extern(torch.ops.aten.linalg_cholesky.default, y, type=tensor_type((3, 3)))
    graph = b.finish(failing, writes=[(0, b.add(x, 1.0))])
    a, c = torch.zeros(8), -torch.eye(3)
    try:
        compile_ir(graph)(a, c)
    except RuntimeError:
        assert torch.equal(a, torch.zeros(8)) and a._version == 0
    else:
        raise AssertionError("cholesky of a negative matrix did not raise")


def test_a_written_value_that_is_returned_is_another_tensor() -> None:
    b = B("both")
    x = b.input(10)
    new = b.add(x, 1.0)
    a = torch.zeros(10)
    (got,) = compile_ir(b.finish(new, writes=[(0, new)]))(a)
    assert got.data_ptr() != a.data_ptr() and torch.equal(got, a)


def test_an_input_laid_out_in_another_way() -> None:
    b = B("strided")
    x = b.input(6, 5, strides=(1, 6))
    graph = b.finish(writes=[(0, b.mul(x, 2.0))])
    a = torch.randn(5, 6).T
    check_writes(graph, a, want=[a * 2])


def test_a_dying_buffer_is_overwritten_by_the_kernel_that_reads_it() -> None:
    b = B("dying")
    x, w = b.input(64, 64), b.input(64, 64)
    first = b.mul(x, 2.0)
    product = b.extern(torch.ops.aten.mm.default, first, w, type=tensor_type((64, 64)))
    last = b.add(first, product)
    a, c = torch.randn(64, 64), torch.randn(64, 64)
    compiled = compile_ir(b.finish(last))
    torch.testing.assert_close(compiled(a, c)[0], a * 2 + (a * 2) @ c)
    assert compiled.wrapper_source.count("empty_cpu") == 2  # the other is the product's


def test_a_dying_buffer_that_the_kernel_loads_only_after_a_store_is_left_alone() -> None:
    """Two results in one kernel: the first is stored before the second loads the buffer."""
    b = B("order")
    x, w = b.input(64, 64), b.input(64, 64)
    doubled = b.mul(x, 2.0)
    product = b.extern(torch.ops.aten.mm.default, doubled, w, type=tensor_type((64, 64)))
    one, two = b.add(product, 1.0), b.mul(product, doubled)
    total = b.extern(torch.ops.aten.mm.default, one, two, type=tensor_type((64, 64)))
    a, c = torch.randn(64, 64), torch.randn(64, 64)
    compiled = compile_ir(b.finish(total))
    assert len(compiled.kernels) == 2
    want = ((a * 2) @ c + 1) @ ((a * 2) @ c * (a * 2))
    torch.testing.assert_close(compiled(a, c)[0], want)


def test_random_graphs_with_extern_calls_between_keep_their_values() -> None:
    """What was fused, and in which order its results are stored, must not show."""
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        b = B(f"random{seed}")
        known = [b.input(16, 16), b.input(16, 16)]
        inputs = [torch.randn(16, 16, generator=generator) * 0.3 for _ in known]
        values = list(inputs)
        for _ in range(40):
            i, j, kind = (int(torch.randint(n, (), generator=generator)) for n in (len(known), len(known), 4))
            if kind == 0:
                known.append(b.extern(torch.ops.aten.mm.default, known[i], known[j], type=tensor_type((16, 16))))
                values.append(values[i] @ values[j])
            else:
                op = ("add", "sub", "maximum")[kind - 1]
                known.append(b.mul(getattr(b, op)(known[i], known[j]), 0.5))
                values.append(getattr(torch, op)(values[i], values[j]) * 0.5)
        outputs = known[-3:]
        got = compile_ir(b.finish(*outputs))(*inputs)
        for one, want in zip(got, values[-3:], strict=True):
            torch.testing.assert_close(one, want, rtol=1e-4, atol=1e-5)


def test_plan_passes_a_dying_buffer_on_once() -> None:
    b = B("plan")
    x = b.input(16)
    one, two, three = b.exp(x), b.sin(x), b.cos(x)
    plan = plan_memory([[one], [two, three]], [[], [one]], [two, three], [one, two, three], lambda *_: True)
    assert plan.reuse == {two: one}
    assert plan_memory([[one], [two]], [[], [one]], [two], [one, two]).reuse == {}
