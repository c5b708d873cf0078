"""What recording a compiled graph as a CUDA graph must know, read off its IR.

In: the Graph that was compiled. Out: `Facts`; their `reason` says why the graph cannot be recorded.
"""

from __future__ import annotations

import torch

from ..ir.graph import Graph, InputView, Node
from ..ir.types import SizeType, TensorType
from ..runtime.cuda_graphs import Facts, InputPlace


def facts_of(graph: Graph) -> Facts:
    """See the module's docstring."""
    views = {
        k: InputPlace(out.input, out.whole, out.detached)
        for k, out in enumerate(graph.outputs)
        if isinstance(out, InputView)
    }
    tensors = tuple(i for i, node in enumerate(graph.inputs) if isinstance(node.type, TensorType))
    written = frozenset(index for index, _ in graph.writes)
    reason = _why_not(graph)
    types = (node.type for node in (*graph.inputs, *graph.nodes) if isinstance(node.type, TensorType))
    device = None if reason is not None else next((type.device.index or 0 for type in types), None)
    return Facts(tensors, written, views, bool(graph.symbols), reason, device)


def _why_not(graph: Graph) -> str | None:
    types = {node: node.type for node in (*graph.inputs, *graph.nodes) if isinstance(node.type, TensorType)}
    devices = {type.device for type in types.values()}
    if any(device.type != "cuda" for device in devices):
        return "a tensor lies on the CPU"
    if len(devices) != 1:
        return "tensors lie on several GPUs"
    for node in graph.nodes:
        if node.op == "extern" and (reason := _extern_reason(node)) is not None:
            return reason
    return None


def _extern_reason(node: Node) -> str | None:
    target = node.attrs["target"]
    tags = getattr(target, "tags", ())
    if isinstance(node.type, SizeType) or torch.Tag.data_dependent_output in tags:
        return f"{target} waits for the GPU"
    if torch.Tag.dynamic_output_shape in tags:
        return f"the shape of what {target} returns depends on data"
    if node.attrs.get("effect") and torch.Tag.nondeterministic_seeded not in tags:
        return f"{target} does more than return a value"
    return None
