"""What the compiler says of guards, recompiles and open sizes: each fact with the user's line, and what to do."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

import minicompile
from minicompile import logs
from minicompile.config import config
from minicompile.errors import RecompileLimitError


@pytest.fixture(autouse=True)
def _off():
    yield
    logs.set_logs(all=False)


def lines_of(guards):
    """Fact → the number of the line that it comes from, counted from the function's own."""
    rows = (row.split("  # ") for row in str(guards).splitlines())
    return {row[0].strip(): int(row[1].rsplit(":", 1)[1]) for row in rows if len(row) == 2}


def program(x, y, n, lr):
    a = x.view(-1, 4, n)
    if x.shape[0] > 3:
        a = a * lr
    return a, x + y


def test_each_guard_comes_with_the_line_that_made_it_one():
    compiled = minicompile.compile(program, dynamic=True)
    compiled(torch.randn(8, 6), torch.randn(8, 6), 3, 0.5)
    first = program.__code__.co_firstlineno
    found = {fact: line - first for fact, line in lines_of(compiled.entries[0].guards).items()}
    assert found["n == 3"] == 1 and found["lr == 0.5"] == 3
    assert found["((x.shape[0]*x.shape[1]) % 12) == 0"] == 1
    assert found["y is a Tensor torch.float32 (?, ?) on cpu"] == 4
    assert "y.shape[0] == x.shape[0]" in str(compiled.entries[0].guards)


def test_a_weaker_bound_is_not_checked_beside_a_stronger_one():
    from minicompile.frontend.sources import LocalSource
    from minicompile.guards import GuardSet, build_check
    from minicompile.guards.sizes import SizeGuard

    n, m = LocalSource("n"), LocalSource("m")
    texts = ["{0} >= 2", "{0} >= 4", "{0} >= 3", "{0} <= 9", "{0} <= 7", "{0} != 5"]
    guards = GuardSet([*(SizeGuard(text, (n,)) for text in texts), SizeGuard("{0} >= 2", (m,))])
    check = build_check(guards, ["n", "m"])
    assert [guard.text() for guard in check.guards] == ["n >= 4", "n <= 7", "n != 5", "m >= 2"]
    accepts = check.function(["n", "m"])
    assert [n for n in range(12) if accepts(None, n, 2)] == [4, 6, 7] and not accepts(None, 4, 1)


def test_arithmetic_is_checked_last():
    compiled = minicompile.compile(program, dynamic=True)
    compiled(torch.randn(8, 6), torch.randn(8, 6), 3, 0.5)
    code = compiled.entries[0].code
    cheap, tensors, relation = code.index("n == 3"), code.index("__tensors("), code.index("% 12")
    assert cheap < tensors < relation


def test_a_record_says_what_varied_where_it_is_read_and_what_becomes_of_it():
    compiled = minicompile.compile(program)
    for lr, rows in ((0.1, 8), (0.05, 8), (0.025, 16), (0.0125, 24)):
        compiled(torch.randn(rows, 6), torch.randn(rows, 6), 3, lr)
    first, second = map(str, compiled.recompiles)
    line = program.__code__.co_firstlineno + 3
    assert first == (
        "program(x, y, n, lr) compiled again: argument lr is 0.05, compiled for 0.1, "
        f"read at {__file__}:{line}; lr is an input from now on"
    )
    assert second.endswith("; x.shape[0] and y.shape[0] are inputs from now on")
    assert compiled.recompiles[1].opened == ("x.shape[0]", "y.shape[0]")


LIMITED = {
    "a number": (lambda x, n: x * {n: 1}[n], lambda i: i + 0.5, "pass it as a tensor"),
    "an object": (lambda x, o: x * id(o) if False else x + (o is None), lambda i: object, "outside of the compiled"),
    "items": (lambda x, items: x + len(items), lambda i: [0.5] * i, "stack them in a tensor"),
    "sizes": (lambda x, y: x + (y.shape[0] + 0.5 if y.dim() > 1 else 1), lambda i: torch.ones([2] * (i + 1)), ""),
}


@pytest.mark.parametrize("name", [name for name in LIMITED if name != "an object"])
def test_the_limit_warns_once_and_says_what_to_do(name):
    fn, value, advice = LIMITED[name]
    compiled = minicompile.compile(fn)
    with config.patch(recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(8):
            assert torch.equal(compiled(torch.ones(2), value(i)), fn(torch.ones(2), value(i)))
    (message,) = [str(w.message) for w in caught if "which is the limit" in str(w.message)]
    assert len(compiled.entries) == 3
    assert re.search(r"compiled <lambda> \(.*test_guard_reports.py:\d+\) 3 times", message)
    assert "What kept changing: " in message and advice in message and "recompile_limit" in message


@pytest.mark.parametrize("strictly", [{"fullgraph": True}, {}])
def test_where_eager_is_not_allowed_the_limit_is_an_error(strictly):
    fn = lambda x, n: x * {n: 1}[n]  # noqa: E731
    with config.patch(recompile_limit=2, strict=not strictly), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = minicompile.compile(fn, **strictly)
        for i in range(2):
            compiled(torch.ones(2), i + 0.5)
        for _ in range(2):
            with pytest.raises(RecompileLimitError, match="2 times, which is the limit.*argument n is 7.5"):
                compiled(torch.ones(2), 7.5)
        assert torch.equal(compiled(torch.ones(2), 0.5), torch.ones(2))


EXPECTED = {
    "graph": "captured from", "fx": "def forward", "ir": "before the passes", "breaks": "graph break:",
    "guards": "is used again while", "recompiles": "compiled again", "dynamic": r"x\.shape\[0\] varies",
    "fusion": "kept apart|fused", "kernels": r"kernel_0|extern", "output_code": "def entry", "perf": r"\d ms",
    "cache": "built .*so in",
}  # fmt: skip


def test_every_subject_has_something_to_say(caplog, tmp_path):
    assert set(EXPECTED) == set(logs.NAMES)
    logs.set_logs(all=True)
    with config.patch(cache_dir=tmp_path):
        compiled = minicompile.compile(lambda x: (torch.softmax(x * 2, -1) + x.sum().item(), print(end="")))
        for rows in (2, 3, 4):
            compiled(torch.randn(rows, 6))
    for name, text in EXPECTED.items():
        said = [record.getMessage() for record in caplog.records if record.name == f"minicompile.{name}"]
        assert any(re.search(text, message) for message in said), (name, said)


def test_subjects_that_are_off_say_nothing(caplog):
    logs.set_logs(recompiles=True)
    compiled = minicompile.compile(lambda x: x * 2)
    for rows in (2, 3, 4):
        compiled(torch.randn(rows, 6))
    assert {record.name for record in caplog.records if record.name.startswith("minicompile")} == {
        "minicompile.recompiles"
    }
