"""What an entry's lines may need of the place that it stands in.

In: a segment. Out: objects by the names that generated text has for them. A recalled entry needs them too, so nothing
of tracing is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import hook
from .refusals import Conditions

if TYPE_CHECKING:
    from .segments import Segment


def surroundings(segment: Segment) -> dict[str, Any]:
    """What every entry's lines may need of the place that it stands in."""
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
