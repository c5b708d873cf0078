"""How far apart two right results may lie: sums depend on the order of their terms.

In: a float reduction, or a call that moves its results about. Out: for each element an absolute bound, in float64, or
None. A sum of n terms in another order differs by at most n * eps * sum(|x|), eps being the accumulator's: terms that
cancel leave nothing but that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .programs import Value

SUMS: dict[str, Callable[..., torch.Tensor]] = {"sum": torch.sum, "mean": torch.mean, "cumsum": torch.cumsum}
"""The reductions whose terms may cancel. (The terms of a variance are squares.)"""


def of_sum(name: str, x: torch.Tensor, dim: int, **keywords: Any) -> torch.Tensor | None:
    """The bound for `name(x, dim)`; None where only the relative error counts."""
    if name not in SUMS or not x.dtype.is_floating_point:
        return None
    accumulator = torch.float64 if x.dtype is torch.float64 else torch.float32
    terms = SUMS[name](x.double().abs(), dim, **keywords)
    return (terms * x.shape[dim] * torch.finfo(accumulator).eps).nan_to_num(0, 0, 0)  # infinite results are exact


def moved(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> torch.Tensor | None:
    """The bounds of a call's results, for one that only moves elements: the call, made with the bounds themselves."""
    from .programs import Value

    values = [value for arg in args for value in (arg if isinstance(arg, (list, tuple)) else [arg])]
    if all(value.spread is None for value in values if isinstance(value, Value)):
        return None
    return function(*map(_bounds, args), **keywords)


def _bounds(arg: Any) -> Any:
    from .programs import Value

    if isinstance(arg, (list, tuple)) and any(isinstance(item, Value) for item in arg):
        return [_bound(item) for item in arg]
    if isinstance(arg, Value):
        return _bound(arg) if arg.tensor.dtype.is_floating_point else arg.tensor  # indices and conditions stay
    return 0.0 if isinstance(arg, float) else arg


def _bound(value: Value) -> torch.Tensor:
    return torch.zeros(value.tensor.shape, dtype=torch.float64) if value.spread is None else value.spread


def within(result: torch.Tensor, wanted: torch.Tensor, tolerance: float, spread: torch.Tensor | None) -> bool:
    """Whether every element is as near as the relative tolerance and the bound allow; NaN is NaN, infinity itself."""
    result, wanted = result.double(), wanted.double()
    allowed = tolerance * 100 + tolerance * wanted.abs().nan_to_num(0, 0, 0)
    if spread is not None:
        allowed = allowed + spread
    near = (result == wanted) | ((result - wanted).abs() <= allowed) | (result.isnan() & wanted.isnan())
    return bool(near.all())
