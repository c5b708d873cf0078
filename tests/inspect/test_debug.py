"""The debug folder: every stage numbered, scripts that run alone, a script for a stage that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.config import config
from minicompile.errors import BackendError

ROOT = Path(__file__).parents[2]


def program(x: torch.Tensor, flag: Any = None) -> torch.Tensor:
    y = torch.softmax(x * 1, -1)
    print("between")
    return (y * y + y * y) @ y.t()


def run(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(path.parent)}
    return subprocess.run([sys.executable, path.name], cwd=path.parent, env=environment, capture_output=True, text=True)


def test_every_stage_of_every_entry(tmp_path: Path) -> None:
    with config.patch(debug_dir=tmp_path), torch.no_grad():
        minicompile.compile(program)(torch.randn(5, 7))
    first, second = sorted(tmp_path.iterdir())
    assert first.name == f"000_program_line_{program.__code__.co_firstlineno}"
    assert second.name.startswith("001_program_")
    names = [path.name for path in sorted((second / "graph_0").iterdir())]
    assert names[:2] == ["10_fx.py", "20_ir_lowered.py"] and any("_ir_after_cse" in name for name in names)
    assert {"40_kernels.cpp", "41_wrapper.py", "42_fusion.txt", "50_run.py"} <= set(names)
    assert "graph break" in (first / "00_explanation.txt").read_text().lower()
    for name in ("10_fx.py", "38_ir_prepared.py", "50_run.py"):
        done = run(second / "graph_0" / name)
        assert done.returncode == 0, (name, done.stderr)
        assert "tensor(" in done.stdout or "gives what eager gives" in done.stdout


def test_symbolic_sizes_and_training_are_written(tmp_path: Path) -> None:
    with config.patch(debug_dir=tmp_path):
        compiled = minicompile.compile(lambda x: torch.sigmoid(x[1:]).sum(0), dynamic=True)
        compiled(torch.randn(6, 3, requires_grad=True))
    (folder,) = tmp_path.iterdir()
    assert run(folder / "graph_0" / "50_run.py").returncode == 0


def test_a_folder_that_cannot_be_written_stops_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any) -> Any:
        raise ZeroDivisionError("a fault in a pass")

    (tmp_path / "file").touch()
    x = torch.randn(3)
    with config.patch(debug_dir=tmp_path / "file"):
        with pytest.warns(RuntimeWarning, match="not in the debug folder.*Name one that can be written"):
            assert torch.equal(minicompile.compile(lambda x: -x)(x), -x)
        monkeypatch.setitem(passes.PASSES, "cse", broken)
        with pytest.warns(RuntimeWarning, match="a fault in a pass"):
            assert torch.equal(minicompile.compile(lambda x: -x, dynamic=True)(x), -x)


def test_a_failing_stage_leaves_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any) -> Any:
        raise ZeroDivisionError("a fault in a pass")

    monkeypatch.setitem(passes.PASSES, "cse", broken)
    compiled = minicompile.compile(lambda x: torch.exp(x) + 1)
    with config.patch(debug_dir=tmp_path), pytest.warns(RuntimeWarning, match="repro.py"):
        assert torch.equal(compiled(torch.zeros(3)), torch.full((3,), 2.0))
    (script,) = tmp_path.rglob("repro.py")
    assert "passes" in script.parent.name and "# ZeroDivisionError: a fault in a pass" in script.read_text()
    done = run(script)
    assert done.returncode == 0, done.stderr  # in a process without the fault
    with config.patch(debug_dir=tmp_path, strict=True), pytest.raises(BackendError) as caught:
        minicompile.compile(lambda x: torch.exp(x) + 2)(torch.zeros(3))
    assert caught.value.reproducer is not None and caught.value.reproducer.is_file()
