"""What a check has read is not read again while it stays the same, and any change of it is seen."""

import builtins
import gc
import sys
import threading
import types
import weakref
from collections import OrderedDict

import pytest
import torch
from torch import nn

from minicompile.frontend.sources import (
    AttrSource,
    BuiltinSource,
    ConstSource,
    FreeCellSource,
    FunctionClosureSource,
    FunctionDefaultSource,
    GlobalSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    ModuleMemberSource,
)
from minicompile.guards import unchanged
from minicompile.guards.held import Held
from minicompile.guards.kinds import (
    AttrPresenceGuard,
    ClassNamesGuard,
    ConstantGuard,
    DistinctObjectsGuard,
    FunctionCodeGuard,
    GlobalAbsentGuard,
    IdentityGuard,
    InstanceAttrAbsentGuard,
    KeyPresenceGuard,
    KeysGuard,
    LengthGuard,
    NoModuleHooksGuard,
    SameObjectGuard,
    TypeGuard,
)

from .support import Checked, X

pytestmark = pytest.mark.skipif(
    unchanged._native is None, reason="the extension was not built: no C compiler, or dicts have no versions"
)

LIMIT = 3


def scaled(x, by=2, *, past=None):
    return min(x * by, LIMIT)


def made_with(number, function):
    def inner(x):
        return function(x) + number

    return inner


class Owner:
    rate = 0.5

    @property
    def half(self):
        return self.rate / 2

    @classmethod
    def made(cls):
        return cls()

    def forward(self, x):
        return x


class Kind:
    __slots__ = ("label",)


class Slotted:
    __slots__ = ("kind", "name")

    def __init__(self):
        self.name, self.kind = "first", Kind()


class Box(Owner):
    def __init__(self):
        self.number, self.text, self.shape = 1000, "a text", (3, 4000)
        self.table = {"a": 1, "b": {"c": 2.5}}
        self.function, self.inner = scaled_copy(), made_with(7000, scaled)
        self.layer = nn.Linear(2, 2)
        self.other = self.table
        self.slotted, self.nothing, self.hooks = Slotted(), (), OrderedDict()


def scaled_copy():
    return types.FunctionType(scaled.__code__, dict(scaled.__globals__), "copy", scaled.__defaults__)


def attribute(name, base=X):
    return InstanceDictSource(base, name)


OWNER = ConstSource(Owner, "__c_owner")
FUNCTION, INNER, LAYER, TABLE = attribute("function"), attribute("inner"), attribute("layer"), attribute("table")
NAMES = ("__name__", "__qualname__", "__module__")
SLOTTED, HOOKS, LAYER_DICT = attribute("slotted"), attribute("hooks"), AttrSource(LAYER, "__dict__")


def guards_on(box):
    weight = ModuleMemberSource(LAYER, "_parameters", "weight")
    cell, default = FunctionClosureSource(INNER, 1, "number"), FunctionDefaultSource(FUNCTION, 0)
    found = [
        TypeGuard.of(X, box), ConstantGuard(attribute("number"), 1000), ConstantGuard(attribute("text"), "a text"),
        TypeGuard.of(attribute("shape"), ()), LengthGuard(attribute("shape"), 2),
        ConstantGuard(ItemSource(attribute("shape"), 1), 4000), InstanceAttrAbsentGuard(X, "forward"),
        TypeGuard.of(TABLE, {}), KeysGuard.of(TABLE, box.table), TypeGuard.of(ItemSource(TABLE, "b"), {}),
        ConstantGuard(ItemSource(ItemSource(TABLE, "b"), "c"), 2.5), KeyPresenceGuard(ItemSource(TABLE, "b"), 7, False),
        TypeGuard.of(FUNCTION, scaled), FunctionCodeGuard(FUNCTION, scaled.__code__), ConstantGuard(default, 2),
        ConstantGuard(GlobalSource("LIMIT", FUNCTION), 3), GlobalAbsentGuard("min", FUNCTION),
        IdentityGuard.of(BuiltinSource("min", FUNCTION), min), TypeGuard.of(INNER, scaled),
        FunctionCodeGuard(INNER, box.inner.__code__), ConstantGuard(cell, 7000),
        IdentityGuard.of(FunctionClosureSource(INNER, 0, "function"), scaled), TypeGuard.of(LAYER, box.layer),
        NoModuleHooksGuard(LAYER), TypeGuard.of(weight, box.layer.weight),
        AttrPresenceGuard(LAYER, "missing", False, Held(nn.Linear), ("_parameters", "_buffers", "_modules")),
        IdentityGuard.of(AttrSource(OWNER, "forward"), Owner.forward), ConstantGuard(AttrSource(OWNER, "rate"), 0.5),
        IdentityGuard.of(AttrSource(AttrSource(OWNER, "half"), "fget"), Owner.half.fget), ClassNamesGuard.of(Owner),
        SameObjectGuard(TABLE, attribute("other")), DistinctObjectsGuard((FUNCTION, INNER)),
        TypeGuard.of(SLOTTED, box.slotted), ConstantGuard(AttrSource(SLOTTED, "name"), "first"),
        TypeGuard.of(AttrSource(SLOTTED, "kind"), box.slotted.kind), TypeGuard.of(attribute("nothing"), ()),
        LengthGuard(attribute("nothing"), 0), TypeGuard.of(HOOKS, box.hooks), KeysGuard.of(HOOKS, box.hooks),
        TypeGuard.of(LAYER_DICT, {}), ConstantGuard(ItemSource(LAYER_DICT, "in_features"), 2),
        *(ConstantGuard(AttrSource(OWNER, name), getattr(Owner, name)) for name in NAMES),
    ]  # fmt: skip
    assert len(unchanged.Watch(found).guards) == len(found)
    return found


@pytest.mark.parametrize("value", [None, 3])
def test_what_only_a_cell_or_a_default_held_is_not_taken_for_its_successor(value):
    """A weak reference to what has died says None."""

    def made():
        box = Box()
        box.inner = made_with(7000, scaled_copy())
        box.function.__defaults__ = (scaled_copy(), 1)
        return box

    box, cell, default = made(), FunctionClosureSource(INNER, 0, "function"), FunctionDefaultSource(FUNCTION, 0)
    same = [
        TypeGuard.of(X, box), TypeGuard.of(INNER, scaled), TypeGuard.of(FUNCTION, scaled), TypeGuard.of(TABLE, {}),
        *(ConstantGuard(attribute(name), getattr(box, name)) for name in ("number", "text")),
        *(KeyPresenceGuard(TABLE, number, False) for number in range(20)),
    ]  # fmt: skip
    for place in (cell, default):
        held = box.inner.__closure__[0].cell_contents if place is cell else box.function.__defaults__[0]
        check = Checked(*same, IdentityGuard.of(place, held))
        del held
        settled(check, box)
        if place is cell:
            box.inner.__closure__[0].cell_contents = value
        else:
            box.function.__defaults__ = (value, 1)
        gc.collect()
        assert not is_known(check, box) and check.hit(box) is False


def settled(check, box):
    """The box, which the check has seen, and whose parts it need not read again."""
    assert check.hit(box) is True and is_known(check, box) and check.hit(box) is True
    return box


def is_known(check, *inputs):
    return check.check.namespace["__unchanged"](*inputs) is not None


def set_cell(box):
    box.inner.__closure__[1].cell_contents = 7001


CHANGES = {
    "a number": lambda b: setattr(b, "number", 1001),
    "a text": lambda b: b.__dict__.update(text="another"),
    "a tuple": lambda b: setattr(b, "shape", (3, 4001)),
    "a method of its own": lambda b: setattr(b, "forward", None),
    "a deleted attribute": lambda b: delattr(b, "text"),
    "a class": lambda b: setattr(b, "__class__", Owner),
    "a key": lambda b: b.table.__setitem__("c", 1),
    "a key less": lambda b: b.table.pop("a"),
    "the order of keys": lambda b: b.table.__setitem__("a", b.table.pop("a")),
    "a value deep inside": lambda b: b.table["b"].__setitem__("c", 2.75),
    "a key that was absent": lambda b: b.table["b"].setdefault(7),
    "a kind of dict": lambda b: b.table.__setitem__("b", OrderedDict(c=2.5)),
    "another dict": lambda b: setattr(b, "table", dict(b.table)),
    "all attributes": lambda b: setattr(b, "__dict__", {**b.__dict__, "number": 0}),
    "code": lambda b: setattr(b.function, "__code__", made_with.__code__),
    "a default": lambda b: setattr(b.function, "__defaults__", (3,)),
    "defaults": lambda b: setattr(b.function, "__defaults__", None),
    "a global": lambda b: b.function.__globals__.update(LIMIT=4),
    "a hidden builtin": lambda b: b.function.__globals__.update(min=max),
    "another function": lambda b: setattr(b, "function", b.inner),
    "a cell": set_cell,
    "a hook": lambda b: b.layer.register_forward_hook(print),
    "a backward hook": lambda b: b.layer.register_full_backward_hook(print),
    "a parameter": lambda b: b.layer.__dict__["_parameters"].__setitem__("weight", None),
    "a buffer by that name": lambda b: b.layer.register_buffer("missing", None),
    "a part by that name": lambda b: b.layer.add_module("missing", nn.Identity()),
    "an attribute by that name": lambda b: setattr(b.layer, "missing", 1),
    "a registry": lambda b: b.layer.__dict__.__setitem__("_parameters", {}),
    "a relation": lambda b: setattr(b, "other", dict(b.table)),
    "one for two": lambda b: setattr(b, "function", b.inner),
    "a slot": lambda b: setattr(b.slotted, "name", "second"),
    "a slot's kind": lambda b: setattr(b.slotted, "kind", None),
    "an empty slot": lambda b: delattr(b.slotted, "name"),
    "another object with slots": lambda b: setattr(b, "slotted", Kind()),
    "an empty tuple": lambda b: setattr(b, "nothing", (1,)),
    "an empty dict of a subclass": lambda b: b.hooks.update(a=1),
    "an attribute read from all": lambda b: setattr(b.layer, "in_features", 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change):
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    CHANGES[change](box)
    assert check.hit(box) is False
    assert settled(check, Box()) is not box


CLASS_CHANGES = {
    "a method": ("forward", lambda self, x: -x),
    "a number": ("rate", 0.25),
    "a property": ("half", property(lambda self: 0)),
    "a new name": ("another", 1),
}


@pytest.mark.parametrize("name, value", CLASS_CHANGES.values(), ids=CLASS_CHANGES)
def test_a_change_of_a_class_is_seen(name, value, monkeypatch):
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    with monkeypatch.context() as patch:
        patch.setattr(Owner, name, value, raising=False)
        assert check.hit(box) is False
    settled(check, box)


@pytest.mark.parametrize("name", NAMES)
def test_another_name_of_a_class_is_seen(name):
    check = Checked(*guards_on(Box()))
    box, before = settled(check, Box()), getattr(Owner, name)
    setattr(Owner, name, "Other")
    try:
        assert check.hit(box) is False
    finally:
        setattr(Owner, name, before)
    settled(check, box)


def test_a_change_of_a_builtin_is_seen(monkeypatch):
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "min", max)
        assert check.hit(box) is False
    settled(check, box)


def test_a_change_of_a_base_class_is_seen(monkeypatch):
    box = ConstSource(Box, "__c_box")
    check = Checked(*guards_on(Box()), IdentityGuard.of(AttrSource(box, "forward"), Box.forward))
    value = settled(check, Box())
    monkeypatch.setattr(Owner, "forward", lambda self, x: x + 1)
    assert check.hit(value) is False


def test_stores_that_the_interpreter_has_specialized_are_seen():
    check = Checked(*guards_on(Box()))
    box = Box()

    def store(value):
        box.number = value

    for _ in range(100):
        store(1000)
        settled(check, box)
        store(1001)
        assert check.hit(box) is False


def test_the_same_again_is_known_again():
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    for value in (1001, 1000, 1002):
        box.number = value
        assert check.hit(box) is (value == 1000)
        assert is_known(check, box) is (value == 1000)
    box.number = 1000
    settled(check, box)


def test_what_is_not_read_may_change():
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    with torch.no_grad():
        box.layer.weight.add_(1)
    box.layer.weight.grad = torch.zeros(2, 2)
    box.function.__dict__["note"] = 1
    assert is_known(check, box)
    box.new = 1  # in a dict of which some keys were read
    assert is_known(check, box)
    box.table["new"] = 1  # in one of which all were read
    assert not is_known(check, box) and check.hit(box) is False


def test_what_was_read_of_a_dict_is_looked_up_where_others_of_its_keys_change():
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    for count in range(200):
        box.count = count
        assert is_known(check, box)
    for name, value in (("number", 1001), ("table", dict(box.table)), ("layer", nn.Linear(2, 2))):
        before = getattr(box, name)
        box.count += 1
        setattr(box, name, value)
        assert check.hit(box) is (name == "layer")
        box.count += 1
        setattr(box, name, before)
        assert check.hit(box) is True


def test_an_equal_value_that_is_another_object_is_asked_again():
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    box.shape = tuple([3, 4000])
    assert not is_known(check, box)
    settled(check, box)
    box.text = "".join(["a ", "text"])
    assert not is_known(check, box)
    settled(check, box)


def test_many_objects_are_known_at_a_time():
    check = Checked(*guards_on(Box()))
    boxes = [settled(check, Box()) for _ in range(30)]
    assert all(is_known(check, box) for box in boxes)
    boxes[7].number = 0
    assert [check.hit(box) for box in boxes] == [number != 7 for number in range(30)]
    assert all(check.hit(Box()) for _ in range(100))


def test_what_always_changes_is_not_noted_for_ever():
    check = Checked(*guards_on(Box()))
    box = Box()
    for _ in range(200):
        box.table = box.other = dict(box.table)
        assert check.hit(box) is True
    box.number = 0
    assert not is_known(check, box) and check.hit(box) is False


def test_an_address_that_is_used_again_tells_nothing():
    check = Checked(*guards_on(Box()))
    places = set()
    for number in range(300):
        box = Box()
        box.number = 1000 + number % 2
        places.add(id(box))
        assert check.hit(box) is (number % 2 == 0)
        del box
    assert len(places) < 300


def test_what_changes_while_it_is_checked_is_not_taken_for_known():
    check = Checked(*guards_on(Box()))
    box, asked = settled(check, Box()), check.check.namespace["__unchanged"]
    noted = asked.note(box)
    box.number = 1001
    asked.settle(noted)
    assert not is_known(check, box) and check.hit(box) is False


RIGHT_AGAIN = {
    "a key": lambda box, is_right: setattr(box, "number", 1000 if is_right else 1001),
    "a cell": lambda box, is_right: setattr(box.inner.__closure__[1], "cell_contents", 7000 if is_right else 7001),
    "a slot": lambda box, is_right: setattr(box.slotted, "name", "first" if is_right else "second"),
    "defaults": lambda box, is_right: setattr(box.function, "__defaults__", (2,) if is_right else (3,)),
}


@pytest.mark.parametrize("change", RIGHT_AGAIN.values(), ids=RIGHT_AGAIN)
def test_what_was_wrong_when_it_was_noted_is_not_remembered(change):
    """Another thread may make it right before it is checked."""
    check = Checked(*guards_on(Box()))
    box, asked = settled(check, Box()), check.check.namespace["__unchanged"]
    change(box, False)
    noted = asked.note(box)
    change(box, True)
    asked.settle(noted)
    change(box, False)
    assert not is_known(check, box) and check.hit(box) is False


def test_threads():
    check = Checked(*guards_on(Box()))
    box, wrong = Box(), []

    def change():
        for _ in range(3000):
            box.number = 1001
            if check.hit(box):
                wrong.append("hit")
            box.number = 1000
            if not check.hit(box):
                wrong.append("miss")

    def others():
        for _ in range(3000):
            check.hit(box)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=target) for target in (change, others, others)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(0.005)
    assert wrong == []


def test_nothing_is_kept_alive():
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    seen = [weakref.ref(value) for value in (box, box.layer, box.layer.weight, box.function, box.inner)]
    del box
    gc.collect()
    assert [reference() for reference in seen] == [None] * len(seen)
    settled(check, Box())


def test_what_a_slot_held_may_die():
    class Held:
        pass

    check = Checked(*guards_on(Box()), TypeGuard.of(AttrSource(AttrSource(SLOTTED, "kind"), "label"), Held()))

    def made():
        box = Box()
        box.slotted.kind.label = Held()
        return box

    box = settled(check, made())
    seen = weakref.ref(box.slotted.kind.label)
    box.slotted.kind.label = None
    gc.collect()
    assert seen() is None and check.hit(box) is False


def test_a_descriptor_in_place_of_a_slot_is_seen(monkeypatch):
    check = Checked(*guards_on(Box()))
    box = settled(check, Box())
    with monkeypatch.context() as patch:
        patch.setattr(Slotted, "name", property(lambda self: "another"))
        assert check.hit(box) is False
    settled(check, box)


def test_cells_of_the_running_function():
    def made(inner):
        return lambda x: inner(x)

    first, cell = made(scaled), FreeCellSource("inner", 0)
    check = Checked(
        *guards_on(Box()), TypeGuard.of(cell, scaled), FunctionCodeGuard(cell, scaled.__code__), function=first
    )
    box = Box()
    assert check.hit(box) is True and is_known(check, box, first)
    first.__closure__[0].cell_contents = scaled_copy()
    assert not is_known(check, box, first) and check.hit(box) is True
    assert not is_known(check, box, made(scaled))
    first.__closure__[0].cell_contents = made
    assert check.hit(box) is False


def test_a_local_class_may_die():
    def used():
        class Local(Owner):
            def __init__(self):
                self.numbers = {number: number for number in range(20)}

        local = Local()
        numbers = attribute("numbers")
        check = Checked(
            TypeGuard.of(X, local), TypeGuard.of(numbers, {}),
            *(ConstantGuard(ItemSource(numbers, number), number) for number in range(20)),
        )  # fmt: skip
        settled(check, local)
        return weakref.ref(Local), check

    cls, check = used()
    gc.collect()
    assert cls() is None and check.check.is_dead()


@pytest.mark.parametrize(
    "guard",
    [
        ConstantGuard(X, 1000), IdentityGuard.of(X, scaled), ConstantGuard(ItemSource(attribute("items"), 0), 1),
        ConstantGuard(AttrSource(X, "half"), 1), ConstantGuard(AttrSource(OWNER, "made"), 1),
        ConstantGuard(FunctionDefaultSource(LocalSource("y"), 0), 1), LengthGuard(attribute("items"), 3),
        AttrPresenceGuard(X, "missing", False), ConstantGuard(ItemSource(X, 0), 1),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_watched_is_asked_each_time(guard):
    types_known = [TypeGuard.of(X, ()), TypeGuard.of(attribute("items"), [])]
    assert guard not in unchanged.Watch([*types_known, guard]).guards


def test_objects_of_other_kinds_are_a_miss_and_run_no_code_of_theirs():
    ran = []

    class Loud:
        def __getattribute__(self, name):
            ran.append(name)
            raise RuntimeError(name)

        def __getitem__(self, key):
            ran.append(key)

    check = Checked(*guards_on(Box()))
    for value in (None, 3, "x", Loud(), torch.zeros(2), Owner(), Box, scaled):
        assert check.hit(value) is False
    assert ran == []


@pytest.mark.parametrize(
    "steps, exports",
    [
        ((("item", 0),), ()), ((("attributes", 0, 1),), ()), ((("item", 1, "a"),), ()), ((("type", -1),), ()),
        ((("other", 0),), ()), (("item",), ()), ((1,), ()), ((), (1,)), ((("attributes", 0),), (2,)), (((),), ()),
    ],
)  # fmt: skip
def test_a_program_must_make_sense(steps, exports):
    with pytest.raises((TypeError, ValueError)):
        unchanged._native.Unchanged(steps, 1, exports)


def test_it_takes_what_it_was_made_for():
    asked = unchanged._native.Unchanged((("attributes", 0), ("item", 1, "number")), 1, (2,))
    box = Box()
    assert asked(box) is None
    asked.settle(asked.note(box))
    assert asked(box) == (1000,)
    for wrong in (lambda: asked(), lambda: asked.note(box, box), lambda: asked.settle(3), lambda: asked(box, x=1)):
        with pytest.raises(TypeError):
            wrong()
    assert asked.note(3) is None and asked.settle(None) is None
