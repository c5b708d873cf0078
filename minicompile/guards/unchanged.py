"""Which guards need not be asked again as long as what they have read stays the same, and how that is seen.

In: the guards of a check. Out: a `Watch`: the guards that it covers, and the program of an `Unchanged` (unchanged.c),
which compares the versions of the dicts and classes on the way to what they have read.

A guard is covered if what it rests on (`Guard.rests_on`) can be watched: it hangs on an argument, a global or a class
by attributes in `__dict__`s and slots, items of dicts and tuples, names of classes, and functions' code, defaults and
cells.
An argument itself is only known by its address, which tells nothing of a value; nor does the way to it lead through a
list, a property, or a tensor.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..frontend.class_lookup import static_lookup
from ..frontend.sources import (
    AttributesSource,
    AttrSource,
    BuiltinSource,
    ConstSource,
    FreeCellSource,
    FunctionClosureSource,
    FunctionDefaultSource,
    FunctionSource,
    GlobalSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    ModuleMemberSource,
    RegistrySource,
    Source,
    StackSource,
    source_class,
)
from .kinds import ConstantGuard, Guard, IdentityGuard, NoModuleHooksGuard, SameObjectGuard, Stay, TypeGuard
from .made import Made

try:
    from minicompile.guards import _unchanged as _native
except ImportError:  # not built: no C compiler when the package was installed, or a Python whose dicts have no versions
    _native = None  # type: ignore[assignment]

WORTHWHILE = 16
"""Covered guards from which one question for all of them costs less than asking each."""

_PLAIN = (type(None), bool, int, float, str)

_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class of Python's own."""

_NAMES_OF_CLASSES = ("__module__", "__qualname__", "__name__")

_STEPS = {
    "type": "type", "contents": "contents", "keys": "whole", "key": "key", "empty": "empty", "code": "code",
    "class": "class",
}  # fmt: skip
"""What is to stay → the step that says so. Which object it is follows from the way to it."""

_OF_CONTENTS = ("contents", "keys", "key")


class Watch:
    """What is watched for some guards.

    Attributes:
        guards: those that are covered, in the order given.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._known = _Known(guards)
        self.guards = [guard for guard in guards if self._known.covers(guard)] if _native is not None else []
        self._program = _Program(self._known)
        for guard in self.guards:
            for stay in guard.rests_on() or ():
                self._program.add(*stay)

    def is_worthwhile(self) -> bool:
        return len(self.guards) >= WORTHWHILE

    def nearest(self, source: Source) -> Source | None:
        """The source, or the nearest that it is read through, whose value can be watched, which it will be."""
        for node in (source, *source.ancestors()):
            if self._known.hop(node) not in (None, _INPUT):
                self._program.add("object", node)
                return node
        return None

    def finish(self, exports: Iterable[Source]) -> tuple[Made, list[Source]]:
        """How the `Unchanged` is made that yields the values of `exports`, and the sources of its arguments."""
        program = self._program
        registers = tuple(program.registers[source] for source in exports)
        return Made(_native.Unchanged, (tuple(program.steps), len(program.inputs), registers)), program.inputs


@source_class
class _BuiltinsSource(Source):
    """The dict of builtins of a function, or of the running frame's."""

    base: Source | None = None

    def expr_over(self, base: str) -> str:
        return f"{base}.__builtins__" if base else "__builtins_dict__"


@dataclass(frozen=True)
class _Hop:
    """The step that reads a source's value `through` another's, about which `stay` must stay; None: from nothing."""

    step: str
    through: Source | None = None
    key: tuple[Any, ...] = ()
    stay: str = ""


_INPUT = _Hop("input")


class _Known:
    """What guards say about sources, and so how they may be reached."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.types: dict[Source, Any] = {}
        self.objects: dict[Source, Any] = {}
        self.plain: set[Source] = set()
        for guard in guards:
            if isinstance(guard, TypeGuard):
                self.types[guard.source] = guard.held()
            elif isinstance(guard, IdentityGuard):
                self.objects[guard.source] = guard.held()
            elif isinstance(guard, ConstantGuard) and type(guard.constant) in _PLAIN:
                self.plain.add(guard.source)
        for guard in guards:
            if isinstance(guard, SameObjectGuard) and guard.first in self.types:
                self.types.setdefault(guard.second, self.types[guard.first])
        self._hops: dict[Source, _Hop | None] = {}

    def covers(self, guard: Guard) -> bool:
        stays = guard.rests_on()
        return stays is not None and all(self._can_stay(*stay[:2]) for stay in stays)

    def hop(self, source: Source) -> _Hop | None:
        """How the source is reached; None: not by ways that can be watched."""
        known = self._hops.get(source, _INPUT)  # an input costs nothing to find again
        if known is not _INPUT:
            return known
        hop = _HOPS.get(type(source), _no_hop)(source, self)
        if hop is not None and hop.through is not None and not self._can_stay(hop.stay, hop.through):
            hop = None
        self._hops[source] = hop
        return hop

    def _can_stay(self, kind: str, source: Source) -> bool:
        if self.hop(source) is None:
            return False
        if kind in ("object", "constant"):  # of an argument only the address is known
            return not _is_argument(source)
        if kind == "empty" and self._is_ordered_dict(source):
            return True
        return kind not in ("empty", *_OF_CONTENTS) or self._has_contents(source)

    def _is_ordered_dict(self, source: Source) -> bool:
        is_of_hooks = isinstance(source, InstanceDictSource) and source.attr in NoModuleHooksGuard.HOOKS
        return is_of_hooks or self.types.get(source, type(self.object_at(source))) is OrderedDict

    def _has_contents(self, source: Source) -> bool:
        """Whether a dict or tuple is in this place, and stays there."""
        if _is_attributes(source) or isinstance(source, (GlobalsSource, _BuiltinsSource, RegistrySource)):
            return True
        kind = self.types.get(source)
        return kind is dict or (kind is tuple and not _is_argument(source))

    def object_at(self, source: Source) -> Any:
        """The object that stays in this place, where it is known."""
        if isinstance(source, ConstSource):
            return source.value
        found = self.objects.get(source)
        if found is None and isinstance(source, AttrSource) and self.hop(source) is not None:
            return _attribute_at(self.object_at(source.base), source.attr)
        return found

    def is_simple(self, source: Source) -> bool:
        """Whether what is there can be held (`add_held` in unchanged_notes.h)."""
        kind = self.types.get(source)
        is_of_simple_kind = kind in _PLAIN or _knows_weak_references(kind) or _has_slots_alone(kind)
        return source in self.plain or self.objects.get(source) is not None or is_of_simple_kind


def _attribute_at(owner: Any, name: str) -> Any:
    """Of a class or module, whose attributes stay."""
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name)
    return static_lookup(owner, name) if isinstance(owner, type) else None


def _knows_weak_references(kind: Any) -> bool:
    return getattr(kind, "__weakrefoffset__", 0) != 0


def _has_slots_alone(kind: Any) -> bool:
    is_container = isinstance(kind, type) and issubclass(kind, (dict, list, tuple, set, frozenset, weakref.ref))
    return isinstance(kind, type) and not is_container and bool(kind.__flags__ & _HEAP_TYPE)


def _is_argument(source: Source) -> bool:
    return isinstance(source, (LocalSource, StackSource, FunctionSource))


def _is_attributes(source: Source) -> bool:
    return isinstance(source, AttributesSource) or (isinstance(source, AttrSource) and source.attr == "__dict__")


# ---- the ways to each kind of source ----


def _no_hop(source: Any, known: _Known) -> None:
    return None


def _input(source: Any, known: _Known) -> _Hop:
    return _INPUT


def _object(source: ConstSource, known: _Known) -> _Hop:
    return _Hop("object", None, (source.value,))


def _attributes(source: AttributesSource | AttrSource, known: _Known) -> _Hop:
    is_class = isinstance(known.object_at(source.base), type)
    return _Hop("attributes", source.base, stay="class" if is_class else "type")


def _attribute(source: AttrSource, known: _Known) -> _Hop | None:
    """A name of a module, one of a class that its class and descriptors leave alone, a slot, or a member that objects
    of builtin kinds have."""
    owner, name, kind = known.object_at(source.base), source.attr, known.types.get(source.base)
    if name == "__dict__":
        return _attributes(source, known)
    if type(owner) is types.ModuleType:
        return _Hop("item", AttributesSource(source.base), (name,), "contents") if name in vars(owner) else None
    if type(owner) is property and name in ("fget", "fset"):
        return _Hop("member", source.base, (name,), "object")
    if kind is types.FunctionType and name == "__code__":
        return _Hop("member", source.base, (name,), "code")
    if isinstance(kind, type) and _is_slot(kind, name):
        return _Hop("slot", source.base, (name,), "type") if known.is_simple(source) else None
    return _attribute_of_class(source, owner) if isinstance(owner, type) else None


def _is_slot(kind: type, name: str) -> bool:
    is_read_plainly = static_lookup(kind, "__getattribute__") is object.__getattribute__
    return is_read_plainly and isinstance(static_lookup(kind, name), types.MemberDescriptorType)


def _attribute_of_class(source: AttrSource, owner: type) -> _Hop | None:
    metaclass, name = type(owner), source.attr
    if metaclass.__getattribute__ is not type.__getattribute__:
        return None
    found_in_metaclass = static_lookup(metaclass, name)
    if name in _NAMES_OF_CLASSES and found_in_metaclass is type.__dict__[name]:
        return _Hop("attribute", source.base, (name,), "class")
    if hasattr(type(found_in_metaclass), "__set__"):
        return None
    found = static_lookup(owner, name)
    is_itself = isinstance(found, (types.FunctionType, property)) or not hasattr(type(found), "__get__")
    return _Hop("attribute", source.base, (name,), "class") if is_itself else None


def _item(source: ItemSource, known: _Known) -> _Hop | None:
    return None if isinstance(source.key, Source) else _Hop("item", source.base, (source.key,), "contents")


def _global(source: GlobalSource, known: _Known) -> _Hop:
    return _Hop("item", GlobalsSource(source.base), (source.global_name,), "contents")


def _builtin(source: BuiltinSource, known: _Known) -> _Hop:
    return _Hop("item", _BuiltinsSource(source.base), (source.builtin_name,), "contents")


def _dict_of_function(source: GlobalsSource | _BuiltinsSource, known: _Known) -> _Hop:
    name = "__globals__" if isinstance(source, GlobalsSource) else "__builtins__"
    return _INPUT if source.base is None else _Hop("member", source.base, (name,), "object")


def _cell(source: FunctionClosureSource, known: _Known) -> _Hop | None:
    return _Hop("cell", source.base, (source.index,), "object") if known.is_simple(source) else None


def _free_cell(source: FreeCellSource, known: _Known) -> _Hop | None:
    return _Hop("cell", FunctionSource(), (source.index,), "place") if known.is_simple(source) else None


def _default(source: FunctionDefaultSource, known: _Known) -> _Hop | None:
    is_watched = isinstance(source.key, int) and known.is_simple(source)
    return _Hop("default", source.base, (source.key,), "object") if is_watched else None


_HOPS: dict[type, Callable[[Any, _Known], _Hop | None]] = {
    LocalSource: _input,
    StackSource: _input,
    FunctionSource: _input,
    FreeCellSource: _free_cell,
    ConstSource: _object,
    AttributesSource: _attributes,
    InstanceDictSource: lambda source, known: _Hop("item", source.parent(), (source.attr,), "contents"),
    RegistrySource: lambda source, known: _Hop("item", source.parent(), (source.registry,), "contents"),
    ModuleMemberSource: lambda source, known: _Hop("item", source.parent(), (source.key,), "contents"),
    AttrSource: _attribute,
    ItemSource: _item,
    GlobalSource: _global,
    BuiltinSource: _builtin,
    GlobalsSource: _dict_of_function,
    _BuiltinsSource: _dict_of_function,
    FunctionClosureSource: _cell,
    FunctionDefaultSource: _default,
}


class _Program:
    """The steps of an `Unchanged`, each once. Inputs are sources too: their registers come first, so they are numbered
    from below, and the others' once all are known."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self._order: dict[Source | Stay, None] = {}

    def add(self, kind: str, source: Source, *key: Any) -> None:
        """The source's value, after all that it is reached through, and what is to stay about it."""
        self._reach(source)
        if kind in ("keys", "key"):
            self.add("contents", source)
        is_said = kind == "contents" and _is_attributes(source)  # by its being read
        if kind in _STEPS and not is_said:
            self._order.setdefault((kind, source, *key))

    def _reach(self, source: Source) -> None:
        hop = self._known.hop(source)
        if source in self._order or hop is None:
            return
        if hop.through is not None:
            self.add(hop.stay, hop.through)
        self._order[source] = None

    @cached_property
    def inputs(self) -> list[Source]:
        return [node for node in self._order if isinstance(node, Source) and self._known.hop(node) is _INPUT]

    @cached_property
    def registers(self) -> dict[Source, int]:
        sources = [node for node in self._order if isinstance(node, Source)]
        made = [source for source in sources if self._known.hop(source) is not _INPUT]
        return {source: number for number, source in enumerate([*self.inputs, *made])}

    @cached_property
    def steps(self) -> list[tuple[Any, ...]]:
        return [step for node in self._order if (step := self._step(node)) is not None]

    def _step(self, node: Source | Stay) -> tuple[Any, ...] | None:
        if not isinstance(node, Source):
            return _STEPS[node[0]], self.registers[node[1]], *node[2:]
        hop = self._known.hop(node)
        if hop is None or hop is _INPUT:
            return None
        return hop.step, *(() if hop.through is None else (self.registers[hop.through],)), *hop.key
