"""Numbers and sizes that depend on data, as part of a graph: `x[mask]`, `mask.nonzero()`, `lengths.max().item()`.

In: operators whose result has a size that only the data tells, reads of numbers from tensors, and which of both are to
be captured. Out: nodes for them, and for each such number a symbol with a node of its own, so that what follows can
compute with it as with any other size; nodes that check at run time what tracing took for granted about it.

A symbol of this kind has no value while tracing. No guard reads it, and a branch on it ends the graph. The graph makes
such a node's result for real, reads the numbers from it, and checks the facts before anything else runs; where one does
not hold, nothing has been changed yet, and the frame runs in eager.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..config import config
from ..nests import leaves
from ..shape_env import data_symbols, is_decided, take_fresh_symbols, torch_captures
from .breaks import FACTS_HINT, Break, BreakKind, Restart
from .values.base import Value
from .values.constant import OpenValue, SymIntValue

if TYPE_CHECKING:
    from torch import fx

    from .glue import Glue
    from .graph import GraphBuilder
    from .segments import CompileContext
    from .tracer import Tracer
    from .values.tensor import TensorValue


class NeedsSymbols(Exception):
    """What needs symbols was met while tracing without: trace again with them. `opened`: fields of OpenNumbers."""

    def __init__(self, **opened: Any) -> None:
        super().__init__(*opened)
        self.opened = opened


@dataclass(frozen=True)
class Capture:
    """What becomes part of a graph: `scalars`, numbers that are read from tensors; `sizes`, results of a size that
    depends on data."""

    scalars: bool = False
    sizes: bool = False

    @classmethod
    def of(cls, ctx: CompileContext) -> Capture:
        """As the options say, ours or torch's; with fullgraph both, as in torch.compile."""
        if ctx.fullgraph:
            return cls(True, True)
        return cls(
            config.capture_scalar_outputs or torch_captures("capture_scalar_outputs"),
            config.capture_dynamic_output_shape_ops or torch_captures("capture_dynamic_output_shape_ops"),
        )

    def __bool__(self) -> bool:
        return self.scalars or self.sizes


class ConditionValue(OpenValue):
    """A comparison of numbers that depend on data."""

    def __init__(self, sym: torch.SymBool) -> None:
        self.sym = sym

    def python_type(self) -> type:
        return bool

    def truth(self, tr: Tracer) -> bool:
        raise Break(BreakKind.BRANCH, "A branch depends on a number that depends on data.", FACTS_HINT)

    def specialize(self, tr: Tracer) -> Any:
        raise Break(BreakKind.VALUE, "A condition on a number that depends on data is needed.", FACTS_HINT)

    def getattr(self, tr: Tracer, name: str) -> Value:
        raise self.cannot(f"reading attribute {name!r}")

    def build(self, glue: Glue) -> str:
        return glue.size(self.sym)


def condition(number: torch.SymBool) -> ConditionValue | None:
    """The value of a condition that hangs on data; None for one that can be decided."""
    return None if is_decided(number) else ConditionValue(number)


# ---- numbers read from tensors ----


def item(tr: Tracer, tensor: TensorValue) -> Value | None:
    """`tensor.item()` as a number of the graph; None where that is not to be captured."""
    graph, fake = tr.graph, tensor.fake
    is_one = all(type(size) is int and size == 1 for size in fake.shape)
    if not graph.capture.scalars or not becomes_number(fake) or not is_one:
        return None
    if graph.shapes is None:
        raise NeedsSymbols(data=True)
    number = graph._run(tr, "item", [fake], {})
    take_fresh_symbols(graph.shapes.env)
    if not data_symbols(number):
        return None
    node = graph.sizes.get(number.node._expr)
    return _read(tr, tensor, number) if node is None else number_of(node, number)


def becomes_number(fake: torch.Tensor) -> bool:
    """Whether what is read from the tensor can be a number of the graph: an int or a float."""
    return not (fake.dtype.is_complex or fake.dtype is torch.bool or fake.is_quantized)


def _read(tr: Tracer, tensor: TensorValue, number: torch.SymInt | torch.SymFloat) -> Value:
    graph = tr.graph
    check_place(tr)
    tr.changed()
    node = graph._emit("call_method", "item", (graph.local(tensor.node),), {}, tr.origin("item"))
    return note_number(tr, node, number)


def note_number(tr: Tracer, node: fx.Node, number: torch.SymInt | torch.SymFloat) -> Value:
    """The value of a number that a node is now known to give. A float is taken to be finite."""
    graph = tr.graph
    node.meta.update(example_value=number, is_data=True)
    graph.sizes[number.node._expr] = node
    if isinstance(number, torch.SymFloat):
        state(tr, abs(number) <= sys.float_info.max)
    return number_of(node, number)


def number_of(node: fx.Node, number: torch.SymInt | torch.SymFloat) -> Value:
    """The value of a symbol that depends on data."""
    from .values.data_floats import DataFloatValue

    return SymIntValue(number) if isinstance(number, torch.SymInt) else DataFloatValue(node, number)


def check_place(tr: Tracer) -> None:
    """Raises Break where what fails later could not be undone, or would run twice."""
    if len(tr.graph.bodies) > 1:
        raise Break(BreakKind.VALUE, "A number that depends on data is needed in a function within the graph.")
    if is_written(tr):
        raise Break(BreakKind.VALUE, "A number that depends on data is needed after a tensor from outside was changed.")


def may_fail_later(tr: Tracer) -> bool:
    """Whether what is found wrong behind the graph has left nothing to undo, so that the frame can run in eager."""
    return len(tr.graph.bodies) == 1 and not is_written(tr)


def is_written(tr: Tracer) -> bool:
    """Whether the graph changes a tensor from outside."""
    return any(entry.mutated for entry in tr.graph.inputs)


# ---- results whose size depends on data ----


def note_sizes(tr: Tracer, node: fx.Node, arguments: Any, result: Any) -> None:
    """Give the sizes of a call's result that depend on data nodes of their own, and check what the call assumed."""
    graph = tr.graph
    assert graph.shapes is not None
    fresh = set(take_fresh_symbols(graph.shapes.env))
    if fresh or _symbols(result) - _symbols(arguments):
        check_place(tr)
        node.meta["is_data"] = True
        for symbol, where, dim in _places(node, result):
            _give_node(tr, symbol, where, dim)
            fresh.discard(symbol)
        if fresh:
            raise Break(BreakKind.VALUE, f"{tr.name_of(node.target)}() needs a number that depends on data.")
    check_facts(tr)


def _symbols(tree: Any) -> set[Any]:
    return {symbol for leaf in leaves(tree) for number in _numbers(leaf) for symbol in data_symbols(number)}


def _numbers(leaf: Any) -> Iterable[Any]:
    return (*leaf.shape, leaf.storage_offset()) if isinstance(leaf, torch.Tensor) else (leaf,)


def _places(node: fx.Node, result: Any) -> Iterator[tuple[Any, list[Any], int | None]]:
    """(symbol, the result's part as [node] or [node, index], dimension or None for the offset) of each number of the
    result that is a symbol for data and nothing else."""
    parts = enumerate(result) if isinstance(result, (tuple, list)) else [(None, result)]
    for index, part in parts:
        if isinstance(part, torch.Tensor):
            where = [node, part] if index is None else [node, part, index]
            for dim, number in enumerate((*part.shape, part.storage_offset())):
                if data_symbols(number) and number.node._expr.is_Symbol:
                    yield number.node._expr, where, dim if dim < part.dim() else None


def _give_node(tr: Tracer, symbol: Any, where: list[Any], dim: int | None) -> None:
    """Make the node of a size, if there is none. An offset needs none: nobody computes with it."""
    graph = tr.graph
    assert graph.shapes is not None
    if dim is None and symbol not in graph.sizes:
        graph.shapes.env.offsets.add(symbol)
    elif symbol not in graph.sizes:
        node, part, *index = where
        source = graph.item(tr, node, index[0], part) if index else node
        made = graph._emit("call_function", torch.ops.aten.sym_size.int, (source, dim), {}, node.meta["origin"])
        made.meta.update(example_value=part.shape[dim], is_data=True)
        graph.sizes[symbol] = made


# ---- what was taken for granted ----


def state(tr: Tracer, fact: torch.SymBool) -> None:
    """The program says that a condition on data holds."""
    torch._check(fact)
    check_facts(tr)


def check_facts(tr: Tracer) -> None:
    """Nodes that check what has been assumed about data since the last call."""
    graph = tr.graph
    assert graph.shapes is not None
    for fact in graph.shapes.new_facts():
        tr.changed()
        if not may_fail_later(tr):
            raise Restart(tr.root_step, Break(BreakKind.VALUE, "Something is assumed about a number that depends on "
                                              "data where it can no longer be checked.", FACTS_HINT))  # fmt: skip
        node = _condition_node(tr, graph, fact)
        made = graph._emit("call_function", torch._check, (node,), {}, tr.origin("torch._check"))
        made.meta["example_value"] = None


def _condition_node(tr: Tracer, graph: GraphBuilder, fact: Any) -> Any:
    """The node of a condition on symbols. Raises Break for one that has none."""
    kind = type(fact).__name__
    if fact.is_Boolean and not fact.free_symbols:
        return bool(fact)
    if kind in _RELATIONS:
        operands = [graph._size_node(tr, side, None) for side in fact.args]
    elif kind in _CONNECTIVES:
        operands = [_condition_node(tr, graph, part) for part in fact.args]
    else:
        raise Break(BreakKind.VALUE, f"A number that depends on data would have to be checked for {fact}.", FACTS_HINT)
    op = _RELATIONS.get(kind) or _CONNECTIVES[kind]
    result = operands[0] if len(operands) > 1 else _made(tr, graph, op, operands, fact)
    for count, operand in enumerate(operands[1:], 2):
        result = _made(tr, graph, op, [result, operand], fact.func(*fact.args[:count]))
    return result


def _made(tr: Tracer, graph: GraphBuilder, op: Any, operands: list[Any], expr: Any) -> fx.Node:
    assert graph.shapes is not None
    node = graph._emit("call_function", op, tuple(operands), {}, tr.origin(op.__name__))
    node.meta["example_value"] = graph.shapes.env.create_symboolnode(expr)
    return node


_RELATIONS: dict[str, Any] = {
    "Equality": operator.eq, "Unequality": operator.ne, "StrictLessThan": operator.lt, "LessThan": operator.le,
    "StrictGreaterThan": operator.gt, "GreaterThan": operator.ge,
}  # fmt: skip
_CONNECTIVES: dict[str, Any] = {"And": operator.and_, "Or": operator.or_, "Not": torch.sym_not}

__all__ = [
    "Capture", "ConditionValue", "NeedsSymbols", "becomes_number", "check_facts", "check_place", "condition",
    "is_written", "item", "may_fail_later", "note_number", "note_sizes", "state",
]  # fmt: skip
