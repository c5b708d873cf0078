"""Objects of classes that derive from dict, OrderedDict, defaultdict, list, tuple, set or frozenset.

In: such objects from outside, calls of such classes. Out: an object with attributes and Python methods like any other,
which also has *contents*: a plain container's value. What the class does not define in Python is done to the contents,
as the builtin base does it; `super().__setitem__(k, v)` and `dict.__setitem__(d, k, v)` come there, too.

What the frame does to the contents of an object from outside is repeated with the base's own methods, never with the
class's, which have been traced already.
"""

from __future__ import annotations

import operator
import re
import types
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...guards.constants import is_constant
from ...guards.kinds import InstanceAttrAbsentGuard, KeysGuard, LengthGuard
from ..class_lookup import MISSING, static_lookup
from ..helpers import CONTAINERS, contents_of
from ..sources import AttrSource, ContentsSource, ItemSource
from .base import Args, Kwargs, Lazy, OpaqueValue, Value
from .constant import ConstantValue
from .containers import (
    ContainerMethod,
    DictValue,
    SequenceValue,
    SetValue,
    elements_of,
    errors_of_the_user,
    make_set,
    pairs_of,
)
from .objects import ObjectValue, dunder_names, set_line

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_TUPLE_GETTER = type(namedtuple("_Sample", "field").__dict__["field"])
IMMUTABLE = (tuple, frozenset)
_HEAP_TYPE = 1 << 9
_ASKS_THE_CLASS: dict[Any, set[str]] = {
    OrderedDict: {"setdefault", "pop", "popitem", "copy", "__or__", "__ior__"},
    defaultdict: {"copy", "__or__"},
}
"""Methods that, in C, call the class's own `__setitem__` and the like, or make another object of the class."""


def native_base(cls: type) -> type | None:
    """The builtin container that a Python class derives from; None if it derives from none, or from more than that."""
    base = next((base for base in cls.__mro__ if base in CONTAINERS), None)
    if base is None or cls is base:
        return None
    others = [other for other in cls.__mro__ if other not in base.__mro__]
    return base if all(other.__flags__ & _HEAP_TYPE for other in others) else None


# ---- the contents ----


class Contents(Value):
    """Mixin of a plain container's value that is the inside of `owner`."""

    owner: SubclassValue

    def effect(self, text: str) -> tuple[Value, str]:
        return self.owner, unbound(text, f"__base_{self.owner.native.__name__}__")

    def method_text(self, glue: Glue, name: str) -> str:
        return f"{glue.keep(self.owner.native)}.{name}.__get__({glue.ref(self.owner)})"

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(contents_of)}({glue.ref(self.owner)})"


class DictContents(Contents, DictValue):
    """Of a dict, OrderedDict or defaultdict."""


class SequenceContents(Contents, SequenceValue):
    """Of a list or tuple."""


class SetContents(Contents, SetValue):
    """Of a set or frozenset."""


_FORMS = ((re.compile(r"\{0\}\[(.+?)\] = (.+)"), r"{}.__setitem__({{0}}, {}, {})"),
          (re.compile(r"del \{0\}\[(.+?)\]"), r"{}.__delitem__({{0}}, {})"),
          (re.compile(r"\{0\}\.(\w+)\((.*)\)"), r"{}.{}({{0}}, {})"))  # fmt: skip


def unbound(text: str, base: str) -> str:
    """The text of an effect with the method of a base class instead of the object's own: `{0}.append({1})` becomes
    `base.append({0}, {1})`."""
    for pattern, form in _FORMS:
        found = pattern.fullmatch(text)
        if found is not None:
            parts = ["__slice__(None)" if part == ":" else part for part in found.groups()]
            return form.format(base, *parts)
    raise AssertionError(f"an effect in another form: {text}")


def _make_contents(native: type) -> Any:
    if issubclass(native, dict):
        return DictContents(native, {})
    if native in (list, tuple):
        return SequenceContents(native, [])
    return SetContents(native, {})


# ---- the object ----


class SubclassValue(ObjectValue):
    """An object whose class derives from a builtin container."""

    def __init__(self, cls: type, obj: Any, source: Source | None) -> None:
        super().__init__(cls, obj, source)
        native = native_base(cls)
        assert native is not None
        self.native = native
        self.contents = _make_contents(native)
        self.contents.owner = self

    # ---- methods of the builtin base ----

    def is_native(self, raw: Any) -> bool:
        """Whether a class attribute is a method of the builtin base, under its own name or another."""
        is_method = isinstance(raw, (types.MethodDescriptorType, types.WrapperDescriptorType))
        return is_method and raw.__objclass__ is not object and static_lookup(self.native, raw.__name__) is raw

    def native_method(self, tr: Tracer, name: str) -> Value:
        """The base's own method, bound. Raises Break for one that is not modelled."""
        if name in _ASKS_THE_CLASS.get(self.native, ()) and self._overrides_access():
            raise self.cannot(f"calling method {name!r}, which may call methods of the class,")
        if self.native in _ASKS_THE_CLASS and name in ("copy", "__or__"):
            raise self.cannot(f"calling method {name!r}")
        if name == "__getitem__":
            return NativeMethod(self, name, lambda tr, owner, key: owner.native_getitem(tr, key))
        if name == "__init__" or (name == "update" and self.native is OrderedDict):
            return NativeMethod(self, name, _fill)
        op = _OPERATORS.get(name)
        if op is not None:
            return NativeMethod(self, name, _operation(op))
        method = self.contents.getattr(tr, name)
        if not isinstance(method, ContainerMethod):
            raise self.cannot(f"calling method {name!r}")
        return NativeMethod(self, name, lambda tr, owner, *args, **kwargs: method.call(tr, list(args), kwargs))

    def _overrides_access(self) -> bool:
        """Whether the class has a say in how items are read and set."""
        names = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__missing__", "__iter__", "keys")
        return any(isinstance(static_lookup(self.cls, name), types.FunctionType) for name in names)

    def native_getitem(self, tr: Tracer, key: Value) -> Value:
        """The base's `__getitem__`; a dict asks the class for what is missing."""
        contents, key = self.contents, key.realize(tr)
        if not isinstance(contents, DictValue) or contents.lookup(tr, key) is not None:
            return contents.getitem(tr, key)
        missing = self._python(tr, "__missing__")
        if missing is not None:
            return missing.call(tr, [key], {})
        if contents.factory is not None and self._python(tr, "__setitem__") is not None:
            raise self.cannot("making the missing item")
        return contents.getitem(tr, key)

    # ---- attributes ----

    def has_plain_reader(self, reader: Any) -> bool:
        return self.is_native(reader) or super().has_plain_reader(reader)

    def accessor(self, tr: Tracer, name: str) -> Value | None:
        raw = static_lookup(self.cls, name)
        return self.native_method(tr, raw.__name__) if self.is_native(raw) else super().accessor(tr, name)

    def _from_class(self, tr: Tracer, name: str, raw: Any) -> Value:
        if not self.is_native(raw):
            return super()._from_class(tr, name, raw)
        if self.source is not None and hasattr(self.obj, "__dict__"):
            tr.guard(InstanceAttrAbsentGuard(self.source, name))
        return self.native_method(tr, raw.__name__)

    def _from_data_descriptor(self, tr: Tracer, name: str, raw: Any) -> Value | None:
        if isinstance(raw, _TUPLE_GETTER):
            return self.contents.elements[self.cls._fields.index(name)]  # type: ignore[attr-defined]
        return super()._from_data_descriptor(tr, name, raw)

    def _slot(self, tr: Tracer, name: str) -> Value | None:
        if name == "default_factory" and isinstance(self.contents, DictValue):
            return self.contents.factory or ConstantValue(None)
        return super()._slot(tr, name)

    def dunder(self, tr: Tracer, name: str) -> Any:
        raw = static_lookup(self.cls, name)
        is_native = self.is_native(raw) and tr.class_attribute(self.cls, name) is None
        return self.native_method(tr, raw.__name__) if is_native else super().dunder(tr, name)

    def _python(self, tr: Tracer, name: str) -> Value | None:
        """A special method that the class defines in Python; None if the base's own is in force."""
        raw = static_lookup(self.cls, name)
        if self.is_native(raw) and raw.__name__ == name and tr.class_attribute(self.cls, name) is None:
            tr.guard_identity(AttrSource(tr.anchor(self.cls), name), raw)
            return None
        return self.dunder(tr, name)

    # ---- the data model: the class's own methods, else the base's ----

    def truth(self, tr: Tracer) -> bool:
        method = self._python(tr, "__bool__") or self._python(tr, "__len__")
        return method.call(tr, [], {}).realize(tr).truth(tr) if method is not None else self.contents.truth(tr)

    def length(self, tr: Tracer) -> int:
        return super().length(tr) if self._python(tr, "__len__") is not None else self.contents.length(tr)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        method = self._python(tr, "__getitem__")
        return method.call(tr, [key], {}) if method is not None else self.native_getitem(tr, key)

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        method = self._python(tr, "__setitem__")
        if method is None:
            return self.contents.setitem(tr, key, value)
        method.call(tr, [key, value], {})

    def delitem(self, tr: Tracer, key: Value) -> None:
        method = self._python(tr, "__delitem__")
        if method is None:
            return self.contents.delitem(tr, key)
        method.call(tr, [key], {})

    def contains(self, tr: Tracer, item: Value) -> bool:
        method = self._python(tr, "__contains__")
        if method is None:
            return self.contents.contains(tr, item)
        return method.call(tr, [item], {}).realize(tr).truth(tr)

    def iterator(self, tr: Tracer) -> Value:
        method = self._python(tr, "__iter__")
        return method.call(tr, [], {}).realize(tr) if method is not None else self.contents.iterator(tr)

    def items(self, tr: Tracer) -> list[Value]:
        return super().items(tr) if self._python(tr, "__iter__") is not None else self.contents.items(tr)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        names = dunder_names(op, swapped)
        if any(self._python(tr, name) is not None for name in names if not _is_objects(self.cls, name)):
            return super().binary(tr, op, other, swapped)
        return self.native_binary(tr, op, other, swapped)

    def native_binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        """The operator as the base does it."""
        from ..operators import equal

        if f"__{op.__name__.strip('_')}__" in _ASKS_THE_CLASS.get(self.native, ()):
            raise self.cannot("joining")
        other = plain(other)
        if op in (operator.eq, operator.ne):
            is_container = isinstance(other, (SequenceValue, DictValue, SetValue))
            return ConstantValue((is_container and equal(tr, self.contents, other)) == (op is operator.eq))
        result = self.contents.binary(tr, op, other, swapped)
        return self if result is self.contents else result

    # ---- the way back to a real object ----

    def build(self, glue: Glue) -> str:
        assert self.class_value is not None
        base, contents = glue.keep(self.native), self.contents
        start = ""
        if self.native in IMMUTABLE:
            start = f", ({''.join(f'{glue.ref(item)}, ' for item in contents.items(glue.tr))})"
        name = glue.assign(f"{base}.__new__({glue.ref(self.class_value)}{start})", self)
        if isinstance(contents, DictValue):
            _fill_dict(glue, f"{base}", name, contents)
        elif self.native not in IMMUTABLE:
            adder = "extend" if self.native is list else "update"
            items = contents.elements if self.native is list else contents.entries.values()
            glue.fill(lambda: f"{base}.{adder}({name}, [{', '.join(glue.ref(item) for item in items)}])")
        for key, value in self.attributes.items():
            glue.fill(lambda key=key, value=value: set_line(glue, name, key, value))  # type: ignore[misc]
        return name


def _fill_dict(glue: Glue, base: str, name: str, contents: DictValue) -> None:
    factory = contents.factory
    if factory is not None:
        glue.fill(lambda: f"{base}.__init__({name}, {glue.ref(factory)})")
    for key, value in [(glue.key(contents, key), value) for key, value in contents.entries.items()]:
        glue.fill(lambda key=key, value=value: f"{base}.__setitem__({name}, {key}, {glue.ref(value)})")  # type: ignore[misc]


class NativeMethod(ContainerMethod):
    """A method of the builtin base, bound to an object of the class."""

    owner: SubclassValue

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        result = super().call(tr, args, kwargs)
        return self.owner if result is self.owner.contents else result

    def build(self, glue: Glue) -> str:
        return self.owner.contents.method_text(glue, self.name)


def plain(value: Value) -> Value:
    """The contents of an object, for an operation of a builtin that looks into it without asking its class."""
    return value.contents if isinstance(value, SubclassValue) else value


def _is_objects(cls: type, name: str) -> bool:
    return getattr(static_lookup(cls, name), "__objclass__", None) is object


def _operation(op: Any) -> Any:
    def run(tr: Tracer, owner: SubclassValue, other: Value) -> Value:
        result = owner.native_binary(tr, op, other.realize(tr), False)
        return ConstantValue(NotImplemented) if result is None else result

    return run


_OPERATORS: dict[str, Any] = {
    f"__{op.__name__.strip('_')}__": op
    for op in (
        operator.add, operator.iadd, operator.mul, operator.imul, operator.eq, operator.ne, operator.lt, operator.le,
        operator.gt, operator.ge, operator.or_, operator.ior, operator.and_, operator.iand, operator.sub,
        operator.isub, operator.xor, operator.ixor,
    )
}  # fmt: skip


# ---- making one ----


def _fill(tr: Tracer, owner: SubclassValue, *args: Value, **kwargs: Value) -> Value:
    """The base's `__init__`. An OrderedDict's sets every item as the class does."""
    contents, values = owner.contents, [arg.realize(tr) for arg in args]
    if len(values) > 1 and owner.native is not defaultdict:
        raise owner.cannot("initialising")
    if owner.native is OrderedDict:
        pairs = [*pairs_of(tr, values[0])] if values else []
        for key, value in [*pairs, *((ConstantValue(name), value) for name, value in kwargs.items())]:
            owner.setitem(tr, key, value)
        return ConstantValue(None)
    if owner.native is defaultdict and values:
        factory = values.pop(0)
        is_none = isinstance(factory, ConstantValue) and factory.value is None
        contents.factory = None if is_none else factory
    if isinstance(contents, DictValue):
        method = contents.getattr(tr, "update")
        return method.call(tr, [*values], dict(kwargs))
    if kwargs:
        raise owner.cannot("initialising")
    if contents.length(tr):
        contents.getattr(tr, "clear").call(tr, [], {})
    adder = "extend" if owner.native is list else "update"
    return contents.getattr(tr, adder).call(tr, values, {}) if values else ConstantValue(None)


def new_subclass_object(tr: Tracer, cls: Value, kind: type, items: Value | None) -> SubclassValue:
    """The base's `__new__`: empty, or with the items of a tuple or frozenset."""
    made = SubclassValue(kind, None, None)
    made.class_value = cls
    tr.changed()
    if made.native is tuple and items is not None:
        made.contents.elements.extend(elements_of(tr, items))
    elif made.native is frozenset and items is not None:
        made.contents.entries.update(make_set(tr, frozenset, elements_of(tr, items)).entries)
    return made


def initialise_natively(tr: Tracer, made: SubclassValue, args: Args, kwargs: Kwargs) -> None:
    """`__init__` of a class that leaves it to the base."""
    if made.native in IMMUTABLE:
        return
    with errors_of_the_user():
        made.native_method(tr, "__init__").call(tr, args, kwargs)


def outside_subclass(tr: Tracer, obj: Any, source: Source) -> Value:
    """An object from outside; opaque if it is a set of keys whose hash is their own."""
    tr.guard_type(source, obj)
    tr.guard_names(type(obj))
    real = contents_of(obj)
    if isinstance(real, (set, frozenset)) and not all(map(is_constant, real)):
        return OpaqueValue(obj, source)
    value, inside = SubclassValue(type(obj), obj, source), ContentsSource(source)
    contents = value.contents
    if isinstance(contents, SequenceValue):
        tr.guard(LengthGuard(inside, len(real)))
        contents.elements.extend(Lazy(item, ItemSource(inside, index)) for index, item in enumerate(real))
        return value
    tr.guard(KeysGuard.of(inside, real))
    if isinstance(contents, DictValue):
        from .wrap import dict_items

        for key, item in dict_items(tr, real, inside):
            contents.store(tr, key, item)
        factory = getattr(obj, "default_factory", None) if value.native is defaultdict else None
        contents.factory = tr.constant(factory) if factory is not None else None
    else:
        contents.entries.update({item: tr.constant(item) for item in real})
    return value


def mapping_pairs(tr: Tracer, value: Value) -> Iterable[tuple[Value, Value]] | None:
    """Items of a mapping as `dict(m)` and `{**m}` read it: a dict's directly, unless its class iterates in its own
    way, else through `keys` and `[]`. None for what is no mapping."""
    if isinstance(value, DictValue):
        return pairs_of(tr, value)
    if not isinstance(value, ObjectValue) or static_lookup(value.cls, "keys") is MISSING:
        return None
    if isinstance(value, SubclassValue) and value.native is not OrderedDict:
        if isinstance(value.contents, DictValue) and value._python(tr, "__iter__") is None:
            return pairs_of(tr, value.contents)
    keys = value.getattr(tr, "keys").realize(tr).call(tr, [], {}).realize(tr).items(tr)
    return [(key.realize(tr), value.getitem(tr, key.realize(tr))) for key in keys]


__all__ = [
    "SubclassValue", "initialise_natively", "mapping_pairs", "native_base", "new_subclass_object", "outside_subclass",
    "plain",
]  # fmt: skip
