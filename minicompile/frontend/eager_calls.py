"""Calls of torch that a graph must not hold, for what they say about memory or gradients.

In: a call, its operands and results as fake tensors. Out: whether it is one of them; it is made for real then.
"""

from __future__ import annotations

from typing import Any

import torch


def says_where(target: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call is an `as_strided` with a place in memory, which is no place in the tensor."""
    if target not in ("as_strided", torch.as_strided, torch.as_strided_copy, torch.as_strided_scatter):
        return False
    place = 4 if target is torch.as_strided_scatter else 3
    return (args[place] if len(args) > place else kwargs.get("storage_offset")) is not None


def is_new_leaf(value: Any, operands: list[torch.Tensor]) -> bool:
    """Whether a result is where gradients are to be collected, and no operand as it was."""
    is_leaf = isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf
    return is_leaf and not any(value is operand for operand in operands)
