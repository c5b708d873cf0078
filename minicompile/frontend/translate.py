"""One translation: from a segment and the values of one call to an entry.

In: a segment, the function, its slots. Out: an `Entry`. Tracing runs the segment's instructions symbolically until the
frame returns or breaks. A break that comes after the breaking instruction has changed something (an inlined callee
that broke half-way) starts over, with the break known in advance. What cannot be translated becomes an entry that says
"run in eager" under the same guards.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import torch

from .. import timeline
from ..config import config
from ..errors import BackendError, GraphBreakError, MinicompileError, StageError, UnsupportedError
from ..guards import GuardSet, build_check
from ..guards.state import GlobalStateGuard, UntraceableGuard
from ..guards.tensors import memory_overlaps
from ..guards.torch_state import why_untraceable
from ..ir.fake_strides import EagerStrides
from ..torch_compat import enter_attention_kernels, quiet_fake_tensors, without_function_modes
from .breaks import Break, BreakRecord, DataWritten, Restart, SkipFrame, UserError
from .bytecode import Decoded, Instruction, decode
from .data_dependent import Capture, NeedsSymbols
from .entry_text import EntryText, assemble
from .exits import Exit
from .frame import NULL, Frame
from .generated import caller_at, make_function
from .glue import Glue
from .graph import GraphBuilder
from .inference_regions import settle
from .interpreter import MAX_STEPS, advance
from .layout import argument_names, call_like, slot_name
from .raising_branches import checks
from .segments import Entry, GraphRecord, Segment
from .side_effects import EffectRecord
from .sources import FreeCellSource, FunctionSource, LocalSource, Source, StackSource
from .surroundings import innermost, surroundings
from .tracer import Tracer
from .values.base import Lazy, Value
from .values.functions import CellObjectSource, CellValue, slot_cell
from .values.indexing import check_taken
from .values.inner_gradients import check_inner_gradients
from .values.new_leaves import check_new_leaves
from .values.tensor_data import check_data
from .values.tensor_hooks import check_final_cells, check_hooked

_log = logging.getLogger("minicompile.graph")
MAX_ATTEMPTS = 30
"""How often tracing of one piece may begin again, each time with an earlier end."""


def translate(segment: Segment, func: FunctionType, slots: tuple[Any, ...]) -> Entry:
    """Make an entry for one call. Raises GraphBreakError under fullgraph; under `config.strict` what went wrong."""
    start = time.perf_counter()
    planned: Restart | None = None
    static, shown = False, frozenset[Source]()
    for _ in range(MAX_ATTEMPTS):
        attempt = Attempt(segment, func, slots, planned, static)
        attempt.tr.shown = shown
        try:
            return attempt.observed_run(start)
        except Restart as restart:
            planned = restart.without_frames()
        except DataWritten as met:
            shown |= met.sources
        except NeedsSymbols as met:
            segment.open = replace(segment.open, **met.opened)
        except UnsupportedError:  # something was assumed about a symbolic size that no guard can say
            static = True
        finally:
            attempt.tr.forget_objects()
    return Attempt(segment, func, slots, None, True).eager_entry("tracing began again too often", start)


class Attempt:
    """One run of the tracer from the segment's start."""

    def __init__(
        self, segment: Segment, func: FunctionType, slots: tuple[Any, ...], planned: Restart | None, static: bool
    ) -> None:
        self.segment = segment
        self.func = func
        self.slots = slots
        self.planned = planned
        self.decoded: Decoded = decode(segment.code)
        self.state = GlobalStateGuard()
        dynamic = segment.ctx.dynamic
        may_be_symbolic = not static and dynamic is not False
        symbolic = may_be_symbolic and bool(dynamic or segment.open) or not static and segment.open.data
        capture = Capture() if static or not segment.takes_data else Capture.of(segment.ctx)
        graph = GraphBuilder(bool(dynamic), segment.open, symbolic, may_be_marked=may_be_symbolic, capture=capture)
        self.tr = Tracer(graph, self.state)
        self.tr.takes_data = segment.takes_data
        self.tr.takes_symbols = not static
        self.frame = root_frame(self.tr, segment, self.decoded, func, slots)
        self.tr.frame = self.frame

    # ---- tracing ----

    def observed_run(self, start: float) -> Entry:
        """`run`, and an observer that is told of it."""
        if self.tr.observer is None:
            return self.run(start)
        self.tr.observer.begin(self.segment)
        entry = self.run(start)
        self.tr.observer.end(entry)
        return entry

    def run(self, start: float) -> Entry:
        """Trace, then write the entry."""
        why = self._why_not()
        if why is not None:
            return self.eager_entry(why, start)
        try:
            with self._same_modes_after():
                return self._run(start)
        except UserError as error:
            return self.eager_entry(f"it raised {error}", start)
        except SkipFrame as error:
            return self.eager_entry(str(error), start, all_below=error.all_below)

    @contextmanager
    def _same_modes_after(self) -> Iterator[None]:
        """The modes that tracing sets for real are those of the call again, in which its entry's guards are made."""
        grad_mode = torch.is_grad_enabled()
        try:
            yield
        finally:
            for block in reversed(self.tr.open_blocks):
                block.leave(block.mode)
            torch._C._set_grad_enabled(grad_mode)

    def _why_not(self) -> str | None:
        if self.decoded.is_generator or self.decoded.is_coroutine:
            return "it is a generator or a coroutine"
        why = why_untraceable()
        if why is not None:
            self.tr.guards = GuardSet([UntraceableGuard()])
        return why

    def _run(self, start: float) -> Entry:
        fakes = self.tr.graph.fake_mode
        with without_function_modes(), fakes, EagerStrides(), quiet_fake_tensors(), self.tr.graph.symbolic_kernels():
            try:
                result, broken = self._trace()
            except (Break, Restart, DataWritten, UserError, SkipFrame, NeedsSymbols):
                raise
            except Exception as error:
                self._internal_error(error)
        try:
            return self._finish(result, broken, start)
        except (MinicompileError, Restart, DataWritten, SkipFrame):
            raise
        except Break as broken:  # something that the frame leaves behind cannot be made in the glue
            self._cannot_leave(broken)
        except Exception as error:
            self._internal_error(error)

    def _cannot_leave(self, broken: Break) -> NoReturn:
        broken.location = broken.location or self.frame.location()
        if self.segment.ctx.fullgraph:
            raise _graph_break_error(broken.record())
        raise SkipFrame(broken.reason)

    def _internal_error(self, error: Exception) -> NoReturn:
        """A bug of ours must not be the user's problem."""
        script = self._reproducer(error)
        if config.strict or self.segment.ctx.fullgraph:
            raise StageError("frontend", error, script) from error
        name = self.segment.code.co_name
        warnings.warn(
            f"minicompile's frontend failed on {name} ({self.frame.location()}) with {type(error).__name__}: {error}. "
            f"The function runs in eager mode. This is a bug in minicompile.{f' See {script}.' if script else ''}",
            RuntimeWarning,
            stacklevel=2,
        )
        _log.debug("frontend failed", exc_info=error)
        raise SkipFrame("the frontend failed")

    def _reproducer(self, error: Exception) -> Path | None:
        """A script that shows it, in the debug folder. None for a later piece: scripts start with the function."""
        if config.debug_dir is None or not self.segment.is_first:
            return None
        from ..inspect.debug import write_frontend_repro

        args, kwargs = call_like(self.segment.code, self.slots)
        try:
            return write_frontend_repro(config.debug_dir, self.func, args, kwargs, str(self.frame.location()), error)
        except Exception as problem:  # arguments of the user's may not like to be looked at
            _log.debug("no script for the frontend's failure: %s", problem)
            return None

    def _trace(self) -> tuple[Value | None, tuple[Instruction, BreakRecord] | None]:
        """Run the root frame: its result, or the instruction that broke."""
        tr, frame, instructions = self.tr, self.frame, self.decoded.instructions
        while True:
            instruction = instructions[frame.pc]
            tr.root_step += 1
            if self.planned is not None and tr.root_step == self.planned.step:
                frame.pc = instruction.index + 1
                self.planned.reason.location = self.planned.reason.location or frame.location()
                return None, (instruction, self.planned.reason.record())
            saved, epoch = frame.stack.copy(), tr.epoch
            try:
                result = advance(tr, frame)
            except Break as broken:
                if broken.location is None:
                    broken.location = frame.location()
                if tr.epoch != epoch:
                    raise Restart(tr.root_step, broken) from None
                frame.stack = saved
                frame.pc = instruction.index + 1
                return None, (instruction, broken.record())
            if result is not None:
                return result, None
            if tr.root_step > MAX_STEPS:
                raise SkipFrame(f"it runs more than {MAX_STEPS} instructions")

    # ---- writing the entry ----

    def _finish(self, result: Value | None, broken: tuple[Instruction, BreakRecord] | None, start: float) -> Entry:
        """Put the entry together: guards, the call of the compiled graph, and what the rest of the code needs."""
        if broken is not None and self.segment.ctx.fullgraph:
            raise _graph_break_error(broken[1])
        tr, way = self.tr, self._way_out(result, broken)
        glue = way.glue
        call_lines, record = self._graph_call(glue)
        with torch._C.DisableTorchFunctionSubclass():  # it is not the program that asks
            # Before the backend runs: a graph that writes what another input shows is left to eager.
            self._guard_memory()
        begin = time.perf_counter()
        seconds = {"trace": begin - start}
        timeline.record("trace", start, begin)
        with timeline.stage("backend", seconds):
            compiled = self._compile_graph(record) if record is not None else None
        guards = self._guards()
        with timeline.stage("glue", seconds):
            parts = EntryText([*call_lines, *glue.lines], glue.reads, glue.namespace)
            written = assemble(self.segment, guards, parts)
            namespace = {**written.namespace, **self._way_on(way), "__graph__": compiled}
            run = make_function(f"{self.segment.code.co_name}:{self.segment.line}", written.text, namespace)
        graphs, check = [record] if record else [], written.check
        breaks = self._new_breaks(broken)
        entry = Entry(self.segment.name, run, guards, graphs, written.text, breaks, seconds, None, check.is_dead)
        is_whole = not (way.next or way.line or way.tail or way.raising)
        entry.written = written if is_whole and tr.graph.shapes is None and tr.is_portable else None
        entry.draws = bool(tr.draws.sources)
        entry.effects_or_packed = _placed_effects(glue, call_lines, 1 + len(check.lines))
        return entry

    def _new_breaks(self, broken: tuple[Instruction, BreakRecord] | None) -> list[BreakRecord]:
        """The break, if there is one. Going round a loop that broke in its body is part of that break, not one more."""
        is_new = broken is not None and (self.segment.is_first or broken[0].op != "FOR_ITER")
        return [broken[1]] if broken is not None and is_new else []

    def _way_out(self, result: Value | None, broken: tuple[Instruction, BreakRecord] | None) -> Exit:
        """The glue behind the graph: what the frame has changed, and its result or the way on from the break."""
        tr = self.tr
        if tr.open_blocks:
            tr.open_blocks[0].restart()
        glue = Glue(tr)
        for source in tr.draws.reads():
            glue.source(source)
        way = Exit(tr, self.frame, glue)
        if broken is not None:
            way.breaks(*broken)
        else:
            assert result is not None
            way.returns(result)
        for generator in tr.generators:  # those that are still in use have made tracing begin again
            if generator.is_left_in_try():  # it is closed the moment it dies, which only CPython knows
                raise SkipFrame(f"{generator.describe()} is left in the middle of a `try`")
        check_final_cells(tr, goes_on=broken is not None)
        check_data(tr)
        tr.guard_aliases()
        return way

    def _guards(self) -> GuardSet:
        """All that was assumed. Asked for when the backend has run: it may assume something about sizes as well."""
        guards, shapes = self.tr.guards, self.tr.graph.shapes
        if shapes is not None:
            self.tr.draws.check(self.tr)
            guards.update(shapes.guards())
        return guards

    def _graph_call(self, glue: Glue) -> tuple[list[str], GraphRecord | None]:
        """The lines that call the graph, and the graph itself; nothing if there is nothing to compute."""
        graph = self.tr.graph
        if graph.is_empty:
            assert not glue.outputs, "a value computed by an empty graph"
            return [], None
        if torch.is_grad_enabled() != self.tr.entry_grad_mode or self._sets_grad_mode():
            graph.set_grad_mode(self.tr.entry_grad_mode, self.tr.origin("torch.set_grad_enabled"))
        is_inference = settle(graph, glue.outputs, self.tr.entry_grad_mode)
        conditions = checks(self.tr, glue)
        check_hooked(self.tr, glue.outputs)
        check_new_leaves(self.tr, glue.outputs)
        check_taken(self.tr, glue.outputs)
        check_inner_gradients(self.tr, list(glue.outputs))
        gm, arguments = graph.finish(self.tr, list(glue.outputs))
        texts = [glue.source(source) for source in arguments.sources]
        names = "".join(f"{name}, " for name in glue.outputs.values())
        call = f"{f'({names}) = ' if names else ''}__graph__({', '.join(texts)})"
        call = f"with __inference_mode__(): {call}" if is_inference else call
        lines = self._call_lines([call, *conditions], glue)
        return lines, GraphRecord(gm, gm.forward, arguments.examples)

    def _sets_grad_mode(self) -> bool:
        nodes = self.tr.graph.graph.nodes
        modes = [node.args[0] for node in nodes if node.target is torch._C._set_grad_enabled]
        return bool(modes) and modes[-1] != self.tr.entry_grad_mode

    def _call_lines(self, calls: list[str], glue: Glue) -> list[str]:
        """The call, and what happens if it raises; where the graph mutates inputs, only if it has not done so yet."""
        slots = "".join(f"{name}, " for name in self.segment.layout.parameters())
        before, was_mutated = self._watched_writes(glue)
        restore = []
        if self._sets_modes():
            before.append("__modes = __save_modes__()")
            restore = ["    __restore_modes__(__modes)"]
        undone = [glue.source(source) for source in self.tr.draws.reads() if source.undoes]
        return [
            *before,
            "__errors = []",  # eager must not begin inside our own `except`: the program may look at sys.exc_info()
            "try:",
            *(f"    {call}" for call in calls),
            "except Exception as __error:",
            "    __errors.append(__error)",
            *restore,
            *(f"    {undo}()" for undo in undone),
            "if __errors:",
            f"    return __failed__(__func__, __errors.pop(), ({slots}), {was_mutated})",
        ]

    def _watched_writes(self, glue: Glue) -> tuple[list[str], str]:
        """Lines that note the versions of the inputs that the graph mutates, and the text that tells afterwards whether
        one has been; an inference tensor has no version, and counts as mutated."""
        mutated = [entry for entry in self.tr.graph.inputs if entry.mutated]
        counted = [entry for entry in mutated if not entry.value.fake.is_inference()]
        was_mutated = str(len(counted) < len(mutated))
        versions = [f"{glue.source(entry.source)}._version" for entry in counted]
        versions = [text for text in versions if "\x00" in text]  # what is read, not what the frame has made
        if not versions:
            return [], was_mutated
        state = f"({''.join(f'{text}, ' for text in versions)})"
        return [f"__v = {state}"], f"{was_mutated} or __v != {state}"

    def _sets_modes(self) -> bool:
        """Whether the graph sets modes that have to be put back if it raises. A body (get_attr) may set some that the
        graph around it does not."""
        modes = {torch._C._set_grad_enabled, torch.amp._enter_autocast, enter_attention_kernels}
        return any(
            node.op == "get_attr" or (node.op == "call_function" and node.target in modes)
            for node in self.tr.graph.graph.nodes
        )

    def _guard_memory(self) -> None:
        """Where a tensor from outside is written, how it overlaps with others is part of what was compiled."""
        from ..guards.tensors import DisjointGuard, NoInnerOverlapGuard, OverlapGuard, are_disjoint

        inputs = [entry for entry in self.tr.graph.inputs if entry.value.real is not None]
        written = [entry for entry in inputs if entry.mutated]
        for entry in written:
            if not _has_known_strides(entry.value.fake) and torch._debug_has_internal_overlap(entry.value.real) != 1:
                self.tr.guard(NoInnerOverlapGuard(entry.source))
        strided = [(e, real) for e in inputs if (real := e.value.real) is not None and real.layout is torch.strided]
        changed, read = ([pair for pair in strided if pair[0].mutated is wanted] for wanted in (True, False))
        if are_disjoint((real for _, real in changed), (real for _, real in read)):
            if changed and len(strided) > 1:
                self.tr.guard(DisjointGuard(tuple(e.source for e, _ in changed), tuple(e.source for e, _ in read)))
            return
        for entry, other in ((e, o) for e in written for o in inputs if o is not e):
            overlapping = memory_overlaps(entry.value.real, other.value.real)
            self.tr.graph.has_aliased_mutation |= overlapping
            self.tr.guard(OverlapGuard(entry.source, other.source, overlapping))

    def _way_on(self, way: Exit) -> dict[str, Any]:
        """What the last lines need: the next segments, and how to run things."""
        segment, ctx = self.segment, self.segment.ctx
        namespace = surroundings(segment)
        for following in way.next:
            namespace[following.name] = ctx.segment(segment.code, following.index, following.layout)
        if way.line is not None:
            namespace["__user_line__"] = caller_at(way.line, self.func.__globals__)
        if way.tail is not None:
            offset, layout = way.tail
            namespace["__eager_tail__"] = lambda func, state: ctx.eager_tail(func, offset, layout, state)
        if way.raising is not None:
            place, below = way.raising
            namespace["__raise__"] = lambda func, state: ctx.eager_tail(func, place, below, state, raising=True)
        return namespace

    def _compile_graph(self, record: GraphRecord) -> Callable[..., Any]:
        backend = self.segment.ctx.backend
        if not self.tr.graph.has_aliased_mutation:
            try:
                with without_function_modes():
                    compiled = backend(record.gm, record.example_inputs)
                if not callable(compiled):
                    raise TypeError(f"a backend returns what is called in the graph's place, not {compiled!r}")
                record.compiled = compiled
            except Exception as error:
                failure = error if isinstance(error, MinicompileError) else BackendError(_backend_name(backend), error)
                if config.strict or self.segment.ctx.fullgraph:
                    raise failure from (error if failure is not error else error.__cause__)
                warnings.warn(f"minicompile: {failure}\nThe graph runs in eager mode.", RuntimeWarning, stacklevel=2)
        return innermost(record.compiled)

    def eager_entry(self, why: str, start: float, *, all_below: bool = False) -> Entry:
        """An entry that runs the frame in eager, as long as what tracing saw stays the same."""
        parameters = self.segment.layout.parameters()
        guards = self.tr.guards
        if self.tr.graph.shapes is not None:
            guards.update(self.tr.graph.shapes.guards())
        check = build_check(guards, parameters, [])
        slots = "".join(f"{name}, " for name in parameters)
        lines = [*check.lines, f"return __eager__(__func__, ({slots}))"]
        text = f"def entry({', '.join(('__func__', *parameters))}):  # runs in eager: {' '.join(why.split())}\n"
        text += "\n".join(f"    {line}" for line in lines) + "\n"
        run = make_function(
            f"{self.segment.code.co_name}:{self.segment.line}",
            text,
            {**check.namespace, "__eager__": self.segment.uncompiled if all_below else self.segment.eager},
        )
        span = timeline.record("trace", start, time.perf_counter())
        seconds = {"trace": span.end - span.start}
        return Entry(self.segment.name, run, guards, [], text, [], seconds, why, check.is_dead)


def _placed_effects(glue: Glue, call_lines: list[str], before: int) -> list[EffectRecord]:
    """The effects with the lines of the entry's code that repeat them; `before` lines stand above the call's."""
    starts, number = [], before + 1
    for line in (*call_lines, *glue.lines):
        starts.append(number)
        number += line.count("\n") + 1
    return [replace(e, replayed_at=starts[len(call_lines) + line]) for line, e in glue.replayed.items()]


def _has_known_strides(fake: torch.Tensor) -> bool:
    """Whether the strides are constants, which the tensor's own guard holds to: elements can't come to share memory."""
    return fake.layout is torch.strided and all(isinstance(stride, int) for stride in fake.stride())


def _backend_name(backend: Any) -> str:
    return f"backend {getattr(backend, '__name__', type(backend).__name__)}"


def _graph_break_error(record: BreakRecord) -> GraphBreakError:
    place = record.location
    return GraphBreakError(
        f"{record.kind.value}: {record.reason}",
        file=place.file,
        line=place.line,
        function=place.function,
        hint=record.hint,
    )


# ---- the root frame ----


def root_frame(tr: Tracer, segment: Segment, decoded: Decoded, func: FunctionType, values: tuple[Any, ...]) -> Frame:
    """The frame that the segment starts from: its variables and stack are the entry's parameters."""
    code, layout = segment.code, segment.layout
    closure = [
        _free_cell(tr, cell, index, name)
        for index, (cell, name) in enumerate(zip(func.__closure__ or (), code.co_freevars, strict=True))
    ]
    frame = Frame(decoded, func.__globals__, None, {}, closure, None)
    given = iter(values)
    arguments = frozenset(argument_names(code))
    for index, name in enumerate(layout.names):
        is_cell = not segment.is_first and name in code.co_cellvars
        slot = slot_name(name, index)
        source = LocalSource(name, name in arguments, slot if slot != name else None)
        frame.slots[name] = _slot_value(tr, next(given), source, is_cell=is_cell)
    for index, is_value in enumerate(layout.stack):
        frame.push(_slot_value(tr, next(given), StackSource(index), is_cell=False) if is_value else NULL)
    if not segment.is_first:
        frame.slots.update(zip(code.co_freevars, closure, strict=True))
        frame.pc = segment.index
    return frame


def _slot_value(tr: Tracer, value: Any, source: Source, *, is_cell: bool) -> Value:
    return slot_cell(tr, value, source) if is_cell else Lazy(value, source)


def _free_cell(tr: Tracer, cell: Any, index: int, name: str) -> CellValue:
    known = tr.known(cell)
    if known is None:
        known = CellValue.outside(cell, CellObjectSource(FunctionSource(), index, name), FreeCellSource(name, index))
        tr.remember(cell, known)
    assert isinstance(known, CellValue)
    return known


__all__ = ["translate"]
