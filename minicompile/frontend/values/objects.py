"""The user's objects and classes, and Python modules.

In: objects from outside (guarded by exact class), objects made in the frame. Out: attributes as Python's own lookup
finds them, with guards on what the lookup passed: the class attribute, and that the instance does not hide it.
"""

from __future__ import annotations

import functools
import operator
import types
from typing import TYPE_CHECKING, Any

import torch

from ...guards.kinds import AttrPresenceGuard, InstanceAttrAbsentGuard
from ..breaks import UserError, unsupported_call
from ..sources import AttrSource, CallSource, InstanceDictSource
from .base import Args, Kwargs, Lazy, Value, fail
from .callables import CallableValue, call_object, has_rule, rule
from .constant import ConstantValue
from .functions import FunctionValue, MethodValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_MISSING = object()


def static_lookup(cls: type, name: str) -> Any:
    """The raw attribute that the class and its bases hold under a name, `_MISSING` if none: no descriptor runs."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return _MISSING


class PyModuleValue(Value):
    """A Python module."""

    def __init__(self, module: types.ModuleType, source: Source) -> None:
        self.module = module
        self.source = source

    def python_type(self) -> type:
        return types.ModuleType

    def describe(self) -> str:
        return f"module {self.module.__name__}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        pending = tr.attributes_of(self).get(name)
        if pending is not None:
            return pending
        assert self.source is not None
        if tr.tracked_dict(vars(self.module)) is not None:
            raise self.cannot("reading an attribute beside the attribute dict")
        try:
            return Lazy(getattr(self.module, name), AttrSource(self.source, name))
        except AttributeError as error:
            fail(error)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.module, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if tr.tracked_dict(vars(self.module)) is not None:
            raise self.cannot("setting an attribute beside the attribute dict")
        tr.shadow(vars(self.module))
        tr.attributes_of(self)[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)


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
        return hasattr(self.cls, name)

    def getattr(self, tr: Tracer, name: str) -> Value:
        assert self.source is not None
        pending = tr.attributes_of(self).get(name)
        if pending is not None:
            return pending
        raw = static_lookup(self.cls, name)
        if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
            return MethodValue(Lazy(raw.__func__, AttrSource(AttrSource(self.source, name), "__func__")), self)
        if not hasattr(self.cls, name):
            fail(AttributeError(f"type object '{self.cls.__name__}' has no attribute '{name}'"))
        return Lazy(getattr(self.cls, name), AttrSource(self.source, name))

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if type(self.cls).__setattr__ is not type.__setattr__:
            raise self.cannot("setting an attribute")
        tr.attributes_of(self)[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        if self.cls.__module__ in ("builtins", "typing", "collections"):
            return OpaqueClassItem(self, key)
        return super().getitem(tr, key)

    def items(self, tr: Tracer) -> list[Value]:
        import enum

        if issubclass(self.cls, enum.Enum):
            return [ConstantValue(member) for member in self.cls]
        return super().items(tr)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if has_rule(self.cls):
            return call_object(tr, self.cls, args, kwargs)
        if hasattr(self.cls, "_fields") and issubclass(self.cls, tuple) and self.cls.__bases__ == (tuple,):
            return _make_namedtuple(tr, self.cls, args, kwargs)
        if issubclass(self.cls, BaseException):
            from .exceptions import make_exception

            return make_exception(tr, self, args, kwargs)
        if can_be_made(self.cls):
            return _make_object(tr, self, args, kwargs)
        return _fold_class(tr, self.cls, args, kwargs)


class OpaqueClassItem(Value):
    """`list[int]` and the like: only ever passed on."""

    def __init__(self, cls: Value, key: Value) -> None:
        self.cls = cls
        self.key = key

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.cls)}[{glue.ref(self.key)}]"


def _fold_class(tr: Tracer, cls: type, args: Args, kwargs: Kwargs) -> Value:
    import enum

    from .base import NotConstant
    from .constant import FOREIGN

    if cls in FOREIGN or issubclass(cls, enum.Enum):
        try:
            return tr.fold(cls, *args, **kwargs)
        except NotConstant:
            pass
    raise unsupported_call(f"{cls.__qualname__}()", "makes an object of a kind that cannot be traced")


def can_be_made(cls: type) -> bool:
    """Whether calling the class is `object.__new__` and a Python `__init__` (or none), and nothing else."""
    return (
        type(cls).__call__ is type.__call__
        and cls.__new__ is object.__new__
        and not issubclass(cls, (BaseException, torch.nn.Module, torch.Tensor))
        and (_init_of(cls) is object.__init__ or isinstance(_init_of(cls), types.FunctionType))
        and not getattr(cls, "__abstractmethods__", None)
        and "__del__" not in dir(cls)
    )


def _init_of(cls: type) -> Any:
    return static_lookup(cls, "__init__")


def _make_object(tr: Tracer, cls: ClassValue, args: Args, kwargs: Kwargs) -> Value:
    made = ObjectValue(cls.cls, None, None)
    made.class_value = cls
    tr.changed()
    if _init_of(cls.cls) is object.__init__:
        if args or kwargs:
            fail(TypeError(f"{cls.cls.__name__}() takes no arguments"))
        return made
    made.getattr(tr, "__init__").realize(tr).call(tr, args, kwargs)
    return made


def _make_namedtuple(tr: Tracer, cls: Any, args: Args, kwargs: Kwargs) -> Value:
    from .containers import SequenceValue

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


class ObjectValue(Value):
    """An object of a user class. `obj` is the real one, None for one made in the frame.

    Attributes that the frame has set stand in `tracer.attributes_of(value)`; `_MISSING`-like deletions are a break.
    """

    class_value: Value | None = None

    def __init__(self, cls: type, obj: Any, source: Source | None) -> None:
        self.cls = cls
        self.obj = obj
        self.source = source
        self.attributes: dict[str, Value] = {}
        self.deleted: set[str] = set()

    def python_type(self) -> type:
        return self.cls

    # ---- attributes ----

    def getattr(self, tr: Tracer, name: str) -> Value:
        reader = static_lookup(self.cls, "__getattribute__")
        if isinstance(reader, types.FunctionType):
            return self.method(tr, "__getattribute__", reader).call(tr, [ConstantValue(name)], {})
        if not self.has_plain_reader(reader):
            raise self.cannot(f"reading attribute {name!r}")
        return self.plain_getattr(tr, name)

    def has_plain_reader(self, reader: Any) -> bool:
        """Whether the class's `__getattribute__` does what object's does."""
        return reader is object.__getattribute__

    def plain_getattr(self, tr: Tracer, name: str) -> Value:
        """`object.__getattribute__`, and `__getattr__` behind it."""
        found = self.find(tr, name)
        if found is not None:
            return found
        getter = static_lookup(self.cls, "__getattr__")
        if isinstance(getter, types.FunctionType):
            return self.method(tr, "__getattr__", getter).call(tr, [ConstantValue(name)], {})
        if getter is not _MISSING:
            raise self.cannot(f"reading attribute {name!r}")
        self._guard_absent(tr, name)
        fail(AttributeError(f"'{self.cls.__name__}' object has no attribute '{name}'"))

    def _guard_absent(self, tr: Tracer, name: str) -> None:
        if self.source is not None:
            tr.guard(AttrPresenceGuard(self.source, name, False))

    def find(self, tr: Tracer, name: str) -> Value | None:
        """Ordinary attribute lookup, without `__getattr__`; None if there is no such attribute."""
        pending = tr.class_attribute(self.cls, name)
        raw = static_lookup(self.cls, name) if pending is None else _MISSING
        if raw is not _MISSING and hasattr(type(raw), "__set__"):
            return self._from_data_descriptor(tr, name, raw)
        own = self.own_attribute(tr, name)
        if own is not None:
            return own
        if pending is not None:
            return self._from_frame(tr, name, pending.realize(tr))
        return self._from_class(tr, name, raw) if raw is not _MISSING else self.special(tr, name)

    def special(self, tr: Tracer, name: str) -> Value | None:
        """Attributes that no dict holds."""
        return None

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        """What the instance itself holds."""
        if name in self.attributes:
            return self.attributes[name]
        instance_dict = getattr(self.obj, "__dict__", None)
        if not isinstance(instance_dict, dict) or self.source is None or name in self.deleted:
            return None
        tracked = tr.tracked_dict(instance_dict)
        if tracked is not None:
            return tracked.entries.get(name)
        if name not in instance_dict:
            return None
        return Lazy(instance_dict[name], InstanceDictSource(self.source, name))

    def _from_data_descriptor(self, tr: Tracer, name: str, raw: Any) -> Value | None:
        if isinstance(raw, property) and isinstance(raw.fget, types.FunctionType):
            return self._property(tr, name, raw.fget).call(tr, [self], {})
        if isinstance(raw, types.MemberDescriptorType):
            return self._slot(tr, name)
        if name == "__class__":
            return tr.constant(self.cls)
        if name == "__dict__" and self.obj is not None and self.source is not None and not self.attributes:
            return Lazy(self.obj.__dict__, AttrSource(self.source, "__dict__"))
        raise self.cannot(f"reading attribute {name!r}, a {type(raw).__name__},")

    def _property(self, tr: Tracer, name: str, getter: types.FunctionType, part: str = "fget") -> Value:
        return tr.wrap(getter, AttrSource(AttrSource(tr.anchor(self.cls), name), part))

    def _slot(self, tr: Tracer, name: str) -> Value | None:
        if name in self.attributes:
            return self.attributes[name]
        if self.obj is None or self.source is None or name in self.deleted or not hasattr(self.obj, name):
            return None
        return Lazy(getattr(self.obj, name), AttrSource(self.source, name))

    def _from_frame(self, tr: Tracer, name: str, value: Value) -> Value:
        """A class attribute that the frame has set."""
        if self.source is not None and hasattr(self.obj, "__dict__"):
            tr.guard(InstanceAttrAbsentGuard(self.source, name))
        if isinstance(value, FunctionValue):
            return MethodValue(value, self)
        is_plain = isinstance(value, (ConstantValue, CallableValue, MethodValue))
        if not is_plain and hasattr(value.python_type(), "__get__"):
            raise self.cannot(f"reading attribute {name!r}")
        return value

    def _from_class(self, tr: Tracer, name: str, raw: Any) -> Value:
        if self.source is not None and hasattr(self.obj, "__dict__"):
            tr.guard(InstanceAttrAbsentGuard(self.source, name))
        source = AttrSource(tr.anchor(self.cls), name)
        if isinstance(raw, types.FunctionType):
            return MethodValue(tr.wrap(raw, source), self)
        if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
            return MethodValue(Lazy(raw.__func__, AttrSource(source, "__func__")), tr.constant(self.cls))
        if isinstance(raw, staticmethod):
            return Lazy(raw.__func__, source)
        if isinstance(raw, functools.cached_property):
            value = tr.wrap(raw.func, AttrSource(source, "func")).call(tr, [self], {})
            self.setattr(tr, name, value)
            return value
        if hasattr(type(raw), "__get__"):
            raise self.cannot(f"reading attribute {name!r}, a {type(raw).__name__},")
        return Lazy(raw, source)

    def method(self, tr: Tracer, name: str, raw: types.FunctionType) -> MethodValue:
        """A special method, looked up on the class as Python does."""
        return MethodValue(tr.wrap(raw, AttrSource(tr.anchor(self.cls), name)), self)

    def dunder(self, tr: Tracer, name: str) -> MethodValue | None:
        """Special method `name` if the class has a Python one; None if it has none at all."""
        raw = static_lookup(self.cls, name)
        if isinstance(raw, types.FunctionType):
            return self.method(tr, name, raw)
        if raw is _MISSING or getattr(raw, "__objclass__", None) is object:
            return None
        raise self.cannot(f"calling {name}")

    def has_attr(self, tr: Tracer, name: str) -> bool:
        if not self.has_plain_reader(static_lookup(self.cls, "__getattribute__")):
            return self._has_through_reader(tr, name)
        raw = static_lookup(self.cls, name)
        if isinstance(raw, property) or isinstance(static_lookup(self.cls, "__getattr__"), types.FunctionType):
            return self._has_through_reader(tr, name)
        if self.find(tr, name) is not None:
            return True
        self._guard_absent(tr, name)
        return False

    def _has_through_reader(self, tr: Tracer, name: str) -> bool:
        """For attributes that code of the program finds: there if reading works, not if it raises AttributeError."""
        try:
            self.getattr(tr, name)
        except UserError as error:
            if not issubclass(error.cls, AttributeError):
                raise
            return False
        return True

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        setter = static_lookup(self.cls, "__setattr__")
        if isinstance(setter, types.FunctionType) and not self.plain_setattr(tr, name, value):
            self.method(tr, "__setattr__", setter).call(tr, [ConstantValue(name), value], {})
            return
        self.set_own(tr, name, value)

    def plain_setattr(self, tr: Tracer, name: str, value: Value) -> bool:
        """Whether the class's Python `__setattr__` does for this attribute what object's does."""
        return False

    def set_own(self, tr: Tracer, name: str, value: Value) -> None:
        """`object.__setattr__`."""
        raw = static_lookup(self.cls, name)
        if isinstance(raw, property):
            if not isinstance(raw.fset, types.FunctionType):
                fail(AttributeError(f"property '{name}' of '{self.cls.__name__}' object has no setter"))
            self._property(tr, name, raw.fset, "fset").call(tr, [self, value], {})
            return
        if raw is not _MISSING and hasattr(type(raw), "__set__") and not isinstance(raw, types.MemberDescriptorType):
            raise self.cannot(f"setting attribute {name!r}")
        if raw is _MISSING and not self.cls.__dictoffset__:
            fail(AttributeError(f"'{self.cls.__name__}' object has no attribute '{name}'"), is_exact=True)
        instance_dict = getattr(self.obj, "__dict__", None)
        if instance_dict is not None:
            if tr.tracked_dict(instance_dict) is not None:
                raise self.cannot("setting an attribute beside the attribute dict")
            tr.shadow(instance_dict)
        self.attributes[name] = value
        self.deleted.discard(name)
        tr.mutated(self, self._set_text(name), value)

    def delattr(self, tr: Tracer, name: str) -> None:
        deleter, raw = static_lookup(self.cls, "__delattr__"), static_lookup(self.cls, name)
        if isinstance(deleter, types.FunctionType) and deleter is not torch.nn.Module.__delattr__:
            self.method(tr, "__delattr__", deleter).call(tr, [ConstantValue(name)], {})
            return
        if raw is not _MISSING and hasattr(type(raw), "__set__") and not isinstance(raw, types.MemberDescriptorType):
            raise self.cannot(f"deleting attribute {name!r}")
        self.delete_own(tr, name)

    def delete_own(self, tr: Tracer, name: str) -> None:
        """`object.__delattr__`."""
        instance_dict = getattr(self.obj, "__dict__", None)
        if instance_dict is not None:
            if tr.tracked_dict(instance_dict) is not None:
                raise self.cannot("deleting an attribute beside the attribute dict")
            tr.shadow(instance_dict)
        is_slot = isinstance(static_lookup(self.cls, name), types.MemberDescriptorType)
        if (self._slot(tr, name) if is_slot else self.own_attribute(tr, name)) is None:
            fail(AttributeError(name))
        self.attributes.pop(name, None)
        self.deleted.add(name)
        tr.mutated(self, f"__object_delattr__({{0}}, {name!r})")

    def _set_text(self, name: str) -> str:
        setter = static_lookup(self.cls, "__setattr__")
        if isinstance(setter, types.FunctionType) and not self.plain_setattr_replay:
            return f"__object_setattr__({{0}}, {name!r}, {{1}})"
        return f"{{0}}.{name} = {{1}}" if name.isidentifier() else f"__setattr__({{0}}, {name!r}, {{1}})"

    plain_setattr_replay = False

    # ---- the rest of the data model: the class's own special methods, inlined ----

    def truth(self, tr: Tracer) -> bool:
        method = self.dunder(tr, "__bool__")
        if method is not None:
            return method.call(tr, [], {}).realize(tr).truth(tr)
        method = self.dunder(tr, "__len__")
        return method is None or method.call(tr, [], {}).realize(tr).truth(tr)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        method = self.dunder(tr, "__call__")
        if method is None:
            fail(TypeError(f"'{self.cls.__name__}' object is not callable"))
        return method.call(tr, args, kwargs)

    def _special(self, tr: Tracer, name: str, *args: Value) -> Value:
        method = self.dunder(tr, name)
        if method is None:
            raise self.cannot(f"calling {name}")
        return method.call(tr, list(args), {}).realize(tr)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return self._special(tr, "__getitem__", key)

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        self._special(tr, "__setitem__", key, value)

    def delitem(self, tr: Tracer, key: Value) -> None:
        self._special(tr, "__delitem__", key)

    def length(self, tr: Tracer) -> int:
        return self._special(tr, "__len__").const(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        if self.dunder(tr, "__contains__") is None:
            return self.iterator(tr).realize(tr).contains(tr, item)
        return self._special(tr, "__contains__", item).truth(tr)

    def iterator(self, tr: Tracer) -> Value:
        from .iterators import ItemIteratorValue

        if self.dunder(tr, "__iter__") is None and self.dunder(tr, "__getitem__") is not None:
            return ItemIteratorValue(self)
        return self._special(tr, "__iter__")

    def items(self, tr: Tracer) -> list[Value]:
        iterator = self.iterator(tr).realize(tr)
        return iterator.items(tr) if iterator is not self else self.rest(tr)

    def next(self, tr: Tracer) -> Value | None:
        try:
            return self._special(tr, "__next__")
        except UserError as error:
            if not issubclass(error.cls, StopIteration):
                raise
            return None

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        for name in _dunder_names(op, swapped):
            method = self.dunder(tr, name)
            if method is None:
                continue
            unary = op in (operator.neg, operator.pos, operator.invert)
            result = method.call(tr, [] if unary else [other], {}).realize(tr)
            if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
                return result
        return None

    def text(self, tr: Tracer, how: str) -> Value | None:
        raw = static_lookup(self.cls, how)
        if isinstance(raw, types.FunctionType):
            return self.method(tr, how, raw).call(tr, [], {}).realize(tr)
        return self.text(tr, "__repr__") if raw is object.__str__ else None

    def build(self, glue: Glue) -> str:
        assert self.class_value is not None
        name = glue.assign(f"__object_new__({glue.ref(self.class_value)})", self)
        for key, value in self.attributes.items():
            glue.fill(functools.partial(set_line, glue, name, key, value))
        return name


def set_line(glue: Glue, name: str, key: str, value: Value) -> str:
    return f"__object_setattr__({name}, {key!r}, {glue.ref(value)})"


def _dunder_names(op: Any, swapped: bool) -> list[str]:
    from ..operators import COMPARISONS, swapped_comparison

    name = op.__name__.strip("_")
    if op in COMPARISONS:
        return [f"__{(swapped_comparison(op) if swapped else op).__name__}__"]
    name = {"neg": "neg", "pos": "pos", "invert": "invert"}.get(name, name)
    if swapped:
        return [f"__r{name[1:] if op.__name__.startswith('i') and name[1:] in _PLAIN else name}__"]
    if name[0] == "i" and name[1:] in _PLAIN:
        return [f"__{name}__", f"__{name[1:]}__"]
    return [f"__{name}__"]


_PLAIN = frozenset(
    "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
)  # names that an "i" in front makes in-place


@rule(object.__setattr__)
def _object_setattr(tr: Tracer, owner: Value, name: Value, value: Value) -> Value:
    owner = owner.realize(tr)
    if not isinstance(owner, ObjectValue):
        raise owner.cannot("setting an attribute")
    owner.set_own(tr, name.realize(tr).const(tr), value)
    return ConstantValue(None)


@rule(object.__getattribute__)
def _object_getattribute(tr: Tracer, owner: Value, name: Value) -> Value:
    owner = owner.realize(tr)
    if not isinstance(owner, ObjectValue):
        raise owner.cannot("reading an attribute")
    return owner.plain_getattr(tr, name.realize(tr).const(tr))


@rule(object)
def _object(tr: Tracer) -> Value:
    made = ObjectValue(object, None, None)
    made.class_value = tr.constant(object)
    return made


class WeakReferenceValue(Value):
    """A weakref.ref from outside."""

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source

    def python_type(self) -> type:
        return type(self.obj)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        assert self.source is not None
        return Lazy(self.obj(), CallSource(self.source))


class SuperValue(Value):
    """`super()`: attribute lookup that begins behind a class in the owner's order of bases."""

    def __init__(self, cls: type, owner: Value) -> None:
        self.cls = cls
        self.owner = owner

    def python_type(self) -> type:
        return super

    def getattr(self, tr: Tracer, name: str) -> Value:
        start = self.owner.cls if isinstance(self.owner, ClassValue) else self.owner.python_type()
        if self.cls not in start.__mro__:
            fail(TypeError("super(type, obj): obj must be an instance or subtype of type"))
        behind = start.__mro__[start.__mro__.index(self.cls) + 1 :]
        for base in behind:
            if name in base.__dict__:
                return self._bind(tr, base, name, base.__dict__[name])
        fail(AttributeError(f"'super' object has no attribute '{name}'"))

    def _bind(self, tr: Tracer, base: type, name: str, raw: Any) -> Value:
        source = AttrSource(tr.anchor(base), name)
        if isinstance(raw, types.FunctionType):
            return MethodValue(tr.wrap(raw, source), self.owner)
        if isinstance(raw, property) and isinstance(raw.fget, types.FunctionType):
            return tr.wrap(raw.fget, AttrSource(source, "fget")).call(tr, [self.owner], {})
        if isinstance(raw, staticmethod):
            return Lazy(raw.__func__, source)
        if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
            owner = self.owner if isinstance(self.owner, ClassValue) else tr.constant(self.owner.python_type())
            return MethodValue(tr.wrap(raw.__func__, AttrSource(source, "__func__")), owner)
        if raw is object.__init__:
            return CallableValue(_nothing)
        if has_rule(raw):
            return MethodValue(CallableValue(raw), self.owner)
        raise self.cannot(f"reading {name!r}")

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(super)}({glue.keep(self.cls)}, {glue.ref(self.owner)})"


def _nothing() -> None:
    """What `object.__init__` does."""


@rule(_nothing)
def _nothing_rule(tr: Tracer) -> Value:
    return ConstantValue(None)


__all__ = ["ClassValue", "FunctionValue", "ObjectValue", "PyModuleValue", "SuperValue", "static_lookup"]
