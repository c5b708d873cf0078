"""An entry's text, apart from the values of the process that traced it.

In: the lines that tracing wrote, with holes for what is read from outside, and guards. Out: the generated function's
text and namespace. What another process recalls goes through the same function as what was just traced.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..guards import GuardSet, build_check
from ..guards.check import Check
from ..torch_compat import restore_modes, save_modes
from . import hook
from .sources import CONTAINERS, Source

if TYPE_CHECKING:
    from .segments import Segment

_HOLE = re.compile("\x00(\\d+)\x00")


def _annotations_of(parts: Any) -> dict[str, Any]:
    return parts if isinstance(parts, dict) else dict(zip(parts[::2], parts[1::2], strict=True))


GLUE_HELPERS: dict[str, Any] = {
    "__iter__": iter,
    "__next__": next,
    "__slice__": slice,
    "__tuple_new__": tuple.__new__,
    "__cell__": types.CellType,
    "__function__": types.FunctionType,
    "__method__": types.MethodType,
    "__partial__": functools.partial,
    "__object_new__": object.__new__,
    "__object_setattr__": object.__setattr__,
    "__object_delattr__": object.__delattr__,
    "__setattr__": setattr,
    "__annotations_of__": _annotations_of,
    "__set_grad__": torch._C._set_grad_enabled,
    "__inference_mode__": torch.inference_mode,
    "__save_modes__": save_modes,
    "__restore_modes__": restore_modes,
    **{f"__base_{base.__name__}__": base for base in CONTAINERS},
}
"""What glue texts call; in the namespace of every entry."""


@dataclass
class EntryText:
    """`lines` behind the check; hole number i in them stands for `sources[i]`. `namespace`: what the lines name."""

    lines: list[str]
    sources: list[Source]
    namespace: dict[str, Any]


def assemble(segment: Segment, guards: GuardSet, text: EntryText) -> tuple[str, dict[str, Any], Check]:
    """The function's text, its namespace, and the check."""
    parameters = segment.layout.parameters()
    check = build_check(guards, parameters, text.sources, on_death=segment.release)
    lines = [*check.lines, *(_filled(line, text.sources, check.expr) for line in text.lines)]
    head = f"def entry({', '.join(('__func__', *parameters))}):"
    whole = "\n".join((head, *(f"    {line}" for line in lines))) + "\n"
    return whole, {**check.namespace, **GLUE_HELPERS, **text.namespace}, check


def _filled(line: str, sources: list[Source], expr: Callable[[Source], str]) -> str:
    return _HOLE.sub(lambda match: expr(sources[int(match.group(1))]), line)


def surroundings(segment: Segment) -> dict[str, Any]:
    """What every entry's lines may need of the place that it stands in."""
    from .refusals import Conditions
    from .segments import Tail, drive

    ctx = segment.ctx
    return {
        "__failed__": segment.failed,
        "__hold__": Conditions(),
        "__run__": functools.partial(hook.run, ctx) if ctx.use_hook else ctx.call,
        "__run_off__": _run_off,
        "__tail__": drive if segment.is_first else Tail,
        "__tuple__": tuple,
        "__dict__": dict,
    }


def _run_off(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    return hook.run_off(fn, *args, **(kwargs or {}))


def innermost(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Our own compiled graphs are thin objects around a function: call that."""
    is_ours = type(compiled).__module__.startswith("minicompile.")
    return getattr(compiled, "call", compiled) if is_ours else compiled
