"""`torch.Size` made in the frame: by its own call, and by `+` and `*` of one.

In: iterables of numbers, symbolic ones included. Out: sequences of the class, as torch makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .base import Value, fail
from .callables import rule
from .containers import SequenceValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_IS_KEPT = {type(torch.Size() + ()), type(torch.Size() * 1)} == {torch.Size}
"""Whether `+` and `*` of a size are sizes; in earlier versions they are tuples."""


def size_of(tr: Tracer, numbers: list[Value]) -> Value:
    """A torch.Size of these. Raises TypeError of the program's for what is no int."""
    elements = [number.realize(tr) for number in numbers]
    for index, element in enumerate(elements):
        kind = element.python_type()
        if kind is not int and hasattr(kind, "__index__"):  # torch makes an int of it
            raise element.cannot("making a torch.Size")
        if kind is not int:
            what = f"torch.Size() takes an iterable of 'int' (item {index} is '{kind.__name__}')"
            fail(TypeError(what), is_exact=True)
    return SequenceValue(torch.Size, list(elements))


def joined(tr: Tracer, kinds: tuple[type, ...], elements: list[Value]) -> Value:
    """What `+` or `*` of tuples of these kinds gives."""
    return size_of(tr, elements) if _IS_KEPT and torch.Size in kinds else SequenceValue(tuple, elements)


@rule(torch.Size)
def _size(tr: Tracer, iterable: Value | None = None) -> Value:
    return size_of(tr, iterable.realize(tr).items(tr) if iterable is not None else [])


__all__ = ["joined", "size_of"]
