"""Generators of the program: suspended frames, advanced as their consumer asks.

In: a call of a generator function, or a generator expression. Out: elements, with the generator's operations in the
consumer's graph. A frame is plain data, so suspending one is just to stop running it.

A generator that has not started can be rebuilt at a graph break, by calling its function again. One that has started
cannot: the trace then begins again, with the graph broken where the generator was made, so that it is a real one.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, NoReturn

from ..breaks import Restart, unsupported
from .base import Args, Kwargs, Value, fail
from .constant import ConstantValue
from .containers import Method, method_of

if TYPE_CHECKING:
    from ..frame import Frame
    from ..glue import Glue
    from ..tracer import Tracer
    from .functions import FunctionValue


class GeneratorValue(Value):
    """A generator made in the frame. `returned` is its return value once it is exhausted."""

    def __init__(self, frame: Frame, function: FunctionValue, args: Args, kwargs: Kwargs, root_step: int) -> None:
        self.frame = frame
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.root_step = root_step
        self.is_started = False
        self.is_running = False
        self.returned: Value | None = None

    def python_type(self) -> type:
        return types.GeneratorType

    def describe(self) -> str:
        return f"generator {self.function.name}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def iterator(self, tr: Tracer) -> Value:
        return self

    def next(self, tr: Tracer) -> Value | None:
        return self.send(tr, ConstantValue(None))

    def send(self, tr: Tracer, value: Value) -> Value | None:
        """Run to the next `yield`; None at the end."""
        from ..interpreter import run

        if self.returned is not None:
            return None
        if self.is_running:
            fail(ValueError("generator already executing"))
        self.is_started = True
        tr.changed()
        frame, consumer = self.frame, tr.frame
        frame.parent, frame.depth = consumer, consumer.depth + 1
        frame.push(value)
        frame.has_yielded = False
        tr.frame, self.is_running = frame, True
        try:
            result = run(tr, frame)
        finally:
            tr.frame, self.is_running = consumer, False
        if frame.has_yielded:
            return result
        self.returned = result
        return None

    def items(self, tr: Tracer) -> list[Value]:
        result = []
        while (item := self.next(tr)) is not None:
            result.append(item)
        return result

    def getattr(self, tr: Tracer, name: str) -> Value:
        return method_of(tr, self, name, _METHODS)

    def build(self, glue: Glue) -> str:
        if self.returned is not None:
            return "__iter__(())"
        if self.is_started:
            self._restart()
        parts = [*map(glue.ref, self.args), *(f"{key}={glue.ref(value)}" for key, value in self.kwargs.items())]
        return f"{glue.ref(self.function)}({', '.join(parts)})"

    def _restart(self) -> NoReturn:
        why = unsupported(f"The {self.describe()} is in use across a graph break.")
        raise Restart(self.root_step, why)


def _send(tr: Tracer, owner: GeneratorValue, value: Value) -> Value:
    item = owner.send(tr, value)
    if item is None:
        fail(StopIteration())
    return item


def _next(tr: Tracer, owner: GeneratorValue) -> Value:
    return _send(tr, owner, ConstantValue(None))


def _iter(tr: Tracer, owner: GeneratorValue) -> Value:
    return owner


_METHODS: dict[str, Method] = {"send": _send, "__next__": _next, "__iter__": _iter}
