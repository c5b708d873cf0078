"""Calls that eager may refuse for the numbers in their arguments: an index out of range, an integer divided by 0.

In: a recorded call. Out: whether it has to be made also where nothing needs what it gives: dropped, it would raise
nothing. A GPU's kernels stop the program later and elsewhere in eager as well; there it may be dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..nests import tensors_in
from ..shape_env import data_symbols

if TYPE_CHECKING:
    from .trace import Call

_BY_INDEX = frozenset(
    {
        "index", "index_put", "index_select", "index_add", "index_copy", "index_fill", "index_reduce", "gather", "take",
        "put", "scatter", "scatter_add", "scatter_reduce", "embedding", "_embedding_bag", "nll_loss_forward",
        "nll_loss2d_forward",
    }
)  # fmt: skip
_DIVIDING = frozenset({"div", "floor_divide", "remainder", "fmod"})


def may_refuse(call: Call) -> bool:
    """Whether the numbers in its arguments may make eager raise. False for what the CPU does not compute, or whose
    result's size depends on data."""
    name = call.func._schema.name.removeprefix("aten::")
    if name not in _BY_INDEX and name not in _DIVIDING:
        return False
    tensors = [*tensors_in(call.args), *tensors_in(call.kwargs)]
    results = tensors_in(call.results)
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return False
    if any(data_symbols(size) for tensor in (*tensors, *results) for size in tensor.shape):
        return False
    return name in _BY_INDEX or _divides_integers(call)


def _divides_integers(call: Call) -> bool:
    divisor = call.args[1] if len(call.args) > 1 else None
    result = call.results[0]
    return isinstance(divisor, torch.Tensor) and not (result.is_floating_point() or result.is_complex())
