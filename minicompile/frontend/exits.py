"""How a traced piece of a frame ends, as glue: a return, a breaking operation with what comes behind it, an eager tail.

In: the frame at the instruction where tracing stopped. Out: the last lines of the generated function.

Each instruction that can break has an entry in `_OPERATIONS`: how many operands it takes off the stack, and the
Python function that does on real objects what the instruction does. It runs under the hook, so that Python functions
that it reaches are compiled on their own. If it raises inside a `try` or `with`, the rest of the frame runs in CPython,
from the handler on. An instruction without an entry is left to CPython, too: the eager tail goes on with the original
code at that very instruction.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .breaks import Break, BreakRecord, Location, Restart
from .glue import Glue
from .handlers_calls import take_call, take_call_ex, take_call_kw
from .handlers_control import loop_end
from .layout import Layout
from .operators import BY_SYMBOL, UNARY
from .values.base import NULL, Lazy, OpaqueValue, Value
from .values.contexts import GradModeExit, GradModeExitValue
from .values.exceptions import now_handled
from .versions import NULL_FIRST

if TYPE_CHECKING:
    from .bytecode import Decoded, Instruction
    from .frame import Frame
    from .tracer import Tracer

_END = object()
"""What an iterator yields, for the glue, when it is exhausted."""


@dataclass
class NextSegment:
    """Where to go on: index of the instruction, and the layout. `name` is its name in the glue's namespace."""

    name: str
    index: int
    layout: Layout


class Exit:
    """Writes the end of one piece."""

    def __init__(self, tr: Tracer, frame: Frame, glue: Glue) -> None:
        self.tr = tr
        self.frame = frame
        self.glue = glue
        self.next: list[NextSegment] = []
        self.tail: tuple[int, Layout] | None = None
        self.raising: tuple[int, Layout] | None = None
        self.instruction: Instruction | None = None
        self.line: Location | None = None

    # ---- return ----

    def returns(self, value: Value) -> None:
        """The frame is done."""
        text = self.glue.ref(value)
        self.glue.effects()
        self._leave_grad_mode()
        self.glue.line(f"return {text}")

    def _leave_grad_mode(self) -> None:
        mode = torch.is_grad_enabled()
        if mode != self.tr.entry_grad_mode:
            self.glue.line(f"__set_grad__({mode})")

    # ---- breaks ----

    def breaks(self, instruction: Instruction, record: BreakRecord) -> None:
        """The instruction is performed for real; the frame's stack is as before it.

        While an exception of the traced program is being handled nothing can be: only a real one has a traceback. Then
        the piece ends where it was raised.
        """
        handled = now_handled(self.tr)
        if handled is not None and handled.step is not None:
            raise Restart(handled.step, Break.again(record))
        self.instruction = instruction
        writer = _WRITERS.get(instruction.op)
        if writer is None:
            self.eager_tail(instruction)
        else:
            writer(self, instruction)

    def _is_protected(self, instruction: Instruction) -> bool:
        """Whether an exception handler other than that of a grad mode block covers the instruction."""
        decoded, handler = self.frame.decoded, self.frame.decoded.handler_at(instruction.offset)
        while handler is not None:
            outer = self._outside(decoded, *handler)
            if outer is None:
                return True
            handler = decoded.handler_at(outer)
        return False

    def _outside(self, decoded: Decoded, start: int, target: int, depth: int) -> int | None:
        """For a handler that the break may ignore, the offset of an instruction just outside what it covers."""
        index = decoded.index_at[target]
        first = decoded.instructions[index]
        if first.op == "SWAP":  # 3.12's inlined comprehensions put a variable back, and raise on
            return target
        exit_value = self._grad_exit(self.frame.stack[depth - 1]) if 0 < depth <= len(self.frame.stack) else None
        following = decoded.instructions[index + 1].op
        if exit_value is None or following != "WITH_EXCEPT_START":
            return None
        begin = min(entry[0] for entry in decoded.handlers if entry[2] == target)
        return decoded.instructions[decoded.index_at[begin] - 1].offset

    def eager_tail(self, instruction: Instruction) -> None:
        """Leave the rest of the frame to CPython, from this instruction on."""
        frame, glue = self.frame, self.glue
        names = tuple(name for name in frame.slots if name not in frame.code.co_freevars)
        layout = Layout(names, tuple(value is not NULL for value in frame.stack))
        state = self._state(layout)
        glue.effects()
        self._leave_grad_mode()
        self.tail = (instruction.offset, layout)
        glue.line(f"return __eager_tail__(__func__, {state})")

    # ---- states ----

    def _state(self, layout: Layout, results: dict[int, str] | None = None) -> str:
        """Text of the tuple of slot and stack values; `results` gives texts for stack slots that are not values yet."""
        texts = [self.glue.ref(self.frame.slots[name]) for name in layout.names]
        for index, is_value in enumerate(layout.stack):
            if results and index in results:
                texts.append(results[index])
            elif is_value:
                texts.append(self.glue.ref(self.frame.stack[index]))
        return f"({''.join(f'{text}, ' for text in texts)})"

    def _go_on(self, index: int, results: list[str | None], drop: str | None = None) -> str:
        """Text of the return that goes on at an instruction, with results (None: a NULL) on top of the stack.

        Call it before the effects: it may still make objects.
        """
        frame = self.frame
        live = frame.decoded.live[index]
        names = [n for n in frame.slots if n in live and n not in frame.code.co_freevars and n != drop]
        below = [value is not NULL for value in frame.stack]
        layout = Layout(tuple(names), tuple(below + [text is not None for text in results]))
        texts = {len(below) + offset: text for offset, text in enumerate(results) if text is not None}
        state = self._state(layout, texts)
        segment = NextSegment(f"__segment_{len(self.next)}__", index, layout)
        self.next.append(segment)
        return f"return __tail__({segment.name}, __func__, {state})"

    def _operate(self, call: str, to_handler: str | None) -> None:
        """The line that performs the operation. If it raises, the frame goes on in CPython, from its handler on; if it
        has none, open grad mode blocks are left."""
        runner, _, arguments = call.partition("(")
        call = f"__user_line__({runner}, {arguments}"
        self.line = self.frame.location()
        if to_handler is not None:
            # The handler must not run inside our own `except`: the program may look at sys.exc_info().
            keep = ["except BaseException as __error:", "    __errors.append(__error)"]
            lines = ["__errors = []", "try:", f"    __r = {call}", *keep, "if __errors:", f"    {to_handler}"]
            self.glue.lines += lines
            return
        outermost = next((v for v in map(self._grad_exit, self.frame.stack) if v is not None), None)
        if outermost is None:
            self.glue.line(f"__r = {call}")
            return
        leave = f"    __set_grad__({outermost.previous})"
        self.glue.lines += ["try:", f"    __r = {call}", "except BaseException:", leave, "    raise"]

    def _to_handler(self) -> str | None:
        """Text of the return that goes on in the frame's handler with the error that the operation has raised.

        Call it before the effects: it may still make objects.
        """
        frame, instruction = self.frame, self.instruction
        assert instruction is not None
        place = frame.decoded.catcher_at(instruction.offset)
        if place is None or not self._is_protected(instruction):
            return None
        names = tuple(name for name in frame.slots if name not in frame.code.co_freevars)
        layout = Layout(names, tuple(value is not NULL for value in frame.stack[: place[1]]))
        self.raising = (instruction.offset, layout)
        return f"return __raise__(__func__, (*{self._state(layout)}, __errors.pop()))"

    def _grad_exit(self, value: Value) -> GradModeExitValue | None:
        """The value if it is a grad mode block's exit. Nothing else is looked at: that would put guards on it."""
        if isinstance(value, Lazy):
            if type(value.obj) is not GradModeExit:
                return None
            value = value.realize(self.tr)
        return value if isinstance(value, GradModeExitValue) else None

    def perform(self, call: str, index: int, results: list[str | None]) -> None:
        """Effects, the operation, and on."""
        to_handler = self._to_handler()
        way_on = self._go_on(index, results)
        self.glue.effects()
        self._leave_grad_mode()
        self._operate(call, to_handler)
        self.glue.line(way_on)


# ---- one writer for each kind of instruction ----

Writer = Callable[[Exit, "Instruction"], None]
_WRITERS: dict[str, Writer] = {}


def _writer(*names: str) -> Callable[[Writer], Writer]:
    def register(fn: Writer) -> Writer:
        for name in names:
            _WRITERS[name] = fn
        return fn

    return register


def _runner(value: Value) -> str:
    """Calls of what torch.compile made run without our hook: one tracer is never nested in the other."""
    obj = value.obj if isinstance(value, (OpaqueValue, Lazy)) else getattr(value, "fn", None)
    return "__run_off__" if getattr(obj, "_torchdynamo_orig_callable", None) is not None else "__run__"


def _looks_at_its_caller(value: Value) -> bool:
    """Whether a callable reads the frame that calls it, which must then be the user's own."""
    obj = value.obj if isinstance(value, (OpaqueValue, Lazy)) else getattr(value, "fn", None)
    return any(obj is fn for fn in _FRAME_READERS)


_FRAME_READERS = (
    locals, globals, vars, dir, eval, exec, super, sys._getframe, inspect.currentframe, inspect.stack, breakpoint,
)  # fmt: skip


@_writer("CALL", "CALL_KW")
def _call(out: Exit, instruction: Instruction) -> None:
    saved = out.frame.stack.copy()
    take = take_call if instruction.op == "CALL" else take_call_kw
    fn, args, kwargs = take(out.tr, out.frame, instruction.arg)
    if _looks_at_its_caller(fn):
        out.frame.stack = saved
        out.eager_tail(instruction)
        return
    ref = out.glue.ref
    text = f"{ref(fn)}, ({''.join(f'{ref(arg)}, ' for arg in args)})"
    if kwargs:
        text += f", {{{', '.join(f'{key!r}: {ref(value)}' for key, value in kwargs.items())}}}"
    out.perform(f"{_runner(fn)}({text})", instruction.index + 1, ["__r"])


@_writer("CALL_FUNCTION_EX")
def _call_ex(out: Exit, instruction: Instruction) -> None:
    fn, positional, named = take_call_ex(out.tr, out.frame, instruction.arg)
    ref = out.glue.ref
    text = f"{ref(fn)}, __tuple__({ref(positional)})"
    if named is not None:
        text += f", __dict__({ref(named)})"
    out.perform(f"{_runner(fn)}({text})", instruction.index + 1, ["__r"])


def _operands(out: Exit, count: int) -> list[str]:
    return [out.glue.ref(value) for value in out.frame.pop_many(count)]


def _apply(out: Exit, fn: Any, operands: list[str], instruction: Instruction, results: list[str | None]) -> None:
    call = f"__run__({out.glue.keep(fn)}, ({''.join(f'{text}, ' for text in operands)}))"
    out.perform(call, instruction.index + 1, results)


@_writer("BINARY_OP", "COMPARE_OP")
def _binary(out: Exit, instruction: Instruction) -> None:
    _apply(out, BY_SYMBOL[instruction.arg], _operands(out, 2), instruction, ["__r"])


@_writer(*UNARY)
def _unary(out: Exit, instruction: Instruction) -> None:
    _apply(out, UNARY[instruction.op], _operands(out, 1), instruction, ["__r"])


@_writer("UNARY_NOT")
def _not(out: Exit, instruction: Instruction) -> None:
    _apply(out, operator.not_, _operands(out, 1), instruction, ["__r"])


@_writer("TO_BOOL")
def _to_bool(out: Exit, instruction: Instruction) -> None:
    _apply(out, bool, _operands(out, 1), instruction, ["__r"])


@_writer("CONTAINS_OP")
def _contains(out: Exit, instruction: Instruction) -> None:
    item, container = _operands(out, 2)
    _apply(out, _not_contains if instruction.arg else operator.contains, [container, item], instruction, ["__r"])


def _not_contains(container: Any, item: Any) -> bool:
    return item not in container


@_writer("BINARY_SUBSCR")
def _subscript(out: Exit, instruction: Instruction) -> None:
    _apply(out, operator.getitem, _operands(out, 2), instruction, ["__r"])


@_writer("BINARY_SLICE")
def _slice(out: Exit, instruction: Instruction) -> None:
    _apply(out, _get_slice, _operands(out, 3), instruction, ["__r"])


def _get_slice(owner: Any, start: Any, stop: Any) -> Any:
    return owner[start:stop]


@_writer("STORE_SUBSCR")
def _store_subscript(out: Exit, instruction: Instruction) -> None:
    value, owner, key = _operands(out, 3)
    _apply(out, operator.setitem, [owner, key, value], instruction, [])


@_writer("STORE_SLICE")
def _store_slice(out: Exit, instruction: Instruction) -> None:
    _apply(out, _set_slice, _operands(out, 4), instruction, [])


def _set_slice(value: Any, owner: Any, start: Any, stop: Any) -> None:
    owner[start:stop] = value


@_writer("DELETE_SUBSCR")
def _delete_subscript(out: Exit, instruction: Instruction) -> None:
    _apply(out, operator.delitem, _operands(out, 2), instruction, [])


@_writer("LOAD_ATTR")
def _load_attr(out: Exit, instruction: Instruction) -> None:
    name, is_method = instruction.arg
    (owner,) = _operands(out, 1)
    results: list[str | None] = ["__r"]
    if is_method:
        results = [None, "__r"] if NULL_FIRST else ["__r", None]
    _apply(out, getattr, [owner, repr(name)], instruction, results)


@_writer("STORE_ATTR")
def _store_attr(out: Exit, instruction: Instruction) -> None:
    value, owner = _operands(out, 2)
    _apply(out, setattr, [owner, repr(instruction.arg), value], instruction, [])


@_writer("DELETE_ATTR")
def _delete_attr(out: Exit, instruction: Instruction) -> None:
    (owner,) = _operands(out, 1)
    _apply(out, delattr, [owner, repr(instruction.arg)], instruction, [])


@_writer("GET_ITER")
def _get_iter(out: Exit, instruction: Instruction) -> None:
    _apply(out, iter, _operands(out, 1), instruction, ["__r"])


@_writer("BUILD_SET")
def _build_set(out: Exit, instruction: Instruction) -> None:
    _apply(out, _make_set, _operands(out, instruction.arg), instruction, ["__r"])


def _make_set(*items: Any) -> set[Any]:
    return set(items)


@_writer("BUILD_MAP")
def _build_map(out: Exit, instruction: Instruction) -> None:
    _apply(out, _make_dict, _operands(out, 2 * instruction.arg), instruction, ["__r"])


def _make_dict(*flat: Any) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@_writer("BUILD_STRING")
def _build_string(out: Exit, instruction: Instruction) -> None:
    _apply(out, _join, _operands(out, instruction.arg), instruction, ["__r"])


def _join(*parts: str) -> str:
    return "".join(parts)


@_writer("FORMAT_VALUE")
def _format(out: Exit, instruction: Instruction) -> None:
    conversion, has_spec = instruction.arg
    operands = _operands(out, 2 if has_spec else 1)
    spec = operands[1] if has_spec else repr("")
    _apply(out, _formatted, [out.glue.constant(conversion), operands[0], spec], instruction, ["__r"])


def _formatted(conversion: Callable[[Any], str] | None, value: Any, spec: str) -> str:
    return format(conversion(value) if conversion is not None else value, spec)


@_writer("CONVERT_VALUE")
def _convert(out: Exit, instruction: Instruction) -> None:
    _apply(out, instruction.arg, _operands(out, 1), instruction, ["__r"])


@_writer("UNPACK_SEQUENCE")
def _unpack(out: Exit, instruction: Instruction) -> None:
    count = instruction.arg
    (value,) = _operands(out, 1)
    _apply(out, _exactly, [value, str(count)], instruction, [f"__r[{i}]" for i in reversed(range(count))])


def _exactly(value: Any, count: int) -> list[Any]:
    """Unpack as CPython does: at most one element too many is asked for."""
    items: list[Any] = []
    for item in iter(value):
        if len(items) == count:
            raise ValueError(f"too many values to unpack (expected {count})")
        items.append(item)
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


@_writer("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _extend(out: Exit, instruction: Instruction) -> None:
    (other,) = _operands(out, 1)
    operands = [out.glue.ref(out.frame.stack[-instruction.arg]), other]
    if instruction.op == "DICT_MERGE":  # below the keywords lie the positional arguments and what will be called
        operands.append(out.glue.ref(out.frame.stack[-instruction.arg - (2 if NULL_FIRST else 3)]))
    _apply(out, _EXTENDING[instruction.op], operands, instruction, [])


def _update(owner: dict[Any, Any], other: Any) -> None:
    owner.update({**other})


def _merge(owner: dict[Any, Any], other: Any, function: Any) -> None:
    if not hasattr(other, "keys"):
        raise TypeError(f"{_called(function)} argument after ** must be a mapping, not {type(other).__name__}")
    for key in other.keys():
        if key in owner:
            raise TypeError(f"{_called(function)} got multiple values for keyword argument '{key}'")
        owner[key] = other[key]


def _called(function: Any) -> str:
    """How CPython names a function in errors about its arguments."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None:
        return str(function)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def _extend_list(owner: list[Any], other: Any) -> None:
    if not hasattr(other, "__iter__") and not hasattr(type(other), "__getitem__"):
        raise TypeError(f"Value after * must be an iterable, not {type(other).__name__}")
    owner.extend(other)


_EXTENDING = {"LIST_EXTEND": _extend_list, "SET_UPDATE": set.update, "DICT_UPDATE": _update, "DICT_MERGE": _merge}


@_writer("LIST_TO_TUPLE")
def _list_to_tuple(out: Exit, instruction: Instruction) -> None:
    _apply(out, tuple, _operands(out, 1), instruction, ["__r"])


@_writer("IMPORT_NAME")
def _import(out: Exit, instruction: Instruction) -> None:
    level, fromlist = _operands(out, 2)
    globals_dict = out.glue.keep(out.frame.globals_dict)
    operands = [repr(instruction.arg), globals_dict, "None", fromlist, level]
    _apply(out, __import__, operands, instruction, ["__r"])


@_writer("IMPORT_FROM")
def _import_from(out: Exit, instruction: Instruction) -> None:
    module = out.glue.ref(out.frame.stack[-1])
    _apply(out, _from_module, [module, repr(instruction.arg)], instruction, ["__r"])


def _from_module(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        submodule = sys.modules.get(f"{getattr(module, '__name__', '')}.{name}")
        if submodule is None:
            raise ImportError(f"cannot import name {name!r} from {getattr(module, '__name__', '?')!r}") from None
        return submodule


@_writer("LIST_APPEND", "SET_ADD")
def _append(out: Exit, instruction: Instruction) -> None:
    (item,) = _operands(out, 1)
    owner = out.glue.ref(out.frame.stack[-instruction.arg])
    _apply(out, list.append if instruction.op == "LIST_APPEND" else set.add, [owner, item], instruction, [])


@_writer("MAP_ADD")
def _map_add(out: Exit, instruction: Instruction) -> None:
    key, value = _operands(out, 2)
    owner = out.glue.ref(out.frame.stack[-instruction.arg])
    _apply(out, dict.__setitem__, [owner, key, value], instruction, [])


@_writer("UNPACK_EX")
def _unpack_with_rest(out: Exit, instruction: Instruction) -> None:
    before, after = instruction.arg & 0xFF, instruction.arg >> 8
    (value,) = _operands(out, 1)
    results: list[str | None] = [f"__r[{i}]" for i in reversed(range(before + 1 + after))]
    _apply(out, _at_least, [value, str(before), str(after)], instruction, results)


def _at_least(value: Any, before: int, after: int) -> list[Any]:
    items = list(value)
    if len(items) < before + after:
        message = f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        raise ValueError(message)
    return [*items[:before], items[before : len(items) - after], *items[len(items) - after :]]


@_writer("BEFORE_WITH")
def _enter_with(out: Exit, instruction: Instruction) -> None:
    _apply(out, _enter, _operands(out, 1), instruction, ["__r[0]", "__r[1]"])


def _enter(manager: Any) -> tuple[Any, Any]:
    """What `with` does at its start: the exit, bound, and what entering gave."""
    enter, leave = _special(manager, "__enter__"), _special(manager, "__exit__")
    return leave, enter()


def _special(owner: Any, name: str) -> Any:
    for base in type(owner).__mro__:
        if name in base.__dict__:
            raw = base.__dict__[name]
            return raw.__get__(owner, type(owner)) if hasattr(type(raw), "__get__") else raw
    missed = " (missed __exit__ method)" if name == "__exit__" else ""
    raise TypeError(f"{type(owner).__name__!r} object does not support the context manager protocol{missed}")


# ---- branches ----

Way = tuple[int, list[Any]]
"""Instruction to go on with, and what is pushed before."""


@_writer("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def _branch(out: Exit, instruction: Instruction) -> None:
    (condition,) = _operands(out, 1)
    if_true, if_false = instruction.target, instruction.index + 1
    if instruction.op == "POP_JUMP_IF_FALSE":
        if_true, if_false = if_false, if_true
    _two_ways(out, f"__run__({out.glue.keep(bool)}, ({condition}, ))", "__r", (if_true, []), (if_false, []))


@_writer("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _branch_or_pop(out: Exit, instruction: Instruction) -> None:
    (condition,) = _operands(out, 1)
    keeps: Way = (instruction.target, [condition])
    goes_on: Way = (instruction.index + 1, [])
    ways = (keeps, goes_on) if instruction.op == "JUMP_IF_TRUE_OR_POP" else (goes_on, keeps)
    _two_ways(out, f"__run__({out.glue.keep(bool)}, ({condition}, ))", "__r", *ways)


@_writer("FOR_ITER")
def _for_iter(out: Exit, instruction: Instruction) -> None:
    iterator = out.glue.ref(out.frame.stack[-1])
    call = f"__run__({out.glue.keep(next)}, ({iterator}, {out.glue.keep(_END)}))"
    to_handler = out._to_handler()
    body = out._go_on(instruction.index + 1, ["__r"])
    out.frame.pop_raw()
    after = out._go_on(loop_end(out.frame, instruction.target), [])
    _write_two_ways(out, call, f"__r is not {out.glue.keep(_END)}", body, after, to_handler)


def _two_ways(out: Exit, call: str, test: str, if_true: Way, if_false: Way) -> None:
    to_handler = out._to_handler()
    _write_two_ways(out, call, test, out._go_on(*if_true), out._go_on(*if_false), to_handler)


def _write_two_ways(out: Exit, call: str, test: str, if_true: str, if_false: str, to_handler: str | None) -> None:
    out.glue.effects()
    out._leave_grad_mode()
    out._operate(call, to_handler)
    out.glue.line(f"if {test}:")
    out.glue.line(f"    {if_true}")
    out.glue.line(if_false)


__all__ = ["Exit", "NextSegment"]
