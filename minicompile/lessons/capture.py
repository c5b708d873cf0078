"""Session 2: what does the front end capture? Lines, nodes, and what happens to Python in between.

In: nothing. Out: the nodes of a captured function by the lines that they came from.
"""

from __future__ import annotations

from collections import Counter

import torch

import minicompile

from .session import begin, question


def busy(x: torch.Tensor, times: int = 3) -> torch.Tensor:
    scale = 1 / (times + 1)
    for _ in range(times):
        x = torch.sin(x) * scale
    names = [f"step {n}" for n in range(times)]
    return x + len(names)


@torch.no_grad()
def run() -> tuple[list[tuple[int, str]], Counter[int]]:
    """The nodes with their lines, and how many nodes each line became."""
    compiled = minicompile.compile(busy)
    compiled(torch.ones(4))
    (graph,) = compiled.entries[0].graphs
    nodes = [
        (node.meta["origin"].line, f"{node.name} = {node.meta['origin'].call}")
        for node in graph.gm.graph.nodes
        if node.meta.get("origin") is not None
    ]
    return nodes, Counter(line for line, _ in nodes)


def main() -> None:
    begin(2, "capture explored", "guess how many nodes each line of `busy` becomes, then look.")
    nodes, counts = run()
    first = busy.__code__.co_firstlineno
    for line, text in nodes:
        print(f"  line {line - first}: {text}")
    print("nodes by line:", {line - first: count for line, count in sorted(counts.items())})
    question(
        "does every line become one node?",
        "no. The loop's line became one node for each call in each round; the lines that only compute Python numbers "
        "and strings became none: they ran while tracing, and guards say for which arguments that is right.",
    )


if __name__ == "__main__":
    main()
