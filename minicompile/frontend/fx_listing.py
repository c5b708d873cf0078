"""A captured FX graph as plain data, and back.

In: a GraphModule that tracing made: placeholders and calls, no attributes. Out: a `FxListing`, which can be stored;
from it the GraphModule again, with the same nodes and origins, without the fake values that tracing ran on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .fingerprints import NotPortable


@dataclass(frozen=True)
class NodeRef:
    """A node, by its number."""

    number: int


@dataclass
class FxListing:
    """Per node: op, name, target, args, kwargs, origin."""

    nodes: list[tuple[Any, ...]]

    def module(self) -> torch.fx.GraphModule:
        """The graph, made anew."""
        graph = torch.fx.Graph()
        made: list[torch.fx.Node] = []
        for op, name, target, args, kwargs, origin in self.nodes:
            node = graph.create_node(op, target, _filled(args, made), _filled(kwargs, made), name)
            if origin is not None:
                node.meta["origin"] = origin
                node.stack_trace = f'  File "{origin.file}", line {origin.line}, in {origin.function}\n'
            made.append(node)
        return torch.fx.GraphModule({}, graph, "CapturedGraph")


def list_graph(gm: torch.fx.GraphModule) -> FxListing:
    """Raises NotPortable for a graph that refers to attributes."""
    numbers = {node: number for number, node in enumerate(gm.graph.nodes)}
    if any(node.op in ("get_attr", "call_module") for node in numbers):
        raise NotPortable("the graph refers to attributes of its own")
    return FxListing(
        [
            (node.op, node.name, node.target, _emptied(node.args, numbers), _emptied(node.kwargs, numbers),
             node.meta.get("origin"))
            for node in numbers
        ]
    )  # fmt: skip


def _emptied(value: Any, numbers: dict[torch.fx.Node, int]) -> Any:
    if isinstance(value, torch.fx.Node):
        return NodeRef(numbers[value])
    if isinstance(value, dict):
        return {key: _emptied(item, numbers) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_emptied(part, numbers) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)) and type(value) is not torch.Size:
        items = [_emptied(item, numbers) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _filled(value: Any, made: list[torch.fx.Node]) -> Any:
    if isinstance(value, NodeRef):
        return made[value.number]
    if isinstance(value, dict):
        return {key: _filled(item, made) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_filled(part, made) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)) and type(value) is not torch.Size:
        items = [_filled(item, made) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value
