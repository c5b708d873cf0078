"""The user's objects, and Python modules.

In: objects from outside (guarded by exact class), objects made in the frame. Out: attributes as Python's own lookup
finds them, with guards on what the lookup passed: the class attribute, and that the instance does not hide it.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ...guards.held import Held
from ...guards.kinds import AttrPresenceGuard, InstanceAttrAbsentGuard, TypeGuard
from ..breaks import UserError
from ..class_lookup import MISSING, static_lookup
from ..sources import AttrSource, InstanceDictSource, ItemSource
from .base import Args, Kwargs, Lazy, Value, fail, found_by_reading, is_found_by_reading
from .callables import CallableValue, rule
from .constant import ConstantValue, specialized
from .containers import AttributeDictValue, DictValue
from .foreign_methods import foreign_method
from .functions import FunctionValue, MethodValue, bound_attribute, is_method

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_HEAP_TYPE = 1 << 9
_PLAIN_ACCESS = (object, BaseException, types.SimpleNamespace)
"""Builtin classes whose `__setattr__` and `__delattr__` do what object's do."""


def is_open_class(cls: type) -> bool:
    """Whether the program may yet add names to a class: neither one of C's nor one of Python's or torch's libraries."""
    library = cls.__module__.partition(".")[0]
    return bool(cls.__flags__ & _HEAP_TYPE) and library != "torch" and library not in sys.stdlib_module_names


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
            tr.guard(AttrPresenceGuard(self.source, name, False))
            fail(error, is_exact=True)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        if name in tr.attributes_of(self):
            return True
        present = hasattr(self.module, name)
        if self.source is not None:
            tr.guard(AttrPresenceGuard(self.source, name, present))
        return present

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if tr.tracked_dict(vars(self.module)) is not None:
            raise self.cannot("setting an attribute beside the attribute dict")
        tr.shadow(vars(self.module))
        tr.attributes_of(self)[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)


def python_descriptor(tr: Tracer, cls: type, name: str, raw: Any, method: str) -> MethodValue | None:
    """A Python `__get__`, `__set__` or `__delete__` of the class attribute `raw`, bound to the descriptor."""
    function = static_lookup(type(raw), method)
    if not isinstance(function, types.FunctionType) or is_method(raw):
        return None
    base = next(base for base in cls.__mro__ if name in base.__dict__)
    source = ItemSource(AttrSource(tr.anchor(base), "__dict__"), name)
    return MethodValue(tr.wrap(function, AttrSource(tr.anchor(type(raw)), method)), tr.wrap(raw, source))


class ObjectValue(Value):
    """An object of a user class. `obj` is the real one, None for one made in the frame.

    Attributes that the frame has set stand in `tracer.attributes_of(value)`; `MISSING`-like deletions are a break.
    """

    computes_elements = True
    class_value: Value | None = None
    registries: ClassVar[tuple[str, ...]] = ()
    """Keys of `__dict__` under which more attributes are."""

    def __init__(self, cls: type, obj: Any, source: Source | None) -> None:
        self.cls = cls
        self.obj = obj
        self.source = source
        self.attributes: dict[str, Value] = {}
        self.deleted: set[str] = set()
        self.stopped_by: UserError | None = None
        self.own_dict: AttributeDictValue | None = None

    def python_type(self) -> type:
        return self.cls

    # ---- attributes ----

    def getattr(self, tr: Tracer, name: str) -> Value:
        """What the class's `__getattribute__` finds, and its `__getattr__` where that raises AttributeError."""
        try:
            return self._read(tr, name)
        except UserError as error:
            if not issubclass(error.cls, AttributeError):
                raise
            return self.missing(tr, name, error)

    def missing(self, tr: Tracer, name: str, error: UserError) -> Value:
        """What reading gives when looking up has raised this."""
        getter = self.accessor(tr, "__getattr__")
        if getter is None:
            raise error
        return getter.call(tr, [ConstantValue(name)], {})

    def _read(self, tr: Tracer, name: str) -> Value:
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
        """`object.__getattribute__`."""
        found = self.find(tr, name)
        if found is not None:
            return found
        self._guard_absent(tr, name)
        fail(AttributeError(f"'{self.cls.__name__}' object has no attribute '{name}'"), is_exact=True)

    def accessor(self, tr: Tracer, name: str) -> Value | None:
        """The class's `__getattr__`, `__setattr__` or `__delattr__`, None for object's. Raises Break for others."""
        raw = static_lookup(self.cls, name)
        if isinstance(raw, types.FunctionType):
            return self.method(tr, name, raw)
        if raw is MISSING or getattr(raw, "__objclass__", None) in _PLAIN_ACCESS:
            return None
        raise self.cannot(f"calling {name}")

    def _guard_absent(self, tr: Tracer, name: str) -> None:
        """That ordinary lookup finds nothing. Where `__getattr__` comes then, the class is watched by its names."""
        if self.source is None:
            return
        if static_lookup(self.cls, "__getattr__") not in (MISSING, torch.nn.Module.__getattr__):
            if hasattr(self.obj, "__dict__"):
                tr.guard(InstanceAttrAbsentGuard(self.source, name))
        else:
            owner = Held(self.cls) if isinstance(getattr(self.obj, "__dict__", None), dict) else None
            tr.guard(AttrPresenceGuard(self.source, name, False, owner, self.registries))

    def find(self, tr: Tracer, name: str) -> Value | None:
        """Ordinary attribute lookup, without `__getattr__`; None if there is no such attribute."""
        pending = tr.class_attribute(self.cls, name)
        raw = static_lookup(self.cls, name) if pending is None else MISSING
        if raw is not MISSING and hasattr(type(raw), "__set__"):
            return self._from_data_descriptor(tr, name, raw)
        own = self.own_attribute(tr, name)
        if own is not None:
            if raw is not MISSING and is_open_class(self.cls):
                self._guard_hidden(tr, name)
            return own
        if pending is not None:
            return self._from_frame(tr, name, pending.realize(tr))
        return self._from_class(tr, name, raw) if raw is not MISSING else self.special(tr, name)

    def _guard_hidden(self, tr: Tracer, name: str) -> None:
        """The class attribute that the object's own one hides stays of its type, and no data descriptor: a property
        would come first."""
        base = next(base for base in self.cls.__mro__ if name in base.__dict__)
        hidden = base.__dict__[name]
        tr.guard(TypeGuard.of(ItemSource(AttrSource(tr.anchor(base), "__dict__"), name), hidden))
        tr.guard_names(type(hidden))

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
        if isinstance(raw, property):
            return bound_attribute(tr, self, self.cls, raw, AttrSource(tr.anchor(self.cls), name))
        if isinstance(raw, types.MemberDescriptorType) and name != "__dict__":
            return self._slot(tr, name)
        getter = self._descriptor(tr, name, raw, "__get__")
        if getter is not None:
            return getter.call(tr, [self, tr.constant(self.cls)], {})
        if name == "__class__":
            return tr.constant(self.cls)
        if name == "__dict__":
            return self._attribute_dict(tr)
        raise self.cannot(f"reading attribute {name!r}, a {type(raw).__name__},")

    def _attribute_dict(self, tr: Tracer) -> Value:
        """`__dict__`: for an object made in the frame the very dict in which its value keeps them."""
        if self.obj is None:
            if self.own_dict is None:
                self.own_dict = AttributeDictValue(self, self.attributes)
            return self.own_dict
        if self.source is None:
            raise self.cannot("reading the attribute dict")
        source = AttrSource(self.source, "__dict__")
        if not self.attributes and not self.deleted:
            return Lazy(self.obj.__dict__, source)
        return self._changed_dict(tr, source)

    def _changed_dict(self, tr: Tracer, source: AttrSource) -> Value:
        """The attribute dict of an object from outside as the frame has left it; attributes live there from now on."""
        tr.unshadow(self.obj.__dict__)
        result = tr.wrap(self.obj.__dict__, source)
        assert isinstance(result, DictValue)
        for name in self.deleted:
            result.entries.pop(name, None)
        result.entries.update(self.attributes)
        self.attributes.clear()
        self.deleted.clear()
        return result

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
        if isinstance(raw, functools.cached_property):
            value = tr.wrap(raw.func, AttrSource(source, "func")).call(tr, [self], {})
            self.set_own(tr, name, value)
            return value
        getter = self._descriptor(tr, name, raw, "__get__")
        if getter is not None:
            return getter.call(tr, [self, tr.constant(self.cls)], {})
        found = bound_attribute(tr, self, self.cls, raw, source)
        found = found or foreign_method(self, self.obj, name)
        if found is None:
            raise self.cannot(f"reading attribute {name!r}, a {type(raw).__name__},")
        return found

    def _descriptor(self, tr: Tracer, name: str, raw: Any, method: str) -> Value | None:
        """A Python `__get__`, `__set__` or `__delete__` of a class attribute, bound to the descriptor."""
        return python_descriptor(tr, self.cls, name, raw, method)

    def method(self, tr: Tracer, name: str, raw: Any) -> MethodValue:
        """A special method, looked up on the class as Python does."""
        return MethodValue(tr.wrap(raw, AttrSource(tr.anchor(self.cls), name)), self)

    def dunder(self, tr: Tracer, name: str) -> MethodValue | None:
        """Special method `name` if the class has a Python one; None if it has none at all."""
        pending = tr.class_attribute(self.cls, name)
        pending = pending.realize(tr) if pending is not None else None
        if isinstance(pending, FunctionValue):  # set in this frame
            return MethodValue(pending, self)
        raw = static_lookup(self.cls, name) if pending is None else pending
        if is_method(raw):
            return self.method(tr, name, raw)
        if raw is MISSING or getattr(raw, "__objclass__", None) is object:
            return None
        raise self.cannot(f"calling {name}")

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return is_found_by_reading(tr, self, name)

    def attribute_or_none(self, tr: Tracer, name: str) -> Value | None:
        return found_by_reading(tr, self, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        setter = self.accessor(tr, "__setattr__")
        if setter is not None and not self.plain_setattr(tr, name, value):
            setter.call(tr, [ConstantValue(name), value], {})
            return
        self.set_own(tr, name, value)

    def plain_setattr(self, tr: Tracer, name: str, value: Value) -> bool:
        """Whether the class's Python `__setattr__` does for this attribute what object's does."""
        return False

    def set_own(self, tr: Tracer, name: str, value: Value) -> None:
        """`object.__setattr__`."""
        raw = static_lookup(self.cls, name)
        if isinstance(raw, property):
            self._property_part(tr, name, raw, "fset", "setter").call(tr, [self, value], {})
            return
        setter = self._descriptor(tr, name, raw, "__set__") if raw is not MISSING else None
        if setter is not None:
            setter.call(tr, [self, value], {})
            return
        if raw is not MISSING and hasattr(type(raw), "__set__") and not isinstance(raw, types.MemberDescriptorType):
            raise self.cannot(f"setting attribute {name!r}")
        if raw is MISSING and not self.cls.__dictoffset__:
            fail(AttributeError(f"'{self.cls.__name__}' object has no attribute '{name}'"), is_exact=True)
        instance_dict = getattr(self.obj, "__dict__", None)
        if instance_dict is not None:
            tracked = tr.tracked_dict(instance_dict)
            if tracked is not None and not isinstance(raw, types.MemberDescriptorType):
                tracked.entries[name] = value
                tr.mutated(self, self._set_text(name), value)
                return
            if tracked is None:
                tr.shadow(instance_dict)
        self.attributes[name] = value
        self.deleted.discard(name)
        tr.mutated(self, self._set_text(name), value)

    def delattr(self, tr: Tracer, name: str) -> None:
        deleter = self.accessor(tr, "__delattr__")
        if deleter is not None and static_lookup(self.cls, "__delattr__") is not torch.nn.Module.__delattr__:
            deleter.call(tr, [ConstantValue(name)], {})
            return
        self.plain_delattr(tr, name)

    def plain_delattr(self, tr: Tracer, name: str) -> None:
        """`object.__delattr__`."""
        raw = static_lookup(self.cls, name)
        if isinstance(raw, property):
            self._property_part(tr, name, raw, "fdel", "deleter").call(tr, [self], {})
            return
        remover = self._descriptor(tr, name, raw, "__delete__") if raw is not MISSING else None
        if remover is not None:
            remover.call(tr, [self], {})
            return
        if raw is not MISSING and hasattr(type(raw), "__set__") and not isinstance(raw, types.MemberDescriptorType):
            raise self.cannot(f"deleting attribute {name!r}")
        self.delete_own(tr, name)

    def _property_part(self, tr: Tracer, name: str, raw: property, part: str, word: str) -> Value:
        function = getattr(raw, part)
        if function is None:
            fail(AttributeError(f"property {name!r} of {self.cls.__name__!r} object has no {word}"), is_exact=True)
        return tr.wrap(function, AttrSource(AttrSource(tr.anchor(self.cls), name), part))

    def delete_own(self, tr: Tracer, name: str) -> None:
        """Delete what the object itself holds."""
        tracked = None
        instance_dict = getattr(self.obj, "__dict__", None)
        if instance_dict is not None:
            tracked = tr.tracked_dict(instance_dict)
            if tracked is None:
                tr.shadow(instance_dict)
        is_slot = isinstance(static_lookup(self.cls, name), types.MemberDescriptorType)
        if (self._slot(tr, name) if is_slot else self.own_attribute(tr, name)) is None:
            fail(AttributeError(name))
        (self.attributes if tracked is None or is_slot else tracked.entries).pop(name, None)
        self.deleted.add(name)
        tr.mutated(self, f"__object_delattr__({{0}}, {name!r})")

    def _set_text(self, name: str) -> str:
        setter = static_lookup(self.cls, "__setattr__")
        is_plain = getattr(setter, "__objclass__", None) in _PLAIN_ACCESS or self.plain_setattr_replay
        if not is_plain:
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
            fail(TypeError(f"'{self.cls.__name__}' object is not callable"), is_exact=True)
        return method.call(tr, args, kwargs)

    def _special(self, tr: Tracer, name: str, *args: Value) -> Value:
        method = self.dunder(tr, name)
        if method is None:
            if name in _LACKING:
                fail(TypeError(_LACKING[name].format(self.cls.__name__)), is_exact=True)
            raise self.cannot(f"calling {name}")
        return method.call(tr, list(args), {}).realize(tr)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return self._special(tr, "__getitem__", key)

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        self._special(tr, "__setitem__", key, value)

    def delitem(self, tr: Tracer, key: Value) -> None:
        self._special(tr, "__delitem__", key)

    def length(self, tr: Tracer) -> int:
        return specialized(tr, self._special(tr, "__len__")).const(tr)

    def as_index(self, tr: Tracer) -> Value:
        method = self.dunder(tr, "__index__")
        return method.call(tr, [], {}).realize(tr) if method is not None else self

    def contains(self, tr: Tracer, item: Value) -> bool:
        if self.dunder(tr, "__contains__") is not None:
            return self._special(tr, "__contains__", item).truth(tr)
        iterator = self.iterator(tr).realize(tr)
        return iterator.contains(tr, item) if iterator is not self else self._has_before_its_end(tr, item)

    def _has_before_its_end(self, tr: Tracer, item: Value) -> bool:
        """For an iterator: whether one of the elements that it still has is this one; what is behind it stays."""
        from ..operators import equal

        while (element := self.next(tr)) is not None:
            if equal(tr, element, item):
                return True
        return False

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
            self.stopped_by = error
            return None

    def returned_value(self, tr: Tracer) -> Value:
        from .exceptions import caught

        error, self.stopped_by = self.stopped_by, None
        return caught(tr, error).getattr(tr, "value") if error is not None else ConstantValue(None)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        for name in dunder_names(op, swapped):
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


_LACKING = {
    "__len__": "object of type '{}' has no len()",
    "__getitem__": "'{}' object is not subscriptable",
    "__setitem__": "'{}' object does not support item assignment",
    "__delitem__": "'{}' object doesn't support item deletion",
    "__iter__": "'{}' object is not iterable",
}
"""What Python says where a class lacks a method."""


def set_line(glue: Glue, name: str, key: str, value: Value) -> str:
    """Glue that stores an attribute past the class's own `__setattr__`."""
    return f"__object_setattr__({name}, {key!r}, {glue.ref(value)})"


def dunder_names(op: Any, swapped: bool) -> list[str]:
    """The special methods that an operator asks of an operand, in order: `+=` falls back on `+`."""
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


@rule(object.__delattr__)
def _object_delattr(tr: Tracer, owner: Value, name: Value) -> Value:
    owner = owner.realize(tr)
    if not isinstance(owner, ObjectValue):
        raise owner.cannot("deleting an attribute")
    owner.plain_delattr(tr, name.realize(tr).const(tr))
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
