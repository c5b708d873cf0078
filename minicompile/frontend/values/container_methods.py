"""Methods of lists, tuples, dicts and sets, as tables.

In: the container's value and arguments. Out: the result; the container's picture is changed, and the journal told where
the container existed before the frame.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NoReturn

from .base import Value, fail, fail_as
from .constant import ConstantValue, specialized
from .containers import (
    DictValue,
    Method,
    SequenceValue,
    SetValue,
    ViewValue,
    elements_of,
    index_of,
    make_set,
    pairs_of,
    set_operand,
)  # fmt: skip
from .iterators import one_by_one

if TYPE_CHECKING:
    from ..tracer import Tracer

# ---- methods of lists and tuples ----


def _append(tr: Tracer, owner: SequenceValue, item: Value) -> Value:
    owner.elements.append(item)
    return tr.mutated(owner, "{0}.append({1})", item)


def _extend(tr: Tracer, owner: SequenceValue, other: Value) -> Value:
    if other.realize(tr).computes_elements:
        for item in one_by_one(tr, other):
            _append(tr, owner, item)
        return ConstantValue(None)
    items = elements_of(tr, other)
    owner.elements.extend(items)
    return tr.mutated(owner, "{0}.extend({1})", SequenceValue(tuple, items))


def _insert(tr: Tracer, owner: SequenceValue, index: Value, item: Value) -> Value:
    owner.elements.insert(index_of(tr, index), item)
    return tr.mutated(owner, "{0}.insert({1}, {2})", specialized(tr, index.realize(tr)), item)


def _pop(tr: Tracer, owner: SequenceValue, index: Value | None = None) -> Value:
    where = index_of(tr, index) if index is not None else -1
    try:
        item = owner.elements.pop(where)
    except (IndexError, TypeError) as error:
        fail(error, is_exact=True)
    tr.mutated(owner, "del {0}[{1}]", ConstantValue(where))
    return item


def _clear(tr: Tracer, owner: Value) -> Value:
    (owner.elements if isinstance(owner, SequenceValue) else owner.entries).clear()  # type: ignore[attr-defined]
    if isinstance(owner, SetValue):
        owner.follow("clear")
    return tr.mutated(owner, "{0}.clear()")


def _reverse(tr: Tracer, owner: SequenceValue) -> Value:
    owner.elements.reverse()
    return tr.mutated(owner, "{0}.reverse()")


def _copy_list(tr: Tracer, owner: SequenceValue) -> Value:
    return SequenceValue(list, list(owner.elements))


def _position(tr: Tracer, owner: SequenceValue, item: Value, method: str) -> int:
    from ..operators import equal

    for index, element in enumerate(owner.elements):
        if equal(tr, element.realize(tr), item.realize(tr)):
            return index
    item = item.realize(tr)
    if isinstance(item, ConstantValue):
        empty: Any = () if issubclass(owner.kind, tuple) else []
        fail_as(getattr(empty, method), item.value)
    raise ValueError(f"{item.describe()} is not in {owner.kind.__name__}")


def _index(tr: Tracer, owner: SequenceValue, item: Value) -> Value:
    return ConstantValue(_position(tr, owner, item, "index"))


def _remove(tr: Tracer, owner: SequenceValue, item: Value) -> Value:
    where = _position(tr, owner, item, "remove")
    del owner.elements[where]
    return tr.mutated(owner, "del {0}[{1}]", ConstantValue(where))


def _count(tr: Tracer, owner: SequenceValue, item: Value) -> Value:
    from ..operators import equal

    return ConstantValue(sum(equal(tr, element.realize(tr), item.realize(tr)) for element in owner.elements))


def _sort(tr: Tracer, owner: SequenceValue, key: Value | None = None, reverse: Value | None = None) -> Value:
    from ..operators import sorted_values

    result = elements = list(owner.elements)
    owner.elements.clear()  # while it is sorted, a list looks empty
    try:
        result = sorted_values(tr, elements, key, reverse)
    finally:
        is_changed, owner.elements[:] = bool(owner.elements), result
    made = tr.mutated(owner, "{0}[:] = {1}", SequenceValue(tuple, list(result)))
    if is_changed:
        fail(ValueError("list modified during sort"), is_exact=True)
    return made


def _getitem(tr: Tracer, owner: Value, key: Value) -> Value:
    return owner.getitem(tr, key.realize(tr))


def _setitem(tr: Tracer, owner: Value, key: Value, value: Value) -> Value:
    owner.setitem(tr, key.realize(tr), value)
    return ConstantValue(None)


def _delitem(tr: Tracer, owner: Value, key: Value) -> Value:
    owner.delitem(tr, key.realize(tr))
    return ConstantValue(None)


def _len(tr: Tracer, owner: Value) -> Value:
    return ConstantValue(owner.length(tr))


def _contains(tr: Tracer, owner: Value, item: Value) -> Value:
    return ConstantValue(owner.contains(tr, item.realize(tr)))


def _iter(tr: Tracer, owner: Value) -> Value:
    return owner.iterator(tr)


def _numel(tr: Tracer, owner: SequenceValue) -> Value:
    from ..operators import product

    return product(tr, owner.elements)


def _as_dict(tr: Tracer, owner: SequenceValue) -> Value:
    return DictValue(dict, dict(zip(owner.kind._fields, owner.elements, strict=True)))  # type: ignore[attr-defined]


def _replace(tr: Tracer, owner: SequenceValue, **changes: Value) -> Value:
    fields = owner.kind._fields  # type: ignore[attr-defined]
    if not set(changes) <= set(fields):
        raise ValueError(f"Got unexpected field names: {sorted(set(changes) - set(fields))!r}")
    return SequenceValue(owner.kind, [changes.get(f, e) for f, e in zip(fields, owner.elements, strict=True)])


_COMMON: dict[str, Method] = {"__len__": _len, "__contains__": _contains, "__iter__": _iter, "__getitem__": _getitem}
SEQUENCE_METHODS: dict[str, Method] = {
    **_COMMON,
    "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "clear": _clear, "reverse": _reverse,
    "copy": _copy_list, "index": _index, "remove": _remove, "count": _count, "sort": _sort, "numel": _numel,
    "__setitem__": _setitem, "__delitem__": _delitem, "_asdict": _as_dict, "_replace": _replace,
}  # fmt: skip


# ---- methods of dicts ----


def _keys(tr: Tracer, owner: DictValue) -> Value:
    return ViewValue(owner, "keys")


def _values(tr: Tracer, owner: DictValue) -> Value:
    return ViewValue(owner, "values")


def _items(tr: Tracer, owner: DictValue) -> Value:
    return ViewValue(owner, "items")


def _get(tr: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    found = owner.lookup(tr, key)
    return found if found is not None else default if default is not None else ConstantValue(None)


def _setdefault(tr: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    found = owner.lookup(tr, key)
    if found is None:
        found = default if default is not None else ConstantValue(None)
        owner.setitem(tr, key.realize(tr), found)
    return found


def _dict_pop(tr: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    found = owner.lookup(tr, key)
    if found is not None:
        owner.delitem(tr, key.realize(tr))
        return found
    if default is None:
        _no_key(tr, key)
    return default


def _no_key(tr: Tracer, key: Value) -> NoReturn:
    """The error that names a key that is missing."""
    key = key.realize(tr)
    if isinstance(key, ConstantValue):
        fail(KeyError(key.value), is_exact=True)
    raise KeyError(tr.key(key))


def _popitem(tr: Tracer, owner: DictValue, last: Value | None = None) -> Value:
    if last is not None and owner.kind is dict:
        fail(TypeError("dict.popitem() takes no keyword arguments"))
    if not owner.entries:
        fail_as(OrderedDict().popitem if owner.kind is OrderedDict else {}.popitem)
    at_end = last is None or last.realize(tr).truth(tr)
    raw = next(reversed(owner.entries) if at_end else iter(owner.entries))
    key, value = owner.key_value(tr, raw), owner.entries[raw]
    owner.delitem(tr, key)
    return SequenceValue(tuple, [key, value])


def _update(tr: Tracer, owner: DictValue, *others: Value, **named: Value) -> Value:
    for other in others:
        for key, value in pairs_of(tr, other.realize(tr)):
            owner.setitem(tr, key, value)
    for name, value in named.items():
        owner.setitem(tr, ConstantValue(name), value)
    return ConstantValue(None)


def _copy_dict(tr: Tracer, owner: DictValue) -> Value:
    result = DictValue(owner.kind, dict(owner.entries))
    result.key_values = dict(owner.key_values)
    result.factory = owner.factory
    return result


def _move_to_end(tr: Tracer, owner: DictValue, key: Value, last: Value | None = None) -> Value:
    at_end = last is None or last.realize(tr).truth(tr)
    raw = tr.key(key)
    value = owner.entries.pop(raw)
    rest = dict(owner.entries)
    owner.entries.clear()
    owner.entries.update({**rest, raw: value} if at_end else {raw: value, **rest})
    return tr.mutated(owner, "{0}.move_to_end({1}, {2})", key, ConstantValue(at_end))


DICT_METHODS: dict[str, Method] = {
    **_COMMON,
    "keys": _keys, "values": _values, "items": _items, "get": _get, "setdefault": _setdefault, "pop": _dict_pop,
    "popitem": _popitem, "update": _update, "copy": _copy_dict, "clear": _clear, "move_to_end": _move_to_end,
    "__setitem__": _setitem, "__delitem__": _delitem,
}  # fmt: skip


# ---- methods of sets ----


def _add(tr: Tracer, owner: SetValue, item: Value) -> Value:
    owner.add(tr, item.realize(tr))
    return ConstantValue(None)


def _discard(tr: Tracer, owner: SetValue, item: Value) -> Value:
    owner.entries.pop(tr.key(item), None)
    owner.follow("discard", tr.key(item))
    return tr.mutated(owner, "{0}.discard({1})", item)


def _set_remove(tr: Tracer, owner: SetValue, item: Value) -> Value:
    if tr.key(item) not in owner.entries:
        _no_key(tr, item)
    return _discard(tr, owner, item)


def _union(tr: Tracer, owner: SetValue, *others: Value) -> Value:
    result = owner.copied()
    _set_update(tr, result, *others)
    return result


def _set_update(tr: Tracer, owner: SetValue, *others: Value) -> Value:
    for other in others:
        if other.realize(tr).computes_elements:
            for item in one_by_one(tr, other):
                owner.add(tr, item.realize(tr))
            continue
        real, items = owner.real, elements_of(tr, other)
        operand = set_operand(other, [tr.key(item) for item in items])
        owner.real = None
        for item in items:
            owner.add(tr, item.realize(tr))
        owner.real = real if operand is not None else None
        owner.follow("update", operand)
    return ConstantValue(None)


def _set_pop(tr: Tracer, owner: SetValue) -> Value:
    if not owner.entries:
        fail_as(set().pop)
    if len(owner.entries) > 1 and (owner.real is None or owner.source is not None):
        raise owner.cannot("popping, whose order varies from call to call,")
    elements = owner.items(tr)
    item = owner.entries[owner.real.pop()] if owner.real is not None and owner.source is None else elements[0]
    _discard(tr, owner, item)
    return item


def _as_set(tr: Tracer, value: Value) -> SetValue:
    value = value.realize(tr)
    return value if isinstance(value, SetValue) else make_set(tr, set, value.items(tr))


def _combining(op: Any) -> Method:
    """A method that is an operator, for any iterables."""

    def run(tr: Tracer, owner: SetValue, *others: Value) -> Value:
        from ..operators import set_binary

        result: Value = owner.copied()
        for other in others:
            assert isinstance(result, SetValue)
            result = set_binary(tr, op, result, _as_set(tr, other), False) or result
        if len(others) > 1 and isinstance(result, SetValue):
            result.real = None  # CPython changes the first result in place
        return result

    return run


def _combining_in_place(op: Any) -> Method:
    def run(tr: Tracer, owner: SetValue, *others: Value) -> Value:
        from ..operators import set_binary

        for other in others:
            set_binary(tr, op, owner, _as_set(tr, other), False)
        return ConstantValue(None)

    return run


def _isdisjoint(tr: Tracer, owner: SetValue, other: Value) -> Value:
    return ConstantValue(owner.entries.keys().isdisjoint(_as_set(tr, other).entries.keys()))


def _issubset(tr: Tracer, owner: SetValue, other: Value) -> Value:
    return ConstantValue(owner.entries.keys() <= _as_set(tr, other).entries.keys())


def _issuperset(tr: Tracer, owner: SetValue, other: Value) -> Value:
    return ConstantValue(owner.entries.keys() >= _as_set(tr, other).entries.keys())


SET_METHODS: dict[str, Method] = {
    **_COMMON, "add": _add, "discard": _discard, "remove": _set_remove, "union": _union, "update": _set_update,
    "copy": _union, "clear": _clear, "pop": _set_pop, "isdisjoint": _isdisjoint, "issubset": _issubset,
    "issuperset": _issuperset, "intersection": _combining(operator.and_), "difference": _combining(operator.sub),
    "symmetric_difference": _combining(operator.xor), "intersection_update": _combining_in_place(operator.iand),
    "difference_update": _combining_in_place(operator.isub),
    "symmetric_difference_update": _combining_in_place(operator.ixor),
}  # fmt: skip


# ---- methods of iterators ----


def _next(tr: Tracer, owner: Value) -> Value:
    from .exceptions import stop

    item = owner.next(tr)
    return item if item is not None else stop(tr, owner.returned_value(tr))


ITERATOR_METHODS: dict[str, Method] = {"__next__": _next, "__iter__": _iter}
