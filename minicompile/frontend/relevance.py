"""Whether a frame is worth compiling: whether it may reach a tensor at all.

In: a function that the hook met below a graph break, and its argument slots. Out: yes or no. Code without tensors
(argument parsing, logging, a library's bookkeeping) gains nothing, and tracing it costs milliseconds.

The look is quick and may err: a no means that the frame runs in eager, its callees are still asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

_DEPTH = 3
_WIDTH = 8


def may_compute(func: FunctionType, slots: Iterable[Any]) -> bool:
    """Whether tensors, modules or torch itself can be seen from the arguments, closure or globals of a function."""
    if any(_leads_to_tensor(value, _DEPTH) for value in slots):
        return True
    cells = (cell.cell_contents for cell in func.__closure__ or () if _is_full(cell))
    if any(_leads_to_tensor(value, _DEPTH) for value in cells):
        return True
    return any(_is_torch_global(func.__globals__.get(name)) for name in _names(func.__code__))


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _is_torch_global(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] == "torch"
    if isinstance(value, (type, FunctionType)):
        return (getattr(value, "__module__", "") or "").split(".")[0] == "torch"
    return isinstance(value, (torch.Tensor, torch.nn.Module))


def _leads_to_tensor(value: Any, depth: int) -> bool:
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return True
    if depth == 0:
        return False
    return any(_leads_to_tensor(item, depth - 1) for item in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    """A few of the objects that hang on a value; no user code runs."""
    kind = type(value)
    if isinstance(value, (type, ModuleType)):
        return ()
    if kind in (list, tuple):
        return value[:_WIDTH]
    if kind is dict:
        return list(value.values())[:_WIDTH]
    if kind is MethodType:
        return (value.__self__,)
    if kind.__getattribute__ is not object.__getattribute__ or not kind.__dictoffset__:
        return ()
    return list(value.__dict__.values())[:_WIDTH]
