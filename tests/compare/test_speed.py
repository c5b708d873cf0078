"""The speed promises that a test can keep on a noisy machine: ratios measured side by side, with room to spare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minicompile
from minicompile.examples.programs import PROGRAMS, information_score
from minicompile.inspect.compare import seconds
from minicompile.inspect.timing import interleaved


def test_cached_call_costs_less_than_a_third_of_torch_compiles() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1)

    x = torch.randn(8)
    ours, theirs = minicompile.compile(fn), torch.compile(fn)
    times = interleaved({"ours": lambda: ours(x), "theirs": lambda: theirs(x)}, rounds=21)
    assert times["ours"].median < times["theirs"].median / 3, times


def test_first_call_takes_less_than_a_third_of_torch_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has already compiled something, with an empty cache for both."""
    _, args = PROGRAMS["InformationScorer"].make("cpu")
    monkeypatch.setenv("MINICOMPILE_CACHE_DIR", str(tmp_path))
    with torch.compiler.config.patch(force_disable_caches=True), torch.no_grad():
        for compiler in (minicompile.compile, torch.compile):
            compiler(lambda x: torch.relu(x + 1))(torch.ones(8))
        our_time = seconds(lambda: minicompile.compile(information_score)(*args))
        their_time = seconds(lambda: torch.compile(information_score)(*args))
    assert our_time < their_time / 3, (our_time, their_time)


def test_import_adds_little_to_torchs() -> None:
    script = "import torch, time; t = time.perf_counter(); import minicompile; print(time.perf_counter() - t)"
    assert min(float(printed_by(script)) for _ in range(3)) < 0.3


def test_import_leaves_slow_packages_alone() -> None:
    slow = ("sympy", "triton", "rich", "networkx", "graphviz", "pygraphviz", "bytecode")
    script = f"""
import sys, torch
before = set(sys.modules)
import minicompile
print([name for name in {slow} if name in sys.modules and name not in before])
"""
    assert printed_by(script).strip() == "[]"


def printed_by(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
