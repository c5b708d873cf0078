"""Which matrix products become kernels of ours, with what stands around them.

In: the units of a plan with their kernels, and a policy. Out: the same, where a product that is better one kernel with
its neighbours is a unit with a `Product`; and a decision for each product, with the reason.

Candidates are the product with the pointwise kernel that reads it, and with those that make its factors, each in
several sizes of tiles. With mode="max-autotune" on a GPU (`Timed`) all are timed on the device against cuBLAS and the
kernels as they are. Where there is no device to time on (the interpreter; compiling for a GPU that is elsewhere), the
first candidate is taken. For the CPU see cpp_product_choice.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from ..ir.graph import Graph, Node
from ..ir.types import TensorType
from ..torch_compat import allows_tf32
from ..walks import reachable
from .batches import merged_before
from .compiled import FusionDecision
from .fusion import FusionPlan, Unit, in_order
from .iteration import Iteration
from .kernel_ir import HALF
from .lower_kernel import Lowered
from .matmul_kernel import Config, Product, is_product, may_join, merge
from .prepare import Views
from .triton_shape import power_of_two

PROCESSORS = 132
"""Of a large GPU: tiles are computed in waves of as many."""

AT_MOST = 6
"""Sizes of tiles to try."""

CONFIGS = (
    Config(128, 256, 64, 8, 3), Config(256, 128, 64, 8, 3), Config(128, 128, 64, 8, 3), Config(128, 128, 64, 4, 4),
    Config(128, 64, 64, 4, 4), Config(64, 128, 64, 4, 4), Config(64, 64, 64, 4, 4), Config(64, 32, 128, 4, 3),
    Config(32, 64, 128, 4, 3), Config(32, 32, 128, 4, 4), Config(16, 128, 128, 4, 3), Config(16, 64, 128, 4, 4),
    Config(16, 32, 128, 2, 4), Config(64, 16, 128, 4, 4), Config(16, 16, 128, 2, 4),
)  # fmt: skip
"""For half types; tiles of float32 have half as many terms."""


@dataclass(frozen=True)
class Candidate:
    """A way to compute a product with its neighbours: what runs, in order. `unit`: what it would add to the plan, in
    place of `instead`; None for the library's product and the kernels as they are."""

    steps: tuple[Lowered | Node, ...]
    unit: Unit | None = None
    instead: tuple[Unit, ...] = ()

    @property
    def low(self) -> Lowered:
        return next(step for step in self.steps if isinstance(step, Lowered) and isinstance(step.kernel, Product))


class Policy(Protocol):
    """What a processor says to products."""

    @property
    def joins_makers(self) -> bool:
        """Whether kernels that make a factor may be a part of the product."""
        ...

    @property
    def takes_symbols(self) -> bool:
        """Whether kernels may depend on sizes that are not known."""
        ...

    def computes(self, node: Node, hints: Mapping[str, int]) -> bool:
        """Whether this product may be a kernel of ours. `hints`: a value for each size symbol."""
        ...

    def configs(self, kernel: Product) -> Sequence[Config | None]:
        """The sizes of tiles to try; none for a kernel that cannot be printed."""
        ...

    def fastest(self, candidates: Sequence[Candidate], views: Views) -> tuple[int, str]:
        """The number of the candidate to take, and why. The first is the library's product."""
        ...


@dataclass(frozen=True)
class Timed:
    """A GPU's: for half types, and for float32 where that may be rounded to TF32, of known sizes. None: no device to
    time on."""

    device: torch.device | None
    joins_makers: bool = True
    takes_symbols: bool = False

    def computes(self, node: Node, hints: Mapping[str, int]) -> bool:
        known = all(isinstance(size, int) and size > 0 for size in node.tensor.shape)
        return known and (node.tensor.dtype in HALF or node.tensor.dtype == torch.float32 and allows_tf32())

    def configs(self, kernel: Product) -> Sequence[Config]:
        return configs(kernel)

    def fastest(self, candidates: Sequence[Candidate], views: Views) -> tuple[int, str]:
        from .matmul_times import fastest

        return fastest(candidates, views, self.device)


def choose_products(
    plan: FusionPlan, lowered: dict[Unit, Lowered], graph: Graph, views: Views, policy: Policy
) -> tuple[FusionPlan, dict[Unit, Lowered]]:
    """See the module's docstring."""
    return _Chooser(plan, dict(lowered), graph, views, policy).run()


def configs(kernel: Product) -> list[Config]:
    """The sizes of tiles to try, those that should waste least first."""
    z, m, n, k = kernel.sizes
    rows, columns, terms = (max(16, power_of_two(size)) for size in (m, n, k))
    wide = kernel.dtype == torch.float32
    found = {
        replace(c, terms=min(c.terms // 2 if wide else c.terms, terms))
        for c in CONFIGS if c.rows <= rows and c.columns <= columns
    }

    def waste(config: Config) -> tuple[float, int]:
        tiles = z * -(-m // config.rows) * -(-n // config.columns)
        tile = config.rows * config.columns * (1 + 32 / config.rows + 32 / config.columns)  # small tiles load more
        return -(-tiles // PROCESSORS) * tile, CONFIGS_ORDER[config.rows, config.columns, config.warps]

    return sorted(found, key=waste)[:AT_MOST]


CONFIGS_ORDER = {(config.rows, config.columns, config.warps): i for i, config in enumerate(CONFIGS)}


@dataclass
class _Chooser:
    plan: FusionPlan
    lowered: dict[Unit, Lowered]
    graph: Graph
    views: Views
    policy: Policy
    decisions: list[FusionDecision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.before = dict(self.plan.before)
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        roots = (node for node in self.graph.roots() if isinstance(node.type, TensorType))
        self.rooted = {self.views.base(node) for node in roots}

    def run(self) -> tuple[FusionPlan, dict[Unit, Lowered]]:
        for unit in self.plan.units:
            if unit.is_extern and is_product(unit.members[0]):
                if self.policy.computes(unit.members[0], self.graph.symbols):
                    self._choose(unit)
        units = in_order(self.before)
        plan = FusionPlan(units, [*self.plan.decisions, *self.decisions], self.plan.labels, self.before)
        return plan, {unit: self.lowered[unit] for unit in units if unit in self.lowered}

    def _choose(self, product: Unit) -> None:
        candidates = self._candidates(product)
        if len(candidates) == 1:
            return
        number, reason = self.policy.fastest(candidates, self.views)
        best = candidates[number]
        neighbours = [unit for unit in candidates[1].instead if unit is not product]
        names = ", ".join(self.lowered[unit].kernel.name for unit in neighbours)
        label = f"{self.plan.labels[product.members[0]]} ({product.members[0].attrs['target']})"
        self.decisions.append(FusionDecision(label, names or "nothing", best.unit is not None, reason))
        if best.unit is not None:
            self.before = merged_before(self.before, best.instead, best.unit)
            for unit in best.instead:
                self.lowered.pop(unit, None)
            self.lowered[best.unit] = best.low

    # --- candidates ---------------------------------------------------------------------------------------------

    def _candidates(self, product: Unit) -> list[Candidate]:
        """The first is the library's product; then those that join most."""
        node = product.members[0]
        readers = self._readers(node)
        after = next((e for e in readers if self._may_follow(product, e) and self._joined(product, {}, e)), None)
        makers = self._makers(product) if self.policy.joins_makers else {}
        whole = self._units(product, makers, after)
        found = [Candidate(tuple(self._step(unit) for unit in whole))]
        for before in [makers, {}] if makers else [{}]:
            low = self._joined(product, before, after)
            if low is None:
                continue
            rest = [self._step(unit) for unit in makers.values() if unit not in before.values()]
            instead = self._units(product, before, after)
            assert isinstance(low.kernel, Product)
            for config in self.policy.configs(low.kernel):
                configured = replace(low, kernel=replace(low.kernel, config=config))
                found.append(Candidate((*rest, configured), self._unit(configured, instead), tuple(instead)))
        return found

    def _joined(self, product: Unit, before: dict[int, Unit], after: Unit | None) -> Lowered | None:
        """The product and these neighbours as one kernel, if they can be one."""
        node = product.members[0]
        keeps = node in self.rooted or any(unit is not after for unit in self._readers(node))
        last = None if after is None else self.lowered[after]
        name = "kernel" if last is None else last.kernel.name
        name = f"{name}_{node.attrs['target']._schema.name.removeprefix('aten::')}_{product.index}"
        makers = {i: self.lowered[unit] for i, unit in before.items()}
        low = merge(name, node, self.views, makers, last, keeps, self.graph.symbols)
        return low if low is not None and self.policy.configs(low.kernel) else None  # type: ignore[arg-type]

    def _units(self, product: Unit, before: dict[int, Unit], after: Unit | None) -> list[Unit]:
        return [*before.values(), product, *([] if after is None else [after])]

    def _step(self, unit: Unit) -> Lowered | Node:
        return self.lowered.get(unit) or unit.members[0]

    def _unit(self, low: Lowered, instead: Sequence[Unit]) -> Unit:
        members = sorted({node for unit in instead for node in unit.members}, key=self.position.__getitem__)
        stored = [node for node, buffer in zip(low.nodes, low.kernel.buffers, strict=True) if buffer.output]
        own = frozenset().union(*(unit.own for unit in instead))
        index, segment = min(unit.index for unit in instead), instead[0].segment
        return Unit(index, members, stored, Iteration(), own, segment=segment)

    # --- neighbours ---------------------------------------------------------------------------------------------

    def _readers(self, node: Node) -> list[Unit]:
        return [unit for unit in self.before if node in self._read(unit)]

    def _read(self, unit: Unit) -> Iterator[Node]:
        """The nodes whose memory a unit reads."""
        if unit in self.lowered:
            low = self.lowered[unit]
            return (node for node, buffer in zip(low.nodes, low.kernel.buffers, strict=True) if not buffer.output)
        return (self.views.base(arg) for arg in unit.members[0].operands() if isinstance(arg.type, TensorType))

    def _may_follow(self, product: Unit, reader: Unit) -> bool:
        """Whether a unit is a kernel that may be the end of a product: nothing else stands between the two."""
        if reader not in self.lowered or reader.segment != product.segment:
            return False
        others = [unit for unit in self.before[reader] if unit is not product]
        return product not in reachable(others, self.before.__getitem__) and self._may_join(reader)

    def _may_join(self, unit: Unit) -> bool:
        kernel = self.lowered[unit].kernel
        return may_join(kernel) and (self.policy.takes_symbols or not kernel.symbols)

    def _makers(self, product: Unit) -> dict[int, Unit]:
        """Place of a factor → the kernel that makes it for this product alone, if the two can be one."""
        found: dict[int, Unit] = {}
        node = product.members[0]
        bases = [self.views.base(arg) for arg in node.args[-2:]]
        for place, base in enumerate(bases):
            unit = next((unit for unit in self.lowered if base in unit.stored), None)
            if unit is None or base in self.rooted or bases.count(base) > 1 or unit.segment != product.segment:
                continue
            alone = self._readers(base) == [product] and unit.stored == [base] and base not in node.args[:-2]
            if alone and self._may_join(unit) and self._joined(product, {place: unit}, None):
                found[place] = unit
        return found
