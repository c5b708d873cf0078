"""What Inductor's generated module says of itself: its kernels, what they compute, and the bytes that they move.

In: the Python text that `torch.compile` generates. Out: its kernels and extern calls in the order in which they run.
The text is parsed, not run: buffers have their sizes where they are allocated, inputs where the module makes examples
of them. A size that is no number (a symbol) is left open: bytes are then None. What an extern call returns is taken to
have the dtype of its first tensor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch

_OPS = re.compile(r"^(cpp|triton)_(fused|poi_fused|red_fused|per_fused|tem_fused)_(.*?)_?(\d+)$")

_IN_PLACE = re.compile(r"\bin_out_ptr\d+")


@dataclass(frozen=True)
class InductorKernel:
    """One launch. `ops` as the kernel's name tells them; `is_extern`: a call of ATen."""

    name: str
    ops: tuple[str, ...]
    source: str
    bytes: int | None
    is_extern: bool = False


@dataclass(frozen=True)
class _Buffer:
    bytes: int | None
    itemsize: int
    root: str


def kernels_of(code: str) -> list[InductorKernel]:
    """Every launch and extern call of a generated module, in order."""
    module = ast.parse(code)
    sources = dict(_kernel_sources(module))
    calls = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == "call"]
    if not calls:
        return []
    buffers = dict(_inputs(module))
    found = []
    for statement in calls[-1].body:
        _note_buffers(statement, buffers)
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            kernel = _launch(call, sources, buffers)
            if kernel is not None:
                found.append(kernel)
    return found


def _kernel_sources(module: ast.Module) -> Iterator[tuple[str, str]]:
    """`name = async_compile.cpp_pybinding(…, source)` and `name = async_compile.triton(name, source, …)`."""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func).startswith("async_compile."):
                texts = [a.value for a in node.value.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                yield ast.unparse(node.targets[0]), texts[-1] if texts else ""


def _inputs(module: ast.Module) -> Iterator[tuple[str, _Buffer]]:
    """The examples that the module's own benchmark makes: `arg0_1 = rand_strided(shape, strides, …, dtype=…)`."""
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef) and function.name == "get_args":
            for node in function.body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    name = ast.unparse(node.targets[0])
                    if ast.unparse(node.value.func) == "rand_strided":
                        yield name, _allocated(name, node.value)


def _allocated(name: str, call: ast.Call) -> _Buffer:
    """The memory of `empty_strided…(shape, strides, dtype)` or of `rand_strided(…, dtype=…)`."""
    dtype = next((keyword.value for keyword in call.keywords if keyword.arg == "dtype"), None)
    itemsize = _itemsize(dtype if dtype is not None else call.args[2])
    elements = _elements(call.args[0])
    return _Buffer(None if elements is None else elements * itemsize, itemsize, name)


def _itemsize(dtype: ast.expr) -> int:
    found = getattr(torch, ast.unparse(dtype).removeprefix("torch."), None)
    return found.itemsize if isinstance(found, torch.dtype) else 0


def _elements(shape: ast.expr) -> int | None:
    try:
        return prod(ast.literal_eval(shape))
    except (ValueError, TypeError):
        return None


def _note_buffers(statement: ast.stmt, buffers: dict[str, _Buffer]) -> None:
    if isinstance(statement, ast.Expr):
        _note_result(statement.value, buffers)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return
    name, value = statement.targets[0].id, statement.value
    if isinstance(value, ast.Subscript):  # one of several results of a call
        value = value.value
    if isinstance(value, ast.Name) and value.id in buffers:
        buffers[name] = buffers[value.id]
    elif isinstance(value, ast.Call):
        function = ast.unparse(value.func)
        if function.startswith("empty_strided") and len(value.args) >= 3:
            buffers[name] = _allocated(name, value)
        elif function == "reinterpret_tensor":
            buffers[name] = _view(value, buffers)
        elif function.startswith(("torch.ops.", "aten.", "extern_kernels.")):
            operands = [found for argument in value.args if (found := _buffer(argument, buffers)) is not None]
            buffers[name] = _Buffer(None, operands[0].itemsize if operands else 0, name)


def _note_result(call: ast.expr, buffers: dict[str, _Buffer]) -> None:
    """`assert_size_stride(buf6, shape, …)` tells the size of what an extern call returned."""
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "assert_size_stride":
        name = ast.unparse(call.args[0])
        known, elements = buffers.get(name), _elements(call.args[1])
        if known is not None and known.bytes is None and elements is not None and known.itemsize:
            buffers[name] = _Buffer(elements * known.itemsize, known.itemsize, known.root)


def _buffer(argument: ast.expr, buffers: dict[str, _Buffer]) -> _Buffer | None:
    """The memory behind an argument, or the part of it that a view shows."""
    if isinstance(argument, ast.Call) and ast.unparse(argument.func) == "reinterpret_tensor":
        return _view(argument, buffers)
    return buffers.get(argument.id) if isinstance(argument, ast.Name) else None


def _view(call: ast.Call, buffers: dict[str, _Buffer]) -> _Buffer:
    text = ast.unparse(call.args[0])
    base = buffers.get(text, _Buffer(None, 0, text))
    elements = _elements(call.args[1])
    size = None if elements is None or not base.itemsize else elements * base.itemsize
    return _Buffer(size, base.itemsize, base.root)


def _launch(call: ast.Call, sources: dict[str, str], buffers: dict[str, _Buffer]) -> InductorKernel | None:
    name = ast.unparse(call.func).removesuffix(".run")
    is_extern = name.startswith(("extern_kernels.", "torch.ops.", "aten.")) and name not in ("torch.ops.aten",)
    if name not in sources and not is_extern:
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "stream")]
    if is_extern:
        short = name.split(".")[-1] if "extern" in name else name.removeprefix("torch.ops.")
        return InductorKernel(short, (short,), "", _bytes(arguments, buffers, 0), True)
    in_place = len(set(_IN_PLACE.findall(sources[name])))
    return InductorKernel(name, _ops(name), sources[name], _bytes(arguments, buffers, in_place))


def _bytes(arguments: list[ast.expr], buffers: dict[str, _Buffer], in_place: int) -> int | None:
    """Each tensor once, and once more the first `in_place`, which are read and written."""
    moved: dict[str, int] = {}
    for position, argument in enumerate(arguments):
        buffer = _buffer(argument, buffers)
        if buffer is None:
            continue
        if buffer.bytes is None:
            return None
        whole = buffers[buffer.root].bytes if buffer.root in buffers else None
        size = buffer.bytes if whole is None else min(whole, moved.get(buffer.root, 0) + buffer.bytes)
        moved[buffer.root] = size * (1 + (position < in_place))
    return sum(moved.values())


def _ops(name: str) -> tuple[str, ...]:
    match = _OPS.match(name)
    return tuple(part for part in match[3].split("_") if part) if match else (name,)
