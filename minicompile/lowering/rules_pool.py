"""Rules for pooling over small windows: one masked load for each place of the window.

Windows are unrolled, so that a pooling fuses with what stands before and behind it; large ones stay ATen's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.graph import Node
from ..ir.symbols import is_static
from ..ir.types import dtype_kind
from .errors import NotConvertible
from .rules import rule
from .rules_window import both

LARGEST = 25
"""Places of a window up to which it is unrolled."""


def _pairs(value: Any, default: Sequence[int], rank: int) -> tuple[int, ...]:
    value = tuple(value) or tuple(default)
    return value * rank if len(value) == 1 else value


@dataclass
class Windows:
    """The geometry of one pooling over the last `rank` dimensions of `x`."""

    c: Any
    x: Node
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def __post_init__(self) -> None:
        places = 1
        for size in self.kernel:
            places *= size
        if places > LARGEST or not all(map(is_static, self.sizes)) or dtype_kind(self.x.tensor.dtype) != "f":
            raise NotConvertible("a large window, symbolic sizes, or integers")

    @property
    def first(self) -> int:
        return self.x.tensor.rank - len(self.kernel)

    @property
    def sizes(self) -> tuple[Any, ...]:
        return tuple(self.x.tensor.shape[self.first :])

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.c.out.shape)

    def starts(self, i: int) -> Node:
        """Where the windows begin along pooled dimension `i`; negative inside the padding."""
        place = self.c.positions(self.shape, self.first + i, self.x.tensor.device)
        return self.c.sub(self.c.mul(place, self.stride[i]), self.padding[i])

    def loads(self, outside: float) -> Iterator[tuple[Node, Node]]:
        """(value, flat index in the pooled dimensions) of each place of the window; `outside` in the padding."""
        for place in itertools.product(*map(range, self.kernel)):
            indices: dict[int, Node] = {}
            mask: Node | None = None
            flat: Any = None
            for i, offset in enumerate(place):
                index = self.c.add(self.starts(i), offset * self.dilation[i])
                mask = both(self.c, mask, self._inside(i, index, offset * self.dilation[i]))
                indices[self.first + i] = index
                flat = index if flat is None else self.c.add(self.c.mul(flat, self.sizes[i]), index)
            value = self.c.gather(self.x, indices, self.shape, mask=mask)
            yield (value if mask is None else self.c.where(mask, value, outside)), flat

    def _inside(self, i: int, index: Node, offset: int) -> Node | None:
        """A mask only where some window reaches beyond an edge."""
        low, high = None, None
        if offset - self.padding[i] < 0:
            low = self.c.ge(index, 0)
        if (self.shape[self.first + i] - 1) * self.stride[i] - self.padding[i] + offset >= self.sizes[i]:
            high = self.c.lt(index, self.sizes[i])
        return both(self.c, low, high)


# --- maximum --------------------------------------------------------------------------------------------------------


def _max_pool(rank: int) -> Any:
    def convert(
        c: Any, x: Node, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil: bool = False
    ) -> list[Node | None]:
        kernel = _pairs(kernel, (), rank)
        w = Windows(c, x, kernel, _pairs(stride, kernel, rank), _pairs(padding, (), rank), _pairs(dilation, (), rank))
        if not c.is_used(1):
            best = None
            for value, _ in w.loads(float("-inf")):
                best = value if best is None else c.maximum(best, value)
            return [best, None]
        return list(_max_with_places(c, w))

    return convert


def _max_with_places(c: Any, w: Windows) -> tuple[Node, Node]:
    """As eager walks the window: the first of equal values, the last NaN; a window of -inf is found at its start."""
    if set(w.dilation) != {1}:
        raise NotConvertible("the places of a dilated window")
    best = c.expand(c.full(float("-inf"), c.out.like(shape=(1,) * len(w.shape))), w.shape)
    flat = None
    for i, size in enumerate(w.sizes):
        start = c.maximum(w.starts(i), 0)
        flat = start if flat is None else c.add(c.mul(flat, size), start)
    place = c.expand(flat, w.shape)
    for value, index in w.loads(float("-inf")):
        better = c.logical_or(c.gt(value, best), c.isnan(value))
        best, place = c.where(better, value, best), c.where(better, index, place)
    return best, place


rule("max_pool2d_with_indices.default")(_max_pool(2))
rule("max_pool3d_with_indices.default")(_max_pool(3))


# --- average --------------------------------------------------------------------------------------------------------


def _avg_pool(rank: int) -> Any:
    def convert(
        c: Any, x: Node, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Node:
        kernel = _pairs(kernel, (), rank)
        wide = c.upcast(x)
        w = Windows(c, wide, kernel, _pairs(stride, kernel, rank), _pairs(padding, (), rank), (1,) * rank)
        total = None
        for value, _ in w.loads(0.0):
            total = value if total is None else c.add(total, value)
        count = divisor_override or _count(c, w, count_include_pad)
        count = c.cast(count, wide.tensor.dtype) if isinstance(count, Node) else count
        return c.cast(c.div(total, count), c.out.dtype)

    return convert


def _count(c: Any, w: Windows, count_padding: bool) -> Any:
    """Elements that each window averages: all, or those inside; ATen cuts windows at the end of the padding."""
    count: Any = 1
    for i, size in enumerate(w.sizes):
        last = (w.shape[w.first + i] - 1) * w.stride[i] - w.padding[i] + w.kernel[i]
        if last <= size + w.padding[i] * count_padding and (count_padding or not w.padding[i]):
            length: Any = w.kernel[i]
        else:
            start, limit = w.starts(i), size + w.padding[i] * count_padding
            end = c.minimum(c.add(start, w.kernel[i]), limit)
            length = c.sub(end, start if count_padding else c.maximum(start, 0))
        count = length if count == 1 else count * length if _plain(count, length) else c.mul(length, count)
    return count


def _plain(*values: Any) -> bool:
    return all(isinstance(value, int) for value in values)


rule("avg_pool2d.default")(_avg_pool(2))
rule("avg_pool3d.default")(_avg_pool(3))
