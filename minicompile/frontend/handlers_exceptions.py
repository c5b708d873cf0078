"""Opcodes of `try`, `raise` and `with`, and the way from an error to its handler.

In: errors that instructions report (`UserError`), exceptions on the frame's stack. Out: the frame at its handler, with
the stack that CPython would have there; or the error once more, for the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .breaks import UserError, unsupported
from .interpreter import opcode
from .values.callables import class_object
from .values.constant import ConstantValue
from .values.containers import SequenceValue
from .values.contexts import GradModeExitValue, TorchContextValue
from .values.exceptions import ExceptionValue, TracebackValue, caught, now_handled, raise_value, throw
from .values.mode_blocks import BlockExitValue
from .values.objects import ObjectValue

if TYPE_CHECKING:
    from .bytecode import Instruction
    from .frame import Frame
    from .tracer import Tracer
    from .values.base import Value


def catch(tr: Tracer, frame: Frame, instruction: Instruction, error: UserError) -> bool:
    """Go to the handler of an error; False if the frame has none. Raises Break if tracing cannot tell what happens."""
    place = frame.decoded.catcher_at(instruction.offset)
    if place is None:
        return False
    offset, depth, pushes_offset = place
    value = caught(tr, error)
    tr.changed()
    del frame.stack[depth:]
    if pushes_offset:
        frame.push(ConstantValue(instruction.offset))
    frame.push(value)
    frame.pc = frame.decoded.index_at[offset]
    return True


# ---- raise ----


@opcode("RAISE_VARARGS")
def _raise(tr: Tracer, frame: Frame, count: int) -> None:
    if count == 0:
        handled = now_handled(tr)
        if handled is None:
            raise unsupported("Raising what the caller of the function is handling cannot be traced.")
        raise UserError(None, handled)
    cause = frame.pop(tr) if count == 2 else None
    raise_value(tr, frame.pop(tr), cause)


@opcode("RERAISE")
def _reraise(tr: Tracer, frame: Frame, arg: Any) -> None:
    raise UserError(None, _exception(frame.pop(tr)))


def _exception(value: Value) -> ExceptionValue:
    assert isinstance(value, ExceptionValue), "an exception is on the stack of a handler"
    return value


# ---- except ----


@opcode("PUSH_EXC_INFO")
def _push_exc_info(tr: Tracer, frame: Frame, arg: Any) -> None:
    error = frame.pop(tr)
    frame.push(tr.handled[-1] or ConstantValue(None))
    frame.push(error)
    tr.handled[-1] = error


@opcode("POP_EXCEPT")
def _pop_except(tr: Tracer, frame: Frame, arg: Any) -> None:
    before = frame.pop(tr)
    tr.handled[-1] = before if isinstance(before, ExceptionValue) else None


@opcode("CHECK_EXC_MATCH")
def _check_exc_match(tr: Tracer, frame: Frame, arg: Any) -> None:
    wanted, error = frame.pop(tr), _exception(frame.stack[-1].realize(tr))
    frame.push(ConstantValue(_matches(tr, error, wanted)))


def _matches(tr: Tracer, error: ExceptionValue, wanted: Value) -> bool:
    if isinstance(wanted, SequenceValue):
        return any(_matches(tr, error, item.realize(tr)) for item in wanted.elements)
    cls = class_object(wanted)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        message = "catching classes that do not inherit from BaseException is not allowed"
        raise UserError(TypeError(message), is_exact=True)
    return cls in error.cls.__mro__


@opcode("CLEANUP_THROW")
def _cleanup_throw(tr: Tracer, frame: Frame, arg: Any) -> None:
    """3.12: an inner generator that `yield from` runs has raised; StopIteration is its result."""
    error = _exception(frame.pop(tr))
    if not issubclass(error.cls, StopIteration):
        raise UserError(None, error)
    frame.pop_many(2)
    frame.stack += [ConstantValue(None), error.getattr(tr, "value")]


@opcode("CALL_INTRINSIC_1")
def _intrinsic(tr: Tracer, frame: Frame, name: str) -> None:
    if name != "STOPITERATION_ERROR":
        raise unsupported(f"The instruction CALL_INTRINSIC_1 {name} cannot be traced.")
    frame.push(without_stop_iteration(tr, _exception(frame.pop(tr))))


def without_stop_iteration(tr: Tracer, error: ExceptionValue) -> ExceptionValue:
    """What comes out of a generator for an exception that leaves its code: never StopIteration (PEP 479)."""
    if not issubclass(error.cls, StopIteration):
        return error
    text: list[Value] = [ConstantValue("generator raised StopIteration")]
    replaced = ExceptionValue(RuntimeError, text, tr.constant(RuntimeError))
    replaced.cause, replaced.context, replaced.suppresses_context = error, error, True
    replaced.step = tr.root_step
    return replaced


# ---- with ----


@opcode("BEFORE_WITH")
def _before_with(tr: Tracer, frame: Frame, arg: Any) -> None:
    """Push the manager's exit and what entering gave."""
    manager = frame.pop(tr)
    if isinstance(manager, TorchContextValue):
        frame.push(manager.enter(tr))
        frame.push(manager.entered())
        return
    if not isinstance(manager, ObjectValue):
        raise unsupported(f"The context manager {manager.describe()} cannot be traced.")
    enter, leave = manager.dunder(tr, "__enter__"), manager.dunder(tr, "__exit__")
    if enter is None or leave is None:
        raise unsupported(f"The context manager {manager.describe()} cannot be traced.")
    frame.push(leave)
    frame.push(enter.call(tr, [], {}))


@opcode("WITH_EXCEPT_START")
def _with_except_start(tr: Tracer, frame: Frame, arg: Any) -> None:
    """Call the manager's exit with the exception; stack: exit, offset, what was handled before, exception."""
    leave, error = frame.stack[-4].realize(tr), _exception(frame.stack[-1].realize(tr))
    if isinstance(leave, (GradModeExitValue, BlockExitValue)):
        frame.push(leave.call(tr, [], {}))
        return
    frame.push(leave.call(tr, [tr.constant(error.cls), error, TracebackValue(error)], {}))


__all__ = ["catch", "throw", "without_stop_iteration"]
