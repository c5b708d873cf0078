"""Opcodes that decide what runs next: jumps, loops, returns, `with`.

In: values on the frame's stack. Out: the frame's next instruction, or its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .interpreter import opcode
from .raising_branches import decide
from .values.constant import ConstantValue
from .versions import FOR_ITER_POPS, SEND_POPS

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer
    from .values.base import Value


@opcode("JUMP")
def _jump(tr: Tracer, frame: Frame, target: int) -> None:
    frame.pc = target


@opcode("POP_JUMP_IF_TRUE")
def _pop_jump_if_true(tr: Tracer, frame: Frame, target: int) -> None:
    if decide(tr, frame, if_true=target, if_false=frame.pc):
        frame.pc = target


@opcode("POP_JUMP_IF_FALSE")
def _pop_jump_if_false(tr: Tracer, frame: Frame, target: int) -> None:
    if not decide(tr, frame, if_true=frame.pc, if_false=target):
        frame.pc = target


def _is_none(tr: Tracer, frame: Frame) -> bool:
    value = frame.pop(tr)
    return isinstance(value, ConstantValue) and value.value is None


@opcode("POP_JUMP_IF_NONE")
def _pop_jump_if_none(tr: Tracer, frame: Frame, target: int) -> None:
    if _is_none(tr, frame):
        frame.pc = target


@opcode("POP_JUMP_IF_NOT_NONE")
def _pop_jump_if_not_none(tr: Tracer, frame: Frame, target: int) -> None:
    if not _is_none(tr, frame):
        frame.pc = target


@opcode("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(tr: Tracer, frame: Frame, target: int) -> None:
    if frame.stack[-1].realize(tr).truth(tr):
        frame.pc = target
    else:
        frame.pop_raw()


@opcode("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(tr: Tracer, frame: Frame, target: int) -> None:
    if not frame.stack[-1].realize(tr).truth(tr):
        frame.pc = target
    else:
        frame.pop_raw()


@opcode("RETURN_VALUE")
def _return_value(tr: Tracer, frame: Frame, arg: Any) -> Value:
    return frame.pop_raw()


# ---- generators ----


@opcode("RETURN_GENERATOR")
def _return_generator(tr: Tracer, frame: Frame, arg: Any) -> None:
    """The generator was made by the call (see Tracer.inline) and starts running now; what was sent is on the stack."""


@opcode("YIELD_VALUE")
def _yield_value(tr: Tracer, frame: Frame, arg: Any) -> Value:
    frame.has_yielded = True
    return frame.pop_raw()


@opcode("GET_YIELD_FROM_ITER")
def _get_yield_from_iter(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(frame.pop(tr).iterator(tr))


@opcode("SEND")
def _send(tr: Tracer, frame: Frame, target: int) -> None:
    """`yield from`: pass on what is sent, or go on with the inner generator's result."""
    sent, inner = frame.pop(tr), frame.stack[-1].realize(tr)
    item = inner.send(tr, sent)
    if item is not None:
        frame.push(item)
    else:
        finish_delegation(tr, frame, target, inner.returned_value(tr))


def finish_delegation(tr: Tracer, frame: Frame, target: int, result: Value) -> None:
    """What SEND does when the inner iterator, on top of the stack, is exhausted: go on behind, with its result."""
    if SEND_POPS:
        frame.pop_raw()
    frame.push(result)
    frame.pc = target


@opcode("END_SEND")
def _end_send(tr: Tracer, frame: Frame, arg: Any) -> None:
    """Drop the exhausted inner iterator from below its result."""
    del frame.stack[-2]


# ---- loops ----


@opcode("GET_ITER")
def _get_iter(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(frame.pop(tr).iterator(tr))


@opcode("FOR_ITER")
def _for_iter(tr: Tracer, frame: Frame, target: int) -> None:
    item = frame.stack[-1].realize(tr).next(tr)
    if item is not None:
        frame.push(item)
    else:
        finish_loop(frame, target)


def finish_loop(frame: Frame, target: int) -> None:
    """What an exhausted FOR_ITER does: the iterator goes, and the loop's end is skipped."""
    frame.pop_raw()
    frame.pc = loop_end(frame, target)


def loop_end(frame: Frame, target: int) -> int:
    """The instruction behind a loop: 3.12 has an END_FOR at the target, 3.13 an END_FOR and a POP_TOP."""
    if FOR_ITER_POPS:
        return target
    instructions = frame.decoded.instructions
    end = target + 1 if instructions[target].op == "END_FOR" else target
    from .versions import VERSION

    return end + 1 if VERSION >= (3, 13) and instructions[end].op == "POP_TOP" else end
