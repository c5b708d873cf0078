"""Traces: compile stages as events, kernels by name in torch.profiler, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import minicompile
from minicompile.cli import main
from minicompile.inspect.trace import compile_events, kernel_ranges, write_trace


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x, -1) + 1


def test_profile_shows_kernels_by_name() -> None:
    compiled = minicompile.compile(program)
    x = torch.randn(8, 8)
    expected = compiled(x)
    (graph,) = compiled.entries[0].graphs
    before = dict(graph.compiled.call.__globals__)
    with kernel_ranges(compiled), torch.profiler.profile() as profile:
        assert torch.equal(compiled(x), expected)
    names = [event.key for event in profile.key_averages()]
    assert {graph.compiled.kernels[0].name, "aten.mm.default"} <= set(names)
    assert any(name.startswith("minicompile program (") for name in names)
    assert graph.compiled.call.__globals__ == before
    with torch.profiler.profile() as profile:
        compiled(x)
    assert graph.compiled.kernels[0].name not in [event.key for event in profile.key_averages()]


def test_stages_follow_one_another() -> None:
    compiled = minicompile.compile(program)
    compiled(torch.randn(8, 8))
    compiled(torch.randn(9, 9))
    events = compile_events(compiled.entries)
    wholes = [event for event in events if event["name"].startswith("compile ")]
    assert len(wholes) == len(compiled.entries) == 2
    for whole in wholes:
        parts = [event for event in events if event["tid"] == whole["tid"] and event is not whole]
        assert sum(part["dur"] for part in parts) == pytest.approx(whole["dur"])
        assert all(whole["ts"] <= part["ts"] for part in parts)


def test_one_file_with_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(minicompile.compile(program), (torch.randn(8, 8),), tmp_path / "trace.json")
    names = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    assert any(str(name).startswith("kernel_0_") for name in names) and "aten.mm.default" in names
    assert any(str(name).startswith("compile program") for name in names)
    out = tmp_path / "other.json"
    assert main(["trace", f"{__file__}:program", "--args", "torch.ones(3, 3)", "--out", str(out)]) == 0
    assert "traceEvents" in json.loads(out.read_text()) and str(out) in capsys.readouterr().out
