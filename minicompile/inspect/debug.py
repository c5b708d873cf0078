"""The debug folder: `MINICOMPILE_DEBUG=dir`, or `config.debug_dir`.

In: each new entry, and each stage that fails. Out: files, numbered in the order of the stages; scripts run alone.

    dir/000_forward_line_12/
        00_explanation.txt   01_guards.txt   02_glue.py
        graph_0/  10_fx.py   20_ir_lowered.py   21_ir_after_cse.py …   38_ir_prepared.py   40_kernels.cpp
                  41_wrapper.py   42_fusion.txt   50_run.py (compiles the graph, and compares with eager)
    dir/001_failed_lowering/repro.py
"""

from __future__ import annotations

import itertools
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends import OPTIONS
from .scripts import fx_script, ir_script

if TYPE_CHECKING:
    import torch

    from ..codegen.compiled import CompiledGraph
    from ..frontend.segments import Entry, GraphRecord

_RUN = """
import minicompile
from minicompile.config import config

torch.manual_seed(0)
expected = forward(*[value.clone() if isinstance(value, torch.Tensor) else value for value in inputs])
torch.manual_seed(0)
with config.patch(strict=True, debug_dir=None, entry_cache=False):
    actual = minicompile.compile(forward{how})(*inputs)
torch.testing.assert_close(actual, expected, equal_nan=True)
print("the compiled graph gives what eager gives")
"""


def write_entry(root: Path, entry: Entry) -> Path:
    """Every stage of an entry, into a folder of its own, which is returned."""
    folder = new_folder(root, re.sub(r"\W+", "_", _short(entry.name)).strip("_"))
    from .explain import Explanation

    (folder / "00_explanation.txt").write_text(f"{entry.name}\n{Explanation.of([entry])}\n")
    (folder / "01_guards.txt").write_text(f"{entry.guards}\n")
    (folder / "02_glue.py").write_text(entry.code)
    for number, graph in enumerate(entry.graphs):
        _write_graph(folder / f"graph_{number}", graph)
    return folder


def _short(name: str) -> str:
    """`forward (/long/path/model.py:12)` → `forward_line_12`."""
    function, _, place = name.partition(" (")
    return f"{function}_line_{place.rstrip(')').rpartition(':')[2]}"


def new_folder(root: Path, name: str) -> Path:
    """A folder that was not there: numbers go on where another process stopped."""
    root.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(len(list(root.iterdir()))):
        folder = root / f"{number:03d}_{name}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def _write_graph(folder: Path, record: GraphRecord) -> None:
    from .stacks import compiled_halves

    folder.mkdir()
    (folder / "10_fx.py").write_text(fx_script(record.gm, record.example_inputs))
    (folder / "50_run.py").write_text(fx_script(record.gm, record.example_inputs, ending=_RUN.format(how="")))
    reason = getattr(record.compiled, "reason", "")
    if reason:
        (folder / "11_eager.txt").write_text(f"This graph runs in eager mode: {reason}\n")
    halves = compiled_halves(record.compiled)
    for half in halves:
        _write_half(folder if len(halves) == 1 else folder / half.name, half)


def _write_half(folder: Path, half: CompiledGraph) -> None:
    from ..passes import run as run_passes

    folder.mkdir(exist_ok=True)
    history: list[tuple[str, Any]] = []
    if half.ir_before is not None:
        (folder / "20_ir_lowered.py").write_text(ir_script(half.ir_before))
        run_passes(half.ir_before, history=history)
    for number, (name, graph) in enumerate(history or [("passes", half.ir)], start=21):
        (folder / f"{number}_ir_after_{name}.py").write_text(ir_script(graph))
    if half.prepared is not None:
        (folder / "38_ir_prepared.py").write_text(ir_script(half.prepared))
    if half.kernels:
        suffix = "cpp" if half.kernels[0].language == "cpp" else "triton.py"
        (folder / f"40_kernels.{suffix}").write_text(half.native_source)
    (folder / "41_wrapper.py").write_text(half.wrapper_source)
    (folder / "42_fusion.txt").write_text(half.describe())


# ---- failures ----


def write_repro(
    root: Path,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str,
    error: BaseException,
    target: str = "auto",
    options: dict[str, Any] | None = None,
) -> Path:
    """A script that takes the graph to the stage that failed, alone; its path.

    Args:
        target, options: as the graph was to be compiled.
    """
    trace = "".join(traceback.format_exception(error))
    comment = f"minicompile: the stage {stage} failed on this graph.\n\n{trace}"
    known = {name: value for name, value in (options or {}).items() if name in OPTIONS}
    how = f", backend={target!r}" + (f", options={known!r}" if known else "")
    ending = _RUN.format(how=how).replace("print(", "# not reached while the fault is there\nprint(")
    path = new_folder(root, f"failed_{stage}") / "repro.py"
    path.write_text(fx_script(gm, example_inputs, comment=comment, ending=ending))
    return path


_COMPILE = """
import minicompile
from minicompile.config import config

with config.patch(strict=True, debug_dir=None, entry_cache=False):
    minicompile.compile(function)(*args, **kwargs)
# not reached while the fault is there
print("the frontend compiles the function")
"""


def write_frontend_repro(root: Path, func: Any, args: Any, kwargs: Any, place: str, error: BaseException) -> Path:
    """A script that calls the compiled function on which the frontend failed; its path.

    Args:
        place: where in the program the interpreter stood.
    """
    from .function_script import function_script

    trace = "".join(traceback.format_exception(error))
    comment = f"minicompile: the frontend failed on this function, at {place}.\n\n{trace}"
    path = new_folder(root, "failed_frontend") / "repro.py"
    path.write_text(function_script(func, args, kwargs, comment=comment, ending=_COMPILE))
    return path
