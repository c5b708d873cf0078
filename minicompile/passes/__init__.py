"""Passes: each improves a graph and keeps its meaning.

In: an `ir.Graph`.
Out: an `ir.Graph` that computes the same, verified after every pass.

A pass is a module with `run(graph) -> Graph`; one idea a file. The order matters little, since the sequence is
repeated until nothing changes (two rounds nearly always).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config import config
from ..ir.graph import Graph
from ..ir.verifier import verify
from . import addmm, algebra, attention, bias, cse, dce, fold, gathers, keys, masks

__all__ = ["PASSES", "run"]

PASSES: dict[str, Callable[[Graph], Graph]] = {
    "dce": dce.run,
    "fold": fold.run,
    "algebra": algebra.run,
    "cse": cse.run,
    "attention": attention.run,
    "masks": masks.run,
    "addmm": addmm.run,
    "bias": bias.run,
    "gathers": gathers.run,
    "keys": keys.run,
}
"""Name → pass, in the order in which they run."""

EXACT = ("dce", "cse")
"""The passes that change no operation: all that run under `config.exact`."""

_MAX_ROUNDS = 4


def run(graph: Graph, names: Sequence[str] | None = None, history: list[tuple[str, Graph]] | None = None) -> Graph:
    """Run passes, and at the end drop what became dead.

    Args:
        names: passes by name, in order, each once; None: all, repeated until nothing changes.
        history: receives (pass name, graph after it) for every pass that changed something.
    Raises:
        ValueError: an unknown name.
        VerifyError: a pass broke a rule of the IR.
    """
    verify(graph)
    if names is not None:
        return _round(graph, names, history)
    names = [*(EXACT if config.exact else PASSES), "dce"]
    for _ in range(_MAX_ROUNDS):
        new = _round(graph, names, history)
        if new.nodes == graph.nodes:
            return new
        graph = new
    return graph


def _round(graph: Graph, names: Sequence[str], history: list[tuple[str, Graph]] | None) -> Graph:
    for name in names:
        if name not in PASSES:
            raise ValueError(f"no pass {name!r}; known are {', '.join(PASSES)}")
        new = PASSES[name](graph)
        if new.nodes == graph.nodes and new.outputs == graph.outputs and new.writes == graph.writes:
            continue
        graph = verify(new, since=graph)
        if history is not None:
            history.append((name, graph))
    return graph
