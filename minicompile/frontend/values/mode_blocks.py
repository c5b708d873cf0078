"""Blocks that a graph enters and leaves as a whole: torch.autocast, torch.inference_mode, sdpa_kernel.

In: calls of these classes. Out: managers whose enter and exit are calls in the graph, made for real while tracing. The
exit does not survive a graph break inside the block: then tracing begins again, with the block entered for real.
What inference mode means for the graph as a whole is decided at its end (inference_regions.py).
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...torch_compat import enter_attention_kernels, leave_attention_kernels
from ..breaks import Restart, UserError, unsupported, unsupported_call
from ..sources import AttrSource
from .base import Args, Kwargs, Value
from .callables import rule
from .constant import ConstantValue
from .contexts import DecoratedValue, TorchContextValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class BlockExitValue(Value):
    """The exit of a block that has been entered, at root instruction `step`. `mode` is what entering gave while
    tracing, `leave` the function that takes it; `node` its counterpart in the graph."""

    def __init__(self, name: str, node: torch.fx.Node, mode: Any, leave: Callable[[Any], None], step: int) -> None:
        self.name = name
        self.node = node
        self.mode = mode
        self.leave = leave
        self.step = step

    def python_type(self) -> type:
        return types.MethodType

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tr.graph.set_mode(self.leave, (self.node,), tr.origin(self.name))
        self.leave(self.mode)
        tr.open_blocks.remove(self)
        tr.changed()
        return ConstantValue(None)

    def restart(self) -> NoReturn:
        """Trace again, and enter the block for real."""
        raise Restart(self.step, unsupported(f"The graph breaks inside this {self.name} block."))

    def build(self, glue: Glue) -> str:
        self.restart()


def _entered(
    tr: Tracer, name: str, enter: Callable[..., Any], leave: Callable[[Any], None], settings: tuple[Any, ...]
) -> BlockExitValue:
    node = tr.graph.set_mode(enter, settings, tr.origin(name))
    node.meta["step"] = tr.root_step
    block = BlockExitValue(name, node, enter(*settings), leave, tr.root_step)
    tr.open_blocks.append(block)
    tr.changed()
    return block


def _check_left(glue: Glue, manager: TorchContextValue) -> None:
    """A manager that is not left yet cannot be made anew: its exit knows to what it goes back."""
    for leave in manager.exits:
        leave.build(glue)


# ---- autocast ----


class AutocastValue(TorchContextValue):
    """A `torch.autocast` made in the frame. `manager` is one like it, `arguments` what it was made with."""

    def __init__(self, manager: torch.autocast, args: Args, kwargs: Kwargs) -> None:
        self.manager = manager
        self.args = args
        self.kwargs = kwargs

    def python_type(self) -> type:
        return type(self.manager)

    def enter(self, tr: Tracer) -> Value:
        made = self.manager
        settings = (made.device, made.fast_dtype, made._enabled, made._cache_enabled)
        return _entered(tr, "torch.autocast", torch.amp._enter_autocast, torch.amp._exit_autocast, settings)

    def build(self, glue: Glue) -> str:
        _check_left(glue, self)
        parts = [*map(glue.ref, self.args), *(f"{key}={glue.ref(value)}" for key, value in self.kwargs.items())]
        return f"{glue.keep(type(self.manager))}({', '.join(parts)})"


@rule(torch.autocast)
def _autocast(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
    values = [arg.realize(tr).const(tr) for arg in args]
    named = {key: value.realize(tr).const(tr) for key, value in kwargs.items()}
    try:
        made = torch.autocast(*values, **named)
    except Exception as error:  # torch's answer to these arguments
        raise UserError(error, is_torch=True) from error
    wanted = dict(zip(("device_type", "dtype", "enabled"), values, strict=False)) | named
    if wanted.get("enabled", True) and not made._enabled:
        raise unsupported_call("torch.autocast()", "warns that it is disabled")
    return AutocastValue(made, list(args), kwargs)


def outside_autocast(tr: Tracer, obj: torch.autocast, source: Source) -> Value:
    """A `torch.autocast` that existed before: what it sets is guarded."""
    tr.guard_type(source, obj)
    for name in ("device", "fast_dtype", "_enabled", "_cache_enabled"):
        tr.wrap(getattr(obj, name), AttrSource(source, name)).realize(tr)
    result = AutocastValue(obj, [], {})
    result.source = source
    return result


# ---- inference mode ----


class InferenceModeValue(TorchContextValue):
    """A `torch.inference_mode` made in the frame. `mode` is what holds inside."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def python_type(self) -> type:
        return torch.inference_mode

    def enter(self, tr: Tracer) -> Value:
        body = tr.graph.bodies[-1]
        if body is not tr.graph.bodies[0]:
            raise unsupported(f"{body.what[0].upper()}{body.what[1:]} enters inference mode.")
        return _entered(tr, "torch.inference_mode", _enter_inference_mode, _exit_inference_mode, (self.mode,))

    def build(self, glue: Glue) -> str:
        _check_left(glue, self)
        return f"{glue.keep(torch.inference_mode)}({self.mode})"


@rule(torch.inference_mode)
def _inference_mode(tr: Tracer, mode: Value | None = None) -> Value:
    given = mode.realize(tr) if mode is not None else ConstantValue(True)
    if isinstance(given, ConstantValue) and isinstance(given.value, bool):
        return InferenceModeValue(given.value)
    return DecoratedValue(InferenceModeValue(True), given)


# ---- the kernels that attention may use ----


class AttentionKernelsValue(TorchContextValue):
    """A `torch.nn.attention.sdpa_kernel(...)`. `backends` are numbers, as torch's own settings keep them."""

    def __init__(self, backends: tuple[int, ...], set_priority: bool) -> None:
        self.backends = backends
        self.set_priority = set_priority

    def python_type(self) -> type:
        return contextlib._GeneratorContextManager

    def enter(self, tr: Tracer) -> Value:
        settings = (self.backends, self.set_priority)
        return _entered(tr, "sdpa_kernel", enter_attention_kernels, leave_attention_kernels, settings)

    def build(self, glue: Glue) -> str:
        _check_left(glue, self)
        backends = glue.keep([SDPBackend(backend) for backend in self.backends])
        return f"{glue.keep(sdpa_kernel)}({backends}, {self.set_priority})"


@rule(sdpa_kernel)
def _sdpa_kernel(tr: Tracer, backends: Value, set_priority: Value | None = None) -> Value:
    given = backends.realize(tr)
    chosen = [item.realize(tr) for item in given.items(tr)] if given.python_type() is list else [given]
    kinds = [each.const(tr) for each in chosen]
    if not all(isinstance(kind, SDPBackend) for kind in kinds):
        raise unsupported_call("sdpa_kernel()", "raises")
    has_priority = set_priority is not None and bool(set_priority.realize(tr).const(tr))
    return AttentionKernelsValue(tuple(map(int, dict.fromkeys(kinds))), has_priority)
