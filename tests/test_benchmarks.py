"""The benchmark program: one row for real, and the report on made-up results."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from benchmarks import training
from benchmarks.__main__ import _parser, _plot
from benchmarks.measure import BOUND, EAGER, INDUCTOR, OURS, Result, measure
from benchmarks.pinned import pinned
from benchmarks.plot import COLOURS, write_svg
from benchmarks.report import table, to_limit, verdict, write_json
from benchmarks.rows import chosen
from benchmarks.suite import QUICK, SUITE
from minicompile.inspect.timing import Timing


def made_up(name: str, eager: float, theirs: float, ours: float, bound: float, kind: str = "kernel") -> Result:
    times = {n: Timing(s, s, s) for n, s in ((EAGER, eager), (INDUCTOR, theirs), (OURS, ours), (BOUND, bound))}
    return Result(name, kind, True, times, {OURS: 0.1, INDUCTOR: 1.0}, {EAGER: 1e-7, OURS: 1e-7}, 100, 1, 1)


@pytest.mark.parametrize("asked, found", [
    ([], len(SUITE)), (["--only", "^BERT"], 1), (["--only", "^BERT", "--only", "^x . y"], 2),
])  # fmt: skip
def test_rows_that_are_asked_for(asked: list[str], found: int) -> None:
    assert len(chosen(SUITE.values(), _parser().parse_args(asked).only)) == found


@pytest.mark.parametrize("asked, said", [("nothing", "no row matches 'nothing'; there are: relu"), ("[", "")])
def test_rows_that_cannot_be_found_are_an_error(asked: str, said: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as error:
        chosen(SUITE.values(), _parser().parse_args(["--only", asked]).only)
    assert said in str(error.value) and (asked != "[" or "'[' is no regular expression" in capsys.readouterr().err)


def test_a_row_is_measured() -> None:
    result = measure(SUITE["tanh in cache"], inductor=False, rounds=2)
    assert not result.problems and result.kernels == 1 and result.times.keys() == {EAGER, OURS}
    assert result.first[OURS] > 0 and result.errors[OURS] < 1e-6


def test_a_row_that_writes_its_arguments_and_a_bound() -> None:
    result = measure(SUITE["normalise images"], inductor=False, rounds=2)
    assert BOUND in result.times and result.moved == 32 * 3 * 224 * 224 * 5 + 2 * 3 * 4


def test_verdict_names_the_slow_rows() -> None:
    lines = "\n".join(verdict([made_up("fast", 4, 4, 1, 1), made_up("slow", 1, 1, 2, 1)]))
    assert "below 1: slow 0.50" in lines and "over 1.15 of the bandwidth bound: slow 2.00" in lines
    assert "geometric mean 1.41" in lines and "first call, empty cache: 0.10" in lines


def test_table_and_json(tmp_path: Path) -> None:
    results = [made_up("x < y", 2, 3, 1, 1)]
    assert table(results).row_count == 1
    write_json(results, tmp_path / "bench.json")
    assert json.loads((tmp_path / "bench.json").read_text())["rows"][0]["times"][OURS]["median"] == 1


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `bench` installs it")
    write_svg([made_up("x < y", 2, 3, 1, 1), made_up("far", 20, 1, 1, 1)], tmp_path / "bench.svg")
    text = (tmp_path / "bench.svg").read_text()
    ElementTree.fromstring(text)
    for shown in ("x &lt; y", "torch.compile", "<!-- 20.00 -->", "<!-- 0.67 -->"):
        assert shown in text
    assert all(colour in text for colour in COLOURS.values())


def test_no_plot_without_matplotlib(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _plot([made_up("row", 2, 3, 1, 1)], tmp_path / "bench.svg")
    assert "minicompile[bench]" in capsys.readouterr().out and not (tmp_path / "bench.svg").exists()


@pytest.mark.parametrize("name", QUICK)
def test_quick_rows_exist(name: str) -> None:
    assert name in SUITE


def test_a_training_row_is_measured() -> None:
    times, first, saved = training.measure("MLP", inductor=False, rounds=2)
    assert times.keys() == first.keys() == saved.keys() == {EAGER, OURS}
    assert 0 < saved[OURS] <= saved[EAGER]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no sched_getaffinity")
def test_threads_are_pinned_and_let_go() -> None:
    before = os.sched_getaffinity(0)
    with pinned():
        assert len(os.sched_getaffinity(0)) == 1 or torch.get_num_threads() > len(before)
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("name", [name for name, row in SUITE.items() if row.part is not None])
def test_parts_are_the_same_work(name: str) -> None:
    """As many elements times as many parts."""
    row = SUITE[name]
    assert row.part is not None
    (_, whole), (_, part) = row.make(), row.part.make()
    assert max(x.numel() for x in whole[:1]) == row.part.times * max(x.numel() for x in part[:1])


def test_work_in_cache_is_a_limit() -> None:
    result = made_up("row", 4, 4, 2, 1)
    assert to_limit(result) == 2.0
    result.work = 1.9
    assert "over 1.15 of it or of the same work in cache, whichever takes longer: none" in verdict([result])
