"""Guards on tensors: what is expected of each, and relations between them.

In: a source and the tensor that it yields while tracing.
Out: `TensorGuard`s, all of which `guards.tensor_check` joins into one native call, and guards on how tensors overlap in
memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from ..frontend.sources import Source
from ..torch_compat import can_read_tensors
from .kinds import Frame, Guard, Scope
from .words import a

try:
    from minicompile.guards import _disjoint as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]

TENSOR_RANK = 40


@dataclass(frozen=True)
class TensorGuard(Guard):
    """Everything about one tensor that code may be specialised to. None in `shape` or `stride` leaves that one free.

    `tensor` is a weak reference to the traced tensor, needed until the check is built, and not compared. It is None in
    a guard that another process made. What the check compares beyond the facts is in `keys`, the dispatch keys.
    """

    source: Source
    cls: type
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    shape: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    requires_grad: bool
    bits: tuple[bool, ...]
    tensor: Callable[[], torch.Tensor | None] | None = field(compare=False, repr=False)
    keys: int = field(default=0, compare=False, repr=False)
    rank: ClassVar[int] = TENSOR_RANK

    @classmethod
    def of(cls, source: Source, tensor: torch.Tensor) -> TensorGuard:
        """A guard on all of it. Raises ValueError for a nested tensor, whose sizes are no numbers."""
        if tensor.is_nested:
            raise ValueError(f"{source.describe()} is a nested tensor, which cannot be guarded")
        strided = tensor.layout is torch.strided
        return cls(
            source, type(tensor), tensor.dtype, tensor.device, tensor.layout,
            tuple(tensor.shape), tuple(tensor.stride()) if strided else (None,) * tensor.dim(),
            tensor.requires_grad, _bits(tensor), weakref.ref(tensor), _dispatch_keys(tensor),
        )  # fmt: skip

    def holds_for(self, value: torch.Tensor) -> bool:
        """Whether a tensor could have been the traced one."""
        return type(value) is self.cls and not torch.Tensor.is_nested.__get__(value) and self._matches(value)

    def _matches(self, value: torch.Tensor) -> bool:
        now = TensorGuard.of(self.source, value)
        sizes = zip((*self.shape, *self.stride), (*now.shape, *now.stride), strict=False)
        return (
            len(self.shape) == len(now.shape)
            and all(expected is None or size == expected for expected, size in sizes)
            and now.keys == self.keys
            and now.with_sizes(self.shape, self.stride) == self
        )

    def with_sizes(self, shape: tuple[int | None, ...], stride: tuple[int | None, ...]) -> TensorGuard:
        """The same guard with other expectations; None leaves a size or stride to a `SizeGuard`."""
        return replace(self, shape=shape, stride=stride)

    def nested_condition(self, scope: Scope) -> str | None:
        """What must hold before torch's own check may see the value, or None."""
        if self.cls is not torch.Tensor:
            return None
        read = scope.read(self.source)
        return f"__type__({read}) is {scope.keep(torch.Tensor)} and {read}.is_nested is False"

    def miss(self, frame: Frame) -> str | None:
        value, place = frame.value(self.source), self.source.describe()
        if type(value) is not self.cls:
            return f"{place} is {a(type(value))}, compiled for {a(self.cls)}"
        # Neither a subclass nor an active mode of the user's is asked: a message must not run user code.
        with torch._C.DisableTorchFunction():
            return self._difference(value, place)

    def _difference(self, value: torch.Tensor, place: str) -> str | None:
        for what, now, then in self._facts(value):
            if now != then:
                return f"{place}: {what} is {now}, compiled for {then}"
        return _first_difference(place, "size", value.shape, self.shape) or self._stride_miss(value, place)

    def _facts(self, value: torch.Tensor) -> Iterable[tuple[str, Any, Any]]:
        yield "nested", value.is_nested, False
        yield "layout", value.layout, self.layout
        yield "dtype", value.dtype, self.dtype
        yield "device", value.device, self.device
        yield "requires_grad", value.requires_grad, self.requires_grad
        yield "number of dimensions", value.dim(), len(self.shape)
        yield from zip(_BIT_NAMES, _bits(value), self.bits, strict=True)

    def _stride_miss(self, value: torch.Tensor, place: str) -> str | None:
        if value.layout is not torch.strided:
            return None
        return _first_difference(place, "stride", value.stride(), self.stride)

    def __str__(self) -> str:
        shape = ", ".join("?" if size is None else str(size) for size in self.shape)
        grad = ", requires_grad" if self.requires_grad else ""
        stride = "" if None in self.stride else f", strides ({', '.join(map(str, self.stride))})"
        return f"{self.source} is {a(self.cls)} {self.dtype} ({shape}) on {self.device}{stride}{grad}"


def _dispatch_keys(tensor: torch.Tensor) -> int:
    return torch._C._dispatch_keys(tensor).raw_repr()


_BIT_NAMES = ("conjugate bit", "negative bit", "inference tensor")


def _bits(tensor: torch.Tensor) -> tuple[bool, ...]:
    return (tensor.is_conj(), tensor.is_neg(), tensor.is_inference())


def _first_difference(place: str, what: str, now: Iterable[int], then: Iterable[int | None]) -> str | None:
    for dim, (value, expected) in enumerate(zip(now, then, strict=True)):
        if expected is not None and value != expected:
            return f"{place}: {what} of dimension {dim} is {value}, compiled for {expected}"
    return None


# ---- memory ----


@dataclass(frozen=True)
class StorageOffsetGuard(Guard):
    """The tensor's storage offset, in elements."""

    source: Source
    offset: int
    rank: ClassVar[int] = TENSOR_RANK + 5

    def condition(self, scope: Scope) -> str:
        return f"{scope.read(self.source)}.storage_offset() == {self.offset}"

    def miss(self, frame: Frame) -> str | None:
        offset = frame.value(self.source).storage_offset()
        if offset == self.offset:
            return None
        return f"{self.source.describe()}: storage offset is {offset}, compiled for {self.offset}"

    def __str__(self) -> str:
        return f"{self.source}.storage_offset() == {self.offset}"


@dataclass(frozen=True)
class OverlapGuard(Guard):
    """Whether the memory of two tensors overlaps; needed where the graph writes to one of them."""

    first: Source
    second: Source
    overlapping: bool = False
    rank: ClassVar[int] = 60

    def sources(self) -> tuple[Source, ...]:
        return (self.first, self.second)

    def condition(self, scope: Scope) -> str:
        text = f"{scope.keep(memory_overlaps)}({scope.read(self.first)}, {scope.read(self.second)})"
        return f"{text} is {self.overlapping}"

    def miss(self, frame: Frame) -> str | None:
        if memory_overlaps(frame.value(self.first), frame.value(self.second)) == self.overlapping:
            return None
        now = "no longer share memory" if self.overlapping else "share memory now"
        return f"{self.first.describe()} and {self.second.describe()} {now}, and one of them is written to"

    def __str__(self) -> str:
        return f"{self.first} and {self.second} {'share' if self.overlapping else 'do not share'} memory"


@dataclass(frozen=True)
class DisjointGuard(Guard):
    """None of the tensors that the graph writes to shares memory with another of them, or with one that it reads.

    One call for all pairs: an optimizer's step writes to hundreds of tensors.
    """

    written: tuple[Source, ...]
    read: tuple[Source, ...]
    rank: ClassVar[int] = 60

    def sources(self) -> tuple[Source, ...]:
        return (*self.written, *self.read)

    def condition(self, scope: Scope) -> str:
        written, read = ("".join(f"{scope.read(source)}, " for source in group) for group in (self.written, self.read))
        return f"{scope.keep(are_disjoint)}(({written}), ({read}))"

    def miss(self, frame: Frame) -> str | None:
        for i, first in enumerate(self.written):
            for second in (*self.written[i + 1 :], *self.read):
                if memory_overlaps(frame.value(first), frame.value(second)):
                    return f"{first.describe()} and {second.describe()} share memory now, and one of them is written to"
        return None

    def __str__(self) -> str:
        return f"{len(self.written)} tensors that are written to share no memory with others"


@dataclass(frozen=True)
class NoInnerOverlapGuard(Guard):
    """No two elements of the tensor are one place in memory (an expanded tensor); needed where it is written to."""

    source: Source
    rank: ClassVar[int] = 60

    def condition(self, scope: Scope) -> str:
        return f"{scope.keep(torch._debug_has_internal_overlap)}({scope.read(self.source)}) != 1"

    def miss(self, frame: Frame) -> str | None:
        if torch._debug_has_internal_overlap(frame.value(self.source)) != 1:
            return None
        return f"{self.source.describe()} has elements that share memory, and is written to"

    def __str__(self) -> str:
        return f"elements of {self.source} do not share memory"


def memory_overlaps(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether the address ranges of two strided tensors meet.

    Interleaved views (`x[::2]`, `x[1::2]`) count as overlapping: an answer on the safe side. Tensors without elements,
    and tensors whose layout has no single storage, overlap nothing unless they are one object.
    """
    if first is second:
        return True
    if first.layout is not torch.strided or second.layout is not torch.strided or first.device != second.device:
        return False
    (low, high), (other_low, other_high) = _address_range(first), _address_range(second)
    return low < other_high and other_low < high


def are_disjoint(written: Iterable[torch.Tensor], read: Iterable[torch.Tensor]) -> bool:
    """Whether no written tensor's address range meets another tensor's; in the sense of `memory_overlaps`."""
    written, read = tuple(written), tuple(read)
    answer = _native.are_disjoint(written, read) if can_read_tensors(_native) else None
    return _are_disjoint(written, read) if answer is None else answer


def _are_disjoint(written: Iterable[torch.Tensor], read: Iterable[torch.Tensor]) -> bool:
    """The same in Python, which asks subclasses by their methods."""
    ranges = [(*_address_range(tensor), True) for tensor in written]
    ranges += [(*_address_range(tensor), False) for tensor in read]
    ranges.sort()
    end = written_end = 0  # of all ranges so far, and of the written ones
    for low, high, is_written in ranges:
        if low < high:
            if low < (end if is_written else written_end):
                return False
            end = max(end, high)
            if is_written:
                written_end = max(written_end, high)
    return True


def _address_range(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.numel() == 0:
        return (0, 0)
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return (start, start + tensor.nbytes)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (start, start + (last + 1) * tensor.element_size())
