"""Kernel IR → Triton.

In: a `Kernel`. Out: `TritonText`: the source of one `@triton.jit` function, its block sizes and warps.

A pointwise kernel is a 1-D grid of blocks over the parallel axes taken as one. A reduction is a grid of XBLOCK rows;
the reduce axes taken as one are RBLOCK lanes wide. If a row fits, it is loaded once and everything stays in registers
(persistent); else the loops of `stages` walk it. Blocks are powers of two; lanes beyond the end are masked, and hold
the reduction's identity. Indices are 32-bit where every offset is known to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.ops import REDUCTIONS, SCANS
from ..ir.symbols import dim_text
from .kernel_ir import Affine, Axis, Kernel, Value, lane_axis, place_text, register_dtype
from .stages import stage
from .triton_text import COMBINE, TL_TYPES, cast_text, constant, operation, scalar

PERSISTENT = 8192
"""Longest row that is kept in registers."""

LOOPED = 2048
"""Lanes of a loop over a longer row."""

COLUMN_LANES = 64
"""Lanes of a reduction across memory; its rows lie side by side, so a program takes at least 32 of them."""

HEAD = """\
import triton
import triton.language as tl
from minicompile.codegen.triton_prelude import *
"""


@dataclass(frozen=True)
class TritonText:
    """Source and launch parameters. `blocks`: the constexpr arguments; `rows`: programs = ceil(size / rows)."""

    kernel: Kernel
    source: str
    blocks: dict[str, int]
    rows: int
    num_warps: int


def print_triton(kernel: Kernel) -> TritonText:
    """The kernel as a Triton function. Its last arguments are the block sizes."""
    return _Printer(kernel).text()


def power_of_two(n: int) -> int:
    """The next power of two, at least 1."""
    return 1 << max(n - 1, 0).bit_length()


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


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names = {value: f"v{i}" for i, value in enumerate(kernel.body)}
        self.parallel, self.reduce = kernel.of_kind("parallel"), kernel.of_kind("reduce")
        self.rank = 2 if kernel.is_reduction else 1
        size = kernel.size("reduce")
        self.columns = lane_axis(kernel) is not None
        self.persistent = isinstance(size, int) and size <= (COLUMN_LANES if self.columns else PERSISTENT)
        inner = frozenset(axis.name for axis in self.reduce)
        self.stages = stage(kernel, inner, 1 << 30)
        self.index = "tl.int32" if fits_int32(kernel) else "tl.int64"
        self.lines: list[str] = []
        self.indent = "    "

    def text(self) -> TritonText:
        kernel = self.kernel
        blocks, rows, warps = self._shape()
        arguments = [*(b.name for b in kernel.buffers), *kernel.symbols, *(f"{b}: tl.constexpr" for b in blocks)]
        self._rows_head()
        if not kernel.is_reduction:
            for value in kernel.body:
                self._emit(value)
        elif self.persistent:
            self._lanes("tl.arange(0, RBLOCK)[None, :]")
            for value in kernel.body:
                self._emit(value)
        else:
            self._looped()
        source = "\n".join(["@triton.jit", f"def {kernel.name}({', '.join(arguments)}):", *self.lines])
        return TritonText(kernel, source, blocks, rows, warps)

    def _shape(self) -> tuple[dict[str, int], int, int]:
        """Block sizes, rows a program, warps: enough work for a warp, few enough registers."""
        if not self.kernel.is_reduction:
            block = min(1024, power_of_two(max(self.kernel.hint("parallel"), 1)))
            return {"XBLOCK": block}, block, 4
        looped = COLUMN_LANES if self.columns else LOOPED
        lanes = power_of_two(max(int(self.kernel.size("reduce")), 1)) if self.persistent else looped
        rows = max(32 if self.columns else 1, min(64, 1024 // lanes))
        rows = min(rows, power_of_two(max(self.kernel.hint("parallel"), 1)))
        return {"XBLOCK": rows, "RBLOCK": lanes}, rows, max(1, min(16, rows * lanes // 256))

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    # --- axes ---------------------------------------------------------------------------------------------------

    def _rows_head(self) -> None:
        shape = "[:, None]" if self.rank == 2 else ""
        program = "tl.program_id(0)" + ("" if self.index == "tl.int32" else ".to(tl.int64)")
        self._line(f"x = {program} * XBLOCK + tl.arange(0, XBLOCK){shape}")
        self._line(f"xmask = x < {dim_text(self.kernel.size('parallel'))}")
        self._decompose("x", self.parallel)

    def _lanes(self, lanes: str) -> None:
        wide = "" if self.index == "tl.int32" else ".to(tl.int64)"
        self._line(f"r = ({lanes}){wide}")
        self._line(f"rmask = r < {dim_text(self.kernel.size('reduce'))}")
        self._line("mask = xmask & rmask")
        self._decompose("r", self.reduce)

    def _decompose(self, flat: str, axes: Sequence[Axis]) -> None:
        """The axes' indices from the flat one."""
        inner = ""
        for i, axis in reversed(list(enumerate(axes))):
            text = f"{flat} // ({inner})" if inner else flat
            self._line(f"{axis.name} = {text}" if i == 0 else f"{axis.name} = {text} % ({dim_text(axis.size)})")
            inner = f"{inner} * ({dim_text(axis.size)})" if inner else dim_text(axis.size)

    def _mask(self, index: Affine) -> str | None:
        """The mask of what an index walks."""
        over_rows = index.uses(frozenset(axis.name for axis in self.parallel))
        over_lanes = index.uses(frozenset(axis.name for axis in self.reduce))
        if over_rows and over_lanes:
            return "mask"
        return "rmask" if over_lanes else "xmask" if over_rows else None

    # --- instructions -------------------------------------------------------------------------------------------

    def _emit(self, value: Value) -> None:
        name, args = self.names[value], [self.names[arg] for arg in value.args]
        if value.op == "store":
            self._store(value, args[0])
        elif value.op == "reduce":
            self._line(f"{name}_in = {self._masked(value, args[0])}")
            self._finish(value, f"{name}_in")
        elif value.op == "scan":
            self._line(f"{name} = {self._scanned(value, args[0])}")
        else:
            self._line(f"{name} = {self._expression(value, args)}")

    def _expression(self, value: Value, args: list[str]) -> str:
        if value.op == "load":
            return self._load(value, args)
        if value.op == "check":
            size = dim_text(value.attrs["dim"])
            low = f"-({size})" if value.attrs["wrap"] else "0"
            self._line(f"tl.device_assert(({args[0]} >= {low}) & ({args[0]} < {size}), 'index out of range')")
            return f"tl.where({args[0]} < 0, {args[0]} + {size}, {args[0]})" if value.attrs["wrap"] else args[0]
        if value.op == "const":
            return constant(value.attrs["value"], value.dtype, self.rank)
        if value.op == "index":
            return f"({value.attrs['index'].text()} + x * 0).to(tl.int64)"
        if value.op == "size":
            return f"({dim_text(value.attrs['dim'])} + x * 0).to(tl.int64)"
        if value.op == "cast":
            return cast_text(args[0], value.attrs["dtype"], value.dtype)
        return operation(value, args)

    def _load(self, value: Value, args: Sequence[str]) -> str:
        buffer = value.attrs["buffer"]
        mask = self._load_mask(value, args)
        where = f"{buffer.name} + ({place_text(value, args)})"
        if mask is None:
            where += " + tl.zeros([1" + ", 1" * (self.rank - 1) + "], tl.int32)"
        text = f"tl.load({where})" if mask is None else f"tl.load({where}, {mask}, other=0)"
        register = register_dtype(buffer.dtype)
        return text if register == buffer.dtype else f"{text}.to({TL_TYPES[register]})"

    def _load_mask(self, value: Value, args: Sequence[str]) -> str | None:
        """The mask of a load; indices and a mask of its own make it walk what they walk."""
        if not value.args:
            return self._mask(value.attrs["index"])
        lanes = value in self.stages.block and self.kernel.is_reduction
        mask = "mask" if lanes else "xmask"
        return f"{mask} & {args[-1]}" if value.attrs["masked"] else mask

    def _scanned(self, value: Value, arg: str) -> str:
        """The running result along the lanes; lanes beyond the end come last and do not matter."""
        wide = f"{arg} + tl.zeros([XBLOCK, RBLOCK], {TL_TYPES[value.dtype]})"
        return f"tl.associative_scan({wide}, 1, {COMBINE[SCANS[value.attrs['kind']].combine]})"

    def _scan_looped(self, value: Value) -> None:
        """The scan of one block of lanes, joined with what the blocks before have carried."""
        name, arg, combine = self.names[value], self.names[value.args[0]], COMBINE[SCANS[value.attrs["kind"]].combine]
        identity = constant(SCANS[value.attrs["kind"]].identity(value.dtype), value.dtype, 2)
        self._line(f"{name} = {combine}({name}_carry, {self._scanned(value, arg)})")
        self._line(f"{name}_all = tl.reduce(tl.where(mask, {arg}, {identity}), 1, {combine})[:, None]")
        self._line(f"{name}_carry = {combine}({name}_carry, {name}_all)")

    def _store(self, value: Value, arg: str) -> None:
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        mask = "mask" if value.attrs["block"] else "xmask"
        zeros = "x * 0 + r * 0" if value.attrs["block"] else "x * 0"
        self._line(f"tl.store({buffer.name} + ({index.text()} + {zeros}), {arg}, {mask})")

    def _identity(self, value: Value) -> str:
        return scalar(REDUCTIONS[value.attrs["kind"]].identity(value.dtype), value.dtype)

    def _masked(self, value: Value, arg: str) -> str:
        """A reduction's operand, the identity in lanes beyond the end, one value a lane."""
        identity = REDUCTIONS[value.attrs["kind"]].identity(value.dtype)
        return f"tl.where(mask, {arg}, {constant(identity, value.dtype, 2)})"

    def _finish(self, value: Value, lanes: str) -> None:
        """Lanes → one value a row."""
        name, kind, type = self.names[value], value.attrs["kind"], TL_TYPES[value.dtype]
        if kind in ("any", "all"):
            reducer = "tl.max" if kind == "any" else "tl.min"
            self._line(f"{name} = {reducer}({lanes}.to(tl.int32), 1)[:, None] != 0")
        elif kind in ("amax", "amin") and type == "tl.int1":
            reducer = "tl.max" if kind == "amax" else "tl.min"
            self._line(f"{name} = {reducer}({lanes}.to(tl.int32), 1)[:, None] != 0")
        else:
            self._line(f"{name} = tl.reduce({lanes}, 1, {COMBINE[kind]})[:, None].to({type})")

    def _looped(self) -> None:
        for k, loop in enumerate(self.stages.loops):
            for value in self.stages.rows[k]:
                self._emit(value)
            reduces = [value for value in loop if value.op == "reduce"]
            for value in reduces:
                start = f"tl.full([XBLOCK, RBLOCK], {self._identity(value)}, {TL_TYPES[value.dtype]})"
                self._line(f"{self.names[value]}_acc = {start}")
            for value in loop:
                if value.op == "scan":
                    start = SCANS[value.attrs["kind"]].identity(value.dtype)
                    self._line(f"{self.names[value]}_carry = tl.full([XBLOCK, 1], {start}, {TL_TYPES[value.dtype]})")
            self._line(f"for start in range(0, {dim_text(self.kernel.size('reduce'))}, RBLOCK):")
            self.indent += "    "
            self._lanes("start + tl.arange(0, RBLOCK)[None, :]")
            for value in loop:
                step = {"reduce": self._accumulate, "scan": self._scan_looped}.get(value.op, self._emit)
                step(value)
            self.indent = self.indent[4:]
            for value in reduces:
                self._finish(value, f"{self.names[value]}_acc")
        for value in self.stages.rows[-1]:
            self._emit(value)

    def _accumulate(self, value: Value) -> None:
        acc, arg = f"{self.names[value]}_acc", self.names[value.args[0]]
        self._line(f"{acc} = {COMBINE[value.attrs['kind']]}({acc}, {self._masked(value, arg)})")
