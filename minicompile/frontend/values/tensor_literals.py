"""`torch.tensor([h, w])` of numbers that only the call knows.

In: nested lists of numbers, some of them open. Out: nodes that make the same tensor and keep them open; `torch.tensor`
itself would ask for the numbers, and the entry would be for these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from .base import Kwargs, Value
from .computed import computed
from .constant import ConstantValue, OpenValue, SymIntValue
from .containers import SequenceValue
from .data_floats import call_data_float

if TYPE_CHECKING:
    from ..tracer import Tracer

_DTYPES = (torch.int64, torch.float32, torch.float64)
"""Those that any number fits in, or is rounded to once."""


def tensor_of_numbers(tr: Tracer, data: Value, kwargs: Kwargs) -> Value | None:
    """`torch.tensor(data, dtype=…, device=…)`, or None if no number in `data` is open, or this is not for us."""
    leaves = list(_leaves(tr, data))
    if not any(isinstance(leaf, OpenValue) for leaf in leaves) or not all(map(_is_number, leaves)):
        return None
    if not kwargs.keys() <= {"dtype", "device"} or not all(
        isinstance(value.realize(tr), ConstantValue) for value in kwargs.values()
    ):
        return None
    given = kwargs["dtype"].realize(tr).const(tr) if "dtype" in kwargs else None
    has_floats = any(leaf.python_type() is float for leaf in leaves)
    dtype = given or (torch.get_default_dtype() if has_floats else torch.int64)
    if dtype not in _DTYPES or (has_floats and not dtype.is_floating_point):
        return None
    return _made(tr, data, dtype, {**kwargs, "dtype": ConstantValue(dtype)})


def _leaves(tr: Tracer, data: Value) -> Iterator[Value]:
    if isinstance(data, SequenceValue) and data.kind in (list, tuple, torch.Size) and data.elements:
        for item in data.elements:
            yield from _leaves(tr, item.realize(tr))
    else:
        yield data


def _is_number(value: Value) -> bool:
    return isinstance(value, (ConstantValue, OpenValue)) and value.python_type() in (bool, int, float)


def _made(tr: Tracer, data: Value, dtype: torch.dtype, options: Kwargs) -> Value:
    if isinstance(data, SequenceValue):
        rows: list[Value] = [_made(tr, item.realize(tr), dtype, options) for item in data.elements]
        return tr.torch_call(torch.stack, [SequenceValue(list, rows)], {})
    if dtype.is_floating_point and isinstance(data, SymIntValue):  # as Python rounds it
        data = call_data_float(tr, float, [data]) or computed(tr, float, "float({0})", [data])
    return tr.torch_call(torch.full, [SequenceValue(tuple, []), data], options)
