"""Rules for activation functions.

Each is eager's own formula (aten/src/ATen/native/cpu/Activation.cpp), computed in float32 for half precision and
rounded once, as eager does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.graph import Node
from ..ir.types import contiguous_strides, dtype_kind
from .emit import scalar_as
from .errors import NotConvertible
from .rules import rule


def _activation(*names: str) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    """Register a formula over a floating tensor: the operand arrives in float32 or wider, the result is rounded."""

    def register(formula: Callable[..., Node]) -> Callable[..., Node]:
        def convert(c: Any, x: Node, *args: Any, **kwargs: Any) -> Node:
            if dtype_kind(x.tensor.dtype) != "f":
                raise NotConvertible("an activation of integers")
            return c.cast(formula(c, c.upcast(x), *args, **kwargs), c.out.dtype)

        rule(*names)(convert)
        return formula

    return register


@_activation("silu.default")
def silu(c: Any, x: Node) -> Node:
    return c.div(x, c.add(c.exp(c.neg(x)), 1))


@_activation("gelu.default")
def gelu(c: Any, x: Node, approximate: str = "none") -> Node:
    if approximate == "tanh":
        cubic = c.mul(c.add(x, c.mul(c.mul(c.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return c.mul(c.mul(x, 0.5), c.add(c.tanh(cubic), 1))
    return c.mul(c.mul(x, 0.5), c.add(c.erf(c.mul(x, math.sqrt(0.5))), 1))


@_activation("leaky_relu.default")
def leaky_relu(c: Any, x: Node, negative_slope: float = 0.01) -> Node:
    return c.where(c.gt(x, 0), x, c.mul(x, negative_slope))


@_activation("elu.default")
def elu(c: Any, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Node:
    negative = c.mul(c.expm1(c.mul(x, input_scale)), alpha * scale)
    return c.where(c.le(x, 0), negative, c.mul(x, scale))


@_activation("softplus.default")
def softplus(c: Any, x: Node, beta: float = 1, threshold: float = 20) -> Node:
    scaled = c.mul(x, beta)
    return c.where(c.gt(scaled, threshold), x, c.div(c.log1p(c.exp(scaled)), beta))


@_activation("mish.default")
def mish(c: Any, x: Node) -> Node:
    return c.mul(x, c.tanh(c.log1p(c.exp(x))))


@_activation("hardswish.default")
def hardswish(c: Any, x: Node) -> Node:
    return c.div(c.mul(x, _relu6(c, c.add(x, 3))), 6)


@_activation("hardsigmoid.default")
def hardsigmoid(c: Any, x: Node) -> Node:
    return c.div(_relu6(c, c.add(x, 3)), 6)


def _relu6(c: Any, x: Node) -> Node:
    return c.minimum(6, c.maximum(0, x))


@rule("hardtanh.default")
def hardtanh(c: Any, x: Node, low: Any = -1, high: Any = 1) -> Node:
    return c.minimum(high, c.maximum(low, x))


@rule("relu6.default")
def relu6(c: Any, x: Node) -> Node:
    return _relu6(c, x)


@rule("threshold.default")
def threshold(c: Any, x: Node, limit: Any, value: Any) -> Node:
    return c.where(_is_below(c, x, limit), value, x)


def _is_below(c: Any, x: Node, limit: Any) -> Node:
    """x <= limit, which is not rounded to half precision as where tensors are compared."""
    is_exact = scalar_as(limit, x.tensor.dtype, rounded=True) == limit
    return c.le(x if is_exact else c.upcast(x), limit)


@rule("hardshrink.default")
def hardshrink(c: Any, x: Node, limit: float = 0.5) -> Node:
    return c.where(c.logical_and(c.ge(x, -limit), c.le(x, limit)), 0, x)


@_activation("softshrink.default")
def softshrink(c: Any, x: Node, limit: float = 0.5) -> Node:
    zero = c.mul(c.abs(x), 0)  # or NaN
    return c.where(c.gt(x, limit), c.sub(x, limit), c.where(c.lt(x, -limit), c.add(x, limit), zero))


@_activation("log_sigmoid_forward.default")
def _log_sigmoid(c: Any, x: Node) -> Node:
    return c.sub(c.minimum(x, 0), c.log1p(c.exp(c.neg(c.abs(x)))))


@rule("log_sigmoid_forward.default")
def log_sigmoid_forward(c: Any, x: Node) -> list[Node | None]:
    """The second result is what backward reads in place of x on a CPU; elsewhere it has no elements."""
    c.lies_by(contiguous_strides(c.out.shape))  # eager's; fake tensors keep x's strides
    x = c.upcast(x)
    kept = c.cast(c.exp(c.neg(c.abs(x))), c.out.dtype) if c.is_used(1) and c.outs[1].shape == c.out.shape else None
    return [c.cast(_log_sigmoid(c, x), c.out.dtype), kept]


@_activation("logit.default")
def logit(c: Any, x: Node, eps: float | None = None) -> Node:
    if eps is not None:
        x = c.minimum(1 - eps, c.maximum(eps, x))
    return c.log(c.div(x, c.sub(1, x)))


@rule("_prelu_kernel.default")
def prelu(c: Any, x: Node, weight: Node) -> Node:
    return c.where(c.gt(x, 0), x, c.mul(x, weight))


@rule("glu.default")
def glu(c: Any, x: Node, dim: int = -1) -> Node:
    dim %= x.tensor.rank
    half = c.out.shape[dim]
    a, b = (c.upcast(c.slice(x, dim, start, half)) for start in (0, half))
    return c.cast(c.mul(a, c.sigmoid(b)), c.out.dtype)


# --- gradients of which torch's decompositions are others than ATen's at NaN, or at the ends of a range ---------------


def _gradient(name: str) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    """As `_activation`, of a gradient and a tensor."""

    def register(formula: Callable[..., Node]) -> Callable[..., Node]:
        def convert(c: Any, grad: Node, x: Node, *args: Any) -> Node:
            if dtype_kind(x.tensor.dtype) != "f":
                raise NotConvertible("an activation of integers")
            return c.cast(formula(c, c.upcast(grad), c.upcast(x), *args), c.out.dtype)

        rule(name)(convert)
        return formula

    return register


@rule("threshold_backward.default")
def threshold_backward(c: Any, grad: Node, x: Node, limit: Any) -> Node:
    return c.where(_is_below(c, x, limit), 0, grad)


@_gradient("hardtanh_backward.default")
def hardtanh_backward(c: Any, grad: Node, x: Node, low: Any, high: Any) -> Node:
    return c.where(c.logical_and(c.gt(x, low), c.lt(x, high)), grad, 0)


@rule("hardshrink_backward.default", "softshrink_backward.default")
def shrink_backward(c: Any, grad: Node, x: Node, limit: Any) -> Node:
    return c.where(c.logical_or(c.lt(x, -limit), c.gt(x, limit)), grad, 0)


@_gradient("hardswish_backward.default")
def hardswish_backward(c: Any, grad: Node, x: Node) -> Node:
    middle = c.mul(grad, c.add(c.div(x, 3), 0.5))
    return c.where(c.le(x, -3), 0, c.where(c.ge(x, 3), grad, middle))


@rule("elu_backward.default")
def elu_backward(c: Any, grad: Node, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Node) -> Node:
    """Of x, or of elu's result."""
    grad, x = c.upcast(grad), c.upcast(x)
    slope = alpha * scale
    part = c.add(x, slope) if is_result else c.mul(c.exp(c.mul(x, input_scale)), slope)
    return c.cast(c.where(c.gt(x, 0), c.mul(grad, scale), c.mul(c.mul(grad, input_scale), part)), c.out.dtype)


@rule("smooth_l1_loss_backward.default")
def smooth_l1_loss_backward(c: Any, grad: Node, x: Node, target: Node, reduction: int, beta: float) -> Node:
    grad, x, target = map(c.upcast, (grad, x, target))
    distance = c.sub(x, target)
    grad = c.div(grad, distance.tensor.numel) if reduction == 1 else grad  # of the mean
    middle = c.div(c.mul(distance, grad), beta)
    far = c.where(c.ge(distance, beta), grad, middle)
    return c.cast(c.where(c.le(distance, -beta), c.neg(grad), far), c.out.dtype)
