"""How far results are from one another, and from the same function in float64.

In: results, or a function and its arguments. Out: largest absolute differences; the results in float64, where the
function can be run so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch


def max_error(actual: Any, expected: Any) -> float:
    """Largest absolute difference over all tensors of two results of the same structure; what is equal (NaN and NaN,
    infinity and infinity) does not differ."""
    from torch.utils._pytree import tree_leaves

    errors = [0.0]
    for one, other in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(other, torch.Tensor) and other.numel():
            errors.append(_difference(one.detach(), other.detach()))
    return max(errors)


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    wide = torch.complex128 if one.is_complex() or other.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    is_same = (one == other) | (one.isnan() & other.isnan())
    return torch.where(is_same, 0.0, (one - other).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf).max().item()


def in_float64(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The results of `fn` on float64 copies of tensors and modules; None where `fn` does not run so, or does not stay
    in float64."""
    from torch.utils._pytree import tree_leaves, tree_map

    try:
        wide = _wide_function(fn)
        result = wide(*tree_map(_widened, args), **tree_map(_widened, kwargs))
    except Exception:  # whatever a function of the user's raises on other dtypes
        return None
    floats = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return result if floats and all(leaf.dtype is torch.float64 for leaf in floats) else None


def _wide_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(fn, torch.nn.Module):
        return copy.deepcopy(fn).double()
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return getattr(copy.deepcopy(owner).double(), fn.__name__)
    return fn


def _widened(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().double().requires_grad_(value.requires_grad) if is_real else value
