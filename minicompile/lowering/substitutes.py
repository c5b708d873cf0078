"""Torch functions that are traced better in other words.

In: calls of the torch-level graph. Out: the function to call instead. Some look at the values of a tensor only to check
them: the check stays, as a checked index, which makes the kernel refuse its inputs, after which eager raises. Some
choose a slow way for layouts that a cheap copy mends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..symbolic_forms import one_hot


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any,
    **options: Any,
) -> torch.Tensor:  # fmt: skip
    """`torch.nn.functional.scaled_dot_product_attention`; on a GPU, a mask that is broadcast along its rows is written
    out first: no fused kernel of ATen's takes it, and in their place come products in float32."""
    if attn_mask is not None and attn_mask.device.type == "cuda" and attn_mask.dim() and attn_mask.stride(-1) != 1:
        attn_mask = attn_mask.contiguous()
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(query, key, value, attn_mask, *args, **options)


def _quantile(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.quantile` or `torch.nanquantile`: where eager looks at them, that fractions are from 0 to 1 is checked."""

    def quantile(input: torch.Tensor, q: Any, *args: Any, **options: Any) -> torch.Tensor:
        if isinstance(q, torch.Tensor) and q.device.type == "cpu":
            is_fraction = (q >= 0) & (q <= 1)
            nothing = q.new_zeros(1)
            q = q + nothing.index_select(0, (~is_fraction).reshape(-1).long()).reshape(q.shape)
        return function(input, q, *args, **options)

    return quantile


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: one_hot,
    torch.nn.functional.scaled_dot_product_attention: scaled_dot_product_attention,
    **{
        getattr(owner, name): _quantile(getattr(torch, name))
        for name in ("quantile", "nanquantile") for owner in (torch, torch.Tensor)
    },
}
"""Torch function or method → what tracing calls in its place."""
