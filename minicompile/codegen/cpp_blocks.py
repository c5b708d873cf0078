"""Loops that compute exp, log, … a block at a time, by functions that are vectorised by hand (cpp_prelude_blocks.h).

Where gcc makes nothing good of scalar code, these are the functions that eager itself calls, of MKL and of Sleef, which
torch's library holds.

In: one loop of a row kernel's plan. Out: its text: *phases*, each a simd loop over a block of at most `BLOCK` elements;
between them the calls of block functions, whose operands and results lie in small arrays in L1.

    for part in blocks of the row:
        for i in part: a0[i] = x[i] - max          phase 0
        mc_exp_block(a0, a0, n)
        for i in part: sum += a0[i]                phase 1

All stores stand in the last phase: an output may be an input's memory, which an earlier phase must not have changed for
a later one. A call that reads a tensor as it lies reads it there; one that is all the work stores its result itself.

A loop without such functions has a single phase. It is cut into blocks all the same where its results go past the
caches (cpp_traffic.py): they are put together in an array and stored from there in whole cache lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from ..ir.ops import POINTWISE
from ..runtime.cpu import simd_name
from ..torch_compat import vector_libraries
from ..walks import reachable
from . import cpp_vectors
from .cpp_reduce import Accumulator
from .cpp_text import CPP_TYPES, element_text
from .kernel_ir import Axis, Value

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

OWN = frozenset(("exp", "log", "tanh", "erf", "sigmoid"))
"""Rows of the op table that have a function of our own, of float32."""

VECTORS = ("avx512", "avx2")
"""Instruction sets that the functions are vectorised for by hand (cpp_prelude_vectors.h)."""

VML = frozenset(("tan", "asin", "acos", "atan", "log2", "log10", "erfc", "erfinv"))
"""Rows for which the vector mathematics of MKL is called, as eager does."""

VML_DOUBLE = VML | {"exp", "log", "sin", "cos", "tanh", "erf"}
"""And those of float64."""

SLEEF = frozenset(("exp2", "expm1", "log1p", "atanh", "lgamma"))
"""Rows for which Sleef is called, as eager does. Its sinh, cosh, asinh and acosh are infinite too early."""

BLOCK = 256
"""Elements of a block: an array of them is 1 KiB, so that two dozen fit L1, and while one phase computes the processor
can fetch what the next needs. Measured: 512 is a tenth slower for silu and gelu, 128 a twentieth for rows."""

WHOLE = 4096
"""Elements of a block where a call reads and stores all by itself, so that there are no arrays."""

AGAIN = 4
"""Instructions, loads among them, that a later phase repeats rather than have their result stored and loaded. Measured:
layer_norm+gelu, whose gelu reads seven, is 1.12 times as fast with its operand kept; two are better repeated."""

MANY = 4
"""Blocks of a row from which whole ones have a body of their own."""

SHORTEST = 64
"""Elements that a row must have for the calls to pay."""


def block_function(value: Value, alone: bool = False) -> str | None:
    """The function that does this instruction for a block of elements, if this processor and this torch have one.
    `alone`: for a loop that does nothing else, where eager's own function is never slower than eager."""
    if value.dtype not in (torch.float32, torch.float64):
        return None
    is_double, simd = value.dtype is torch.float64, simd_name()
    own = f"mc_{value.op}_block" if simd in VECTORS and value.op in OWN and not is_double else None
    if own and simd == "avx2":  # MKL's take 1.5 to 3.5 times as long there
        return own
    if value.op in (VML_DOUBLE if is_double or alone else VML) and "vml" in vector_libraries():
        return f"mc_{value.op}_vml"
    if simd in VECTORS and value.op in SLEEF and "sleef" in vector_libraries():
        return f"mc_{value.op}_sleef"
    return own


def pays(axis: Axis | None, loop: Iterable[Value]) -> bool:
    """Whether this processor has block functions that beat the scalar ones, and the loop work for them."""
    return (
        axis is not None
        and axis.hint >= SHORTEST
        and any(block_function(value) is not None for value in loop)
    )


def has_rest_apart(axis: Axis, step: int) -> bool:
    """Whether blocks of a row deserve a body of constant length beside that for the rest: for a size that is not known
    (with one body, kernels for all sizes are up to 1.3 times slower than those for one), if a row has many blocks, or
    is short. With few long ones gcc makes worse code of two bodies: layer_norm of 768 took 1.4 times, an embedding with
    it 2.6 times as long."""
    return not isinstance(axis.size, int) and axis.hint >= (step if step < BLOCK else MANY * step)


class BlockLoop:
    """One loop of a `RowPrinter`, number `k`, over `axis`; `calls`: with block functions. What a value's text is, the
    printer knows."""

    def __init__(self, rows: RowPrinter, axis: Axis, k: int, loop: Sequence[Value], calls: bool) -> None:
        self.rows, self.axis, self.k, self.loop, self.calls = rows, axis, k, loop, calls
        self.phase: dict[Value, int] = {}
        for value in loop:
            self.phase[value] = max((self._ready(arg) for arg in value.args), default=0)
        self.last = max(self._ready(value) for value in loop)
        self.leaves = self._find_leaves()
        self.phase.update({value: self.last for value in loop if value.op == "store"})
        self._sink()
        self.whole = self._stored_by_call()
        self.shown = [self._shown(phase) for phase in range(self.last + 1)]
        self.arrays: dict[Value, str] = {}  # value that a later phase reads → its array
        self.streams = {value: f"stream{i}" for i, value in enumerate(v for v in loop if v in rows.streamed)}
        self.vectors = self._is_of_vectors()

    # --- the plan -----------------------------------------------------------------------------------------------

    def _read_back(self, value: Value) -> bool:
        """Whether an earlier loop has kept the value."""
        return self.rows.stages.kept.get(value, self.k) < self.k

    def _kept_here(self, value: Value) -> bool:
        return self.rows.stages.kept.get(value, -1) == self.k

    def _is_call(self, value: Value) -> bool:
        return self.calls and block_function(value) is not None and not self._read_back(value)

    def _find_leaves(self) -> dict[Value, frozenset[Value]]:
        """Values that a later phase had better fetch or compute again than keep, and of which instructions each is."""
        made: dict[Value, frozenset[Value]] = {}
        for value in self.loop:
            if self._read_back(value):
                made[value] = frozenset()
            elif value.op in ("load", "index") and not value.args:
                made[value] = frozenset((value,))
            elif self._is_cheap(value) and all(arg in made or arg not in self.phase for arg in value.args):
                of = frozenset((value,)).union(*(made.get(arg, ()) for arg in value.args))
                if len(of) <= AGAIN:
                    made[value] = of
        return made

    def _is_cheap(self, value: Value) -> bool:
        cheap = value.op in POINTWISE and POINTWISE[value.op].cost <= 1
        return cheap and not self._kept_here(value) and not self._is_call(value)

    def _is_leaf(self, value: Value) -> bool:
        return value not in self.phase or value in self.leaves

    def _ready(self, value: Value) -> int:
        """The first phase that can read the value; 0 for what stands outside of the loop."""
        return self.phase[value] + self._is_call(value) if value in self.phase else 0

    def _sink(self) -> None:
        """Compute what only later phases read in the first of those: it then needs no array."""
        for value in reversed(self.loop):
            if value.op not in ("store", "reduce", "check") and not self._is_call(value) and not self._kept_here(value):
                readers = [self.phase[user] for user in self.loop if value in user.args]
                self.phase[value] = min(readers, default=self.phase[value])

    def _stored_by_call(self) -> Value | None:
        """The store of a loop in which one call is all the work."""
        work = [value for value in self.loop if not self._is_leaf(value)]
        if len(work) != 2 or not self._is_call(work[0]) or work[1].op != "store" or self._kept_here(work[0]):
            return None
        return work[1] if self._lies_as_it_is(work[1]) else None

    def _is_of_vectors(self) -> bool:
        """Whether the loop can be written without the arrays (cpp_vectors.py)."""
        own = all(block_function(value) == f"mc_{value.op}_block" for value in self.loop if self._is_call(value))
        kept = any(self._read_back(value) or self._kept_here(value) for value in self.loop)
        tables = not self.streams or not cpp_vectors.tables(self.loop)  # loaded for each block, they cost 1.08
        plain = own and not kept and tables and self.whole is None
        return self.calls and plain and cpp_vectors.is_for(self.axis, self.loop)

    def _lies_as_it_is(self, value: Value) -> bool:
        """Whether a load or store is of neighbouring elements that block functions take."""
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        return buffer.dtype in (torch.float32, torch.float64) and index.is_contiguous(self.axis.name)

    def _reads_memory(self, call: Value) -> bool:
        """Whether the call's operand is a tensor as it lies."""
        arg = call.args[0]
        return arg.op == "load" and self._is_leaf(arg) and not self._read_back(arg) and self._lies_as_it_is(arg)

    def _roots(self, phase: int) -> list[Value]:
        """What a phase must compute: its own values but leaves, and the operands of the calls after it."""
        roots = []
        for value in self.loop:
            if value is self.whole or self._is_leaf(value):
                continue
            if self._is_call(value):
                if self.phase[value] == phase and not self._reads_memory(value):
                    roots.append(value.args[0])
            elif self.phase[value] == phase:
                roots.append(value)
        return [root for root in roots if root in self.phase]

    def _shown(self, phase: int) -> list[Value]:
        """The values that a phase names, in order: computed in it, or fetched from memory or from an array."""

        def following(value: Value) -> Iterable[Value]:
            return self.phase.keys() & value.args if self._is_computed(value, phase) else ()

        wanted = reachable(self._roots(phase), following)
        return [value for value in self.loop if value in wanted]

    def _is_computed(self, value: Value, phase: int) -> bool:
        return not self._is_call(value) and (self.phase[value] == phase or self._is_leaf(value))

    # --- the arrays ---------------------------------------------------------------------------------------------

    def _assign_arrays(self) -> list[str]:
        """Give each value that crosses phases an array, whose last reader's phase frees it. Returns declarations."""
        last_read = {v: p for p, shown in enumerate(self.shown) for v in shown if not self._is_computed(v, p)}
        free: dict[str, list[tuple[int, str]]] = {}
        made: list[tuple[str, str]] = []
        for value in sorted(self._crossing(last_read), key=self.phase.__getitem__):
            if self._kept_here(value):
                continue  # it has a row buffer
            type, born = CPP_TYPES[value.dtype], self.phase[value]
            pool = free.setdefault(type, [])
            old = next((entry for entry in pool if entry[0] <= born), None)
            if old is not None:
                pool.remove(old)
            else:
                made.append((type, f"block{len(made)}"))
            self.arrays[value] = old[1] if old else made[-1][1]
            pool.append((last_read.get(value, born + 1), self.arrays[value]))
        return [f"alignas(64) {type} {name}[{max(BLOCK, self._size())}];" for type, name in made]

    def _crossing(self, last_read: dict[Value, int]) -> list[Value]:
        calls = (value for value in self.loop if self._is_call(value) and self.whole is None)
        return list(dict.fromkeys((*calls, *last_read)))

    def _place(self, value: Value) -> str:
        """Where a value that crosses phases lies, at the axis's current index."""
        if self._kept_here(value):
            return f"{self.rows.kept[value]}[{self.rows.position()}]"
        return self._in_block(self.arrays[value])

    def _in_block(self, array: str) -> str:
        return f"{array}[{self.axis.name} - part]"

    def _stream_arrays(self) -> list[str]:
        return [
            f"alignas(64) {CPP_TYPES[store.attrs['buffer'].dtype]} {array}[{BLOCK}];"
            for store, array in self.streams.items()
        ]

    # --- the text -----------------------------------------------------------------------------------------------

    def print(self, begin: str, end: str, accumulators: Sequence[Accumulator], far: str) -> None:
        """From `begin` to `end`, which are no more than a block apart where there are accumulators."""
        out = self.rows.out
        if accumulators:  # one block: gcc makes loops of one turn in loops of two turns (rows of 1024) half as fast
            out.open("")
            out.add(f"const int64_t part = {begin}, stop = {end};")
            self._phases(accumulators, far)
            out.close()
            return
        # One long row has few ends; four copies of its body (few elements, or threads) gcc no longer vectorises.
        apart = bool(self.rows.outer) and has_rest_apart(self.axis, self._size())
        with out.blocks("part", "stop", begin, end, self._size(), apart):
            self._phases(accumulators, far)

    def _phases(self, accumulators: Sequence[Accumulator], far: str) -> None:
        """The work on the block [part, stop)."""
        out = self.rows.out
        out.add(*self._stream_arrays())
        if self.vectors:
            out.add("#ifdef MC_VECTORS")
            places = {store: self._in_block(array) for store, array in self.streams.items()}
            cpp_vectors.print_block(self.rows, self.axis, self.k, self.loop, places)
            out.add("#else")
        self._print_phases(accumulators, far)
        if self.vectors:
            out.add("#endif")
        for store, array in self.streams.items():
            target = f"const int64_t {self.axis.name} = part; mc_stream(&{element_text(store)}, {array}"
            out.add(f"{{ {target}, (stop - part) * sizeof(*{array})); }}")

    def _print_phases(self, accumulators: Sequence[Accumulator], far: str) -> None:
        self.rows.out.add(*self._assign_arrays())
        self.rows.fetch_ahead(self.axis, "part", "stop", self.k)
        for phase in range(self.last + 1):
            self._loop_of(phase, accumulators, far)
            for value in self.loop:
                if self._is_call(value) and self.phase[value] == phase:
                    self._call(value)

    def _size(self) -> int:
        """Elements of a block: many where there are no arrays, or only for other processors. A short row of a size not
        known is a block of constant length and the rest."""
        if (self.whole is not None or self.vectors) and not self.streams:
            return WHOLE
        short = not isinstance(self.axis.size, int) and 16 <= self.axis.hint < BLOCK
        return 1 << self.axis.hint.bit_length() - 1 if short else BLOCK

    def _loop_of(self, phase: int, accumulators: Sequence[Accumulator], far: str) -> None:
        shown, out = self.shown[phase], self.rows.out
        if not shown:
            return
        clauses = [acc.clause() for acc in accumulators if acc.value in shown] + [far]
        out.add(" ".join(["#pragma omp simd", *clauses]).rstrip())
        out.open(f"for (int64_t {self.axis.name} = part; {self.axis.name} < stop; ++{self.axis.name})")
        for value in shown:
            name = self.rows.names[value]
            if not self._is_computed(value, phase):
                out.add(f"const {CPP_TYPES[value.dtype]} {name} = {self._place(value)};")
                continue
            text = self.rows.statement(value, self.k)
            if value in self.streams:
                text = f"{self._in_block(self.streams[value])} = {text.partition(' = ')[2]}"
            out.add(text)
            if value in self.arrays:
                out.add(f"{self._place(value)} = {name};")
        for call in self.loop:
            if self._is_call(call) and self.phase[call] == phase and not self._reads_memory(call):
                out.add(f"{self._target(call)} = {self.rows.names[call.args[0]]};")
        out.close()

    def _call(self, call: Value) -> None:
        """The block function, from where its operand lies to where its result is to lie."""
        out = self.rows.out
        target = self._target(call)
        source = element_text(call.args[0]) if self._reads_memory(call) else target
        function = block_function(call, alone=self.whole is not None)
        start = f"const int64_t {self.axis.name} = part;"
        out.add(f"{{ {start} {function}(&{source}, &{target}, stop - part); }}")

    def _target(self, call: Value) -> str:
        """Where the call's result goes, and its operand before."""
        if self.whole is None:
            return self._place(call)
        return self._in_block(self.streams[self.whole]) if self.whole in self.streams else element_text(self.whole)
