"""Which numbers to leave open after a guard miss.

In: the guards of the entries that missed, and the values of the call. Out: `OpenNumbers` with ints and floats (and
texts that a break has made) that were compiled as constants and have another value now, and dimensions of tensors that
have another size now. The next entry treats these as open, and only these: a step counter, a learning rate or a batch
size compiles twice and not once a value, while the sizes that never vary stay numbers that kernels are made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch

from ..guards import FrameValues, GuardSet
from ..guards.constants import constant_key
from ..guards.kinds import ConstantGuard, Guard
from ..guards.tensors import TensorGuard
from .open_numbers import OpenNumbers
from .sources import FreeCellSource, GlobalSource, InstanceDictSource, ItemSource, LocalSource, Source, StackSource
from .values.real_iterators import PeekSource

_WHERE = (LocalSource, StackSource, FreeCellSource, GlobalSource, ItemSource, InstanceDictSource, PeekSource)


def with_varying(
    open: OpenNumbers, entries: Iterable[GuardSet], func: FunctionType, values: Mapping[str, Any]
) -> OpenNumbers:
    """Open as well whatever these values have otherwise than one of the entries expects."""
    frame = FrameValues(func, values)
    numbers, sizes = set(open.numbers), dict(open.sizes)
    for guard in (guard for guards in entries for guard in _readable(guards, frame)):
        if isinstance(guard, ConstantGuard) and _varies(guard, frame):
            numbers.add(guard.source)
        elif isinstance(guard, TensorGuard):
            dims = frozenset(_varying_dims(guard, frame))
            if dims:
                sizes[guard.source] = sizes.get(guard.source, frozenset()) | dims
    return replace(open, numbers=frozenset(numbers), sizes=sizes)


def _readable(guards: GuardSet, frame: FrameValues) -> Iterator[Guard]:
    """The guards whose sources may be read: what these are read from is of the kind that was compiled for. Of another
    one, reading may run code (a property, `__missing__`) and change things (a defaultdict makes an item)."""
    failed: set[Source] = set()
    for guard in guards:
        if any(ancestor in failed for source in guard.sources() for ancestor in source.ancestors()):
            continue
        if guard.structural and not isinstance(guard, ConstantGuard) and guard.explain(frame) is not None:
            failed.update(guard.sources())
        yield guard


def _varies(guard: ConstantGuard, frame: FrameValues) -> bool:
    kind = type(guard.constant)
    is_made_text = kind is str and isinstance(guard.source, StackSource)  # by a break: a number in an f-string
    if not is_made_text and (kind not in (int, float) or not isinstance(guard.source, _WHERE)):
        return False
    now = _read(guard.source, frame)
    return type(now) is kind and constant_key(now) != guard.key


def _varying_dims(guard: TensorGuard, frame: FrameValues) -> Iterator[int]:
    """Dimensions of another size; nothing for a tensor that differs in more than its sizes, or is a parameter."""
    now = _read(guard.source, frame)
    if type(now) is not torch.Tensor or guard.cls is not torch.Tensor or now.is_nested:
        return
    if now.dtype is guard.dtype and now.dim() == len(guard.shape):
        for dim, (size, expected) in enumerate(zip(now.shape, guard.shape, strict=True)):
            if expected is not None and size != expected:
                yield dim


def _read(source: Source, frame: FrameValues) -> Any:
    try:
        return frame.value(source)
    except Exception:  # no longer there: nothing that varies
        return None
