"""Indexing a tensor with symbolic ints: `x[n - 1]`, `x[:, n, None]`.

In: a tensor and a key. Out: the same elements by `select`, which takes a symbolic index; `x[…]` itself asks for the
number, and the trace would be for that number alone.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from .base import Value
from .constant import ConstantValue, SymIntValue
from .containers import SequenceValue, SliceValue

if TYPE_CHECKING:
    from ..tracer import Tracer
    from .tensor import TensorValue


def select_symbolic(tr: Tracer, tensor: TensorValue, key: Value) -> Value | None:
    """The result of `tensor[key]`, or None if no symbolic int is in the key or not all of it is basic indexing."""
    parts = key.items(tr) if isinstance(key, SequenceValue) and key.kind is tuple else [key]
    parts = [part.realize(tr) for part in parts]
    if not any(isinstance(part, SymIntValue) for part in parts) or not all(map(_is_basic, parts)):
        return None
    consumed = sum(1 for part in parts if not _adds_nothing(part))
    if consumed > tensor.fake.dim():
        return None
    selected: Value = tensor
    for position in range(len(parts) - 1, -1, -1):
        if isinstance(parts[position], SymIntValue):
            dim = _dimension(parts, position, tensor.fake.dim())
            selected = tr.torch_call("select", [selected, ConstantValue(dim), parts[position]], {})
    rest = [part for part in parts if not isinstance(part, SymIntValue)]
    return tr.torch_call(operator.getitem, [selected, SequenceValue(tuple, rest)], {}) if rest else selected


def _is_basic(part: Value) -> bool:
    if isinstance(part, (SymIntValue, SliceValue)):
        return True
    return isinstance(part, ConstantValue) and (part.value in (None, ...) or type(part.value) in (int, slice))


def _adds_nothing(part: Value) -> bool:
    return isinstance(part, ConstantValue) and (part.value is None or part.value is ...)


def _dimension(parts: list[Value], position: int, rank: int) -> int:
    """Which dimension the part at `position` indexes, counted from the end behind an ellipsis."""
    before = parts[:position]
    if any(isinstance(part, ConstantValue) and part.value is ... for part in before):
        return rank - sum(1 for part in parts[position:] if not _adds_nothing(part))
    return sum(1 for part in before if not _adds_nothing(part))
