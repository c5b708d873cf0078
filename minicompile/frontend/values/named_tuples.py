"""Classes of named tuples that the program makes while it is being traced.

In: calls of `collections.namedtuple`, classes on top of `typing.NamedTuple`. Out: class values over a picture, as for
any class made in the frame (new_classes.py): a real class made in the same way, where stand-ins take the place of
defaults that only the call knows.
"""

from __future__ import annotations

import collections
import typing
from typing import TYPE_CHECKING, Any

from .base import Value, fail
from .callables import rule
from .classes import ClassValue
from .constant import ConstantValue
from .containers import DictValue
from .new_classes import Namespace, NewClassValue, make_picture, stand_in

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer


class NewNamedTupleValue(ClassValue):
    """What `collections.namedtuple(*constants, defaults=..., **options)` has made in the frame."""

    def __init__(self, picture: type, constants: tuple[Any, ...], defaults: list[Value], options: Any) -> None:
        self.cls = picture
        self.constants = constants
        self.defaults = defaults
        self.options = options

    def build(self, glue: Glue) -> str:
        parts = [repr(constant) for constant in self.constants]
        parts += [f"{key}={value!r}" for key, value in self.options.items()]
        defaults = "".join(f"{glue.ref(value)}, " for value in self.defaults)
        return glue.assign(f"{glue.keep(collections.namedtuple)}({', '.join(parts)}, defaults=({defaults}))", self)


@rule(collections.namedtuple)
def _namedtuple(
    tr: Tracer,
    typename: Value,
    field_names: Value,
    *,
    rename: Value | None = None,
    defaults: Value | None = None,
    module: Value | None = None,
) -> Value:
    name, fields = typename.realize(tr).const(tr), _field_names(tr, field_names.realize(tr))
    is_given = defaults is not None and not _is_none(tr, defaults)
    values = defaults.realize(tr).items(tr) if defaults is not None and is_given else []
    where = None if module is None else module.realize(tr).const(tr)
    options = {
        "rename": rename is not None and rename.realize(tr).truth(tr),
        "module": tr.frame.globals_dict.get("__name__", "__main__") if where is None else where,
    }
    stand_ins = [stand_in(tr, value.realize(tr)) for value in values]
    try:
        picture = collections.namedtuple(name, fields, defaults=stand_ins, **options)  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        fail(error, is_exact=True)
    made = NewNamedTupleValue(picture, (name, fields), values, options)
    tr.remember(picture, made)
    _know_defaults(tr, made, values)
    tr.changed()
    return made


class _DefaultsValue(DictValue):
    """`_field_defaults` of a class made in the frame."""

    def __init__(self, owner: Value, entries: dict[str, Value]) -> None:
        super().__init__(dict, entries)
        self.owner = owner

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.owner)}._field_defaults"


def _know_defaults(tr: Tracer, made: ClassValue, values: list[Value]) -> None:
    defaults: dict[str, Any] = made.cls._field_defaults  # type: ignore[attr-defined]
    tr.remember(defaults, _DefaultsValue(made, dict(zip(defaults, values, strict=True))))


def _field_names(tr: Tracer, names: Value) -> Any:
    if isinstance(names, ConstantValue):
        return names.const(tr)
    return [name.realize(tr).const(tr) for name in names.items(tr)]


def _is_none(tr: Tracer, value: Value) -> bool:
    value = value.realize(tr)
    return isinstance(value, ConstantValue) and value.value is None


# ---- class P(NamedTuple) ----


class _MadeByNamedTuple(NewClassValue):
    """A class that its statement gives `typing.NamedTuple` as its base."""

    def build(self, glue: Glue) -> str:
        items = ", ".join(f"{key!r}: {self._item(glue, key, value)}" for key, value in self.namespace.items())
        meta, base = glue.keep(typing.NamedTupleMeta), glue.keep(typing._NamedTuple)  # type: ignore[attr-defined]
        return glue.assign(f"{meta}({self.cls.__name__!r}, ({base}, ), {{{items}}})", self)


def is_named_tuple_base(bases: list[Value]) -> bool:
    """Whether these are the bases of a statement `class P(typing.NamedTuple)`."""
    return len(bases) == 1 and getattr(bases[0], "fn", None) is typing.NamedTuple


def named_tuple_class(tr: Tracer, name: str, namespace: Namespace) -> Value:
    """The class of `class name(typing.NamedTuple)` with this namespace."""
    base = typing._NamedTuple  # type: ignore[attr-defined]
    made = make_picture(tr, _MadeByNamedTuple, typing.NamedTupleMeta, name, [], (base,), namespace)  # type: ignore[attr-defined]
    _know_defaults(tr, made, [namespace[field] for field in made.cls._field_defaults])  # type: ignore[attr-defined]
    return made


__all__ = ["is_named_tuple_base", "named_tuple_class"]
