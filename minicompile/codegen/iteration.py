"""Whether, and over which axes, a set of nodes can run as one kernel.

In: the nodes of a fusion group (pointwise ops, casts, reductions, scans, gathers) in order, and which of them must be
stored.
Out: `Iteration`: per node the atoms its dimensions are walked with, what it loads, the parallel and the reduce atoms;
or `Refused`, with the reason that `explain` shows.

The rules, all of which follow from "one loop nest, rows outside, reduced axes inside":

* every reduction reduces the same atoms, over the same rows; a scan runs along that one atom;
* every node is computed over rows (parallel atoms), or over rows and reduced atoms, or over fewer if recomputing is
  cheap;
* a stored node covers exactly the rows, or exactly everything, so that each of its elements is written once;
* the source of a gather lies in memory;
* no node is walked diagonally (x + x.T of a computed x: the same element would be needed at two places)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ..ir.graph import Node
from ..ir.ops import GATHER, POINTWISE, REDUCTIONS, SCANS
from ..ir.types import Dim
from .axes import Atoms, AxisSpace, Dims, NoCommonRefinement
from .prepare import Views
from .views import StridedView

CHEAP = 4
"""Cost (see the op table) up to which a value may be computed once per row instead of once."""


class Refused(Exception):
    """These nodes cannot be one kernel; the message is the reason."""


@dataclass(frozen=True)
class Load:
    """One operand that comes from memory: `base` at offset + Σ stride · atoms (+ Σ stride · index: `indexed` has the
    strides of a gather's dimensions)."""

    base: Node
    view: StridedView
    dims: tuple[tuple[tuple[Atoms, Dim], ...], ...]
    indexed: tuple[Dim, ...] | None = None

    @property
    def atoms(self) -> Dims:
        return tuple(tuple(a for atoms, _ in dim for a in atoms) for dim in self.dims)


@dataclass
class Iteration:
    """The outcome. `dims` and `walked` hold unresolved atoms; ask `atoms_of`. `loads`: (node, operand) → what it loads;
    the source of a gather stands under (node, node)."""

    space: AxisSpace = field(default_factory=AxisSpace)
    dims: dict[Node, Dims] = field(default_factory=dict)
    walked: dict[Node, Dims] = field(default_factory=dict)  # a reduction's operand dimensions; else the node's own
    loads: dict[tuple[Node, Node], Load] = field(default_factory=dict)
    parallel: frozenset[int] = frozenset()
    reduce: frozenset[int] = frozenset()

    def atoms_of(self, dims: Dims) -> Atoms:
        return self.space.resolve(atom for dim in dims for atom in dim)


def analyse(members: Sequence[Node], stored: AbstractSet[Node], views: Views) -> Iteration:
    """Find the iteration. Raises Refused.

    First only what data flow forces is unified; if that leaves several iteration spaces, those that merely look alike
    (the same operand loaded in the same way, the same number of elements) are laid over each other.
    """
    try:
        return _check(_walk(members, views), members, stored)
    except Refused:
        if len(members) == 1:
            raise
    iteration = _walk(members, views)
    try:
        _overlay(iteration, members)
    except NoCommonRefinement as error:
        raise Refused(f"iteration spaces differ: {error}") from None
    return _check(iteration, members, stored)


def _walk(members: Sequence[Node], views: Views) -> Iteration:
    """Give every member its atoms, unified along every edge."""
    it = Iteration()
    inside = frozenset(members)
    for node in members:
        try:
            _place(it, node, inside, views)
        except NoCommonRefinement as error:
            raise Refused(f"shapes have no common factors: {error}") from None
    return it


def _place(it: Iteration, node: Node, inside: frozenset[Node], views: Views) -> None:
    args = node.operands()[node.op == GATHER :]
    operands = [_operand(it, node, arg, inside, views) for arg in dict.fromkeys(args)]
    if operands:
        dims = operands[0]
        for other in operands[1:]:
            it.space.unify(dims, other)
    else:
        dims = tuple(map(it.space.new, node.tensor.shape))
    it.walked[node] = it.dims[node] = dims
    if node.op in REDUCTIONS:
        it.dims[node] = tuple(() if d in node.attrs["dims"] else atoms for d, atoms in enumerate(dims))
    if node.op == GATHER:
        _place_source(it, node, inside, views)


def _place_source(it: Iteration, node: Node, inside: frozenset[Node], views: Views) -> None:
    """The source of a gather: walked in step with the node, but for the indexed dimensions."""
    base, view = views.of(node.args[0])
    if base in inside:
        raise Refused("gather reads a computed value at other places")
    indexed, strides = node.attrs["dims"], view.strides
    assert strides is not None, "prepare() copies such sources"
    dims = tuple(
        () if d in indexed else tuple((it.space.new(size), stride) for size, stride in dim)
        for d, dim in enumerate(view.dims)
    )
    load = it.loads[node, node] = Load(base, view, dims, tuple(strides[d] for d in indexed))
    kept = [d for d in range(node.tensor.rank) if d not in indexed]
    it.space.unify(tuple(load.atoms[d] for d in kept), tuple(it.walked[node][d] for d in kept))


def _operand(it: Iteration, node: Node, arg: Node, inside: frozenset[Node], views: Views) -> Dims:
    if views.base(arg) in inside:
        return _internal(it, arg)
    base, view = views.of(arg)
    load = Load(base, view, tuple(tuple((it.space.new(s), stride) for s, stride in dim) for dim in view.dims))
    it.loads[node, arg] = load
    return load.atoms


def _internal(it: Iteration, node: Node) -> Dims:
    """The atoms of a member, or of a view of a member."""
    if node in it.dims:
        return it.dims[node]
    source: Node = node.args[0]
    dims = _internal(it, source)
    shape = node.tensor.shape
    if node.op == "permute":
        return tuple(dims[dim] for dim in node.attrs["dims"])
    if node.op == "expand":
        pairs = zip(dims, shape, source.tensor.shape, strict=True)
        return tuple(it.space.new(new) if old == 1 and new != 1 else dim for dim, new, old in pairs)
    if node.op == "reshape":
        return it.space.reshape(dims, shape)
    raise Refused(f"a {node.op} reads a part of a computed value")


def _overlay(it: Iteration, members: Sequence[Node]) -> None:
    """Lay look-alike iteration spaces over each other."""
    first: dict[tuple[Node, StridedView], Load] = {}
    for load in it.loads.values():
        if load.indexed is not None:
            continue
        known = first.setdefault((load.base, load.view), load)
        if known is not load and sum(map(len, load.atoms)) > 0:
            it.space.unify(known.atoms, load.atoms)
    reference = _reference(members)
    whole = (tuple(a for dim in it.walked[reference] for a in dim),)
    numel = _walked_numel(reference)
    for node in members:
        dims = it.walked[node]
        if _walked_numel(node) == numel and set(it.atoms_of(dims)) != set(it.atoms_of(whole)):
            it.space.unify(whole, (tuple(a for dim in dims for a in dim),))


def _reference(members: Sequence[Node]) -> Node:
    """The node whose operands set the iteration space: a reduction, or else the first of most elements."""
    reductions = [node for node in members if node.op in REDUCTIONS or node.op in SCANS]
    if reductions:
        return reductions[0]
    best = members[0]
    for node in members[1:]:
        best = node if _larger(node.tensor.numel, best.tensor.numel) else best
    return best


def _larger(one: Dim, other: Dim) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one > other
    return bool((one > other) == True)  # noqa: E712 (a sympy relation, which may be undecided)


def _walked_numel(node: Node) -> Dim:
    return node.args[0].tensor.numel if node.op in REDUCTIONS else node.tensor.numel


def _check(it: Iteration, members: Sequence[Node], stored: AbstractSet[Node]) -> Iteration:
    reductions = [node for node in members if node.op in REDUCTIONS or node.op in SCANS]
    everything = frozenset(it.atoms_of(it.walked[_reference(members)]))
    if not reductions:
        everything = max((frozenset(it.atoms_of(it.walked[node])) for node in members), key=len)
    it.reduce = frozenset(it.atoms_of(_reduced(it, reductions[0]))) if reductions else frozenset()
    it.parallel = everything - it.reduce
    for node in reductions:
        if frozenset(it.atoms_of(_reduced(it, node))) != it.reduce:
            raise Refused("the reductions run over different axes")
    for node in members:
        _check_node(it, node, node in stored, everything)
    return it


def _reduced(it: Iteration, node: Node) -> Dims:
    """The dimensions that a reduction reduces, or that a scan runs along."""
    dims = (node.attrs["dim"],) if node.op in SCANS else node.attrs["dims"]
    return tuple(it.walked[node][dim] for dim in dims)


def _check_node(it: Iteration, node: Node, is_stored: bool, everything: frozenset[int]) -> None:
    atoms = it.atoms_of(it.walked[node])
    found = frozenset(atoms)
    if len(found) != len(atoms):
        raise Refused(f"{node.op} would be needed at two places of one row")
    if not found <= everything:
        raise Refused(f"iteration spaces differ: {node.op} runs over {node.tensor}")
    if node.op in REDUCTIONS:
        if found != everything:
            raise Refused(f"{node.op} reduces a smaller tensor")
        return
    if node.op in SCANS and (found != everything or len(it.reduce) > 1):
        raise Refused(f"{node.op} runs along more than one axis")
    if found in (everything, it.parallel):
        return
    if is_stored:
        raise Refused(f"{node.op} must be stored, but has fewer elements than the kernel has iterations")
    if cost(node) > CHEAP:
        raise Refused(f"{node.op} would be recomputed for every row")


def cost(node: Node) -> int:
    """Rough number of instructions for one element."""
    if node.op == GATHER or node.op in SCANS:
        return CHEAP + 2
    return POINTWISE[node.op].cost if node.op in POINTWISE else 1
