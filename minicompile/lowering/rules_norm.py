"""Rules for normalisation layers in inference: layer, group, batch and RMS norm.

Statistics are computed in float32 for half precision; the result is rounded once.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Node
from ..ir.symbols import quotient
from ..ir.types import TensorType, contiguous_strides, dtype_kind
from .errors import NotConvertible
from .rules import rule
from .rules_reduction import mean_of, variance_of


def _float_only(x: Node) -> None:
    if dtype_kind(x.tensor.dtype) != "f":
        raise NotConvertible("a norm of integers")


def _scale_shift(c: Any, x: Node, weight: Node | None, bias: Node | None, shape: tuple[Any, ...]) -> Node:
    """`x * weight + bias`, both reshaped to `shape` and widened to x's dtype."""
    for op, node in (("mul", weight), ("add", bias)):
        if node is not None:
            x = c.pointwise(op, x, c.cast(c.reshape(node, shape), x.tensor.dtype))
    return x


def _results(c: Any, *nodes: Node | None) -> list[Node | None]:
    """Each result in the dtype and shape that eager gives it."""
    return [
        None if node is None or type is None else c.reshape(c.cast(node, type.dtype), type.shape)
        for node, type in zip(nodes, c.outs, strict=True)
    ]


@rule("native_layer_norm.default")
def layer_norm(c: Any, x: Node, shape: Any, weight: Node | None, bias: Node | None, eps: float) -> list[Node | None]:
    _float_only(x)
    rank = x.tensor.rank
    dims = tuple(range(rank - len(shape), rank))
    wide = c.upcast(x)
    variance, mean = variance_of(c, wide, dims, 0)
    rstd = c.rsqrt(c.add(variance, eps))
    normal = c.mul(c.sub(wide, mean), rstd)
    return _results(c, _scale_shift(c, normal, weight, bias, tuple(shape)), *_statistics(c, mean, rstd))


def _statistics(c: Any, mean: Node, rstd: Node) -> tuple[Node | None, Node | None]:
    """The saved statistics, only if somebody reads them."""
    return (mean if c.is_used(1) else None), (rstd if c.is_used(2) else None)


@rule("native_group_norm.default")
def group_norm(
    c: Any, x: Node, weight: Node | None, bias: Node | None, n: Any, channels: Any, pixels: Any, groups: int, eps: float
) -> list[Node | None]:
    _float_only(x)
    shape = x.tensor.shape
    grouped = c.reshape(c.upcast(x), (n, groups, quotient(channels, groups), pixels))
    variance, mean = variance_of(c, grouped, (2, 3), 0)
    rstd = c.rsqrt(c.add(variance, eps))
    normal = c.reshape(c.mul(c.sub(grouped, mean), rstd), shape)
    per_channel = (channels,) + (1,) * (len(shape) - 2)
    return _results(c, _scale_shift(c, normal, weight, bias, per_channel), *_statistics(c, mean, rstd))


def _is_channels_last(type: TensorType) -> bool:
    """Whether the channels, the second dimension, are innermost, and all others in order."""
    order = (0, *range(2, type.rank), 1)
    shape, strides = (tuple(sizes[d] for d in order) for sizes in (type.shape, type.strides))
    return type.like(shape=shape, strides=strides).is_contiguous


@rule("_native_batch_norm_legit_no_training.default")
def batch_norm(
    c: Any, x: Node, weight: Any, bias: Any, mean: Node, variance: Node, momentum: float, eps: float
) -> list[Node | None]:
    """Inference: one multiply and one add per element with the factors folded per channel, as eager's CPU kernel."""
    _float_only(x)
    if c.is_used(1) or c.is_used(2):
        raise NotConvertible("the saved statistics of a batch norm in inference")
    if not _is_channels_last(c.out):
        c.lies_by(contiguous_strides(c.out.shape))  # eager's; fake tensors keep x's strides
    wide = c.upcast(x)
    shape = (x.tensor.shape[1],) + (1,) * (x.tensor.rank - 2)
    mean, variance = c.promote(wide.tensor.dtype, mean, variance)
    alpha = c.div(1, c.sqrt(c.add(variance, eps)))
    if weight is not None:
        alpha = c.mul(alpha, c.cast(weight, wide.tensor.dtype))
    beta = c.neg(c.mul(mean, alpha))
    if bias is not None:
        beta = c.add(c.cast(bias, wide.tensor.dtype), beta)
    return _results(c, _scale_shift(c, wide, alpha, beta, shape), None, None)


@rule("native_batch_norm.default", "_native_batch_norm_legit.default")
def native_batch_norm(
    c: Any, x: Node, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> list[Node | None]:
    if training or mean is None or variance is None:
        raise NotConvertible("a batch norm in training")
    return batch_norm(c, x, weight, bias, mean, variance, momentum, eps)


@rule("_fused_rms_norm.default")
def rms_norm(c: Any, x: Node, shape: Any, weight: Node | None, eps: float | None) -> list[Node | None]:
    _float_only(x)
    if eps is None:
        raise NotConvertible("the default epsilon depends on the dtype")
    wide = c.upcast(x)
    dims = tuple(range(x.tensor.rank - len(shape), x.tensor.rank))
    rstd = c.rsqrt(c.add(mean_of(c, c.mul(wide, wide), dims), eps))
    normal = _scale_shift(c, c.mul(wide, rstd), weight, None, tuple(shape))
    return _results(c, normal, rstd if c.is_used(1) else None)
