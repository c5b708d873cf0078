"""Context managers that are part of the graph: torch.no_grad, enable_grad, set_grad_enabled.

In: calls of these classes, `with` statements. Out: calls of torch._C._set_grad_enabled in the graph, and an exit
that survives a graph break inside the block: a real `GradModeExit` on the resumed segment's stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .base import Args, Kwargs, Value
from .callables import rule
from .constant import ConstantValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class GradModeExit:
    """Stands for the `__exit__` of a grad mode block on a real stack: calling it puts the mode back."""

    __slots__ = ("previous",)

    def __init__(self, previous: bool) -> None:
        self.previous = previous

    def __call__(self, *error: Any) -> None:
        torch._C._set_grad_enabled(self.previous)


class GradModeExitValue(Value):
    """The exit function of a grad mode block that has been entered."""

    def __init__(self, previous: bool, source: Source | None = None) -> None:
        self.previous = previous
        self.source = source

    def python_type(self) -> type:
        return GradModeExit

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tr.set_grad_mode(self.previous)
        return ConstantValue(None)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(GradModeExit)}({self.previous})"


class ContextManagerValue(Value):
    """A grad mode manager that was made in the frame. `enabled` is the mode inside."""

    def __init__(self, cls: type, enabled: bool, previous: bool) -> None:
        self.cls = cls
        self.enabled = enabled
        self.previous = previous

    def python_type(self) -> type:
        return self.cls

    def enter(self, tr: Tracer) -> Value:
        """Enter the block; the exit function is what comes back."""
        if self.cls is not torch.set_grad_enabled:
            self.previous = torch.is_grad_enabled()
            tr.set_grad_mode(self.enabled)
        return GradModeExitValue(self.previous)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise self.cannot("using as a decorator")

    def build(self, glue: Glue) -> str:
        if self.cls is torch.set_grad_enabled:
            return f"{glue.keep(_remade_set_grad_enabled)}({self.enabled}, {self.previous})"
        return f"{glue.keep(self.cls)}()"


def _remade_set_grad_enabled(mode: bool, previous: bool) -> Any:
    """A `set_grad_enabled` object as after its construction, without setting the mode again."""
    manager = torch.set_grad_enabled.__new__(torch.set_grad_enabled)
    manager.mode, manager.prev = mode, previous
    return manager


@rule(torch.no_grad)
def _no_grad(tr: Tracer) -> Value:
    return ContextManagerValue(torch.no_grad, False, torch.is_grad_enabled())


@rule(torch.enable_grad)
def _enable_grad(tr: Tracer) -> Value:
    return ContextManagerValue(torch.enable_grad, True, torch.is_grad_enabled())


@rule(torch.set_grad_enabled)
def _set_grad_enabled(tr: Tracer, mode: Value) -> Value:
    enabled, previous = bool(mode.realize(tr).const(tr)), torch.is_grad_enabled()
    tr.set_grad_mode(enabled)
    return ContextManagerValue(torch.set_grad_enabled, enabled, previous)
