"""Lowering: a torch-level FX graph becomes an `ir.Graph`, for inference.

In: `torch.fx.GraphModule` and its example inputs.
Out: `ir.Graph`, functional, typed, with the user's source lines.

Two steps: trace.py runs the graph once on functional fake tensors and records pure ATen calls; convert.py turns the
calls into IR nodes by the rules in rules_*.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.graph import Graph
from .errors import LoweringError

if TYPE_CHECKING:
    import torch

__all__ = ["LoweringError", "lower"]


def lower(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], name: str = "graph") -> Graph:
    """Lower an FX graph, with gradients off.

    Args:
        gm: torch-level or ATen-level calls; placeholders for tensors and sizes only.
        example_inputs: one per placeholder: fake or real tensors, SymInts or ints. Real tensors only lend their
            metadata; they are neither read nor written.
        name: becomes the graph's name.
    Returns:
        A graph that computes, for inputs of the same metadata, exactly what `gm` would, input mutation included.
    Raises:
        LoweringError: the graph has no functional form here (the message says why); run it in eager.
    """
    from .convert import Converter
    from .rule_tables import load_rules
    from .trace import trace

    load_rules()
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    return Converter(trace(gm, example_inputs), name).run(names)
