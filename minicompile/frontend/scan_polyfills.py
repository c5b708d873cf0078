"""Loops over tensors that torch has as operators (`associative_scan`, `scan`, `map`), in Python that traces.

In and out: as documented for the function of the same name. Nothing here is ever run, only traced. The two whose steps
follow one another are unrolled, so `values.higher_order` has a say in how many there may be.
"""

# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """`torch._higher_order_ops.associative_scan`: neighbours are joined, and what is between them by recursion."""
    leaves, spec = pytree.tree_flatten(xs)
    if combine_mode == "pointwise" and any(leaf.device.type not in ("cuda", "xpu") for leaf in leaves):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    rows = [torch.movedim(leaf, dim, 0) for leaf in leaves]
    rows = [torch.flip(row, [0]) for row in rows] if reverse else rows
    batched = torch.vmap(combine_fn)

    def join(left, right):
        return pytree.tree_leaves(batched(pytree.tree_unflatten(left, spec), pytree.tree_unflatten(right, spec)))

    rows = _scanned(join, rows)
    rows = [torch.flip(row, [0]) for row in rows] if reverse else rows
    return pytree.tree_unflatten([torch.movedim(row, 0, dim) for row in rows], spec)


def _scanned(join, rows):
    count = rows[0].shape[0]
    if count < 2:
        return rows
    odd = _scanned(join, join([row[:-1:2] for row in rows], [row[1::2] for row in rows]))
    if count == 2:
        return [torch.cat([row[:1], late]) for row, late in zip(rows, odd)]  # noqa: B905
    before = [row[:-1] for row in odd] if count % 2 == 0 else odd
    even = join(before, [row[2::2] for row in rows])
    even = [torch.cat([row[:1], late]) for row, late in zip(rows, even)]  # noqa: B905
    return [_interleaved(early, late) for early, late in zip(even, odd)]  # noqa: B905


def _interleaved(even, odd):
    last = even[odd.shape[0] :]
    pairs = torch.stack([even[: odd.shape[0]], odd], 1).flatten(0, 1)
    return torch.cat([pairs, last]) if last.shape[0] else pairs


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """`torch._higher_order_ops.scan`."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    places = range(leaves[0].shape[dim])
    carry, made, made_spec = init, [], None
    for place in reversed(places) if reverse else places:
        carry, out = combine_fn(carry, pytree.tree_unflatten([leaf.select(dim, place) for leaf in leaves], spec))
        parts, made_spec = pytree.tree_flatten(out)
        made.append(parts)
    if reverse:
        made.reverse()
    stacked = [torch.movedim(torch.stack(parts), 0, dim) for parts in zip(*made)]  # noqa: B905
    return carry, pytree.tree_unflatten(stacked, made_spec)


def map(f, xs, *args):  # noqa: A001
    """`torch._higher_order_ops.map`."""
    leaves, spec = pytree.tree_flatten(xs)
    made, made_spec = [], None
    for place in range(leaves[0].shape[0]):
        parts, made_spec = pytree.tree_flatten(f(pytree.tree_unflatten([leaf[place] for leaf in leaves], spec), *args))
        made.append(parts)
    return pytree.tree_unflatten([torch.stack(parts) for parts in zip(*made)], made_spec)  # noqa: B905
