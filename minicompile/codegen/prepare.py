"""Make explicit every copy that memory layout demands, so that all later stages can forget about it.

In: an optimised Graph.
Out: the same graph with identity `cast` nodes (the IR's copy) put where a tensor must lie in memory in a way that its
definition does not give: an operand of an extern call or an output that is a view which no strides describe (heads
merged after attention) or whose strides are not eager's, an output or written value that is an input itself, a view
that no loop nest can walk, a gather's source or a scan's operand that no strides describe.

After this pass every view node is a `StridedView` of the node under its chain of views, and `Views.of` never fails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ..ir.graph import BufferView, Graph, Node
from ..ir.ops import CREATION, GATHER, SCANS, VIEWS, is_pointwise
from ..ir.rewrite import copy_of, keep, substitute
from ..ir.types import TensorType
from .axes import AxisSpace, NoCommonRefinement
from .views import StridedView, layout, same_strides, through, whole

SOURCES = ("input", "constant", "extern", "getitem")
"""What lies in memory without a kernel's doing, by the strides of its type."""

NEVER_OWN = ("input", "constant", *CREATION)
"""What no output may share memory with, or what has no memory at all."""


class Views:
    """Node → (the node under its chain of views, the strided view of it). Memoised per node."""

    def __init__(self) -> None:
        self._known: dict[Node, tuple[Node, StridedView]] = {}

    def of(self, node: Node) -> tuple[Node, StridedView]:
        """Raises NoCommonRefinement where no factors describe a view; never after `prepare`."""
        known = self._known.get(node)
        if known is None:
            if node.op in VIEWS:
                base, view = self.of(node.args[0])
                known = base, through(view, node)
            else:
                known = node, whole(node.tensor.shape, storage_strides(node))
            self._known[node] = known
        return known

    def base(self, node: Node) -> Node:
        while node.op in VIEWS:
            node = node.args[0]
        return node


def storage_strides(node: Node) -> tuple[Any, ...]:
    """Where a node's elements lie: eager's strides, dense ones for what kernels compute, an axis' own for `iota`."""
    type = node.tensor
    if node.op == "full":
        return (0,) * type.rank
    if node.op == "iota":
        return tuple(int(dim == node.attrs["dim"]) for dim in range(type.rank))
    return type.strides if node.op in SOURCES or node.attrs.get("exact") else layout(type)


def prepare(graph: Graph) -> Graph:
    """Insert the copies; see the module's docstring."""
    pass_ = _Prepare(graph)
    graph = graph.rewrite(pass_.rule)
    return _without_dead_nodes(pass_.finish(graph))


def _without_dead_nodes(graph: Graph) -> Graph:
    """A kernel that stores nothing has no meaning, so what nobody needs must go, also where no pass has run."""
    alive = set(graph.roots())
    for node in reversed(graph.nodes):
        if node in alive:
            alive.update(node.operands())
    return replace(graph, nodes=tuple(node for node in graph.nodes if node in alive))


class _Prepare:
    def __init__(self, graph: Graph) -> None:
        self.views = Views()
        self.written = {graph.inputs[index] for index, _ in graph.writes}
        self.copies: dict[tuple[Node, Any], Node] = {}
        self.shared: Counter[Node] = Counter()
        self.buffer_views: dict[BufferView, BufferView] = {}

    def rule(self, node: Node, args: tuple[Any, ...]) -> Node:
        if node.op in VIEWS:
            return self._view(keep(node, args))
        if node.op == "extern":
            args = substitute(args, {n: self._in_memory(n) for n in keep(node, args).operands()})
            return keep(node, args)
        if is_pointwise(node.op):
            return self._walkable(keep(node, args))
        if node.op == GATHER:
            return self._walkable(keep(node, (self._strided(args[0]), *args[1:])))
        if node.op in SCANS:
            return keep(node, args if self.views.of(args[0])[1].strides is not None else (self._copy(args[0]),))
        return keep(node, args)

    def _copy(self, node: Node, strides: tuple[Any, ...] | None = None) -> Node:
        """One copy per node and layout."""
        key = (node, strides)
        if key not in self.copies:
            self.copies[key] = copy_of(node, strides)
        return self.copies[key]

    def _view(self, node: Node) -> Node:
        try:
            self.views.of(node)
            return node
        except NoCommonRefinement:
            return replace(node, args=(self._copy(node.args[0]),))

    def _in_memory(self, node: Node) -> Node:
        """The operand of an extern call: a tensor with eager's strides."""
        if not isinstance(node.type, TensorType) or node.op in SOURCES:
            return node
        base, view = self.views.of(node)
        if base.op in CREATION or not _has_strides(node, view):
            return self._copy(node, node.tensor.strides)
        return node

    def _strided(self, node: Node) -> Node:
        """A value that one stride a dimension describes, and that a gather can read anywhere."""
        base, view = self.views.of(node)
        return self._copy(node) if base.op in CREATION or view.strides is None else node

    def _walkable(self, node: Node) -> Node:
        """A pointwise node whose operands one loop nest can walk together."""
        ragged = [arg for arg in node.operands() if self.views.of(arg)[1].strides is None]
        if not ragged:
            return node
        space = AxisSpace()
        dims = tuple(space.new(size) for size in node.tensor.shape)
        try:
            for arg in ragged:
                atoms = tuple(tuple(a for f in dim for a in space.new(f[0])) for dim in self.views.of(arg)[1].dims)
                space.unify(dims, atoms)
            return node
        except NoCommonRefinement:
            return keep(node, substitute(node.args, {arg: self._copy(arg) if arg in ragged else arg
                                                     for arg in node.operands()}))

    def finish(self, graph: Graph) -> Graph:
        """Outputs and written values."""
        in_memory = [root for root in map(_root, graph.outputs) if root is not None]
        self.shared = Counter(map(self.views.base, in_memory))
        outputs = tuple(map(self._output, graph.outputs))
        writes = tuple((index, self._written(node)) for index, node in graph.writes)
        present = set(graph.nodes)
        roots = [*filter(None, map(_root, outputs)), *(node for _, node in writes)]
        extra = [node for node in dict.fromkeys(roots) if node.op != "input" and node not in present]
        return replace(graph, nodes=(*graph.nodes, *extra), outputs=outputs, writes=writes)

    def _output(self, out: Any) -> Any:
        if isinstance(out, BufferView):
            known = self.buffer_views.get(out)
            if known is None:
                known = self.buffer_views[out] = replace(out, buffer=self._own_buffer(out.buffer))
            return known
        if not isinstance(out, Node) or not isinstance(out.type, TensorType):
            return out
        base, view = self.views.of(out)
        if base.op in NEVER_OWN or self.shared[base] > 1 or not _has_strides(out, view):
            return copy_of(out, out.tensor.strides)
        return out

    def _own_buffer(self, node: Node) -> Node:
        """What several outputs share: memory of its own, laid out by the node's type."""
        fits = node.op not in VIEWS and node.op not in NEVER_OWN
        return node if fits else self._copy(node, node.tensor.strides)

    def _written(self, node: Node) -> Node:
        base, view = self.views.of(node)
        if base in self.written or base.op in CREATION or view.strides is None:
            return self._copy(node)
        return node


def _root(out: Any) -> Node | None:
    """The tensor node that an output needs in memory."""
    if isinstance(out, BufferView):
        return out.buffer
    return out if isinstance(out, Node) and isinstance(out.type, TensorType) else None


def _has_strides(node: Node, view: StridedView) -> bool:
    """Whether the view has eager's strides."""
    strides = view.strides
    return strides is not None and same_strides(node.tensor.shape, strides, node.tensor.strides)
