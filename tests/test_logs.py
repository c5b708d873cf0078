"""Logs: subjects on and off, errors, the handler, the environment variable."""

import logging
import re
import subprocess
import sys
import time

import pytest

from minicompile import logs


@pytest.fixture(autouse=True)
def _off():
    yield
    logs.set_logs(all=False)


def test_a_subject_is_off_until_asked_for(caplog):
    log = logs.Log("graph")
    log("not seen")
    assert not log.on and caplog.messages == []
    logs.set_logs(graph=True)
    log("traced %d nodes", 3)
    assert log.on and not logs.Log("fusion").on
    assert caplog.messages == ["traced 3 nodes"] and caplog.records[0].name == "minicompile.graph"
    assert caplog.records[0].filename == "test_logs.py"
    logs.set_logs(graph=False)
    assert not log.on


def test_all_but_one():
    logs.set_logs(all=True, output_code=False)
    assert [name for name in logs.NAMES if not logs.Log(name).on] == ["output_code"]


@pytest.mark.parametrize("use", [lambda: logs.set_logs(graph=True, grahp=True), lambda: logs.Log("grahp")])
def test_an_unknown_subject_lists_the_known_ones_and_changes_nothing(use):
    with pytest.raises(ValueError, match="no logs called 'grahp'; known: graph, fx, ir, breaks"):
        use()
    assert not logs.Log("graph").on


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={"PATH": "", **environment}
    )


PROGRAM = "from minicompile import logs; logs.Log('cache')('a hit'); logs.Log('ir')('not asked for')"


def test_environment_variable_and_plain_handler():
    assert run(PROGRAM, MINICOMPILE_LOGS="cache, perf").stderr == "[minicompile.cache] a hit\n"
    assert run(PROGRAM).stderr == ""


def test_a_misspelt_environment_variable_warns_and_does_not_stop_the_program():
    done = run(PROGRAM + "; print('done')", MINICOMPILE_LOGS="cahce")
    assert done.stdout == "done\n" and "no logs called 'cahce'; known: graph" in done.stderr


def test_a_program_that_has_its_own_handlers_gets_no_second_line():
    program = f"import logging; logging.basicConfig(format='mine %(message)s'); {PROGRAM}; logs.set_logs(cache=True)"
    program += "; logs.Log('cache')('again')"
    assert run(program).stderr == "mine again\n"


def test_rich_on_a_terminal(monkeypatch):
    from rich.logging import RichHandler

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(logs._make_handler(), RichHandler)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert type(logs._make_handler()) is logging.StreamHandler


def test_the_share_of_the_frontend_is_logged(caplog):
    import torch

    import minicompile

    def slow_backend(gm, example_inputs):
        time.sleep(0.2)
        return gm.forward

    logs.set_logs(perf=True)
    minicompile.compile(lambda x: x + 1, backend=slow_backend)(torch.ones(2))
    text = next(record.message for record in caplog.records if "frontend's share" in record.message)
    found = re.search(r"trace ([\d.]+) ms, backend ([\d.]+) ms, glue ([\d.]+) ms; .* is (\d+)% of ([\d.]+) ms", text)
    assert found is not None, text
    trace, backend, glue, share, whole = map(float, found.groups())
    assert backend >= 200 and abs(trace + backend + glue - whole) < 1
    assert abs(share - 100 * (trace + glue) / whole) <= 1
