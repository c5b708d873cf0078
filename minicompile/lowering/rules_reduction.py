"""Rules for reductions: sum, mean, extrema, any/all, variance, softmax, norms.

The table's reductions keep their dimensions and their dtype; these rules cast before (integer sums are int64, means of
half precision accumulate in float32), and drop dimensions after.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.symbols import dims_product, is_static, max_dim
from ..ir.types import dtype_kind
from .emit import opmath
from .errors import NotConvertible
from .rules import rule
from .rules_pointwise import as_bool


def dims_of(x: Node, dim: Any) -> tuple[int, ...]:
    """The reduced dimensions, sorted and non-negative; None and () mean all of them.

    Raises NotConvertible for one that does not exist: not every shape rule of torch's looks (softmax's does not), and
    the extern call raises as eager does.
    """
    rank = x.tensor.rank
    if dim is None or dim == ():
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else dim
    if any(not -max(rank, 1) <= d < max(rank, 1) for d in dims):
        raise NotConvertible(f"dimension {dim} of {rank}")
    return tuple(sorted(d % max(rank, 1) for d in dims)) if rank else ()


def count(x: Node, dims: tuple[int, ...]) -> Any:
    """How many elements each result sums."""
    return dims_product(x.tensor.shape[d] for d in dims)


def _finish(c: Any, node: Node, dims: tuple[int, ...], keepdim: bool) -> Node:
    return node if keepdim else c.drop(node, dims)


def mean_of(c: Any, x: Node, dims: tuple[int, ...]) -> Node:
    """The mean, dimensions kept, of a floating tensor that is wide enough already."""
    return c.div(c.reduce("sum", x, dims), count(x, dims))


@rule("sum.default", "sum.dim_IntList")
def sum_(c: Any, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    dims = dims_of(x, dim)
    return _finish(c, c.reduce("sum", c.cast(x, c.out.dtype), dims), dims, keepdim)


@rule("prod.default", "prod.dim_int")
def prod(c: Any, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    dims = dims_of(x, dim)
    return _finish(c, c.reduce("prod", c.cast(x, c.out.dtype), dims), dims, keepdim)


@rule("mean.default", "mean.dim")
def mean(c: Any, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    dims = dims_of(x, dim)
    result = mean_of(c, c.upcast(c.cast(x, c.out.dtype)), dims)
    return c.cast(_finish(c, result, dims, keepdim), c.out.dtype)


@rule("amax.default")
def amax(c: Any, x: Node, dim: Any = (), keepdim: bool = False) -> Node:
    return _extremum(c, "amax", x, dim, keepdim)


@rule("amin.default")
def amin(c: Any, x: Node, dim: Any = (), keepdim: bool = False) -> Node:
    return _extremum(c, "amin", x, dim, keepdim)


def _extremum(c: Any, op: str, x: Node, dim: Any, keepdim: bool) -> Node:
    dims = dims_of(x, dim)
    refuse_extremum_of_nothing(x, dims)
    return _finish(c, c.reduce(op, x, dims), dims, keepdim)


def refuse_extremum_of_nothing(x: Node, dims: Iterable[int]) -> None:
    """The largest of no elements is an error in eager, so eager's operator is called and says it."""
    if any(x.tensor.shape[dim] == 0 for dim in dims):
        raise NotConvertible("the largest or smallest of no elements")


@rule("max.default")
def max_(c: Any, x: Node) -> Node:
    return _extremum(c, "amax", x, None, False)


@rule("min.default")
def min_(c: Any, x: Node) -> Node:
    return _extremum(c, "amin", x, None, False)


@rule("any.default", "any.dim", "any.dims")
def any_(c: Any, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    dims = dims_of(x, dim)
    return c.cast(_finish(c, c.reduce("any", as_bool(c, x), dims), dims, keepdim), c.out.dtype)


@rule("all.default", "all.dim", "all.dims")
def all_(c: Any, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    dims = dims_of(x, dim)
    return c.cast(_finish(c, c.reduce("all", as_bool(c, x), dims), dims, keepdim), c.out.dtype)


# --- variance -------------------------------------------------------------------------------------------------------


def variance_of(c: Any, x: Node, dims: tuple[int, ...], correction: Any) -> tuple[Node, Node]:
    """Variance and mean, dimensions kept, in two passes over a floating tensor that is wide enough already."""
    mean_node = mean_of(c, x, dims)
    centred = c.sub(x, mean_node)
    divisor = count(x, dims)
    if correction != 0:
        divisor = _corrected(divisor, correction)
    return c.div(c.reduce("sum", c.mul(centred, centred), dims), divisor), mean_node


def _corrected(count: Any, correction: Any) -> Any:
    """max(count - correction, 0): also a symbolic count may be small."""
    if is_static(count):
        return max(count - correction, 0)
    if not isinstance(correction, int):
        raise NotConvertible("a fractional correction of a symbolic count")
    return max_dim(count - correction, 0)


def _variance(c: Any, x: Node, dim: Any, correction: Any, keepdim: bool) -> tuple[Node, Node]:
    if dtype_kind(x.tensor.dtype) != "f":
        raise NotConvertible("the variance of integers")
    dims = dims_of(x, dim)
    variance, mean_node = variance_of(c, c.cast(x, _welford_dtype(x)), dims, 1 if correction is None else correction)
    return _finish(c, variance, dims, keepdim), _finish(c, mean_node, dims, keepdim)


def _welford_dtype(x: Node) -> Any:
    """In which eager accumulates (std_var_kernel): on a CPU the squares of large numbers stay finite. (Those of float16
    are finite in float32.)"""
    is_large = x.tensor.dtype in (torch.float32, torch.bfloat16) and x.tensor.device.type == "cpu"
    return torch.float64 if is_large else opmath(x.tensor.dtype)


@rule("var.correction")
def var(c: Any, x: Node, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Node:
    return c.cast(_variance(c, x, dim, correction, keepdim)[0], c.out.dtype)


@rule("std.correction")
def std(c: Any, x: Node, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Node:
    return c.cast(c.sqrt(_variance(c, x, dim, correction, keepdim)[0]), c.out.dtype)


@rule("var_mean.correction")
def var_mean(c: Any, x: Node, dim: Any = None, correction: Any = None, keepdim: bool = False) -> list[Node]:
    return [c.cast(node, c.out.dtype) for node in _variance(c, x, dim, correction, keepdim)]


@rule("std_mean.correction")
def std_mean(c: Any, x: Node, dim: Any = None, correction: Any = None, keepdim: bool = False) -> list[Node]:
    variance, mean_node = _variance(c, x, dim, correction, keepdim)
    return [c.cast(c.sqrt(variance), c.out.dtype), c.cast(mean_node, c.out.dtype)]


# --- exponentials over a row ----------------------------------------------------------------------------------------


def _floats_only(x: Node) -> None:
    """Of integers, users compare such results for equality, so ATen's last bit is kept."""
    source = x.args[0] if x.op == "cast" else x
    if dtype_kind(source.tensor.dtype) != "f":
        raise NotConvertible("a softmax of integers")


@rule("_softmax.default")
def softmax(c: Any, x: Node, dim: int, half_to_float: Any = False) -> Node:
    """A row of -inf, or one that holds +inf or NaN, is all NaN, as in eager."""
    _floats_only(x)
    dims = dims_of(x, dim)
    x = c.upcast(c.cast(x, c.out.dtype))
    powers = c.exp(c.sub(x, c.reduce("amax", x, dims)))
    return c.cast(c.div(powers, c.reduce("sum", powers, dims)), c.out.dtype)


@rule("_log_softmax.default")
def log_softmax(c: Any, x: Node, dim: int, half_to_float: bool = False) -> Node:
    _floats_only(x)
    dims = dims_of(x, dim)
    x = c.upcast(c.cast(x, c.out.dtype))
    shifted = c.sub(x, c.reduce("amax", x, dims))
    return c.cast(c.sub(shifted, c.log(c.reduce("sum", c.exp(shifted), dims))), c.out.dtype)


@rule("logsumexp.default")
def logsumexp(c: Any, x: Node, dim: Any, keepdim: bool = False) -> Node:
    dims = dims_of(x, dim)
    if dtype_kind(x.tensor.dtype) != "f" or any(x.tensor.shape[d] == 0 for d in dims):
        raise NotConvertible("exponentials of integers, or of nothing")
    x = c.upcast(c.cast(x, c.out.dtype))
    largest = c.reduce("amax", x, dims)
    largest = c.where(c.isinf(largest), 0, largest)  # inf - inf would be NaN
    total = c.log(c.reduce("sum", c.exp(c.sub(x, largest)), dims))
    return c.cast(_finish(c, c.add(total, largest), dims, keepdim), c.out.dtype)


# --- vector norms ---------------------------------------------------------------------------------------------------


@rule("linalg_vector_norm.default")
def vector_norm(c: Any, x: Node, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    dims = dims_of(x, dim)
    if any(is_static(x.tensor.shape[d]) and x.tensor.shape[d] == 0 for d in dims):
        raise NotConvertible("the norm of no elements")
    x = c.upcast(c.cast(x, c.out.dtype))
    return c.cast(_finish(c, _norm(c, x, ord, dims), dims, keepdim), c.out.dtype)


def _norm(c: Any, x: Node, ord: Any, dims: tuple[int, ...]) -> Node:
    if ord != 0 and all(is_static(x.tensor.shape[d]) and x.tensor.shape[d] == 1 for d in dims):
        return c.reduce("amax", c.abs(x), dims)  # as in eager: the square of a number could be 0 or infinite
    if ord == 2:
        return c.sqrt(c.reduce("sum", c.mul(x, x), dims))
    if ord == 1:
        return c.reduce("sum", c.abs(x), dims)
    if ord == 0:
        return c.reduce("sum", c.cast(c.ne(x, 0), x.tensor.dtype), dims)
    if ord in (float("inf"), float("-inf")):
        return c.reduce("amax" if ord > 0 else "amin", c.abs(x), dims)
    if not isinstance(ord, (int, float)):
        raise NotConvertible("a symbolic order")
    return c.pow(c.reduce("sum", c.pow(c.abs(x), ord), dims), 1 / ord)


