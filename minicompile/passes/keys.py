"""The keys of all random operators of a graph are drawn in one call.

In, out: a Graph. Lowering draws a key for each operator (see lowering/rules_random.py): as many small ATen calls, and
on a GPU as many launches. Here the first of them draws all that are on its device, and each operator gets its slice.
Calls that draw numbers for anybody but kernels stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import VIEWS
from ..ir.random_keys import draw_keys, is_key
from ..ir.rewrite import keep


def run(graph: Graph) -> Graph:
    """One draw for each device, of which every random operator takes its part."""
    groups = _groups(graph)
    drawn: dict[torch.device, Node] = {}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        group = groups.get(node.tensor.device, []) if is_key(node) else []
        if node not in group or len(group) == 1:
            return keep(node, args)
        device = node.tensor.device
        if device not in drawn:
            drawn[device] = draw_keys(len(group), device, node.origin)
        place = {"dim": 0, "start": group.index(node), "step": 1}
        return Node("slice", (drawn[device],), place, node.tensor, node.origin)

    return graph.rewrite(rule)


def _groups(graph: Graph) -> dict[torch.device, list[Node]]:
    """Device → the calls there of which only kernels read the key."""
    users, handed_out = graph.users(), set(replace(graph, nodes=()).roots())  # outputs and writes, not effects
    groups: dict[torch.device, list[Node]] = {}

    def only_kernels_read(node: Node) -> bool:
        readers = users[node]
        return node not in handed_out and all(
            user.op == "philox" or user.op in VIEWS and only_kernels_read(user) for user in readers
        )

    for node in graph.nodes:
        if is_key(node) and only_kernels_read(node):
            groups.setdefault(node.tensor.device, []).append(node)
    return groups
