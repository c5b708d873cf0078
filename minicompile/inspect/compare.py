"""`minicompile.compare(fn, *args)`: eager, minicompile and torch.compile on one call, side by side.

In: a function and arguments. Out: a `Comparison`: what both compilers made of it, stage by stage; first call, steady
time, the cost of a call alone, and how far the results are from eager's and from float64. As text, JSON or one page.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..config import config
from .accuracy import in_float64, max_error
from .explain import Explanation, explain
from .stacks import Stack, our_stack, their_stack
from .timing import Timing, interleaved
from .uncompiled import compiled_for_looking

OURS, THEIRS, EAGER = "minicompile", "torch.compile", "eager"


@dataclass(frozen=True)
class Comparison:
    """By compiler name (`"eager"`, `"minicompile"`, `"torch.compile"`).

    Attributes:
        first: seconds of the first call, compilation included; eager has none.
        times: steady time per call.
        errors: largest absolute difference from eager's results.
        explanation: what minicompile made of the function.
        stacks: what each compiler made of the function, in one form.
        errors64: largest absolute difference from the function in float64, eager's included; empty if it has none.
        call_costs: time of a call whose graphs return at once: guards, glue, dispatch.
        title: the function, for people.
        machine: where it was measured.
        once: seconds that each compiler's first compilation in the process took, before the measured one: imports, and
            looking at the machine. Empty if it was not told apart.
    """

    first: dict[str, float]
    times: dict[str, Timing]
    errors: dict[str, float]
    explanation: Explanation
    stacks: dict[str, Stack] = field(default_factory=dict)
    errors64: dict[str, float] = field(default_factory=dict)
    call_costs: dict[str, Timing] = field(default_factory=dict)
    title: str = ""
    machine: str = ""
    once: dict[str, float] = field(default_factory=dict)

    def ratio(self, name: str, base: str = EAGER) -> float:
        """How many times faster than `base`."""
        return self.times[name].times_as_fast_as(self.times[base])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "title": self.title,
            "machine": self.machine,
            "first": self.first,
            "once": self.once,
            "times": {name: asdict(timing) for name, timing in self.times.items()},
            "errors": self.errors,
            "errors64": self.errors64,
            "call_costs": {name: asdict(timing) for name, timing in self.call_costs.items()},
            "stacks": {name: stack.to_dict() for name, stack in self.stacks.items()},
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The same as text, and into a file if one is named."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            Path(path).write_text(text)
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """One page that needs nothing else, and into a file if one is named."""
        from .compare_page import page

        text = page(self)
        if path is not None:
            Path(path).write_text(text)
        return text

    def __str__(self) -> str:
        from .compare_text import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .compare_text import as_html

        return as_html(self)


def compare(
    fn: Callable[..., Any],
    *args: Any,
    inductor: bool = True,
    rounds: int = 9,
    cold: bool = True,
    **kwargs: Any,
) -> Comparison:
    """Run `fn(*args, **kwargs)` in eager, through minicompile and (if `inductor`) through torch.compile.

    The function is called many times: it should not have lasting effects; what it prints is shown once. Steady times
    are interleaved medians.

    Args:
        rounds: how many turns each candidate gets.
        cold: both compilers work without their caches, so that first calls can be compared and every stage is seen;
            False: first calls as they come, and torch.compile's stages are not looked into.

    Raises ValueError for less than one round. What the function raises comes out as it is.
    """
    if rounds < 1:
        raise ValueError(f"each candidate gets at least one round, not {rounds}")
    compiled = compiled_for_looking(fn)
    run = _Run(fn, args, kwargs)
    with redirect_stdout(_Nowhere()):  # what the function prints was seen once
        once = _warm_up(inductor) if cold else {}
        with _without_caches() if cold else nullcontext():
            run.add(OURS, compiled)
            explanation = explain(compiled)(*args, **kwargs)
        stacks = {OURS: our_stack(explanation)}
        if inductor and cold:
            stacks[THEIRS] = _watched(run)
        elif inductor:
            run.add(THEIRS, torch.compile(fn))
        times = interleaved({name: run.bound(name) for name in run.calls}, rounds=rounds)
        empty = _empty_calls(run, inductor) if cold else {}
        costs = interleaved(empty, rounds=rounds) if empty else {}
        errors64 = run.errors64()
    return Comparison(
        run.first, times, run.errors, explanation, stacks, errors64, costs, title_of(fn), machine_text(args), once
    )


class _Nowhere(io.TextIOBase):
    """A stream that forgets."""

    def write(self, text: str) -> int:
        return len(text)


class _Run:
    """The candidates, their first calls and their results."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.calls = {EAGER: fn}
        self.results = {EAGER: fn(*args, **kwargs)}
        self.first: dict[str, float] = {}
        self.errors: dict[str, float] = {}

    def bound(self, name: str) -> Callable[[], Any]:
        return partial(self.calls[name], *self.args, **self.kwargs)

    def add(self, name: str, compiled: Callable[..., Any]) -> None:
        """Time the first call, and look at the results of the second."""
        self.calls[name] = compiled
        self.first[name] = seconds(self.bound(name))
        self.results[name] = self.bound(name)()
        self.errors[name] = max_error(self.results[name], self.results[EAGER])

    def errors64(self) -> dict[str, float]:
        exact = in_float64(self.calls[EAGER], self.args, self.kwargs)
        return {} if exact is None else {name: max_error(found, exact) for name, found in self.results.items()}


@contextmanager
def _without_caches() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, config.patch(entry_cache=False, cache_dir=Path(folder)):
        yield


def _warm_up(inductor: bool) -> dict[str, float]:
    """Compile something trivial with each compiler, so that first calls do not contain what is done once a process."""
    import minicompile

    x = torch.ones(64)
    with _without_caches():
        spent = {OURS: seconds(partial(minicompile.compile(lambda t: torch.sigmoid(t)), x))}
    if inductor:
        from .inductor_watch import InductorWatch

        watch = InductorWatch()
        with watch.watching():
            spent[THEIRS] = seconds(partial(torch.compile(lambda t: torch.sigmoid(t), backend=watch.backend), x))
    return spent


def _watched(run: _Run) -> Stack:
    """torch.compile, with every stage kept."""
    from .inductor_watch import InductorWatch

    watch = InductorWatch()
    with watch.watching():
        run.add(THEIRS, torch.compile(run.calls[EAGER], backend=watch.backend))
    return their_stack(watch)


def _empty_calls(run: _Run, inductor: bool) -> dict[str, Callable[[], Any]]:
    """The function compiled by each frontend, over graphs that return at once what they returned the first time."""
    import minicompile

    fn = run.calls[EAGER]
    calls = {OURS: minicompile.compile(fn, backend=_remembering)}
    if inductor:
        calls[THEIRS] = torch.compile(fn, backend=_remembering)
    bound = {name: partial(call, *run.args, **run.kwargs) for name, call in calls.items()}
    return {name: call for name, call in bound.items() if _can_be_repeated(call)}


def _can_be_repeated(call: Callable[[], Any]) -> bool:
    """Whether results of an earlier call will do for the rest of the function: a backward pass frees them."""
    try:
        for _ in range(3):
            call()
    except Exception:  # the user's function may raise anything on results that are not this call's
        return False
    return True


def _remembering(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
    results: list[Any] = []

    def run(*args: Any) -> Any:
        if not results:
            results.append(gm.forward(*args))
        return results[0]

    return run


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call, the GPU's work included."""
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def machine_text(args: tuple[Any, ...]) -> str:
    """Where: the GPU, or the number of threads and the vector unit; and torch's version."""
    from torch.utils._pytree import tree_leaves

    if any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in tree_leaves(args)):
        where = torch.cuda.get_device_name()
    else:
        from ..runtime.cpu import simd_name

        where = f"CPU, {torch.get_num_threads()} threads, {simd_name()}"
    return f"{where}, torch {torch.__version__}"


def title_of(fn: Callable[..., Any]) -> str:
    """A function's name for people."""
    if isinstance(fn, types.BuiltinFunctionType):
        return fn.__name__
    return str(getattr(fn, "__qualname__", type(fn).__name__))
