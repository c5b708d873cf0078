"""Measure rows: eager, torch.compile, minicompile and the bandwidth bound, taking turns.

In: rows of the suite. Out: a `Result` for each, ready to be written as JSON.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

import minicompile
from minicompile.inspect.compare import max_error, seconds
from minicompile.inspect.timing import Timing, interleaved

from .bound import bound, bytes_of, tensors_of
from .pinned import pinned
from .suite import Row

EAGER, INDUCTOR, OURS, BOUND = "eager", "torch.compile", "minicompile", "bound"


@dataclass
class Result:
    """One row measured.

    Attributes:
        times: candidate → seconds per call.
        first: candidate → seconds of the first call in this process, with empty caches.
        errors: candidate → largest difference from the float64 result ({} where there is none).
        moved: bytes read and written at least.
        work: seconds that minicompile's kernels take for the row's work on data in cache: what is not memory's part.
        kernels: how many of ours; `graphs` how many graphs.
    """

    name: str
    kind: str
    memory_bound: bool
    times: dict[str, Timing]
    first: dict[str, float]
    errors: dict[str, float]
    moved: int
    kernels: int = 0
    graphs: int = 0
    work: float | None = None
    problems: list[str] = field(default_factory=list)

    def speedup(self, over: str) -> float | None:
        """How many times faster minicompile is than `over`; None where that was not measured."""
        if over not in self.times or OURS not in self.times:
            return None
        return self.times[OURS].times_as_fast_as(self.times[over])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(row: Row, *, inductor: bool, rounds: int) -> Result:
    """Compile and time one row, in twice as many rounds if it is no model. A compiler that fails on it is named in
    `problems` and has no time."""
    torch.manual_seed(0)
    fn, args = row.make()
    compilers: dict[str, Callable[..., Any]] = {OURS: minicompile.compile}
    if inductor:
        compilers[INDUCTOR] = torch.compile
    with torch.no_grad():
        result = Result(row.name, row.kind, row.memory_bound, {}, {}, {}, 0)
        calls: dict[str, Callable[..., Any]] = {EAGER: fn}
        for name, compiler in compilers.items():
            _first_call(result, calls, name, compiler(fn), args)
        expected = fn(*_copy(row, args))
        _errors(row, result, calls, fn, args)
        candidates = {name: _bind(call, args) for name, call in calls.items()}
        _add_bound(row, result, candidates, args, expected)
        with pinned():
            result.times = interleaved(candidates, rounds=rounds if row.kind == "model" else 2 * rounds)
        _work(row, result, rounds)
    _count(result, calls.get(OURS))
    _forget()
    return result


def _bind(call: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: call(*args)


def _first_call(
    result: Result, calls: dict[str, Callable[..., Any]], name: str, call: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    try:
        result.first[name] = seconds(lambda: call(*args))
        calls[name] = call
    except Exception as problem:  # the table says so; the other rows are still worth measuring
        result.problems.append(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:200]}")


def _copy(row: Row, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return copy.deepcopy(args) if row.mutates else args


def _errors(
    row: Row, result: Result, calls: dict[str, Callable[..., Any]], fn: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Largest difference from the same function on float64 copies of its inputs."""
    if row.mutates or row.kind == "model" and any(t.numel() > 1 << 24 for t in tensors_of(args)):
        return
    wide_fn = copy.deepcopy(fn).double() if isinstance(fn, torch.nn.Module) else fn
    wide = [arg.double() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg for arg in args]
    try:
        exact = wide_fn(*wide)
        result.errors = {name: max_error(call(*args), exact) for name, call in calls.items()}
    except RuntimeError as problem:
        result.problems.append(f"float64: {str(problem).splitlines()[0][:200]}")


def _work(row: Row, result: Result, rounds: int) -> None:
    """Time the row's `part`, whose data stays in cache, again and again."""
    if row.part is None or OURS not in result.times:
        return
    fn, args = row.part.make()
    call = _bind(minicompile.compile(fn, dynamic=False), args)
    call()
    with pinned():
        result.work = row.part.times * interleaved({OURS: call}, rounds=2 * rounds)[OURS].median


def _add_bound(
    row: Row, result: Result, candidates: dict[str, Callable[[], Any]], args: tuple[Any, ...], expected: Any
) -> None:
    read = bytes_of([tensor for i, arg in enumerate(args) if i not in row.skip_bytes for tensor in tensors_of([arg])])
    read += row.gathered
    written = bytes_of(tensors_of([expected]))
    result.moved = read + written
    if row.memory_bound:
        candidates[BOUND] = bound(read, written or read * 3 // 4)  # a step in place writes most of what it reads


def _count(result: Result, compiled: Any) -> None:
    entries = getattr(compiled, "entries", [])
    graphs = [graph for entry in entries for graph in entry.graphs]
    result.graphs = len(graphs)
    result.kernels = sum(len(getattr(graph.compiled, "kernels", ())) for graph in graphs)


def _forget() -> None:
    """Free what the row compiled, so that no row runs beside another's leftovers."""
    minicompile.reset()
    torch.compiler.reset()
    gc.collect()
