"""Torch functions that are traced better in other words.

In: calls of the torch-level graph. Out: the function to call instead. Some look at the values of a tensor only to check
them: the check stays, as a checked index, which makes the kernel refuse its inputs, after which eager raises. Some
choose a slow way for layouts that a cheap copy mends. Some have a backward that asks for the values, and another one
for tensors without; which is chosen shows in the results.
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


def prod(x: torch.Tensor, dim: int | None = None, keepdim: bool = False, **options: Any) -> torch.Tensor:
    """`torch.prod`, with eager's backward: see `_Product`."""
    place = () if dim is None else (dim, keepdim)
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None  # torch.func has no rule for a `_Product`
    is_recorded = x.requires_grad and torch.is_grad_enabled() and not is_transformed
    if not (is_recorded and x.dim() and x.numel()) or "out" in options:
        return torch.prod(x, *place, **options)
    dtype = options.get("dtype")
    wide = x if dtype is None else x.to(dtype)
    if dim is None:
        return _Product.apply(wide.reshape(-1), 0, 1).reshape(())
    product = _Product.apply(wide, dim, None)
    return product if keepdim else product.squeeze(dim)


class _Product(torch.autograd.Function):
    """A product along a dimension, which it keeps. Backward divides, unless the tensor holds a zero: then each element
    gets the product of those before and behind it; or nothing, where there are more zeros than `most_zeros`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, most_zeros: int | None) -> torch.Tensor:
        product = x.prod(dim, True)
        ctx.save_for_backward(x, product)
        ctx.dim, ctx.most_zeros = dim, most_zeros
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None, None]:
        (gradient,), (x, product) = gradients, ctx.saved_tensors
        zeros = (x == 0).sum()
        others = _before(x, ctx.dim) * _before(x.flip(ctx.dim), ctx.dim).flip(ctx.dim)
        found = torch.where(zeros == 0, gradient * (product / x).conj(), gradient * others.conj())
        return (found if ctx.most_zeros is None else torch.where(zeros > ctx.most_zeros, 0, found)), None, None


def _before(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The products of what is before each element."""
    shifted = torch.cat([torch.ones_like(x.narrow(dim, 0, 1)), x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    return shifted.cumprod(dim)


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: one_hot,
    torch.prod: prod,
    torch.Tensor.prod: prod,
    torch.nn.functional.scaled_dot_product_attention: scaled_dot_product_attention,
    **{
        getattr(owner, name): _quantile(getattr(torch, name))
        for name in ("quantile", "nanquantile") for owner in (torch, torch.Tensor)
    },
}
"""Torch function or method → what tracing calls in its place."""
