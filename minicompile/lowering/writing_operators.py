"""Custom operators that write to their arguments, in a form that writes to none.

In: an operator from outside ATen whose schema says that it writes. Out: a function that does the same by an operator
without effects, which copies what is written, and by `copy_`, which functionalization knows how to follow.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from .errors import LoweringError

_LIBRARY = torch.library.Library("minicompile", "FRAGMENT")
_ALIAS = re.compile(r"\(\w+!?( -> \w+)?\)")


def without_writes(target: Any) -> Callable[..., Any] | None:
    """What tracing calls in the place of a custom operator that writes; None for anything else.

    Raises LoweringError for one that writes to something else than single tensors.
    """
    if isinstance(target, torch._ops.OpOverloadPacket) and len(target.overloads()) == 1:
        target = getattr(target, target.overloads()[0])
    if not isinstance(target, torch._ops.OpOverload) or target.namespace in ("aten", "prims", "prim"):
        return None
    return _replacement(target) if target._schema.is_mutable else None


@functools.cache
def _replacement(op: Any) -> Callable[..., Any]:
    written = [i for i, argument in enumerate(op._schema.arguments) if _is_written(argument)]
    if any(str(op._schema.arguments[i].type) != "Tensor" for i in written) or any(map(_is_alias, op._schema.returns)):
        raise LoweringError(f"{op} writes to a list of tensors, or returns what it writes to")
    pure = _define(op, written)

    def call(*args: Any, **kwargs: Any) -> Any:
        values = _in_order(op, args, kwargs)
        if any(isinstance(value, torch.Tensor) and value.requires_grad for value in values):
            raise LoweringError(f"{op} writes to its arguments, and has no gradient")
        found = pure(*values)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        own, news = results[: len(results) - len(written)], results[len(results) - len(written) :]
        for i, new in zip(written, news, strict=True):
            values[i].copy_(new)
        return own[0] if len(own) == 1 else tuple(own) or None

    return call


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_alias(result: Any) -> bool:
    return result.alias_info is not None


def _in_order(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments by position, defaults filled in."""
    rest = op._schema.arguments[len(args) :]
    return [*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest)]


def _define(op: Any, written: list[int]) -> Any:
    """The operator that returns op's results and the new values of what it writes."""

    def run(*values: Any) -> tuple[Any, ...]:
        copies = [value.clone() if i in written else value for i, value in enumerate(values)]
        results = op(**{a.name: copy for a, copy in zip(op._schema.arguments, copies, strict=True)})
        own = () if results is None else results if isinstance(results, tuple) else (results,)
        return _one_or_all((*own, *(copies[i] for i in written)))

    name = re.sub(r"\W", "_", str(op))
    arguments = ", ".join(f"{_ALIAS.sub('', str(argument.type))} {argument.name}" for argument in op._schema.arguments)
    returns = ", ".join([*(str(result.type) for result in op._schema.returns), *("Tensor" for _ in written)])
    _LIBRARY.define(f"{name}({arguments}) -> ({returns})")
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"minicompile::{name}", run, lib=_LIBRARY)
    return getattr(torch.ops.minicompile, name).default


def _one_or_all(results: tuple[Any, ...]) -> Any:
    return results[0] if len(results) == 1 else results
