"""Which nodes become one kernel: greedy over the DAG, best saving first, every decision with its reason.

In: a prepared Graph (see prepare.py).
Out: `FusionPlan`: groups in an order in which they can run, each with its nodes, what it stores and its `Iteration`;
and the decisions taken.

A pair of groups is a candidate when one reads what the other computes, or when both read the same tensor. Its saving
is the bytes that no longer travel. A pair is merged when no third unit lies between the two (no cycle), no call with
an effect stands between them, and the merged nodes have one iteration (`iteration.analyse`, which gives the reason if
not). Cheap nodes that read no more than they write (the float32 of a bfloat16 input, a mask made of indices) are
never a group of their own: every group that reads them computes them again."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..ir.graph import BufferView, Graph, Node
from ..ir.ops import CREATION, GATHER, VIEWS, is_pointwise
from ..ir.ops import is_compute as is_compute_op
from ..ir.symbols import hint
from ..ir.types import TensorType
from ..walks import reachable
from .compiled import FusionDecision
from .iteration import CHEAP, Iteration, Refused, analyse, cost
from .prepare import Views

MAX_NODES = 160
"""Nodes in one kernel; larger kernels compile slowly and spill registers."""

MAX_SHARING = 24
"""Groups that read one tensor and are tried against each other."""

SCALAR, MAX_SHARING_A_SCALAR = 8, 4
"""Bytes of a tensor that is hardly worth sharing (a learning rate that a hundred groups read); the groups tried."""


@dataclass(eq=False)
class Unit:
    """A group of nodes that become one kernel, or one extern call.

    Attributes:
        index: position in the graph of the first node; a stable identity.
        members: in graph order; inlined nodes included, where they are needed.
        stored: members that must be written to memory.
        iteration: None for an extern call.
    """

    index: int
    members: list[Node]
    stored: list[Node] = field(default_factory=list)
    iteration: Iteration | None = None
    own: frozenset[Node] = frozenset()
    before: int = 0  # bit set of the units (by index) that must run before; some of them may be gone
    after: int = 0  # and of those that must run after
    segment: int = 0
    stamp: int = 0  # changes with every merge, so that stale candidates are noticed

    @property
    def is_extern(self) -> bool:
        return self.iteration is None


@dataclass
class FusionPlan:
    """Units in running order; and why they are what they are."""

    units: list[Unit]
    decisions: list[FusionDecision]
    labels: dict[Node, str]
    before: dict[Unit, set[Unit]]  # what each must wait for, directly


def fuse(graph: Graph, views: Views) -> FusionPlan:
    """Plan the kernels of a prepared graph."""
    return _Fusion(graph, views).run()


def is_compute(node: Node) -> bool:
    """Whether a kernel computes the node."""
    return is_compute_op(node.op)


class _Fusion:
    def __init__(self, graph: Graph, views: Views) -> None:
        self.graph, self.views = graph, views
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.labels = {node: f"{node.op}_{i}" for node, i in self.position.items()}
        self.rooted = _rooted(graph, views)
        self.users = _users(graph, views)
        self.inlined = self._inlined()
        self.units: dict[int, Unit] = {}
        self.unit_of: dict[Node, Unit] = {}
        self.read_by: dict[Unit, dict[Node, None]] = {}
        self.alive = 0  # bit set of the units
        self.after_effect: dict[Unit, set[Unit]] = {}  # calls with effects keep their order
        self.decisions: list[tuple[frozenset[Node], frozenset[Node], FusionDecision]] = []
        self._make_units()
        self.reading = self._all_reading()

    def run(self) -> FusionPlan:
        queue = [candidate for unit in self.units.values() for candidate in self._candidates(unit)]
        heapq.heapify(queue)
        tried: set[tuple[int, int, int, int]] = set()
        while queue:
            _, low, high, low_stamp, high_stamp = heapq.heappop(queue)
            first, second = self.units.get(low), self.units.get(high)
            key = (low, high, low_stamp, high_stamp)
            stale = first is None or second is None or (first.stamp, second.stamp) != (low_stamp, high_stamp)
            if stale or key in tried:
                continue
            tried.add(key)
            assert first is not None and second is not None
            merged = self._try(first, second)
            if merged is not None:
                for candidate in self._candidates(merged):
                    heapq.heappush(queue, candidate)
        before = {unit: self._sources(unit) | self.after_effect.get(unit, set()) for unit in self.units.values()}
        return FusionPlan(in_order(before), self._lasting_decisions(), self.labels, before)

    # --- units --------------------------------------------------------------------------------------------------

    def _inlined(self) -> set[Node]:
        """Nodes that every reader computes again."""
        found: set[Node] = set()
        of_indices: set[Node] = set()  # made without reading memory: any number of readers may do so
        for node in self.graph.nodes:
            if not is_pointwise(node.op) or node in self.rooted or cost(node) > CHEAP:
                continue
            reads = [self.views.base(arg) for arg in node.operands()]
            if any(is_compute(base) and base not in found for base in reads) or self._read_through_slice(node):
                continue
            if all(base.op in CREATION or base in of_indices for base in reads):
                of_indices.add(node)
            elif len(self.users[node]) > 8:
                continue
            if sum(_bytes(base) for base in reads if not is_compute(base)) <= _bytes(node):
                found.add(node)
        return found

    def _read_through_slice(self, node: Node) -> bool:
        """Whether a reader sees a part of the node, or sees it in an order that needs memory."""
        return any(
            view.op == "slice" or (view.op == "reshape" and view.args[0].op != node.op)
            for user in self.users[node] for view in _chain(user, node)
        )

    def _make_units(self) -> None:
        segment = 0
        last_effect: Unit | None = None
        for node in self.graph.nodes:
            if node.op == "extern":
                unit = Unit(self.position[node], [node], [node], segment=segment)
                if _writes_in_place(node):
                    unit.segment = segment + 1
                    segment += 2
            elif is_compute(node) and node not in self.inlined:
                unit = self._single(node, segment)
            else:
                continue
            unit.own = frozenset([node])
            self._place(unit)
            if node.attrs.get("effect"):
                if last_effect is not None:
                    unit.before |= last_effect.before | 1 << last_effect.index
                    self.after_effect[unit] = {last_effect}
                last_effect = unit
        for unit in sorted(self.units.values(), key=lambda unit: unit.index, reverse=True):
            for other in self._sources(unit) | self.after_effect.get(unit, set()):
                other.after |= unit.after | 1 << unit.index

    def _single(self, node: Node, segment: int) -> Unit:
        """A group of one node. What cannot be computed again inside it becomes a group of its own first."""
        while True:
            members = self._with_inlined(frozenset([node]))
            stored = [node]
            try:
                iteration = analyse(members, set(stored), self.views)
                return Unit(self.position[node], members, stored, iteration, segment=segment)
            except Refused:
                again = [n for n in members if n is not node]
                if not again:
                    raise
                for extra in again:
                    self.inlined.discard(extra)
                    unit = self._single(extra, segment)
                    unit.own = frozenset([extra])
                    self._place(unit)

    def _place(self, unit: Unit) -> None:
        self.units[unit.index] = unit
        self.alive |= 1 << unit.index
        for node in unit.own:
            self.unit_of[node] = unit
        for other in self._sources(unit):
            unit.before |= other.before | 1 << other.index

    def _with_inlined(self, nodes: frozenset[Node]) -> list[Node]:
        """The nodes and the inlined ones they need, in graph order."""
        found = reachable(nodes, lambda node: self.inlined.intersection(map(self.views.base, node.operands())))
        return sorted(found, key=self.position.__getitem__)

    def _reads(self, unit: Unit) -> Mapping[Node, None]:
        """The nodes under the operands that come from outside of the unit, each once, in order."""
        if unit not in self.read_by:
            inside = set(unit.members)
            operands = (arg for node in unit.members for arg in node.operands())
            bases = (self._read_as(arg) for arg in operands)
            self.read_by[unit] = {base: None for base in bases if base is not None and base not in inside}
        return self.read_by[unit]

    def _read_as(self, arg: Node) -> Node | None:
        """What an operand is read from; None for what is no tensor and not computed by a call."""
        if isinstance(arg.type, TensorType):
            return self.views.base(arg)
        return arg if arg.op == "extern" else None

    def _sources(self, unit: Unit) -> set[Unit]:
        """Units whose results the unit reads."""
        found = set()
        for base in self._reads(unit):
            node: Node = base.args[0] if base.op == "getitem" else base
            if node in self.unit_of:
                found.add(self.unit_of[node])
        return found - {unit}

    # --- merging ------------------------------------------------------------------------------------------------

    def _candidates(self, unit: Unit) -> list[tuple[int, int, int, int, int]]:
        """(minus bytes saved, the two units' indices, their stamps) for each neighbour."""
        if unit.is_extern:
            return []
        neighbours: dict[int, Unit] = {u.index: u for u in self._sources(unit)}
        for node in unit.own:
            neighbours.update((u.index, u) for u in self._readers(node))
        for base in self._reads(unit):
            readers = self._readers(base) if base.op not in CREATION else []
            if len(readers) <= (MAX_SHARING if _bytes(base) > SCALAR else MAX_SHARING_A_SCALAR):
                neighbours.update((u.index, u) for u in readers)
        result = []
        for other in neighbours.values():
            if other is not unit and not other.is_extern:
                low, high = sorted((unit, other), key=lambda u: u.index)
                result.append((-self._saved(low, high), low.index, high.index, low.stamp, high.stamp))
        return result

    def _readers(self, node: Node) -> list[Unit]:
        found = (self.unit_of[user] for user in self.reading.get(node, ()) if user in self.unit_of)
        return list({unit.index: unit for unit in found}.values())

    def _all_reading(self) -> dict[Node, tuple[Node, ...]]:
        """For each node those that read it, also through nodes that each of their readers computes again."""
        found: dict[Node, tuple[Node, ...]] = {}
        for node in (*reversed(self.graph.nodes), *self.graph.inputs):
            through = (found[user] if user in self.inlined else (user,) for user in self.users[node])
            found[node] = tuple(dict.fromkeys(itertools.chain.from_iterable(through)))
        return found

    def _saved(self, first: Unit, second: Unit) -> int:
        """Bytes that one kernel moves less than two."""
        saved = 0
        both = first.own | second.own
        first_reads, second_reads = self._reads(first).keys(), self._reads(second).keys()
        for shared in first_reads & second_reads:
            saved += _bytes(shared, self.graph.symbols) if shared.op not in CREATION else 0
        for one, reads in ((first, second_reads), (second, first_reads)):
            for node in one.own & reads:
                size = _bytes(node, self.graph.symbols)
                saved += size if self._needed_outside(node, both) else 2 * size
        return saved

    def _needed_outside(self, node: Node, inside: frozenset[Node]) -> bool:
        return node in self.rooted or any(user not in inside for user in self.reading[node])

    def _try(self, first: Unit, second: Unit) -> Unit | None:
        """Merge two units, or say why not."""
        try:
            merged = self._merge(first, second)
        except Refused as reason:
            self._decide(first, second, False, str(reason))
            return None
        self._decide(first, second, True, f"saves {self._saved(first, second)} bytes")
        self._replace(first, second, merged)
        return merged

    def _replace(self, first: Unit, second: Unit, merged: Unit) -> None:
        """Put the merged unit in the place of two. A unit before or after both of them knows all that is to be known:
        only those that knew one learn of the other, so that a long chain costs no walk along it for each merge."""
        for unit in (first, second):
            del self.units[unit.index]
            self.alive &= ~(1 << unit.index)
        self._place(merged)
        own = 1 << merged.index
        for unit in self._living((first.after ^ second.after) & ~own):
            unit.before |= merged.before | own
        for unit in self._living((first.before ^ second.before) & ~own):
            unit.after |= merged.after | own

    def _living(self, bits: int) -> Iterator[Unit]:
        """The units in a bit set."""
        bits &= self.alive
        while bits:
            yield self.units[(bits & -bits).bit_length() - 1]
            bits &= bits - 1

    def _merge(self, first: Unit, second: Unit) -> Unit:
        own = first.own | second.own
        if first.segment != second.segment:
            raise Refused("a call that writes in place stands between them")
        between = self._between(first, second) or self._between(second, first)
        if between is not None:
            raise Refused(f"{self._name(between)} must run between them")
        # As made before: what was computed again inside one of them then may be a group of its own since, which may
        # have to wait for this one.
        members = sorted({*first.members, *second.members}, key=self.position.__getitem__)
        if len(members) > MAX_NODES:
            raise Refused(f"the kernel would have more than {MAX_NODES} operations")
        stored = [node for node in members if node in own and self._needed_outside(node, own)]
        iteration = analyse(members, set(stored), self.views)
        index = min(first.index, second.index)
        stamp = max(first.stamp, second.stamp) + 1
        others = ~(1 << first.index | 1 << second.index)
        before, after = (first.before | second.before) & others, (first.after | second.after) & others
        return Unit(index, members, stored, iteration, own, before, after, first.segment, stamp)

    def _between(self, first: Unit, second: Unit) -> Unit | None:
        """A unit on a path from `first` to `second`."""
        if not second.before >> first.index & 1:
            return None
        return next(self._living(second.before & first.after), None)

    def _name(self, unit: Unit) -> str:
        labels = [self.labels[node] for node in unit.members if node in unit.own]
        return " ".join(labels) if len(labels) <= 4 else f"{labels[0]} … {labels[-1]}"

    def _decide(self, first: Unit, second: Unit, fused: bool, reason: str) -> None:
        decision = FusionDecision(self._name(first), self._name(second), fused, reason)
        self.decisions.append((first.own, second.own, decision))

    def _lasting_decisions(self) -> list[FusionDecision]:
        """All fusions; of the refusals those whose sides stayed apart, the last one for each two kernels."""
        result: dict[object, FusionDecision] = {}
        for first, second, decision in self.decisions:
            sides = {self.unit_of[next(iter(first))], self.unit_of[next(iter(second))]}
            if decision.fused:
                result[first, second] = decision
            elif len(sides) == 2:
                result[frozenset(sides)] = decision
        return list(result.values())


def in_order(before: Mapping[Unit, set[Unit]]) -> list[Unit]:
    """Units in an order in which each comes after those it waits for; ties by position in the graph."""
    by_index = {unit.index: unit for unit in before}
    waiting = {unit: len(sources) for unit, sources in before.items()}
    readers: dict[Unit, list[Unit]] = {unit: [] for unit in before}
    for unit, sources in before.items():
        for source in sources:
            readers[source].append(unit)
    ready = [(unit.segment, unit.index) for unit, count in waiting.items() if not count]
    heapq.heapify(ready)
    order: list[Unit] = []
    while ready:
        unit = by_index[heapq.heappop(ready)[1]]
        order.append(unit)
        for reader in readers[unit]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (reader.segment, reader.index))
    assert len(order) == len(before), "fusion made a cycle"
    return order


def _writes_in_place(node: Node) -> bool:
    """Whether a call changes its arguments, so that nothing may move over it. Calls with another effect (random
    numbers) only keep their order among each other."""
    return bool(node.attrs.get("effect")) and bool(node.attrs["target"]._schema.is_mutable)


def _rooted(graph: Graph, views: Views) -> set[Node]:
    """Nodes that must be in memory: under outputs, written values, operands of extern calls, sources of gathers."""
    roots = [out.buffer if isinstance(out, BufferView) else out for out in graph.outputs]
    roots += [node for _, node in graph.writes]
    roots += [arg for node in graph.nodes if node.op == "extern" for arg in node.operands()]
    roots += [node.args[0] for node in graph.nodes if node.op == GATHER]
    return {views.base(node) for node in roots if isinstance(node, Node) and isinstance(node.type, TensorType)}


def _users(graph: Graph, views: Views) -> dict[Node, list[Node]]:
    """Node → the non-view nodes that read it, through views too."""
    users: dict[Node, list[Node]] = {node: [] for node in (*graph.inputs, *graph.nodes)}
    for node in graph.nodes:
        if node.op not in VIEWS and node.op != "getitem":
            for base in dict.fromkeys(views.base(arg) for arg in node.operands()):
                users[base].append(node)
    return users


def _chain(user: Node, base: Node) -> Iterator[Node]:
    """The views between a node and its reader."""
    for arg in user.operands():
        chain = []
        while arg.op in VIEWS:
            chain.append(arg)
            arg = arg.args[0]
        if arg is base:
            yield from chain


def _bytes(node: Node, hints: Mapping[str, int] | None = None) -> int:
    """Size in memory; 0 for what has none."""
    if not isinstance(node.type, TensorType) or node.op in CREATION:
        return 0
    return hint(node.tensor.numel, hints or {}) * int(node.tensor.dtype.itemsize)
