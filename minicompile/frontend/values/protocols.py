"""`isinstance` with a protocol (`typing.runtime_checkable`): by the attributes that an object has.

In: a value and the protocol. Out: whether it has all of them, guarded as the program's own `hasattr` would be.
"""

from __future__ import annotations

import abc
import typing
from typing import TYPE_CHECKING, Any

from ..breaks import unsupported_call
from .base import Value

if TYPE_CHECKING:
    from ..tracer import Tracer

_Meta: Any = type(typing.Protocol)


def is_checked_protocol(cls: type) -> bool:
    """Whether the class is a protocol that `isinstance` may be asked about, and answers as typing's do."""
    return type(cls) is _Meta and getattr(cls, "_is_protocol", False) and getattr(cls, "_is_runtime_protocol", False)


def conforms(tr: Tracer, value: Value, protocol: Any) -> bool:
    """Whether the object's class derives from the protocol, or the object has all that the protocol names."""
    if protocol in value.python_type().__mro__:
        return True
    if abc._get_dump(protocol)[0]:  # type: ignore[attr-defined]
        raise unsupported_call("isinstance()", "with a protocol for which classes are registered cannot be traced")
    return all(_has(tr, value, name, protocol) for name in sorted(_names(protocol)))


def _has(tr: Tracer, value: Value, name: str, protocol: Any) -> bool:
    """What stands for a method must not be None: so a class says that it has none of that name."""
    if not callable(getattr(protocol, name, None)):
        return value.has_attr(tr, name)
    found = value.attribute_or_none(tr, name)
    return found is not None and getattr(found.realize(tr), "value", found) is not None


def _names(protocol: Any) -> set[str]:
    """The attributes that a protocol and its bases name."""
    return set(typing._get_protocol_attrs(protocol))  # type: ignore[attr-defined]


__all__ = ["conforms", "is_checked_protocol"]
