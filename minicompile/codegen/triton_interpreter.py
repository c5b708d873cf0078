"""What Triton's interpreter lacks for kernels like ours: assertions, and reductions that end soon.

Triton reduces and scans element by element, each a call of the combining function in Python: 0.1 ms an element, most of
what an interpreted kernel takes. Here a call combines all neighbours of a block at once, log2(n) calls in all, and
rounds in a tree as the device does. The order of elements is kept: the function needs to be associative, no more.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

Blocks = list[np.ndarray[Any, Any]]
"""Operands that are combined together (a value and its place), the axis in question first."""


@functools.cache
def prepare_interpreter() -> None:
    """`tl.device_assert` is checked in the interpreter too, and blocks are combined as wholes."""
    from triton.runtime import interpreter

    options = replace(interpreter.interpreter_builder.options, debug=True, sanitize_overflow=False)
    interpreter.interpreter_builder.options = options
    interpreter.ReduceOps.generic_reduce = _reduced
    interpreter.ScanOps.generic_scan = _scanned


def _reduced(operation: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """`operation.axis` is None for all elements."""
    tensors, axis = operation.unravel(inputs, operation.axis)
    blocks = _axis_first(tensors, axis)
    while len(blocks[0]) > 1:
        blocks = _combined(operation, tensors, [b[::2] for b in blocks], [b[1::2] for b in blocks])
    results = [np.expand_dims(b[0], axis) if operation.keep_dims else b[0] for b in blocks]
    return [operation.to_tensor(r, tensor.dtype) for r, tensor in zip(results, tensors, strict=True)]


def _scanned(operation: Any, tensors: Sequence[Any]) -> list[Any]:
    """Each element takes in what ends a step before it: one before, then two, then four…"""
    blocks, step = _axis_first(tensors, operation.axis), 1
    while step < len(blocks[0]):
        before = [np.concatenate([block[:step], block[:-step]]) for block in blocks]  # a block's size is a power of two
        sums = _combined(operation, tensors, before, blocks)
        blocks = [np.concatenate([block[:step], total[step:]]) for block, total in zip(blocks, sums, strict=True)]
        step *= 2
    results = [np.moveaxis(block, 0, operation.axis) for block in blocks]
    return [operation.to_tensor(r, tensor.dtype) for r, tensor in zip(results, tensors, strict=True)]


def _axis_first(tensors: Sequence[Any], axis: int) -> Blocks:
    return [np.moveaxis(tensor.handle.data, axis, 0) for tensor in tensors]


def _combined(operation: Any, tensors: Sequence[Any], left: Blocks, right: Blocks) -> Blocks:
    """Elements of `left` with those of `right`, by the kernel's own function."""
    dtypes = [tensor.dtype for tensor in tensors]
    arguments = [operation.to_tensor(block, dtype) for side in (left, right)
                 for block, dtype in zip(side, dtypes, strict=True)]
    result = operation.combine_fn.fn(*arguments)
    parts = result if isinstance(result, tuple) else (result,)
    return [part.handle.data.astype(block.dtype) for part, block in zip(parts, left, strict=True)]
