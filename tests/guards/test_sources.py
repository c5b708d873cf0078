"""Sources: their three texts, and that the first of them reads the right thing."""

import enum

import pytest
import torch

from minicompile.frontend.computed_sources import CallSource, SizeSource, StorageOffsetSource, StrideSource
from minicompile.frontend.sources import (
    AttrSource,
    BuiltinSource,
    CellSource,
    ConstSource,
    DictKeySource,
    FreeCellSource,
    FunctionClosureSource,
    FunctionDefaultSource,
    FunctionSource,
    GlobalSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    ModuleMemberSource,
    StackSource,
)
from minicompile.guards import FrameValues

scale = 7


def outer():
    n = 5

    def f(x, k=3, *, w=4):
        return x, n, scale

    return f


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 3))
        self.table = {"a": [10, 20], 3: "three"}


FUNCTION, NET, TENSOR = outer(), Net(), torch.zeros(4, 6)[:, 2:]
X, SELF = LocalSource("x"), LocalSource("self")
FN = LocalSource("fn")
LAYERS = ModuleMemberSource(SELF, "_modules", "layers")

CASES = [
    (X, TENSOR, "argument x", "x"),
    (LocalSource("i", is_argument=False, slot="slot_i"), 9, "local variable i", "i"),
    (LocalSource(".0", slot="__arg0"), 8, "argument .0", "v_0"),
    (StackSource(1), "on the stack", "intermediate value 1", "stack1"),
    (FunctionSource(), FUNCTION, "the function itself", "function"),
    (GlobalSource("scale"), 7, "global scale", "scale"),
    (GlobalSource("scale", FN), 7, "global scale", "scale"),
    (GlobalsSource(), globals(), "globals()", "globals"),
    (BuiltinSource("len"), len, "builtin len", "len"),
    (BuiltinSource("len", FN), len, "builtin len", "len"),
    (FreeCellSource("n", 0), 5, "closure variable n", "n"),
    (FunctionClosureSource(FN, 0, "n"), 5, "closure variable n of fn", "n"),
    (CellSource(LocalSource("cell")), 5, "closure variable cell", "cell"),
    (FunctionDefaultSource(FN, 0), 3, "default 0 of fn", "default_0_of_fn"),
    (FunctionDefaultSource(FN, "w"), 4, "default w of fn", "default_w_of_fn"),
    (LAYERS, NET.layers, "self.layers", "self_layers"),
    (ModuleMemberSource(LAYERS, "_modules", "0"), NET.layers[0], "self.layers[0]", "self_layers_0"),
    (AttrSource(SELF, "table"), NET.table, "self.table", "self_table"),
    (AttrSource(SELF, "not an identifier"), "odd", "self.not an identifier", "self_not_an_identifier"),
    (ItemSource(ItemSource(InstanceDictSource(SELF, "table"), "a"), 1), 20, "self.table['a'][1]", "self_table_a_1"),
    (ItemSource(AttrSource(SELF, "table"), ConstSource(3, "__three")), "three", "self.table[__three]", None),
    (DictKeySource(AttrSource(SELF, "table"), 1), 3, "key 1 of self.table", None),
    (SizeSource(X, 1), 4, "argument x: size of dimension 1", "x_shape_1"),
    (StrideSource(X, 0), 6, "argument x: stride of dimension 0", "x_stride_0"),
    (StorageOffsetSource(X), 2, "argument x: storage offset", "x_storage_offset"),
    (CallSource(AttrSource(X, "dim")), 2, "x.dim()", "x_dim"),
    (ConstSource(torch.relu, "__relu"), torch.relu, "relu", "relu"),
]


def frame() -> FrameValues:
    setattr(NET, "not an identifier", "odd")
    cell = FUNCTION.__closure__[0]
    slots = {"slot_i": 9, "__arg0": 8, "__stack_1": "on the stack"}
    return FrameValues(FUNCTION, {"x": TENSOR, "fn": FUNCTION, "self": NET, "cell": cell, **slots})


@pytest.mark.parametrize(("source", "value", "description", "name"), CASES, ids=lambda case: str(case)[:30])
def test_texts_and_value(source, value, description, name):
    assert frame().value(source) is value or frame().value(source) == value
    assert source.describe() == description
    assert source.name().isidentifier()
    assert name is None or source.name() == name


def test_equal_places_are_equal_sources():
    assert len({AttrSource(X, "a"), AttrSource(LocalSource("x"), "a"), AttrSource(X, "b")}) == 2
    assert AttrSource(X, "a") != InstanceDictSource(X, "a")
    assert ConstSource([], "__k") != ConstSource([], "__k")


def test_a_keyword_is_no_name():
    assert LocalSource("x", slot="x").name() == "x"
    assert AttrSource(X, "class").expr() == "__getattr__(x, 'class')"
    assert GlobalSource("class").name() == "v_class"


def test_names_of_arguments_do_not_hide_helpers():
    source = AttrSource(LocalSource("getattr"), "class")
    values = FrameValues(FUNCTION, {"getattr": NET})
    assert values.value(LocalSource("getattr")) is NET
    assert source.expr() == "__getattr__(getattr, 'class')"


def test_a_key_without_literal_text_needs_a_source():
    class Colour(enum.Enum):
        RED = 1

    for key in (1.5, Colour.RED, object(), (1, 2.0)):
        with pytest.raises(ValueError, match="ConstSource"):
            ItemSource(X, key)
    assert ItemSource(X, (1, "a", None)).expr() == "x[(1, 'a', None)]"


def test_ancestors_go_to_the_root():
    weight = ModuleMemberSource(LAYERS, "_parameters", "weight")
    # A module's attribute dict, which the user does not see, is a step between it and its registries.
    steps = ["self.layers._parameters", "self.layers", "self.layers", "self._modules", "self", "self"]
    assert [str(source) for source in weight.ancestors()] == steps
