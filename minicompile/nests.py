"""What is nested in arguments and results: tuples, lists, dicts and slices of tensors and numbers.

In: any value. Out: its leaves, in order. (torch's pytree knows more kinds of containers, which operators never see.)
"""

from __future__ import annotations

from typing import Any

import torch


def leaves(value: Any) -> list[Any]:
    """Everything in a nest that is no container; the value itself if it is none."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, slice):
        return [leaf for item in (value.start, value.stop, value.step) for leaf in leaves(item)]
    return [value]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The leaves that are tensors."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def requires_grad(value: Any) -> bool:
    """Whether a tensor in a nest requires a gradient."""
    return any(tensor.requires_grad for tensor in tensors_in(value))
