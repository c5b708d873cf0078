"""What kernels cost at least: bytes that travel and floating-point operations, against what the graph needs.

In: a `CompiledGraph`. Out: `Cost` per kernel and per extern call, and the least that any compiler could move: every
input that is read once in, every result once out. Sizes may be expressions; `hinted` gives
the number for the sizes seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..ir.graph import BufferView, Graph, Node, nodes_in
from ..ir.ops import CREATION, REDUCTIONS, SCANS, VIEWS, is_pointwise
from ..ir.symbols import evaluate, free_symbols
from ..ir.types import Dim, TensorType

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph, KernelInfo


@dataclass(frozen=True)
class Cost:
    """Bytes loaded and stored, each tensor once; floating-point (or integer) operations, a transcendental as one."""

    bytes: Dim
    flops: Dim


def kernel_cost(compiled: CompiledGraph, kernel: KernelInfo) -> Cost:
    """Of one kernel, for the sizes that the graph was traced with. No operations for a graph without its IR."""
    nodes = compiled.prepared.nodes if compiled.prepared is not None else ()
    flops = total(node_flops(nodes[number]) for number in kernel.nodes)
    return Cost(hinted(kernel.bytes_moved, compiled.ir), hinted(flops, compiled.ir))


def extern_costs(compiled: CompiledGraph) -> list[tuple[int, Node, Cost]]:
    """Each extern call: its position in the prepared graph, the node, the cost."""
    found = []
    for position, node in enumerate(compiled.prepared.nodes if compiled.prepared is not None else ()):
        if node.op == "extern":
            size = hinted(total(map(bytes_of, {node, *node.operands()})), compiled.ir)
            found.append((position, node, Cost(size, extern_flops(node, compiled.ir.symbols))))
    return found


def least_bytes(graph: Graph) -> int:
    """Every input that something reads once, every result and written input once."""
    read = {operand for node in graph.nodes for operand in node.operands()}
    results = {node for out in graph.outputs for node in nodes_in(out.buffer if isinstance(out, BufferView) else out)}
    written = {node for _, node in graph.writes}
    read |= (results | written) & set(graph.inputs)
    moved = [node for node in graph.inputs if node in read] + list(results) + list(written)
    return hinted(total(map(bytes_of, moved)), graph)


def bytes_of(node: Node) -> Dim:
    """Size in memory; views and constants have none of their own."""
    if node.op in CREATION:
        return 0
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    return total(type.numel * type.dtype.itemsize for type in types if isinstance(type, TensorType))


def node_flops(node: Node) -> Dim:
    """One operation for every element computed, or reduced; views, copies and constants none."""
    if node.op in VIEWS or node.op in CREATION or node.op == "cast" or not isinstance(node.type, TensorType):
        return 0
    if node.op in REDUCTIONS or node.op in SCANS:
        return node.operands()[0].tensor.numel
    return node.tensor.numel if is_pointwise(node.op) else 0


def extern_flops(node: Node, symbols: Mapping[str, int]) -> int:
    """torch's own count for matrix products, convolutions and attention; 0 for other calls."""
    from torch.utils.flop_counter import flop_registry

    target = getattr(node.attrs["target"], "overloadpacket", None)
    if str(target).startswith("aten._scaled_dot_product"):  # one count for every implementation
        target = torch.ops.aten._scaled_dot_product_flash_attention
    counter = flop_registry.get(target)
    if counter is None:
        return 0
    shapes = [_shape(arg, symbols) for arg in node.args]
    try:
        return int(counter(*shapes, out_val=_shape(node, symbols)))
    except (TypeError, ValueError, IndexError, AssertionError):  # a call in a form that the counter does not know
        return 0




def _shape(arg: Any, symbols: Mapping[str, int]) -> Any:
    if isinstance(arg, Node) and isinstance(arg.type, TensorType):
        return tuple(_number(size, symbols) for size in arg.type.shape)
    return arg


def hinted(size: Dim, graph: Graph) -> int:
    """The number that an expression is for the sizes that the graph was traced with."""
    return _number(size, graph.symbols)


def _number(size: Dim, symbols: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return int(evaluate(size, {name: symbols.get(name, 128) for name in free_symbols(size)}))


def total(sizes: Iterable[Dim]) -> Dim:
    """The sum of sizes, a Dim."""
    result: Dim = 0
    for size in sizes:
        result = result + size
    return result
