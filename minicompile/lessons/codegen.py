"""Session 4: read the generated code: which operations share a kernel, and what the loops look like.

In: nothing. Out: a model's kernels with what each moves, the decisions that made them, and the last one's text.
"""

from __future__ import annotations

import torch

import minicompile

from ..inspect.explain import Explanation
from ..inspect.timing import format_bytes
from .session import begin, model, question


@torch.no_grad()
def run() -> Explanation:
    return minicompile.explain(model())(torch.randn(32, 64))


def main() -> None:
    begin(4, "generated code read", "predict which operations of Linear, ReLU, Linear, GELU, LayerNorm are fused.")
    explanation = run()
    for row in explanation.costs:
        print(f"  {row.name:45} {row.language:7} {format_bytes(row.bytes):>8}  {' '.join(row.ops)}")
    print("\nDecided, in this order:")
    for decision in explanation.fusions:
        print(f"  {decision}")
    print(f"\nThe last kernel, as data:\n{explanation.kernels[-1].ir}\n\nand as C++:\n{explanation.kernels[-1].source}")
    question(
        "how does the compiler decide what to fuse?",
        "it merges the two groups that save most bytes, as long as one loop nest can do both and nothing has to run "
        "between them. Matrix products are ATen's, so what comes before and after one cannot meet.",
    )


if __name__ == "__main__":
    main()
