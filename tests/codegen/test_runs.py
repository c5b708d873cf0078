"""Consecutive kernels as one native call: what is a run, where its buffers lie, and that nobody can tell."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import minicompile
from minicompile.codegen import compile_ir
from minicompile.codegen.runs import AT_MOST, SLACK, Memory, plan_runs
from minicompile.codegen.stored import pack, unpack
from minicompile.errors import KernelError
from minicompile.frontend.portable import dumps, loads
from minicompile.ir.graph import GraphBuilder
from minicompile.ir.reference import run
from minicompile.runtime import launch
from minicompile.runtime import runs as runtime

from .build import B, tensor_type

pytestmark = pytest.mark.skipif(not hasattr(launch._native, "Run"), reason="the C launcher was not built")


def centred(b: B, x: Any, times: int) -> Any:
    """Sums down the columns, then along the rows: kernels that cannot be one."""
    rows, columns = x.tensor.shape
    for _ in range(times):
        x = b.sub(x, b.expand(b.sum(x, 0), rows, columns))
        x = b.div(x, b.expand(b.add(b.sum(b.abs(x), 1), 1.0), rows, columns))
    return x


def chain(times: int = 3, rows: int = 16, columns: int = 24, boxed: bool = False) -> Any:
    b = B()
    return compile_ir(b.finish(centred(b, b.input(rows, columns), times)), boxed=boxed)


def calls_of(compiled: Any) -> list[str]:
    """What the wrapper calls, in order, each by the first part of its name."""
    lines = [line.strip() for line in compiled.wrapper_source.splitlines()[1:]]
    found = [line.split("=")[-1].split("(")[0].strip() for line in lines if "(" in line and line[0] != "#"]
    return [name.split("_")[0] for name in found if name.split("_")[0] in ("run", "kernel", "extern")]


# --- results --------------------------------------------------------------------------------------------------------


def test_a_chain_is_one_call_with_one_arena() -> None:
    compiled = chain()
    assert calls_of(compiled) == ["run"] and len(compiled.kernels) >= 5
    source = compiled.wrapper_source
    assert source.count("empty_cpu(") == 2 and "arena_0 = empty_cpu(" in source and "del arena_0" in source
    steps = [line.strip(" #") for line in source.splitlines() if line.strip().startswith("#")]
    assert [step.split("(")[0] for step in steps] == [kernel.name for kernel in compiled.kernels]
    data = torch.randn(16, 24)
    b = B()
    want = run(b.finish(centred(b, b.input(16, 24), 3)), data)
    assert torch.equal(compiled(data)[0], step_by_step(compiled, data)[0])
    assert torch.allclose(compiled(data)[0], want[0], atol=1e-6)


def step_by_step(compiled: Any, *inputs: Any) -> Any:
    """The same call with every run taken apart."""
    namespace = compiled.call.__globals__
    native = {name: value for name, value in compiled.objects.items() if isinstance(value, runtime.Run)}
    assert native
    before = {name: namespace[name] for name in native}
    namespace.update((name, runtime.StepByStep(value, namespace)) for name, value in native.items())
    try:
        return compiled(*inputs)
    finally:
        namespace.update(before)


PROGRAMS = [
    lambda x, i: ((x - x.mean(0)).softmax(1).sum(0), x.t().sum(0)),
    lambda x, i: torch.cumsum(x - x.amax(0), 1) / (1 + x.sum(1, keepdim=True).sin()),
    lambda x, i: (x - x.mean(0))[i].sum(1) + x[i].amax(1),
    lambda x, i: ((x.half() - x.half().mean(0)).sum(1), (x > x.mean(0)).sum(1), x.argmax(0)),
    lambda x, i: (x - x.sum(0)).sum(1)[:0].sum() + x.sum(),
    lambda x, i: (x[:0] - x.sum(0)).sum(1).sum(0) + x.sum(1).amax(),
    lambda x, i: ((y := x - x.mean(0)), y.t(), y[-1], y.sum(1)),
    lambda x, i: (x - x.mean(0) @ x.t() @ x).sum(1) - x.sum(1).mean(),
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shape", [(16, 24), (65, 33), (3, 7)])
def test_results_are_those_of_single_calls(program: Any, shape: tuple[int, int]) -> None:
    """Differences of half precision are rounded as eager rounds them, so that they may be compared with eager's."""
    x, i = torch.randn(shape), torch.randint(shape[0], (5,))
    compiled = minicompile.compile(program, options={"exact_rounding": True})
    got, want = compiled(x, i), program(x, i)
    graph = compiled.entries[0].graphs[0].compiled
    assert any(isinstance(value, runtime.Run) for value in graph.objects.values())
    got, want = (value if isinstance(value, tuple) else (value,) for value in (got, want))
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        assert torch.allclose(one, other, rtol=1e-3 if one.dtype == torch.half else 1e-4, atol=1e-5)


def test_symbolic_sizes_are_called_one_by_one() -> None:
    compiled = minicompile.compile(lambda x: (x - x.mean(0)).softmax(1).sum(0), dynamic=True)
    for rows in (16, 33):
        x = torch.randn(rows, 24)
        assert torch.allclose(compiled(x), (x - x.mean(0)).softmax(1).sum(0), atol=1e-5)
    (entry,) = compiled.entries
    assert calls_of(entry.graphs[0].compiled) and set(calls_of(entry.graphs[0].compiled)) == {"kernel"}


def test_inputs_are_written_in_a_run() -> None:
    def step(p, g):
        m = g - g.mean(0)
        p.sub_(m / (1 + m.abs().sum(1, keepdim=True)))
        return m.sum()

    p, g = torch.randn(2, 16, 24)
    q = p.clone()
    version = p._version
    compiled = minicompile.compile(step)
    assert torch.allclose(compiled(p, g), step(q, g), atol=1e-5) and torch.allclose(p, q, atol=1e-6)
    assert p._version > version


def test_training() -> None:
    x, w = torch.randn(16, 24), torch.randn(24, 24, requires_grad=True)

    def loss(x, w):
        y = torch.tanh(x - x.mean(0)) @ w
        return ((y - y.mean(0)) / (1 + y.abs().sum(1, keepdim=True))).pow(2).sum()

    (want,) = torch.autograd.grad(loss(x, w), w)
    (got,) = torch.autograd.grad(minicompile.compile(loss)(x, w), w)
    assert torch.allclose(got, want, atol=1e-5)


# --- errors, lifetimes, threads ---------------------------------------------------------------------------------------


def test_an_error_names_its_kernel_and_ends_the_run() -> None:
    compiled = minicompile.compile(lambda x, i: torch.exp((x - x.mean(0))[i].sum(1, keepdim=True)).sum(0))
    x, i = torch.randn(16, 24), torch.randint(16, (5,))
    compiled(x, i)
    graph = compiled.entries[0].graphs[0].compiled
    assert calls_of(graph) == ["run"] and len(graph.kernels) >= 2
    with pytest.raises(KernelError) as caught:
        graph(x, i + 16)
    assert caught.value.kernel in [kernel.name for kernel in graph.kernels[1:]]
    with pytest.raises(IndexError):
        compiled(x, i + 16)  # as eager has it
    assert torch.allclose(compiled(x, i), torch.exp((x - x.mean(0))[i].sum(1, keepdim=True)).sum(0), rtol=1e-4)


def test_a_small_input_that_dies_is_held_no_longer_than_the_run() -> None:
    compiled, data = chain(boxed=True), [torch.randn(16, 24)]
    died = weakref.ref(data[0])
    compiled(data)
    assert data == [] and died() is None


def test_nothing_is_kept_by_a_run() -> None:
    compiled = chain()
    compiled(torch.randn(16, 24))
    native = weakref.ref(compiled)
    x = torch.randn(16, 24)
    counted = weakref.ref(x)
    result = compiled(x)
    del x
    assert counted() is None
    del compiled, result
    gc.collect()
    assert native() is None


def test_threads_have_arenas_of_their_own() -> None:
    compiled = chain(times=8, rows=128, columns=192)
    inputs = [torch.randn(128, 192) for _ in range(4)]
    want = [compiled(x)[0] for x in inputs]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not torch.equal(compiled(inputs[k])[0], want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_the_arguments_are_checked() -> None:
    compiled = chain()
    call = compiled.call.__globals__["run_0"]
    assert "kernels" in repr(call)
    with pytest.raises(TypeError, match="takes 3 tensors"):
        call(torch.zeros(3))
    with pytest.raises(AttributeError, match="data_ptr"):
        call(torch.zeros(3), 5, 6)
    kernel = compiled.call.__globals__[compiled.kernels[0].name]
    for steps in [(), ((kernel, ()),), ((kernel, ((0, 0), (3, 0))),), ((kernel, ((0, 0), (1, -1))),)]:
        with pytest.raises(ValueError):
            type(call)(steps, 3, print)
    for steps in [((print, ()),), (5,), ((kernel, (1, 2)),)]:
        with pytest.raises(TypeError):
            type(call)(steps, 3, print)


# --- other ways in ----------------------------------------------------------------------------------------------------


def test_a_profiler_sees_every_kernel() -> None:
    compiled = chain()
    x = torch.randn(16, 24)
    want, native = compiled(x)[0], compiled.call.__globals__["run_0"]
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        assert torch.equal(compiled(x)[0], want)
    names = [event.name for event in sorted(seen.events(), key=lambda e: e.time_range.start) if "kernel_" in event.name]
    assert names == [kernel.name for kernel in compiled.kernels]
    assert compiled.call.__globals__["run_0"] is native and torch.equal(compiled(x)[0], want)


def test_a_graph_from_the_disk_has_its_runs() -> None:
    compiled = chain()
    recalled = unpack(loads(dumps(pack(compiled, dumps))), loads)
    x = torch.randn(16, 24)
    assert torch.equal(recalled(x)[0], compiled(x)[0])
    assert type(recalled.call.__globals__["run_0"]) is type(compiled.call.__globals__["run_0"])


def test_without_the_extension_a_recalled_run_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = chain()
    stored = loads(dumps(pack(compiled, dumps)))
    monkeypatch.setattr(launch, "_native", None)
    recalled = unpack(stored, loads)
    assert isinstance(recalled.call.__globals__["run_0"], runtime.StepByStep)
    x = torch.randn(16, 24)
    assert torch.equal(recalled(x)[0], compiled(x)[0])


def test_kernels_that_are_tuned_are_called_one_by_one() -> None:
    b = B()
    x = torch.randn(16, 24)
    compiled = compile_ir(b.finish(centred(b, b.input(16, 24), 2)), options={"tune": True})
    assert set(calls_of(compiled)) == {"kernel"}
    assert torch.allclose(compiled(x)[0], chain(2)(x)[0], atol=1e-6)


@pytest.mark.parametrize("name", ["run_0", "arena_0", "uint8", "kernel_0_sum"])
def test_what_the_wrapper_names_is_no_inputs_name(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f({name}):\n    return ({name} - {name}.mean(0)).softmax(1).sum(0)", space)
    x = torch.randn(16, 24)
    assert torch.allclose(minicompile.compile(space["f"])(x), space["f"](x), atol=1e-5)


# --- what is a run ----------------------------------------------------------------------------------------------------


def memories(*lives: tuple[int, int, int]) -> list[Memory]:
    builder = GraphBuilder()
    return [Memory(builder.add("full", (0.0,), tensor_type((8,))), *life) for life in lives]


@pytest.mark.parametrize(
    ("kinds", "lives", "want"),
    [
        ("aaa", [], [3]),
        ("aab", [], [2, 1]),
        ("a-aa", [], [1, 1, 2]),
        ("--", [], [1, 1]),
        ("aaa", [(0, 1, 9 * SLACK), (1, 2, 9 * SLACK)], [3]),  # one after the other: as many bytes as single calls hold
        ("aaa", [(-1, 0, 2 * SLACK)], [3]),  # it dies in the first kernel: nothing else was allocated before or since
        ("aaa", [(-1, 0, 2 * SLACK), (2, 3, 2 * SLACK)], [2, 1]),  # and the result would be allocated before it dies
        ("aaa", [(-1, 0, 2 * SLACK), (1, 2, 2 * SLACK)], [1, 2]),
        ("aaa", [(0, 3, 9 * SLACK), (2, 3, 9 * SLACK)], [3]),  # results, which live on anyway
        ("aaa", [(0, 0, 2 * SLACK), (2, 3, 2 * SLACK)], [2, 1]),
        ("a" * (AT_MOST + 3), [], [AT_MOST, 3]),
    ],
)
def test_what_is_a_run(kinds: str, lives: list[tuple[int, int, int]], want: list[int]) -> None:
    stretches = plan_runs([None if kind == "-" else kind for kind in kinds], memories(*lives))
    assert [len(stretch.units) for stretch in stretches] == want
    assert [unit for stretch in stretches for unit in stretch.units] == list(range(len(kinds)))


def test_pieces_that_live_at_a_time_do_not_overlap() -> None:
    chance = random.Random(3)
    for _ in range(200):
        births = [chance.randrange(12) for _ in range(20)]
        found = memories(*((b, min(b + chance.randrange(5), 11), chance.randrange(1, 5000)) for b in births))
        (stretch,) = plan_runs("a" * 12, found)
        begin = stretch.offsets
        assert set(begin) == {memory.node for memory in found} and all(offset % 64 == 0 for offset in begin.values())
        assert max(begin[memory.node] + memory.size for memory in found) <= stretch.size
        for one in found:
            for other in found:
                if one is not other and one.birth <= other.death and other.birth <= one.death:
                    first, second = sorted((one, other), key=lambda memory: begin[memory.node])
                    assert begin[first.node] + first.size <= begin[second.node]


def test_what_follows_itself_lies_in_the_same_place() -> None:
    found = memories((0, 1, 512), (1, 2, 512), (2, 3, 512), (3, 4, 700))
    (stretch,) = plan_runs("aaaaa", found)
    assert stretch.size == 1536 and stretch.offsets[found[0].node] == stretch.offsets[found[2].node]
    assert all(one.birth < other.birth for one, other in pairwise(found))


def test_calls_with_several_results_stand_between_runs() -> None:
    b = B()
    x = b.input(16, 24)
    types = (tensor_type((16,)), tensor_type((16,), torch.int64))
    both = b.extern(torch.ops.aten.max.dim, centred(b, x, 1), 1, type=types)
    values, _ = (b.builder.add("getitem", (both, i), t) for i, t in enumerate(types))
    graph = b.finish(centred(b, b.expand(b.reshape(values, 16, 1), 16, 24), 1))
    compiled, data = compile_ir(graph), torch.randn(16, 24)
    assert calls_of(compiled) == ["run", "extern", "run"]
    assert torch.allclose(compiled(data)[0], run(graph, data)[0], atol=1e-6)
