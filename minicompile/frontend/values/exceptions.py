"""Exceptions of the program: objects that it makes, raises and catches while it is being traced.

In: calls of exception classes, and errors that an operation of the program meets (`UserError`). Out: values with a
class and arguments, which `except` compares and handlers read.

An exception that has been raised carries a traceback, which only a real one has. Where a handler wants more than the
traced picture knows (the traceback, the text of an error that the compiler has worded, the object itself in a place
that outlives the frame), tracing begins again and ends the graph at the instruction that raised.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ...guards.kinds import Frame as GuardFrame
from ...guards.kinds import Guard, Scope
from ..breaks import Restart, UserError, unsupported
from ..class_lookup import static_lookup
from .base import Args, Kwargs, NotConstant, Value, fail
from .callables import RULES, CallableValue, rule
from .classes import ClassValue
from .constant import ConstantValue
from .containers import SequenceValue
from .functions import MethodValue
from .objects import ObjectValue, set_line

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_WITH_A_FIELD = (StopIteration, AttributeError, NameError)
"""Builtin exceptions whose constructor keeps more than `args`, in a way that is modelled here."""


def solid_base(cls: type) -> type:
    """The builtin exception class that lays out an exception class's objects."""
    return next(base for base in cls.__mro__ if getattr(builtins, base.__name__, None) is base)


def is_modelled(cls: type) -> bool:
    """Whether an exception is its class, its arguments and the attributes that the program sets."""
    base = solid_base(cls)
    has_plain_layout = base.__basicsize__ == BaseException.__basicsize__ or issubclass(base, _WITH_A_FIELD)
    return has_plain_layout and not isinstance(cls.__new__, types.FunctionType)


class ExceptionValue(ObjectValue):
    """An exception object. `step`: the root instruction that raised it, None if it was never raised.

    `is_exact`: whether its arguments are those of eager; they are not where the compiler worded the message.
    """

    def __init__(self, cls: type, arguments: Args, class_value: Value, *, is_exact: bool = True) -> None:
        super().__init__(cls, None, None)
        self.arguments = arguments
        self.class_value = class_value
        self.is_exact = is_exact
        self.step: int | None = None
        self.cause: Value = ConstantValue(None)
        self.context: Value | None = None
        self.suppresses_context = False

    def describe(self) -> str:
        return f"a {self.cls.__name__}"

    def has_plain_reader(self, reader: Any) -> bool:
        return getattr(reader, "__objclass__", None) is BaseException or super().has_plain_reader(reader)

    # ---- attributes that BaseException keeps itself ----

    def _from_data_descriptor(self, tr: Tracer, name: str, raw: Any) -> Value | None:
        if name == "args":
            return SequenceValue(tuple, list(self.exact_arguments()))
        if name == "__cause__":
            return self.cause
        if name == "__context__":
            return self.known_context(tr)
        if name == "__suppress_context__":
            return ConstantValue(self.suppresses_context)
        if name == "__traceback__":
            return ConstantValue(None) if self.step is None else self.restart("its traceback is read")
        if name == "value" and issubclass(self.cls, StopIteration):
            arguments = self.exact_arguments()
            return arguments[0] if arguments else ConstantValue(None)
        if name == "__dict__":
            raise self.cannot("reading the attribute dict")
        if isinstance(raw, types.MemberDescriptorType) and name not in self.attributes:  # `name` of an AttributeError
            return self.cannot_know(name)
        return super()._from_data_descriptor(tr, name, raw)

    def _from_class(self, tr: Tracer, name: str, raw: Any) -> Value:
        if raw in (BaseException.__dict__["with_traceback"], BaseException.__dict__["add_note"]):
            return MethodValue(CallableValue(raw), self)
        return super()._from_class(tr, name, raw)

    def set_own(self, tr: Tracer, name: str, value: Value) -> None:
        value = value.realize(tr)
        if name == "args":
            self.arguments, self.is_exact = value.items(tr), True
        elif name == "__cause__":
            self.cause, self.suppresses_context = value, True
        elif name == "__context__":
            self.context = value
        elif name == "__suppress_context__":
            self.suppresses_context = value.truth(tr)
        elif name != "__traceback__":  # a traced exception has none: whoever reads it makes tracing begin again
            super().set_own(tr, name, value)
            return
        tr.changed()

    def exact_arguments(self) -> Args:
        """`args`. Begins again where eager's own are not known."""
        if not self.is_exact:
            self.restart("the text of its error is read")
        return self.arguments

    def cannot_know(self, name: str) -> NoReturn:
        """For a field that the interpreter fills, in an exception that it raises."""
        if self.step is None:
            raise self.cannot(f"reading {name!r}")
        self.restart(f"its {name!r} is read")

    def known_context(self, tr: Tracer) -> Value:
        """`__context__`; what the caller of the frame is handling belongs to it."""
        if self.context is None and self.step is not None:
            not_handling(tr)
        return self.context or ConstantValue(None)

    def restart(self, why: str) -> NoReturn:
        """Trace again, up to the instruction that raised."""
        reason = unsupported(f"{self.describe().capitalize()} that is caught here must be a real one, because {why}.")
        if self.step is None:
            raise reason
        raise Restart(self.step, reason)

    # ---- text ----

    def text(self, tr: Tracer, how: str) -> Value:
        own = super().text(tr, how)
        if own is not None:
            return own
        try:
            arguments = tuple(argument.realize(tr).const(tr) for argument in self.exact_arguments())
        except NotConstant:
            raise self.cannot("taking the text") from None
        if how == "__repr__":
            inside = f"({arguments[0]!r})" if len(arguments) == 1 else repr(arguments)
            return ConstantValue(self.cls.__name__ + inside)
        return ConstantValue(str(solid_base(self.cls)(*arguments)))

    # ---- the way back ----

    def build(self, glue: Glue) -> str:
        if self.step is not None:
            self.restart("it outlives the traced code")
        assert self.class_value is not None
        arguments = "".join(f"{glue.ref(argument)}, " for argument in self.exact_arguments())
        name = glue.assign(f"{glue.keep(_remade)}({glue.ref(self.class_value)}, ({arguments}))", self)
        cause = {"__cause__": self.cause} if self.suppresses_context else {}
        for key, value in {**cause, **self.attributes}.items():
            glue.fill(functools.partial(set_line, glue, name, key, value))
        return name


def _remade(cls: Any, arguments: tuple[Any, ...]) -> BaseException:
    """An exception as after its construction, without running the class's own `__init__` again."""
    made = cls.__new__(cls, *arguments)
    vars(solid_base(cls))["__init__"](made, *arguments)
    return made


class TracebackValue(Value):
    """The traceback of a caught exception: it can be handed on, and not be looked into."""

    def __init__(self, error: ExceptionValue) -> None:
        self.error = error

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        self.error.restart("its traceback is read")

    def build(self, glue: Glue) -> str:
        self.error.restart("its traceback is used")


# ---- making ----


def make_exception(tr: Tracer, cls: ClassValue, args: Args, kwargs: Kwargs) -> Value:
    """A call of an exception class."""
    if not is_modelled(cls.cls):
        raise unsupported(f"Making {cls.cls.__name__} cannot be traced.")
    made = ExceptionValue(cls.cls, list(args), cls)
    tr.changed()
    init = static_lookup(cls.cls, "__init__")
    if isinstance(init, types.FunctionType):
        made.method(tr, "__init__", init).call(tr, args, kwargs)
    elif kwargs:
        raise unsupported(f"Making {cls.cls.__name__} with keyword arguments cannot be traced.")
    return made


def _init(tr: Tracer, owner: Value, *args: Value) -> Value:
    """The `__init__` of builtin exceptions."""
    owner = owner.realize(tr)
    if not isinstance(owner, ExceptionValue):
        raise owner.cannot("initialising")
    owner.arguments = list(args)
    tr.changed()
    return ConstantValue(None)


@rule(BaseException.add_note)
def _add_note(tr: Tracer, owner: Value, note: Value) -> Value:
    owner, text = owner.realize(tr), note.realize(tr)
    if not isinstance(owner, ExceptionValue):
        raise owner.cannot("adding a note")
    if text.python_type() is not str:
        fail(TypeError(f"note must be a str, not '{text.python_type().__name__}'"), is_exact=True)
    if "__notes__" not in owner.attributes:
        owner.set_own(tr, "__notes__", SequenceValue(list, []))
    owner.attributes["__notes__"].realize(tr).getattr(tr, "append").call(tr, [text], {})
    return ConstantValue(None)


@rule(BaseException.__str__)
def _plain_text(tr: Tracer, owner: Value) -> Value:
    """What BaseException itself gives, whatever `__str__` the class has."""
    owner = owner.realize(tr)
    if not isinstance(owner, ExceptionValue):
        raise owner.cannot("taking the text")
    base = solid_base(owner.cls)
    return ExceptionValue(base, owner.exact_arguments(), tr.constant(base)).text(tr, "__str__")


@rule(BaseException.with_traceback)
def _with_traceback(tr: Tracer, owner: Value, trace: Value) -> Value:
    return owner


def _register_initialisers() -> None:
    for cls in vars(builtins).values():
        if isinstance(cls, type) and issubclass(cls, BaseException) and "__init__" in vars(cls):
            RULES[vars(cls)["__init__"]] = _init


_register_initialisers()


# ---- raising ----


def raise_value(tr: Tracer, value: Value, cause: Value | None = None) -> NoReturn:
    """The `raise` statement. Raises Break for an exception object from outside: only the real one has its history."""
    error = _instance(tr, value)
    if cause is not None:
        is_none = isinstance(cause, ConstantValue) and cause.value is None
        error.cause, error.suppresses_context = cause if is_none else _instance(tr, cause), True
    throw(tr, error)


def throw(tr: Tracer, error: ExceptionValue) -> NoReturn:
    """Raise an exception: note where, and what was being handled then."""
    tr.changed()
    error.step = tr.root_step if error.step is None else error.step
    handled = now_handled(tr)
    if handled is not None and handled is not error:
        _cut_cycle(error, handled)
        error.context = handled
    raise UserError(None, error)


def _cut_cycle(error: ExceptionValue, handled: ExceptionValue) -> None:
    """An exception is never in the context of its own context, as CPython sees to."""
    link: Value | None = handled
    while isinstance(link, ExceptionValue):
        if link.context is error:
            link.context = ConstantValue(None)
        link = link.context


def _instance(tr: Tracer, value: Value) -> ExceptionValue:
    """The exception for the operand of `raise`: a class is called."""
    value = value.realize(tr)
    if isinstance(value, ClassValue) and issubclass(value.cls, BaseException):
        value = value.call(tr, [], {}).realize(tr)
    if isinstance(value, ExceptionValue):
        return value
    if isinstance(value, ConstantValue) or not issubclass(value.python_type(), BaseException):
        fail(TypeError("exceptions must derive from BaseException"))
    raise unsupported(f"Raising {value.describe()}, an exception that existed before, cannot be traced.")


def caught(tr: Tracer, error: UserError) -> ExceptionValue:
    """The exception object that a handler gets. Raises Break for errors of torch's: only the real call knows them."""
    if isinstance(error.value, ExceptionValue):
        return error.value
    original = error.original
    assert original is not None
    if error.is_torch or not is_modelled(type(original)):
        raise unsupported(f"{type(original).__name__} within `try` ({original}) cannot be traced.")
    made = ExceptionValue(type(original), [], tr.constant(type(original)), is_exact=False)
    if error.is_exact:
        try:
            made.arguments = [tr.constant(argument, anchored=False) for argument in original.args]
            made.is_exact = True
        except NotConstant:
            pass
    try:
        throw(tr, made)
    except UserError:
        error.value = made
    return made


def stop(tr: Tracer, value: Value | None) -> NoReturn:
    """StopIteration, with the value that a generator returned."""
    is_none = value is None or (isinstance(value, ConstantValue) and value.value is None)
    throw(tr, ExceptionValue(StopIteration, [] if is_none or value is None else [value], tr.constant(StopIteration)))


# ---- handling ----


def now_handled(tr: Tracer) -> ExceptionValue | None:
    """What `sys.exc_info()` tells of; a generator without an exception of its own sees its consumer's."""
    return next((error for error in reversed(tr.handled) if isinstance(error, ExceptionValue)), None)


@dataclass(frozen=True)
class NotHandlingGuard(Guard):
    """The caller is not handling an exception."""

    rank: ClassVar[int] = 1

    def condition(self, scope: Scope) -> str:
        return f"{scope.keep(sys.exc_info)}()[1] is None"

    def miss(self, frame: GuardFrame) -> str | None:
        return None if sys.exc_info()[1] is None else "the caller is handling an exception now"

    def __str__(self) -> str:
        return "no exception is being handled"


def not_handling(tr: Tracer) -> None:
    """The program has seen that the caller of the frame handles no exception. Raises Break if it does."""
    if tr.is_called_in_handler:
        raise unsupported("The exception that the caller is handling cannot be traced.")
    tr.guard(NotHandlingGuard())


@rule(sys.exception)
def _exception(tr: Tracer) -> Value:
    error = now_handled(tr)
    if error is None:
        not_handling(tr)
    return error or ConstantValue(None)


@rule(sys.exc_info)
def _exc_info(tr: Tracer) -> Value:
    error = now_handled(tr)
    if error is None:
        not_handling(tr)
        return SequenceValue(tuple, [ConstantValue(None)] * 3)
    return SequenceValue(tuple, [tr.constant(error.cls), error, TracebackValue(error)])


__all__ = ["ExceptionValue", "TracebackValue", "caught", "make_exception", "now_handled", "raise_value", "stop"]
