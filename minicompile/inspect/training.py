"""A drawing of the joint graph and its cut.

In: a `TrainingGraph`. Out: a `graphviz.Digraph`: forward blue, backward orange, what backward computes again half of
each, what is saved framed in red.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.dot import to_dot

if TYPE_CHECKING:
    import graphviz

    from ..runtime.autograd import TrainingGraph

FORWARD, BACKWARD = "#cfe2f3", "#fce0c3"


def joint_to_dot(training: TrainingGraph) -> graphviz.Digraph:
    """Draw the joint graph; edges into backward come from saved values."""
    joint, cut = training.joint, set(training.split.cut)
    drawing = to_dot(joint.graph)
    backward = set(joint.graph.inputs[joint.n_inputs :])
    for node in joint.graph.nodes:
        if not backward.isdisjoint(node.operands()):
            backward.add(node)
    origins = {(node.op, node.type, node.origin) for node in training.split.backward.nodes}
    for i, node in enumerate((*joint.graph.inputs, *joint.graph.nodes)):
        again = node not in backward and (node.op, node.type, node.origin) in origins
        colour = BACKWARD if node in backward else f"{FORWARD}:{BACKWARD}" if again else FORWARD
        frame = {"color": "#cc0000", "penwidth": "2"} if node in cut else {}
        drawing.node(f"n{i}", fillcolor=colour, **frame)
    return drawing
