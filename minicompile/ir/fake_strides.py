"""Where torch's fake tensors are wrong about the strides of a result, and what eager gives.

In: ATen calls on fake tensors. Out: the same results, with eager's strides.

A fake result of these operators comes from a Python decomposition, or from an older formula: it takes the layout of the
wrong operand. Users see strides (`is_contiguous`, `view`, `data_ptr` arithmetic), so tracing must too. The tables were
made by comparing operators over all pairs of layouts; tests/ir/test_fake_strides.py does it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..shape_env import data_symbols, is_known_contiguous
from ..torch_compat import dense_strides, elementwise_strides, infer_size, lies_channels_last
from .eager_refusals import refuse
from .fake_checks import check
from .fake_versions import run_and_count
from .symbols import dims_product

Strides = tuple[Any, ...]


def _elementwise(result: torch.Tensor, args: tuple[Any, ...]) -> Strides:
    """TensorIterator's choice among the operands' layouts."""
    operands = torch.broadcast_tensors(*(arg for arg in args if isinstance(arg, torch.Tensor)))
    return tuple(elementwise_strides(*operands))


def _contiguous(result: torch.Tensor, args: tuple[Any, ...]) -> Strides:
    return dense_strides(tuple(result.shape), False)


def _suggested(result: torch.Tensor, args: tuple[Any, ...]) -> Strides:
    """Contiguous, or channels last where the first argument lies so."""
    is_last = result.dim() in (4, 5) and not is_known_contiguous(args[0]) and lies_channels_last(args[0])
    return dense_strides(tuple(result.shape), is_last)


def _rolled(result: torch.Tensor, args: tuple[Any, ...]) -> Strides:
    """Two parts are joined, but for a roll of all elements in a row."""
    return _suggested(result, args) if len(args) > 2 and args[2] else tuple(result.stride())


def _ldexp(result: torch.Tensor, args: tuple[Any, ...]) -> Strides:
    """A product with `2 ** other`, which is contiguous."""
    other = torch.empty(args[1].shape, dtype=result.dtype, device=result.device)
    return _elementwise(result, (args[0], other))


_BY_NAME: dict[str, Callable[[torch.Tensor, tuple[Any, ...]], Strides]] = {
    **dict.fromkeys(
        ("copysign.Tensor", "div.Tensor_mode", "floor_divide.default", "heaviside.default", "logaddexp.default",
         "logaddexp2.default", "logical_and.default", "logical_or.default", "logical_xor.default", "xlogy.Tensor",
         "special_xlog1py.default", "elu_backward.default", "hardswish_backward.default", "logit_backward.default",
         "softplus_backward.default", "native_dropout_backward.default"),
        _elementwise,
    ),
    "ldexp.Tensor": _ldexp,
    **dict.fromkeys(("isin.Tensor_Tensor", "isin.Tensor_Scalar", "pow.Scalar"), _contiguous),
}  # fmt: skip

"""Of elementwise operators."""

_WITH_CHANNELS: dict[str, Callable[[torch.Tensor, tuple[Any, ...]], Strides]] = {
    **dict.fromkeys(
        ("native_batch_norm.default", "_native_batch_norm_legit.default", "_native_batch_norm_legit.no_stats",
         "_native_batch_norm_legit_no_training.default", "_native_batch_norm_legit_functional.default",
         "channel_shuffle.default", "max_unpool2d.default", "reflection_pad3d.default", "replication_pad3d.default"),
        _suggested,
    ),
    "roll.default": _rolled,
    "rrelu_with_noise.default": _contiguous,
}  # fmt: skip


def _table(
    names: dict[str, Callable[[torch.Tensor, tuple[Any, ...]], Strides]],
) -> dict[Any, Callable[[torch.Tensor, tuple[Any, ...]], Strides]]:
    """The operators of this release of torch that are in a list."""
    found = {}
    for name, strides in names.items():
        packet, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if func is not None:
            found[func] = strides
    return found


ELEMENTWISE, WITH_CHANNELS = _table(_BY_NAME), _table(_WITH_CHANNELS)
TABLE = {**ELEMENTWISE, **WITH_CHANNELS}


def corrected(func: Any, args: tuple[Any, ...], result: Any) -> Any:
    """`result`, of several the first, or a fake tensor like it with eager's strides. Called where the call was
    dispatched to fake tensors."""
    strides_of = TABLE.get(func)
    if strides_of is None:
        return result
    if isinstance(result, tuple):
        return type(result)((corrected(func, args, result[0]), *result[1:]))
    strides = strides_of(result, args)
    if strides == tuple(result.stride()):
        return result
    return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)


_VIEWS = frozenset({torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default})


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call on fake tensors, with eager's strides and refusals."""
    check(func, args, kwargs)
    viewed = _view_of_contiguous(*args) if func in _VIEWS else None
    return viewed if viewed is not None else corrected(func, args, func(*args, **kwargs))


def _view_of_contiguous(tensor: torch.Tensor, shape: Any) -> torch.Tensor | None:
    """A contiguous tensor of symbolic sizes in another shape, or None where this is not for us to say.

    Torch's shape rule looks for a chain of splits and joins that leads from one shape to the other. Every step that it
    tries is an assumption about the sizes, and the entry is then for few of them: `x.view(-1, 4, 3)` needs one fact
    alone, that the number of elements is divisible by 12.
    """
    if tensor.dim() == 0 or not shape or not _is_symbolic((*tensor.shape, *shape)):
        return None
    if len(shape) < 2 and not data_symbols(tensor.numel()):
        return None
    if not is_known_contiguous(tensor):
        return None
    if not data_symbols(tensor.numel()) and tensor.numel() == 0:
        return None
    sizes = infer_size(shape, tensor.numel())
    torch._check(dims_product(sizes) == tensor.numel())
    return tensor.as_strided(sizes, [dims_product(sizes[dim + 1 :]) for dim in range(len(sizes))])


def _is_symbolic(sizes: tuple[Any, ...]) -> bool:
    return any(isinstance(size, torch.SymInt) for size in sizes)


class EagerStrides(TorchDispatchMode):
    """Enter it after a FakeTensorMode: its results then have eager's strides, and all writes are counted; what eager
    refuses is refused."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        refuse(func, args, kwargs or {})
        return run_and_count(run, func, args, kwargs or {})
