"""Context managers that are part of the graph, and the grad modes: torch.no_grad, enable_grad, set_grad_enabled.

In: calls of these classes, `with` statements, decorators. Out: calls in the graph that set the mode; and an exit. It
survives a graph break inside the block: a real `GradModeExit` on the resumed segment's stack. Blocks whose exit does
not are in mode_blocks.py.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import UserError
from .base import Args, Kwargs, Value
from .callables import rule
from .constant import ConstantValue
from .generators import GeneratorValue

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


class TorchContextValue(Value):
    """A manager of torch's that is part of the graph. `enter` gives its exit; called with a function, it decorates."""

    def enter(self, tr: Tracer) -> Value:
        raise NotImplementedError

    def entered(self) -> Value:
        """What a `with` statement gives to the name behind `as`."""
        return ConstantValue(None)

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if len(args) != 1 or kwargs:
            raise self.cannot("calling")
        return DecoratedValue(self, args[0])


class DecoratedValue(Value):
    """A function that runs inside a manager."""

    def __init__(self, manager: TorchContextValue, function: Value) -> None:
        self.manager = manager
        self.function = function

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return self.function.describe()

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        return self.function if name == "__wrapped__" else self.function.realize(tr).getattr(tr, name)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        leave = self.manager.enter(tr)
        try:
            result = self.function.realize(tr).call(tr, args, kwargs).realize(tr)
        except UserError:
            leave.call(tr, [], {})
            raise
        if isinstance(result, GeneratorValue):
            raise self.cannot("calling a generator function")
        leave.call(tr, [], {})
        return result

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.manager)}({glue.ref(self.function)})"


class ContextManagerValue(TorchContextValue):
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
        if self.cls is torch.set_grad_enabled:  # making it has set the mode already: a decorator takes that back
            tr.set_grad_mode(self.previous)
            return DecoratedValue(_LateGradMode(self.enabled), args[0])
        return super().call(tr, args, kwargs)

    def build(self, glue: Glue) -> str:
        if self.cls is torch.set_grad_enabled:
            return f"{glue.keep(_remade_set_grad_enabled)}({self.enabled}, {self.previous})"
        return f"{glue.keep(self.cls)}()"


class _LateGradMode(TorchContextValue):
    """`set_grad_enabled` as a decorator: the mode is set at every call."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def python_type(self) -> type:
        return torch.set_grad_enabled

    def enter(self, tr: Tracer) -> Value:
        previous = torch.is_grad_enabled()
        tr.set_grad_mode(self.enabled)
        return GradModeExitValue(previous)

    def build(self, glue: Glue) -> str:
        return glue.keep(_grad_mode_decorator(self.enabled))


def _grad_mode_decorator(mode: bool) -> Any:
    """`set_grad_enabled(mode)` as a decorator, without setting the mode now."""

    def decorate(function: Any) -> Any:
        manager = torch.set_grad_enabled.__new__(torch.set_grad_enabled)
        manager.mode, manager.prev = mode, torch.is_grad_enabled()
        return manager(function)

    return decorate


def _remade_set_grad_enabled(mode: bool, previous: bool) -> Any:
    """A `set_grad_enabled` object as after its construction, without setting the mode again."""
    manager = torch.set_grad_enabled.__new__(torch.set_grad_enabled)
    manager.mode, manager.prev = mode, previous
    return manager


@rule(torch.no_grad)
def _no_grad(tr: Tracer, orig_func: Value | None = None) -> Value:
    made = ContextManagerValue(torch.no_grad, False, torch.is_grad_enabled())
    return made if orig_func is None else DecoratedValue(made, orig_func)


@rule(torch.enable_grad)
def _enable_grad(tr: Tracer, orig_func: Value | None = None) -> Value:
    made = ContextManagerValue(torch.enable_grad, True, torch.is_grad_enabled())
    return made if orig_func is None else DecoratedValue(made, orig_func)


@rule(torch.set_grad_enabled)
def _set_grad_enabled(tr: Tracer, mode: Value) -> Value:
    enabled, previous = bool(mode.realize(tr).const(tr)), torch.is_grad_enabled()
    tr.set_grad_mode(enabled)
    return ContextManagerValue(torch.set_grad_enabled, enabled, previous)
