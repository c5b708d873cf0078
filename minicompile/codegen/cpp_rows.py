"""Row kernels in C++: a loop over the rows (or over a pointwise kernel's outer axes), and in it the loops of `stages`.

In: a `Kernel`. Out: the text of its C++ function.

In a pointwise kernel the innermost axis plays the part of the row. Values that a later loop needs lie in row buffers
on the stack, or on the heap where rows are long. A single long row is cut into chunks that go to the threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from ..ir.ops import SCANS
from ..ir.symbols import dim_text, dims_product
from ..ir.types import Dim
from . import cpp_gathers, cpp_lanes, cpp_places, cpp_softmaxes, cpp_squares
from .cpp_blocks import BLOCK, BlockLoop, has_rest_apart, pays
from .cpp_reduce import RUN, Accumulator
from .cpp_text import CPP_TYPES, expression, fast_text, has_fast_form, size_declaration, store_text
from .cpp_traffic import LINE, Traffic
from .kernel_ir import INDEX_ERROR, Axis, Buffer, Kernel, Value
from .softmaxes import sums_to_one_or_more
from .stages import Stages, stage

GRAIN = 16384
"""Elements below which starting threads costs more than it saves."""

SHARE = 4096
"""Elements of a pointwise kernel that one thread takes at a time: a page or more of every operand."""

SPLIT = 65536
"""Elements of a single row from which its loops are split over threads."""

CHUNK = 16384
"""Elements that one thread takes at a time from a single row; the order of joining depends on nothing else."""

KEEP_ON_STACK = 32768
"""Bytes of row buffers up to which they lie on the stack."""

KEEP_AT_MOST = 65536
"""Elements of a row up to which values are kept: beyond the caches, exp is cheaper than a trip to memory."""

COSTLIEST = 64
"""Cost (op table's) of an element's work from which memory does not set the pace, and loops had better be long."""

RECOMPUTE = 8
"""Cost up to which a value is computed again in a later loop instead of kept."""


@dataclass(frozen=True)
class Part:
    """What one run computes.

    Attributes:
        axis: the last inner axis; None in a kernel that has none.
        begin, end: C++ for its first element and the one behind its last.
        k: the loop (see stages.py) that it is of.
        loop: what that computes.
        accumulators: where its reductions go.
    """

    axis: Axis | None
    begin: str
    end: str
    k: int
    loop: Sequence[Value]
    accumulators: Sequence[Accumulator] = ()


class Lines:
    """Text under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def add(self, *lines: str) -> None:
        self.lines.extend("  " * self.depth + line if not line.startswith("#") else line for line in lines)

    def open(self, line: str) -> None:
        self.add(f"{line} {{".lstrip())
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")

    @contextmanager
    def closure(self, name: str, parameters: str) -> Iterator[None]:
        """A lambda that is inlined wherever it is called."""
        self.open(f"const auto {name} = [&]({parameters}) __attribute__((always_inline))")
        yield
        self.depth -= 1
        self.add("};")

    @contextmanager
    def blocks(
        self, first: str, last: str, begin: str, end: str, step: int, rest_apart: bool = False
    ) -> Iterator[None]:
        """A loop over blocks [first, last) of `step` elements, of which the last may be shorter. `rest_apart`: its body
        is a lambda with two calls, for whole blocks and for the rest."""
        self.open(f"for (int64_t {first} = {begin}; {first} < {end}; {first} += {step})")
        if not rest_apart:
            self.add(f"const int64_t {last} = {first} + {step} < {end} ? {first} + {step} : {end};")
            yield
        else:
            with self.closure(f"from_{first}", f"const int64_t {last}"):
                yield
            self.add(f"if ({first} + {step} <= {end}) from_{first}({first} + {step}); else from_{first}({end});")
        self.close()


def _on_one_thread(lines: Sequence[str]) -> list[str]:
    """The body of a function that calls MKL's: each thread of its parallel regions keeps MKL to itself."""
    name, region = "one_thread", "#pragma omp parallel"
    shared = [f"{line} firstprivate({name})" if line.startswith(region) else line for line in lines]
    return [f"  mc_OneThread {name};", *shared]


class RowPrinter:
    """Prints one kernel. A subclass that walks rows in another way overrides `body` and `plan`."""

    calls_blocks = True
    stores_past_caches = True
    joins_loops = True

    def __init__(self, kernel: Kernel, at_once: int = 1) -> None:
        """`at_once`: rows that one row of the kernel stands for (row_pairs.py)."""
        self.kernel, self.at_once = kernel, at_once
        parallel = kernel.of_kind("parallel")
        self.inner = kernel.of_kind("reduce") if kernel.is_reduction else parallel[-1:]
        self.outer = parallel if kernel.is_reduction else parallel[:-1]
        self.stages = self.plan()
        self.names = {value: f"v{i}" for i, value in enumerate(kernel.body)}
        self.kept = {value: f"kept{i}" for i, value in enumerate(self.stages.kept)}
        self.places = cpp_places.places(self) if self.joins_loops else {}
        self.traffic = self.plan_traffic()
        self.gathers = cpp_gathers.gathers(self)
        self.streamed = self._stored_past_caches()
        self.online = cpp_softmaxes.online_sums(self) if self.joins_loops else {}
        self.exp_sums = cpp_softmaxes.exp_sums(self) if self.joins_loops else {}
        self.deviations = cpp_squares.deviations(self) if self.joins_loops else {}
        self.squares = cpp_squares.squares(self)
        self.tops = cpp_softmaxes.tops(self)
        self.out = Lines()
        self.is_fast = False

    def plan(self) -> Stages:
        limit = RECOMPUTE if self.kernel.hint("reduce") <= KEEP_AT_MOST else 1 << 30
        return stage(self.kernel, frozenset(axis.name for axis in self.inner), limit)

    def plan_traffic(self) -> Traffic:
        loops = [[] if k - 1 in self.places else loop for k, loop in enumerate(self.stages.loops)]
        heavy = [self.has_block_calls(k, loop) for k, loop in enumerate(loops)]
        return Traffic(self.kernel, self.outer, self.inner, loops, heavy)

    def _stored_past_caches(self) -> frozenset[Value]:
        """The streaming stores: those of loops that go block by block. The threads must end with a fence."""
        if not self.stores_past_caches or not self.inner:
            return frozenset()
        loops = [loop for k, loop in enumerate(self.stages.loops) if self._is_blocked(self.inner[-1], k, loop)]
        return frozenset(value for loop in loops for value in loop if self.traffic.streams(value))

    @property
    def splits_row(self) -> bool:
        """One long row: its loops, not the rows, go to the threads."""
        long = not self.outer and len(self.inner) == 1 and self.inner[0].hint >= SPLIT
        return long and self.kernel.is_reduction and not any(value.op == "scan" for value in self.kernel.body)

    @property
    def keeps_on_heap(self) -> bool:
        size = dims_product(axis.size for axis in self.inner)
        return bool(self.kept) and (not isinstance(size, int) or size * 8 * len(self.kept) > KEEP_ON_STACK)

    # --- the frame ----------------------------------------------------------------------------------------------

    def text(self, name: str | None = None) -> str:
        """The function, under the kernel's name or another."""
        name = name or self.kernel.name
        head = [*self._comments(), f'extern "C" int {name}(void **buffers, const int64_t *sizes) {{']
        for i, symbol in enumerate(self.kernel.symbols):
            self.out.add(size_declaration(symbol, i))
        restrict = "__restrict " if self.kernel.is_reduction else ""  # a pointwise output may lie over an input
        for i, buffer in enumerate(self.kernel.buffers):
            type = CPP_TYPES[buffer.dtype]
            star = f"{type} *{restrict}" if buffer.output else f"const {type} *"
            self.out.add(f"{star}{buffer.name} = ({'' if buffer.output else 'const '}{type} *)buffers[{i}];")
        if self.kernel.may_fail:
            self.out.add("int bad_index = 0;")
        self.body()
        calls_mkl = any("_vml(" in line for line in self.out.lines)
        lines = _on_one_thread(self.out.lines) if calls_mkl else self.out.lines
        result = f"bad_index ? {INDEX_ERROR} : 0" if self.kernel.may_fail else "0"
        return "\n".join([*head, *lines, f"  return {result};", "}"])

    def body(self) -> None:
        if self.keeps_on_heap:
            self._with_heap()
        elif not self.outer and not self.kernel.is_reduction:
            self._rows(0)
            self._flat_loop()
        else:
            self._row_loop("parallel for")

    def _comments(self) -> list[str]:
        origins = dict.fromkeys(str(value.origin) for value in self.kernel.body if value.origin)
        return [f"// {origin}".replace("\\", "/").replace("\n", " ") for origin in origins]

    def _if_worth_it(self) -> str:
        """The OpenMP clause that keeps small work on one thread."""
        work = self._work()
        return "" if isinstance(work, int) and work > GRAIN else f" if({dim_text(work, 'cpp')} > {GRAIN})"

    def _is_small(self) -> bool:
        work = self._work()
        return isinstance(work, int) and work <= GRAIN

    def _work(self) -> Dim:
        """Elements in all."""
        return self.at_once * dims_product(axis.size for axis in self.kernel.axes)

    def _for(self, axis: Axis) -> str:
        name = axis.name
        return f"for (int64_t {name} = 0; {name} < {dim_text(axis.size, 'cpp')}; ++{name})"

    def _flat_loop(self) -> None:
        """A pointwise kernel over one axis, or over none. Threads get whole blocks, whose starts are aligned."""
        loop = [value for values in self.stages.loops for value in values]
        if not self.inner or self._is_small():
            self._runs(Part(self.inner[0] if self.inner else None, "0", self._size(), 0, loop))
        else:
            self._flat_loop_of_threads(loop)
        if self.inner and self.stages.loops:  # none if all is stored at one place, by strides of 0
            self._rows(1)

    def _flat_loop_of_threads(self, loop: Sequence[Value]) -> None:
        """With a branch for few elements where there may be few: to enter a parallel region, even one whose `if` is
        false, costs more than their work."""
        size, may_be_small = self._size(), not isinstance(self.inner[0].size, int)
        if may_be_small:
            self.out.open(f"if ({size} <= {GRAIN})")
            self._runs(Part(self.inner[0], "0", size, 0, loop))
            self.out.add(*(["mc_fence();"] if self.streamed else []))
            self.out.close()
            self.out.open("else")
        with self._threads("parallel for", 1):
            with self.out.blocks("begin", "end", "0", size, SHARE):
                self._runs(Part(self.inner[0], "begin", "end", 0, loop))
        if may_be_small:
            self.out.close()

    def _size(self) -> str:
        """Of the last inner axis."""
        return dim_text(self.inner[-1].size, "cpp") if self.inner else ""

    def _row_loop(self, directive: str, first: str = "") -> None:
        """All rows, and in each the loops of the stages with the row-level code between them."""
        shared = bool(self.outer) and not self._is_small()
        with self._threads(directive, len(self.outer)) if shared else nullcontext():
            for axis in self.outer:
                self.out.open(self._for(axis))
            if first:
                self.out.add(first)
            self.print_row()
            for _ in self.outer:
                self.out.close()

    def print_row(self) -> None:
        """One row: the loops and what stands between them."""
        cpp_gathers.print_next(self)
        if not self.keeps_on_heap:
            self._declare_kept()
        for k, loop in enumerate(self.stages.loops):
            self._rows(k)
            if k - 1 not in self.online:
                self._loop(k, loop)
        self._rows(len(self.stages.loops))

    @contextmanager
    def _threads(self, directive: str, loops: int) -> Iterator[None]:
        """Give the loops that are opened first within to the threads: a `parallel for`, or a `for` of a region that is
        open. A thread that has streamed its share waits for the stores at the end."""
        collapse = f" collapse({loops})" if loops > 1 else ""
        if directive == "for":
            self.out.add(f"#pragma omp for{collapse} schedule(static)")
        elif self.streamed:
            self.out.add(f"#pragma omp parallel{self._if_worth_it()}")
            self.out.open("")
            self.out.add(f"#pragma omp for{collapse} schedule(static) nowait")
        else:
            self.out.add(f"#pragma omp parallel for{collapse} schedule(static){self._if_worth_it()}")
        yield
        if self.streamed:
            self.out.add("mc_fence();")
            if directive != "for":
                self.out.close()

    def _declare_kept(self) -> None:
        size = dim_text(dims_product(axis.size for axis in self.inner), "cpp")
        for value, name in self.kept.items():
            self.out.add(f"alignas(64) {CPP_TYPES[value.dtype]} {name}[{size}];")

    def _with_heap(self) -> None:
        """Row buffers too large for the stack: one set a thread. The kernel returns 1 where there is no memory."""
        if not self.outer or self._is_small():
            self._allocate()
            self.out.add(f"if ({self._missing()}) {{ {self._free()} return 1; }}")
            self._row_loop("for")
            self.out.add(self._free())
            return
        self.out.add("int failed = 0;", f"#pragma omp parallel{self._if_worth_it()}")
        self.out.open("")
        self._allocate()
        self.out.add(f"const bool missing = {self._missing()};",
                     "if (missing) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);")
        self._row_loop("for", "if (missing) continue;")  # a shared loop must be met by every thread
        self.out.add(self._free())
        self.out.close()
        self.out.add("if (failed) return 1;")

    def _allocate(self) -> None:
        size = dim_text(dims_product(axis.size for axis in self.inner), "cpp")
        for value, name in self.kept.items():
            type = CPP_TYPES[value.dtype]
            self.out.add(f"{type} *__restrict {name} = ({type} *)__builtin_malloc(sizeof({type}) * ({size} + 1));")

    def _missing(self) -> str:
        return " || ".join(f"!{name}" for name in self.kept.values())

    def _free(self) -> str:
        return " ".join(f"__builtin_free({name});" for name in self.kept.values())

    # --- one loop -----------------------------------------------------------------------------------------------

    def _rows(self, k: int) -> None:
        self._block(self.stages.rows[k])

    def _loop(self, k: int, loop: Sequence[Value]) -> None:
        """One pass over the row."""
        if k - 1 in self.places:
            cpp_places.print_search(self, k - 1)
            return
        accumulators = self._accumulators(k, loop)
        self.out.add(*(acc.declare_total() for acc in accumulators))
        self.out.add(*(self._declare_carry(value) for value in loop if self._is_scanned(value, k)))
        if self.splits_row:
            self._split_pass(k, loop, accumulators)
        elif k in self.deviations:
            cpp_squares.print_without_loop(self, k, accumulators, lambda: self._pass(k, loop, accumulators))
        else:
            self._pass(k, loop, accumulators)
        self.out.add(*(acc.finish() for acc in accumulators))

    def _accumulators(self, k: int, loop: Sequence[Value]) -> list[Accumulator]:
        if k in self.online:
            return [self.online[k]]
        reduced = [value for value in loop if value.op == "reduce"]
        squares = [self.squares[value] for value in reduced if value in self.squares]
        return [*(self._accumulator(value, k) for value in reduced), *squares]

    def _accumulator(self, value: Value, k: int) -> Accumulator:
        """Where a reduction of loop k goes."""
        notes = k in self.places and self.places[k].extremum is value
        return (cpp_places.Extremum if notes else Accumulator)(value, self.names[value])

    def _computed(self, k: int, loop: Sequence[Value]) -> list[Value]:
        """The values that loop k computes, and does not read back from where an earlier loop kept them."""
        return [value for value in loop if self.stages.kept.get(value, k) >= k]

    def _is_scanned(self, value: Value, k: int) -> bool:
        """Whether loop k runs this scan (and does not read back what an earlier loop kept)."""
        return value.op == "scan" and self.stages.kept.get(value, k) >= k

    def _declare_carry(self, value: Value) -> str:
        """What a scan carries from element to element: as eager does, a double for floats, a float for half types."""
        type = "double" if value.dtype == torch.float32 and not value.attrs.get("half") else CPP_TYPES[value.dtype]
        return f"{type} carry_{self.names[value]} = {SCANS[value.attrs['kind']].identity(value.dtype)};"

    def _pass(self, k: int, loop: Sequence[Value], accumulators: Sequence[Accumulator]) -> None:
        opened = 0
        for axis in self.inner[:-1]:
            self.out.open(self._for(axis))
            opened += 1
        if not self.inner:
            self._runs(Part(None, "", "", k, loop, accumulators))
        else:
            last, size = self.inner[-1], self._size()
            run = self._run_length(k, loop)
            if accumulators and not (isinstance(last.size, int) and last.size <= run):
                with self.out.blocks("begin", "end", "0", size, run, has_rest_apart(last, run)):
                    self._runs(Part(last, "begin", "end", k, loop, accumulators))
            else:
                self._runs(Part(last, "0", size, k, loop, accumulators))
        for _ in range(opened):
            self.out.close()

    def _run_length(self, k: int, loop: Sequence[Value]) -> int:
        """Elements that are joined in the register type: few where additions round, else a block."""
        if k in self.online or k in self.exp_sums or k in self.tops:
            return cpp_softmaxes.BLOCK
        if k in self.places:
            return cpp_places.BLOCK
        rounds = any(value.op == "reduce" and value.attrs["kind"] in ("sum", "prod") for value in loop)
        if self.has_lanes(self.inner[-1], k, loop):
            return cpp_lanes.run_length(self.inner[-1], self.at_once)
        return BLOCK if not rounds or self.has_block_calls(k, loop) else RUN

    def has_lanes(self, axis: Axis | None, k: int, loop: Sequence[Value]) -> bool:
        """Whether the loop keeps an accumulator for each lane (cpp_lanes.py); one of a form of its own does not."""
        return axis is not None and self.is_plain(k, loop) and cpp_lanes.pay(axis, loop, self.at_once)

    def is_plain(self, k: int, loop: Sequence[Value]) -> bool:
        """Whether one element after the other is computed, each by itself, in the usual forms of functions."""
        special = any(self._is_scanned(value, k) or has_fast_form(value) for value in loop)
        return not special and not self.has_block_calls(k, loop)

    def has_block_calls(self, k: int, loop: Sequence[Value]) -> bool:
        """Whether the loop calls block functions."""
        return self.calls_blocks and bool(self.inner) and pays(self.inner[-1], self._computed(k, loop))

    def _is_blocked(self, axis: Axis, k: int, loop: Sequence[Value]) -> bool:
        """Whether the loop goes block by block: for functions that work so, or to store or fetch as `traffic` says."""
        if self.has_block_calls(k, loop):
            return True
        reduces = any(value.op == "reduce" for value in loop)
        heavy = cpp_lanes.cost_of(loop) > COSTLIEST
        travels = any(map(self.traffic.streams, loop)) or bool(self.traffic.ahead(k))
        return travels and not reduces and not heavy

    def _runs(self, part: Part) -> None:
        """One vectorised run, joined into the totals."""
        axis, k, loop, accumulators = part.axis, part.k, part.loop, part.accumulators
        if axis is not None and k in self.online:
            cpp_softmaxes.print_online(self, axis, part.begin, part.end, k)
            return
        lanes = self.has_lanes(axis, k, loop)
        self.out.add(*(acc.declare_run(wide=lanes or k in self.exp_sums) for acc in accumulators))
        if accumulators and axis is not None and not lanes and not self._is_blocked(axis, k, loop):
            self.fetch_ahead(axis, part.begin, part.end, k)
        fast = axis is not None and any(map(has_fast_form, self._computed(k, loop)))
        if fast:
            self.out.add("int32_t far = 0;")
            self._simd_loop(part, fast=True)
            self.out.open("if (__builtin_expect(far, 0))")
            self.out.add(*(acc.reset_run() for acc in accumulators))
        self._simd_loop(part)
        if fast:
            self.out.close()
        self.out.add(*(acc.join(acc.run_result()) for acc in accumulators))

    def _simd_loop(self, part: Part, fast: bool = False) -> None:
        """The loop of a run. `fast`: with the fast forms of functions, counting in `far` the arguments beyond them."""
        axis, begin, end, k, loop = part.axis, part.begin, part.end, part.k, part.loop
        if axis is None:
            self._block(loop, k)
            return
        if k in self.exp_sums or k in self.tops:
            print_part = cpp_softmaxes.print_exp_sum if k in self.exp_sums else cpp_softmaxes.print_top
            print_part(self, axis, begin, end, k)
            return
        scans = any(self._is_scanned(value, k) for value in loop)
        self.is_fast = fast and not scans
        if not scans and self._is_blocked(axis, k, loop):
            far = "reduction(|:far)" if self.is_fast else ""
            BlockLoop(self, axis, k, loop, self.has_block_calls(k, loop)).print(begin, end, part.accumulators, far)
        elif self.has_lanes(axis, k, loop):
            fetch = partial(self.fetch_ahead, axis, k=k)
            body, width = partial(self._block, loop, k), cpp_lanes.width(self.at_once)
            cpp_lanes.print_run(self.out, axis, begin, end, part.accumulators, body, fetch, width)
        else:
            self._element_loop(axis, part, scans)
        self.is_fast = False

    def _element_loop(self, axis: Axis, part: Part, scans: bool) -> None:
        """One element after the other; what carries nothing on but its accumulators, in vectors."""
        if not scans:
            clauses = [acc.clause() for acc in part.accumulators] + (["reduction(|:far)"] if self.is_fast else [])
            self.out.add(" ".join(["#pragma omp simd", *clauses]))
        self.out.open(f"for (int64_t {axis.name} = {part.begin}; {axis.name} < {part.end}; ++{axis.name})")
        self._block(part.loop, part.k)
        self.out.close()

    def _split_pass(self, k: int, loop: Sequence[Value], accumulators: Sequence[Accumulator]) -> None:
        """One long row over threads: chunks of fixed size, joined in order, so that the result does not depend on the
        number of threads."""
        axis = self.inner[0]
        size = dim_text(axis.size, "cpp")
        self.out.add(f"const int64_t chunks{k} = ({size} + {CHUNK - 1}) / {CHUNK};")
        for acc in accumulators:
            self.out.add(f"{acc.total_type} *parts_{acc.name} = ({acc.total_type} *)"
                         f"__builtin_malloc(sizeof({acc.total_type}) * (chunks{k} + 1));",
                         f"if (!parts_{acc.name}) return 1;")
        with self._threads("parallel for", 1):
            self.out.open(f"for (int64_t chunk = 0; chunk < chunks{k}; ++chunk)")
            self.out.add(*(acc.declare_total() for acc in accumulators))
            self.out.add(f"const int64_t stop = (chunk + 1) * {CHUNK} < {size} ? (chunk + 1) * {CHUNK} : {size};")
            run = self._run_length(k, loop)
            with self.out.blocks("begin", "end", f"chunk * {CHUNK}", "stop", run, has_rest_apart(axis, run)):
                self._runs(Part(axis, "begin", "end", k, loop, accumulators))
            self.out.add(*(f"parts_{acc.name}[chunk] = {acc.total};" for acc in accumulators))
            self.out.close()
        if accumulators:
            self.out.open(f"for (int64_t chunk = 0; chunk < chunks{k}; ++chunk)")
            self.out.add(*(acc.join(f"parts_{acc.name}[chunk]") for acc in accumulators))
            self.out.close()
        self.out.add(*(f"__builtin_free(parts_{acc.name});" for acc in accumulators))

    def fetch_ahead(self, axis: Axis, begin: str, end: str, k: int) -> None:
        """Ask for the cache lines that loop k's elements from `begin` to `end` stand for."""
        for fetch in self.traffic.ahead(k):
            buffer, index = fetch.load.attrs["buffer"], fetch.load.attrs["index"]
            place = f"{index.text('cpp')} + {dim_text(fetch.distance, 'cpp')}"
            self.ask(axis, begin, end, buffer, place, fetch.cache)
        if k == 0:
            cpp_gathers.print_fetch(self, axis, begin, end)

    def ask(self, axis: Axis, begin: str, end: str, buffer: Buffer, place: str, cache: Literal["L1", "L2"]) -> None:
        """Prefetch the lines of a buffer from `place` on, an index over the axis."""
        name, step, locality = axis.name, LINE // buffer.dtype.itemsize, {"L1": 3, "L2": 2}[cache]
        self.out.add(f"for (int64_t {name} = {begin}; {name} < {end}; {name} += {step}) "
                     f"__builtin_prefetch({buffer.name} + {place}, 0, {locality});")

    # --- instructions -------------------------------------------------------------------------------------------

    def _block(self, values: Sequence[Value], k: int = 0) -> None:
        for value in values:
            self.out.add(self.statement(value, k))

    def statement(self, value: Value, k: int) -> str:
        """One instruction of loop k, and its row buffer's part in it."""
        args = [self.names[arg] for arg in value.args]
        if value.op == "store":
            buffer, index = value.attrs["buffer"], value.attrs["index"]
            return f"{buffer.name}[{index.text('cpp')}] = {store_text(buffer.dtype, args[0])};"
        if value.op == "reduce":
            squares = self.squares.get(value)
            and_square = f" {squares.take(f'{args[0]} * {args[0]}')}" if squares is not None else ""
            return Accumulator(value, self.names[value]).take(args[0]) + and_square
        name, kept = self.names[value], self.kept.get(value)
        if kept is not None and self.stages.kept[value] < k:
            return f"const {CPP_TYPES[value.dtype]} {name} = {kept}[{self.position()}];"
        right = self._scan_step(value, args[0]) if value.op == "scan" else expression(value, args)
        right = self._quotient_of_total(value) or self._share_of_one(value) or right
        if self.is_fast and has_fast_form(value):
            right = fast_text(value.op, args)
        text = f"const {CPP_TYPES[value.dtype]} {name} = {right};"
        return text if kept is None or self.stages.kept[value] != k else f"{text} {kept}[{self.position()}] = {name};"

    def _scan_step(self, value: Value, arg: str) -> str:
        sign = "+" if value.attrs["kind"] == "cumsum" else "*"
        return f"({CPP_TYPES[value.dtype]})({self.carry(value)} {sign}= {arg})"

    def carry(self, value: Value) -> str:
        """The variable that a scan carries along."""
        return f"carry_{self.names[value]}"

    def total(self, value: Value) -> str:
        """The variable that holds a finished reduction before it is rounded."""
        return f"total_{self.names[value]}"

    def _quotient_of_total(self, value: Value) -> str | None:
        """A mean or variance is divided before it is rounded: once, as in eager's own loops in double. A sum that
        overflows its type stays infinite."""
        if value.op != "div" or value in self.stages.block or value.args[0].op != "reduce":
            return None
        accumulator = Accumulator(value.args[0], self.names[value.args[0]])
        if accumulator.total_type == accumulator.type:
            return None
        sum, divisor = (self.names[arg] for arg in value.args)
        return f"mc_isinf({sum}) ? {sum} / {divisor} : ({accumulator.type})({self.total(value.args[0])} / {divisor})"

    def _share_of_one(self, value: Value) -> str | None:
        """An exponential over the sum of them, which is at least 1."""
        if value.op != "div" or not sums_to_one_or_more(value.args[1]) or value.args[0] is not value.args[1].args[0]:
            return None
        of, sum = (self.names[arg] for arg in value.args)
        return f"mc_share({of}, {sum}, 1.0f / {sum})"

    def position(self) -> str:
        """Place in a row buffer: row-major over the inner axes."""
        text = ""
        for axis in self.inner:
            text = f"({text})*{dim_text(axis.size, 'cpp')} + {axis.name}" if text else axis.name
        return text or "0"
