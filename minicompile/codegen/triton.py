"""Kernel IR → Triton.

In: a `Kernel`. Out: `TritonText`: the source of one `@triton.jit` function and its shape (see triton_shape.py).

A block of a row kernel is XBLOCK rows by the lanes of a piece. Instructions at row level are printed once, those at
block level once for each piece; a reduction joins the pieces, then the lanes. A row that is walked by a loop is
printed by triton_loops.py. Lanes beyond the end are masked, and hold the reduction's identity. Indices are 32-bit where
every offset is known to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..ir.ops import REDUCTIONS, SCANS
from ..ir.symbols import dim_text, is_float_symbol
from ..walks import reachable
from .kernel_ir import Affine, Axis, Batch, Kernel, Value, place_text, register_dtype
from .matmul_kernel import Product
from .softmaxes import maximum_below, sums_to_one_or_more
from .stages import row_stages
from .triton_shape import Piece, Shape, shape_of
from .triton_text import COMBINE, TL_TYPES, cast_text, constant, operation, scalar

HEAD = """\
import triton
import triton.language as tl
from minicompile.codegen.triton_prelude import *
from minicompile.codegen.triton_special import *
"""


OF_ROW = "_row"
"""Suffix of the axes of a program's one row, as scalars."""

FIRST = 8
"""Loads that come before all else, at most: what they give takes registers."""


@dataclass(frozen=True)
class TritonText:
    """Source and shape of one kernel."""

    kernel: Kernel
    source: str
    shape: Shape


def print_triton(kernel: Kernel, shape: Shape | None = None) -> TritonText:
    """The kernel as a Triton function. Its last arguments are the block sizes."""
    from .triton_batch import print_batch
    from .triton_loops import LoopPrinter
    from .triton_matmul import print_product

    if isinstance(kernel, Batch):
        return print_batch(kernel)
    if isinstance(kernel, Product):
        return print_product(kernel)
    shape = shape_of(kernel) if shape is None else shape
    printer = LoopPrinter if shape.kind == "rows" and not shape.pieces else Printer
    return printer(kernel, shape).text()


def fits_int32(kernel: Kernel) -> bool:
    """Whether every offset, masked lanes included, is known to be below 2³¹."""
    sizes = {axis.name: axis.size for axis in kernel.axes}
    if not all(isinstance(size, int) for size in sizes.values()):
        return False
    bounds = [kernel.size("parallel"), kernel.size("reduce")]
    for value in kernel.body:
        index = value.attrs.get("index")
        if isinstance(index, Affine):
            bounds.append(index.offset + sum(c * sizes[name] for name, c in index.terms))
        if value.args and value.op == "load":
            bounds.append(value.attrs["buffer"].numel)
    return all(isinstance(bound, int) and abs(bound) < 2**31 - 2**20 for bound in bounds)


def divisors(kernel: Kernel, block: frozenset[Value]) -> set[Value]:
    """Row-level sums by which whole rows of float32 are divided: their reciprocal is taken once a row. (The rounding
    of a product with it is within that of the sum. What is no sum is divided exactly: x / x.amax() holds a 1.)"""
    from_sum: set[Value] = set()
    for value in kernel.body:
        own = value.op == "reduce" and value.attrs["kind"] == "sum"
        if value not in block and (own or value.op != "reduce" and any(arg in from_sum for arg in value.args)):
            from_sum.add(value)
    found = {v.args[1] for v in kernel.body if v.op == "div" and v in block and v.dtype == torch.float32}
    return found & from_sum


def _of_row(index: Affine) -> str:
    """The index as text over scalars."""
    return Affine(tuple((name + OF_ROW, c) for name, c in index.terms), index.offset).text()


class Printer:
    """Pointwise kernels, and reductions whose rows stay in registers."""

    across = "yx"
    """The dimensions of a tile."""

    def __init__(self, kernel: Kernel, shape: Shape) -> None:
        self.kernel, self.shape = kernel, shape
        self.number = {value: i for i, value in enumerate(kernel.body)}
        self.parallel, self.reduce = kernel.of_kind("parallel"), kernel.of_kind("reduce")
        self.rank = 1 if shape.kind == "flat" else 2
        self.stages = row_stages(kernel)
        self.block = self.stages.block if kernel.is_reduction else frozenset()
        self.divisors = divisors(kernel, self.block)
        self.index = "tl.int32" if fits_int32(kernel) else "tl.int64"
        self.masks: dict[str, str | None] = {}  # "x", "y", "r" → the name of that dimension's mask, if it has one
        self.suffix = ""  # of block-level names: the piece
        self.lanes = ""  # of a block, before they are skewed
        self.piece: Piece | None = None
        self.before = False  # whether lanes may lie before the row: they are read, and not stored
        self.reading = 0  # how often pieces have been walked
        self.lines: list[str] = []
        self.indent = "    "

    def text(self) -> TritonText:
        kernel = self.kernel
        arguments = [*self._arguments(), *(f"{block}: tl.constexpr" for block in self.shape.blocks)]
        for name in filter(is_float_symbol, kernel.symbols):  # it comes as the bits of its double
            self._line(f"{name} = {name}.to(tl.int64).to(tl.float64, bitcast=True)")
        self._tile_head() if self.shape.kind == "tile" else self._rows_head()
        self._body()
        source = "\n".join(["@triton.jit", f"def {kernel.name}({', '.join(arguments)}):", *self.lines])
        return TritonText(kernel, source, self.shape)

    def _arguments(self) -> list[str]:
        return [*(buffer.name for buffer in self.kernel.buffers), *self.kernel.symbols]

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def _body(self) -> None:
        """Block-level values wait until a reduction needs them, then are printed piece by piece."""
        if not self.kernel.is_reduction:
            self._pointwise_body()
            return
        waiting: list[Value] = []
        for value in self.kernel.body:
            if value in self.block:
                waiting.append(value)
            elif value.op == "reduce":
                self._each_piece(waiting)
                waiting = []
                self._reduce(value)
            else:
                self._emit(value)
        self._each_piece(waiting)

    def _pointwise_body(self) -> None:
        """Loads first, so that all are under way before something waits for one (a division has branches, over which
        none is moved); where an output may be an input, all threads have read before one writes."""
        loads = [value for value in self.kernel.body if value.op == "load" and not value.args][:FIRST]
        rest = [value for value in self.kernel.body if value not in loads and value.op != "store"]
        for value in (*loads, *rest):
            self._emit(value)
        if self.kernel.in_place:
            self._line("tl.debug_barrier()")
        for value in self.kernel.stores():
            self._emit(value)

    def _each_piece(self, values: Sequence[Value]) -> None:
        for k, piece in enumerate(self.shape.pieces if values else ()):
            self._enter(k, piece)
            for value in self._with_what_they_need(values) if piece.again else values:
                self._emit(value)
        self.suffix = ""
        self.reading += bool(values)

    def _with_what_they_need(self, values: Sequence[Value]) -> list[Value]:
        """The block-level values from the loads on: nothing is kept."""
        wanted = reachable(values, lambda value: self.block.intersection(value.args))
        return [value for value in self.kernel.body if value in wanted and (value.op != "store" or value in values)]

    def _enter(self, k: int, piece: Piece) -> None:
        self.piece, self.suffix = piece, f"_{k}" if len(self.shape.pieces) > 1 else ""
        start = f"{piece.start} + " if piece.start else ""
        self._lanes(f"{start}tl.arange(0, {piece.lanes})[None, :]", piece.masked, is_first=piece.start == 0)

    def _name(self, value: Value) -> str:
        return f"v{self.number[value]}{self.suffix if value in self.block else ''}"

    # --- axes ---------------------------------------------------------------------------------------------------

    def _program(self) -> str:
        return "tl.program_id(0)" + ("" if self.index == "tl.int32" else ".to(tl.int64)")

    def _rows_head(self) -> None:
        shape = "[:, None]" if self.rank == 2 else ""
        self._line(f"x = {self._program()} * XBLOCK + tl.arange(0, XBLOCK){shape}")
        self._masked_unless_whole("x", self.kernel.size("parallel"), self.shape.blocks["XBLOCK"])
        self._decompose("x", self.parallel)
        if self.shape.skew is not None:  # a program has one row: scalars
            self._decompose(self._program(), self.parallel, OF_ROW)
            self._line(f"skew = ({_of_row(self.shape.skew.start)}) % {self.shape.skew.period}")

    def _tile_head(self) -> None:
        """x along the columns, y along the rows of the block; the other axes from the program's number."""
        (_, (y_size, height), (x_size, width)), (y_axis, x_axis) = self.shape.grid, self.shape.tile
        self._line(f"program = {self._program()}")
        self._line(f"across = ({dim_text(x_size)} + {width - 1}) // {width}")
        self._line(f"down = ({dim_text(y_size)} + {height - 1}) // {height}")
        self._line("x = program % across * XBLOCK + tl.arange(0, XBLOCK)[None, :]")
        self._line("y = program // across % down * YBLOCK + tl.arange(0, YBLOCK)[:, None]")
        self._masked_unless_whole("x", x_size, width)
        self._masked_unless_whole("y", y_size, height)
        self._line(f"{x_axis.name} = x")
        self._line(f"{y_axis.name} = y")
        rest = [axis for axis in self.parallel if axis not in self.shape.tile]
        self._decompose("(program // across // down)", rest)

    def _masked_unless_whole(self, name: str, size: object, block: int) -> None:
        if isinstance(size, int) and size % block == 0:
            self.masks[name] = None
        else:
            self.masks[name] = f"{name}mask"
            self._line(f"{name}mask = {name} < {dim_text(size)}")

    def _lanes(self, lanes: str, masked: bool, is_first: bool = False) -> None:
        """Enter a block of lanes. If they are skewed, the first ones of the first block lie before the row."""
        wide = "" if self.index == "tl.int32" else ".to(tl.int64)"
        self.lanes, self.before = lanes, is_first and self.shape.skew is not None
        self._line(f"r = ({lanes}){wide}" + (" - skew" if self.shape.skew else ""))
        self.masks["r"] = "rmask" if masked else None
        if masked:
            self._line("rmask = r >= 0" if self.before else f"rmask = r < {dim_text(self.kernel.size('reduce'))}")
        self._decompose("r", self.reduce)

    def _decompose(self, flat: str, axes: Sequence[Axis], suffix: str = "") -> None:
        """The axes' indices from the flat one."""
        inner = ""
        for i, axis in reversed(list(enumerate(axes))):
            text = f"{flat} // ({inner})" if inner else flat
            last = "" if i == 0 else f" % ({dim_text(axis.size)})"
            self._line(f"{axis.name}{suffix} = {text}{last}")
            inner = f"{inner} * ({dim_text(axis.size)})" if inner else dim_text(axis.size)

    def _mask(self, dimensions: str) -> str | None:
        """The mask over some of the block's dimensions, None if all is inside."""
        names = [self.masks[d] for d in dimensions]
        return " & ".join(name for name in names if name is not None) or None

    def _walked(self, index: Affine) -> str:
        """The block's dimensions that an index walks."""
        if self.shape.kind == "tile":
            y, x = self.shape.tile
            named = {"y": frozenset((y.name,)), "x": frozenset((x.name,))}
        else:
            named = {"x": frozenset(axis.name for axis in self.parallel)}
        named["r"] = frozenset(axis.name for axis in self.reduce)
        return "".join(dimension for dimension, names in named.items() if index.uses(names))

    def _dimensions(self, value: Value) -> str:
        """The block's dimensions that a value may differ along."""
        if self.shape.kind == "tile":
            return self.across
        return "xr" if value in self.block else "x"

    def _zeros(self, dimensions: str) -> str:
        """What gives a scalar the shape of the block."""
        return " + ".join(f"{dimension} * 0" for dimension in dimensions)

    # --- instructions -------------------------------------------------------------------------------------------

    def _emit(self, value: Value) -> None:
        if value.op == "store":
            self._store(value)
        elif value.op == "scan":
            self._line(f"{self._name(value)} = {self._scanned(value)}")
        else:
            self._line(f"{self._name(value)} = {self._expression(value)}")
        self._prepare_divisor(value)

    def _prepare_divisor(self, value: Value) -> None:
        name = self._name(value)
        if value in self.divisors and sums_to_one_or_more(value):
            self._line(f"{name}_inverse = mc_div(1.0, {name})")
        elif value in self.divisors:
            self._line(f"{name}_scale = mc_divisor_scale({name})")
            self._line(f"{name}_inverse = mc_div(1.0, {name} * {name}_scale)")

    def _expression(self, value: Value) -> str:
        args = [self._name(arg) for arg in value.args]
        if value.op == "load":
            return self._load(value, args)
        if value.op == "check":
            return self._check(value, args[0])
        if value.op == "const":
            return constant(value.attrs["value"], value.dtype, self.rank)
        if value.op in ("index", "size"):
            text = value.attrs["index"].text() if value.op == "index" else dim_text(value.attrs["dim"], "triton")
            zeros = self._zeros(self.across if self.shape.kind == "tile" else "x")
            return f"({text} + {zeros}).to({'tl.int64' if value.dtype == torch.int64 else 'tl.float64'})"
        if value.op == "cast":
            return cast_text(args[0], value.attrs["dtype"], value.dtype)
        if value.op == "div" and value in self.block and value.args[1] in self.divisors:
            quotient = f"{args[0]} * {args[1]}_inverse"
            return quotient if sums_to_one_or_more(value.args[1]) else f"({quotient}) * {args[1]}_scale"
        if maximum_below(value) is not None:
            return f"mc_exp_below({args[0]})"
        return operation(value, args)

    def _check(self, value: Value, arg: str) -> str:
        """An index that eager would refuse stops the kernel, as eager's own does."""
        size = dim_text(value.attrs["dim"])
        low = f"-({size})" if value.attrs["wrap"] else "0"
        within = f"({arg} >= {low}) & ({arg} < {size})"
        mask = self._mask(self._dimensions(value))
        within = within if mask is None else f"({within}) | ~({mask})"
        self._line(f"tl.device_assert({within}, 'index out of range')")
        return f"tl.where({arg} < 0, {arg} + {size}, {arg})" if value.attrs["wrap"] else arg

    def _load(self, value: Value, args: Sequence[str]) -> str:
        dtype = value.attrs["buffer"].dtype
        text, register = self._loaded(value, args), register_dtype(dtype)
        return text if register == dtype else f"{text}.to({TL_TYPES[register]})"

    def _loaded(self, value: Value, args: Sequence[str]) -> str:
        """What lies in memory, in its own dtype."""
        offset = place_text(value, args)
        walked = self._dimensions(value) if args else self._walked(value.attrs["index"])
        mask = self._mask(walked.replace("r", "") if self.before else walked)
        if args and value.attrs["masked"]:
            mask = args[-1] if mask is None else f"{mask} & {args[-1]}"
        if args:
            offset += f" + {self._zeros(walked)}"
        elif not walked:
            offset += " + tl.zeros([1" + ", 1" * (self.rank - 1) + "], tl.int32)"
        rest = "" if mask is None else f", {mask}, other=0"
        if "r" in walked or self.shape.kind == "tile":
            rest += self._eviction()
        return f"tl.load({self._place(value, offset, walked)}{rest})"

    def _place(self, value: Value, offset: str, walked: str) -> str:
        """The addresses. Those of skewed lanes go from where these start, which is divisible by 16, though Triton can't
        see it. The pieces of a row then differ in a constant, a part of the instruction that takes no register."""
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        if self.shape.skew is None or "r" not in walked:
            return f"{buffer.name} + ({offset})"
        start = _of_row(index.part(frozenset(axis.name for axis in self.parallel), offset=True))
        return f"{buffer.name} + tl.multiple_of({start} - skew, {16 // buffer.dtype.itemsize}) + {self.lanes}"

    def _eviction(self) -> str:
        """What is read once leaves the cache first, for what is read again. A tile stays: its neighbours read the rest
        of its cache lines. (Loads of the same in a row say different things, so that none is taken for the one before,
        and kept.)"""
        if self.shape.kind == "tile":
            policy = "evict_last"
        elif self.piece is not None and self.piece.again:
            policy = ("evict_last", "", "evict_first")[self.reading % 3]
        else:
            policy = "evict_first" if self.shape.streams or self.shape.rereads else ""
        return f', eviction_policy="{policy}"' if policy else ""

    def _store(self, value: Value) -> None:
        index = value.attrs["index"]
        dimensions = "xr" if value.attrs["block"] else self._dimensions(value)
        mask = self._mask(dimensions)
        rest = "" if mask is None else f", {mask}"
        if self.shape.rereads:
            rest += ', eviction_policy="evict_first"'
        place = self._place(value, f"{index.text()} + {self._zeros(dimensions)}", dimensions)
        self._line(f"tl.store({place}, {self._name(value.args[0])}{rest})")

    def _scanned(self, value: Value) -> str:
        """The running result along the lanes; lanes beyond the end come last and do not matter."""
        arg, combine = self._name(value.args[0]), COMBINE[SCANS[value.attrs["kind"]].combine]
        return f"tl.associative_scan({arg} + tl.zeros_like(x * 0 + r * 0).to({TL_TYPES[value.dtype]}), 1, {combine})"

    # --- reductions ---------------------------------------------------------------------------------------------

    def _reduce(self, value: Value) -> None:
        """Join pieces that are alike, then the lanes, then what the different pieces gave."""
        name, combine = self._name(value), COMBINE[value.attrs["kind"]]
        alike: dict[int, str] = {}  # lanes → the name of what pieces of so many have given
        for k, piece in enumerate(self.shape.pieces):
            self._enter(k, piece)
            part, inside = f"{name}_in{self.suffix}", self._inside(value)
            before = alike.get(piece.lanes)
            self._line(f"{part} = {inside if before is None else f'{combine}({before}, {inside})'}")
            alike[piece.lanes] = part
        self.suffix = ""
        for part in alike.values() if len(alike) > 1 else ():
            self._finish(value, part, part)
        joined, *rest = alike.values()
        for part in rest:
            joined = f"{combine}({joined}, {part})"
        if len(alike) > 1:
            self._line(f"{name} = {joined}")
        else:
            self._finish(value, name, joined)
        self._prepare_divisor(value)

    def _identity(self, value: Value) -> str:
        return scalar(REDUCTIONS[value.attrs["kind"]].identity(value.dtype), value.dtype)

    def _inside(self, value: Value) -> str:
        """A reduction's operand, the identity in lanes beyond the end, one value a lane."""
        arg, mask = self._name(value.args[0]), self._mask("r")
        if value.args[0] not in self.block:
            mask = "x + r >= 0" if mask is None else f"{mask} & (x + r >= 0)"
        identity = constant(REDUCTIONS[value.attrs["kind"]].identity(value.dtype), value.dtype, 2)
        return arg if mask is None else f"tl.where({mask}, {arg}, {identity})"

    def _finish(self, value: Value, name: str, lanes: str) -> None:
        """Lanes → one value a row."""
        kind, type = value.attrs["kind"], TL_TYPES[value.dtype]
        if kind in ("any", "all") or kind in ("amax", "amin") and type == "tl.int1":
            reducer = "tl.max" if kind in ("any", "amax") else "tl.min"
            self._line(f"{name} = {reducer}(({lanes}).to(tl.int32), 1)[:, None] != 0")
        else:
            self._line(f"{name} = tl.reduce({lanes}, 1, {COMBINE[kind]})[:, None].to({type})")
