"""The shape of a Triton kernel: which axes are blocks, how large, over how many programs and warps.

In: a `Kernel`. Out: `Shape`. Only sizes and access patterns decide; `alternatives` lists further shapes that are right
as well, for mode="max-autotune" to time.

* A pointwise kernel is *flat*: one block over all parallel axes taken as one. Where two operands are contiguous along
  different axes (a transposition) it is a *tile* of both, so that each is read along its memory.
* A reduction is *rows*: XBLOCK rows by RBLOCK lanes. A row that fits into registers is loaded once, cut into pieces
  whose lanes are powers of two: 768 is three blocks of 256 without a masked lane. A longer row is walked by a loop.
* If rows lie side by side in memory (a sum over dimension 0), a program takes many of them and few lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from ..ir.symbols import evaluate
from ..ir.types import Dim
from .kernel_ir import Affine, Axis, Kernel, Value, lane_axis
from .softmaxes import online_sum
from .stages import row_stages
from .triton_skew import Skew, skew_of

PERSISTENT = 8192
"""Longest row that is kept in registers."""

ALIKE = ((1 << 14, 16, 2048), (1 << 15, 16, 4096), (13 << 12, 8, 4096))
"""Elements kept in registers of a longer row that would else be read twice, the warps that hold them, and the lanes of
a piece: at most 64 of the 128 registers of each thread of 16 warps, 208 of the 255 of 8. Pieces that are alike are
joined in registers, and lanes only once. Measured on an H200: 95 % of a copy for 32000 (76 % for pieces of 16384, 8192
and 4096), 89 % for 50257."""

SKEWED_WARPS, SKEWED_LANES = 16, 2048
"""The same for skewed rows of at most `HELD` elements, or of half types: the first piece and the last, which are
masked, and so stored element by element, are shorter. 30001 floats: 85 % of a copy in place of 68; 50257 bfloat16:
74 in place of 48."""

HELD, HELD_WARPS = 1 << 15, 32
"""The same of a row that does not fit, the rest of which is read again: 32 of the 64 registers of 32 warps."""

AGAIN = 1 << 15
"""Elements beyond these that are read again, at most: so few that those of all processors stay in the L2 cache."""

LOOPED_BYTES = 8192
"""What one step of a loop over a longer row reads of its narrowest operand."""

REREAD_BYTES = 1 << 15
"""The same of a row that is read more than once: few programs at a time, so that their rows stay in the L2 cache."""

COLUMN_LANES = 64
"""Longest reduction across memory that is loaded at once."""

PIECES = 7
"""Equal pieces that a row may be cut into, at most: the body is printed for each."""

PROGRAMS = 4 * 132
"""Programs that keep a large GPU busy; smaller blocks are taken where there would be fewer."""

PER_THREAD = 32
"""Elements of a row that one thread holds of each operand."""


@dataclass(frozen=True)
class Piece:
    """Lanes start … start + lanes of a row; `masked` if some may lie beyond its end; `again` if they are not kept in
    registers, but read again after each reduction."""

    start: int
    lanes: int
    masked: bool
    again: bool = False


@dataclass(frozen=True)
class Shape:
    """How the programs of a kernel share its elements out.

    Attributes:
        kind: "flat", "tile" or "rows".
        blocks: the constexpr arguments.
        grid: (elements, block) for each dimension of the grid, which is passed flattened, last one innermost.
        pieces: of a row kept in registers; empty for a loop.
        tile: the y and the x axis of a tile.
        columns: rows lie side by side in memory.
        streams: whether what is read is read once only, and need not stay in a cache.
        stages: of the pipeline in which a loop loads; None: Triton's choice.
        skew: what lanes of a row are moved back by, if they are.
    """

    kind: str
    blocks: dict[str, int]
    grid: tuple[tuple[Dim, int], ...]
    num_warps: int
    pieces: tuple[Piece, ...] = ()
    tile: tuple[Axis, ...] = ()
    columns: bool = False
    streams: bool = False
    stages: int | None = None
    skew: Skew | None = None

    @property
    def rereads(self) -> bool:
        """Whether a part of each row is read again, hopefully from the L2 cache."""
        return any(piece.again for piece in self.pieces)

    def programs(self, sizes: Mapping[str, int]) -> int:
        """Programs to launch, for values of the size symbols."""
        total = 1
        for elements, block in self.grid:
            total *= -(-evaluate(elements, dict(sizes)) // block)
        return total


def power_of_two(n: int) -> int:
    """The next power of two, at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def shape_of(kernel: Kernel) -> Shape:
    """The shape that the heuristics choose."""
    if kernel.is_reduction:
        shape = _columns(kernel) if lane_axis(kernel) is not None else _rows(kernel)
        return replace(shape, streams=_reads_once(kernel, shape))
    axes = _tile_axes(kernel)
    return _flat(kernel) if axes is None else _tile(kernel, axes)


def alternatives(kernel: Kernel) -> list[Shape]:
    """The chosen shape, and others of the same kind with other numbers of warps or other blocks."""
    first = shape_of(kernel)
    found = [first]
    if first.kind == "flat":
        block = first.blocks["XBLOCK"]
        found += [_flat(kernel, b, w) for b, w in ((block * 2, 4), (block * 2, 8), (block, 8), (block // 2, 4))]
    elif first.kind == "tile":
        found += [_tile(kernel, first.tile, *sizes) for sizes in ((32, 32, 4), (64, 32, 4), (32, 128, 8), (64, 64, 4))]
    else:
        warps = (first.num_warps // 2, first.num_warps * 2, first.num_warps * 4)
        found += [replace(first, num_warps=w) for w in warps if 1 <= w <= 16]
        if kernel.hint("reduce") > PERSISTENT and first.pieces:
            found.append(_looped(kernel, 1))
        rows = first.blocks["XBLOCK"] * 2
        if first.pieces and rows * sum(piece.lanes for piece in first.pieces) <= PERSISTENT:
            found.append(replace(first, blocks={**first.blocks, "XBLOCK": rows}, grid=((first.grid[0][0], rows),)))
    return list({(*s.blocks.values(), len(s.pieces), s.num_warps): s for s in found}.values())


# --- pointwise ------------------------------------------------------------------------------------------------------


def _flat(kernel: Kernel, block: int | None = None, warps: int | None = None) -> Shape:
    """Eight elements a thread: two 16-byte accesses of float32, one of bfloat16. Fewer where programs would be few."""
    size = max(kernel.hint("parallel"), 1)
    if block is None:
        block = 1024
        while block > 256 and size < block * PROGRAMS:
            block //= 2
        block = min(block, max(power_of_two(size), 32))
    if warps is None:
        warps = max(1, min(4, block // 128))
    return Shape("flat", {"XBLOCK": block}, ((kernel.size("parallel"), block),), warps)


def _tile_axes(kernel: Kernel) -> tuple[Axis, Axis] | None:
    """(y, x): what is stored lies along x, some operand lies along y."""
    store = next(kernel.stores(), None)
    if store is None:
        return None
    axes = [axis for axis in kernel.of_kind("parallel") if axis.hint >= 16]
    along = [axis for axis in axes if store.attrs["index"].is_contiguous(axis.name)]
    for value in kernel.body:
        index = _plain_index(value)
        if index is None:
            continue
        for x in along:
            for y in axes:
                if y is not x and index.is_contiguous(y.name) and index.coefficient(x.name) not in (0, 1):
                    return y, x
    return None


def _plain_index(value: Value) -> Affine | None:
    return value.attrs["index"] if value.op == "load" and not value.args else None


def _tile(kernel: Kernel, axes: tuple[Axis, ...], height: int = 64, width: int = 64, warps: int = 8) -> Shape:
    y, x = axes
    height, width = min(height, power_of_two(y.hint)), min(width, power_of_two(x.hint))
    rest: Dim = 1
    for axis in kernel.of_kind("parallel"):
        if axis not in axes:
            rest = rest * axis.size
    grid = ((rest, 1), (y.size, height), (x.size, width))
    warps = max(1, min(warps, height * width // 256))
    return Shape("tile", {"YBLOCK": height, "XBLOCK": width}, grid, warps, tile=(y, x))


# --- reductions -----------------------------------------------------------------------------------------------------


def _rows(kernel: Kernel) -> Shape:
    size, rows = kernel.size("reduce"), max(kernel.hint("parallel"), 1)
    if isinstance(size, int) and PERSISTENT < size <= HELD + AGAIN and _reads_twice(kernel):
        return _looped(kernel, rows) if _is_wide(kernel) else _held(kernel, size)
    if not isinstance(size, int) or size > PERSISTENT:
        return _looped(kernel, rows)
    pieces = _pieces(kernel, size)
    lanes = sum(piece.lanes for piece in pieces)
    own = _operands(kernel, of_row=lanes <= 1024)
    per_thread = PER_THREAD if own < 3 else PER_THREAD // 2
    if lanes <= 512:
        block = min(1024 // lanes, power_of_two(max(rows // PROGRAMS, 1)), power_of_two(rows))
        warps = 1 if lanes >= 128 else max(1, min(4, block * lanes // 256))
    else:
        if lanes >= 2048 and not _stores_rows(kernel):
            per_thread = 8  # nothing to do but to wait for memory
        block, warps = 1, min(16, power_of_two(-(-lanes // (32 * per_thread))))
    return _row_shape(kernel, block, pieces, warps)


def _row_shape(kernel: Kernel, block: int, pieces: tuple[Piece, ...], warps: int, columns: bool = False) -> Shape:
    grid = ((kernel.size("parallel"), block),)
    return Shape("rows", {"XBLOCK": block}, grid, warps, pieces, columns=columns)


def _pieces(kernel: Kernel, size: int) -> tuple[Piece, ...]:
    """Cut a row so that few lanes are masked: equal powers of two, or a large and a small one, or one block."""
    whole = power_of_two(size)
    single = (Piece(0, whole, whole != size),)
    if whole == size or any(value.op == "scan" for value in kernel.body):
        return single
    block = size & -size
    if block >= 128 and size // block <= PIECES:
        return tuple(Piece(start, block, False) for start in range(0, size, block))
    if size > 256 and (whole - size) * 10 > whole * 3:
        large = whole // 2
        small = power_of_two(size - large)
        return Piece(0, large, False), Piece(large, small, large + small != size)
    return single


def _reads_twice(kernel: Kernel) -> bool:
    """Whether a loop would read its one operand again to store whole rows of what it computes."""
    has_scan = any(value.op == "scan" for value in kernel.body)
    return _stores_rows(kernel) and _operands(kernel) == 1 and not has_scan


def _is_wide(kernel: Kernel) -> bool:
    """Whether values take two registers each."""
    return any(value.dtype == torch.float64 for value in kernel.body)


def _held(kernel: Kernel, size: int) -> Shape:
    """One row a processor, or two: 32000 is 8 pieces of 4096 lanes."""
    for most, warps, lanes in ALIKE:
        if size * _rows_at_a_time(kernel) <= most:
            skew = skew_of(kernel, lanes)
            if skew is not None and (size <= HELD or skew.period > 4):
                warps, lanes = SKEWED_WARPS, min(lanes, SKEWED_LANES)
            pieces = _alike(size, lanes) if skew is None else _alike_between(size, skew, lanes, 32 * warps)
            return replace(_row_shape(kernel, 1, pieces, warps), skew=skew)
    return _partly_held(kernel, size)


def _alike(size: int, lanes: int) -> tuple[Piece, ...]:
    return tuple(Piece(start, lanes, start + lanes > size) for start in range(0, size, lanes))


def _alike_between(size: int, skew: Skew, lanes: int, threads: int) -> tuple[Piece, ...]:
    """The same between a first piece and last ones, which are masked, and so stored one by one: of few lanes, though 16
    bytes a thread, so that Triton lays all pieces out alike and moves none through shared memory."""
    few = min(threads * skew.period, lanes)
    whole = (size - few) // lanes
    start, end = few + whole * lanes, size + skew.period - 1
    body = (Piece(few + k * lanes, lanes, False) for k in range(whole))
    last = lanes if end - start > lanes // 2 else few
    return Piece(0, few, True), *body, *(Piece(at, last, True) for at in range(start, end, last))


def _rows_at_a_time(kernel: Kernel) -> int:
    """How many values of each element wait, at most, for a reduction of the row."""
    block = row_stages(kernel).block
    last = {arg: i for i, value in enumerate(kernel.body) for arg in value.args if arg in block}
    most = 1
    for i, value in enumerate(kernel.body):
        if value.op == "reduce":
            most = max(most, sum(last.get(other, 0) > i for other in kernel.body[:i]))
    return most


def _partly_held(kernel: Kernel, size: int) -> Shape:
    """60000 is 32768 lanes in registers, and 8192 + 8192 + 8192 + 4096 read again."""
    warps = HELD_WARPS if size > HELD // 2 else HELD_WARPS // 2
    pieces: list[Piece] = []
    start = 0
    while start < size:
        left = size - start
        most = HELD if start < HELD else AGAIN // 4
        lanes = min(power_of_two(left), most)
        if start < HELD and lanes > left and len(pieces) < 3:
            lanes //= 2
        lanes = max(lanes, 32 * warps)
        pieces.append(Piece(start, lanes, lanes > left, again=start >= HELD))
        start += lanes
    return _row_shape(kernel, 1, tuple(pieces), warps)


def _looped(kernel: Kernel, rows: int) -> Shape:
    widths = [v.attrs["buffer"].dtype.itemsize for v in kernel.body if v.op == "load" and v.attrs["index"].terms]
    width = min(widths, default=4)
    lanes, warps = max(1024, min(4096, LOOPED_BYTES // width)), 16
    if any(value.op == "scan" for value in kernel.body):
        lanes, warps = 2048, 8
    elif _reads_twice(kernel) and kernel.hint("reduce") * width > 2 * REREAD_BYTES:
        lanes, warps = REREAD_BYTES // max(width, 4), 32
    elif _is_online(kernel):
        return _online(kernel, rows, width)
    return Shape("rows", {"XBLOCK": 1, "RBLOCK": lanes}, ((kernel.size("parallel"), 1),), warps)


def _is_online(kernel: Kernel) -> bool:
    """Whether a loop computes a maximum and the sum of the exponentials below it."""
    loops = row_stages(kernel).loops
    return any(online_sum(loops, k) is not None for k in range(len(loops)))


def _online(kernel: Kernel, rows: int, width: int) -> Shape:
    """Maximum and sum in one loop: small programs if they are many and load 16 bytes at a time.

    Measured on an H200, in percent of a read, by warps (4, 8, 16): 4096 rows of 32000 floats 95, 92, 93; 4096 of 50257
    93, 96, 79; of 50257 bfloat16 67, 72, 57; of 128256 floats 1024 rows 97, 98, 98, 512 90, 96, 97, 256 68, 88, 97."""
    size, skew = kernel.size("reduce"), skew_of(kernel, 2048)
    is_wide = skew is not None or isinstance(size, int) and size * width % 16 == 0
    lanes, warps = (1024, 4) if rows >= 2 * PROGRAMS and is_wide else (2048, 8 if rows >= PROGRAMS else 16)
    blocks = {"XBLOCK": 1, "RBLOCK": lanes}
    return Shape("rows", blocks, ((kernel.size("parallel"), 1),), warps, skew=skew)


def _stores_rows(kernel: Kernel) -> bool:
    """Whether whole rows are stored, and not only what they are reduced to."""
    return any(store.attrs["block"] for store in kernel.stores())


def _reads_once(kernel: Kernel, shape: Shape) -> bool:
    """Whether long rows are read in one go, and nothing as large is written."""
    reductions = sum(value.op == "reduce" for value in kernel.body)
    if kernel.hint("reduce") < 2048 or shape.columns or _stores_rows(kernel):
        return False
    return bool(shape.pieces) or reductions == 1


def _operands(kernel: Kernel, of_row: bool = False) -> int:
    """Loads of elements of a row; `of_row`: only those that other rows do not share, as they share a norm's weights.
    (Of short rows these need no further threads: on an H200 a layer_norm of 768 took 98.9 µs with one warp, 99.9 with
    two, with GELU 102.6 and 104.4, of a sum 143.2 and 144.9.)"""
    across = frozenset(axis.name for axis in kernel.of_kind("reduce"))
    down = frozenset(axis.name for axis in kernel.of_kind("parallel"))
    indices = [value.attrs["index"] for value in kernel.body if value.op == "load"]
    return sum(index.uses(across) and (not of_row or index.uses(down)) for index in indices)


def _columns(kernel: Kernel) -> Shape:
    """A tile of neighbouring columns; 128 of them are a warp's 16-byte accesses to float32."""
    size, columns = kernel.size("reduce"), max(kernel.hint("parallel"), 1)
    width = min(128, max(32, power_of_two(columns)))
    if isinstance(size, int) and size <= COLUMN_LANES:
        lanes = power_of_two(max(size, 1))
        width = max(32, min(width, 4096 // lanes))
        warps = max(1, min(8, width * lanes // 512))
        return _row_shape(kernel, width, (Piece(0, lanes, lanes != size),), warps, columns=True)
    blocks = {"XBLOCK": width, "RBLOCK": 16}
    return Shape("rows", blocks, ((kernel.size("parallel"), width),), 4, columns=True)
