"""Matrix products in C++: the loops of cpp_prelude_products.h, with what becomes of the result as their last step.

In: a `Product` of one matrix each. Out: the text of its C++ function; or whether there is one.

The *epilogue*, a pointwise kernel that reads the product, is computed a block at a time, while the block is in L1 or
L2: row by row, by the printer of row kernels. Its own axes are digits of an address (see matmul_kernel.py); along a row
of the product each of them stands still or counts the columns, or there is no such text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from ..ir.symbols import dim_text, exact_quotient
from ..ir.types import Dim
from .cpp_blocks import block_function
from .cpp_rows import Part, RowPrinter
from .kernel_ir import Affine, Axis, Buffer, Kernel, Value
from .matmul_kernel import Product, Tile

BLOCK = Buffer("product", torch.float32, 0)
"""What holds a finished block; the function's own."""


def is_printable(kernel: Product) -> bool:
    """Whether this back end has a text for the product: of single matrices, whose factors lie as they are, along their
    rows or along their columns; and of an epilogue that goes along with the product's rows."""
    factors = (kernel.left, kernel.right)
    plain = kernel.sizes[0] == 1 and all(factor.is_plain and 1 in _strides(factor) for factor in factors)
    rows = _rows_of(kernel)
    return plain and rows is not None and all(_goes_along(rows, value) for value in kernel.result.kernel.body)


def _strides(factor: Tile) -> tuple[Dim, Dim]:
    """Of a factor's dimensions, down and across."""
    return factor.address.coefficient(factor.across[0]), factor.address.coefficient(factor.across[1])


@dataclass(frozen=True)
class _Rows:
    """How an epilogue's axes go along a row of the product.

    Attributes:
        terms: axis → its value, as terms over "n" and the row's variables.
        variables: those → their value at the row, as C++ text over m.
    """

    terms: Mapping[str, tuple[tuple[str, Dim], ...]]
    variables: Mapping[str, str]

    def place(self, index: Affine) -> Affine:
        """An index over the epilogue's axes, or over "m" and "n", as one over "m", "n" and the variables."""
        terms: dict[str, Dim] = {}
        for axis, coefficient in index.terms:
            for name, own in self.terms.get(axis, ((axis, 1),)):
                terms[name] = terms.get(name, 0) + coefficient * own
        return Affine(tuple(terms.items()), index.offset)


def _rows_of(kernel: Product) -> _Rows | None:
    """None where an axis is neither still along a row nor counts its columns."""
    _, m, n, _ = kernel.sizes
    terms: dict[str, tuple[tuple[str, Dim], ...]] = {}
    variables: dict[str, str] = {}
    for axis, (unit, size) in kernel.result.digits.items():
        rows = exact_quotient(unit, n)
        if size == 1:
            terms[axis] = ()
        elif rows is not None:
            terms[axis] = ((axis, 1),)
            variables[axis] = _digit(rows, size, m)
        elif unit == 1 and (rows := exact_quotient(size, n)) is not None:
            terms[axis] = (("n", 1),) if rows == 1 else ((axis, n), ("n", 1))
            if rows != 1:
                variables[axis] = _digit(1, rows, m)
        else:
            return None
    return _Rows(terms, variables)


def _digit(unit: Dim, size: Dim, rows: Dim) -> str:
    """m // unit % size, for m < rows."""
    quotient = "m" if unit == 1 else f"m / ({dim_text(unit, 'cpp')})"
    return quotient if unit * size == rows else f"{quotient} % ({dim_text(size, 'cpp')})"


def _goes_along(rows: _Rows, value: Value) -> bool:
    """Whether an instruction may stand in an epilogue: what it loads or stores lies along the product's rows, at places
    that are known before; and it calls no function of MKL, which starts threads of its own."""
    if value.op in ("load", "store"):
        direct = value.op == "store" or not value.args
        return direct and rows.place(value.attrs["index"]).coefficient("n") in (0, 1)
    return value.op == "product" or not (block_function(value) or "").endswith("_vml")


def _epilogue(kernel: Product, rows: _Rows) -> Kernel:
    """The product's last step over rows and columns, as a pointwise kernel that loads the product."""
    n = kernel.sizes[2]
    renamed: dict[Value, Value] = {}
    for value in kernel.result.kernel.body:
        attrs = dict(value.attrs)
        if isinstance(index := attrs.get("index"), Affine):
            attrs["index"] = rows.place(index)
        args = tuple(renamed[arg] for arg in value.args)
        if value.op == "product":
            attrs = {"buffer": BLOCK, "index": Affine((("n", 1),))}
            renamed[value] = replace(value, op="load", attrs=attrs)
        else:
            renamed[value] = replace(value, args=args, attrs=attrs)
    down = next(axis for axis in kernel.result.kernel.axes if axis.name == "m")
    return Kernel(
        kernel.name, (down, Axis("n", n, "parallel", n)), kernel.buffers, tuple(renamed.values()), kernel.symbols
    )


def _factor_text(factor: Tile, side: str, along: str) -> str:
    """Where a factor lies, and how far its rows (of a right one: its columns) and its terms are apart."""
    (load,) = factor.kernel.body
    dims = (factor.address.offset, factor.address.coefficient(side), factor.address.coefficient(along))
    offset, *steps = (dim_text(dim, "cpp") for dim in dims)
    return f"mc_Factor{{{load.attrs['buffer'].name} + {offset}, {', '.join(steps)}}}"


class ProductPrinter(RowPrinter):
    """See the module's docstring."""

    stores_past_caches = False  # a block's rows are a few lines each
    joins_loops = False

    def __init__(self, product: Product) -> None:
        rows = _rows_of(product)
        assert rows is not None, "is_printable says so"
        self.product, self.rows = product, rows
        super().__init__(_epilogue(product, rows))

    def body(self) -> None:
        _, m, n, k = self.product.sizes
        left, right = _factor_text(self.product.left, "m", "k"), _factor_text(self.product.right, "n", "j")
        place = "const int64_t row, const int64_t rows, const int64_t column, const int64_t columns"
        with self.out.closure("end", f"{place}, const float *block"):
            self._end()
        self.out.add(f"if (mc_product({dim_text(m, 'cpp')}, {n}, {k}, {left}, {right}, end)) return 1;")

    def _end(self) -> None:
        self.out.open("for (int64_t m = row; m < row + rows; ++m)")
        self.out.add(f"const float *const {BLOCK.name} = block + (m - row) * MC_BLOCK_WIDE - column;")
        self.out.add(*(f"const int64_t {name} = {text};" for name, text in self.rows.variables.items()))
        self._rows(0)
        loop = [value for values in self.stages.loops for value in values]
        self._runs(Part(self.inner[0], "column", "column + columns", 0, loop))
        self._rows(1)
        self.out.close()

    def fetch_ahead(self, axis: Axis, begin: str, end: str, k: int) -> None:
        """Nothing: what a block reads was not read in the order of memory before either."""
