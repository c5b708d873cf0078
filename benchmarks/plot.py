"""The measured rows as a picture: speed relative to eager, one group of bars a row, longer is faster.

In: `Result`s. Out: an SVG file, drawn by matplotlib (the extra `bench` installs it).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .measure import EAGER, INDUCTOR, OURS, Result

COLOURS = {EAGER: "#9aa5b1", INDUCTOR: "#e8a33d", OURS: "#2f7ed8"}

FARTHEST = 8.0
"""Times eager's speed at which a bar is cut off; its number says how far it would go."""


def write_svg(results: Sequence[Result], path: Path) -> None:
    """Draw the rows that have eager's time. Raises ImportError where there is no matplotlib."""
    from matplotlib.figure import Figure  # without pyplot: no display, no global state

    rows = [result for result in results if EAGER in result.times]
    names = [name for name in COLOURS if any(name in row.times for row in rows)]
    figure = Figure(figsize=(9, 1.2 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(len(names), 1)
    for k, name in enumerate(names):
        measured = [(i, row) for i, row in enumerate(rows) if name in row.times]
        speeds = [row.times[name].times_as_fast_as(row.times[EAGER]) for _, row in measured]
        places, lengths = [i + k * height for i, _ in measured], [min(speed, FARTHEST) for speed in speeds]
        spreads = [_spread(row, name, speed) for (_, row), speed in zip(measured, speeds, strict=True)]
        whiskers = {"elinewidth": 0.6, "ecolor": "#555555"}
        bars = axes.barh(places, lengths, height, xerr=spreads, color=COLOURS[name], label=name, error_kw=whiskers)
        axes.bar_label(bars, [f"{speed:.2f}" for speed in speeds], padding=3, fontsize=6)
    axes.set_yticks([i + height * (len(names) - 1) / 2 for i in range(len(rows))], [row.name for row in rows])
    axes.invert_yaxis()
    axes.axvline(1, color="#444444", linestyle=":", linewidth=1)
    axes.set_xlabel("speed, eager = 1 (medians; whiskers: the middle half of the rounds)")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, format="svg")


def _spread(row: Result, name: str, speed: float) -> float:
    """Half the quartiles' distance, in units of the bar."""
    timing = row.times[name]
    return (timing.high - timing.low) / 2 / timing.median * min(speed, FARTHEST)
