"""Matrix products of ATen that write into memory that is given.

In: which product, on which kind of device, and for each of its tensors which view is meant of the one that is given:
a weight comes as it lies in its module, and is read transposed. Out: a callable of the result and then the operands.
Two doors: the C type of products.c, which calls the very kernel that eager's dispatcher would have found, and eager's
own function with `out=`. The former looks at sizes no more than a kernel of ours does: guards have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import can_read_tensors, plain_keys, stable_function

try:
    from minicompile.runtime import _products as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]

View = tuple[tuple[int, ...], tuple[int, ...], int] | None
"""Sizes, strides and offset in elements from where the tensor starts; None: the tensor itself."""

_aten = torch.ops.aten
EAGER: dict[Any, Callable[..., Any]] = {
    _aten.mm.default: torch.mm,
    _aten.bmm.default: torch.bmm,
    _aten.addmm.default: torch.addmm,
    _aten.baddbmm.default: torch.baddbmm,
}
"""Operators that write what they compute wherever they are told to, as eager's functions."""

_ADDS = (_aten.addmm.default, _aten.baddbmm.default)


def matrix_product(target: Any, device: str, views: tuple[View, ...]) -> Callable[..., None]:
    """A callable `(result, *operands)` for one of `EAGER`'s operators; `views` has the result's first."""
    otherwise = EagerProduct(EAGER[target], views)
    if device == "cuda" and not torch.cuda.is_available():
        return otherwise
    function = stable_function(f"aoti_torch_{device}_{target._schema.name.removeprefix('aten::')}_out", device)
    reinterpret, release = map(stable_function, ("aoti_torch__reinterpret_tensor", "aoti_torch_delete_tensor_object"))
    if not (function and reinterpret and release and can_read_tensors(_native)):
        return otherwise
    return _native.Product(function, reinterpret, release, target in _ADDS, views, plain_keys(device), otherwise)


class EagerProduct:
    """The same with views that are made in Python."""

    def __init__(self, function: Callable[..., Any], views: tuple[View, ...]) -> None:
        self.function = function
        self.views = views

    def __call__(self, *tensors: torch.Tensor) -> None:
        with torch.no_grad():  # as the kernels around it do, it leaves gradients to whoever runs the graph
            out, *operands = [_viewed(tensor, view) for tensor, view in zip(tensors, self.views, strict=True)]
            self.function(*operands, out=out)


def _viewed(tensor: torch.Tensor, view: View) -> torch.Tensor:
    if view is None:
        return tensor
    sizes, strides, offset = view
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)
