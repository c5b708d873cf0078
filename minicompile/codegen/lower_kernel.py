"""From a fusion group to a kernel: atoms become axes, nodes become SSA, views become affine indices.

In: the group's nodes, which of them are stored, and their `Iteration`.
Out: `Lowered`: the `Kernel`, and the nodes whose memory its buffers are, in the order of the buffers.

Axes are ordered by the strides of what is stored (parallel) or loaded (reduce), and neighbouring atoms that every
access walks with one stride are merged, so a pointwise kernel over contiguous tensors has one axis whatever its
shapes were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.ops import CREATION, GATHER, POINTWISE, REDUCTIONS, SCANS
from ..ir.symbols import hint
from ..ir.types import Dim
from .axes import AxisSpace, Dims
from .index_math import added, affine_of, folded, scaled
from .iteration import Iteration, Load
from .kernel_ir import Affine, Axis, Buffer, Kernel, Value, register_dtype, symbols_of
from .prepare import storage_strides

Access = dict[int, Dim]  # atom → coefficient


@dataclass(frozen=True)
class Lowered:
    """A kernel and the nodes its buffers hold, inputs first, in the order of `kernel.buffers`."""

    kernel: Kernel
    nodes: tuple[Node, ...]


def lower_kernel(
    name: str,
    members: Sequence[Node],
    stored: AbstractSet[Node],
    iteration: Iteration,
    hints: Mapping[str, int],
    exact: bool = False,
) -> Lowered:
    """Build the kernel. `hints`: a value for each size symbol, used for ordering axes only. `exact`: every value of a
    half type is rounded where it is made, as eager does, and not only where it is stored."""
    return _Lowering(name, members, stored, iteration, dict(hints), exact).run()


class _Lowering:
    def __init__(
        self,
        name: str,
        members: Sequence[Node],
        stored: AbstractSet[Node],
        it: Iteration,
        hints: dict[str, int],
        exact: bool,
    ) -> None:
        self.exact = exact
        self.name, self.members, self.it, self.hints = name, members, it, hints
        self.stored = [node for node in members if node in stored]
        self.loads = {key: _load_access(it.space, load) for key, load in it.loads.items()}
        self.stores = {node: _access(it.space, it.dims[node], storage_strides(node)) for node in self.stored}
        self.values: dict[Any, Value] = {}
        self.body: list[Value] = []
        self.buffers: dict[tuple[Node, bool], Buffer] = {}
        self.axes, self.inner = self._make_axes()

    def run(self) -> Lowered:
        for node in self.members:
            self._node(node)
            if node in self.stores:
                self._store(node)
        body = needed(self.body)
        order = sorted(self.buffers, key=lambda key: key[1])
        kernel = Kernel(
            self.name, self.axes, tuple(self.buffers[key] for key in order), body, symbols_of(self.axes, body)
        )
        return Lowered(kernel, tuple(node for node, _ in order))

    # --- axes ---------------------------------------------------------------------------------------------------

    def _make_axes(self) -> tuple[tuple[Axis, ...], dict[int, str]]:
        """The axes, and for the innermost atom of each its name."""
        axes: list[Axis] = []
        inner: dict[int, str] = {}
        stores, loads = list(self.stores.values()), list(self.loads.values())
        for kind, atoms, references in (
            ("parallel", self.it.parallel, stores + loads), ("reduce", self.it.reduce, loads + stores)
        ):
            for run in self._merged(self._ordered(atoms, references), stores + loads):
                name = f"{kind[0]}{len([axis for axis in axes if axis.kind == kind])}"
                size: Dim = 1
                for atom in run:
                    size = size * self.it.space.sizes[atom]
                axes.append(Axis(name, size, kind, self._hint(size)))
                inner[run[-1]] = name
        return tuple(axes), inner

    def _hint(self, dim: Dim) -> int:
        return hint(dim, self.hints)

    def _ordered(self, atoms: frozenset[int], references: list[Access]) -> list[int]:
        """Outermost first, by the strides of the first access that covers most atoms."""
        if not references:
            return sorted(atoms)
        best = max(references, key=lambda access: sum(access.get(atom, 0) != 0 for atom in atoms))
        return sorted(atoms, key=lambda atom: (-abs(self._hint(best.get(atom, 1 << 60))), atom))

    def _merged(self, atoms: list[int], accesses: list[Access]) -> list[list[int]]:
        runs: list[list[int]] = []
        for atom in atoms:
            if runs and all(
                equal(a.get(runs[-1][-1], 0), a.get(atom, 0) * self.it.space.sizes[atom]) for a in accesses
            ):
                runs[-1].append(atom)
            else:
                runs.append([atom])
        return runs

    def _affine(self, access: Access, offset: Dim = 0) -> Affine:
        names = [(self.inner[atom], c) for atom, c in access.items() if atom in self.inner and c != 0]
        order = {axis.name: i for i, axis in enumerate(self.axes)}
        return Affine(tuple(sorted(names, key=lambda term: order[term[0]])), offset)

    # --- instructions -------------------------------------------------------------------------------------------

    def _emit(
        self, op: str, args: tuple[Value, ...], register: torch.dtype, node: Node, /, **attrs: Any
    ) -> Value:
        """Append an instruction, or find the equal one already there (a store is never equal to another)."""
        key = (op, args, register, tuple(sorted((k, _key(v)) for k, v in attrs.items())))
        value = self.values.get(key)
        if value is None:
            value = self.values[key] = Value(op, args, register, attrs, node.origin)
            self.body.append(value)
        return value

    def _buffer(self, node: Node, output: bool) -> Buffer:
        key = (node, output)
        if key not in self.buffers:
            count = sum(is_output == output for _, is_output in self.buffers)
            name = f"{'out' if output else 'in'}{count}"
            self.buffers[key] = Buffer(name, node.tensor.dtype, node.tensor.numel, output)
        return self.buffers[key]

    def _node(self, node: Node) -> None:
        dtype = register_dtype(node.tensor.dtype)
        args = tuple(self._argument(node, arg) for arg in node.args[node.op == GATHER :])
        if node.op in REDUCTIONS or node.op in SCANS:
            what = "reduce" if node.op in REDUCTIONS else "scan"
            half = {"half": True} if what == "scan" and node.tensor.dtype != dtype else {}
            value = self._emit(what, args, dtype, node, kind=node.op, **half) if self.it.reduce else args[0]
            value = self._rounded(value, node)
        elif node.op == GATHER:
            value = self._gather(node, args)
        elif node.op == "cast":
            value = self._cast(args[0], node, node.args[0].tensor.dtype)
        else:
            index = folded(node.op, args) if dtype == torch.int64 else None
            if index is None:
                value = self._emit(node.op, args, dtype, node)
            else:
                value = self._emit("index", (), dtype, node, index=index)
            value = self._rounded(value, node) if self.exact else value
        self.values[node] = value

    def _rounded(self, value: Value, node: Node) -> Value:
        """The value as its half type holds it."""
        if value.dtype == node.tensor.dtype:
            return value
        return self._emit("cast", (value,), value.dtype, node, dtype=node.tensor.dtype)

    def _gather(self, node: Node, args: tuple[Value, ...]) -> Value:
        """A load; indices that are affine join its own index."""
        load = self.it.loads[node, node]
        assert load.indexed is not None
        index = self._affine(self.loads[node, node], load.view.offset)
        rest: list[tuple[Value, Dim]] = []
        sizes = (node.args[0].tensor.shape[dim] for dim in node.attrs["dims"])
        for arg, stride, size in zip(args, load.indexed, sizes, strict=False):
            if node.attrs["checked"]:
                wrap = node.attrs["checked"] == "wrap"
                arg = self._emit("check", (arg,), torch.int64, node, dim=size, wrap=wrap)
            affine = affine_of(arg)
            if affine is None:
                rest.append((arg, stride))
            else:
                index = added(index, scaled(affine, stride))
        operands = (*(arg for arg, _ in rest), *args[len(load.indexed) :])
        return self._emit(
            "load", operands, register_dtype(node.tensor.dtype), node, buffer=self._buffer(load.base, False),
            index=index, strides=tuple(stride for _, stride in rest), masked=node.attrs["masked"],
        )

    def _cast(self, value: Value, node: Node, source: torch.dtype) -> Value:
        """A cast that changes nothing is no instruction: an identity cast, or from a half type to its register."""
        target = node.tensor.dtype
        if source == target or (target == value.dtype and register_dtype(source) == target):
            return value
        return self._emit("cast", (value,), register_dtype(target), node, dtype=target)

    def _argument(self, node: Node, arg: Any) -> Value:
        if isinstance(arg, Node):
            return self._tensor(node, arg)
        dtype = register_dtype(_operand_dtype(node))
        if isinstance(arg, (bool, int, float)):
            return self._emit("const", (), dtype, node, value=_in_dtype(arg, dtype))
        exact = torch.int64 if arg.is_integer else torch.float64
        size = self._emit("size", (), exact, node, dim=arg)
        return size if dtype == exact else self._emit("cast", (size,), dtype, node, dtype=dtype)

    def _tensor(self, node: Node, arg: Node) -> Value:
        load = self.it.loads.get((node, arg))
        if load is None:
            while arg not in self.values:
                arg = arg.args[0]
            return self.values[arg]
        dtype = register_dtype(load.base.tensor.dtype)
        if load.base.op == "full":
            return self._argument(load.base, load.base.args[0])
        index = self._affine(self.loads[node, arg], load.view.offset)
        if load.base.op == "iota":
            position = self._emit("index", (), torch.int64, node, index=index)
            return position if dtype == torch.int64 else self._emit("cast", (position,), dtype, node, dtype=dtype)
        return self._emit("load", (), dtype, node, buffer=self._buffer(load.base, False), index=index)

    def _store(self, node: Node) -> None:
        block = bool(self.it.reduce & set(self.it.atoms_of(self.it.dims[node])))
        self._emit(
            "store", (self.values[node],), node.tensor.dtype, node,
            buffer=self._buffer(node, True), index=self._affine(self.stores[node]), block=block,
        )


def needed(body: Sequence[Value]) -> tuple[Value, ...]:
    """The instructions that a store needs: indices that were folded into others are not."""
    found: set[Value] = set()
    for value in reversed(body):
        if value.op == "store" or value in found:
            found.add(value)
            found.update(value.args)
    return tuple(value for value in body if value in found)


def _access(space: AxisSpace, dims: Dims, strides: Sequence[Dim]) -> Access:
    access: Access = {}
    for atoms, stride in zip(dims, strides, strict=True):
        for atom, coefficient in space.coefficients(atoms, stride):
            access[atom] = access.get(atom, 0) + coefficient
    return access


def _load_access(space: AxisSpace, load: Load) -> Access:
    flat = [factor for dim in load.dims for factor in dim]
    return _access(space, tuple(atoms for atoms, _ in flat), [stride for _, stride in flat])


def equal(one: Dim, other: Dim) -> bool:
    """Equality of dimensions for every value of the symbols."""
    if one == other:
        return True
    if isinstance(one, int) and isinstance(other, int):
        return False
    import sympy

    return bool(sympy.expand(one - other) == 0)


def _operand_dtype(node: Node) -> torch.dtype:
    """The dtype that Python scalars among the arguments take."""
    tensors = node.operands()
    if node.op == "where" or node.op in CREATION or not tensors or node.op not in POINTWISE:
        return node.tensor.dtype
    return tensors[0].tensor.dtype


def _in_dtype(value: bool | int | float, dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return bool(value)
    return float(value) if dtype.is_floating_point else int(value)


def _key(value: Any) -> Any:
    """A dictionary key that keeps -0.0 from 0.0, NaN equal to itself and 1 from True."""
    return (type(value).__name__, repr(value)) if isinstance(value, (bool, int, float)) else value
