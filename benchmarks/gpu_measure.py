"""Measure rows on a GPU: the device's time by events, the host's by the clock.

In: a row. Out: a `GpuResult`.
"""

from __future__ import annotations

import copy
import gc
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import triton
import triton.language as tl

import minicompile
from minicompile.inspect.compare import max_error

from .bound import bytes_of, tensors_of
from .gpu import EAGER, GRAPHED, INDUCTOR, OURS, GpuResult
from .gpu_suite import GpuRow

Call = Callable[[], Any]


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
            "cuda": torch.version.cuda}  # fmt: skip


def warm_up(inductor: bool) -> None:
    """The first compilation of a process pays for imports."""
    x = torch.ones(5, device="cuda")
    minicompile.compile(lambda x: x * 2 + 1)(x)
    if inductor:
        torch.compile(lambda x: x * 2 + 1)(x)


def measure(row: GpuRow, inductor: bool, rounds: int) -> GpuResult:
    """Compile, check and time one row."""
    torch.manual_seed(0)
    fn, args = row.make()
    result = GpuResult(row.name, row.kind, 0)
    compilers: dict[str, Callable[..., Any]] = {OURS: partial(minicompile.compile, mode=row.mode)}
    if inductor:
        compilers[INDUCTOR] = partial(torch.compile, mode=row.mode)
    if row.graphs:
        for name, compiler in list(compilers.items()):
            compilers[GRAPHED[name]] = partial(compiler, mode="reduce-overhead")
    with torch.set_grad_enabled(row.train):
        calls: dict[str, Call] = {EAGER: row.bind(fn, args)}
        calls[EAGER]()  # what it loads (cuBLAS, cuDNN, its kernels) is no compiler's first call
        for name, compiler in compilers.items():
            call = row.bind(compiler(fn), args)
            if _first(result, name, call):
                calls[name] = call
        if not row.train:
            _errors(row, result, calls, fn, args)
            _bound(row, result, fn, args)
        for call in calls.values():
            _settle(call)
        result.times = _seconds(row, calls, rounds)
        result.host = {name: host_seconds(call, 20 if row.kind == "model" else 200) for name, call in calls.items()}
    _count(result, compilers)
    minicompile.reset()
    torch.compiler.reset()
    del calls, fn, args
    gc.collect()
    torch.cuda.empty_cache()
    return result


def _seconds(row: GpuRow, calls: dict[str, Call], rounds: int) -> dict[str, float]:
    if row.kind == "model":
        return throughput_seconds(calls, rounds)
    return device_seconds(calls, rounds, flush=row.kind == "kernel")


def _settle(call: Call) -> None:
    for _ in range(4):
        call()
    torch.cuda.synchronize()


def _first(result: GpuResult, name: str, call: Call) -> bool:
    try:
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        result.first[name] = time.perf_counter() - start
        return True
    except Exception as problem:  # the table says so
        result.problems.append(f"{name}: {type(problem).__name__}: {str(problem)[:300]}")
        return False


def _errors(row: GpuRow, result: GpuResult, calls: dict[str, Call], fn: Any, args: tuple[Any, ...]) -> None:
    """Largest difference from the same function on float64 copies; for models, whose eager is bf16, on float32."""
    if row.mutates:
        return
    wide = torch.float32 if row.kind == "model" else torch.float64
    wide_fn = copy.deepcopy(fn).to(wide) if isinstance(fn, torch.nn.Module) else fn
    wide_args = [a.to(wide) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    exact = row.bind(wide_fn, tuple(wide_args))()
    result.errors = {name: max_error(call(), exact) for name, call in calls.items()}


def _bound(row: GpuRow, result: GpuResult, fn: Any, args: tuple[Any, ...]) -> None:
    """A copy of as many bytes; where little is written, a read of as many."""
    if row.kind != "kernel":
        return
    out = fn(*(copy.deepcopy(args) if row.mutates else args))
    read = bytes_of([t for i, arg in enumerate(args) if i not in row.skip_bytes for t in tensors_of([arg])])
    read += row.gathered
    written = bytes_of(tensors_of([out])) or read * 3 // 4
    result.moved = read + written
    call = _reader(read) if written * 20 < read else _copier(result.moved)
    _settle(call)
    result.bound = device_seconds({"bound": call}, 20, flush=True)["bound"]


def _copier(moved: int) -> Call:
    source = torch.randn(max(moved // 8, 1), device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


@triton.jit
def _read(source, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + at, at < size, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(values))


def _reader(read: int) -> Call:
    size = max(read // 4, 1)
    source = torch.randn(size, device="cuda")
    programs = triton.cdiv(size, 4096)
    out = torch.empty(programs, device="cuda")
    return lambda: _read[(programs,)](source, out, size, BLOCK=4096, num_warps=4)


@cache
def _flusher() -> torch.Tensor:
    return torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def device_seconds(calls: dict[str, Call], rounds: int, flush: bool) -> dict[str, float]:
    """Median seconds on the device, candidates taking turns.

    With `flush`, a turn is two calls of which the second is timed, and the L2 cache is emptied before each: the device
    has just seen the same memory (else what the candidate before has touched would count: up to a tenth of a row of
    500 MB, by lookups of pages), and the host has had a start, so its time does not show. The bound is measured alike.
    """
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if flush:
                _flusher().zero_()
                call()
                _flusher().zero_()
            events[name].append(_between_events(call))
        torch.cuda.synchronize()
    return _medians(events)


def throughput_seconds(calls: dict[str, Call], rounds: int, number: int = 4) -> dict[str, float]:
    """Median seconds of a call among `number` back to back, candidates taking turns, each on an idle device.

    Without the wait between turns, a candidate's host time would hide behind the kernels that the one before it
    has queued, or show where that one has queued none.
    """
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            events[name].append(_between_events(call, number))
    torch.cuda.synchronize()
    return {name: seconds / number for name, seconds in _medians(events).items()}


def _medians(events: dict[str, list[tuple[Any, Any]]]) -> dict[str, float]:
    return {name: statistics.median(s.elapsed_time(e) for s, e in pairs) / 1e3 for name, pairs in events.items()}


def _between_events(call: Call, number: int = 1) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(number):
        call()
    end.record()
    return start, end


def host_seconds(call: Call, number: int) -> float:
    """Seconds that the calling thread spends on a call."""
    found = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(number):
            call()
        found.append((time.perf_counter() - start) / number)
    torch.cuda.synchronize()
    return statistics.median(found)


def _count(result: GpuResult, compilers: Any) -> None:
    result.kernels = minicompile.stats().get("kernels", 0) // (2 if GRAPHED[OURS] in compilers else 1)
