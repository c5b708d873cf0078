"""A matrix product as one kernel with what stands before and after it, as data.

In: an extern call of a product, and the pointwise kernels that make its factors and read its result.
Out: `Product`, a `Kernel`; or None where they do not fit together.

A kernel's own axes do not count rows and columns. They are found from addresses: what stood in memory between the two
is a matrix whose element (z, m, n) has an affine address, and a kernel that walks each of its elements once reads an
address' digits, in a mixed base, as its axes. So the body of a pointwise kernel becomes a part of the product as it is;
only its load of the product is the accumulator instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.ops import POINTWISE
from ..ir.symbols import hint
from ..ir.types import Dim
from .kernel_ir import Affine, Axis, Batch, Buffer, Kernel, Value, register_dtype, symbols_of
from .lower_kernel import Lowered
from .prepare import Views
from .told_where import writes_where_told

_aten = torch.ops.aten
FIRST_FACTOR = {_aten.mm.default: 0, _aten.bmm.default: 0, _aten.addmm.default: 1, _aten.baddbmm.default: 1}
"""Operators → the place of the first factor among the arguments; one before it is added."""

PROLOGUE_COST = 24
"""Instructions for an element of a factor, at most: they are done again for every tile of the result."""

AT_MOST_BUFFERS = 64


@dataclass(frozen=True)
class Config:
    """Rows, columns and terms of a tile; warps of a program; stages of the pipeline that loads the factors."""

    rows: int
    columns: int
    terms: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows}×{self.columns}×{self.terms}, {self.warps} warps, {self.stages} stages"


@dataclass(frozen=True)
class Tile:
    """The elements of one matrix, by dimensions: "z" (the batch), and two of "m", "n", "k", "j" (k once more).

    Attributes:
        kernel: the body; its axes are the dimensions and the digits; `result` is what it computes (None: it stores).
        prefix: of the names of values and digits.
        across: the two dimensions, down and across.
        address: where the element lies in the memory that stood between; `digits`: axis → (unit, size), so that the
            axis is address // unit % size.
    """

    kernel: Kernel
    prefix: str
    across: str
    address: Affine
    digits: Mapping[str, tuple[Dim, Dim]]
    result: Value | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a matrix in memory."""
        return len(self.kernel.body) == 1 and not self.digits

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions."""
        return {axis.name: axis.hint for axis in self.kernel.axes if axis.name not in self.digits}


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Kernel):
    """result[z, m, n] = Σ_k left[z, m, k] · right[z, k, n], and what becomes of it.

    `sizes`: of z, m, n, k; m may be symbolic. `dtype`: of the factors; sums are float32. `config`: None where there is
    one size of tiles.
    """

    sizes: tuple[int, Dim, int, int]
    dtype: torch.dtype
    left: Tile
    right: Tile
    result: Tile
    config: Config | None

    def tiles(self) -> tuple[Tile, Tile, Tile]:
        return self.left, self.right, self.result

    def __str__(self) -> str:
        z, m, n, k = self.sizes
        tiles = f" in tiles of {self.config}" if self.config else ""
        parts = [f"product {self.name}: {z} × ({m} × {k}) · ({k} × {n}){tiles}"]
        for name, tile in (("left", self.left), ("right", self.right), ("result", self.result)):
            parts.append(f"{name}[{tile.address.text()}] is {Kernel.__str__(tile.kernel)}")
        return "\n".join(parts)


def is_product(node: Node) -> bool:
    """Whether a node is a product of matrices, of which only a single left factor's rows are not known."""
    first = FIRST_FACTOR.get(node.attrs.get("target")) if node.op == "extern" else None
    if first is None or not writes_where_told(node):
        return False
    if len(node.args) != first + 2:
        return False
    left, right = (arg.tensor.shape for arg in node.args[-2:])
    known = (*left[-1:], *right) if len(right) == 2 else (*left, *right)
    return all(isinstance(size, int) and size > 0 for size in known) and left[-2] != 0


def merge(
    name: str, node: Node, views: Views, before: Mapping[int, Lowered], after: Lowered | None, keeps: bool,
    hints: Mapping[str, int] | None = None,
) -> Lowered | None:
    """The product and its neighbours as one kernel, with a configuration that is still to be chosen.

    Args:
        node: the extern call.
        before: place of a factor (0, 1) → the kernel that makes it.
        after: the kernel that reads the result.
        keeps: whether the result itself must be stored.
        hints: a value for each size symbol.
    Returns None where the kernels cannot be a part of it.
    """
    merger = _Merger(name, node, views, keeps or after is None, hints or {})
    try:
        return merger.run(before, after)
    except _Misfit:
        return None


class _Misfit(Exception):
    """A kernel that cannot be a part of a product."""


class _Merger:
    def __init__(self, name: str, node: Node, views: Views, keeps: bool, hints: Mapping[str, int]) -> None:
        self.name, self.node, self.views, self.keeps, self.hints = name, node, views, keeps, hints
        self.first = FIRST_FACTOR[node.attrs["target"]]
        left, right = node.args[self.first : self.first + 2]
        self.z: int = node.tensor.shape[0] if node.tensor.rank == 3 else 1
        self.m, self.n, self.k = node.tensor.shape[-2], node.tensor.shape[-1], left.tensor.shape[-1]
        self.buffers: dict[tuple[Node, bool], Buffer] = {}
        self.factors = (left, right)

    def run(self, before: Mapping[int, Lowered], after: Lowered | None) -> Lowered:
        tiles = [self._factor(i, across, before.get(i)) for i, across in enumerate(("mk", "jn"))]
        result = self._result(after)
        order = sorted(self.buffers, key=lambda key: key[1])
        if len(order) > AT_MOST_BUFFERS:
            raise _Misfit
        parts = [tile.kernel for tile in (*tiles, result)]
        body = tuple(value for part in parts for value in part.body)
        symbols = symbols_of(tuple(axis for part in parts for axis in part.axes), body)
        buffers, sizes = tuple(self.buffers[key] for key in order), (self.z, self.m, self.n, self.k)
        kernel = Product(
            self.name, (), buffers, body, symbols, sizes=sizes,
            dtype=self.node.tensor.dtype, left=tiles[0], right=tiles[1], result=result, config=None,
        )  # fmt: skip
        return Lowered(kernel, tuple(node for node, _ in order))

    # --- the factors --------------------------------------------------------------------------------------------

    def _factor(self, place: int, across: str, made_by: Lowered | None) -> Tile:
        factor = self.factors[place]
        base, address = self._address(factor, across)
        prefix = "ab"[place]
        if made_by is None:
            value = self._load(base, address)
            return self._tile(prefix, across, address, {}, (), (value,), value)
        kernel = made_by.kernel
        stores = list(kernel.stores())
        if len(stores) != 1 or _cost(kernel) > PROLOGUE_COST:
            raise _Misfit
        digits = _digits(kernel, stores[0].attrs["index"], base.tensor.numel)
        body, renamed = self._moved(made_by, {}, prefix)
        return self._tile(prefix, across, address, digits, kernel.axes, body, renamed[stores[0].args[0]])

    def _address(self, node: Node, across: str) -> tuple[Node, Affine]:
        """The node under a matrix (or what is broadcast to one), and where an element of it lies."""
        base, view = self.views.of(node)
        strides = view.strides
        if strides is None:
            raise _Misfit
        pairs = zip(reversed(("z", *across)), reversed(strides), reversed(node.tensor.shape), strict=False)
        terms = tuple((name, stride) for name, stride, size in pairs if size != 1 and stride != 0)
        return base, Affine(tuple(reversed(terms)), view.offset)

    def _load(self, base: Node, address: Affine) -> Value:
        dtype = register_dtype(base.tensor.dtype)
        return Value("load", (), dtype, {"buffer": self._buffer(base, False), "index": address}, self.node.origin)

    # --- the result ---------------------------------------------------------------------------------------------

    def _result(self, after: Lowered | None) -> Tile:
        address = Affine((("z", self.m * self.n), ("m", self.n), ("n", 1)) if self.z > 1 else (("m", self.n), ("n", 1)))
        product = Value("product", (), torch.float32, {}, self.node.origin)
        body = [product]
        if self.first:
            base, where = self._address(self.node.args[0], "mn")
            body.append(self._load(base, where))
            product = Value("add", (product, body[-1]), torch.float32, {}, self.node.origin)
            body.append(product)
        if self.keeps:
            stored = {"buffer": self._buffer(self.node, True), "index": address, "block": False}
            body.append(Value("store", (product,), self.node.tensor.dtype, stored, self.node.origin))
        if after is None:
            return self._tile("v", "mn", address, {}, (), body, None)
        kernel = after.kernel
        reads = [kernel.buffers[i] for i, node in enumerate(after.nodes) if node is self.node]
        loads = [value for value in kernel.body if value.op == "load" and value.attrs["buffer"] in reads]
        if len(loads) != 1 or loads[0].args:
            raise _Misfit
        digits = _digits(kernel, loads[0].attrs["index"], self.z * self.m * self.n)
        moved, _ = self._moved(after, {loads[0]: product}, "v")
        return self._tile("v", "mn", address, digits, kernel.axes, (*body, *moved), None)

    # --- both ---------------------------------------------------------------------------------------------------

    def _tile(
        self, prefix: str, across: str, address: Affine, digits: Mapping[str, tuple[int, int]], axes: Sequence[Axis],
        body: Iterable[Value], result: Value | None,
    ) -> Tile:
        sizes = {"z": self.z, "m": self.m, "n": self.n, "k": self.k, "j": self.k}
        dimensions = tuple(Axis(name, sizes[name], "parallel", self._hint(sizes[name])) for name in ("z", *across))
        own = tuple(replace(axis, name=f"{prefix}_{axis.name}") for axis in axes)
        kernel = Kernel(self.name, (*dimensions, *own), (), tuple(body), ())
        return Tile(kernel, prefix, across, address, {f"{prefix}_{axis}": d for axis, d in digits.items()}, result)

    def _hint(self, size: Dim) -> int:
        return hint(size, self.hints)

    def _buffer(self, node: Node, output: bool) -> Buffer:
        key = (node, output)
        if key not in self.buffers:
            name = f"{'out' if output else 'in'}{sum(is_output == output for _, is_output in self.buffers)}"
            self.buffers[key] = Buffer(name, node.tensor.dtype, node.tensor.numel, output)
        return self.buffers[key]

    def _moved(
        self, low: Lowered, given: dict[Value, Value], prefix: str
    ) -> tuple[list[Value], dict[Value, Value]]:
        """A kernel's body over the product's buffers, without the stores of a factor; and old value → new."""
        nodes = {buffer: node for buffer, node in zip(low.kernel.buffers, low.nodes, strict=True)}
        renamed, body = dict(given), []
        for value in low.kernel.body:
            if value in given or not given and value.op == "store":
                continue
            attrs = dict(value.attrs)
            if "buffer" in attrs:
                attrs["buffer"] = self._buffer(nodes[attrs["buffer"]], value.op == "store")
            if isinstance(index := attrs.get("index"), Affine):
                attrs["index"] = replace(index, terms=tuple((f"{prefix}_{name}", c) for name, c in index.terms))
            renamed[value] = replace(value, args=tuple(renamed[arg] for arg in value.args), attrs=attrs)
            body.append(renamed[value])
        return body, renamed


def may_join(kernel: Kernel) -> bool:
    """Whether a kernel is such that it can be a part of a product: pointwise, and reading only at places that follow
    from its axes."""
    if isinstance(kernel, (Batch, Product)) or kernel.is_reduction or kernel.may_fail or kernel.in_place:
        return False
    loads = (value for value in kernel.body if value.op == "load")
    return not any(value.attrs.get("strides") for value in loads)


def _digits(kernel: Kernel, index: Affine, numel: Any) -> dict[str, tuple[Dim, Dim]]:
    """Axis → (unit, size), where each address of a memory of `numel` elements is walked once. Raises _Misfit."""
    axes = {axis.name: axis.size for axis in kernel.axes if axis.size != 1}
    if index.offset != 0 or {name for name, _ in index.terms} - {axis.name for axis in kernel.axes}:
        raise _Misfit
    left = {name: coefficient for name, coefficient in index.terms if name in axes}
    digits: dict[str, tuple[Dim, Dim]] = {}
    unit: Dim = 1
    while left:
        name = next((name for name, coefficient in left.items() if coefficient == unit), None)
        if name is None:
            raise _Misfit
        digits[name] = (left.pop(name), axes[name])
        unit = unit * axes[name]
    if digits.keys() != axes.keys() or unit != numel:
        raise _Misfit
    return {**{axis.name: (1, 1) for axis in kernel.axes if axis.size == 1}, **digits}


def _cost(kernel: Kernel) -> int:
    return sum(POINTWISE[value.op].cost if value.op in POINTWISE else 1 for value in kernel.body)
