"""Which memory a kernel may overwrite while it still reads it.

In: a kernel and which of its buffers is to be the same memory as which output. Out: whether that is safe.

It is where every element is read, in the very iteration that writes it, before it is written: a pointwise kernel whose
loads from the buffer have the index of the store. Not where the loop may be run a second time (`has_fast_form`), where
a tile is copied first, or where rows are walked several times."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph, Node
from .cpp_text import has_fast_form
from .cpp_tiles import transposed_axis
from .fusion import Unit
from .kernel_ir import Affine, Batch, Kernel, Value
from .matmul_kernel import Product
from .prepare import Views, storage_strides
from .views import same_strides


def reads_before_it_writes(kernel: Kernel) -> bool:
    """Whether each iteration of this kernel stands alone: then an output may lie over an input of the same index."""
    if isinstance(kernel, Batch):
        return all(map(reads_before_it_writes, kernel.members))
    if isinstance(kernel, Product):
        return False  # a factor's element is read for many results
    alone = not kernel.is_reduction and not kernel.may_fail and transposed_axis(kernel) is None
    return alone and not any(has_fast_form(value) or value.attrs.get("strides") for value in kernel.body)


def may_overwrite(kernel: Kernel, read: int, written: int) -> bool:
    """Whether buffer number `written`, an output, may be the same memory as buffer number `read`."""
    if isinstance(kernel, Batch):
        return _member_may_overwrite(kernel, read, written)
    if not reads_before_it_writes(kernel):
        return False
    source, target = kernel.buffers[read], kernel.buffers[written]
    if source.output or source.dtype != target.dtype or source.numel != target.numel:
        return False
    loads = [value for value in kernel.body if value.op == "load" and value.attrs["buffer"] is source]
    stores = [value for value in kernel.body if value.op == "store" and value.attrs["buffer"] is target]
    if len(stores) != 1 or len({_place(value) for value in (*loads, *stores)}) != 1:
        return False
    after = kernel.body[kernel.body.index(stores[0]) :]
    return not any(value in after or value.attrs.get("masked") for value in loads)


def _member_may_overwrite(batch: Batch, read: int, written: int) -> bool:
    """In a batch, it may if nobody but the member that writes reads the buffer."""
    found = [(kernel, own) for kernel, own in zip(batch.members, batch.places, strict=True) if read in own]
    if len(found) != 1 or written not in found[0][1]:
        return False
    kernel, own = found[0]
    return may_overwrite(kernel, own.index(read), own.index(written))


def _place(value: Value) -> tuple[object, ...]:
    index: Affine = value.attrs["index"]
    return frozenset(index.terms), index.offset


def direct_writes(
    graph: Graph, units: Sequence[Unit], kernels: dict[Unit, tuple[Kernel, tuple[Node, ...]]], views: Views
) -> dict[Node, Node]:
    """Results that may be computed straight into the inputs that they are to overwrite: stored node → input.

    The input must not be read by a later unit, and nothing after the write may fail: when a call raises, it must have
    changed nothing; nor may an extern call have seen it, whose result may be a view of it. A node that is also
    returned, or written twice, keeps memory of its own.
    """
    written = [views.base(node) for _, node in graph.writes if not _is_size(node)]
    lent = {views.base(arg) for unit in units if unit.is_extern for arg in unit.members[0].operands()}
    result: dict[Node, Node] = {}
    for index, node in graph.writes:
        target, base = graph.inputs[index], views.base(node)
        at = next((i for i, unit in enumerate(units) if base in unit.stored), None)
        if at is None or units[at] not in kernels or written.count(base) != 1 or base in _returned(graph, views):
            continue
        if _fits(target, node, base) and _is_last_use(target, units[at:], kernels) and target not in lent:
            kernel, nodes = kernels[units[at]]
            if _may_write(kernel, nodes, target, base):
                result[base] = target
    return result


def _is_size(node: Node) -> bool:
    return not hasattr(node.type, "strides")


def _returned(graph: Graph, views: Views) -> set[Node]:
    nodes = [getattr(out, "buffer", out) for out in graph.outputs]
    return {views.base(node) for node in nodes if isinstance(node, Node) and not _is_size(node)}


def _fits(target: Node, node: Node, base: Node) -> bool:
    """Whether the node is its whole memory, laid out as the input is."""
    ours, theirs = base.tensor, target.tensor
    same = node is base and ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.device == theirs.device
    return same and same_strides(ours.shape, storage_strides(base), theirs.strides)


def _is_last_use(target: Node, units: Sequence[Unit], kernels: dict[Unit, tuple[Kernel, tuple[Node, ...]]]) -> bool:
    """Whether after the first of these units none reads the input or may fail."""
    for unit in units[1:]:
        if unit not in kernels or kernels[unit][0].may_fail or target in kernels[unit][1]:
            return False
    return True


def _may_write(kernel: Kernel, nodes: tuple[Node, ...], target: Node, base: Node) -> bool:
    """Whether this kernel may store the node into the input: it does not read the input, or reads it in step."""
    if target not in nodes:
        return reads_before_it_writes(kernel)
    return may_overwrite(kernel, nodes.index(target), nodes.index(base))
