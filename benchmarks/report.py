"""What was measured, for people and for programs: a rich table, JSON, and a verdict in words.

In: `Result`s. Out: text and files. The picture is plot.py's.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from minicompile.inspect.timing import format_seconds
from minicompile.runtime.cpu import cpuinfo, simd_name

from .measure import BOUND, EAGER, INDUCTOR, OURS, Result

if TYPE_CHECKING:
    from rich.table import Table


def machine() -> dict[str, Any]:
    """What the numbers belong to."""
    model = cpuinfo("model name") or platform.processor()
    return {"cpu": model, "simd": simd_name(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def table(results: Sequence[Result]) -> Table:
    """One line a row: times with spread, ratios, first calls."""
    from rich.table import Table

    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    shown = Table(title=f"minicompile bench: {about}", title_justify="left")
    shown.add_column("row")
    heads = (
        EAGER, INDUCTOR, OURS, "× eager", "× torch.compile", "/ bound", "/ limit", "first", "first, of t.c.'s",
        "error, of eager's", "kernels",
    )  # fmt: skip
    for head in heads:
        shown.add_column(head, justify="right")
    for result in results:
        shown.add_row(*_cells(result))
    return shown


def _cells(result: Result) -> list[str]:
    times = [str(result.times.get(name, "")) for name in (EAGER, INDUCTOR, OURS)]
    ratios = [_ratio(result.speedup(EAGER), 1.0), _ratio(result.speedup(INDUCTOR), 1.0)]
    over = to_bound(result)
    first = result.first
    latency = first[OURS] / first[INDUCTOR] if OURS in first and INDUCTOR in first else None
    cells = [result.name, *times, *ratios, _ratio(over, 1.15, below=True), _ratio(to_limit(result), 1.15, below=True)]
    cells += [format_seconds(first[OURS]) if OURS in first else "failed", _ratio(latency, 0.2, below=True)]
    return [*cells, _ratio(error_ratio(result), 2.0, below=True), str(result.kernels)]


def to_bound(result: Result) -> float | None:
    """minicompile's time as a multiple of the bandwidth bound."""
    speedup = result.speedup(BOUND)
    return None if speedup is None else 1 / speedup


def to_limit(result: Result) -> float | None:
    """minicompile's time as a multiple of the bandwidth bound or, if that is longer, of the same work in cache."""
    bound = to_bound(result)
    if bound is None or not result.work:
        return bound
    return min(bound, result.times[OURS].median / result.work)


def error_ratio(result: Result) -> float | None:
    """minicompile's largest error over eager's."""
    if OURS not in result.errors:
        return None
    ours, eager = result.errors[OURS], result.errors[EAGER]
    return 1.0 if ours == eager else ours / max(eager, 1e-300)


def _ratio(value: float | None, limit: float, below: bool = False) -> str:
    if value is None:
        return ""
    good = value <= limit if below else value >= limit
    return f"[{'green' if good else 'red'}]{value:.2f}[/]"


def geometric_mean(values: Iterable[float | None]) -> float:
    found = [value for value in values if value is not None]
    return statistics.geometric_mean(found) if found else float("nan")


def verdict(results: Sequence[Result]) -> list[str]:
    """The promises, each with what was seen."""
    kernels = [r for r in results if r.kind == "kernel"]
    lines = []
    for over in (EAGER, INDUCTOR):
        for kind, rows in (("kernel rows", kernels), ("models", [r for r in results if r.kind == "model"])):
            ratios = {r.name: s for r in rows if (s := r.speedup(over)) is not None}
            if ratios:
                slow = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < 1]
                lines.append(f"{kind} × {over}: geometric mean {geometric_mean(ratios.values()):.2f}, "
                             f"below 1: {', '.join(slow) or 'none'}")  # fmt: skip
    limits = ((to_bound, "the bandwidth bound"), (to_limit, "it or of the same work in cache, whichever takes longer"))
    for measure, name in limits:
        far = [f"{r.name} {over:.2f}" for r in kernels if (over := measure(r)) is not None and over > 1.15]
        lines.append(f"over 1.15 of {name}: {', '.join(far) or 'none'}")
    lines += [f"{r.name}: {_share(r, EAGER)} of eager's time, {_share(r, INDUCTOR)} of torch.compile's"
              for r in results if r.kind == "call"]  # fmt: skip
    firsts = [r.first[OURS] / r.first[INDUCTOR] for r in results if {OURS, INDUCTOR} <= r.first.keys()]
    if firsts:
        lines.append(f"first call, empty cache: {geometric_mean(firsts):.2f} of torch.compile's (geometric mean)")
    return lines + [f"{r.name}: {problem}" for r in results for problem in r.problems]


def _share(result: Result, of: str) -> str:
    speedup = result.speedup(of)
    return "?" if speedup is None else f"{1 / speedup:.2f}"


def write_json(results: Sequence[Result], path: Path) -> None:
    path.write_text(json.dumps({"machine": machine(), "rows": [r.as_dict() for r in results]}, indent=1) + "\n")
