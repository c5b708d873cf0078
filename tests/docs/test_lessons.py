"""The practice sessions: what they measure, and that each runs as `python -m minicompile.lessons.NAME`."""

from __future__ import annotations

import importlib

import pytest

from minicompile.lessons import backends, benchmark, breaks, capture, codegen


def test_backends_agree() -> None:
    rows = backends.run(("eager", "aot_eager", "auto"))
    assert [row.backend for row in rows] == ["eager", "aot_eager", "auto"]
    assert all(row.error < 1e-5 and row.later < row.first for row in rows)


def test_capture_counts_nodes_by_line() -> None:
    nodes, counts = capture.run()
    first = capture.busy.__code__.co_firstlineno
    assert counts == {first + 3: 6, first + 5: 1} and nodes[0][1].endswith("torch.sin")


def test_breaks_are_mended() -> None:
    for row in breaks.run():
        assert row.broken >= 1 and row.whole == 1 and row.same and "Graph break" in row.advice


def test_codegen_fuses_around_products() -> None:
    explanation = codegen.run()
    assert [row.language for row in explanation.costs].count("extern") == 2 and explanation.kernel_count >= 2


def test_codegen_shows_each_decision(capsys: pytest.CaptureFixture[str]) -> None:
    codegen.main()
    _, _, decided = capsys.readouterr().out.partition("Decided, in this order:\n")
    assert "fused: saves" in decided.splitlines()[0]


def test_benchmark_times_both() -> None:
    results = benchmark.run((1, 4), rounds=2)
    assert set(results) == {1, 4} and set(results[1]) == {"eager", "compiled"}


@pytest.mark.parametrize("name", ["capture", "breaks", "codegen"])
def test_sessions_print(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"minicompile.lessons.{name}").main()
    out = capsys.readouterr().out
    assert out.startswith("Session ") and "Your task" in out and "Question" in out and "Answer" in out
