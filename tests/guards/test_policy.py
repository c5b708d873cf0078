"""The recompile policy: limit, records, the one warning; and the order of entries."""

import warnings

import pytest

from minicompile.config import config
from minicompile.guards.policy import RecompilePolicy
from minicompile.guards.recent import RecentFirst


def test_first_call_compiles_and_is_no_recompile():
    policy = RecompilePolicy("f (a.py:1)")
    assert policy.decide("f(x)", []).action == "compile"
    assert policy.records == []


def test_a_miss_compiles_again_and_records_the_nearest_entry():
    policy = RecompilePolicy("f (a.py:1)")
    far, near = ["argument x is a list, compiled for a Tensor", "argument n is 4, compiled for 3"], ["n is 4"]
    assert policy.decide("f(x, 4)", [far, near]).action == "compile"
    (record,) = policy.records
    assert record.call == "f(x, 4)" and record.reasons == ("n is 4",) and record.compiled
    assert str(record) == "f(x, 4) compiled again: n is 4"


def test_the_limit_runs_eagerly_with_one_warning_in_plain_words():
    policy = RecompilePolicy("step (train.py:12)", limit=3)
    reason = "argument lr is 0.05, compiled for 0.1"
    assert [policy.decide("step", [[reason]] * entries).action for entries in (1, 2)] == ["compile", "compile"]
    with pytest.warns(RuntimeWarning) as caught:
        assert policy.decide("step", [[reason]] * 3).action == "eager"
    (message,) = [str(warning.message) for warning in caught]
    for words in ("step (train.py:12)", "3 times", "argument lr (3 times)", reason, "recompile_limit"):
        assert words in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decision = policy.decide("step", [[reason]] * 3)
    assert decision.action == "eager" and "limit" in decision.reason
    assert [record.compiled for record in policy.records] == [True, True, False]


def test_the_limit_is_read_from_config_at_each_miss():
    policy = RecompilePolicy("f")
    with config.patch(recompile_limit=1), pytest.warns(RuntimeWarning):
        assert policy.decide("f", [["x"]]).action == "eager"
    assert policy.decide("f", [["x"]]).action == "compile"


def test_recompiles_are_logged(caplog):
    caplog.set_level("INFO", "minicompile.recompiles")
    RecompilePolicy("f").decide("f(x)", [["argument n is 4, compiled for 3"]])
    assert caplog.messages == ["f(x) compiled again: argument n is 4, compiled for 3"]


def test_recent_first():
    entries = RecentFirst()
    a, b, c = object(), object(), object()
    for entry in (a, b, c):
        entries.use(entry)
    assert list(entries) == [c, b, a]
    during = entries.entries
    entries.use(a)
    entries.use(a)
    assert list(entries) == [a, c, b] and during == (c, b, a)
    entries.discard(c)
    assert list(entries) == [a, b] and len(entries) == 2
