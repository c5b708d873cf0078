"""How a wrapper calls what stays ATen's.

In: the object that a wrapper's text calls. Out: the cheapest callable that does the same.

An operator called through torch.ops costs 2 µs more than eager's own binding of it, which takes the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..runtime.products import EAGER, View, matrix_product

_aten = torch.ops.aten
BINDINGS: dict[Any, Callable[..., Any]] = {
    **EAGER,
    _aten.convolution.default: torch.convolution,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: torch._scaled_dot_product_flash_attention_for_cpu,
    _aten._scaled_dot_product_flash_attention.default: torch._scaled_dot_product_flash_attention,
    _aten._scaled_dot_product_efficient_attention.default: torch._scaled_dot_product_efficient_attention,
    _aten._scaled_dot_product_cudnn_attention.default: torch._scaled_dot_product_cudnn_attention,
    _aten.max_pool2d_with_indices.default: torch._C._nn.max_pool2d_with_indices,
    _aten.avg_pool2d.default: torch._C._nn.avg_pool2d,
    _aten._adaptive_avg_pool2d.default: torch._adaptive_avg_pool2d,
}
"""Operators → eager's bindings of them: one row each, arguments as in the operator's schema."""

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class ProductCall:
    """A product that writes where it is told; `views`: how its result and its operands are meant."""

    target: Any
    device: str
    views: tuple[View, ...]


@dataclass(frozen=True)
class OutsideAutocast:
    """An operator whose arguments have been cast already, in a graph that is called under autocast."""

    target: Any


def operator(target: Any) -> Any:
    """The object that stands for an operator in a wrapper that is written now."""
    return OutsideAutocast(target) if any(map(torch.is_autocast_enabled, _DEVICES)) else target


def quickest(value: Any) -> Any:
    """What a wrapper calls for an object of its namespace: the object itself, where there is nothing quicker."""
    if isinstance(value, ProductCall):
        return matrix_product(value.target, value.device, value.views)
    if isinstance(value, OutsideAutocast):
        return _outside_autocast(quickest(value.target))
    return BINDINGS.get(value, value) if isinstance(value, torch._ops.OpOverload) else value


def _outside_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableAutocast():
            return function(*args, **kwargs)

    return call
