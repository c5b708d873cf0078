"""Cutting the joint graph in two: what forward hands on to backward, and what backward computes again.

In: a `Joint`, optimised.
Out: a `Split`: the forward graph (results, then saved values, then sizes), the backward graph (sizes, saved values and
tangents to gradients).

Which values cross is a minimum cut, as in "Min-Cut Rematerialization" of functorch: every value of the forward half
costs its bytes to save, and nothing to compute again if kernels can do so on the fly. Random numbers are never drawn
again, and matrix products, reductions and whatever ATen computes are not repeated, except, cheapest per byte first, to
stay within an activation memory budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..ir.call_plan import Own, View
from ..ir.graph import BufferView, Graph, InputView, Node
from ..ir.ops import POINTWISE, REDUCTIONS, VIEWS
from ..ir.rewrite import substitute
from ..ir.symbols import evaluate
from ..ir.types import SizeType, TensorType
from ..passes import dce
from ..walks import operands_first, reachable
from .joint import Joint


@dataclass(frozen=True)
class Saved:
    """A value that backward gets: the forward graph's input number `index`, or its output number `index`."""

    is_input: bool
    index: int


@dataclass(frozen=True)
class Split:
    """The two halves.

    Attributes:
        forward: the FX graph's inputs → `n_results` results, saved values, and the sizes that backward needs.
        backward: sizes, saved values, tangents → one gradient or None for each input of the FX graph.
        saved: where each saved value of `backward` comes from.
        cut: the same values, as nodes of the joint graph.
        n_sizes: the number of sizes, which are forward's last outputs and backward's first inputs.
        saved_bytes: what crosses, inputs included.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Saved, ...]
    cut: tuple[Node, ...]
    n_results: int
    n_sizes: int
    saved_bytes: int


def partition(joint: Joint, budget: float = 1.0) -> Split:
    """Cut `joint`.

    Args:
        budget: the part of the bytes that the plain minimum cut saves that may be saved, from 0 to 1. Below 1, more is
            computed again.
    """
    return _Partition(joint).run(budget)


@dataclass
class _Partition:
    joint: Joint
    graph: Graph = field(init=False)
    after: set[Node] = field(init=False)  # depends on a tangent: backward only
    uses: list[Node] = field(init=False)  # values of the forward half that backward reads
    materialised: set[Node] = field(init=False)
    by_reference: set[Node] = field(init=False)  # inputs and results that backward may get as they are

    def __post_init__(self) -> None:
        self.graph = graph = self.joint.graph
        self.tangents = graph.inputs[self.joint.n_inputs :]
        self.gradients = graph.outputs[self.joint.n_results :]
        self.by_reference = self._by_reference()
        self.after = _dependents(graph, self.tangents)
        needed = reachable((g for g in self.gradients if isinstance(g, Node)), Node.operands)
        backward = [node for node in graph.nodes if node in self.after and node in needed]
        read = [operand for node in backward for operand in node.operands() if operand not in self.after]
        read += [g for g in self.gradients if isinstance(g, Node) and g not in self.after]
        self.uses = list(dict.fromkeys(read))
        self.materialised = _read_by_externs(backward)

    def run(self, budget: float) -> Split:
        saved = self._cut(frozenset(self._checkpointed()))
        if budget < 1:
            saved = self._within(saved, budget)
        return self._split(saved)

    # --- what to save -----------------------------------------------------------------------------------------------

    def _within(self, saved: list[Node], budget: float) -> list[Node]:
        """Allow more and more recomputation, cheapest per byte first, until the saved bytes fit."""
        limit = budget * sum(map(self._bytes, saved))
        candidates = sorted(self._repeatable(), key=self._dearness)
        fewest, most = 0, len(candidates)
        while fewest < most:
            middle = (fewest + most) // 2
            if sum(map(self._bytes, self._cut(frozenset(candidates[:middle])))) <= limit:
                most = middle
            else:
                fewest = middle + 1
        return self._cut(frozenset(candidates[:fewest]))

    def _checkpointed(self) -> list[Node]:
        """Values that the user wants to be computed again rather than saved."""
        return [node for node in self._repeatable() if node.origin is not None and node.origin.again]

    def _repeatable(self) -> list[Node]:
        """Values that are not computed again by themselves, but could be."""
        candidates = reachable(self.uses, Node.operands) - self.after
        return [n for n in self.graph.nodes if n in candidates and self._is_kept(n) and not _draws(n)]

    def _dearness(self, node: Node) -> tuple[int, int]:
        """Pointwise values first, then reductions, then ATen's; of each kind the largest first."""
        kind = 2 if node.op in ("extern", "getitem") else 1 if node.op in REDUCTIONS else 0
        return kind, -self._bytes(node)

    def _is_kept(self, node: Node) -> bool:
        """Whether a value is not worth computing again."""
        if node.op == "philox" and node.tensor.device.type == "cpu":
            return True  # some nanoseconds an element, and what is made of it is often a mask, of a byte
        return node.op in ("extern", "getitem") or node.op in REDUCTIONS or node in self.materialised

    def _bytes(self, node: Node) -> int:
        if not isinstance(node.type, TensorType):
            return 0
        return evaluate(node.type.numel, dict(self.graph.symbols)) * node.type.dtype.itemsize

    def _by_reference(self) -> set[Node]:
        """Inputs that the call does not write and results, as far as eager would keep them too."""
        joint = self.joint
        written = {index for index, _ in self.graph.writes} | {write.input for write in joint.plan.writes}
        results = self.graph.outputs[: joint.n_results]
        handed_out = {out.result if isinstance(out, Own) else out.index for out in joint.plan.outputs
                      if isinstance(out, Own) or isinstance(out, View) and not out.of_input}  # fmt: skip
        free = {i for i in range(joint.n_results) if i not in handed_out or i in joint.kept_results}
        found = {self.graph.inputs[i] for i in joint.kept_inputs - written}
        return found | {node for i, node in enumerate(results) if isinstance(node, Node) and i in free}

    def _price(self, node: Node) -> int | None:
        """What saving a value costs; None: it cannot be saved itself. What exists anyway is cheaper, a copy dearer."""
        if node.op in VIEWS or not isinstance(node.type, TensorType):
            return None
        if node in self.by_reference:
            return self._bytes(node) + 1
        is_copy = node.op == "input" or node in self.graph.outputs[: self.joint.n_results]
        return (3 if is_copy else 2) * self._bytes(node) + 1

    def _cut(self, allowed: frozenset[Node]) -> list[Node]:
        """The values to save: a minimum cut between what is only known in forward and what backward reads."""
        import networkx as nx

        network = nx.DiGraph()
        network.add_nodes_from(("source", "sink"))
        todo, seen = list(self.uses), set(self.uses)
        for use in self.uses:
            network.add_edge((use, "out"), "sink")
        while todo:
            node = todo.pop()
            price = self._price(node)
            network.add_edge((node, "in"), (node, "out"), **({} if price is None else {"capacity": price}))
            if node.op == "input" or (_draws(node) or self._is_kept(node)) and node not in allowed:
                network.add_edge("source", (node, "in"))
                continue
            for operand in node.operands():
                network.add_edge((operand, "out"), (node, "in"))
                if operand not in seen:
                    seen.add(operand)
                    todo.append(operand)
        _, (before, _) = nx.minimum_cut(network, "source", "sink")
        order = {node: i for i, node in enumerate((*self.graph.inputs, *self.graph.nodes))}
        cut = [node for node in seen if (node, "in") in before and (node, "out") not in before]
        return sorted(cut, key=order.__getitem__)

    # --- the two graphs ---------------------------------------------------------------------------------------------

    def _split(self, cut: list[Node]) -> Split:
        graph, joint = self.graph, self.joint
        outputs: list[Any] = list(graph.outputs[: joint.n_results])
        saved = []
        for node in cut:
            if node.op == "input" and node in self.by_reference:
                saved.append(Saved(True, node.attrs["index"]))
                continue
            if node not in outputs or node not in self.by_reference:
                outputs.append(node)  # an output that stands twice gets memory of its own
            saved.append(Saved(False, outputs.index(node) if node in self.by_reference else len(outputs) - 1))
        symbols = self._symbols()
        outputs += symbols
        forward = replace(graph, inputs=graph.inputs[: joint.n_inputs], outputs=tuple(outputs))
        forward = dce.run(forward)
        return Split(
            replace(forward, name=f"{graph.name}_forward"),
            self._backward(cut, symbols),
            tuple(saved),
            tuple(cut),
            joint.n_results,
            len(symbols),
            sum(map(self._bytes, cut)),
        )

    def _symbols(self) -> list[Any]:
        """The size symbols of the joint graph, as expressions."""
        found = {}
        for node in self.graph.inputs:
            dims = (node.type.expr,) if isinstance(node.type, SizeType) else (*node.tensor.shape, *node.tensor.strides)
            for dim in dims:
                if not isinstance(dim, (int, float)):  # a float among the inputs may have been fixed
                    found.update({symbol.name: symbol for symbol in dim.free_symbols})
        return [found[name] for name in sorted(found)]

    def _backward(self, cut: list[Node], symbols: list[Any]) -> Graph:
        inputs: list[Node] = [_input(i, str(s), SizeType(s)) for i, s in enumerate(symbols)]
        value: dict[Node, Node] = {}
        for node in (*cut, *self.tangents):
            name = node.attrs.get("name", f"saved_{len(value)}")
            value[node] = _input(len(inputs), str(name), node.type)
            inputs.append(value[node])
        nodes: list[Node] = []
        for gradient in self.gradients:
            if isinstance(gradient, Node):
                _place(gradient, value)
        order = self._placed_late(value)
        nodes = [value[node] for node in order]
        outputs = _gradient_outputs([value[g] if isinstance(g, Node) else g for g in self.gradients])
        symbols_seen = dict(self.graph.symbols)
        return Graph(tuple(inputs), tuple(nodes), outputs, (), symbols_seen, f"{self.graph.name}_backward")

    def _placed_late(self, value: dict[Node, Node]) -> list[Node]:
        """The nodes of backward in an order in which what is computed again comes right before its first reader."""
        order: dict[Node, None] = {}
        for node in self.graph.nodes:
            if node in value and node in self.after:
                _order_operands(node, value, order)
        for gradient in self.gradients:
            if isinstance(gradient, Node):
                _order_operands(gradient, value, order)
        return list(order)


def _dependents(graph: Graph, roots: Sequence[Node]) -> set[Node]:
    """`roots` and every node computed from them."""
    found = set(roots)
    for node in graph.nodes:
        if any(operand in found for operand in node.operands()):
            found.add(node)
    return found


def _read_by_externs(nodes: Sequence[Node]) -> set[Node]:
    """Computed values that extern calls among `nodes` read, seen through views: they have to lie in memory there."""
    found = set()
    for node in nodes:
        if node.op == "extern":
            for operand in node.operands():
                while operand.op in VIEWS:
                    operand = operand.args[0]
                if operand.op in POINTWISE or operand.op == "cast":
                    found.add(operand)
    return found


def _draws(node: Node) -> bool:
    """Whether a value comes from a call with an effect, which must run once."""
    call = node.args[0] if node.op == "getitem" else node
    return bool(call.attrs.get("effect"))


def _input(index: int, name: str, type: Any) -> Node:
    return Node("input", (), MappingProxyType({"name": name, "index": index}), type)


def _place(root: Node, value: dict[Node, Node]) -> None:
    """Copy the nodes under `root` that have no value yet over the values of their operands."""

    def missing(node: Node) -> list[Node]:
        return [] if node in value else [operand for operand in node.operands() if operand not in value]

    for node in operands_first(root, missing):
        if node not in value:
            args = substitute(node.args, value)
            value[node] = node if args == node.args else replace(node, args=args)


def _order_operands(root: Node, value: dict[Node, Node], order: dict[Node, None]) -> None:
    def is_placed(node: Node) -> bool:
        return node in order or value[node].op == "input"

    def missing(node: Node) -> list[Node]:
        return [] if is_placed(node) else [operand for operand in node.operands() if not is_placed(operand)]

    for node in operands_first(root, missing):
        if not is_placed(node):
            order[node] = None


def _gradient_outputs(gradients: list[Any]) -> tuple[Any, ...]:
    """A gradient that is a tangent is the tangent itself; equal gradients are one tensor. Autograd allows both."""
    shared: dict[Node, BufferView] = {}
    outputs: list[Any] = []
    for gradient in gradients:
        if not isinstance(gradient, Node):
            outputs.append(None)
        elif gradient.op == "input":
            outputs.append(InputView(gradient.attrs["index"], gradient.tensor, 0, True))
        elif sum(other is gradient for other in gradients) > 1:
            outputs.append(shared.setdefault(gradient, BufferView(gradient, gradient.tensor)))
        else:
            outputs.append(gradient)
    return tuple(outputs)
