"""Functional wrappers around fake tensors: PyTorch's functionalization, as tracing uses it.

In, out: tensors and whatever else a graph's values are; only tensors are wrapped. A wrapper's operations arrive below
it as pure calls; what was written through it shows itself when it is brought up to date (`sync`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def functional(value: Any) -> Any:
    """A tensor's wrapper; anything else as it is."""
    return torch._to_functional_tensor(value) if isinstance(value, torch.Tensor) else value


def is_functional(value: Any) -> bool:
    """Whether a value is a wrapper that functionalisation has made."""
    return isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)


def sync(values: Iterable[Any]) -> None:
    """Bring every wrapper's value up to date with the mutations of its base."""
    for value in values:
        if is_functional(value):
            torch._sync(value)


def same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    """As far as they place elements: functionalization changes others now and then."""
    if one.stride() == other.stride():
        return True
    triples = zip(other.shape, one.stride(), other.stride(), strict=True)
    is_empty = any(type(size) is int and size == 0 for size in other.shape)
    return is_empty or all((type(size) is int and size == 1) or a == b for size, a, b in triples)


@contextmanager
def functionalized(mode: Any, recorder: TorchDispatchMode, *, python_dispatcher: bool) -> Iterator[None]:
    """Operations on wrappers are taken apart and reach `recorder` as pure calls on fake tensors of `mode`.

    python_dispatcher: composite operators are taken apart by torch's Python code, not by ATen's.
    """
    from torch._dispatch.python import enable_python_dispatcher

    with _same_autocast_after(), mode, recorder, enable_python_dispatcher() if python_dispatcher else nullcontext():
        torch._enable_functionalization(reapply_views=True)
        try:
            yield
        finally:
            torch._disable_functionalization()


@contextmanager
def _same_autocast_after() -> Iterator[None]:
    """Graphs hold calls that enter and leave autocast; one that fails in between must not leave it on."""
    devices = ("cpu", "cuda")
    before = [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
    try:
        yield
    finally:
        for device, enabled, dtype in before:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
