"""The generated check: its text, its order, what it reads and how often, what it leaves for the glue, its cost."""

import timeit

import pytest
import torch

from minicompile.frontend.computed_sources import SizeSource
from minicompile.frontend.sources import (
    AttrSource,
    ConstSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    ModuleMemberSource,
)
from minicompile.guards import MISS, GuardSet, build_check, tensor_check
from minicompile.guards.kinds import ConstantGuard, IdentityGuard, KeysGuard, LengthGuard, TypeGuard
from minicompile.guards.sizes import SizeGuard
from minicompile.guards.state import GlobalStateGuard
from minicompile.guards.tensors import TensorGuard

from .support import Checked, X, Y, anything

SELF = LocalSource("self")


@pytest.mark.parametrize("is_ours", [True, False])
def test_text(is_ours, monkeypatch):
    if not is_ours:
        monkeypatch.setattr(tensor_check, "can_read_tensors", lambda extension: False)
    x = torch.zeros(2, 3)
    is_dense = (
        "    if not (__type__(x) is __k1_Tensor and x.is_nested is False): return __MISS__"
        "  # not a nested tensor, which the next check could not stand\n"
    )
    guards = GuardSet([TensorGuard.of(X, x), ConstantGuard(Y, 4), TypeGuard.of(Y, 4), TypeGuard.of(X, x)])
    assert build_check(guards, ["x", "y"]).source == (
        "try:\n"
        "    if not (__type__(y) is __k0_int and y == 4): return __MISS__  # y == 4\n"
        f"{'' if tensor_check.can_read_tensors(tensor_check._native) else is_dense}"
        "    if not (__tensors(x)): return __MISS__  # 1 tensors\n"
        "except Exception:\n"
        "    return __MISS__"
    )


def test_no_guards_no_lines():
    check = build_check(GuardSet(), ["x"])
    assert check.lines == [] and check.function(["x"])(None, 1) is True


def test_structure_is_checked_before_anything_is_read_through_it():
    inner = AttrSource(ItemSource(AttrSource(X, "parts"), 0), "rate")
    guards = GuardSet(
        [
            ConstantGuard(inner, 0.5),
            KeysGuard.of(AttrSource(X, "parts"), {0: None}),
            LengthGuard(AttrSource(X, "parts"), 1),
            TypeGuard.of(AttrSource(X, "parts"), {}),
            TypeGuard.of(X, object()),
        ]
    )
    assert [type(guard).__name__ for guard in build_check(guards, ["x"]).guards] == [
        "TypeGuard", "TypeGuard", "LengthGuard", "KeysGuard", "ConstantGuard",
    ]  # fmt: skip


def test_nothing_is_read_from_an_object_of_another_class():
    class Good:
        rate = 1

    class Bad:
        @property
        def rate(self):
            raise AssertionError("read")

        __len__ = rate

    checked = Checked(ConstantGuard(AttrSource(X, "rate"), 1), LengthGuard(X, 1), TypeGuard.of(X, Good()))
    read = []
    Bad.rate = property(lambda self: read.append(1))
    assert not checked.hit(Bad()) and read == []
    assert [type(guard).__name__ for guard in checked.check.guards] == ["TypeGuard", "LengthGuard", "ConstantGuard"]


def test_cheap_guards_come_first_and_tensors_after_the_global_state():
    x = torch.zeros(2, 3)
    size = SizeGuard("{0} >= 2", (SizeSource(X, 0),))
    identity = IdentityGuard.of(GlobalSource("g"), len)
    guards = GuardSet([size, TensorGuard.of(X, x), GlobalStateGuard(), ConstantGuard(Y, 1), identity])
    order = [type(guard).__name__ for guard in build_check(guards, ["x", "y"]).guards]
    assert order == ["IdentityGuard", "ConstantGuard", "GlobalStateGuard", "TensorGuard", "SizeGuard"]


class Counting:
    """Counts how often its attribute is read."""

    def __init__(self):
        self.reads = 0

    @property
    def part(self):
        self.reads += 1
        return [1, 2]


def test_a_source_is_read_once_and_is_there_for_the_glue():
    part = AttrSource(X, "part")
    guards = GuardSet([LengthGuard(part, 2), TypeGuard.of(part, []), ConstantGuard(ItemSource(part, 0), 1)])
    check = build_check(guards, ["x"], reads=[part, ItemSource(part, 1)])
    value = Counting()
    assert check.function(["x"])(None, value) and value.reads == 1
    assert set(check.available) >= {part, ItemSource(part, 1)}
    assert check.expr(ItemSource(part, 0)) == f"{check.available[part]}[0]"
    assert check.expr(X) == "x"


def test_in_a_generated_function():
    scale = GlobalSource("scale")
    check = build_check(GuardSet([ConstantGuard(X, 2)]), ["x"], reads=[scale])
    body = "\n".join(f"    {line}" for line in (*check.lines, f"return x * {check.expr(scale)}"))
    namespace = dict(check.namespace)
    exec(f"def entry(__func__, x):\n{body}", namespace)
    function = lambda: 0  # noqa: E731
    function.__globals__["scale"] = 21
    assert namespace["entry"](function, 2) == 42
    assert namespace["entry"](function, 3) is MISS
    del function.__globals__["scale"]
    assert namespace["entry"](function, 2) is MISS


def test_parameters_may_have_any_name():
    names = ("type", "len", "__g0", "min", "list", "__g")
    sources = {name: LocalSource(name) for name in names}
    guards = [
        ConstantGuard(sources["type"], 1),
        LengthGuard(sources["len"], 1),
        TypeGuard.of(sources["list"], []),
        SizeGuard("max({0}, 3) == 4", (ItemSource(sources["list"], 3),)),
        SizeGuard("min({0}, 3) == {1}", (sources["min"], sources["__g0"])),
        ConstantGuard(ItemSource(sources["__g"], 0), 1),
        TypeGuard.of(ItemSource(sources["__g"], 0), 1),
    ]
    checked = Checked(*guards, parameters=names)
    assert checked.hit(1, [0], 3, 5, [1, 2, 3, 4], [1])
    assert not checked.hit(1, [0], 3, 2, [1, 2, 3, 4], [1])


def test_objects_of_sources_get_into_the_namespace():
    table = {"rate": 3}
    source = ItemSource(ConstSource(table, "__table"), "rate")
    checked = Checked(ConstantGuard(source, 3))
    assert checked.hit()
    table["rate"] = 4
    assert not checked.hit() and checked.why() == ["__table['rate'] is 4, compiled for 3"]


def test_a_reason_that_only_follows_from_another_is_left_out():
    guards = [TypeGuard.of(X, [1]), LengthGuard(X, 1), ConstantGuard(ItemSource(X, 0), 1)]
    assert Checked(*guards).why({"a": 2}) == ["argument x is a dict, compiled for a list"]


def test_independent_reasons_are_all_given():
    why = Checked(ConstantGuard(X, 1), ConstantGuard(Y, 2)).why(3, 4)
    assert why == ["argument x is 3, compiled for 1", "argument y is 4, compiled for 2"]


class Net(torch.nn.Module):
    def __init__(self, layers: int):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(layers))


def module_check(net: Net) -> Checked:
    layers = ModuleMemberSource(SELF, "_modules", "layers")
    guards = [GlobalStateGuard(), TypeGuard.of(SELF, net)]
    for index, layer in enumerate(net.layers):
        base = ModuleMemberSource(layers, "_modules", str(index))
        members = layer.named_parameters()
        guards += [TensorGuard.of(ModuleMemberSource(base, "_parameters", name), value) for name, value in members]
    return Checked(*guards, parameters=("self",))


def test_all_parameters_of_a_module_in_one_call():
    net = Net(3)
    checked = module_check(net)
    assert checked.hit(net)
    assert checked.check.source.count("__tensors(") == 1
    net.layers[1].bias = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    assert not checked.hit(net)
    assert checked.why(net) == ["self.layers[1].bias: requires_grad is False, compiled for True"]


def fastest(call, number: int) -> float:
    return min(timeit.repeat(call, number=number, repeat=7)) / number


def test_cost_of_two_tensors_is_less_than_that_of_one_small_operation_in_eager():
    x, y = torch.randn(8), torch.randn(8)
    checked = Checked(GlobalStateGuard(), TensorGuard.of(X, x), TensorGuard.of(Y, y))
    check = checked.run
    ratio = fastest(lambda: check(anything, x, y), 20000) / fastest(lambda: torch.relu(torch.add(x, y)), 20000)
    assert ratio < 1, f"the check costs {ratio:.2f} of relu(x + y) on 8 floats"


def test_cost_of_150_parameters_is_less_than_that_of_calling_one_tenth_of_the_layers():
    net = Net(75)
    check = module_check(net).run
    x = torch.randn(1, 4)

    def some_layers() -> None:
        with torch.no_grad():
            for layer in net.layers[:15]:
                layer(x)

    ratio = fastest(lambda: check(anything, net), 500) / fastest(some_layers, 500)
    assert ratio < 1, f"the check costs {ratio:.2f} of 15 linear layers on 4 floats"
