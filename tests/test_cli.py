"""The command line: the demo's table and files, the doctor's rows, clear errors."""

from __future__ import annotations

import builtins
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minicompile.cli import main

FILE = """\
import torch
from math import sqrt
def f(x): return torch.relu(x)
class Net(torch.nn.Module): pass
f_args = 3
"""


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("explain {file}:f", "the arguments of f in {file} are no tuple, but a int"),
        ("explain {file}:g", "has no function 'g'; it has f\n"),
        ("explain {file}:Net --args 1", "Net is a class: make an object of it in {file}, and name that"),
        ("explain {file}:f --args nope", "--args 'nope': NameError: name 'nope' is not defined"),
        ("explain InformationScorer --device xyz", "'xyz' is no device"),
        ("explain InformationScorer --device meta", "'meta' is neither a CPU nor a GPU"),
        ("demo --device cuda:99", "GPU here"),
        ("compare {file}:f --args torch.ones(2) --rounds 0", "'0' is no whole number above 0"),
        ("compare {file}:f --args torch.ones(2) --html {folder}/none/a.html", "there is no folder {folder}/none"),
        ("explore {file}:f --args torch.ones(2) --out {folder}/none/a.html", "there is no folder {folder}/none"),
        ("explore {file}:f --args torch.ones(2) --out {folder}", "{folder} is a folder; name a file in it"),
        ("demo --out {file}", "{file} cannot be written: {file} is no folder"),
        ("compile-only {file}:f --out {file}/kernels", "{file}/kernels cannot be written: {file} is no folder"),
        ("compile-only {file}:f --arch 12", "'12' is older than what Triton compiles for: 70, 80, 90, 100"),
        ("trace {file}:f --args torch.ones(2) --out {folder}/none/a.json", "there is no folder {folder}/none"),
    ],
)
def test_words_that_mean_nothing_are_named(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text(FILE)
    names = {"file": str(tmp_path / "program.py"), "folder": str(tmp_path)}
    try:
        status = main([word.format(**names) for word in words.split()])
    except SystemExit as left:  # argparse's own way
        status = left.code
    assert status == 2 and message.format(**names) in capsys.readouterr().err


def test_compile_only_fails_for_an_architecture_that_there_is_not(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "program.py").write_text(FILE)
    with pytest.raises(SystemExit, match="PTXAS"):
        main(["compile-only", f"{tmp_path / 'program.py'}:f", "--args", "torch.ones(2)", "--arch", "999"])


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "minicompile", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("minicompile ")
