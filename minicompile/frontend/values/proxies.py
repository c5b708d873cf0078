"""`types.MappingProxyType`: a dict that can only be read, that of a class's attributes above all.

In: proxies from outside, and calls of the class with a dict. Out: the dict's own value, of which this one hands on what
reads. What a proxy from outside shows is not known any more once the frame has changed a dict, which may be its own.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ...guards.kinds import KeysGuard
from ..sources import ItemSource
from .base import Lazy, Value, fail
from .callables import rule
from .constant import ConstantValue
from .containers import DictValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_METHODS = frozenset({"get", "keys", "values", "items", "copy", "__contains__", "__getitem__", "__len__", "__iter__"})


class ProxyValue(Value):
    """A proxy of `contents`."""

    def __init__(self, contents: DictValue, source: Source | None = None) -> None:
        self.contents = contents
        self.source = source

    def python_type(self) -> type:
        return types.MappingProxyType

    def _read(self, tr: Tracer) -> DictValue:
        if self.source is not None and any(isinstance(target, DictValue) for target in tr.journal.targets()):
            raise self.cannot("reading, as what it shows may have changed,")
        return self.contents

    def truth(self, tr: Tracer) -> bool:
        return self._read(tr).truth(tr)

    def length(self, tr: Tracer) -> int:
        return self._read(tr).length(tr)

    def items(self, tr: Tracer) -> list[Value]:
        return self._read(tr).items(tr)

    def iterator(self, tr: Tracer) -> Value:
        return self._read(tr).iterator(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self._read(tr).contains(tr, item)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return self._read(tr).getitem(tr, key)

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        fail(TypeError("'mappingproxy' object does not support item assignment"), is_exact=True)

    def delitem(self, tr: Tracer, key: Value) -> None:
        fail(TypeError("'mappingproxy' object doesn't support item deletion"), is_exact=True)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in _METHODS:
            return self._read(tr).getattr(tr, name)
        if not hasattr(types.MappingProxyType, name):
            fail(AttributeError(f"'mappingproxy' object has no attribute '{name}'"), is_exact=True)
        return super().getattr(tr, name)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(types.MappingProxyType, name)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(types.MappingProxyType)}({glue.ref(self.contents)})"


def outside_proxy(tr: Tracer, obj: types.MappingProxyType[Any, Any], source: Source) -> Value | None:
    """A proxy that existed before, of names alone; None for any other."""
    if not all(type(key) is str for key in obj):
        return None
    tr.guard_type(source, obj)
    tr.guard(KeysGuard.of(source, obj))
    contents = DictValue(dict, {})
    for key, item in obj.items():
        contents.store(tr, ConstantValue(key), Lazy(item, ItemSource(source, key)))
    return ProxyValue(contents, source)


@rule(types.MappingProxyType)
def _mapping_proxy(tr: Tracer, mapping: Value) -> Value:
    contents = mapping.realize(tr)
    if not isinstance(contents, DictValue):
        raise contents.cannot("making a proxy")
    return ProxyValue(contents)


__all__ = ["ProxyValue", "outside_proxy"]
