"""Which buffer lives when, and whose memory a dead one passes on.

In: the units in running order, the nodes each stores and reads.
Out: `MemoryPlan`: for every stored node either a fresh allocation or the name of a dead buffer of the same dtype,
size and device; and after which unit a buffer dies.

Never reused: what an output or a written value needs (it lives to the end), and what an extern call returned (it may be
a view of something). A buffer that the very kernel which would overwrite it still reads is passed on only where that
kernel may work in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ..ir.graph import Node
from ..ir.types import Dim
from .prepare import storage_strides
from .views import is_dense


@dataclass
class MemoryPlan:
    """reuse: stored node → dead node whose tensor it takes. dies: unit index in order → nodes dead after it."""

    reuse: dict[Node, Node] = field(default_factory=dict)
    dies: list[list[Node]] = field(default_factory=list)

    def first(self, node: Node) -> Node:
        """The node that was stored first in the memory that this one is stored in."""
        while node in self.reuse:
            node = self.reuse[node]
        return node


def plan_memory(
    stores: Sequence[Sequence[Node]],
    reads: Sequence[Collection[Node]],
    alive_to_the_end: Collection[Node],
    reusable: Collection[Node],
    may_overwrite: Callable[[int, Node, Node], bool] = lambda unit, dying, stored: False,
) -> MemoryPlan:
    """Args are per unit in running order.

    `reusable`: nodes whose memory came from an allocation of ours. `may_overwrite(unit, dying, stored)`: whether a unit
    may store a node over one that it reads for the last time.
    """
    plan = MemoryPlan(dies=_dying(stores, reads, alive_to_the_end))
    free: dict[tuple[object, ...], list[Node]] = {}
    for i, written in enumerate(stores):
        ours = [node for node in written if node in reusable]
        left = [node for node in plan.dies[i] if node in reusable and node not in written]
        for node in ours:
            same = [dying for dying in left if _size(dying) == _size(node) and may_overwrite(i, dying, node)]
            if same:
                plan.reuse[node] = same[0]
                left.remove(same[0])
            elif free.get(_size(node)):
                plan.reuse[node] = free[_size(node)].pop()
        for node in plan.dies[i]:
            if node in left or node in ours:  # not what was stored over just now
                free.setdefault(_size(node), []).append(node)
    return plan


def _dying(
    stores: Sequence[Sequence[Node]], reads: Sequence[Collection[Node]], alive_to_the_end: Collection[Node]
) -> list[list[Node]]:
    """For each unit, the nodes that it is the last to write or read."""
    last: dict[Node, int] = {}
    for i, (written, read) in enumerate(zip(stores, reads, strict=True)):
        last.update({node: i for node in (*written, *read)})
    dies: list[list[Node]] = [[] for _ in stores]
    for node, i in last.items():
        if node not in alive_to_the_end:
            dies[i].append(node)
    return dies


def lives(plan: MemoryPlan, stores: Sequence[Sequence[Node]], ours: Collection[Node]) -> dict[Node, tuple[int, int]]:
    """Each piece of memory that is born or dies, by the node that is first stored there: the numbers of the unit that
    stores it (-1: nothing of ours allocates it) and of the last that needs it (the number of units: it lives on)."""
    passed_on = set(plan.reuse.values())
    allocated = {node: i for i, nodes in enumerate(stores) for node in nodes if node in ours and node not in plan.reuse}
    found = {node: (birth, len(stores)) for node, birth in allocated.items()}
    for i, dead in enumerate(plan.dies):
        for node in dead:
            if node not in passed_on:
                first = plan.first(node)
                found[first] = allocated.get(first, -1), i
    return found


def extent(node: Node) -> Dim:
    """The elements of memory that a node takes, which an exact layout may have gaps between."""
    type, strides = node.tensor, storage_strides(node)
    if is_dense(type.like(shape=type.shape, strides=strides)):
        return type.numel
    return 1 + sum((size - 1) * stride for size, stride in zip(type.shape, strides, strict=True))


def _size(node: Node) -> tuple[object, ...]:
    """What must be equal."""
    return node.tensor.dtype, extent(node), node.tensor.device
