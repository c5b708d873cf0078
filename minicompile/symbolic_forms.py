"""Torch functions that ask for a size as a number, said in calls that keep it a symbol.

In: calls of the torch-level graph of which an argument, or the size of one, is symbolic. Out: what tracing calls
instead, in the frontend and in lowering alike; the graph itself keeps the user's own call.

Some are combinations of other functions. Those that only make a tensor of a given length, by rounding that is ATen's
own (`linspace`, windows), go through one operator that takes the length as it is, and calls the function when the graph
runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

F = torch.nn.functional


def symbolic_form(function: Any, args: Any, kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """What to call in the place of `function` for these arguments; None: nothing else."""
    form = _FORMS.get(function) if isinstance(function, _KINDS) else None
    if form is None or not any(map(_is_symbolic, chain(args, kwargs.values()))):
        return None
    return form


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt)


def one_hot(x: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    """`torch.nn.functional.one_hot`; that a class is in range is checked by the index."""
    if not isinstance(num_classes, (int, torch.SymInt)) or num_classes <= 0 or x.dtype is not torch.int64:
        return F.one_hot(x, num_classes)
    classes = torch.arange(num_classes, device=x.device)
    checked = torch.index_select(classes, 0, x.reshape(-1)).reshape(x.shape)
    return (checked.unsqueeze(-1) == classes).to(torch.int64)


def kron(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`torch.kron`, by ATen's own way: a product of both, spread over twice as many dimensions, viewed as so many."""
    rank = max(input.dim(), other.dim())
    left, right = ([1] * (rank - part.dim()) + list(part.shape) for part in (input, other))
    spread = input.reshape([size for pair in left for size in (pair, 1)])
    product = spread * other.reshape([size for pair in right for size in (1, pair)])
    return product.view([one * two for one, two in zip(left, right, strict=True)])


def max_pool1d(
    input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> torch.Tensor:  # fmt: skip
    """`torch.nn.functional.max_pool1d` as a pool over one row."""
    if return_indices or not input.dtype.is_floating_point:
        return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    one = [size[0] if isinstance(size, (tuple, list)) else size for size in (kernel_size, stride, padding, dilation)]
    kernel, step, margin, spread = one[0], one[0] if one[1] in (None, []) else one[1], one[2], one[3]
    pooled = F.max_pool2d(input.unsqueeze(-2), (1, kernel), (1, step), (0, margin), (1, spread), ceil_mode)
    return pooled.squeeze(-2)


def _dropout(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def dropped(
        input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **train: bool
    ) -> torch.Tensor:
        """A dropout that drops nothing gives its argument back; torch's own form in Python copies it."""
        training = train.get("train", training)
        arguments = (p, training, inplace)[: 2 if function is torch.dropout else 3]
        return input if 0 <= p <= 1 and not (training and p) else function(input, *arguments)

    return dropped


# ---- tensors of a given length ----

_LENGTH_AT = {
    "linspace": 2, "logspace": 2, "hann_window": 0, "hamming_window": 0, "bartlett_window": 0, "blackman_window": 0,
    "kaiser_window": 0,
}  # fmt: skip
"""Function of `torch` → where its length stands among the arguments."""


def _of_length(name: str) -> Callable[..., torch.Tensor]:
    function, place = getattr(torch, name), _LENGTH_AT[name]

    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        others = [arg for index, arg in enumerate(args) if index != place]
        plain = all(type(other) in (bool, int, float) for other in others)
        if len(args) <= place or not plain or not kwargs.keys() <= {"dtype", "device"}:
            return function(*args, **kwargs)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        torch._check(args[place] >= 0)
        device = torch.device(kwargs.get("device") or torch.get_default_device())
        return _operator()(name, list(args[:place]), args[place], list(args[place + 1 :]), dtype, device)

    return made


_library: list[Any] = []
"""Keeps the operator alive."""


@functools.cache
def _operator() -> Any:
    library = torch.library.Library("minicompile", "FRAGMENT")
    library.define(
        "of_length(str name, Scalar[] before, SymInt length, Scalar[] after, ScalarType dtype, Device device) -> Tensor"
    )

    def made(name: str, before: Any, length: int, after: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
        return getattr(torch, name)(*before, length, *after, dtype=dtype, device=device)

    def fake(name: str, before: Any, length: Any, after: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
        return torch.empty(length, dtype=dtype, device=device)

    library.impl("of_length", made, "CompositeExplicitAutograd")
    torch.library.register_fake("minicompile::of_length", fake, lib=library)
    _library.append(library)
    return torch.ops.minicompile.of_length.default


def _indices(name: str) -> Callable[..., torch.Tensor]:
    def found(row: Any, col: Any, offset: Any = 0, **options: Any) -> torch.Tensor:
        return getattr(torch._refs, name)(row, col, offset, **options)

    return found


_FORMS: dict[Any, Callable[..., Any]] = {
    F.one_hot: one_hot,
    torch.kron: kron,
    **{function: _dropout(function) for function in (F.dropout, torch.dropout)},
    **dict.fromkeys((torch.max_pool1d, F.max_pool1d), max_pool1d),
    torch.tril_indices: _indices("tril_indices"),
    torch.triu_indices: _indices("triu_indices"),
    **{getattr(torch, name): _of_length(name) for name in _LENGTH_AT},
}
_KINDS = tuple({type(function) for function in _FORMS})
