"""What eager refuses by dtype or by number: `gelu` of integers, `masked_fill(x_half, mask, -1e9)`, `celu` with alpha 0.

In: ATen calls on fake tensors. Out: nothing, or the kind of error that eager raises. Torch's shape rules let these
pass. No table says which they are: ATen is asked, by the same call on small tensors.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
_ALSO = frozenset(
    {
        aten._softmax.default, aten._log_softmax.default, aten.masked_fill.Scalar, aten.masked_fill_.Scalar,
        aten.celu.default, aten.celu_.default, aten.hardshrink.default, aten.softplus.default, aten.glu.default,
        aten.huber_loss.default, aten.smooth_l1_loss.default, aten.argmax.default, aten.argmin.default,
        aten.dot.default, aten.vdot.default, aten.mv.default, aten.addmv.default, aten.trace.default,
        aten._prelu_kernel.default, aten.nll_loss_forward.default, aten.multi_margin_loss.default,
        aten.im2col.default, aten.grid_sampler_2d.default, aten.reflection_pad1d.default, aten.avg_pool3d.default,
        aten._adaptive_avg_pool2d.default, aten.max_pool2d_with_indices.default, aten.max_unpool2d.default,
        aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default,
        aten._upsample_nearest_exact1d.default, aten._upsample_nearest_exact2d.default,
        aten._upsample_nearest_exact3d.default, aten.upsample_linear1d.default, aten.upsample_bilinear2d.default,
        aten.upsample_bicubic2d.default, aten.upsample_trilinear3d.default, aten.rsub.Tensor, aten.dist.default,
        aten.soft_margin_loss.default, aten.linalg_cross.default, aten.bucketize.Tensor, aten.searchsorted.Tensor,
    }
)  # fmt: skip
"""Operators that are asked about besides those that torch tags as elementwise."""
_DRAWING = frozenset({aten.uniform_.default})
"""Those that draw random numbers are asked with no elements, for which they draw none."""
_SIDES = {aten.linalg_cross.default: 3}
"""Operators that take no tensors of two elements a side → a side that they take."""


def _filled(value: Any, dtype: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ((2,), value), {"dtype": dtype}


_FILLING: dict[Any, Any] = {
    aten.full.default: lambda size, value, dtype=None, **_: _filled(value, dtype),
    aten.new_full.default: lambda x, size, value, dtype=None, **_: _filled(value, dtype or x.dtype),
    aten.full_like.default: lambda x, value, dtype=None, **_: _filled(value, dtype or x.dtype),
    aten.scalar_tensor.default: lambda value, dtype=None, **_: _filled(value, dtype),
    **dict.fromkeys((aten.fill.Scalar, aten.fill_.Scalar), lambda x, value: _filled(value, x.dtype)),
    aten.constant_pad_nd.default: lambda x, pad, value=0: _filled(value, x.dtype),
    **dict.fromkeys(
        (aten.index_fill.int_Scalar, aten.index_fill_.int_Scalar, aten.scatter.value, aten.scatter_.value),
        lambda x, dim, index, value: _filled(value, x.dtype),
    ),
}
"""Operators that put a number into a tensor → the arguments with which `full` makes one of it."""


def refuse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what eager raises for operands of these dtypes and these numbers."""
    if func in _FILLING:
        args, kwargs = _FILLING[func](*args, **kwargs)
        func = aten.full.default
    elif not _is_asked(func):
        return
    question = _plain((args, tuple(sorted(kwargs.items()))))
    side = 0 if func in _DRAWING or any(map(_is_empty, args)) else _SIDES.get(func, 2)
    if question is not None and (error := _answer(func, side, *question)) is not None:
        raise error.with_traceback(None)


@functools.cache
def _is_asked(func: Any) -> bool:
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    is_out = any(argument.is_out for argument in func._schema.arguments)
    return func in _DRAWING or ((func in _ALSO or torch.Tag.pointwise in func.tags) and not is_random and not is_out)


_MAX_RANK = 8


def _is_empty(value: Any) -> bool:
    """Where nothing is computed, ATen divides by zero, but still refuses most else."""
    return isinstance(value, torch.Tensor) and any(isinstance(size, int) and size == 0 for size in value.shape)


class _Unasked(Exception):
    """An operand about which ATen cannot be asked."""


def _plain(tree: Any) -> Any:
    """The arguments as a key: tensors by dtype and rank. None where there is nothing to ask."""
    try:
        return _key(tree)
    except _Unasked:
        return None


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
            raise _Unasked
        if value.dim() > _MAX_RANK:
            raise _Unasked
        return _Operand(value.dtype, value.dim())
    if isinstance(value, (tuple, list)):
        return tuple(map(_key, value))
    if isinstance(value, (bool, int, float, complex)):
        return _Number(type(value), repr(value))
    if value is None or isinstance(value, (str, torch.dtype, torch.layout, torch.memory_format)):
        return value
    if isinstance(value, torch.device) and value.type == "cpu":
        return value
    raise _Unasked


class _Operand(tuple[torch.dtype, int]):
    """A tensor's dtype and rank."""

    def __new__(cls, dtype: torch.dtype, rank: int) -> _Operand:
        return super().__new__(cls, (dtype, rank))

    def made(self, side: int) -> torch.Tensor:
        dtype, rank = self
        return torch.ones((side,) * rank, dtype=dtype)


class _Number(tuple[type, str]):
    """A Python number, by type and text: 1, 1.0 and True are three, and so are 0.0 and -0.0."""

    def __new__(cls, kind: type, text: str) -> _Number:
        return super().__new__(cls, (kind, text))

    def made(self, side: int) -> Any:
        kind, text = self
        return text == "True" if kind is bool else kind(text)


_ABOUT_KINDS = (
    "without overflow", "ZeroDivisionError", "not implemented for", "not yet implemented", "support", "be cast to",
    "a [from, to) range", "is out of bounds for", "expected scalar type",
)  # fmt: skip
"""Words of the errors that are about dtypes and numbers, whatever the sizes."""


@functools.lru_cache(maxsize=4096)
def _answer(func: Any, side: int, args: Any, kwargs: Any) -> Exception | None:
    with _disable_current_modes(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            func(*_made(args, side), **dict(_made(kwargs, side)))
        except NotImplementedError as error:
            return error
        except RuntimeError as error:
            return error if any(words in str(error) for words in _ABOUT_KINDS) else None
        except Exception:  # about the sizes that we have made up
            return None
    return None


def _made(key: Any, side: int) -> Any:
    if isinstance(key, (_Operand, _Number)):
        return key.made(side)
    return tuple(_made(item, side) for item in key) if isinstance(key, tuple) else key
