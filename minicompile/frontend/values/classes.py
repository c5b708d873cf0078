"""Classes of the user's program: attributes, what their metaclass adds, and making objects.

In: class objects from outside (guarded by identity). Out: their attributes as Python's own lookup finds them; objects
made in the frame, for classes whose `__new__` and `__init__` are Python or do nothing.
"""

from __future__ import annotations

import enum
import inspect
import operator
import types
from typing import TYPE_CHECKING, Any

import torch

from ...guards.constants import is_numpy_number
from ...guards.kinds import AttrPresenceGuard, KeysGuard
from ..breaks import unsupported_call
from ..class_lookup import MISSING as _MISSING
from ..class_lookup import static_lookup
from ..computed_sources import CallSource
from ..sources import AttrSource, ItemSource
from .base import Args, Kwargs, Lazy, NotConstant, Value, fail, fail_as
from .callables import call_object, has_rule, rule
from .constant import FOREIGN, ConstantValue, specialized
from .containers import SequenceValue
from .functions import MethodValue
from .objects import ObjectValue, is_open_class, python_descriptor
from .subclasses import IMMUTABLE, SubclassValue, initialise_natively, native_base, new_subclass_object

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_SUBCLASSES = type.__dict__["__subclasses__"]
_HEAP_TYPE, _IMMUTABLE = 1 << 9, 1 << 8


class ClassValue(Value):
    """A class that existed before the frame."""

    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source = source

    def python_type(self) -> type:
        return type(self.cls)

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def has_attr(self, tr: Tracer, name: str) -> bool:
        if tr.class_attribute(self.cls, name) is not None:
            return True
        return self._guarded_presence(tr, name)

    def _guarded_presence(self, tr: Tracer, name: str) -> bool:
        present = hasattr(self.cls, name)
        if self.source is not None and is_open_class(self.cls):
            tr.guard(AttrPresenceGuard(tr.anchor(self.cls), name, present))
        return present

    def getattr(self, tr: Tracer, name: str) -> Value:
        pending = tr.class_attribute(self.cls, name)
        if pending is not None:
            return pending
        return self.lookup(tr, name)

    def lookup(self, tr: Tracer, name: str) -> Value:
        """Attribute lookup on the class as it was before the frame."""
        source = AttrSource(tr.anchor(self.cls), name)
        raw, meta = static_lookup(self.cls, name), static_lookup(type(self.cls), name)
        if isinstance(meta, property) and isinstance(meta.fget, types.FunctionType):
            getter = AttrSource(AttrSource(tr.anchor(type(self.cls)), name), "fget")
            return tr.wrap(meta.fget, getter).call(tr, [self], {})
        if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
            return MethodValue(Lazy(raw.__func__, AttrSource(source, "__func__")), self)
        if isinstance(meta, types.FunctionType) and raw is _MISSING:
            return MethodValue(tr.wrap(meta, AttrSource(tr.anchor(type(self.cls)), name)), self)
        if meta is _SUBCLASSES and raw is _MISSING:
            return _SubclassesMethod(self)
        if name == "__dict__" and tr.attributes_of(self):
            raise self.cannot("reading the attribute dict, some of which was set here,")
        binds = python_descriptor(tr, self.cls, name, raw, "__get__") if raw is not _MISSING else None
        if binds is not None:
            return binds.call(tr, [ConstantValue(None), self], {})
        if not hasattr(self.cls, name):
            self._guarded_presence(tr, name)
            fail(AttributeError(f"type object '{self.cls.__name__}' has no attribute '{name}'"), is_exact=True)
        found = getattr(self.cls, name)
        flags = self.cls.__flags__
        is_fixed = not flags & _HEAP_TYPE or flags & _IMMUTABLE  # and `dict.fromkeys` is a new object at every read
        return Lazy(found, tr.anchor(found) if is_fixed else source)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if type(self.cls).__setattr__ is not type.__setattr__:
            raise self.cannot("setting an attribute")
        tr.attributes_of(self)[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)

    def text(self, tr: Tracer, how: str) -> Value | None:
        """`<class 'module.name'>`, unless a metaclass words it."""
        own = self.meta_method(tr, how) or self.meta_method(tr, "__repr__")
        if own is not None:
            return own.call(tr, [], {}).realize(tr)
        if type(self.cls).__repr__ is not type.__repr__:
            return None
        for part in ("__module__", "__qualname__"):
            self.lookup(tr, part).realize(tr)
        return ConstantValue(repr(self.cls))

    # ---- what a metaclass has a say in ----

    def meta_method(self, tr: Tracer, name: str) -> MethodValue | None:
        """A special method that a metaclass of the user's defines, bound to the class."""
        raw = static_lookup(type(self.cls), name)
        if isinstance(raw, types.FunctionType) and not issubclass(self.cls, enum.Enum):
            return MethodValue(tr.wrap(raw, AttrSource(tr.anchor(type(self.cls)), name)), self)
        return None

    def getitem(self, tr: Tracer, key: Value) -> Value:
        from .annotations import GENERIC_MODULES, subscripted

        own = self.meta_method(tr, "__getitem__")
        if own is not None:
            return own.call(tr, [key], {})
        if issubclass(self.cls, enum.Enum):
            members: Any = self.cls
            return tr.fold(lambda name: members[name], key)
        if self.cls.__module__ in GENERIC_MODULES and hasattr(self.cls, "__class_getitem__"):
            return subscripted(tr, self, self.cls, key)
        if static_lookup(self.cls, "__class_getitem__") is not _MISSING or self.cls.__module__ == "builtins":
            return OpaqueClassItem(self, key)
        return super().getitem(tr, key)

    def items(self, tr: Tracer) -> list[Value]:
        own = self.meta_method(tr, "__iter__")
        if own is not None:
            return own.call(tr, [], {}).realize(tr).items(tr)
        if issubclass(self.cls, enum.Enum):
            return [ConstantValue(member) for member in self.cls]
        return super().items(tr)

    def length(self, tr: Tracer) -> int:
        own = self.meta_method(tr, "__len__")
        if own is not None:
            return specialized(tr, own.call(tr, [], {}).realize(tr)).const(tr)
        return len(self.cls) if issubclass(self.cls, enum.Enum) else super().length(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        own = self.meta_method(tr, "__contains__")
        if own is not None:
            return own.call(tr, [item], {}).realize(tr).truth(tr)
        if issubclass(self.cls, enum.Enum):
            members: Any = self.cls
            return tr.fold(lambda member: member in members, item).truth(tr)
        return super().contains(tr, item)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        is_class = isinstance(other, ClassValue) or (isinstance(other, ConstantValue) and other.value is None)
        if op is operator.or_ and is_class:  # int | None
            left, right = (other, self) if swapped else (self, other)
            return tr.constant(operator.or_(_annotation(left), _annotation(right)))
        return None

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if has_rule(self.cls):
            return call_object(tr, self.cls, args, kwargs)
        own = self.meta_method(tr, "__call__")
        if own is not None:
            return own.call(tr, args, kwargs)
        return self.make(tr, args, kwargs)

    def make(self, tr: Tracer, args: Args, kwargs: Kwargs, *, asked: bool = False) -> Value:
        """`type.__call__`. `asked`: by the `__call__` of a metaclass."""
        if is_namedtuple(self.cls) and not isinstance(self.cls.__dict__.get("__init__"), types.FunctionType):
            return _make_namedtuple(tr, self.cls, args, kwargs)
        if issubclass(self.cls, BaseException):
            from .exceptions import make_exception

            return make_exception(tr, self, args, kwargs)
        if issubclass(self.cls, enum.Enum) and static_lookup(self.cls, "_missing_") is enum.Enum.__dict__["_missing_"]:
            return _fold_class(tr, self.cls, args, kwargs)
        if inspect.isabstract(self.cls) and self.cls.__new__ is object.__new__:
            fail_as(self.cls)  # before any code of the program runs
        if isinstance(self.cls.__new__, types.FunctionType):
            return _make_through_new(tr, self, args, kwargs)
        if can_be_made(self.cls) or (asked and native_base(self.cls) is None and can_be_made(self.cls, own_new=True)):
            return _make_object(tr, self, args, kwargs)
        return _fold_class(tr, self.cls, args, kwargs)


class _SubclassesMethod(Value):
    """`type.__subclasses__`, bound to a class."""

    def __init__(self, owner: ClassValue) -> None:
        self.owner = owner

    def describe(self) -> str:
        return f"{self.owner.cls.__qualname__}.__subclasses__"

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        source = CallSource(AttrSource(tr.anchor(self.owner.cls), "__subclasses__"))
        found: list[type] = self.owner.cls.__subclasses__()
        tr.guard(KeysGuard.of(source, found))
        return SequenceValue(list, [Lazy(cls, ItemSource(source, index)) for index, cls in enumerate(found)])

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.owner)}.__subclasses__"


class OpaqueClassItem(Value):
    """`list[int]` and the like: only ever passed on."""

    def __init__(self, cls: Value, key: Value) -> None:
        self.cls = cls
        self.key = key

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.cls)}[{glue.ref(self.key)}]"


def _fold_class(tr: Tracer, cls: type, args: Args, kwargs: Kwargs) -> Value:
    if cls in FOREIGN or _is_numpy_number(cls) or (issubclass(cls, enum.Enum) and cls.__members__):
        try:
            return tr.fold(cls, *args, **kwargs)
        except NotConstant:
            pass
    raise unsupported_call(f"{cls.__qualname__}()", "makes an object of a kind that cannot be traced")


def _is_numpy_number(cls: type) -> bool:
    return cls.__module__ == "numpy" and is_numpy_number(cls())


def can_be_made(cls: type, *, own_new: bool = False) -> bool:
    """Whether calling the class is `object.__new__` and a Python `__init__` (or none), and nothing else.

    With `own_new`: whether it is, once a `__new__` or metaclass of its own has come to the point.
    """
    native = native_base(cls) or object
    return (
        (own_new or type(cls).__call__ is type.__call__)
        and (own_new or cls.__new__ is native.__new__)
        and all(base in native.__mro__ or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)
        and not issubclass(cls, (BaseException, torch.Tensor))
        and (_inits_natively(cls) or isinstance(_init_of(cls), types.FunctionType))
        and "__del__" not in dir(cls)
    )


def _inits_natively(cls: type) -> bool:
    """Whether `__init__` is object's, or that of the builtin container that the class derives from."""
    return _init_of(cls) in (object.__init__, static_lookup(native_base(cls) or object, "__init__"))


def _init_of(cls: type) -> Any:
    return static_lookup(cls, "__init__")


def _make_object(tr: Tracer, cls: ClassValue, args: Args, kwargs: Kwargs) -> Value:
    made = _new_object(tr, cls, args[0] if args else None)
    if _init_of(cls.cls) is object.__init__ and (args or kwargs) and native_base(cls.cls) not in IMMUTABLE:
        fail(TypeError(f"{cls.cls.__name__}() takes no arguments"), is_exact=True)
    _initialise(tr, made, args, kwargs)
    return made


def _new_object(tr: Tracer, cls: ClassValue, items: Value | None = None) -> ObjectValue:
    if cls.source is not None:
        tr.guard_names(cls.cls)
    if native_base(cls.cls) is not None:
        return new_subclass_object(tr, cls, cls.cls, items)
    made = ObjectValue(cls.cls, None, None)
    made.class_value = cls
    tr.changed()
    return made


def _initialise(tr: Tracer, made: ObjectValue, args: Args, kwargs: Kwargs) -> None:
    init = static_lookup(made.cls, "__init__")
    if isinstance(init, types.FunctionType):
        result = made.method(tr, "__init__", init).call(tr, args, kwargs).realize(tr)
        if not (isinstance(result, ConstantValue) and result.value is None):
            fail(TypeError(f"__init__() should return None, not '{result.python_type().__name__}'"), is_exact=True)
    elif isinstance(made, SubclassValue):
        initialise_natively(tr, made, args, kwargs)


def _make_through_new(tr: Tracer, cls: ClassValue, args: Args, kwargs: Kwargs) -> Value:
    """A class with a Python `__new__`, which may give any object; its own are initialised."""
    source = AttrSource(tr.anchor(cls.cls), "__new__")
    made = tr.wrap(cls.cls.__new__, source).call(tr, [cls, *args], kwargs).realize(tr)
    if issubclass(cls.cls, torch.Tensor) and issubclass(made.python_type(), cls.cls):
        init = static_lookup(cls.cls, "__init__")
        if isinstance(init, types.FunctionType):
            MethodValue(tr.wrap(init, AttrSource(tr.anchor(cls.cls), "__init__")), made).call(tr, args, kwargs)
        return made
    if isinstance(made, ObjectValue) and issubclass(made.cls, cls.cls):
        if not _inits_natively(made.cls) and not isinstance(_init_of(made.cls), types.FunctionType):
            raise made.cannot("initialising")
        _initialise(tr, made, args, kwargs)
    return made


@rule(object.__new__)
def _object_new(tr: Tracer, cls: Value, *args: Value, **kwargs: Value) -> Value:
    made = cls.realize(tr)
    is_plain = isinstance(made, ClassValue) and can_be_made(made.cls, own_new=True)
    if not isinstance(made, ClassValue) or not is_plain:
        raise unsupported_call("object.__new__()", "makes an object of a kind that cannot be traced")
    return _new_object(tr, made)


def is_namedtuple(cls: type) -> bool:
    """Whether objects of the class are tuples with names for the items, and nothing else."""
    return (
        issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and not cls.__dictoffset__
        and all(static_lookup(cls, name) is getattr(tuple, name) for name in _TUPLE_METHODS)
    )


@rule(dict.__new__, list.__new__, set.__new__, frozenset.__new__)
def _container_new(tr: Tracer, cls: Value, items: Value | None = None, *rest: Value, **named: Value) -> Value:
    made = cls.realize(tr)
    if not isinstance(made, ClassValue) or native_base(made.cls) is None or not can_be_made(made.cls, own_new=True):
        raise unsupported_call("__new__()", "makes an object of a kind that cannot be traced")
    return _new_object(tr, made, items)


@rule(tuple.__new__)
def _tuple_new(tr: Tracer, cls: Value, items: Value | None = None) -> Value:
    made = cls.realize(tr)
    if isinstance(made, ClassValue) and made.cls is not tuple and not is_namedtuple(made.cls):
        return _container_new(tr, made, items)
    if not isinstance(made, ClassValue) or not (made.cls is tuple or is_namedtuple(made.cls)):
        raise unsupported_call("tuple.__new__()", "makes an object of a kind that cannot be traced")
    return SequenceValue(made.cls, items.realize(tr).items(tr) if items is not None else [])


_TUPLE_METHODS = ("__getitem__", "__iter__", "__len__", "__contains__", "__eq__", "__lt__", "__add__", "__mul__")


def _annotation(value: Value) -> Any:
    return value.cls if isinstance(value, ClassValue) else None


def _make_namedtuple(tr: Tracer, cls: Any, args: Args, kwargs: Kwargs) -> Value:
    fields = dict(zip(cls._fields, args, strict=False))
    for name, value in kwargs.items():
        if name in fields or name not in cls._fields:
            fail(TypeError(f"{cls.__name__}() got an unexpected or repeated argument '{name}'"))
        fields[name] = value
    for name, default in cls._field_defaults.items():
        fields.setdefault(name, tr.constant(default))
    if len(fields) != len(cls._fields) or len(args) > len(cls._fields):
        fail(TypeError(f"{cls.__name__}() takes {len(cls._fields)} arguments"))
    return SequenceValue(cls, [fields[name] for name in cls._fields])


def class_of_value(value: Value) -> type:
    """The class object behind a value. Raises Break."""
    from .callables import class_object

    return class_object(value)


__all__ = ["ClassValue", "can_be_made", "class_of_value", "is_namedtuple"]
