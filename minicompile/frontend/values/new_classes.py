"""Classes that the program makes while it is being traced.

In: `class` statements, three-argument calls of `type`. Out: a class value over a real class, the *picture*: it has the
same bases, the same names and the same order of bases, so that every lookup works on it as on any class; where the
namespace holds something that only the call knows (a function over the frame's cells, a tensor, a list), the picture
holds a stand-in that the tracer knows the value of.

A class that outlives the frame is made anew in the glue, as eager makes a new one in every call.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import types
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import unsupported
from .annotations import AnnotationValue
from .base import Args, Kwargs, Value, fail
from .callables import rule
from .classes import ClassValue
from .constant import ConstantValue
from .containers import DictValue, SequenceValue
from .functions import CellValue, FunctionValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

Namespace = dict[str, Value]
_METACLASSES = (type, abc.ABCMeta, torch.autograd.function.FunctionMeta)
"""Metaclasses that run no code of the program."""


class NewClassValue(ClassValue):
    """A class made in the frame. `decorators`: what has been applied to the picture since, and is to the real class."""

    def __init__(self, picture: type, bases: list[Value], namespace: Namespace) -> None:
        self.cls = picture
        self.bases = bases
        self.namespace = namespace
        self.decorators: list[tuple[Any, dict[str, Any]]] = []

    def build(self, glue: Glue) -> str:
        bases = "".join(f"{glue.ref(base)}, " for base in self.bases)
        namespace = {**self.namespace, **glue.tr.attributes_of(self)}
        items = ", ".join(f"{key!r}: {self._item(glue, key, value)}" for key, value in namespace.items())
        text = f"{glue.keep(type(self.cls))}({self.cls.__name__!r}, ({bases}), {{{items}}})"
        for decorator, options in self.decorators:
            text = f"{glue.keep(decorator)}({text}, **{options!r})"
        return glue.assign(text, self)

    def _item(self, glue: Glue, key: str, value: Value) -> str:
        """An item of the namespace; annotations are read while the class is made."""
        return glue.complete(value) if key == "__annotations__" else glue.ref(value)


class DescriptorValue(Value):
    """A property, staticmethod or classmethod made in the frame."""

    def __init__(self, kind: type, parts: list[Value]) -> None:
        self.kind = kind
        self.parts = parts

    def python_type(self) -> type:
        return self.kind

    def getattr(self, tr: Tracer, name: str) -> Value:
        if self.kind is property and name in ("getter", "setter", "deleter"):
            return _PropertyPart(self, ("getter", "setter", "deleter").index(name))
        if name in ("__func__", "fget"):
            return self.parts[0]
        return super().getattr(tr, name)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if self.kind is not staticmethod:
            fail(TypeError(f"'{self.kind.__name__}' object is not callable"))
        return self.parts[0].realize(tr).call(tr, args, kwargs)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(self.kind)}({', '.join(map(glue.ref, self.parts))})"


class _PropertyPart(Value):
    """`prop.setter` and its like: makes a property with one more function."""

    def __init__(self, owner: DescriptorValue, index: int) -> None:
        self.owner = owner
        self.index = index

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        none: Value = ConstantValue(None)
        parts = [*self.owner.parts, none, none, none][:3]
        parts[self.index] = args[0]
        return DescriptorValue(property, parts)


@rule(property)
def _property(tr: Tracer, *parts: Value) -> Value:
    return DescriptorValue(property, list(parts))


@rule(staticmethod)
def _staticmethod(tr: Tracer, function: Value) -> Value:
    return DescriptorValue(staticmethod, [function])


@rule(classmethod)
def _classmethod(tr: Tracer, function: Value) -> Value:
    return DescriptorValue(classmethod, [function])


# ---- the class statement ----


@rule(builtins.__build_class__)
def _build_class(tr: Tracer, body: Value, name: Value, *bases: Value, **options: Value) -> Value:
    from ..interpreter import run
    from .named_tuples import is_named_tuple_base, named_tuple_class

    function = body.realize(tr)
    if options or not isinstance(function, FunctionValue):
        raise unsupported("A class with a metaclass or keyword arguments cannot be traced.")
    is_named_tuple = is_named_tuple_base([base.realize(tr) for base in bases])
    real_bases = [] if is_named_tuple else [_real_base(base.realize(tr)) for base in bases]
    frame = tr.frame_of(function, {})
    frame.namespace = {}
    caller, tr.frame = tr.frame, frame
    try:
        cell = run(tr, frame).realize(tr)
    finally:
        tr.frame = caller
    title = name.realize(tr).const(tr)
    if is_named_tuple:
        made = named_tuple_class(tr, title, frame.namespace)
    else:
        made = make_class(tr, title, list(bases), real_bases, frame.namespace)
    if isinstance(cell, CellValue):
        cell.contents = made
    return made


def class_by_call(tr: Tracer, name: Value, bases: Value, namespace: Value) -> Value:
    """`type(name, bases, namespace)`, which puts the class into the module that calls it."""
    names = namespace.realize(tr)
    if not isinstance(names, DictValue) or not all(isinstance(key, str) for key in names.entries):
        raise names.cannot("making a class")
    above = bases.realize(tr).items(tr)
    module = ConstantValue(tr.frame.globals_dict.get("__name__", "builtins"))
    real_bases = [_real_base(base.realize(tr)) for base in above]
    return make_class(tr, name.realize(tr).const(tr), above, real_bases, {"__module__": module, **names.entries})


def _real_base(base: Value) -> type:
    """The class behind a base. Raises Break where making a subclass would run code of the program."""
    if not isinstance(base, ClassValue) or type(base.cls) not in _METACLASSES:
        raise unsupported(f"A class on top of {base.describe()} cannot be traced.")
    for cls in base.cls.__mro__:
        hook = cls.__dict__.get("__init_subclass__")
        if hook is not None and cls is not object and not cls.__module__.startswith("torch"):
            raise unsupported(f"A class on top of {base.describe()}, whose __init_subclass__ runs, cannot be traced.")
    return base.cls


def make_class(tr: Tracer, name: str, bases: list[Value], real_bases: list[type], namespace: Namespace) -> Value:
    """`type(name, bases, namespace)`."""
    metaclass = next((type(base) for base in real_bases if type(base) is not type), type)
    return make_picture(tr, NewClassValue, metaclass, name, bases, tuple(real_bases), namespace)


def make_picture(
    tr: Tracer,
    kind: type[NewClassValue],
    metaclass: Any,
    name: str,
    bases: list[Value],
    real_bases: tuple[type, ...],
    namespace: Namespace,
) -> NewClassValue:
    """The value, of this `kind`, of the class that `metaclass(name, bases, namespace)` makes."""
    namespace = {key: value.realize(tr) for key, value in namespace.items() if key != "__classcell__"}
    stand_ins = {key: stand_in(tr, value) for key, value in namespace.items()}
    try:
        picture = metaclass(name, real_bases, stand_ins)
    except (TypeError, AttributeError) as error:
        fail(error, is_exact=True)
    made = kind(picture, bases, namespace)
    tr.remember(picture, made)
    tr.changed()
    return made


class _StandIn:
    """Stands in a picture for a value that only the call has."""


def stand_in(tr: Tracer, value: Value) -> Any:
    """The object for a value in a picture's namespace: the thing itself, or what the tracer knows as the value."""
    if isinstance(value, (ConstantValue, ClassValue)):
        return value.value if isinstance(value, ConstantValue) else value.cls
    if isinstance(value, AnnotationValue):
        return value.made
    if isinstance(value, FunctionValue) and value.fn is not None:
        if "__isabstractmethod__" in value.attributes:
            raise unsupported(f"A class with {value.describe()} in it, which the frame has made abstract.")
        return value.fn
    if isinstance(value, FunctionValue):
        return _known(tr, _function_like(value), value)
    if isinstance(value, DescriptorValue):
        return value.kind(*(stand_in(tr, part.realize(tr)) for part in value.parts))
    if isinstance(value, DictValue):
        items = {key: item.realize(tr) for key, item in value.entries.items()}
        known = (ConstantValue, ClassValue, AnnotationValue)  # as in __annotations__
        if all(isinstance(item, known) for item in items.values()):
            return {key: stand_in(tr, item) for key, item in items.items()}
    if isinstance(value, SequenceValue) and value.kind is tuple:
        return tuple(stand_in(tr, item.realize(tr)) for item in value.elements)  # __slots__
    if any(hasattr(value.python_type(), name) for name in ("__get__", "__set__", "__set_name__")):
        raise unsupported(f"A class with {value.describe()} in it, which has a say in lookups, cannot be traced.")
    return _known(tr, _StandIn(), value)


def _known(tr: Tracer, obj: Any, value: Value) -> Any:
    tr.remember(obj, value)
    return obj


def _function_like(value: FunctionValue) -> types.FunctionType:
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    made = types.FunctionType(value.code, value.globals_dict, value.code.co_name, None, cells)
    made.__qualname__ = value.name
    if "__isabstractmethod__" in value.attributes:
        made.__dict__["__isabstractmethod__"] = True
    return made


# ---- decorators that rewrite a class ----


@rule(dataclasses.dataclass)
def _dataclass(tr: Tracer, cls: Value | None = None, /, **options: Value) -> Value:
    if cls is None:
        return _DataclassDecorator(options)
    made = cls.realize(tr)
    if not isinstance(made, NewClassValue):
        raise made.cannot("making a dataclass")
    chosen = {key: option.realize(tr).const(tr) for key, option in options.items()}
    if chosen.get("slots") or any(isinstance(v, _StandIn) for v in vars(made.cls).values()):
        raise made.cannot("making a dataclass")
    dataclasses.dataclass(made.cls, **chosen)
    made.decorators.append((dataclasses.dataclass, chosen))
    tr.changed()
    return made


class _DataclassDecorator(Value):
    """`dataclass(...)` before it meets its class."""

    def __init__(self, options: Kwargs) -> None:
        self.options = options

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return _dataclass(tr, args[0], **self.options)


__all__ = ["DescriptorValue", "NewClassValue", "make_class", "make_picture", "stand_in"]
