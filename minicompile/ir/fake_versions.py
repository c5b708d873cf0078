"""Writes that fake tensors do not count.

In: ATen calls on fake tensors. Out: which of them are written, by what the schema says; and counted where torch does
not. Eager's operators on lists (`torch._foreach_add_`) call others that count, or count themselves; the shape rules
that stand for them on fake tensors do neither, and tracing tells by the counts what a program writes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that a call writes to."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    yield tensor


def run_and_count(run: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`run(func, args, kwargs)`, after which whatever it writes has a version of its own."""
    if not writes_lists(func):
        return run(func, args, kwargs)
    before = [(tensor, tensor._version) for tensor in written(func, args, kwargs) if not tensor.is_inference()]
    result = run(func, args, kwargs)
    for tensor, version in before:
        if tensor._version == version:
            torch.autograd.graph.increment_version(tensor)
    return result


@functools.cache
def writes_lists(func: Any) -> bool:
    """Whether an operator writes to the tensors of a list."""
    arguments = func._schema.arguments
    return any(a.alias_info is not None and a.alias_info.is_write and "List" in str(a.type) for a in arguments)
