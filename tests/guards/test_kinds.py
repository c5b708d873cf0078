"""Every guard kind that is not about tensors: a hit, a miss, the reason; and the traps on objects."""

import gc
import types
import weakref
from collections import OrderedDict

import pytest
import torch

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
from minicompile.guards import GuardSet, build_check
from minicompile.guards.kinds import (
    AttrPresenceGuard,
    ConstantGuard,
    DistinctObjectsGuard,
    FunctionCodeGuard,
    GlobalAbsentGuard,
    IdentityGuard,
    InstanceAttrAbsentGuard,
    KeyPresenceGuard,
    KeysGuard,
    LengthGuard,
    ModuleTrainingGuard,
    NoModuleHooksGuard,
    SameObjectGuard,
    TypeGuard,
)

from .support import Checked, X, Y, assert_hit, assert_miss

SELF = LocalSource("self")


class Thing:
    pass


def test_type_is_exact():
    class Sub(Thing):
        pass

    checked = Checked(TypeGuard.of(X, Thing()))
    assert_hit(checked, Thing())
    assert_miss(checked, (Sub(),), "argument x is a Sub, compiled for a Thing")


def test_type_of_a_local_class_that_died_never_hits_again():
    def local():
        return type("Local", (), {})()

    value = local()
    checked = Checked(TypeGuard.of(X, value))
    assert_hit(checked, value)
    del value
    gc.collect()
    assert checked.check.is_dead()
    assert_miss(checked, (local(),), "no longer exists")


OBJECTS = [len, torch, torch.relu, Thing, Thing(), lambda: 0, [1], {}]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_identity(value):
    checked = Checked(IdentityGuard.of(X, value))
    assert_hit(checked, value)
    assert_miss(checked, (None,), "argument x is another object")
    assert_miss(checked, (Thing(),), "argument x is another object")


def test_identity_does_not_keep_the_object_alive_and_reports_its_death():
    value, deaths = Thing(), []
    watcher = weakref.ref(value)
    check = build_check(GuardSet([IdentityGuard.of(X, value)]), ["x"], on_death=lambda: deaths.append(1))
    assert check.function(["x"])(None, value)
    del value
    gc.collect()
    assert watcher() is None and deaths == [1] and check.is_dead()


def test_a_dead_object_is_not_mistaken_for_none_nor_for_one_that_reuses_its_id():
    value = Thing()
    checked = Checked(IdentityGuard.of(X, value))
    old = id(value)
    del value
    gc.collect()
    assert_miss(checked, (None,), "no longer exists")
    later = [Thing() for _ in range(100)]
    same_id = [thing for thing in later if id(thing) == old]
    assert not any(checked.hit(thing) for thing in same_id or later)


def test_same_and_distinct_objects():
    same, distinct = Checked(SameObjectGuard(X, Y)), Checked(DistinctObjectsGuard((X, Y)))
    one, other = [1], [1]
    assert_hit(same, one, one)
    assert_miss(same, (one, other), "argument x and argument y are two objects, compiled for one")
    assert_hit(distinct, one, other)
    assert_miss(distinct, (one, one), "argument x and argument y are one object, compiled for two")


def test_many_distinct_objects():
    names = ("a", "b", "c")
    checked = Checked(DistinctObjectsGuard(tuple(map(LocalSource, names))), parameters=names)
    first, second = [], []
    assert_hit(checked, first, second, [])
    assert_miss(checked, (first, second, first), "argument a and argument c are one object")


def test_length():
    checked = Checked(LengthGuard(X, 2))
    assert_hit(checked, [1, 2])
    assert_miss(checked, ([1],), "argument x has 1 items, compiled for 2")
    assert_miss(checked, (3,), "cannot be read any more")


@pytest.mark.parametrize(
    ("compiled", "called"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {}),
        ({1: 0}, {True: 0}),
        ({0.0: 0}, {-0.0: 0}),
        ({(1, "a"): 0}, {(1.0, "a"): 0}),
        ({Thing: 0}, {OrderedDict: 0}),
    ],
)
def test_keys_by_type_and_order(compiled, called):
    checked = Checked(KeysGuard.of(X, compiled))
    assert_hit(checked, dict(compiled))
    assert_miss(checked, (called,), "argument x has the keys", "compiled for")


def test_object_keys_by_identity_and_not_kept_alive():
    key = Thing()
    checked = Checked(KeysGuard.of(X, {key: 1}))
    assert_hit(checked, {key: 1})
    assert not checked.hit({Thing(): 1})
    del key
    gc.collect()
    assert checked.check.is_dead()


def test_key_presence():
    present, absent = Checked(KeyPresenceGuard(X, "a", True)), Checked(KeyPresenceGuard(X, "a", False))
    assert_hit(present, {"a": 1})
    assert_miss(present, ({},), "argument x has no key 'a' now")
    assert_hit(absent, {})
    assert_miss(absent, ({"a": 1},), "argument x has a key 'a' now")


def test_attribute_that_appears():
    thing = Thing()
    checked = Checked(AttrPresenceGuard(X, "scale", False))
    assert_hit(checked, thing)
    thing.scale = 2
    assert_miss(checked, (thing,), "argument x has an attribute scale now")
    assert_hit(Checked(AttrPresenceGuard(X, "scale", True)), thing)


def test_instance_attribute_that_hides_a_submodule():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    member = ModuleMemberSource(SELF, "_modules", "0")
    guards = (TypeGuard.of(SELF, net), InstanceAttrAbsentGuard(SELF, "0"), IdentityGuard.of(member, net[0]))
    checked = Checked(*guards, parameters=("self",))
    assert_hit(checked, net)
    net.__dict__["0"] = torch.relu
    assert_miss(checked, (net,), "argument self has an attribute 0 of its own now")


def test_method_patched_on_the_class_after_compiling():
    class Local:
        def method(self):
            return 1

    original = Local.method
    method = AttrSource(ConstSource(Local, "__Local"), "method")
    checked = Checked(TypeGuard.of(X, Local()), IdentityGuard.of(method, Local.method))
    assert_hit(checked, Local())
    Local.method = lambda self: 2
    assert_miss(checked, (Local(),), "Local.method is another object")
    Local.method = original
    assert_hit(checked, Local())


def make_function(source: str, **names) -> types.FunctionType:
    exec(source, names)
    return names["f"]


def test_global_that_comes_to_hide_a_builtin():
    f = make_function("def f(x): return len(x)")
    guards = (GlobalAbsentGuard("len"), IdentityGuard.of(BuiltinSource("len"), len))
    checked = Checked(*guards, parameters=("x",), function=f)
    assert_hit(checked, 1)
    f.__globals__["len"] = lambda x: 0
    assert_miss(checked, (1,), "a global len exists now and hides the builtin")


def test_builtin_replaced():
    f = make_function("def f(x): return len(x)", __builtins__={"len": len})
    checked = Checked(IdentityGuard.of(BuiltinSource("len"), len), parameters=("x",), function=f)
    assert_hit(checked, 1)
    f.__builtins__["len"] = max
    assert_miss(checked, (1,), "builtin len is another object: max")


def test_global_value():
    f = make_function("def f(x): return x * scale", scale=2)
    checked = Checked(ConstantGuard(GlobalSource("scale"), 2), parameters=("x",), function=f)
    assert_hit(checked, 0)
    f.__globals__["scale"] = 3
    assert_miss(checked, (0,), "global scale is 3, compiled for 2")
    del f.__globals__["scale"]
    assert_miss(checked, (0,), "global scale: cannot be read any more (KeyError")


def test_globals_are_those_of_the_function_called_not_of_the_one_compiled():
    f = make_function("def f(x): return x * scale", scale=2)
    twin = types.FunctionType(f.__code__, {"scale": 3})
    check = build_check(GuardSet([ConstantGuard(GlobalSource("scale"), 2)]), ["x"]).function(["x"])
    assert check(f, 0) and not check(twin, 0)


def closure(n):
    def inner(x):
        return x + n

    def change(value):
        nonlocal n
        n = value

    return inner, change


def test_closure_cells():
    f, change = closure(3)
    own = Checked(ConstantGuard(FreeCellSource("n", 0), 3), parameters=("x",), function=f)
    callee = Checked(ConstantGuard(FunctionClosureSource(X, 0, "n"), 3))
    assert_hit(own, 0)
    assert_hit(callee, f)
    change(4)
    assert_miss(own, (0,), "closure variable n is 4, compiled for 3")
    assert_miss(callee, (f,), "closure variable n of x is 4")


def test_function_code_and_defaults():
    def f(a, b=1, *, c=2):
        return a + b + c

    checked = Checked(
        FunctionCodeGuard(X, f.__code__),
        ConstantGuard(FunctionDefaultSource(X, 0), 1),
        ConstantGuard(FunctionDefaultSource(X, "c"), 2),
    )
    assert_hit(checked, f)
    f.__defaults__ = (5,)
    assert_miss(checked, (f,), "default 0 of x is 5, compiled for 1")
    f.__defaults__ = (1,)
    f.__kwdefaults__["c"] = 6
    assert_miss(checked, (f,), "default c of x is 6")
    f.__kwdefaults__["c"] = 2
    f.__code__ = (lambda a, b=1, *, c=2: a).__code__
    assert_miss(checked, (f,), "argument x runs other code: <lambda>")


def test_module_training_and_hooks():
    net = torch.nn.Linear(2, 2)
    checked = Checked(TypeGuard.of(X, net), ModuleTrainingGuard(X, True), NoModuleHooksGuard(X))
    assert_hit(checked, net)
    net.eval()
    assert_miss(checked, (net,), "argument x is in evaluation mode, compiled for training mode")
    net.train()
    handle = net.register_forward_hook(lambda *_: None)
    assert_miss(checked, (net,), "argument x has hooks now")
    handle.remove()
    assert_hit(checked, net)


def test_items_and_instance_dicts():
    thing = Thing()
    thing.rates = {"lr": [0.1]}
    rate = ItemSource(ItemSource(InstanceDictSource(X, "rates"), "lr"), 0)
    checked = Checked(TypeGuard.of(X, thing), ConstantGuard(rate, 0.1))
    assert_hit(checked, thing)
    thing.rates["lr"][0] = 0.05
    assert_miss(checked, (thing,), "x.rates['lr'][0] is 0.05, compiled for 0.1")


def test_a_guard_that_raises_is_a_miss():
    class Moody:
        @property
        def value(self):
            raise RuntimeError("not today")

    checked = Checked(ConstantGuard(AttrSource(X, "value"), 1))
    assert_miss(checked, (Moody(),), "x.value: cannot be read any more (RuntimeError: not today)")


def test_guards_are_values():
    assert TypeGuard.of(X, 1) == TypeGuard.of(LocalSource("x"), 2)
    assert ConstantGuard(X, 1) != ConstantGuard(X, True)
    assert len(GuardSet([IdentityGuard.of(X, len), IdentityGuard.of(X, len), LengthGuard(X, 1)])) == 2
