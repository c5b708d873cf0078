"""Rules that put tensors together or move them: cat, stack, pad, flip, roll, slice_scatter.

Each is a choice, by position, between loads that are masked to where they are wanted; the positions are affine, so
that kernels load as from any view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Node
from ..ir.symbols import is_static, same_dim
from .emit import same_shape
from .errors import NotConvertible
from .rules import rule

MANY = 16
"""Tensors in a cat from which ATen's copying wins over choosing between them."""


def window(c: Any, x: Node, shape: Sequence[Any], before: dict[int, Any]) -> tuple[Node, Node]:
    """x placed into `shape`, `before[d]` elements from the start of dimension d, and where it lies (a bool mask)."""
    indices, mask = {}, None
    for dim, start in before.items():
        place = c.positions(shape, dim, x.tensor.device)
        size = x.tensor.shape[dim]
        indices[dim] = c.sub(place, start)
        mask = both(c, mask, None if same_dim(start, 0) else c.ge(place, start))
        mask = both(c, mask, None if same_dim(start + size, shape[dim]) else c.lt(place, start + size))
    if mask is None:
        return x, c.full(True, c.out.like(shape=(1,) * len(shape)))
    return c.gather(x, indices, shape, mask=mask), mask


def both(c: Any, one: Node | None, other: Node | None) -> Node | None:
    """The conjunction of two masks, of which None is always true."""
    return one if other is None else other if one is None else c.logical_and(one, other)


@rule("cat.default", "concat.default", "concatenate.default")
def cat(c: Any, tensors: Sequence[Node], dim: int = 0) -> Node:
    """1-dimensional empty tensors are skipped, whatever the others are."""
    rank = len(c.out.shape)
    parts = [c.cast(x, c.out.dtype) for x in tensors if x.tensor.rank == rank and not _is_empty(x)]
    if len(parts) > MANY:
        raise NotConvertible("a cat of many tensors")
    dim %= rank
    return _cat(c, parts, dim)


def _cat(c: Any, parts: Sequence[Node], dim: int) -> Node:
    parts = _without_cuts(c, parts, dim)
    if len(parts) == 1:
        return parts[0]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + part.tensor.shape[dim])
    shape = (*parts[0].tensor.shape[:dim], starts[-1], *parts[0].tensor.shape[dim + 1 :])
    place = c.positions(shape, dim, c.out.device)
    result, _ = window(c, parts[-1], shape, {dim: starts[-2]})
    for part, start, end in list(zip(parts, starts, starts[1:], strict=False))[-2::-1]:
        value, _ = window(c, part, shape, {dim: start})
        result = c.where(c.lt(place, end), value, result)
    return result


def _without_cuts(c: Any, parts: Sequence[Node], dim: int) -> list[Node]:
    """Neighbours that are neighbouring slices of one tensor are one slice: a split that is put together again."""
    result: list[Node] = []
    for part in parts:
        before = _cut(result[-1], dim) if result else None
        cut = _cut(part, dim)
        if before and cut and before[0] is cut[0] and same_dim(before[1] + before[2], cut[1]):
            result[-1] = c.slice(cut[0], dim, before[1], before[2] + cut[2])
        else:
            result.append(part)
    return result


def _cut(x: Node, dim: int) -> tuple[Node, Any, Any] | None:
    """(tensor, start, length) of a slice by steps of 1 along `dim`."""
    if x.op != "slice" or x.attrs["dim"] != dim or x.attrs["step"] != 1:
        return None
    return x.args[0], x.attrs["start"], x.tensor.shape[dim]


def _is_empty(x: Node) -> bool:
    return any(is_static(size) and size == 0 for size in x.tensor.shape)


@rule("stack.default")
def stack(c: Any, tensors: Sequence[Node], dim: int = 0) -> Node:
    if len(tensors) > MANY:
        raise NotConvertible("a stack of many tensors")
    shape = c.out.shape
    dim %= len(shape)
    place = c.positions(shape, dim, c.out.device)
    column = (*shape[:dim], 1, *shape[dim + 1 :])
    parts = [c.reshape(c.cast(x, c.out.dtype), column) for x in tensors]
    result = c.expand(parts[-1], shape)
    for i in reversed(range(len(parts) - 1)):
        result = c.where(c.eq(place, i), parts[i], result)
    return result


@rule("constant_pad_nd.default", "pad.default")
def pad(c: Any, x: Node, pad: Sequence[Any], *rest: Any) -> Node:
    """Pairs (before, after) from the last dimension on; negative ones cut off."""
    mode, value = rest if len(rest) == 2 else ("constant", rest[0] if rest else 0)
    if mode != "constant" or not all(map(is_static, pad)):
        raise NotConvertible("a pad by symbols, or by a mode")
    before: dict[int, Any] = {}
    for i in range(len(pad) // 2):
        dim, low, high = x.tensor.rank - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = x.tensor.shape[dim]
        if low < 0 or high < 0:
            x = c.slice(x, dim, max(-low, 0), size + min(low, 0) + min(high, 0))
        if low > 0 or high > 0:
            before[dim] = max(low, 0)
    if not before:
        return x
    inner, mask = window(c, x, c.out.shape, before)
    return c.where(mask, inner, value or 0)


@rule("flip.default")
def flip(c: Any, x: Node, dims: Sequence[int]) -> Node:
    for dim in sorted({d % max(x.tensor.rank, 1) for d in dims}) if x.tensor.rank else ():
        x = c.flip(x, dim)
    return x


@rule("roll.default")
def roll(c: Any, x: Node, shifts: Any, dims: Any = ()) -> Node:
    shifts = (shifts,) if not isinstance(shifts, (tuple, list)) else shifts
    dims = (dims,) if isinstance(dims, int) else dims
    if not dims:
        flat = c.reshape(x, (x.tensor.numel,))
        return c.reshape(_rolled(c, flat, shifts[0], 0), c.out.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(c, x, shift, dim % x.tensor.rank)
    return x


def _rolled(c: Any, x: Node, shift: Any, dim: int) -> Node:
    """The last `shift` elements come first."""
    size = x.tensor.shape[dim]
    if not (is_static(size) and is_static(shift)):
        raise NotConvertible("a roll of symbolic size")
    shift %= max(size, 1)
    if shift == 0:
        return x
    return _cat(c, [c.slice(x, dim, size - shift, shift), c.slice(x, dim, 0, size - shift)], dim)


@rule("slice_scatter.default")
def slice_scatter(
    c: Any, x: Node, source: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Node:
    """x with the source in a slice of it."""
    from .rules_view import slice_start

    dim %= x.tensor.rank
    source = c.cast(source, c.out.dtype)
    if same_shape(source.tensor.shape, x.tensor.shape):
        return source
    size, length = x.tensor.shape[dim], source.tensor.shape[dim]
    first = slice_start(c, start, size)
    if step == 1:
        value, mask = window(c, source, x.tensor.shape, {dim: first})
        return c.where(mask, value, x)
    if _is_empty(source):
        return x
    offset = c.sub(c.positions(x.tensor.shape, dim, c.out.device), first)
    mask = c.logical_and(c.ge(offset, 0), c.lt(offset, length * step))
    mask = c.logical_and(mask, c.eq(c.remainder(offset, step), 0))
    value = c.gather(source, {dim: c.floor_divide(offset, step)}, x.tensor.shape, mask=mask)
    return c.where(mask, value, x)
