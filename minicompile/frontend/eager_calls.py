"""Calls of torch that a graph must not hold, for what they say about memory or gradients, or for what they make.

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


def is_new_leaf(value: Any, operands: list[torch.Tensor], kwargs: dict[str, Any]) -> bool:
    """Whether a result is a tensor that collects gradients from here on, made by `torch.zeros(3, requires_grad=True)`
    and its like. What `no_grad` makes of operands with gradients is none, nor may a view of that kind be asked."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return False
    is_asked_for = kwargs.get("requires_grad") is True
    return (is_asked_for or not any(operand.requires_grad for operand in operands)) and value.is_leaf


def is_no_plain_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is none of the kind that graphs are made of: sparse, quantised, nested, or a view of a sparse
    one, or wrapped by a transform of torch.func."""
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
    is_of_plain = tensor._base is None or tensor._base.layout is torch.strided
    return not (is_plain and is_of_plain) or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def makes_no_plain_tensor(target: Any, results: list[Any]) -> bool:
    """Whether a call makes a sparse or a quantised tensor. (The fake one of the latter is a plain tensor.)"""
    if target in (torch.quantize_per_tensor, torch.ops.aten.quantize_per_tensor):
        return True
    tensors = (result for result in results if isinstance(result, torch.Tensor))
    return any(tensor.layout is not torch.strided or tensor.is_quantized for tensor in tensors)
