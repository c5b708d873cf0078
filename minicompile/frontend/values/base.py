"""Values: what the interpreter's symbolic stack and variables hold instead of real objects.

In: operations of the interpreted program, as method calls on values.
Out: other values; graph nodes, guards and journalled effects through the tracer that every method is given.

A value answers for the Python object that it stands for. What it cannot answer raises `Break`, and the operation is
performed for real between two graphs. `Lazy` stands for an object that nothing has looked at yet: passing it around
costs no guard.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..breaks import Break, unsupported, unsupported_call

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

Args = list["Value"]
Kwargs = dict[str, "Value"]


class NotConstant(Exception):
    """`Value.const` was asked of a value that is no Python constant."""


class Value:
    """Base class. `source` says where the object can be read on entry, or None for one made in the frame."""

    source: Source | None = None
    computes_elements = False
    """Whether code of the program may run while it is iterated over."""

    # ---- what it is ----

    def python_type(self) -> type:
        """The class of the object. Raises Break when it is not known."""
        raise unsupported("The type of an object of a kind that tracing does not know is asked for.")

    def const(self, tr: Tracer) -> Any:
        """The Python constant that this is (containers of constants included). Raises NotConstant otherwise."""
        raise NotConstant

    def describe(self) -> str:
        """A few words for messages."""
        try:
            kind = f"a {self.python_type().__name__}"
        except Break:
            kind = "an object"
        return f"{self.source.describe()} ({kind})" if self.source is not None else kind

    def cannot(self, what: str) -> Break:
        """The break that says that tracing cannot do `what` with this value."""
        return unsupported(f"{what[0].upper()}{what[1:]} of {self.describe()} cannot be traced.")

    # ---- operations; every one may raise Break or UserError ----

    def truth(self, tr: Tracer) -> bool:
        raise self.cannot("testing the truth")

    def getattr(self, tr: Tracer, name: str) -> Value:
        raise self.cannot(f"reading attribute {name!r}")

    def has_attr(self, tr: Tracer, name: str) -> bool:
        raise self.cannot(f"looking for attribute {name!r}")

    def attribute_or_none(self, tr: Tracer, name: str) -> Value | None:
        """An attribute, looked up once; None if there is none."""
        return self.getattr(tr, name) if self.has_attr(tr, name) else None

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        raise self.cannot(f"setting attribute {name!r}")

    def delattr(self, tr: Tracer, name: str) -> None:
        raise self.cannot(f"deleting attribute {name!r}")

    def getitem(self, tr: Tracer, key: Value) -> Value:
        raise self.cannot("reading an item")

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        raise self.cannot("setting an item")

    def delitem(self, tr: Tracer, key: Value) -> None:
        raise self.cannot("deleting an item")

    def as_index(self, tr: Tracer) -> Value:
        """What `__index__` gives, for an object that has one of the program's; any other value itself."""
        return self

    def items(self, tr: Tracer) -> list[Value]:
        """All elements that iterating yields, now."""
        raise self.cannot("iterating")

    def rest(self, tr: Tracer) -> list[Value]:
        """For an iterator: what it still has, one `next` after the other."""
        result = []
        while (item := self.next(tr)) is not None:
            result.append(item)
        return result

    def iterator(self, tr: Tracer) -> Value:
        """What `iter()` gives."""
        from .iterators import IteratorValue

        return IteratorValue(self, self.items(tr))

    def next(self, tr: Tracer) -> Value | None:
        """The next element of an iterator, None at the end."""
        raise self.cannot("iterating")

    def send(self, tr: Tracer, value: Value) -> Value | None:
        """`next`, or `send` for a generator: the next element, None at the end."""
        if getattr(value, "value", value) is not None:
            raise self.cannot("sending a value")
        return self.next(tr)

    def returned_value(self, tr: Tracer) -> Value:
        """For an iterator that has just been exhausted: the value of its StopIteration."""
        from .constant import ConstantValue

        return ConstantValue(None)

    def length(self, tr: Tracer) -> int:
        raise self.cannot("taking the length")

    def contains(self, tr: Tracer, item: Value) -> bool:
        raise self.cannot("testing membership")

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        """`op(self, other)`, or `op(other, self)` if swapped; None: not for this operand to say."""
        return None

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise unsupported_call(self.describe())

    def text(self, tr: Tracer, how: str) -> Value | None:
        """The result of `__str__` or `__repr__`; None where only `const` can tell."""
        return None

    # ---- the way back to a real object ----

    def effect(self, text: str) -> tuple[Value, str]:
        """The object that an effect on this value changes, and the effect's text for it."""
        return self, text

    def method_text(self, glue: Glue, name: str) -> str:
        """Text of a builtin container's method, bound."""
        return f"{glue.ref(self)}.{name}"

    def build(self, glue: Glue) -> str:
        """Text that makes the object anew; called once at most, and never for a value that has a source."""
        raise self.cannot("rebuilding")

    def realize(self, tr: Tracer) -> Value:
        """The value itself; for a lazy one, what it turns out to be."""
        return self


class Lazy(Value):
    """An object that came from outside and that nothing has depended on yet."""

    __slots__ = ("obj", "source", "value")

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source
        self.value: Value | None = None

    def realize(self, tr: Tracer) -> Value:
        if self.value is None:
            assert self.source is not None
            self.value = tr.wrap(self.obj, self.source)
        return self.value


class NullValue(Value):
    """CPython's NULL stack slot."""

    def realize(self, tr: Tracer) -> Value:
        return self


NULL = NullValue()


class OpaqueValue(Value):
    """An object that tracing cannot look into: it can be passed on, stored and given back, nothing else.

    It has a source, or is built by `make(glue)`. `obj` is the real object when it is known (its type is guarded then).
    """

    def __init__(self, obj: Any, source: Source | None) -> None:
        self.obj = obj
        self.source = source

    def python_type(self) -> type:
        return type(self.obj)

    def getattr(self, tr: Tracer, name: str) -> Value:
        from .foreign_methods import foreign_method
        from .random_draws import draw_of

        return draw_of(self, self.obj, name) or foreign_method(self, self.obj, name) or super().getattr(tr, name)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise unsupported_call(_callable_name(self.obj))


class BoundMethod(Value):
    """A method of an object whose value is known, bound to it; subclasses say what calling it is."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return types.MethodType

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.owner)}.{self.name}"


def _callable_name(obj: Any) -> str:
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    return f"{name}()" if isinstance(name, str) else f"a {type(obj).__name__}"


def found_by_reading(tr: Tracer, owner: Value, name: str) -> Value | None:
    """An attribute, or None where code of the program, which finds it, says by AttributeError that there is none."""
    from ..breaks import UserError

    try:
        return owner.getattr(tr, name)
    except UserError as error:
        if not issubclass(error.cls, AttributeError):
            raise
        return None


def is_found_by_reading(tr: Tracer, owner: Value, name: str) -> bool:
    """Whether there is an attribute, for owners whose attributes are found by reading them."""
    found = found_by_reading(tr, owner, name)
    if isinstance(found, Lazy) and found.value is None:  # and may never be looked at
        tr.guard_presence(found)
    return found is not None


def fail(error: BaseException, *, is_exact: bool = False) -> NoReturn:
    """Report an error that is the interpreted program's own. `is_exact`: its arguments are those that eager gives."""
    from ..breaks import UserError

    raise UserError(error, is_exact=is_exact) from error


def fail_as(fn: Callable[..., Any], *args: Any) -> NoReturn:
    """Report the error that a function of Python's own raises for these arguments, in its words."""
    try:
        fn(*args)
    except Exception as error:
        fail(error, is_exact=True)
    raise AssertionError(f"{fn} raises nothing")
