"""Each pass, text in, text out: small graphs by hand, and what they must become."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable

import pytest
import sympy
import torch

from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.graph import Graph, Node
from minicompile.ir.random_keys import draw_keys
from minicompile.ir.types import SizeType, TensorType

from ..ir.builders import Build, tensor_type

I32, BOOL, BF16 = torch.int32, torch.bool, torch.bfloat16


def body(graph: Graph) -> str:
    """The printed function without imports, header and types."""
    lines = str(graph).split("):\n", 1)[1].splitlines()
    return "\n".join(line.strip().split("  #")[0] for line in lines)


def after(name: str, write: Callable[[Build, Node, Node], Node], dtype: torch.dtype = torch.float32) -> str:
    """What `return (…)` says after a pass and dead-code elimination, for inputs x and y of shape (4, 6)."""
    g = Build()
    x, y = g.input("x", 4, 6, dtype=dtype), g.input("y", 4, 6, dtype=dtype)
    graph = g.graph(write(g, x, y))
    return body(passes.run(graph, [name, "dce"]))


# --- algebra --------------------------------------------------------------------------------------------------------

IDENTITIES = {
    "x * 1": lambda g, x, y: g.mul(x, 1),
    "1 * x": lambda g, x, y: g.mul(1, x),
    "x / 1": lambda g, x, y: g.div(x, 1),
    "x * full(1)": lambda g, x, y: g.mul(x, g.full(1, tensor_type(4, 6))),
    "neg neg": lambda g, x, y: g.neg(g.neg(x)),
    "max(x, x)": lambda g, x, y: g.maximum(x, x),
    "where same": lambda g, x, y: g.where(g.lt(x, y), x, x),
    "where true": lambda g, x, y: g.where(g.full(True, tensor_type(4, 6, dtype=BOOL)), x, y),
    "cast to wider and back": lambda g, x, y: g.cast(g.cast(x, torch.float64), torch.float32),
    "reshape there and back": lambda g, x, y: g.reshape(g.reshape(x, (24,)), (4, 6)),
    "permute twice": lambda g, x, y: g.permute(g.permute(x, (1, 0)), (1, 0)),
    "amax over nothing": lambda g, x, y: g.reshape(g.reduce("amax", g.reshape(x, (4, 6, 1)), (2,)), (4, 6)),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities(name):
    assert after("algebra", IDENTITIES[name]) == "return (x.clone(),)"


def test_a_choice_made_before_is_not_made_again():
    def write(g, x, y):
        c = g.lt(x, y)
        return g.where(c, g.where(c, g.neg(x), 0.0), g.where(c, 1.0, g.exp(y)))

    assert after("algebra", write) == "where_1 = ops.where(x < y, -x, ops.exp(y))\nreturn (where_1,)"


@pytest.mark.parametrize("bools,becomes", [((True, False), "x < y"), ((False, True), "ops.where(x < y, False, True)")])
def test_where_of_bools(bools, becomes):
    type = tensor_type(4, 6, dtype=BOOL)
    text = after("algebra", lambda g, x, y: g.where(g.lt(x, y), *(g.full(value, type) for value in bools)))
    assert (text == "lt_1 = x < y\nreturn (lt_1,)") == (becomes == "x < y")


# Casts: the middle goes where it holds every value of the first, else it rounds, and stays.
CASTS = {
    "bool through int32 to float": (BOOL, [I32, torch.float32], [torch.float32]),
    "int8 through int32 to int64": (torch.int8, [I32, torch.int64], [torch.int64]),
    "bfloat16 through float32 to float64": (BF16, [torch.float32, torch.float64], [torch.float64]),
    "bfloat16 through float32 and back": (BF16, [torch.float32, BF16], []),
    "float32 through bfloat16 and back": (torch.float32, [BF16, torch.float32], [BF16, torch.float32]),
    "int32 through float32 and back": (I32, [torch.float32, I32], [torch.float32, I32]),
    "float32 through int32 and back": (torch.float32, [I32, torch.float32], [I32, torch.float32]),
    "three of them": (torch.int8, [torch.int16, I32, torch.int64], [torch.int64]),
}


@pytest.mark.parametrize("name", CASTS)
def test_redundant_casts(name):
    first, given, left = CASTS[name]
    g = Build()
    node = g.input("x", 4, dtype=first)
    for dtype in given:
        node = g.cast(node, dtype)
    graph = passes.run(g.graph(node), ["algebra", "dce"])
    assert [n.attrs["dtype"] for n in graph.nodes if n.op == "cast"] == left


# Views: chains of one kind are one, and what changes nothing is gone.
VIEWS = {
    "reshape of reshape": (lambda g, x: g.reshape(g.reshape(x, (24,)), (2, 12)), ["reshape"]),
    "permute of permute": (lambda g, x: g.permute(g.permute(g.reshape(x, (2, 2, 6)), (1, 2, 0)), (1, 0, 2)),
                           ["reshape", "permute"]),
    "permutes that cancel": (lambda g, x: g.permute(g.permute(x, (1, 0)), (1, 0)), []),
    "slice of slice": (lambda g, x: g.slice(g.slice(x, 1, 1, 4, 1), 1, 1, 2, 2), ["slice"]),
    "slices of two dimensions": (lambda g, x: g.slice(g.slice(x, 1, 1, 4, 1), 0, 1, 2, 1), ["slice", "slice"]),
    "a whole slice": (lambda g, x: g.slice(x, 1, 0, 6, 1), []),
    "backwards twice": (lambda g, x: g.slice(g.slice(x, 1, 5, 6, -1), 1, 5, 6, -1), []),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_canonicalisation(name):
    write, left = VIEWS[name]
    g = Build()
    x = g.input("x", 4, 6)
    before = g.graph(g.neg(write(g, x)))
    graph = passes.run(before, ["algebra", "algebra", "dce"])
    assert [n.op for n in graph.nodes if n.op in ("reshape", "permute", "slice", "expand")] == left
    value = torch.arange(24.0).reshape(4, 6)
    assert torch.equal(reference.run(graph, value)[0], reference.run(before, value)[0])


INTEGER_IDENTITIES = {
    "x + 0": lambda g, x, y: g.add(x, 0),
    "0 + x": lambda g, x, y: g.add(0, x),
    "x - 0": lambda g, x, y: g.sub(x, 0),
    "x // 1": lambda g, x, y: g.floor_divide(x, 1),
    "x | 0": lambda g, x, y: g.bitwise_or(x, 0),
    "x & -1": lambda g, x, y: g.bitwise_and(x, -1),
    "x ^ 0": lambda g, x, y: g.bitwise_xor(0, x),
    "not not": lambda g, x, y: g.bitwise_not(g.bitwise_not(x)),
}


@pytest.mark.parametrize("name", INTEGER_IDENTITIES)
def test_identities_of_integers(name):
    assert after("algebra", INTEGER_IDENTITIES[name], I32) == "return (x.clone(),)"


INEXACT = {
    "x + 0.0": lambda g, x, y: g.add(x, 0),
    "x * 0": lambda g, x, y: g.mul(x, 0),
    "x - x": lambda g, x, y: g.sub(x, x),
    "x / x": lambda g, x, y: g.div(x, x),
    "(x + y) - y": lambda g, x, y: g.sub(g.add(x, y), y),
    "cast to narrower and back": lambda g, x, y: g.cast(g.cast(x, BF16), torch.float32),
    "reciprocal twice": lambda g, x, y: g.reciprocal(g.reciprocal(x)),
    "exp log": lambda g, x, y: g.log(g.exp(x)),
    "sum of one": lambda g, x, y: g.reduce("sum", g.reshape(x, (4, 6, 1)), (2,)),
    "logical_not twice": lambda g, x, y: g.logical_not(g.logical_not(x)),
    "floor_divide by 1": lambda g, x, y: g.floor_divide(x, 1),
}


@pytest.mark.parametrize("name", INEXACT)
def test_what_is_not_exact_stays(name):
    g = Build()
    x, y = g.input("x", 4, 6), g.input("y", 4, 6)
    graph = g.graph(INEXACT[name](g, x, y))
    assert passes.run(graph, ["algebra"]).nodes == graph.nodes


def test_where_of_not():
    text = after("algebra", lambda g, x, y: g.where(g.logical_not(g.lt(x, y)), x, y))
    assert text == "where_1 = ops.where(x < y, y, x)\nreturn (where_1,)"


def test_idempotent():
    assert after("algebra", lambda g, x, y: g.relu(g.relu(x))) == "relu_1 = ops.relu(x)\nreturn (relu_1,)"


def test_views_of_views():
    text = after("algebra", lambda g, x, y: g.exp(g.reshape(g.reshape(x, (24,)), (8, 3))))
    assert text == "exp_1 = ops.exp(x.reshape(8, 3))\nreturn (exp_1,)"
    text = after("algebra", lambda g, x, y: g.exp(g.slice(g.slice(x, 1, 1, 5), 1, 1, 2, step=2)))
    assert text == "exp_1 = ops.exp(x[:, 2:6:2])\nreturn (exp_1.contiguous(),)"
    text = after("algebra", lambda g, x, y: g.exp(g.permute(g.permute(g.reshape(x, (2, 2, 6)), (1, 2, 0)), (1, 2, 0))))
    assert "permute(2, 0, 1)" in text and text.count("permute") == 1


def test_a_cast_through_a_wider_dtype_goes_straight():
    text = after("algebra", lambda g, x, y: g.cast(g.cast(x, torch.float32), torch.float64), BF16)
    assert text == "cast_1 = x.to(torch.float64)\nreturn (cast_1,)"


def test_a_copy_disappears_inside_and_stays_as_an_output():
    def write(g, x, y):
        column_major: TensorType = x.tensor.like(strides=(1, 4))
        return g.exp(g.copy(x, column_major))

    assert after("algebra", write) == "exp_1 = ops.exp(x)\nreturn (ops.strided(exp_1, (1, 4)),)"
    assert "strided" in after("algebra", lambda g, x, y: g.copy(x, x.tensor.like(strides=(1, 4))))


# --- folding --------------------------------------------------------------------------------------------------------


def test_pointwise_of_fulls_is_a_full():
    text = after("fold", lambda g, x, y: g.exp(g.add(g.full(1, tensor_type(4, 6)), 2)))
    value = torch.tensor(3.0).exp().item()
    assert text == f"full_1 = ops.full((4, 6), {value}, torch.float32)\nreturn (full_1,)"


@pytest.mark.parametrize("view", [
    lambda g, full: g.reshape(full, (24,)), lambda g, full: g.permute(full, (1, 0)),
    lambda g, full: g.slice(full, 0, 1, 2), lambda g, full: g.expand(g.reshape(full, (1, 4, 6)), (3, 4, 6)),
])
def test_a_view_of_a_full_is_a_full(view):
    g = Build()
    graph = passes.run(g.graph(view(g, g.full(5, tensor_type(4, 6)))), ["fold", "dce"])
    assert [node.op for node in graph.nodes] == ["full"]


def test_a_uniform_operand_becomes_a_scalar():
    text = after("fold", lambda g, x, y: g.add(x, g.full(2, tensor_type(4, 6))))
    assert text == "add_1 = x + 2.0\nreturn (add_1,)"


def test_where_keeps_a_tensor_among_its_choices():
    def write(g, x, y):
        one, two = g.full(1, tensor_type(4, 6)), g.full(2, tensor_type(4, 6))
        return g.where(g.lt(x, y), one, two)

    assert after("fold", write).count("ops.full") == 2


def test_folding_follows_the_dtype():
    """int8 wraps, NaN stays NaN."""
    g = Build()
    wrapped = g.add(g.full(127, tensor_type(dtype=torch.int8)), 1)
    nan = g.maximum(g.full(math.nan, tensor_type()), 1.0)
    a, b = passes.run(g.graph(wrapped, nan), ["fold"]).outputs
    assert a.args == (-128,) and math.isnan(b.args[0])


def test_an_index_along_one_element_is_zero():
    g = Build()
    graph = passes.run(g.graph(g.iota(1, tensor_type(4, 1))), ["fold"])
    assert graph.nodes[0].op == "full" and graph.nodes[0].args == (0,)


# --- common subexpressions and dead code ----------------------------------------------------------------------------


def test_equal_trees_collapse():
    text = after("cse", lambda g, x, y: g.add(g.exp(g.mul(x, y)), g.exp(g.mul(x, y))))
    assert text == "exp_1 = ops.exp(x * y)\nadd_1 = exp_1 + exp_1\nreturn (add_1,)"


@pytest.mark.parametrize("one,other", [(0.0, -0.0), (1.0, 1), (True, 1)])
def test_scalars_that_only_compare_equal_are_different(one, other):
    g = Build()
    x = g.input("x", 3)
    nodes = [g.builder.add("add", (x, value), x.tensor) for value in (one, other)]
    assert len(passes.run(g.graph(*nodes), ["cse"]).nodes) == 2


def test_nan_scalars_are_equal():
    assert after("cse", lambda g, x, y: g.add(g.mul(x, math.nan), g.mul(x, math.nan))).count(" * ") == 1


def test_effects_are_neither_merged_nor_dropped():
    g = Build()
    x = g.input("x", 3)
    attrs = {"target": torch.ops.aten.rand_like.default, "kwargs": {}, "keywords": (), "effect": True}
    first, second = (g.builder.add("extern", (x,), x.tensor, **attrs) for _ in range(2))
    graph = g.graph(second)
    assert passes.run(graph).nodes == (first, second)


def test_pure_calls_are_merged():
    g = Build()
    x = g.input("x", 3, 3)
    attrs = {"target": torch.ops.aten.mm.default, "kwargs": {}, "keywords": ()}
    first, second = (g.builder.add("extern", (x, x), x.tensor, **attrs) for _ in range(2))
    assert passes.run(g.graph(first, second)).outputs == (first, first)


def test_dead_code_goes_and_inputs_stay():
    g = Build()
    x, y = g.input("x", 3), g.input("y", 3)
    g.exp(y)
    graph = passes.run(g.graph(g.sin(x)), ["dce"])
    assert [node.op for node in graph.nodes] == ["sin"] and len(graph.inputs) == 2


def test_written_values_are_alive():
    g = Build()
    x = g.input("x", 3)
    graph = g.builder.finish([], writes=[(0, g.exp(x))])
    assert len(passes.run(graph).nodes) == 1


# --- keys of random numbers -----------------------------------------------------------------------------------------


def test_all_keys_are_drawn_in_one_call():
    """Of those that only kernels read; the others are somebody's numbers."""
    g = Build()

    def draw() -> Node:
        g.builder.nodes.append(draw_keys(1, torch.device("cpu")))
        return g.builder.nodes[-1]

    def bits(key: Node) -> Node:
        return g.philox(key, g.iota(0, tensor_type(8)))

    first, second, read, handed_out = (draw() for _ in range(4))
    outputs = bits(first), bits(g.reshape(second, ())), g.neg(read), bits(handed_out), handed_out
    wanted = """
        randint_1 = aten.randint.low(-9223372036854775808, 9223372036854775807, [2], dtype=torch.int64, device="cpu")
        randint_2 = aten.randint.low(-9223372036854775808, 9223372036854775807, [1], dtype=torch.int64, device="cpu")
        randint_3 = aten.randint.low(-9223372036854775808, 9223372036854775807, [1], dtype=torch.int64, device="cpu")
        philox_1 = ops.philox(randint_1[0:1], ops.iota((8,), 0))
        philox_2 = ops.philox(randint_1[1:2].reshape(()).reshape(1), ops.iota((8,), 0))
        neg_1 = -randint_2
        philox_3 = ops.philox(randint_3, ops.iota((8,), 0))
        return (philox_1, philox_2, neg_1, philox_3, randint_3)"""
    assert body(passes.run(g.graph(*outputs), ["keys", "dce"])) == textwrap.dedent(wanted).strip()


# --- the pass runner ------------------------------------------------------------------------------------------------


def test_history_names_the_passes_that_changed_something():
    g = Build()
    x = g.input("x", 3)
    history: list[tuple[str, Graph]] = []
    passes.run(g.graph(g.add(g.mul(x, 1), g.mul(x, 1))), history=history)
    assert [name for name, _ in history][0] == "algebra"
    assert body(history[-1][1]) == "add_1 = x + x\nreturn (add_1,)"


def test_an_unknown_pass_is_named():
    with pytest.raises(ValueError, match="no pass 'polish'; known are dce, fold, algebra, cse"):
        passes.run(Build().graph(), ["polish"])


def test_origins_survive():
    from minicompile.ir.graph import Origin

    g = Build()
    x = g.input("x", 3)
    g.builder.origin = Origin("f.py", 3, "f", "torch.add")
    graph = passes.run(g.graph(g.exp(g.mul(x, 1))))
    assert [str(node.origin) for node in graph.nodes] == ["f.py:3 in f: torch.add"]


def test_a_size_is_no_constant_to_fold():
    """Found by the fuzzer over sizes: both operands are one value everywhere, but one is known only when called."""
    n = sympy.Symbol("s0", integer=True, positive=True)
    g = Build()
    g.builder.input(SizeType(n), "n")
    type = tensor_type(1, dtype=torch.int64)
    graph = passes.run(g.graph(g.add(g.builder.add("full", (n - 2,), type), g.iota(0, type))))
    assert [reference.run(graph, size)[0].tolist() for size in (2, 7)] == [[0], [5]]
