"""Torch's operators that take functions and loop over tensors.

In: a call of `associative_scan`, `scan` or `map` of `torch._higher_order_ops`. Out: its steps as part of the graph.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch.utils import _pytree as pytree

from .. import scan_polyfills
from ..breaks import unsupported_call
from .base import Value
from .callables import RULES, function_name, traced_as
from .constant import ConstantValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

MAX_UNROLLED = 64
"""How many steps of a loop are traced one by one."""


def _unrolled(original: Any, polyfill: Any, tr: Tracer, fn: Value, *args: Value, **kwargs: Value) -> Value:
    over = kwargs.get("xs") or args[-1 if original is scan else 0]
    if _steps(tr, over, kwargs.get("dim")) > MAX_UNROLLED:
        raise unsupported_call(f"{function_name(original)}()", f"has more than {MAX_UNROLLED} steps")
    return tr.constant(polyfill).call(tr, [fn, *args], kwargs)


def _steps(tr: Tracer, xs: Value, dim: Value | None) -> int:
    """How many steps a loop over a tree of tensors takes."""
    leaves = tr.constant(pytree.tree_leaves).call(tr, [xs], {}).realize(tr).items(tr)
    first = leaves[0].realize(tr) if leaves else ConstantValue(0)
    place = dim.realize(tr).const(tr) if dim is not None else 0
    return int(first.fake.shape[place]) if isinstance(first, TensorValue) else 0


traced_as(associative_scan, scan_polyfills.associative_scan)
RULES[scan] = functools.partial(_unrolled, scan, scan_polyfills.scan)
RULES[torch_map] = functools.partial(_unrolled, torch_map, scan_polyfills.map)
