"""Nested lists, tuples and dicts as torch.func and checkpointing see them: leaves and a structure.

In: values. Out: the leaves, which are values, with torch's own description of what they hang in; and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from .base import Value
from .containers import DictValue, SequenceValue
from .tensor import TensorValue
from .tensor_subclasses import standing_for

if TYPE_CHECKING:
    from ..tracer import Tracer


def flatten(tr: Tracer, values: Any) -> tuple[list[Value], pytree.TreeSpec]:
    """The leaves of a value, or of a Python tuple of values, and the structure."""
    tree = tuple(_picture(tr, value) for value in values) if isinstance(values, tuple) else _picture(tr, values)
    return pytree.tree_flatten(tree)


def unflatten(leaves: Sequence[Value], spec: pytree.TreeSpec) -> Value:
    """The value of this structure with these leaves."""
    return _value(pytree.tree_unflatten(list(leaves), spec))


def spread(prefix: Any, spec: pytree.TreeSpec) -> list[Any] | None:
    """One item of `prefix`, a structure that may be shallower, for every leaf; None if the two do not match."""
    return pytree._broadcast_to_and_flatten(prefix, spec)


def tensors(leaves: Sequence[Value]) -> list[TensorValue]:
    """The leaves that are tensors."""
    return [leaf for leaf in leaves if isinstance(leaf, TensorValue)]


def with_tensors(tr: Tracer, leaves: Sequence[Value], replaced: Sequence[Value]) -> list[Value]:
    """The leaves, with others in the places of the tensors: those that a node gives for the ones within its bodies."""
    given = iter(replaced)
    return [standing_for(tr, next(given), leaf) if isinstance(leaf, TensorValue) else leaf for leaf in leaves]


def _picture(tr: Tracer, value: Value) -> Any:
    """A real container that holds values; what is no container stands for itself."""
    value = value.realize(tr)
    if isinstance(value, SequenceValue) and value.kind in (list, tuple):
        return value.kind(_picture(tr, item) for item in value.elements)
    if isinstance(value, SequenceValue) and hasattr(value.kind, "_fields"):
        return tuple.__new__(value.kind, (_picture(tr, item) for item in value.elements))
    if isinstance(value, DictValue) and value.kind is dict and not value.key_values:
        return {key: _picture(tr, item) for key, item in value.entries.items()}
    return value


def _value(tree: Any) -> Value:
    if isinstance(tree, (list, tuple)):
        return SequenceValue(type(tree), [_value(item) for item in tree])
    if isinstance(tree, dict):
        return DictValue(dict, {key: _value(item) for key, item in tree.items()})
    return tree
