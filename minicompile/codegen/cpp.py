"""Kernel IR → C++: plain scalar loops that gcc vectorises.

In: a `Kernel`. Out: one `extern "C" int NAME(void **buffers, const int64_t *sizes)` that returns 0, or 1 where memory
is missing; and, for a whole graph, one translation unit without a single include.

Index arithmetic is 64-bit. A reduction along what lies next to each other in memory is a row kernel, one across it a
column kernel; a pointwise kernel that reads a tensor across its rows is a tile kernel. Matrix products have loops of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from .cpp_columns import ColumnPrinter
from .cpp_math import prelude
from .cpp_pieces import PiecesPrinter, one_walk
from .cpp_products import ProductPrinter
from .cpp_rows import GRAIN, RowPrinter
from .cpp_scans import ScanPrinter, has_scan
from .cpp_tiles import TilePrinter, transposed_axis
from .kernel_ir import Batch, Kernel, lane_axis
from .matmul_kernel import Product
from .pieces import pieces_by_rows
from .row_pairs import joined, several

LARGE_MEMBER = 4 * GRAIN
"""Elements from which a member of a batch is worth all threads."""

HEAD = """\
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
"""


def translation_unit(kernels: Iterable[str]) -> str:
    """The kernels' texts with the functions they use."""
    source = "\n\n".join(kernels)
    return f"{HEAD}{prelude(source)}\n\n{source}\n"


def print_cpp(kernel: Kernel) -> str:
    """The kernel as a C++ function; one that is cut into pieces calls a function for each."""
    if isinstance(kernel, Batch):
        return _print_batch(kernel)
    if isinstance(kernel, Product):
        return ProductPrinter(kernel).text()
    printers = list(chain.from_iterable(_walks(parts) for parts in pieces_by_rows(kernel)))
    if len(printers) == 1:
        return printers[0].text(kernel.name)
    calls = " || ".join(f"(code = {printer.kernel.name}(buffers, sizes))" for printer in printers)
    main = [f'extern "C" int {kernel.name}(void **buffers, const int64_t *sizes) {{', "  int code;",
            f"  return {calls} ? code : 0;", "}"]  # fmt: skip
    return "\n".join([*(printer.text().replace('extern "C" int', "static int") for printer in printers), *main])


def _walks(parts: Sequence[Kernel]) -> list[RowPrinter]:
    """What prints these parts of the same rows: all in one walk where that can be."""
    printers = [_printer(part) for part in parts]
    return [PiecesPrinter(printers)] if len(printers) > 1 and one_walk(printers) else printers


def _print_batch(batch: Batch) -> str:
    """One function for the work, and one that calls it for each member: small members go to the threads, large ones
    use the threads themselves, and come first."""
    work = [kernel.hint("parallel") * kernel.hint("reduce") for kernel in batch.members]
    order = sorted(range(len(work)), key=lambda i: -work[i])
    large, sizes = sum(elements > LARGE_MEMBER for elements in work), batch.sizes()
    places = ", ".join(f"{{{', '.join(map(str, batch.places[i]))}}}" for i in order)
    lengths = ", ".join(str(sizes[i]) for i in order) if sizes else "0"
    given = "".join(f"sizes[{k}], " for k in range(len(batch.symbols)))
    count, width = len(order), len(batch.places[0])
    return f"""\
{print_cpp(batch.text).replace('extern "C" int', "static int")}
extern "C" int {batch.name}(void **buffers, const int64_t *sizes) {{
  static const int32_t places[{count}][{width}] = {{{places}}};
  static const int64_t lengths[] = {{{lengths}}};
  int failed = 0;
  auto run = [&](int64_t i) {{
    void *own[{width}];
    for (int k = 0; k < {width}; ++k) own[k] = buffers[places[i][k]];
    const int64_t own_sizes[] = {{{given}lengths[{"i" if sizes else "0"}]}};
    const int code = {batch.text.name}(own, own_sizes);
    if (code) __atomic_store_n(&failed, code, __ATOMIC_RELAXED);
  }};
  for (int64_t i = 0; i < {large}; ++i) run(i);
  #pragma omp parallel for schedule(dynamic, 1) if({sum(work[i] for i in order[large:])} > {GRAIN})
  for (int64_t i = {large}; i < {count}; ++i) run(i);
  return failed;
}}"""


def _printer(kernel: Kernel) -> RowPrinter:
    lane, across = lane_axis(kernel), transposed_axis(kernel)
    if lane is not None:
        return ColumnPrinter(kernel, lane)
    if has_scan(kernel):
        return ScanPrinter(kernel)
    return _row_printer(kernel) if across is None else TilePrinter(kernel, across)


def _row_printer(kernel: Kernel) -> RowPrinter:
    """For one row at a time, or for several."""
    rows = RowPrinter(kernel)
    found = several(rows)
    return rows if found is None else RowPrinter(joined(kernel, *found), found[1])
