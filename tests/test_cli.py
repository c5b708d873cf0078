"""The command line: the demo's table and files, the doctor's rows, clear errors."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from typing import Any

import pytest

from minicompile.cli import main


def test_demo_writes_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--no-inductor", "--only", "InformationScorer", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "InformationScorer" in out and "max error" in out
    files = {path.name for path in (tmp_path / "InformationScorer").iterdir()}
    assert files == {
        "entry_0_glue.py", "graph_0_1_fx.py", "graph_0_1_fx.svg", "graph_0_2_ir_before.py", "graph_0_2_ir_before.svg",
        "graph_0_3_ir_after.py", "graph_0_3_ir_after.svg", "graph_0_4_kernels.cpp", "graph_0_5_wrapper.py",
        "graph_0_6_fusion.txt",
    }  # fmt: skip


def test_demo_shows_each_break_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--no-inductor", "--only", "branch_on_data", "--out", str(tmp_path)])
    out = " ".join(capsys.readouterr().out.split())
    assert "examples/programs.py:" in out and "data-dependent branch" in out


def test_demo_without_a_layout_engine_writes_dot_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_ = builtins.__import__

    def without_pygraphviz(name: str, *args: Any) -> Any:
        if name == "pygraphviz":
            raise ImportError("libgobject-2.0.so.0: cannot open shared object file")
        return import_(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_pygraphviz)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    main(["demo", "--no-inductor", "--only", "branch_on_data", "--out", str(tmp_path)])
    assert "libgobject" in capsys.readouterr().out
    assert list((tmp_path / "branch_on_data").glob("*.dot"))


def test_demo_names_the_known_programs() -> None:
    with pytest.raises(SystemExit, match="unknown program 'Nobody'; known: InformationScorer"):
        main(["demo", "--only", "Nobody"])


def test_doctor_finds_the_essentials(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for what in ("Python", "torch", "C++ compiler", "SIMD", "Triton", "GPU", "cache folder", "frame hook"):
        assert what in out


def test_explain_of_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "InformationScorer"]) == 0
    assert "1 graph(s), 0 graph break(s), 1 kernel(s)" in capsys.readouterr().out


def test_cache_info_and_clear(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "info"]) == 0
    assert main(["cache", "clear"]) == 0
    assert "removed" in capsys.readouterr().out


def test_compile_only_needs_no_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    out = tmp_path / "kernels"
    assert main(["compile-only", "InformationScorer", "--out", str(out)]) == 0
    assert "graph 0: 1 kernel(s) for sm_90" in capsys.readouterr().out
    (code,) = out.glob("graph_0/*.cubin")
    assert code.read_bytes()[:4] == b"\x7fELF" and "@triton.jit" in code.with_suffix(".py").read_text()


def test_compile_only_makes_products_kernels_when_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "program.py"
    file.write_text("def f(x, w): return (x @ w).relu().sum(1)\n")
    command = ["compile-only", f"{file}:f", "--arch", "80", "--args", "*torch.ones(2, 32, 32).half()"]
    assert main(command) == 0
    assert "mm" not in capsys.readouterr().out
    assert main([*command, "--tune"]) == 0
    assert "kernel_mm" in capsys.readouterr().out
