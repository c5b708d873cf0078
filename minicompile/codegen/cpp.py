"""Kernel IR → C++: plain scalar loops that gcc vectorises.

In: a `Kernel`. Out: one `extern "C" int NAME(void **buffers, const int64_t *sizes)` that returns 0, or 1 where memory
is missing; and, for a whole graph, one translation unit without a single include.

Index arithmetic is 64-bit. A reduction along what lies next to each other in memory is a row kernel, one across it a
column kernel; a pointwise kernel that reads a tensor across its rows is a tile kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from .cpp_columns import ColumnPrinter
from .cpp_math import prelude
from .cpp_rows import RowPrinter
from .cpp_tiles import TilePrinter, transposed_axis
from .kernel_ir import Kernel, lane_axis
from .pieces import pieces

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
    parts = pieces(kernel)
    if len(parts) == 1:
        return _print(kernel)
    calls = " || ".join(f"(code = {part.name}(buffers, sizes))" for part in parts)
    main = [f'extern "C" int {kernel.name}(void **buffers, const int64_t *sizes) {{', "  int code;",
            f"  return {calls} ? code : 0;", "}"]  # fmt: skip
    return "\n".join([*(_print(part).replace('extern "C" int', "static int") for part in parts), *main])


def _print(kernel: Kernel) -> str:
    lane, across = lane_axis(kernel), transposed_axis(kernel)
    if lane is not None:
        return ColumnPrinter(kernel, lane).text()
    return RowPrinter(kernel).text() if across is None else TilePrinter(kernel, across).text()
