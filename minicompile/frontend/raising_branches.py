"""Branches on a tensor of which one side does nothing but raise: `assert ok.all()`, `if bad.any(): raise Error(…)`.

In: a branch on a tensor of one element. Out: tracing goes on along the side that does not raise, and the graph gives
one result more, by which the glue sees whether that was right. Where it was not, nothing has been done yet: the frame
runs in eager, which raises eager's own exception.

A graph that writes to a tensor from outside has done something. So in a piece with such a graph the branch ends the
graph, as any branch on data does.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .breaks import Break, Restart
from .bytecode import Decoded
from .data_dependent import is_written, may_fail_later
from .values.base import Value
from .values.constant import ConstantValue
from .values.tensor import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .glue import Glue
    from .tracer import Tracer

MAX_LENGTH = 200
"""Instructions that lead to a `raise`, at most."""


@dataclass(frozen=True)
class Refusal:
    """A condition, as a tensor that is true where the program goes on. `otherwise`: the break that it stands for, at
    the root frame's instruction `step`."""

    holds: TensorValue
    otherwise: Break
    step: int


def decide(tr: Tracer, frame: Frame, *, if_true: int, if_false: int) -> bool:
    """Which way a branch on the value on top of the stack goes: the instructions to go on at are given.

    Raises Break where that hangs on data, and the other side does more than raise.
    """
    value = frame.pop(tr)
    try:
        return value.truth(tr)
    except Break as broken:
        goes_on = not _raises(frame.decoded, if_true)
        if goes_on == (not _raises(frame.decoded, if_false)) or not _can_be_checked(tr, value):
            raise
        broken.location = frame.location()
        _note(tr, value, goes_on, broken)
        return goes_on


def _raises(decoded: Decoded, index: int) -> bool:
    """Whether the way from an instruction leads to a `raise`, and nowhere else."""
    for instruction in decoded.instructions[index : index + MAX_LENGTH]:
        if instruction.op == "RAISE_VARARGS":
            return True
        if instruction.target >= 0 or instruction.op in ("RETURN_VALUE", "RERAISE", "YIELD_VALUE"):
            return False
    return False


def _can_be_checked(tr: Tracer, value: Value) -> bool:
    return (
        tr.takes_data
        and type(value) is TensorValue
        and all(type(size) is int and size == 1 for size in value.fake.shape)
        and may_fail_later(tr)
    )


def _note(tr: Tracer, value: Value, goes_on: bool, broken: Break) -> None:
    compare = operator.ne if goes_on else operator.eq
    holds = tr.torch_call(compare, [value, ConstantValue(0)], {}).realize(tr)
    assert isinstance(holds, TensorValue)
    tr.changed()
    tr.refusals.append(Refusal(holds, broken, tr.root_step))


def checks(tr: Tracer, glue: Glue) -> list[str]:
    """The lines behind the call of the graph. Raises Restart where it is too late for them."""
    if tr.refusals and is_written(tr):
        raise Restart(tr.refusals[0].step, tr.refusals[0].otherwise)
    names = [glue.graph_output(refusal.holds.node) for refusal in tr.refusals]
    return [f"__hold__({', '.join(names)})"] if names else []
