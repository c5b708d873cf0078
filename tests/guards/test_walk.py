"""Runs of reads and comparisons as one native call: the same hits and misses, the same order, nothing kept."""

import gc
import sys
import weakref

import pytest
import torch
from torch import nn

import minicompile
from minicompile.frontend.sources import InstanceDictSource, ItemSource, ModuleMemberSource
from minicompile.guards import GuardSet, build_check, walk
from minicompile.guards.kinds import ConstantGuard, InstanceAttrAbsentGuard, TypeGuard

from .support import Checked, X, anything

native = pytest.mark.skipif(walk._native is None, reason="the extension was not built: no C compiler")


class Part(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate, self.name, self.flag, self.raw, self.nothing = rate, f"part {rate}", True, b"\x00", None
        self.weight = nn.Parameter(torch.zeros(2))
        self.table = {"a": [1, 2], 3: "three"}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Part(rate) for rate in range(4))


def guards_on(whole):
    result = [TypeGuard.of(X, whole)]
    parts = ModuleMemberSource(X, "_modules", "parts")
    result.append(TypeGuard.of(parts, whole.parts))
    for number, part in enumerate(whole.parts):
        source = ModuleMemberSource(parts, "_modules", str(number))
        result += [TypeGuard.of(source, part), InstanceAttrAbsentGuard(source, "forward")]
        result += [ConstantGuard(InstanceDictSource(source, n), getattr(part, n))
                   for n in ("rate", "name", "flag", "raw", "nothing")]  # fmt: skip
        table = InstanceDictSource(source, "table")
        result += [TypeGuard.of(table, part.table), ConstantGuard(ItemSource(table, 3), "three")]
        result += [ConstantGuard(ItemSource(ItemSource(table, "a"), 1), 2)]
        result.append(TypeGuard.of(ModuleMemberSource(source, "_parameters", "weight"), part.weight))
    return result


class Counted(dict):
    pass


CHANGES = {
    "the type of the whole": lambda w: setattr(w, "__class__", nn.Module),
    "the type of a part": lambda w: setattr(w.parts[3], "__class__", Whole),
    "an attribute of its own": lambda w: setattr(w.parts[2], "forward", None),
    "a number": lambda w: setattr(w.parts[1], "rate", 7),
    "a number's type": lambda w: setattr(w.parts[1], "rate", True),
    "a float that is equal": lambda w: setattr(w.parts[1], "rate", 1.0),
    "a text": lambda w: setattr(w.parts[0], "name", "other"),
    "a flag": lambda w: setattr(w.parts[0], "flag", 1),
    "bytes": lambda w: setattr(w.parts[0], "raw", bytearray(b"\x00")),
    "none": lambda w: setattr(w.parts[3], "nothing", 0),
    "a missing key": lambda w: w.parts[2].table.pop(3),
    "a missing attribute": lambda w: delattr(w.parts[2], "rate"),
    "a missing part": lambda w: w.parts._modules.pop("3"),
    "an item": lambda w: w.parts[2].table["a"].__setitem__(1, 5),
    "an index": lambda w: w.parts[2].table["a"].pop(),
    "no container": lambda w: w.parts[2].table.__setitem__("a", None),
    "another kind of dict": lambda w: setattr(w.parts[2], "table", Counted(w.parts[2].table)),
    "a parameter": lambda w: w.parts[2]._parameters.__setitem__("weight", torch.zeros(2)),
    "a registry": lambda w: w.parts[2].__dict__.__setitem__("_parameters", None),
}


@pytest.fixture(params=["C", "Python"])
def check(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(walk, "_native", None)
    elif walk._native is None:
        pytest.skip("the extension was not built: no C compiler")
    checked = Checked(*guards_on(Whole()))
    assert ("__walk0(" in checked.check.source) is (request.param == "C")
    return checked


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_a_miss(check, change):
    whole = Whole()
    assert check.hit(whole) is True and check.hit(None) is False
    CHANGES[change](whole)
    assert check.hit(whole) is False
    assert len(check.why(whole)) >= 1


def test_what_is_the_same_in_another_way_is_a_hit(check):
    whole = Whole()
    whole.parts[1].__dict__["_parameters"] = Counted(whole.parts[1]._parameters)
    whole.parts[1].table["a"] = (1, 2)
    whole.parts[2].name = "".join(["part", " 2"])
    assert check.hit(whole) is True


def test_the_text_says_what_is_checked(check):
    for line in ("# type(x.parts[3]) is Part", "# x.parts[2].name == 'part 2'"):
        assert line in check.check.source


@native
def test_nothing_is_kept():
    check, whole = Checked(*guards_on(Whole())), Whole()
    seen = (whole, whole.parts[1], whole.parts[1].__dict__, whole.parts[1].table, whole.parts[2].name, Part, None)
    check.hit(whole)  # constants may be held, once
    before = [sys.getrefcount(value) for value in seen]
    for change in (lambda w: None, CHANGES["a number"], CHANGES["a missing key"]):
        change(whole)
        for _ in range(20):
            check.hit(whole)
    after = [sys.getrefcount(value) for value in seen]
    assert before[:-1] == after[:-1] and abs(after[-1] - before[-1]) < 10


@native
def test_a_class_that_nobody_can_import_may_die():
    def made():
        class Local:
            pass

        return Local

    cls = made()
    instances = [cls() for _ in range(20)]
    guards = [TypeGuard.of(ItemSource(X, number), value) for number, value in enumerate(instances)]
    check = build_check(GuardSet([TypeGuard.of(X, instances), *guards]), ["x"])
    assert "__walk0(" in check.source and check.function(["x"])(anything, instances)
    assert not check.function(["x"])(anything, [made()() for _ in range(20)])
    dead = weakref.ref(cls)
    del cls, guards
    instances.clear()
    gc.collect()
    assert dead() is None and check.is_dead()


@native
@pytest.mark.parametrize(
    "steps",
    [
        (("item", 0),), (("attributes", 0, 1),), (("item", 1, "a"),), (("item", -1, "a"),), (("other", 0, 1),),
        ("item",), (1,), (("item", 0, "a"), ("type", 2, int)),
    ],
)  # fmt: skip
def test_a_program_must_make_sense(steps):
    with pytest.raises((TypeError, ValueError)):
        walk._native.Walk(steps, 1)


@native
def test_a_walk_by_hand():
    reads = (("attributes", 0), ("item", 1, "a"), ("item", 2, 1))
    steps = (*reads, ("equal", 3, "two"), ("absent", 2, 7), ("is", 2, None))
    one = walk._native.Walk(steps[:-1], 1)

    class Holder:
        pass

    holder = Holder()
    holder.a = {1: "two"}
    assert one(holder) == (holder.__dict__, holder.a, "two")
    assert walk._native.Walk(steps, 1)(holder) is None
    for broken in ({1: "one"}, {1: "two", 7: 0}):
        holder.a = broken
        assert one(holder) is None
    holder.a = {}
    with pytest.raises(KeyError, match="1"):
        one(holder)
    with pytest.raises(AttributeError):
        one(3)
    with pytest.raises(TypeError, match="starts from 1"):
        one()


def test_an_argument_called_underscore_survives():
    whole = Whole()

    def f(model, _, x):
        for part in model.parts:
            x = x * part.weight + part.rate
        return x + _

    compiled = minicompile.compile(f, dynamic=True)
    for size in (2, 2):
        x, y = torch.randn(size), torch.randn(3, 2)
        torch.testing.assert_close(compiled(whole, y, x), f(whole, y, x))
