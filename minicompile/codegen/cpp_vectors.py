"""Loops of block functions in registers: exp, erf, … of vectors, between additions and products of vectors.

In: one loop of a row kernel's plan. Out: whether all of it can be written so, and its text.

By block functions (cpp_blocks.py) operands and results go through arrays, and lines of memory are asked for a block at
a time. Here each vector of 16 or 8 floats is loaded, computed and stored, and a line asked for between two of them:
layer_norm+gelu and swiglu take 0.89 of the time. It is for loops that only store: a handful of instructions, and
no more than one function whose table fills the registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..runtime.cpu import simd_name
from .cpp_text import element_text, expression
from .kernel_ir import Axis, Value

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

WIDTH = 16
"""Floats of a cache line: one vector of AVX-512, two of AVX2."""

SIMPLE = frozenset(("add", "sub", "mul", "div", "neg"))
"""Rows of the op table whose C++ is that of vectors as well."""

FUNCTIONS = {"exp": "mc_vexp", "log": "mc_vlog", "sigmoid": "mc_vsigmoid"}
"""Rows with a function of a vector (cpp_prelude_vectors.h)."""

TABLES = {"erf": "mc_verf", "tanh": "mc_vtanh"}
"""Rows with an object (cpp_prelude_blocks.h) that is called; in AVX-512 it holds a table in registers."""


def is_for(axis: Axis, loop: Sequence[Value]) -> bool:
    """Whether a loop that reads back and keeps nothing is of such values alone."""
    has_function = any(value.op in FUNCTIONS or value.op in TABLES for value in loop)
    return has_function and len(tables(loop)) <= 1 and all(_is_vector(axis, value) for value in loop)


def tables(loop: Sequence[Value]) -> set[str]:
    """The functions whose tables the loop would hold in registers."""
    return {value.op for value in loop if value.op in TABLES} if simd_name() == "avx512" else set()


def _is_vector(axis: Axis, value: Value) -> bool:
    if value.dtype is not torch.float32:
        return False
    if value.op in ("load", "store"):
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        indirect = value.op == "load" and bool(value.args)
        return not indirect and buffer.dtype is torch.float32 and index.is_contiguous(axis.name)
    return value.op in SIMPLE or value.op in FUNCTIONS or value.op in TABLES


def print_block(rows: RowPrinter, axis: Axis, k: int, loop: Sequence[Value], places: dict[Value, str]) -> None:
    """The work on [part, stop). `places`: where stores go that do not go to their buffer. The lanes of a last, shorter
    vector are masked."""
    out, name = rows.out, axis.name
    for table in dict.fromkeys(value.op for value in loop if value.op in TABLES):
        out.add(f"const {TABLES[table]} {table};")
    with out.closure("vector", f"const int64_t {name}, const auto lanes"):
        out.add(*(_statement(rows, value, places) for value in loop))
    out.open(f"for (int64_t line = part; line + {WIDTH} <= stop; line += {WIDTH})")
    rows.fetch_ahead(axis, "line", f"line + {WIDTH}", k)
    out.add(f"for (int64_t at = line; at < line + {WIDTH}; at += MC_LANES) vector(at, mc_Every());")
    out.close()
    if not isinstance(axis.size, int) or axis.size % WIDTH:
        out.open(f"for (int64_t rest = (stop - part) % {WIDTH}; rest > 0; rest -= MC_LANES)")
        out.add("vector(stop - rest, mc_First{mc_min(rest, MC_LANES)});")
        out.close()


def _statement(rows: RowPrinter, value: Value, places: dict[Value, str]) -> str:
    args = [rows.names[arg] for arg in value.args]
    if value.op == "store":
        return f"mc_vstore(&{places.get(value) or element_text(value)}, {args[0]}, lanes);"
    if value.op == "load":
        right = f"mc_vload(&{element_text(value)}, lanes)"
    elif value.op in FUNCTIONS or value.op in TABLES:
        right = f"{FUNCTIONS.get(value.op, value.op)}({args[0]})"
    else:
        right = expression(value, args)
    return f"const mc_vec {rows.names[value]} = {right};"
