"""Session 3: functions that break their graph, and the same ones mended.

In: nothing. Out: of each pair, how many graphs either makes, and what minicompile advises for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import minicompile

from .session import begin, question

Function = Callable[[torch.Tensor], torch.Tensor]


def prints(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    print("norm", round(y.norm().item(), 3))
    return y * 2


def prints_not(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def branches(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    if y.mean() > 0:
        return y
    return -y


def chooses(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    return torch.where(y.mean() > 0, y, -y)


def reads(x: torch.Tensor) -> torch.Tensor:
    return x / float(x.abs().max())


def keeps(x: torch.Tensor) -> torch.Tensor:
    return x / x.abs().max()


PAIRS: tuple[tuple[Function, Function], ...] = ((prints, prints_not), (branches, chooses), (reads, keeps))


@dataclass(frozen=True)
class Mended:
    """`broken` and `whole`: graphs of the two; `advice`: what minicompile said of the first."""

    name: str
    broken: int
    whole: int
    advice: str
    same: bool


@torch.no_grad()
def run() -> list[Mended]:
    """Each pair: how many graphs before and after, and whether they compute the same."""
    x = torch.randn(16, generator=torch.Generator().manual_seed(0))
    rows = []
    for before, after in PAIRS:
        broken, whole = minicompile.explain(before)(x), minicompile.explain(after, fullgraph=True)(x)
        advice = "\n".join(map(str, broken.advice))
        same = torch.allclose(before(x), after(x))
        rows.append(Mended(before.__name__, broken.graph_count, whole.graph_count, advice, same))
    return rows


def main() -> None:
    begin(3, "breaks found and fixed", "rewrite prints, branches and reads so that each is one graph.")
    for row in run():
        print(f"\n{row.name}: {row.broken} graph(s), mended {row.whole}; same values: {row.same}\n{row.advice}")
    question(
        "what does a graph break cost?",
        "the two graphs cannot share a kernel, every value between them goes through memory, and where a number is "
        "read the program waits for it.",
    )


if __name__ == "__main__":
    main()
