"""Lists, tuples, named tuples, slices, dicts and sets whose elements are known while tracing.

In: displays, calls of the types, arguments. Out: elements, mutated copies of the picture; for containers that existed
before the frame ran, every mutation also goes into the journal.
"""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ...guards.kinds import AttrPresenceGuard
from ..sources import AttrSource
from .base import Args, Kwargs, Lazy, NotConstant, Value, fail, fail_as
from .constant import ConstantValue, specialized

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class SequenceValue(Value):
    """A list, tuple, torch.Size or named tuple. `kind` is the class; `elements` the present items."""

    def __init__(self, kind: type, elements: list[Value], source: Source | None = None) -> None:
        self.kind = kind
        self.elements = elements
        self.source = source

    @property
    def mutable(self) -> bool:
        return self.kind is list

    def python_type(self) -> type:
        return self.kind

    def const(self, tr: Tracer) -> Any:
        with _no_constant_holds_itself():
            items = [element.realize(tr).const(tr) for element in self.elements]
        return tuple.__new__(self.kind, items) if hasattr(self.kind, "_fields") else self.kind(items)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.elements)

    def length(self, tr: Tracer) -> int:
        return len(self.elements)

    def items(self, tr: Tracer) -> list[Value]:
        return list(self.elements)

    def iterator(self, tr: Tracer) -> Value:
        from .iterators import IteratorValue

        return IteratorValue(self, self.elements)

    def contains(self, tr: Tracer, item: Value) -> bool:
        from ..operators import equal

        return any(equal(tr, element.realize(tr), item) for element in self.elements)

    def getattr(self, tr: Tracer, name: str) -> Value:
        fields = field_names(self.kind)
        if name in fields:
            return self.elements[fields.index(name)]
        if hasattr(self.kind, "_fields") and name not in _methods("SEQUENCE_METHODS"):
            return _attribute_of_class(tr, self, name)
        return method_of(tr, self, name, _methods("SEQUENCE_METHODS"))

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.kind, name)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        index = index_of(tr, key)
        try:
            picked = self.elements[index]
        except (IndexError, TypeError):
            fail_as(operator.getitem, () if issubclass(self.kind, tuple) else [], index)
        if not isinstance(index, slice):
            return picked  # type: ignore[return-value]
        return SequenceValue(self.kind if self.kind in (list, torch.Size) else tuple, picked)  # type: ignore[arg-type]

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        if not self.mutable:
            fail(TypeError(f"'{self.kind.__name__}' object does not support item assignment"), is_exact=True)
        key = key.realize(tr).as_index(tr)
        index = index_of(tr, key)
        with errors_of_the_user():
            if isinstance(index, slice):
                items = value.realize(tr).items(tr)
                self.elements[index], value = items, SequenceValue(tuple, list(items))
            else:
                self.elements[index] = value
        tr.mutated(self, "{0}[{1}] = {2}", specialized(tr, key), value)

    def delitem(self, tr: Tracer, key: Value) -> None:
        if not self.mutable:
            fail(TypeError(f"'{self.kind.__name__}' object doesn't support item deletion"), is_exact=True)
        key = key.realize(tr).as_index(tr)
        with errors_of_the_user():
            del self.elements[index_of(tr, key)]
        tr.mutated(self, "del {0}[{1}]", specialized(tr, key))

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        from ..operators import sequence_binary

        return sequence_binary(tr, op, self, other, swapped)

    def build(self, glue: Glue) -> str:
        if self.mutable:
            return _build_list(glue, self)
        inside = "".join(f"{glue.ref(element)}, " for element in self.elements)
        if self.kind is tuple:
            return f"({inside})"
        if hasattr(self.kind, "_fields"):
            return f"__tuple_new__({glue.class_text(self.kind)}, ({inside}))"
        return f"{glue.keep(self.kind)}(({inside}))"


def _attribute_of_class(tr: Tracer, owner: SequenceValue, name: str) -> Value:
    """A method, property or constant that a named tuple's class adds."""
    from ..class_lookup import static_lookup
    from .functions import bound_attribute

    raw = static_lookup(owner.kind, name)
    found = bound_attribute(tr, owner, owner.kind, raw, AttrSource(tr.anchor(owner.kind), name))
    return found if found is not None else method_of(tr, owner, name, _methods("SEQUENCE_METHODS"))


def _build_list(glue: Glue, value: SequenceValue) -> str:
    """Empty first, then filled: an element may be the list itself."""
    if not any(glue.may_refer_back(element) for element in value.elements):
        return f"[{', '.join(glue.ref(element) for element in value.elements)}]"
    name = glue.assign("[]", value)
    glue.fill(lambda: f"{name}[:] = [{', '.join(glue.ref(element) for element in value.elements)}]")
    return name


def field_names(kind: type) -> tuple[str, ...]:
    """Names of the items of a named tuple, or of one of torch's result types (`torch.return_types.max`)."""
    if hasattr(kind, "n_sequence_fields"):
        return kind.__match_args__  # type: ignore[attr-defined]
    return getattr(kind, "_fields", ())


class SliceValue(Value):
    """A slice with parts that are not all constants."""

    def __init__(self, parts: tuple[Value, Value, Value]) -> None:
        self.parts = parts

    def python_type(self) -> type:
        return slice

    def const(self, tr: Tracer) -> Any:
        return slice(*(part.const(tr) for part in self.parts))

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        try:
            start, stop, step = (specialized(tr, part).const(tr) for part in self.parts)
        except NotConstant:
            return super().getattr(tr, name)
        return ConstantValue(slice(start, stop, step)).getattr(tr, name)

    def build(self, glue: Glue) -> str:
        return f"__slice__({', '.join(glue.ref(part) for part in self.parts)})"


class DictValue(Value):
    """A dict, OrderedDict or defaultdict with hashable keys that are known. `entries`: key object → value.

    Keys are constants, or objects that stand for themselves (`keys` keeps the value that each key came as).
    """

    def __init__(self, kind: type, entries: dict[Any, Value], source: Source | None = None) -> None:
        self.kind = kind
        self.entries = entries
        self.key_values: dict[Any, Value] = {}
        self.source = source
        self.factory: Value | None = None
        self.attributes: dict[str, Value] = {}
        """What the frame has set on an OrderedDict that it has made, as state dicts have it."""

    def python_type(self) -> type:
        return self.kind

    def const(self, tr: Tracer) -> Any:
        if self.kind is not dict or self.key_values:
            raise NotConstant
        with _no_constant_holds_itself():
            return {key: value.realize(tr).const(tr) for key, value in self.entries.items()}

    def truth(self, tr: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tr: Tracer) -> int:
        return len(self.entries)

    def key_value(self, tr: Tracer, key: Any) -> Value:
        """The value that stands for a key."""
        return self.key_values.get(key) or tr.constant(key)

    def items(self, tr: Tracer) -> list[Value]:
        return [self.key_value(tr, key) for key in self.entries]

    def iterator(self, tr: Tracer) -> Value:
        from .iterators import DictIteratorValue

        return DictIteratorValue(self, "keys", tr.root_step)

    def element(self, tr: Tracer, what: str, key: Any) -> Value:
        """What iterating over the keys, values or items yields for a key."""
        if what == "values":
            return self.entries[key]
        name = self.key_value(tr, key)
        return name if what == "keys" else SequenceValue(tuple, [name, self.entries[key]])

    def contains(self, tr: Tracer, item: Value) -> bool:
        return tr.key(item) in self.entries

    def lookup(self, tr: Tracer, key: Value) -> Value | None:
        """`dict.get` without a default; None if absent."""
        return self.entries.get(tr.key(key))

    def getitem(self, tr: Tracer, key: Value) -> Value:
        found = self.lookup(tr, key)
        if found is not None:
            return found
        if self.factory is not None:
            made = self.factory.realize(tr).call(tr, [], {})
            self.setitem(tr, key, made)
            return made
        fail(KeyError(tr.key(key)), is_exact=isinstance(key, ConstantValue))

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        self.store(tr, key, value)
        tr.mutated(self, "{0}[{1}] = {2}", key, value)

    def store(self, tr: Tracer, key: Value, value: Value) -> None:
        """Set an item without a word to the journal."""
        raw = tr.key(key)
        if raw not in self.entries and not isinstance(key, ConstantValue):
            self.key_values[raw] = key
        self.entries[raw] = value

    def delitem(self, tr: Tracer, key: Value) -> None:
        raw = tr.key(key)
        if raw not in self.entries:
            fail(KeyError(raw), is_exact=isinstance(key, ConstantValue))
        del self.entries[raw]
        tr.mutated(self, "del {0}[{1}]", key)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        from ..operators import dict_binary

        return dict_binary(tr, op, self, other, swapped)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "default_factory" and self.kind is defaultdict:
            return self.factory or ConstantValue(None)
        self._guard_absence(tr, name)
        return method_of(tr, self, name, _methods("DICT_METHODS"))

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if self.kind is not OrderedDict or self.source is not None or hasattr(OrderedDict, name):
            return super().setattr(tr, name, value)
        self.attributes[name] = value
        tr.changed()

    def has_attr(self, tr: Tracer, name: str) -> bool:
        self._guard_absence(tr, name)
        return name in self.attributes or hasattr(self.kind, name)

    def _guard_absence(self, tr: Tracer, name: str) -> None:
        """An OrderedDict from outside has no attribute of its own yet."""
        if self.kind is OrderedDict and self.source is not None and not hasattr(OrderedDict, name):
            tr.guard(AttrPresenceGuard(self.source, name, False))

    def build(self, glue: Glue) -> str:
        pairs = [(glue.key(self, key), value) for key, value in self.entries.items()]
        if self.kind is dict and not any(glue.may_refer_back(value) for _, value in pairs):
            return "{" + ", ".join(f"{key}: {glue.ref(value)}" for key, value in pairs) + "}"
        factory = glue.ref(self.factory) if self.factory is not None else ""
        name = glue.assign("{}" if self.kind is dict else f"{glue.keep(self.kind)}({factory})", self)
        for key, value in pairs:
            glue.fill(lambda key=key, value=value: f"{name}[{key}] = {glue.ref(value)}")  # type: ignore[misc]
        for key, value in self.attributes.items():
            glue.fill(lambda key=key, value=value: f"{name}.{key} = {glue.ref(value)}")  # type: ignore[misc]
        return name


class AttributeDictValue(DictValue):
    """The attribute dict of something made in the frame: what is set in one is seen in the other."""

    def __init__(self, owner: Value, attributes: dict[str, Value]) -> None:
        super().__init__(dict, attributes)
        self.owner = owner

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.owner)}.__dict__"


class SetValue(Value):
    """A set or frozenset of keys that are known.

    `real` knows the order in which the set iterates: the object from outside until the frame changes it, or a set that
    goes through what the frame's own goes through. None once that is not known.
    """

    def __init__(self, kind: type, entries: dict[Any, Value], source: Source | None = None, real: Any = None) -> None:
        self.kind = kind
        self.entries = entries
        self.source = source
        self.real = real if all(map(_hashes_alike, entries)) else None

    def follow(self, method: str, operand: Any = None) -> None:
        """What has been done to the set is done to `real`; `operand` is a key, or what a method of sets takes."""
        keys = operand if isinstance(operand, (set, frozenset, list, dict)) else [operand]
        if self.real is None or self.source is not None or not all(map(_hashes_alike, keys)):
            self.real = None
        elif method == "clear":
            self.real.clear()
        else:
            getattr(self.real, method)(operand)

    def copied(self) -> SetValue:
        return SetValue(self.kind, dict(self.entries), None, self.real.copy() if self.real is not None else None)

    def python_type(self) -> type:
        return self.kind

    def const(self, tr: Tracer) -> Any:
        return self.kind([value.realize(tr).const(tr) for value in self.entries.values()])

    def truth(self, tr: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tr: Tracer) -> int:
        return len(self.entries)

    def items(self, tr: Tracer) -> list[Value]:
        """In the order in which the set iterates, if that is known."""
        if len(self.entries) < 2:
            return list(self.entries.values())
        if self.real is None:
            raise self.cannot("iterating, whose order varies from call to call,")
        if not all(type(key) is int for key in self.entries):
            tr.is_portable = False
        return [self.entries[key] for key in self.real]

    def iterator(self, tr: Tracer) -> Value:
        from .iterators import SetIteratorValue

        return SetIteratorValue(self, self.items(tr), tr.root_step) if self.kind is set else super().iterator(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return tr.key(item) in self.entries

    def add(self, tr: Tracer, item: Value) -> None:
        key = tr.key(item)
        self.entries.setdefault(key, item)
        self.follow("add", key)
        tr.mutated(self, "{0}.add({1})", item)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        from ..operators import set_binary

        return set_binary(tr, op, self, other, swapped)

    def getattr(self, tr: Tracer, name: str) -> Value:
        return method_of(tr, self, name, _methods("SET_METHODS"))

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.kind, name)

    def build(self, glue: Glue) -> str:
        inside = "".join(f"{glue.complete(value)}, " for value in self.entries.values())
        return f"{glue.keep(self.kind)}(({inside}))"


class ViewValue(Value):
    """`dict.keys()`, `.values()` or `.items()`."""

    def __init__(self, owner: DictValue, what: str) -> None:
        self.owner = owner
        self.what = what

    def python_type(self) -> type:
        return type(getattr({}, self.what)())

    def items(self, tr: Tracer) -> list[Value]:
        return [self.owner.element(tr, self.what, key) for key in self.owner.entries]

    def iterator(self, tr: Tracer) -> Value:
        from .iterators import DictIteratorValue

        return DictIteratorValue(self.owner, self.what, tr.root_step)

    def length(self, tr: Tracer) -> int:
        return len(self.owner.entries)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.owner.entries)

    def contains(self, tr: Tracer, item: Value) -> bool:
        if self.what == "keys":
            return self.owner.contains(tr, item)
        return SequenceValue(list, self.items(tr)).contains(tr, item)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        """Keys and items are sets to the operators."""
        from ..operators import set_binary

        if self.what == "values":
            return None
        if isinstance(other, (ViewValue, SequenceValue)):
            other = make_set(tr, set, other.items(tr))
        return set_binary(tr, op, make_set(tr, set, self.items(tr)), other, swapped)

    def build(self, glue: Glue) -> str:
        return f"{self.owner.method_text(glue, self.what)}()"


# ---- helpers ----


class _no_constant_holds_itself:
    """Context in which a container is asked for its contents, which it may be among."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RecursionError):
            raise NotConstant from None


class errors_of_the_user:
    """Context in which an ordinary exception is the interpreted program's own."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from ..breaks import Break, UserError

        if isinstance(error, Exception) and not isinstance(error, (Break, UserError)):
            raise UserError(error) from error


def index_of(tr: Tracer, key: Value) -> Any:
    """The int or slice that a constant index stands for."""
    key = key.realize(tr)
    if isinstance(key, SliceValue):
        return slice(*(specialized(tr, part.realize(tr).as_index(tr)).const(tr) for part in key.parts))
    try:
        return specialized(tr, key.as_index(tr)).const(tr)
    except NotConstant:
        raise key.cannot("using as an index") from None


Method = Callable[..., Value]


class ContainerMethod(Value):
    """A method of a container, bound. `run(tr, owner, args, kwargs)` does it."""

    def __init__(self, owner: Value, name: str, run: Method) -> None:
        self.owner = owner
        self.name = name
        self.run = run

    def python_type(self) -> type:
        return type([].append)

    def describe(self) -> str:
        return f"method {self.name}"

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        from .callables import signature

        try:
            signature(self.run).bind(tr, self.owner, *args, **kwargs)
        except TypeError:  # that the table does not know this form does not make it an error of the program
            raise self.owner.cannot(f"calling {self.name}() in this form") from None
        with errors_of_the_user():
            return self.run(tr, self.owner, *args, **kwargs)

    def build(self, glue: Glue) -> str:
        return self.owner.method_text(glue, self.name)


def method_of(tr: Tracer, owner: Value, name: str, table: dict[str, Method]) -> Value:
    """Attribute `name` of a container: a method from the table, or a break."""
    kind = owner.python_type()
    if not hasattr(kind, name):
        fail(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'"), is_exact=True)
    if name == "__class__":
        return tr.constant(kind)
    if name not in table:
        raise owner.cannot(f"calling method {name!r}")
    return ContainerMethod(owner, name, table[name])


def elements_of(tr: Tracer, value: Value) -> list[Value]:
    """What iterating over a value gives, all of it."""
    return value.realize(tr).items(tr)


def pairs_of(tr: Tracer, value: Value) -> Iterator[tuple[Value, Value]]:
    """Key and value of what `dict()` and `dict.update` accept: a mapping, or an iterable of pairs, one by one."""
    from .iterators import one_by_one
    from .subclasses import mapping_pairs

    if isinstance(value, DictValue):
        yield from [(value.key_value(tr, key), item) for key, item in value.entries.items()]
        return
    found = mapping_pairs(tr, value)
    if found is not None:
        yield from found
        return
    for place, item in enumerate(one_by_one(tr, value)):
        yield _pair(tr, item.realize(tr), place)


def _pair(tr: Tracer, item: Value, place: int) -> tuple[Value, Value]:
    """Key and value of an element. Raises, for the program, what names its place if it is no pair."""
    if isinstance(item, ConstantValue) and not hasattr(item.value, "__iter__"):
        fail_as(dict, [*[(0, 0)] * place, item.value])
    pair = elements_of(tr, item)
    if len(pair) != 2:
        fail_as(dict, [*[(0, 0)] * place, (0,) * len(pair)])
    return pair[0].realize(tr), pair[1]


def make_set(tr: Tracer, kind: type, items: Iterable[Value], real: Any = None) -> SetValue:
    """A set of values; of equal ones the first stays, as in Python. `real`: see SetValue."""
    entries: dict[Any, Value] = {}
    for item in items:
        entries.setdefault(tr.key(item), item.realize(tr))
    return SetValue(kind, entries, None, real)


def set_of(tr: Tracer, kind: type, value: Value | None) -> SetValue:
    """`set(value)`, `frozenset(value)`."""
    value = value.realize(tr) if value is not None else None
    if isinstance(value, SetValue) and value.real is None:
        return SetValue(kind, dict(value.entries), None, None)
    result = make_set(tr, kind, elements_of(tr, value) if value is not None else [])
    operand = set_operand(value, result.entries) if value is not None else []
    if operand is not None and all(map(_hashes_alike, result.entries)):
        result.real = kind(operand)
    return result


def set_operand(value: Value, keys: Iterable[Any]) -> Any:
    """What a method of sets takes, so that it goes the same way as with the real object: other sets and dicts are
    copied as tables, anything else is iterated over. `keys` are the value's. None if the order is not known."""
    if isinstance(value, Lazy):
        value = value.value or value
    value = getattr(value, "contents", value)
    if isinstance(value, SetValue):
        return value.real
    return dict.fromkeys(keys) if isinstance(value, DictValue) else list(keys)


def _hashes_alike(key: Any) -> bool:
    """Whether equal keys have the same hash for as long as the process lives."""
    return key is None or type(key) in (int, str, bool, float, bytes)


def make_dict(tr: Tracer, pairs: Iterable[tuple[Value, Value]], kind: type = dict) -> DictValue:
    """A fresh dict; of equal keys the first stays with the last value, as in Python."""
    result = DictValue(kind, {})
    for key, value in pairs:
        result.store(tr, key.realize(tr), value)
    return result


def _methods(table: str) -> dict[str, Method]:
    from . import container_methods

    return getattr(container_methods, table)
