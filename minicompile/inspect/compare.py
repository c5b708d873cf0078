"""`minicompile.compare(fn, *args)`: eager, minicompile and torch.compile on one call, side by side.

In: a function and arguments. Out: a `Comparison`: first call, steady time, graphs, breaks, kernels, and the largest
difference from eager.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .explain import Explanation, explain
from .timing import Timing, format_seconds, interleaved


@dataclass(frozen=True)
class Comparison:
    """By compiler name (`"eager"`, `"minicompile"`, `"torch.compile"`).

    Attributes:
        first: seconds of the first call, compilation included; eager has none.
        times: steady time per call.
        errors: largest absolute difference from eager's results.
        explanation: what minicompile made of the function.
    """

    first: dict[str, float]
    times: dict[str, Timing]
    errors: dict[str, float]
    explanation: Explanation

    def ratio(self, name: str, base: str = "eager") -> float:
        """How many times faster than `base`."""
        return self.times[base].median / self.times[name].median

    def __str__(self) -> str:
        e = self.explanation
        lines = [f"minicompile: {e.graph_count} graph(s), {e.graph_break_count} break(s), {e.kernel_count} kernel(s)"]
        for name, timing in self.times.items():
            line = f"{name:>14}: {timing}"
            if name in self.first:
                line += f", {self.ratio(name):.2f}x eager, first call {format_seconds(self.first[name])}"
                line += f", max error {self.errors[name]:.1e}"
            lines.append(line)
        return "\n".join(lines)

    __repr__ = __str__


def compare(
    fn: Callable[..., Any], *args: Any, inductor: bool = True, rounds: int = 9, **kwargs: Any
) -> Comparison:
    """Run `fn(*args, **kwargs)` in eager, through minicompile and (if `inductor`) through torch.compile.

    The function is called many times: it should not have lasting effects. Steady times are interleaved medians.
    """
    import minicompile

    calls = {"eager": fn, "minicompile": minicompile.compile(fn)}
    if inductor:
        calls["torch.compile"] = torch.compile(fn)
    candidates = {name: partial(call, *args, **kwargs) for name, call in calls.items()}
    expected = candidates["eager"]()
    first, errors = {}, {}
    for name in list(candidates)[1:]:
        first[name] = seconds(candidates[name])
        errors[name] = max_error(candidates[name](), expected)
    explanation = explain(calls["minicompile"])(*args, **kwargs)
    return Comparison(first, interleaved(candidates, rounds=rounds), errors, explanation)


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call, the GPU's work included."""
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def max_error(actual: Any, expected: Any) -> float:
    """Largest absolute difference over all tensors of two results of the same structure; NaN equals NaN."""
    from torch.utils._pytree import tree_leaves

    errors = [0.0]
    for one, other in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(other, torch.Tensor) and other.numel():
            difference = (one.double() - other.double()).abs()
            errors.append(difference[~(one.isnan() & other.isnan())].max().item() if difference.numel() else 0.0)
    return max(errors)
