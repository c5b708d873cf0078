"""The dispatcher: the first entry that does not miss, what happens behind it, and what it keeps alive."""

import gc
import sys
import weakref

import pytest

from minicompile.frontend import dispatch as module
from minicompile.frontend.dispatch import dispatcher
from minicompile.guards import MISS
from minicompile.guards.recent import RecentFirst


@pytest.fixture(params=["C", "Python"], autouse=True)
def door(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(module, "_native", None)
    elif module._native is None:
        pytest.skip("the extension was not built: no C compiler")


class Entry:
    def __init__(self, run):
        self.run = run


def only(wanted, result):
    return Entry(lambda func, *slots: result if slots[0] == wanted else MISS)


def made(*entries, miss=lambda func, slots, tried: ("miss", func, slots, tried)):
    recent = RecentFirst()
    recent.entries = entries
    return recent, dispatcher(recent, miss)


def test_the_entry_that_fits_comes_first_from_then_on():
    one, two, three = only(1, "one"), only(2, "two"), only(3, None)
    recent, dispatch = made(one, two, three)
    assert dispatch("f", 1) == "one" and recent.entries == (one, two, three)
    assert dispatch("f", 3) is None and recent.entries == (three, one, two)
    assert dispatch("f", 2) == "two" and recent.entries == (two, three, one)
    assert dispatch("f", 4) == ("miss", "f", (4,), (two, three, one))
    assert made()[1]("f") == ("miss", "f", (), ())


def test_what_an_entry_raises_is_raised():
    def run(func, *slots):
        raise KeyError(slots)

    _, dispatch = made(only(1, "one"), Entry(run), only(2, "two"))
    assert dispatch("f", 1) == "one"
    with pytest.raises(KeyError, match="2, 3"):
        dispatch("f", 2, 3)
    with pytest.raises(AttributeError):
        made(object())[1]("f")
    with pytest.raises(TypeError):
        dispatch()
    with pytest.raises(TypeError):
        dispatch("f", slot=1)


def test_entries_may_change_while_one_runs():
    recent, dispatch = made()

    def run(func, *slots):
        recent.entries = ()
        gc.collect()
        return MISS

    recent.entries = (Entry(run), only(1, "one"))
    assert dispatch("f", 1) == "one"
    assert [entry.run("f", 1) for entry in recent.entries] == ["one"]


def test_it_calls_itself():
    recent, dispatch = made(miss=lambda func, slots, tried: "end")
    recent.entries = (Entry(lambda func, n: dispatch(func, n - 1) if n else MISS),)
    assert dispatch("f", 20) == "end"


def test_references():
    slot, result = object(), object()
    recent, dispatch = made(Entry(lambda func, *slots: MISS), Entry(lambda func, *slots: result))
    before = sys.getrefcount(slot), sys.getrefcount(result), sys.getrefcount(MISS)
    for _ in range(50):
        recent.entries = recent.entries[::-1]
        dispatch("f", slot)
    assert (sys.getrefcount(slot), sys.getrefcount(result), sys.getrefcount(MISS)) == before


def test_a_cycle_through_its_owner_is_collected():
    class Segment:
        def __init__(self):
            self.entries = RecentFirst()
            self.dispatch = dispatcher(self.entries, self.miss)

        def miss(self, func, slots, tried):
            return "miss"

    segment = Segment()
    dead = weakref.ref(segment), weakref.ref(segment.dispatch)
    assert segment.dispatch("f") == "miss"
    del segment
    gc.collect()
    assert [reference() for reference in dead] == [None, None]
