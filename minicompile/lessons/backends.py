"""Session 1: one model, several back ends; first call and later calls; do the results agree?

In: nothing. Out: a row for each back end, and a question about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

import minicompile

from ..inspect.accuracy import max_error
from ..inspect.compare import seconds
from ..inspect.timing import format_seconds
from .session import begin, model, question

BACKENDS = ("eager", "aot_eager", "auto", "inductor")


@dataclass(frozen=True)
class Seen:
    """Of one back end: seconds of the first and of a later call, and the largest difference from eager."""

    backend: str
    first: float
    later: float
    error: float


@torch.no_grad()
def run(backends: tuple[str, ...] = BACKENDS) -> list[Seen]:
    """Compile the model with each back end, and call it."""
    net, x = model(), torch.randn(32, 64)
    expected = net(x)
    seen = []
    for name in backends:
        call = partial(minicompile.compile(net, backend=name), x)
        first = seconds(call)
        later = min(seconds(call) for _ in range(20))
        seen.append(Seen(name, first, later, max_error(call(), expected)))
    return seen


def main() -> None:
    begin(1, "back ends compared", "compile one model with each back end; time the first call and later ones.")
    print(f"{'back end':12}{'first call':>12}{'later':>12}{'error':>12}")
    for row in run():
        print(f"{row.backend:12}{format_seconds(row.first):>12}{format_seconds(row.later):>12}{row.error:>12.1e}")
    question(
        "why is the first call so much slower than the second?",
        "it traces the bytecode, lowers the graph, writes kernels and has them built; later calls check guards and "
        "run. 'eager' only traces: what 'auto' takes beyond that is lowering, code generation and the C++ compiler.",
    )


if __name__ == "__main__":
    main()
