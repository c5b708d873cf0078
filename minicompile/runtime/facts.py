"""What a graph raises that was compiled for numbers of another kind.

In: a graph, and what was taken for granted about data and does not hold in this call. Out: an error that says for how
many calls in a row this has been so, by which the frontend tells an exception from a habit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chained import ChainedGraph


class FactMissed(RuntimeError):
    """A number that depends on data is not what the program was compiled for: this call runs in eager. `times`: how
    often in a row."""

    def __init__(self, graph: ChainedGraph, fact: str) -> None:
        super().__init__(fact)
        graph.misses += 1
        self.graph = graph
        self.times = graph.misses
