"""What a program asks about its own names: `globals()`, `dir(obj)`.

In: the running frame, an object. Out: the module's variables as the dict that they are, each guarded when it is read;
a list of names, guarded where the program may add to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...guards.kinds import GlobalAbsentGuard, KeyPresenceGuard
from ..breaks import unsupported_call
from ..class_lookup import static_lookup
from ..sources import GlobalSource, GlobalsSource, Source
from .base import NotConstant, Value, fail
from .callables import rule
from .classes import ClassValue
from .constant import ConstantValue
from .containers import DictValue, SequenceValue, method_of
from .objects import ObjectValue

if TYPE_CHECKING:
    from ..frame import Frame
    from ..tracer import Tracer


class GlobalsValue(Value):
    """The variables of the module that a frame's function is of."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.source: Source = GlobalsSource(frame.globals_base)

    def python_type(self) -> type:
        return dict

    def truth(self, tr: Tracer) -> bool:
        return True

    def lookup(self, tr: Tracer, name: str) -> Value | None:
        """The variable as the frame has left it; None if there is none, which a guard says."""
        base, names = self.frame.globals_base, self.frame.globals_dict
        pending = tr.pending_global(names, name)
        if pending is not None:
            return pending
        if name not in names:
            tr.guard(GlobalAbsentGuard(name, base))
            return None
        tr.guard(KeyPresenceGuard(self.source, name, True))
        return tr.wrap(names[name], GlobalSource(name, base))

    def getitem(self, tr: Tracer, key: Value) -> Value:
        found = self.lookup(tr, self._name(tr, key))
        return found if found is not None else fail(KeyError(key.const(tr)), is_exact=True)

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        tr.set_global(self.frame, self._name(tr, key), value)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.lookup(tr, self._name(tr, item)) is not None

    def getattr(self, tr: Tracer, name: str) -> Value:
        return method_of(tr, self, name, {"get": _get})

    def _name(self, tr: Tracer, key: Value) -> str:
        try:
            name = key.realize(tr).const(tr)
        except NotConstant:
            name = None
        if type(name) is not str:
            raise self.cannot("reading an item")
        return name


def _get(tr: Tracer, owner: GlobalsValue, key: Value, default: Value | None = None) -> Value:
    found = owner.lookup(tr, owner._name(tr, key))
    return found or default or ConstantValue(None)


@rule(globals)
def _globals(tr: Tracer) -> Value:
    return tr.tracked_dict(tr.frame.globals_dict) or GlobalsValue(tr.frame)


@rule(dir)
def _dir(tr: Tracer, obj: Value | None = None) -> Value:
    value = obj.realize(tr) if obj is not None else None
    if isinstance(value, ObjectValue) and static_lookup(value.cls, "__dir__") is object.__dir__:
        names = {*_names_of_class(tr, value.cls), *_own_names(tr, value)}
    elif isinstance(value, ClassValue) and type(value.cls) is type:
        names = _names_of_class(tr, value.cls)
    else:
        raise unsupported_call("dir()", "of this object cannot be traced")
    return SequenceValue(list, [ConstantValue(name) for name in sorted(names)])


def _names_of_class(tr: Tracer, cls: type) -> set[str]:
    for base in cls.__mro__:
        known = tr.known(base)
        if known is not None and tr.attributes_of(known):
            raise known.cannot("listing the attributes, of which the frame has set some,")
    tr.guard_names(cls)
    return set(dir(cls))


def _own_names(tr: Tracer, value: ObjectValue) -> Any:
    if not value.cls.__dictoffset__:
        return ()
    attributes = value.getattr(tr, "__dict__").realize(tr)
    if not isinstance(attributes, DictValue):
        raise value.cannot("listing the attributes")
    return attributes.entries
