"""Writes to views in which several elements are one place in memory, and to what the same call reads in other places.

In: FX nodes that stand for tensors. Out: whether a call that writes some of them is such a write. Eager refuses most
of these, and of the others each has a result of its own: functionalization, which knows views as copies that are put
back, has no place for them. So they are left to eager.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ..torch_compat import storage_id

_VIEWING = (int, torch.SymInt, slice, type(None), type(...))
"""Indices that give views."""


def writes_shared_elements(node: fx.Node) -> bool:
    """Whether the tensor of the node, or one that it is a view of, has elements that share memory."""
    return any(map(has_shared_elements, _chain(node)))


def reads_what_it_writes(written: list[fx.Node], operands: list[fx.Node]) -> bool:
    """Whether an operand that is written and another one share a part of their memory, and not place by place."""
    places: dict[int, list[torch.Tensor]] = {}
    for node in operands:
        storage = _storage(node.meta.get("example_value"))
        if storage is not None:
            places.setdefault(storage, []).append(node.meta["example_value"])
    values = [node.meta.get("example_value") for node in written]
    return any(_meet_in_part(value, other) for value in values for other in places.get(_storage(value) or 0, ()))


def reads_what_it_puts(base: fx.Node, index: Any, item: Any) -> bool:
    """`reads_what_it_writes` of `base[index] = item`, for an index that gives a view."""
    parts = index if isinstance(index, tuple) else (index,)
    if not isinstance(item, fx.Node) or not all(type(part) in _VIEWING for part in parts):
        return False
    written, read = base.meta["example_value"], item.meta.get("example_value")
    if not isinstance(read, torch.Tensor) or not same_memory(written, read):
        return False
    return _meet_in_part(written[index], read)


def _meet_in_part(first: torch.Tensor, second: torch.Tensor) -> bool:
    """For two tensors of one storage; as eager does, only those without gaps are looked at."""
    if first is second:
        return False
    one, other = _range(first), _range(second)
    if one is None or other is None or one[0] >= other[1] or other[0] >= one[1]:
        return False
    return one != other or first.stride() != second.stride()


def _range(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Where in memory a tensor begins and ends; None if it has gaps."""
    sizes, strides = map(_numbers, (tensor.shape, tensor.stride()))
    count = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1 and stride != count:
            return None
        count *= size
    (start,) = _numbers((tensor.storage_offset(),))
    return start, start + count


def _chain(node: fx.Node) -> Iterator[torch.Tensor]:
    """The node's tensor, and those that it was made of and shares memory with."""
    seen, todo = {node}, [node]
    storage = _storage(node.meta.get("example_value"))
    while todo:
        current = todo.pop()
        value = current.meta.get("example_value")
        if storage is not None and _storage(value) == storage:
            yield value
        elif current.target is not operator.getitem and not isinstance(value, (tuple, list)):
            continue
        new = [argument for argument in current.all_input_nodes if argument not in seen]
        seen.update(new)
        todo += new


def same_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are views of one storage."""
    storage = _storage(first)
    return storage is not None and storage == _storage(second)


def _storage(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return storage_id(value)


def has_shared_elements(tensor: torch.Tensor) -> bool:
    """Whether two elements may be one place: some stride does not step over all that the smaller ones reach. Symbolic
    sizes count as they are in this call."""
    sizes, strides = map(_numbers, (tensor.shape, tensor.stride()))
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 0:
            return False
        if size != 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


def _numbers(dims: Any) -> list[int]:
    """Sizes or strides as numbers; 1 for those that nobody knows."""
    return [dim if isinstance(dim, int) else int(dim.node.hint) if dim.node.has_hint() else 1 for dim in dims]
