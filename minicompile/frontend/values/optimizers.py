"""What torch's optimizers do with numbers that live in tensors.

In: calls in `torch.optim`'s `_single_tensor_*` functions. Out: graph nodes.

In eager, an optimizer reads its step count out of a tensor and computes with Python floats. Read so, the count would be
a constant of the graph; here it stays a tensor, in double precision as Python's floats are, and one graph serves all
steps. So does the learning rate (see ../optimizer_steps.py). Arguments that have to be numbers are multiplied in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.optim.optimizer import _get_value

from .base import Value
from .callables import rule
from .tensor import KNOWN_METHODS, TensorValue, call_method

if TYPE_CHECKING:
    from ..tracer import Tracer


@rule(_get_value)
def _number(tr: Tracer, value: Value) -> Value:
    value = value.realize(tr)
    return call_method(tr, value, "double", [], {}) if isinstance(value, TensorValue) else value


def _add_(tr: Tracer, owner: TensorValue, other: Value, *, alpha: Value | None = None) -> Value | None:
    factor = alpha.realize(tr) if alpha is not None else None
    if not isinstance(factor, TensorValue):
        return None
    return call_method(tr, owner, "add_", [tr.torch_call("mul", [other, factor], {})], {})


def _addcdiv_(
    tr: Tracer, owner: TensorValue, dividend: Value, divisor: Value, *, value: Value | None = None
) -> Value | None:
    """In the order in which ATen computes it."""
    factor = value.realize(tr) if value is not None else None
    if not isinstance(factor, TensorValue):
        return None
    scaled = tr.torch_call("mul", [dividend, factor], {})
    return call_method(tr, owner, "add_", [tr.torch_call("div", [scaled, divisor], {})], {})


KNOWN_METHODS["addcdiv_"] = _addcdiv_
KNOWN_METHODS["add_"] = _add_
