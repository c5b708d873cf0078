"""Segments: compiled pieces of code, their entries, and how a call finds its way through them.

In: a compile context (backend and options), calls of its functions. Out: results; entries for inspection.

A segment is keyed by code object, instruction and layout. A call tries its entries, the latest first; when all miss,
the policy decides between one more translation and eager execution. A piece that ends in a break returns a `Tail`, and
a small loop (`drive`) calls the next segment: a break in a loop neither recurses nor grows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from ..codegen.compiled import count_kernels
from ..config import config
from ..errors import RecompileLimitError, VerificationError
from ..guards import MISS
from ..guards.recent import RecentFirst
from ..guards.torch_state import why_untraceable
from ..runtime import profiled
from ..runtime.collector import paused
from ..runtime.facts import FactMissed
from ..timeline import Span, record
from ..torch_compat import stops_recomputation, without_saved_tensor_hooks
from . import hook
from .dispatch import dispatcher
from .layout import Layout, argument_names, call_like
from .open_numbers import OpenNumbers
from .optimizer_steps import step_dispatcher
from .relevance import may_compute
from .reports import log_entry, log_opened
from .skip import needs_eager_below, why_not_function

if TYPE_CHECKING:
    from ..guards import GuardSet, RecompilePolicy, RecompileRecord
    from .breaks import BreakRecord
    from .bytecode import Instruction
    from .eager_tail import EagerTail
    from .entry_text import Written
    from .side_effects import EffectRecord

MAX_IDLE_CALLS = 16
"""How often a function that is called without a tensor in sight is looked at again before it runs in eager for good."""

MAX_MISSED_FACTS = 3
"""For how many calls in a row something about data may not be as taken for granted."""


class Tail:
    """What a segment returns to `drive`: go on there, with this state."""

    __slots__ = ("func", "segment", "state")

    def __init__(self, segment: Segment, func: FunctionType, state: tuple[Any, ...]) -> None:
        self.segment = segment
        self.func = func
        self.state = state


def drive(segment: Segment, func: FunctionType, state: tuple[Any, ...]) -> Any:
    """Run segments until one returns."""
    while True:
        result = segment.dispatch(func, *state)
        if type(result) is not Tail:
            return result
        segment, func, state = result.segment, result.func, result.state


class GraphRecord:
    """One captured graph: the FX module, what the backend made of it, and the examples that the backend saw (none for a
    recalled graph, whose FX module is made when it is asked for)."""

    def __init__(
        self,
        gm: torch.fx.GraphModule | Callable[[], torch.fx.GraphModule],
        compiled: Callable[..., Any],
        example_inputs: list[Any],
    ) -> None:
        self._gm = gm
        self.compiled = compiled
        self.example_inputs = example_inputs

    @property
    def gm(self) -> torch.fx.GraphModule:
        if not isinstance(self._gm, torch.fx.GraphModule):
            self._gm = self._gm()
        return self._gm


@dataclass
class Entry:
    """One compiled entry of a segment.

    Attributes:
        name: the function, with its file and line.
        run: `run(func, *slots)`: the result, a Tail, EAGER, or MISS.
        guards: what must hold; of a recalled entry unpacked when asked for, as are its effects.
        graphs: the graph, if there is one.
        code: the generated Python.
        breaks: the break at the end, if there is one.
        seconds: by stage.
        eager: why this entry only says that the frame runs in eager; None for a compiled one.
        written: how the code was written, where it is to be stored; see `remember`.
        recalled: whether it was stored by an earlier process.
        draws: whether it draws from generators that are not torch's.
        effects: mutations of objects from outside, which its code repeats behind the graph.
        span: when it was made; None for one that took the place of a stored one.
    """

    name: str
    run: Callable[..., Any]
    guards_or_packed: GuardSet | Callable[[], GuardSet] = field(repr=False)
    graphs: list[GraphRecord]
    code: str
    breaks: list[BreakRecord]
    seconds: dict[str, float]
    eager: str | None = None
    is_dead: Callable[[], bool] = field(default=lambda: False, repr=False)
    written: Written | None = field(default=None, repr=False)
    recalled: bool = False
    draws: bool = False
    effects_or_packed: list[EffectRecord] | Callable[[], list[EffectRecord]] = field(default_factory=list, repr=False)
    span: Span | None = field(default=None, repr=False)

    @property
    def guards(self) -> GuardSet:
        if callable(self.guards_or_packed):
            self.guards_or_packed = self.guards_or_packed()
        return self.guards_or_packed

    @property
    def effects(self) -> list[EffectRecord]:
        if callable(self.effects_or_packed):
            self.effects_or_packed = self.effects_or_packed()
        return self.effects_or_packed

    def assumes(self, owner: Any) -> bool:
        """Whether it is one of its graphs, or its conditions, that found something about data not as taken for
        granted."""
        found = [self.run.__globals__.get("__hold__"), *(graph.compiled for graph in self.graphs)]
        return any(each is owner for each in found)


def first_run(segment: Segment, entry: Entry, func: FunctionType, slots: tuple[Any, ...]) -> Any:
    """How a new entry runs for the first time; a context that verifies has a way of its own."""
    return entry.run(func, *slots)


class Segment:
    """A place in a code object where compiled pieces start. `index` 0 is the start of the function."""

    def __init__(self, ctx: CompileContext, code: CodeType, index: int, layout: Layout) -> None:
        self.ctx = ctx
        self.code = code
        self.index = index
        self.layout = layout
        self.entries: RecentFirst[Entry] = RecentFirst()
        self.name = f"{code.co_name} ({code.co_filename}:{self.line})"
        self.open = OpenNumbers()
        self.lock = threading.RLock()
        self.is_exhausted = False
        self.takes_data = True
        self.idle_calls = 0
        self.dispatch = dispatcher(self.entries, self.miss)

    @property
    def is_first(self) -> bool:
        return self.index == 0

    @property
    def line(self) -> int:
        return self.code.co_firstlineno if self.is_first else self._instruction().line

    def _instruction(self) -> Instruction:
        from .bytecode import decode

        return decode(self.code).instructions[self.index]

    @cached_property
    def policy(self) -> RecompilePolicy:
        from ..guards import RecompilePolicy

        return RecompilePolicy(self.name, warns=not self.ctx.may_not_run_eagerly)

    # ---- misses ----

    def miss(self, func: FunctionType, slots: tuple[Any, ...], tried: tuple[Entry, ...]) -> Any:
        """None of the entries that were tried fits: compile one and run it, or run in eager.

        User code never runs under the lock.
        """
        if self.is_exhausted or self.ctx.is_translating or not self._is_worth_it(func, slots):
            return self.eager(func, slots)
        with self.lock:
            is_news = not set(map(id, self.entries.entries)) <= set(map(id, tried))
            made = None if is_news else self._compile(func, slots)
            if made is not None:
                self.entries.use(made)
        if is_news:  # another thread has compiled something meanwhile
            return self.dispatch(func, *slots)
        if made is None:
            return self.eager(func, slots)
        result = self.ctx.first_run(self, made, func, slots)
        if result is MISS and made.recalled:
            result = self._instead_of(made, func, slots).run(func, *slots)
        return self.eager(func, slots) if result is MISS else result

    def _instead_of(self, recalled: Entry, func: FunctionType, slots: tuple[Any, ...]) -> Entry:
        """A traced entry in the place of one that was stored for a call like this and does not fit."""
        with self.lock, self.ctx.translating():
            self.entries.discard(recalled)
            entry = self._made(func, slots, may_recall=False)
        self.ctx.note(entry)
        self.entries.use(entry)
        return entry

    def _is_worth_it(self, func: FunctionType, slots: tuple[Any, ...]) -> bool:
        if not self.is_first or self.entries.entries or self.code is self.ctx.root_code or may_compute(func, slots):
            return True
        self.idle_calls += 1
        self.is_exhausted = self.idle_calls >= MAX_IDLE_CALLS
        return False

    def _compile(self, func: FunctionType, slots: tuple[Any, ...]) -> Entry | None:
        self.release()
        # A mode that listens must not hear of our own looking at tensors.
        is_silent = why_untraceable() is None
        if self.entries and is_silent and not self._may_compile_again(func, slots):
            return None
        start = time.perf_counter()
        with self.ctx.translating(), paused():
            entry = self._made(func, slots)
        entry.span = record(f"compile {self.name}", start, time.perf_counter())
        self.ctx.note(entry)
        return entry

    def _may_compile_again(self, func: FunctionType, slots: tuple[Any, ...]) -> bool:
        """What to do after a miss: compile once more, with what was seen to vary open, or run in eager for good."""
        from ..guards import reasons

        values = dict(zip(self.layout.parameters(), slots, strict=True))
        misses = [reasons(entry.guards, func, values) for entry in self.entries.entries]
        opened = self._widened(func, values)
        new = opened.beyond(self.open)
        decision = self.policy.decide(self._call_text(), misses, new)
        if decision.action == "eager":
            if self.ctx.may_not_run_eagerly:
                raise RecompileLimitError(decision.reason)
            self.is_exhausted = True
            return False
        self.ctx.stats["recompiles"] += 1
        log_opened(self.name, new)
        self.open = opened
        return True

    def _made(self, func: FunctionType, slots: tuple[Any, ...], *, may_recall: bool = True) -> Entry:
        """A recalled entry, or else one translated now."""
        from .recall import place_of, recall

        place = place_of(self, func, slots)
        entry = recall(place, self) if place is not None and may_recall else None
        if entry is None:
            from .translate import translate

            entry = translate(self, func, slots)
            if place is not None:
                from .remember import remember

                remember(place, entry, self)
            entry.written = None
        return entry

    def release(self) -> None:
        """An object has died that entries are tied to: their checks can never pass again."""
        for entry in self.entries:
            if entry.is_dead():
                self.entries.discard(entry)
                self.ctx.release(entry)

    def _call_text(self) -> str:
        return f"{self.code.co_name}({', '.join(self.layout.names)})"

    def _widened(self, func: FunctionType, values: dict[str, Any]) -> OpenNumbers:
        """What is open once numbers and sizes that were seen to vary are (unless all are to stay static)."""
        if self.ctx.dynamic is False:
            return self.open
        from .widening import with_varying

        return with_varying(self.open, (entry.guards for entry in self.entries), func, values)

    # ---- eager ----

    def eager(self, func: FunctionType, slots: tuple[Any, ...]) -> Any:
        """Run from here to the end of the frame without compiled code of its own; callees may be compiled."""
        if self.is_first:
            return hook.EAGER
        return self.ctx.eager_tail(func, self._instruction().offset, self.layout, slots)

    def uncompiled(self, func: FunctionType, slots: tuple[Any, ...]) -> Any:
        """Run from here to the end of the frame, and everything that it calls, without compiled code."""
        if self.is_first:
            return self.ctx.call_uncompiled(func, *slots)
        return hook.run_off(self.ctx.tail(func, self._instruction().offset, self.layout), slots)

    def failed(self, func: FunctionType, error: Exception, slots: tuple[Any, ...], was_mutated: bool) -> Any:
        """The graph raised. Nothing has been done yet, so eager can start over and raise properly; unless the graph
        has changed an input already."""
        if was_mutated or isinstance(error, VerificationError) or stops_recomputation(error):
            raise error
        if isinstance(error, FactMissed):
            self._note_missed(error)
        return self.eager(func, slots)

    def _note_missed(self, error: FactMissed) -> None:
        """Where facts about data do not hold call after call, what makes them is left between graphs from now on; but
        not where the user wants one graph."""
        if error.times < MAX_MISSED_FACTS or self.ctx.fullgraph:
            return
        with self.lock:
            entry = next((e for e in self.entries if e.assumes(error.owner)), None)
            if entry is None:  # another thread was here
                return
            self.takes_data = False
            self.entries.discard(entry)
            self.ctx.release(entry)
        self.policy.renounce(self._call_text(), f"what was taken for granted about data, {error}, did not hold "
                             f"{error.times} times in a row; what depends on data ends graphs here")  # fmt: skip


class CompileContext:
    """One compiled function's world: options, backend, segments. Compared by identity; the hook's context."""

    def __init__(self, backend: Callable[..., Any], *, dynamic: bool | None, fullgraph: bool, use_hook: bool) -> None:
        self.backend = backend
        self.dynamic = dynamic
        self.fullgraph = fullgraph
        self.use_hook = use_hook
        self.run: Callable[..., Any] = hook.run
        self.first_run = first_run
        self.root_code: CodeType | None = None
        self.segments: dict[tuple[int, int, Layout], Segment] = {}
        self.entries: list[Entry] = []
        self.stats: dict[str, int] = {"graphs": 0, "graph_breaks": 0, "frames": 0, "recompiles": 0, "kernels": 0}
        self.stats["cache_hits"] = 0
        self._tails: EagerTail | None = None
        self._lock = threading.RLock()
        self._thread = threading.local()

    @property
    def may_not_run_eagerly(self) -> bool:
        """Whether reaching the recompile limit is an error."""
        return self.fullgraph or config.strict

    # ---- segments ----

    def segment(self, code: CodeType, index: int, layout: Layout) -> Segment:
        """The segment for a place, made on first use."""
        key = (id(code), index, layout)
        with self._lock:
            found = self.segments.get(key)
            if found is None:
                found = self.segments[key] = Segment(self, code, index, layout)
            return found

    def first_segment(self, code: CodeType) -> Segment:
        return self.segment(code, 0, Layout(argument_names(code)))

    @property
    def recompiles(self) -> list[RecompileRecord]:
        return [record for segment in self.segments.values() for record in segment.policy.records]

    def note(self, entry: Entry) -> None:
        """Count and log a new entry."""
        log_entry(entry)
        profiled.note(entry)
        self.entries.append(entry)
        self.stats["frames"] += 1
        self.stats["graphs"] += len(entry.graphs)
        self.stats["graph_breaks"] += len(entry.breaks)
        self.stats["cache_hits"] += entry.recalled
        self.stats["kernels"] += sum(count_kernels(graph.compiled) for graph in entry.graphs)

    def release(self, entry: Entry) -> None:
        self.entries = [other for other in self.entries if other is not entry]

    # ---- translating ----

    @property
    def is_translating(self) -> bool:
        """Whether this thread is in the middle of a translation for this context."""
        return getattr(self._thread, "translating", False)

    @contextmanager
    def translating(self) -> Iterator[None]:
        self._thread.translating = True
        try:
            with without_saved_tensor_hooks():
                yield
        finally:
            self._thread.translating = False

    # ---- calls ----

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function with its frames compiled: through the hook, or through a wrapper where there is none."""
        if self.use_hook:
            return hook.run(self, fn, args, kwargs)
        return self.call_wrapped(fn, args, kwargs or {})

    def call_wrapped(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, forced: bool = False) -> Any:
        """The door without a hook: find the Python function behind a callable, bind its arguments, dispatch."""
        from .binding import bind_raw, python_function

        found = python_function(fn, args)
        if found is None:
            return fn(*args, **kwargs)
        func, bound_args = found
        if not forced and (why_not_function(func) is not None or getattr(func, "__minicompile_disable__", False)):
            return fn(*args, **kwargs)
        raw = bind_raw(func, bound_args, kwargs)
        result = self.first_segment(func.__code__).dispatch(func, *raw)
        return fn(*args, **kwargs) if result is hook.EAGER else result

    def call_function(self, func: FunctionType, raw: tuple[Any, ...]) -> Any:
        """Call a function with raw argument slots, uncompiled itself."""
        args, kwargs = call_like(func.__code__, raw)
        return func(*args, **kwargs)

    def call_uncompiled(self, func: FunctionType, *raw: Any) -> Any:
        """Call a function with raw argument slots; nothing below it is compiled either."""
        return hook.run_off(self.call_function, func, raw)

    def eager_tail(
        self, func: FunctionType, offset: int, layout: Layout, state: tuple[Any, ...], *, raising: bool = False
    ) -> Any:
        """Go on in CPython at a byte offset, or in the handler for an error raised there; callees are compiled."""
        tail = self.tail(func, offset, layout, raising=raising)
        return hook.run(self, tail, (state,), None) if self.use_hook else tail(state)

    def tail(self, func: FunctionType, offset: int, layout: Layout, *, raising: bool = False) -> Callable[..., Any]:
        """The rest of a function, as a function of its state there."""
        if self._tails is None:
            from .eager_tail import EagerTail

            self._tails = EagerTail()
        return self._tails.function(func, offset, local_names=layout.names, stack=layout.stack, raising=raising)

    def dispatcher_for(self, func: FunctionType) -> Callable[..., Any] | None:
        """The hook's question: how a frame of this function is to run. None: as ever."""
        if func.__code__ is self.root_code:
            return self.first_segment(func.__code__).dispatch
        if needs_eager_below(func.__code__):
            return self.call_uncompiled
        if why_not_function(func) is not None or getattr(func, "__minicompile_disable__", False):
            return None
        return step_dispatcher(func.__code__, self.first_segment(func.__code__).dispatch)


def hook_callback(ctx: Any, func: FunctionType) -> Callable[..., Any] | None:
    """What the hook is given: contexts answer for themselves."""
    return ctx.dispatcher_for(func)


__all__ = ["CompileContext", "Entry", "GraphRecord", "Segment", "Tail", "drive", "hook_callback"]
