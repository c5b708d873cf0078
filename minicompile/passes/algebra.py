"""Algebra: identities that hold for every value, bit for bit, as tables of small rules.

In, out: a Graph. A rule looks at one node over simplified arguments and returns what it equals, or None. Only exact
identities are here: `x * 0` is not 0 (NaN, inf, -0.0), `x + 0.0` is not x (for x = -0.0), `(x * y) / y` is not x.
NaN stays NaN; which NaN is not promised, as it is not in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import REDUCTIONS, is_pointwise
from ..ir.rewrite import keep
from ..ir.symbols import is_static, same_dim
from ..ir.types import dtype_kind
from .exact_casts import is_exact

Rule = Callable[[Node], "Node | None"]


def run(graph: Graph) -> Graph:
    """The rules below, applied to each node over simplified operands."""
    return graph.rewrite(lambda node, args: simplify(keep(node, args)))


def simplify(node: Node) -> Node:
    """Apply the rules of the node's op until none fits."""
    for _ in range(_LIMIT):
        node = _skip_copies(node)
        result = next((new for rule in RULES.get(node.op, ()) if (new := rule(node)) is not None), None)
        if result is None:
            return node
        node = result
    return node


_LIMIT = 16  # each rule makes the tree smaller; this only bounds a mistake in the table


# --- copies ---------------------------------------------------------------------------------------------------------


def _is_copy(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "cast" and node.args[0].tensor.dtype is node.tensor.dtype


def _skip_copies(node: Node) -> Node:
    """A copy only changes the layout, which kernels do not depend on; outputs, writes and extern calls may."""
    if not (is_pointwise(node.op) or node.op in REDUCTIONS):
        return node
    return keep(node, tuple(arg.args[0] if _is_copy(arg) else arg for arg in node.args))


# --- helpers --------------------------------------------------------------------------------------------------------


def _scalar(arg: Any) -> Any:
    """The scalar that an argument is everywhere; None if it is not one."""
    if isinstance(arg, Node):
        return _scalar(arg.args[0]) if arg.op == "full" else None
    return arg if isinstance(arg, (bool, int, float)) else None


def _kind(node: Node) -> str:
    return dtype_kind(node.tensor.dtype)


def _as(node: Node, other: Any) -> Node | None:
    """`other` in place of `node`: only a Node of the same type; a copy where the strides differ."""
    if not isinstance(other, Node) or other.tensor.dtype is not node.tensor.dtype:
        return None
    if other.tensor.shape != node.tensor.shape:
        return None
    if other.tensor.strides == node.tensor.strides:
        return other
    return Node("cast", (other,), {"dtype": node.tensor.dtype}, node.tensor, node.origin)


def _right_is(value: Any, kinds: str) -> Rule:
    """`op(x, value)` is x, for these dtype kinds."""

    def rule(node: Node) -> Node | None:
        x, y = node.args
        return _as(node, x) if _kind(node) in kinds and _equal_scalar(y, value) else None

    return rule


def _left_is(value: Any, kinds: str) -> Rule:
    """`op(value, x)` is x, for these dtype kinds."""

    def rule(node: Node) -> Node | None:
        x, y = node.args
        return _as(node, y) if _kind(node) in kinds and _equal_scalar(x, value) else None

    return rule


def _equal_scalar(arg: Any, value: Any) -> bool:
    scalar = _scalar(arg)
    return scalar is not None and scalar == value


def _same_twice(kinds: str) -> Rule:
    """`op(x, x)` is x."""

    def rule(node: Node) -> Node | None:
        x, y = node.args
        return _as(node, x) if x is y and _kind(node) in kinds else None

    return rule


def _undoes_itself(node: Node) -> Node | None:
    """`op(op(x))` is x."""
    inner = node.args[0]
    return _as(node, inner.args[0]) if inner.op == node.op else None


def _idempotent(node: Node) -> Node | None:
    """`op(op(x))` is `op(x)`."""
    inner = node.args[0]
    return _as(node, inner) if inner.op == node.op else None


# --- rules that are more than a line --------------------------------------------------------------------------------


def _where_same(node: Node) -> Node | None:
    _, x, y = node.args
    return _as(node, x) if x is y else None


def _where_known(node: Node) -> Node | None:
    condition, x, y = node.args
    known = _scalar(condition)
    return None if known is None else _as(node, x if known else y)


def _where_again(node: Node) -> Node | None:
    """`where(c, where(c, x, y), z)` is `where(c, x, z)`, and `where(c, x, where(c, y, z))` too."""
    condition, x, y = node.args
    chosen = x.args[1] if isinstance(x, Node) and x.op == "where" and x.args[0] is condition else x
    other = y.args[2] if isinstance(y, Node) and y.op == "where" and y.args[0] is condition else y
    if (chosen is x and other is y) or not any(isinstance(arg, Node) for arg in (chosen, other)):
        return None
    return replace(node, args=(condition, chosen, other))


def _where_not(node: Node) -> Node | None:
    """`where(not c, x, y)` is `where(c, y, x)`."""
    condition, x, y = node.args
    if condition.op != "logical_not" or condition.args[0].tensor.dtype is not condition.tensor.dtype:
        return None
    return replace(node, args=(condition.args[0], y, x))


def _where_bools(node: Node) -> Node | None:
    """`where(c, True, False)` is c."""
    condition, x, y = node.args
    known = _scalar(x) is True and _scalar(y) is False and node.tensor.dtype is torch.bool
    return _as(node, condition) if known else None


def _cast_of_cast(node: Node) -> Node | None:
    """Through a dtype that holds every value of the first, the middle changes nothing."""
    inner = node.args[0]
    if inner.op != "cast" or _is_copy(node):
        return None
    source = inner.args[0]
    if not is_exact(source.tensor.dtype, inner.tensor.dtype):
        return None
    return _as(node, source) or replace(node, args=(source,))


def _same_view(node: Node) -> Node | None:
    """A view that changes neither shape nor order."""
    return node.args[0] if node.args[0].type == node.type and _changes_nothing(node) else None


def _changes_nothing(node: Node) -> bool:
    if node.op == "permute":
        return tuple(node.attrs["dims"]) == tuple(range(node.tensor.rank))
    return node.op != "slice" or (same_dim(node.attrs["start"], 0) and node.attrs["step"] == 1)


def _view_of_view(node: Node) -> Node | None:
    """Two reshapes, or two expands, are the last one."""
    inner = node.args[0]
    return replace(node, args=inner.args) if inner.op == node.op else None


def _permute_of_permute(node: Node) -> Node | None:
    inner = node.args[0]
    if inner.op != "permute":
        return None
    dims = tuple(inner.attrs["dims"][d] for d in node.attrs["dims"])
    return replace(node, args=inner.args, attrs={"dims": dims})


def _slice_of_slice(node: Node) -> Node | None:
    inner = node.args[0]
    if inner.op != "slice" or inner.attrs["dim"] != node.attrs["dim"]:
        return None
    start = inner.attrs["start"] + node.attrs["start"] * inner.attrs["step"]
    step = inner.attrs["step"] * node.attrs["step"]
    return replace(node, args=inner.args, attrs={"dim": node.attrs["dim"], "start": start, "step": step})


def _reduce_nothing(node: Node) -> Node | None:
    """Over dimensions of size 1 these reductions are their argument. (Not a sum: eager's 0 + -0.0 is 0.0.)"""
    source = node.args[0]
    if any(not (is_static(source.tensor.shape[d]) and source.tensor.shape[d] == 1) for d in node.attrs["dims"]):
        return None
    return _as(node, source)


RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_right_is(0, "i"), _left_is(0, "i")),  # floats: -0.0 + 0 is 0.0
    "sub": (_right_is(0, "i"),),
    "mul": (_right_is(1, "fib"), _left_is(1, "fib")),  # 1 is exact, and NaN stays NaN
    "div": (_right_is(1, "f"),),
    "floor_divide": (_right_is(1, "i"),),  # floats: floors
    "trunc_divide": (_right_is(1, "i"),),
    "bitwise_or": (_right_is(0, "ib"), _left_is(0, "ib"), _same_twice("ib")),
    "bitwise_and": (_right_is(-1, "i"), _left_is(-1, "i"), _same_twice("ib")),
    "bitwise_xor": (_right_is(0, "ib"), _left_is(0, "ib")),
    "maximum": (_same_twice("fib"),),
    "minimum": (_same_twice("fib"),),
    "logical_and": (_same_twice("b"),),
    "logical_or": (_same_twice("b"),),
    "neg": (_undoes_itself,),  # flips the sign bit twice; integers wrap twice
    "bitwise_not": (_undoes_itself,),
    "logical_not": (_undoes_itself,),  # _as refuses it unless the inner argument is bool
    "abs": (_idempotent,),
    "relu": (_idempotent,),
    "floor": (_idempotent,),
    "ceil": (_idempotent,),
    "trunc": (_idempotent,),
    "round": (_idempotent,),
    "sign": (_idempotent,),
    "where": (_where_same, _where_known, _where_again, _where_not, _where_bools),
    "cast": (_cast_of_cast,),
    "reshape": (_same_view, _view_of_view),
    "expand": (_same_view, _view_of_view),
    "permute": (_same_view, _permute_of_permute),
    "slice": (_same_view, _slice_of_slice),
    "amax": (_reduce_nothing,),
    "amin": (_reduce_nothing,),
    "any": (_reduce_nothing,),
    "all": (_reduce_nothing,),
}
"""Op → its rules, the first that fits first; the reason stands beside each where it is not plain."""
