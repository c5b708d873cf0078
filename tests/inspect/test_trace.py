"""Traces: compile stages when they ran, kernels by name in torch.profiler, and nothing left behind."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import minicompile
from minicompile.cli import main
from minicompile.inspect.trace import compile_events, write_trace


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x, -1) + 1


def names_in(profile: Any) -> set[str]:
    return {event.key for event in profile.key_averages()}


def test_profile_shows_kernels_by_name() -> None:
    compiled = minicompile.compile(program)
    x = torch.randn(8, 8)
    expected = compiled(x)
    (entry,) = compiled.entries
    graph = entry.graphs[0].compiled
    before = dict(graph.call.__globals__), dict(entry.run.__globals__)
    for _ in range(2):
        with torch.profiler.profile() as profile:
            assert torch.equal(compiled(x), expected)
        assert {graph.kernels[0].name, "aten.mm.default"} <= names_in(profile)
        assert any(name.startswith("minicompile program (") for name in names_in(profile))
        assert (dict(graph.call.__globals__), dict(entry.run.__globals__)) == before, "no call costs more afterwards"


def test_what_is_compiled_while_profiling_is_named_too() -> None:
    compiled = minicompile.compile(lambda x: torch.tanh(x * 2).sum())
    with torch.profiler.profile() as profile:
        x = torch.randn(8, requires_grad=True)
        compiled(x).backward()
        compiled(x).backward()
    kernels = [kernel.name for kernel in compiled.entries[0].graphs[0].compiled.kernels]
    assert len(kernels) >= 2 and set(kernels) <= names_in(profile)


def test_the_other_door_is_named() -> None:
    compiled = torch.compile(lambda x: torch.softmax(x * 3, -1), backend="minicompile")
    compiled(torch.ones(4, 4))
    with torch.profiler.profile() as profile:
        compiled(torch.ones(4, 4))
    assert any(name.startswith("kernel_0_") for name in names_in(profile))


def ends(event: dict[str, Any]) -> tuple[float, float]:
    return event["ts"], event["ts"] + event["dur"]


def test_stages_are_a_timeline() -> None:
    begin = time.time() * 1e6
    compiled = minicompile.compile(program)
    with minicompile.config.patch(entry_cache=False):
        compiled(torch.randn(8, 8))
        compiled(torch.randn(9, 9))
        compiled(torch.randn(9, 9, requires_grad=True)).sum().backward()
    events = compile_events(compiled.entries)
    assert all(begin - 1e3 <= start and end <= time.time() * 1e6 + 1e3 for start, end in map(ends, events))
    wholes = [event for event in events if event["name"].startswith("compile program")]
    assert len(wholes) == len(compiled.entries) == 3
    assert any(event["name"].startswith("compile backward of") for event in events)
    (lowering, *_) = (event for event in events if event["name"] == "lowering")
    (backend, *_) = (event for event in events if event["name"] == "backend")
    assert ends(backend)[0] <= ends(lowering)[0] and ends(lowering)[1] <= ends(backend)[1] + 1
    for thread in {event["tid"] for event in events}:
        own = [ends(event) for event in events if event["tid"] == thread]
        for one in own:
            for other in own:
                apart = one[1] <= other[0] + 1 or other[1] <= one[0] + 1
                nested = one[0] <= other[0] + 1 and other[1] <= one[1] + 1
                assert apart or nested or (other[0] <= one[0] + 1 and one[1] <= other[1] + 1), "they cross"


def test_one_file_with_both_on_one_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(minicompile.compile(program), (torch.randn(8, 8),), tmp_path / "trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    names = {event.get("name") for event in events}
    assert any(str(name).startswith("kernel_0_") for name in names) and "aten.mm.default" in names
    (whole,) = (event for event in events if str(event.get("name")).startswith("compile program"))
    runs = [event["ts"] for event in events if event.get("name") == "aten.mm.default"]
    assert 0 < min(runs) - ends(whole)[1] < 60e6, "calls follow their compilation"
    out = tmp_path / "other.json"
    assert main(["trace", f"{__file__}:program", "--args", "torch.ones(3, 3)", "--out", str(out)]) == 0
    assert "traceEvents" in json.loads(out.read_text()) and str(out) in capsys.readouterr().out
