"""Horizontal fusion: kernels that differ in their tensors alone, or in the size of their one axis, become one call.

In: units in running order, the kernel of each. Out: the same, where groups of alike kernels are one `Batch`; and the
decisions. An optimizer's step over a hundred parameters is two or three calls then, and its text is compiled once.

Members must not depend on each other. Only kernels of the same depth (the longest chain of units before them) are taken
together, so that no cycle can arise. A kernel whose results are read again soon stays where it is if these are large:
they would have left the caches by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.graph import Node
from .compiled import FusionDecision
from .fusion import FusionPlan, Unit, in_order
from .kernel_ir import Affine, Batch, Buffer, Kernel
from .lower_kernel import Lowered
from .matmul_kernel import Product

LARGE = 1 << 18
"""Bytes of results from which a kernel stays beside those that read them."""

SIZE = "batch_size"
"""The symbol for the size of the one axis, where it is not the same for all members."""


@dataclass
class Batched:
    """Units in running order, the kernels of those that are no extern calls, and what was decided."""

    units: list[Unit]
    lowered: dict[Unit, Lowered]
    decisions: list[FusionDecision]


def batch(plan: FusionPlan, lowered: dict[Unit, Lowered], at_most: int) -> Batched:
    """See the module's docstring. `at_most`: buffers that one call may have."""
    before: Mapping[Unit, set[Unit]] = plan.before
    groups = [
        part
        for group in _alike(plan.units, lowered, before)
        for part in _parts(group, lowered, at_most)
        if len(part) > 1
    ]
    result = Batched(plan.units, lowered, [])
    for group in groups:
        first, rest = group[0], group[1:]
        low = _joined([lowered[unit] for unit in group])
        unit = Unit(first.index, [n for u in group for n in u.members], [n for u in group for n in u.stored],
                    first.iteration, frozenset().union(*(u.own for u in group)), segment=first.segment)  # fmt: skip
        result.lowered = {u: entry for u, entry in result.lowered.items() if u not in group} | {unit: low}
        names = ", ".join(lowered[u].kernel.name for u in rest[:3]) + (" …" if len(rest) > 3 else "")
        reason = f"one call for {len(group)} kernels that are alike"
        result.decisions.append(FusionDecision(lowered[first].kernel.name, names, True, reason))
        before = merged_before(before, group, unit)
    if groups:
        result.units = in_order(before)
        result.lowered = {unit: result.lowered[unit] for unit in result.units if unit in result.lowered}
    return result


# --- which ----------------------------------------------------------------------------------------------------------


def _alike(
    units: Sequence[Unit], lowered: dict[Unit, Lowered], before: Mapping[Unit, set[Unit]]
) -> list[list[Unit]]:
    depth: dict[Unit, int] = {}
    read = set().union(*before.values()) if before else set()
    groups: dict[Any, list[Unit]] = {}
    for unit in units:
        depth[unit] = 1 + max((depth[source] for source in before[unit]), default=0)
        if unit in lowered and _may_join(unit, lowered[unit].kernel, unit in read):
            device = unit.stored[0].tensor.device
            key = (unit.segment, depth[unit], device, signature(lowered[unit].kernel))
            groups.setdefault(key, []).append(unit)
    return list(groups.values())


def _may_join(unit: Unit, kernel: Kernel, is_read: bool) -> bool:
    sizes = [node.tensor.numel for node in unit.stored]
    is_static = all(isinstance(size, int) for size in (*sizes, *(axis.size for axis in kernel.axes)))
    if kernel.may_fail or isinstance(kernel, Product) or not is_static or not all(sizes):
        return False
    return not is_read or sum(node.tensor.numel * node.tensor.dtype.itemsize for node in unit.stored) <= LARGE


def _parts(group: list[Unit], lowered: dict[Unit, Lowered], at_most: int) -> list[list[Unit]]:
    """The group in pieces that have no more buffers than a call may have."""
    per_member = max(len(lowered[unit].nodes) for unit in group)
    count = max(at_most // per_member, 1)
    return [group[i : i + count] for i in range(0, len(group), count)]


def _has_free_size(kernel: Kernel) -> bool:
    """Whether the text of the kernel is the same for any size of its axis."""
    return not kernel.is_reduction and len(kernel.axes) == 1


def signature(kernel: Kernel) -> tuple[Any, ...]:
    """Equal for kernels that one text can do."""
    free = _has_free_size(kernel)
    number = {value: i for i, value in enumerate(kernel.body)}
    places = {buffer: i for i, buffer in enumerate(kernel.buffers)}
    return (
        tuple((axis.name, axis.kind, None if free else axis.size) for axis in kernel.axes),
        tuple((buffer.dtype, buffer.output) for buffer in kernel.buffers),
        tuple(
            (value.op, tuple(number[arg] for arg in value.args), value.dtype,
             tuple((key, _plain(value.attrs[key], places)) for key in sorted(value.attrs)))
            for value in kernel.body
        ),
        kernel.symbols,
        kernel.in_place,
    )  # fmt: skip


def _plain(item: Any, places: dict[Buffer, int]) -> Any:
    if isinstance(item, Buffer):
        return places[item]
    if isinstance(item, Affine):
        return frozenset(item.terms), item.offset
    return type(item).__name__, repr(item)


# --- the batch ------------------------------------------------------------------------------------------------------


def _joined(members: Sequence[Lowered]) -> Lowered:
    """The kernels as one. A tensor that several of them read is one buffer."""
    nodes: dict[tuple[Node, bool], Buffer] = {}
    for low in members:
        for node, buffer in zip(low.nodes, low.kernel.buffers, strict=True):
            nodes.setdefault((node, buffer.output), replace(buffer, name=f"b{len(nodes)}"))
    order = sorted(nodes, key=lambda key: key[1])
    number = {key: i for i, key in enumerate(order)}
    places = tuple(
        tuple(number[node, buffer.output] for node, buffer in zip(low.nodes, low.kernel.buffers, strict=True))
        for low in members
    )
    kernels = tuple(low.kernel for low in members)
    text = _text_of(kernels)
    return Lowered(
        Batch(
            f"{kernels[0].name}_x{len(kernels)}",
            text.axes,
            tuple(nodes[key] for key in order),
            tuple(value for kernel in kernels for value in kernel.body),
            symbols=text.symbols[: len(kernels[0].symbols)],
            in_place=text.in_place,
            text=text,
            members=kernels,
            places=places,
        ),
        tuple(node for node, _ in order),
    )


def _text_of(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel that does every member's work, over an axis of unknown size where sizes differ."""
    first = kernels[0]
    name = f"{first.name}_one"
    if len({kernel.axes for kernel in kernels}) == 1:
        return replace(first, name=name)
    import sympy

    largest = max(kernel.axes[0].hint for kernel in kernels)
    axis = replace(first.axes[0], size=sympy.Symbol(SIZE, integer=True, positive=True), hint=largest)
    return replace(first, name=name, axes=(axis,), symbols=(*first.symbols, SIZE))


# --- the order ------------------------------------------------------------------------------------------------------


def merged_before(before: Mapping[Unit, set[Unit]], group: Sequence[Unit], unit: Unit) -> dict[Unit, set[Unit]]:
    """What each unit waits for, once a unit stands for a group."""
    inside = set(group)
    result = {
        other: ({unit} | (sources - inside) if sources & inside else sources)
        for other, sources in before.items()
        if other not in inside
    }
    result[unit] = set().union(*(before[member] for member in group)) - inside
    return result
