"""`minicompile demo`: real functions through every stage, beside eager and torch.compile, with every stage on disk.

In: a device and an output folder. Out: a table on the terminal, and per program and graph the FX graph, the IR before
and after the passes (text and SVG), the generated native code and the generated Python.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .errors import DrawingUnavailable
from .examples.programs import PROGRAMS, Program
from .inspect.compare import Comparison, compare, seconds
from .inspect.timing import format_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from .inspect.explain import Explanation


@dataclass(frozen=True)
class Row:
    """What was seen of one program."""

    program: Program
    comparison: Comparison

    @property
    def explanation(self) -> Explanation:
        return self.comparison.explanation


def run_demo(device: str, out: str, *, inductor: bool, only: str = "") -> int:
    """Run all programs (or the one named), print the table, write the files. Returns the exit status: 1 if a result
    differs from eager's by more than 1e-3."""
    from rich.console import Console
    from rich.progress import Progress

    if only and only not in PROGRAMS:
        raise SystemExit(f"unknown program {only!r}; known: {', '.join(PROGRAMS)}")
    console = Console(width=None if sys.stdout.isatty() else 150)
    programs = [PROGRAMS[only]] if only else list(PROGRAMS.values())
    rows = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("warming up", total=len(programs) + 1)
        warm_up = _warm_up(device, inductor)
        for program in programs:
            progress.update(task, advance=1, description=program.name)
            rows.append(_measure(program, device, inductor))
            write_stages(rows[-1].explanation, Path(out) / program.name)
        progress.update(task, advance=1)
    console.print(_table(rows, device, inductor))
    _print_breaks(console, rows)
    once = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in warm_up.items())
    console.print(f"First compilation of the process, before the table (imports and set-up): {once}.")
    console.print(f"Every stage of every graph is in {out}/. {_drawing_problem()}".rstrip())
    return int(any(row.comparison.errors["minicompile"] > 1e-3 for row in rows))


def _compilers(inductor: bool) -> dict[str, Callable[..., Any]]:
    import minicompile

    return {"minicompile": minicompile.compile, **({"torch.compile": torch.compile} if inductor else {})}


def _warm_up(device: str, inductor: bool) -> dict[str, float]:
    """Compile something trivial with each, so that the table's first calls do not contain one-off imports."""
    x = torch.ones(64, device=device)
    spent = {}
    for name, compiler in _compilers(inductor).items():
        compiled = compiler(lambda t: torch.sigmoid(t))
        spent[name] = seconds(partial(compiled, x))
    return spent


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Programs of the demo may print; their output is swallowed while they are measured."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@torch.no_grad()
def _measure(program: Program, device: str, inductor: bool) -> Row:
    fn, args = program.make(device)
    with _quiet():
        return Row(program, compare(fn, *args, inductor=inductor, cold=False))


def _table(rows: list[Row], device: str, inductor: bool) -> Table:
    from rich.table import Table

    where = f"{torch.get_num_threads()} threads" if device == "cpu" else torch.cuda.get_device_name()
    title = f"minicompile demo on {device} ({where}), float32, torch {torch.__version__}"
    table = Table(title=title, title_justify="left")
    columns = ["program", "graphs", "breaks", "kernels", "first call", "eager", "minicompile"]
    if inductor:
        columns += ["torch.compile", "its first call"]
    for column in [*columns, "max error"]:
        table.add_column(column, justify="left" if column == "program" else "right")
    for row in rows:
        cells = [row.program.name, *map(str, _counts(row.explanation))]
        cells.append(format_seconds(row.comparison.first["minicompile"]))
        cells += [_steady(row, name) for name in row.comparison.times]
        if inductor:
            cells.append(format_seconds(row.comparison.first["torch.compile"]))
        table.add_row(*cells, f"{row.comparison.errors['minicompile']:.1e}")
    return table


def _counts(explanation: Explanation) -> tuple[int, int, int]:
    return explanation.graph_count, explanation.graph_break_count, explanation.kernel_count


def _steady(row: Row, name: str) -> str:
    """Median with spread, and the ratio to eager: absolute times mean little on a shared machine."""
    timing = row.comparison.times[name]
    return str(timing) if name == "eager" else f"{timing} ({row.comparison.ratio(name):.2f}x)"


def _print_breaks(console: Any, rows: list[Row]) -> None:
    for row in rows:
        for broken in row.explanation.graph_breaks:
            console.print(f"[bold]{row.program.name}[/]: graph break at {broken}", highlight=False)


def write_stages(explanation: Explanation, folder: Path) -> None:
    """Write what every stage made of every graph of an explanation into a folder, numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, glue in enumerate(explanation.glue):
        (folder / f"entry_{number}_glue.py").write_text(glue)
    for number, graph in enumerate(explanation.graphs):
        _write_graph(graph, folder, f"graph_{number}")


def _write_graph(graph: Any, folder: Path, stem: str) -> None:
    from .ir.dot import fx_to_dot

    (folder / f"{stem}_1_fx.py").write_text(graph.gm.print_readable(print_output=False))
    _draw(fx_to_dot(graph.gm), folder / f"{stem}_1_fx.svg")
    compiled = graph.compiled
    if not compiled.kernels and not hasattr(compiled, "ir"):
        (folder / f"{stem}_eager.txt").write_text(f"This graph runs in eager mode: {compiled.reason}\n")
        return
    for step, (label, ir) in enumerate((("ir_before", compiled.ir_before), ("ir_after", compiled.ir)), start=2):
        (folder / f"{stem}_{step}_{label}.py").write_text(str(ir))
        _draw(ir.to_dot(), folder / f"{stem}_{step}_{label}.svg")
    suffix = "cpp" if all(kernel.language == "cpp" for kernel in compiled.kernels) else "triton.py"
    (folder / f"{stem}_4_kernels.{suffix}").write_text(compiled.native_source)
    (folder / f"{stem}_5_wrapper.py").write_text(compiled.wrapper_source)
    (folder / f"{stem}_6_fusion.txt").write_text(compiled.describe())


def _draw(drawing: Any, path: Path) -> None:
    """The drawing as SVG; on a machine without a layout engine (`run_demo` says so) its DOT text."""
    from .ir.dot import render

    try:
        render(drawing, str(path))
    except DrawingUnavailable:
        path.with_suffix(".dot").write_text(drawing.source)


def _drawing_problem() -> str:
    """Why there are no pictures; empty if there are."""
    from .ir.dot import layout_engine

    try:
        return layout_engine() and ""
    except DrawingUnavailable as error:
        return f"No pictures, only their DOT text: {error}"
