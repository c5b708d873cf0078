"""`torch.profiler.record_function`: a part of the program that has a name in a profile.

In: calls of the class, and objects of it from outside. Out: managers that do nothing: what lies in the block is fused
with what lies around it, and the kernels have names of their own in a profile. torch.compile leaves them out as well.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from torch.autograd.profiler import record_function

from .. import polyfills
from .base import Args, Kwargs, Value
from .callables import rule
from .constant import ConstantValue
from .contexts import TorchContextValue
from .functions import MethodValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class RangeValue(TorchContextValue):
    """A `record_function`. `arguments` is what it was made with."""

    def __init__(self, arguments: Args, source: Source | None = None) -> None:
        self.arguments = arguments
        self.source = source

    def python_type(self) -> type:
        return record_function

    def enter(self, tr: Tracer) -> Value:
        return _RangeExit()

    def entered(self) -> Value:
        return self

    def getattr(self, tr: Tracer, name: str) -> Value:
        # What `contextlib.ContextDecorator` enters around a function that it decorates.
        if name == "_recreate_cm":
            return MethodValue(tr.constant(polyfills.itself), self)
        return super().getattr(tr, name)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(record_function)}({', '.join(map(glue.ref, self.arguments))})"


class _RangeExit(Value):
    """The exit of a block that has been entered."""

    def python_type(self) -> type:
        return types.FunctionType

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return ConstantValue(None)

    def build(self, glue: Glue) -> str:
        return glue.keep(polyfills.leave_nothing)


@rule(record_function)
def _record_function(tr: Tracer, name: Value, args: Value | None = None) -> Value:
    return RangeValue([name, *([args] if args is not None else [])])


def outside_range(tr: Tracer, obj: record_function, source: Source) -> Value:
    """A `record_function` that existed before, of a decorator say."""
    tr.guard_type(source, obj)
    return RangeValue([], source)


__all__ = ["RangeValue", "outside_range"]
