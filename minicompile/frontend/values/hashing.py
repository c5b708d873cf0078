"""Keys of dicts and elements of sets, while tracing.

In: values. Out: what stands for them in the real dict that a picture of a dict is: the constant itself; the value, for
an object that is hashed by identity; a `HashedKey`, whose hash and equality are those that the object's class defines.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from ...guards.constants import is_numpy_number
from ..breaks import unsupported, unsupported_call
from ..class_lookup import static_lookup
from .base import NotConstant, Value, fail
from .callables import CallableValue, is_safe_to_hash, rule
from .classes import ClassValue
from .constant import ConstantValue, specialized
from .containers import SequenceValue
from .functions import FunctionValue
from .identities import IdentityValue
from .objects import ObjectValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer


class HashValue(Value):
    """A hash in which addresses of objects are: an int that tracing does not know. `of` has it; `number` stands for it
    while tracing, the same for the same objects."""

    def __init__(self, of: Value, number: int) -> None:
        self.of = of
        self.number = number

    def python_type(self) -> type:
        return int

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(hash)}({glue.complete(self.of)})"


class HashedKey:
    """An object whose class says what its hash is, and what it is equal to."""

    __slots__ = ("hash", "tr", "value")

    def __init__(self, tr: Tracer, value: Value, number: int) -> None:
        self.tr = tr
        self.value = value
        self.hash = number

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        from ..operators import equal

        if isinstance(other, HashedKey) and other.value is self.value:
            return True
        tr, epoch = self.tr, self.tr.epoch
        right = other.value if isinstance(other, HashedKey) else other if isinstance(other, Value) else None
        result = equal(tr, self.value, right if right is not None else tr.constant(other))
        if tr.epoch != epoch:  # how often it is called is the dict's business
            raise self.value.cannot("comparing, as a key, with an __eq__ that has effects,")
        return result


def key_of(tr: Tracer, value: Value) -> Any:
    """A hashable stand-in for a dict key or set element. Raises Break for keys whose hash is not known."""
    value = specialized(tr, value.realize(tr))
    try:
        raw = value.const(tr)
    except NotConstant:
        return _key_of_object(tr, value)
    try:
        hash(raw)
    except TypeError as error:
        fail(error, is_exact=True)
    _note_numbers(tr, raw)
    return raw


_FIRST_ADDRESS = 1 << 16


def _note_numbers(tr: Tracer, raw: Any) -> None:
    """Numbers that could be the ids of objects are keys."""
    if type(raw) is tuple:
        for part in raw:
            _note_numbers(tr, part)
    elif type(raw) is int and raw >= _FIRST_ADDRESS:
        _note_addresses(tr, "numbers")


def _note_addresses(tr: Tracer, what: str) -> None:
    """Ids of objects are not known while tracing, so that no other number may stand beside them."""
    tr.address_keys.add(what)
    if len(tr.address_keys) > 1:
        raise unsupported("Looking for the id() of an object among numbers cannot be traced.")


def _key_of_object(tr: Tracer, value: Value) -> Any:
    if isinstance(value, (FunctionValue, ClassValue)):
        return value
    if isinstance(value, SequenceValue) and issubclass(value.kind, tuple):
        return tuple(key_of(tr, element) for element in value.elements)
    if isinstance(value, IdentityValue):
        _note_addresses(tr, "ids")
        return HashedKey(tr, value, id(value.of))
    if isinstance(value, CallableValue) and is_safe_to_hash(value.fn):
        return HashedKey(tr, value, hash(value.fn))
    if value.python_type().__hash__ in (object.__hash__, type.__hash__, torch.Tensor.__hash__):
        tr.hashed_by_identity(value)
        return value
    own = _own_hash(tr, value)
    return HashedKey(tr, value, own.number if isinstance(own, HashValue) else own)


def _own_hash(tr: Tracer, value: Value) -> int | HashValue:
    """What the object's `__hash__` returns."""
    raw = static_lookup(value.python_type(), "__hash__")
    if raw is None:
        fail(TypeError(f"unhashable type: '{value.python_type().__name__}'"), is_exact=True)
    if not isinstance(value, ObjectValue) or not isinstance(raw, types.FunctionType):
        raise value.cannot("hashing")
    for _ in range(2):  # the first time tensors may become inputs, and open numbers be fixed
        epoch = tr.epoch
        number = specialized(tr, value.method(tr, "__hash__", raw).call(tr, [], {}).realize(tr))
        if tr.epoch == epoch:
            break
    if tr.epoch == epoch and isinstance(number, HashValue):
        return HashValue(value, number.number)
    if tr.epoch != epoch or type(getattr(number, "value", None)) is not int:
        raise value.cannot("hashing, with a __hash__ that has effects or gives no plain number,")
    return _as_hash(number.const(tr))


def _as_hash(number: int) -> int:
    """What Python makes of the number that a `__hash__` returns: itself, if it is a machine's; -1 says 'error'."""
    return -2 if number == -1 else number if -sys.maxsize - 1 <= number <= sys.maxsize else hash(number)


@rule(hash)
def _hash(tr: Tracer, obj: Value) -> Value:
    value = specialized(tr, obj.realize(tr))
    tr.is_portable = False  # the hash of a text is another one in another process
    if isinstance(value, ObjectValue):
        own = _own_hash(tr, value)
        return own if isinstance(own, HashValue) else ConstantValue(own)
    raw = key_of(tr, value)
    if type(raw) is tuple and not _is_hashed_by_value(raw):
        return HashValue(value, hash(raw))
    if isinstance(value, IdentityValue) or not _is_hashed_by_value(raw):
        raise unsupported_call("hash()", "of an object that is hashed by its address cannot be traced")
    return ConstantValue(hash(raw))


def _is_hashed_by_value(raw: Any) -> bool:
    if isinstance(raw, (tuple, frozenset)) and type(raw).__hash__ in (tuple.__hash__, frozenset.__hash__):
        return all(map(_is_hashed_by_value, raw))
    kinds = (int, float, complex, bool, str, bytes)
    return isinstance(raw, HashedKey) or type(raw) in kinds or is_numpy_number(raw)


__all__ = ["HashedKey", "key_of"]
