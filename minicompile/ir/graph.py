"""The small IR: an immutable, typed, functional dataflow graph.

In: what lowering builds through `GraphBuilder`.
Out: `Graph`, which passes rewrite (Graph → Graph), the printer shows, the reference interpreter runs and code
generation turns into kernels.

Nodes are immutable and compared by identity, so a pass never disturbs another holder of the same graph. A graph has
no side effects inside: what eager would have mutated stands in `writes`, performed after everything else has run, so
that an error in the middle has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from .types import SizeType, TensorType, ValueType


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: the user's line, and the torch call on it.

    `line` counts from 1; `call` is torch's name as the user would write it (`"torch.softmax"`, `"Tensor.add_"`);
    `again`: whether the user has asked for it to be computed again in backward (`torch.utils.checkpoint`).
    """

    file: str
    line: int
    function: str
    call: str
    again: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}: {self.call}"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `args` holds Nodes, Python scalars, Dims, and (nested) tuples of these; `attrs` all else."""

    op: str
    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    type: ValueType
    origin: Origin | None = None

    def operands(self) -> tuple[Node, ...]:
        """The Nodes among the arguments, in order, nested tuples included."""
        return self._operands

    @cached_property
    def _operands(self) -> tuple[Node, ...]:
        return tuple(nodes_in(self.args))

    @property
    def tensor(self) -> TensorType:
        """The type, known to be a tensor's. Raises TypeError otherwise."""
        if not isinstance(self.type, TensorType):
            raise TypeError(f"{self.op} has type {self.type}, not a tensor type")
        return self.type

    def __repr__(self) -> str:
        return f"<{self.op}: {self.type}>"


def nodes_in(value: Any) -> Iterator[Node]:
    """The Nodes in a (nested) argument structure, in order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from nodes_in(item)


@dataclass(frozen=True)
class InputView:
    """A graph output that is a view of an input: rebuilt at run time on the caller's own tensor, after `writes`.

    `type` gives shape and strides; `offset` is the storage offset in elements relative to the input's own.
    With the input's own shape and strides, `whole` is true and the input object itself is returned. `lazy`: see
    `retyped.view_as`. `detached`: it requires no gradient where the input does.
    """

    input: int
    type: TensorType
    offset: Any = 0
    whole: bool = False
    lazy: str = ""
    detached: bool = False


@dataclass(frozen=True, eq=False)
class BufferView:
    """A graph output that shares memory with another output, as eager's would: a view of `buffer`'s storage.

    All BufferViews over one `buffer` share its storage: each is `buffer.as_strided(type.shape, type.strides, offset)`,
    where `buffer` is laid out by the strides of its own type. Outputs that are one and the same tensor object are one
    and the same BufferView object. `lazy`: see `retyped.view_as`.
    """

    buffer: Node
    type: TensorType
    offset: Any = 0
    lazy: str = ""


Output = Node | InputView | BufferView | int | float | bool | None | Any


@dataclass(frozen=True)
class Graph:
    """A whole graph.

    Attributes:
        inputs: nodes of op `"input"`, in call order; their type is a TensorType or (symbolic int argument) a SizeType.
        nodes: all other nodes in an order in which operands come first.
        outputs: one per result of the call: a Node, an InputView, a BufferView, a Dim, a Python scalar or None. A Node
            is returned in memory of its own, shared with no input and no other output, even if it is an input node, a
            view of one, or stands among the outputs twice (eager computed it twice); sharing is spelled by the Views.
        writes: (input index, node): after all nodes ran, `inputs[index].copy_(node)`; in order.
        symbols: size symbol name → the value it had when traced (a hint for heuristics, never baked in).
        name: for file names and kernel names.
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    writes: tuple[tuple[int, Node], ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    name: str = "graph"

    def users(self) -> dict[Node, list[Node]]:
        """Node → the nodes that read it (each once, in order). Outputs and writes do not count."""
        result: dict[Node, list[Node]] = {node: [] for node in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for operand in dict.fromkeys(node.operands()):
                result[operand].append(node)
        return result

    def roots(self) -> Iterator[Node]:
        """The nodes that the graph must compute: outputs, written values, and calls with an effect of their own."""
        for out in self.outputs:
            yield from nodes_in(out.buffer if isinstance(out, BufferView) else out)
        yield from (node for _, node in self.writes)
        yield from (node for node in self.nodes if node.attrs.get("effect"))

    def rewrite(self, rule: Callable[[Node, tuple[Any, ...]], Node | Any]) -> Graph:
        """Rebuild the graph in order.

        `rule(node, new_args)` returns the node's replacement: a Node (new or already placed), or a Python scalar that
        takes its place in the arguments of its users. `node.rebuilt(new_args)` semantics are the rule's own business;
        `keep` below is the rule that changes nothing. New nodes that a rule makes on the way are placed before it.
        """
        from .rewrite import rewrite_graph

        return rewrite_graph(self, rule)

    def print(self) -> str:
        """Print the graph as runnable Python text, the user's source line above each group; returns the text too."""
        text = str(self)
        print(text)
        return text

    def to_dot(self, groups: Mapping[Node, str] | None = None) -> Any:
        """The graph as a `graphviz.Digraph`; `groups` (node → kernel name) draws a box around each kernel."""
        from .dot import to_dot

        return to_dot(self, groups)

    def render(self, path: str) -> str:
        """Draw to `.svg`, `.png` or `.pdf`; returns the path. Needs no `dot` program."""
        from .dot import render

        return render(self, path)

    def __str__(self) -> str:
        from .printer import print_graph

        return print_graph(self)


EMPTY: Mapping[str, Any] = MappingProxyType({})


class GraphBuilder:
    """Collects nodes in order; the only way lowering and tests make graphs."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.origin: Origin | None = None

    def input(self, type: TensorType | SizeType, name: str) -> Node:
        node = Node("input", (), MappingProxyType({"name": name, "index": len(self.inputs)}), type, self.origin)
        self.inputs.append(node)
        return node

    def add(self, op: str, args: Sequence[Any], type: ValueType, **attrs: Any) -> Node:
        node = Node(op, tuple(args), MappingProxyType(attrs) if attrs else EMPTY, type, self.origin)
        self.nodes.append(node)
        return node

    def finish(
        self,
        outputs: Sequence[Output],
        writes: Sequence[tuple[int, Node]] = (),
        symbols: Mapping[str, int] | None = None,
    ) -> Graph:
        return Graph(
            tuple(self.inputs), tuple(self.nodes), tuple(outputs), tuple(writes), dict(symbols or {}), self.name
        )
