"""A matrix product with its neighbours → Triton.

In: a `Product`. Out: its `TritonText`.

A program computes a tile of the result: a loop over the terms multiplies tiles of the factors into float32, then the
epilogue runs on what the loop has summed. Each of the three is printed by the printer of pointwise kernels, as a tile
of two of the dimensions m, n, k, and j (k down a column). Lanes beyond the end hold zeros in the factors, and are not
stored. Programs take their tiles in groups of a few rows, so that the factors' tiles are found in the L2 cache."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .kernel_ir import Affine, Value
from .matmul_kernel import Config, Product, Tile
from .triton import Printer, TritonText
from .triton_shape import Shape
from .triton_text import TL_TYPES

GROUP = 8
"""Rows of tiles that are computed together."""

BLOCKS = {"m": "ROWS", "n": "COLUMNS", "k": "TERMS", "j": "TERMS"}


def print_product(kernel: Product) -> TritonText:
    """See the module's docstring."""
    config = tiles_of(kernel)
    blocks = {"ROWS": config.rows, "COLUMNS": config.columns, "TERMS": config.terms}
    z, m, n, _ = kernel.sizes
    grid = ((z, 1), (m, config.rows), (n, config.columns))
    shape = Shape("tile", blocks, grid, config.warps, stages=config.stages)
    arguments = [*(buffer.name for buffer in kernel.buffers), *(f"{block}: tl.constexpr" for block in blocks)]
    lines = ["@triton.jit", f"def {kernel.name}({', '.join(arguments)}):", *_Writer(kernel, shape).lines()]
    return TritonText(kernel, "\n".join(lines), shape)


def tiles_of(kernel: Product) -> Config:
    """What was chosen for a kernel that is to be printed."""
    assert kernel.config is not None, "matmul_choice.py has chosen"
    return kernel.config


class _Writer:
    def __init__(self, kernel: Product, shape: Shape) -> None:
        self.kernel = kernel
        self.wide = wide = "" if all(map(_fits_int32, kernel.tiles())) else ".to(tl.int64)"
        masks = self._masks()
        self.left = _TilePrinter(kernel.left, shape, masks, "        ", wide)
        self.right = _TilePrinter(kernel.right, shape, masks, "        ", wide)
        self.result = _TilePrinter(kernel.result, shape, masks, "    ", wide)

    def _masks(self) -> dict[str, str | None]:
        """Dimension → the name of its mask, None where blocks divide it."""
        _, m, n, k = self.kernel.sizes
        config = tiles_of(self.kernel)
        sizes = {"m": (m, config.rows), "n": (n, config.columns), "k": (k, config.terms), "j": (k, config.terms)}
        return {name: f"{name}mask" if size % block else None for name, (size, block) in sizes.items()}

    def lines(self) -> list[str]:
        _, _, _, terms = self.kernel.sizes
        precision = "tf32" if self.kernel.dtype == torch.float32 else "ieee"
        return [
            *self._head(),
            "    product = tl.zeros([ROWS, COLUMNS], tl.float32)",
            f"    for start in range(0, {terms}, TERMS):",
            *self._dimension("k", f"(start + tl.arange(0, TERMS)){self.wide}[None, :]", "        "),
            *self._dimension("j", f"(start + tl.arange(0, TERMS)){self.wide}[:, None]", "        "),
            *self.left.factor(self.kernel.dtype, "left"),
            *self.right.factor(self.kernel.dtype, "right"),
            f'        product = mc_dot(left, right, product, "{precision}")',
            *self.result.body(),
        ]

    def _head(self) -> list[str]:
        """Which tile of which matrix."""
        (batch, m, n, _), config = self.kernel.sizes, tiles_of(self.kernel)
        down, across = -(-m // config.rows), -(-n // config.columns)
        lines = ["    program = tl.program_id(0)"]
        if batch > 1:
            lines += [f"    z = (program // {down * across}){self.wide}", f"    program = program % {down * across}"]
        lines += [
            f"    group = program // {GROUP * across}",
            f"    height = tl.minimum({down} - group * {GROUP}, {GROUP})",
            f"    inside = program % {GROUP * across}",
            f"    row = (group * {GROUP} + inside % height) * ROWS",
            "    column = inside // height * COLUMNS",
        ]
        lines += self._dimension("m", f"(row + tl.arange(0, ROWS)){self.wide}[:, None]", "    ")
        return lines + self._dimension("n", f"(column + tl.arange(0, COLUMNS)){self.wide}[None, :]", "    ")

    def _dimension(self, name: str, text: str, indent: str) -> list[str]:
        """The dimension's indices, and its mask if it has one."""
        lines = [f"{indent}{name} = {text}"]
        mask = self.result.masks[name]
        if mask is not None:
            size = dict(zip("mnkj", (*self.kernel.sizes[1:], self.kernel.sizes[3]), strict=True))[name]
            lines.append(f"{indent}{mask} = {name} < {size}")
        return lines


class _TilePrinter(Printer):
    """Prints the body of one tile; its values are called by the tile's prefix and a number."""

    def __init__(self, tile: Tile, shape: Shape, masks: Mapping[str, str | None], indent: str, wide: str) -> None:
        super().__init__(tile.kernel, shape)
        self.tile, self.across, self.indent = tile, tile.across, indent
        self.masks = dict(masks)
        self.index = "tl.int64" if wide else "tl.int32"
        self.walks: dict[str, str] = {"z": "", **{name: name for name in tile.across}}

    def factor(self, dtype: torch.dtype, name: str) -> list[str]:
        """The lines that compute a factor's tile as `name`, zeros where there are no more terms. A tile that lies in
        memory is loaded as it is: so Triton loads it ahead, straight into shared memory."""
        result, is_whole = self.tile.result, self._walked(self.tile.address) == self.across
        assert result is not None
        if self.tile.is_plain and is_whole:
            return [f"{self.indent}{name} = {self._loaded(result, ())}"]
        body, text = self.body(), self._name(result)
        mask = self._mask(self.across.replace("m", "").replace("n", ""))
        if mask is not None:
            text = f"tl.where({mask}, {text}, 0.0)"
        shape = ", ".join(BLOCKS[dimension] for dimension in self.across)
        return [*body, f"{self.indent}{name} = tl.broadcast_to({text}, [{shape}]).to({TL_TYPES[dtype]})"]

    def body(self) -> list[str]:
        for axis, (unit, size) in self.tile.digits.items():
            text, self.walks[axis] = self._digit(unit, size)
            self._line(f"{axis} = {text}")
        for value in self.kernel.body:
            if value.op == "product":
                self._line(f"{self._name(value)} = product")
            else:
                self._emit(value)
        return self.lines

    def _digit(self, unit: int, size: int) -> tuple[str, str]:
        """address // unit % size, and the dimensions that it varies along: one, where the others neither reach that
        digit nor carry into it."""
        sizes, address = self.tile.sizes, self.tile.address
        if size == 1:
            return "0", ""
        for name, stride in address.terms:
            others = [(s, sizes[other]) for other, s in address.terms if other != name]
            below = int(address.offset) + sum(s * (n - 1) for s, n in others if s < stride)
            above = all(s % (unit * size) == 0 for s, _ in others if s >= stride)
            if unit % stride == 0 and below < stride and above:
                text = name if unit == stride else f"{name} // {unit // stride}"
                is_last = stride * sizes[name] <= unit * size
                return (text if is_last else f"{text} % {size}"), self.walks[name]
        text = f"({address.text()} + {self._zeros(self.across)})"
        last = int(address.offset) + sum(stride * (sizes[name] - 1) for name, stride in address.terms)
        divided = text if unit == 1 else f"{text} // {unit}"
        return (divided if last < unit * size else f"{divided} % {size}"), self.across

    def _name(self, value: Value) -> str:
        return f"{self.tile.prefix}{self.number[value]}"

    def _walked(self, index: Affine) -> str:
        found = {dimension for name, _ in index.terms for dimension in self.walks[name]}
        return "".join(dimension for dimension in self.across if dimension in found)


def _fits_int32(tile: Tile) -> bool:
    """Whether every address is below 2³¹."""
    sizes = {axis.name: axis.hint for axis in tile.kernel.axes}
    reach = [tile.address, *(v.attrs["index"] for v in tile.kernel.body if isinstance(v.attrs.get("index"), Affine))]
    bounds = (int(index.offset) + sum(abs(int(c)) * sizes[name] for name, c in index.terms) for index in reach)
    return all(bound < 2**31 - 2**20 for bound in bounds)
