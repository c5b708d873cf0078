"""Generators of the program: suspended frames, advanced as their consumer asks.

In: a call of a generator function, or a generator expression. Out: elements, with the generator's operations in the
consumer's graph. A frame is plain data, so suspending one is just to stop running it.

A generator that has not started can be rebuilt at a graph break, by calling its function again. One that has started
cannot: the trace then begins again, with the graph broken where the generator was made, so that it is a real one.

One that is left in the middle of a `try` is closed at the moment when it dies. Where a loop is left and nothing else
refers to its generator, that is now; a frame that leaves one behind in any other way runs in eager.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, NoReturn

from ..breaks import Break, Restart, SkipFrame, UserError, unsupported
from .base import Args, Kwargs, Value, fail
from .constant import ConstantValue
from .containers import Method, method_of
from .iterators import Iterator

if TYPE_CHECKING:
    from ..frame import Frame
    from ..glue import Glue
    from ..tracer import Tracer
    from .exceptions import ExceptionValue
    from .functions import FunctionValue


class GeneratorValue(Value):
    """A generator made in the frame. `returned` is its return value, until somebody has been told of it."""

    computes_elements = True

    def __init__(self, frame: Frame, function: FunctionValue, args: Args, kwargs: Kwargs, root_step: int) -> None:
        self.frame = frame
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.root_step = root_step
        self.is_started = False
        self.is_running = False
        self.is_finished = False
        self.returned: Value | None = None
        self.handled: Value | None = None

    def python_type(self) -> type:
        return types.GeneratorType

    def describe(self) -> str:
        return f"generator {self.function.name}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def iterator(self, tr: Tracer) -> Value:
        return self

    def contains(self, tr: Tracer, item: Value) -> bool:
        from ..operators import equal

        while (element := self.next(tr)) is not None:
            if equal(tr, element.realize(tr), item):
                return True
        return False

    # ---- running ----

    def items(self, tr: Tracer) -> list[Value]:
        return self.rest(tr)

    def next(self, tr: Tracer) -> Value | None:
        return self.send(tr, ConstantValue(None))

    def send(self, tr: Tracer, value: Value) -> Value | None:
        """Run to the next `yield`; None at the end."""
        if self.is_finished:
            return None
        self._require_idle()
        if not self.is_started and not (isinstance(value, ConstantValue) and value.value is None):
            fail(TypeError("can't send non-None value to a just-started generator"), is_exact=True)
        self.frame.push(value)
        return self._resume(tr)

    def throw(self, tr: Tracer, error: ExceptionValue) -> Value | None:
        """Raise inside, where the generator is suspended, and run to the next `yield`."""
        self._require_idle()
        if not self.is_started or self.is_finished:
            self.is_started = self.is_finished = True
            raise UserError(None, error)
        inner = self.delegate()
        if inner is None:
            return self._resume(tr, error)
        return self._throw_into(tr, inner, error)

    def _throw_into(self, tr: Tracer, inner: Value, error: ExceptionValue) -> Value | None:
        """`yield from`: the exception is the inner iterator's, and so may be the result."""
        from ..handlers_control import finish_delegation

        if isinstance(inner, Iterator):  # which has neither `throw` nor `close`
            return self._resume(tr, error)
        if not isinstance(inner, GeneratorValue):
            raise inner.cannot("throwing into")
        if issubclass(error.cls, GeneratorExit):
            inner.close(tr)
            return self._resume(tr, error)
        try:
            item = inner.throw(tr, error)
        except UserError as raised:
            return self._resume(tr, self._as_exception(tr, raised))
        if item is None:
            send = self.frame.decoded.instructions[self.frame.pc - 2]
            finish_delegation(tr, self.frame, send.target, inner.returned_value(tr))
            return self._resume(tr)
        return item

    def close(self, tr: Tracer) -> None:
        """`GeneratorExit` where it is suspended; that it comes out again is in order."""
        from .exceptions import ExceptionValue

        self._require_idle()
        if not self.is_started or self.is_finished:
            self.is_started = self.is_finished = True
            return
        error = ExceptionValue(GeneratorExit, [], tr.constant(GeneratorExit))
        error.step = tr.root_step
        try:
            item = self.throw(tr, error)
        except UserError as raised:
            if not issubclass(raised.cls, (GeneratorExit, StopIteration)):
                raise
            return
        if item is not None:
            fail(RuntimeError("generator ignored GeneratorExit"), is_exact=True)

    def die(self, tr: Tracer) -> None:
        """The program has let go of it, so that it is closed where that runs code."""
        if self.is_left_in_try():
            try:
                self.close(tr)
            except (UserError, Break):  # Python reports an error and ignores it
                raise SkipFrame(f"{self.describe()} does more when it dies than can be traced") from None

    def _require_idle(self) -> None:
        if self.is_running:
            fail(ValueError("generator already executing"), is_exact=True)

    def _resume(self, tr: Tracer, error: ExceptionValue | None = None) -> Value | None:
        """Run the frame, with an error at its `yield` if there is one; it has its own exception being handled."""
        frame, consumer = self.frame, tr.frame
        self.is_started = True
        tr.changed()
        frame.parent, frame.depth = consumer, consumer.depth + 1
        frame.has_yielded = False
        tr.frame, self.is_running = frame, True
        tr.handled.append(self.handled)
        try:
            result = self._run(tr, error)
        except UserError as raised:
            self.is_finished = True
            raise self._leaving(tr, raised) from None
        finally:
            self.handled = tr.handled.pop()
            tr.frame, self.is_running = consumer, False
        if frame.has_yielded:
            return result
        self.returned, self.is_finished = result, True
        return None

    def _run(self, tr: Tracer, error: ExceptionValue | None) -> Value:
        from ..handlers_exceptions import catch
        from ..interpreter import run

        if error is not None:
            raised = UserError(None, error)
            if not catch(tr, self.frame, self.frame.instruction, raised):
                raise raised
        return run(tr, self.frame)

    def _leaving(self, tr: Tracer, error: UserError) -> UserError:
        from ..handlers_exceptions import without_stop_iteration

        if error.is_torch or not issubclass(error.cls, StopIteration):
            return error
        return UserError(None, without_stop_iteration(tr, self._as_exception(tr, error)))

    def _as_exception(self, tr: Tracer, error: UserError) -> ExceptionValue:
        from .exceptions import caught

        return caught(tr, error)

    def delegate(self) -> Value | None:
        """The iterator that a `yield from` is running, None if the generator is suspended at its own `yield`."""
        instructions, at = self.frame.decoded.instructions, self.frame.pc - 1
        is_delegating = at > 0 and instructions[at].op == "YIELD_VALUE" and instructions[at - 1].op == "SEND"
        return self.frame.stack[-1] if is_delegating else None

    def returned_value(self, tr: Tracer) -> Value:
        """The value of the StopIteration, which is told once."""
        value, self.returned = self.returned, None
        return value or ConstantValue(None)

    # ---- the rest ----

    def getattr(self, tr: Tracer, name: str) -> Value:
        return method_of(tr, self, name, _METHODS)

    def is_left_in_try(self) -> bool:
        """Whether it is suspended where code of its own would still run when it is closed."""
        if not self.is_started or self.is_finished:
            return False
        decoded = self.frame.decoded
        place = decoded.catcher_at(self.frame.instruction.offset)
        while place is not None:
            handler = decoded.instructions[decoded.index_at[place[0]]]
            if handler.op != "CLEANUP_THROW" and handler.arg != "STOPITERATION_ERROR":
                return True
            place = decoded.catcher_at(handler.offset)  # 3.12's own handlers stand inside the program's
        return False

    def build(self, glue: Glue) -> str:
        if self.is_finished:
            return "__iter__(())"
        if self.is_started:
            self.restart("is in use across a graph break")
        parts = [*map(glue.ref, self.args), *(f"{key}={glue.ref(value)}" for key, value in self.kwargs.items())]
        return f"{self.maker(glue)}({', '.join(parts)})"

    def maker(self, glue: Glue) -> str:
        """Text for what a call of makes the real iterator."""
        return glue.ref(self.function)

    def restart(self, why: str) -> NoReturn:
        """Trace again, and make the generator a real one."""
        raise Restart(self.root_step, unsupported(f"The {self.describe()} {why}."))


# ---- methods ----


def _item(tr: Tracer, owner: GeneratorValue, item: Value | None) -> Value:
    from .exceptions import stop

    return item if item is not None else stop(tr, owner.returned_value(tr))


def _send(tr: Tracer, owner: GeneratorValue, value: Value) -> Value:
    return _item(tr, owner, owner.send(tr, value.realize(tr)))


def _next(tr: Tracer, owner: GeneratorValue) -> Value:
    return _send(tr, owner, ConstantValue(None))


def _throw(
    tr: Tracer, owner: GeneratorValue, kind: Value, value: Value | None = None, trace: Value | None = None
) -> Value:
    from .exceptions import raise_value

    given = value.realize(tr) if value is not None else None
    error = kind if given is None or isinstance(given, ConstantValue) else given
    try:
        raise_value(tr, error)
    except UserError as raised:
        return _item(tr, owner, owner.throw(tr, raised.value))


def _close(tr: Tracer, owner: GeneratorValue) -> Value:
    owner.close(tr)
    return ConstantValue(None)


def _iter(tr: Tracer, owner: GeneratorValue) -> Value:
    return owner


_METHODS: dict[str, Method] = {
    "send": _send, "throw": _throw, "close": _close, "__next__": _next, "__iter__": _iter,
}  # fmt: skip
