"""Torch functions that look at the values of a tensor only to check them, written so that they need not.

In: calls of the torch-level graph. Out: the function to call instead. The check itself stays: as a checked index, which
makes the kernel refuse its inputs, after which eager raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """`torch.nn.functional.one_hot`; without a number of classes it has to read the largest value."""
    if not isinstance(num_classes, int) or num_classes <= 0 or x.dtype is not torch.int64:
        return torch.nn.functional.one_hot(x, num_classes)
    classes = torch.arange(num_classes, device=x.device)
    checked = torch.index_select(classes, 0, x.reshape(-1)).reshape(x.shape)
    return (checked.unsqueeze(-1) == classes).to(torch.int64)


SUBSTITUTES: dict[Any, Callable[..., Any]] = {torch.nn.functional.one_hot: one_hot}
"""Torch function → what tracing calls in its place."""
