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
from .base import Args, BoundMethod, Kwargs, Value
from .callables import rule
from .constant import ConstantValue
from .generators import GeneratorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer
    from .functions import FunctionValue


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

    exits: tuple[Value, ...] = ()
    """Where `__enter__` itself has been called, as contextlib.ExitStack does."""

    def getattr(self, tr: Tracer, name: str) -> Value:
        return ManagerMethod(self, name) if name in ManagerMethod.NAMES else super().getattr(tr, name)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.python_type(), name)

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


class ManagerMethod(BoundMethod):
    """`__enter__` or `__exit__` of a manager, bound."""

    NAMES = ("__enter__", "__exit__")
    owner: TorchContextValue

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tr.changed()
        if self.name == "__enter__":
            self.owner.exits += (self.owner.enter(tr),)
            return self.owner.entered()
        if not self.owner.exits:
            raise self.owner.cannot("leaving, without having been entered here,")
        leave, self.owner.exits = self.owner.exits[-1], self.owner.exits[:-1]
        return leave.call(tr, [], {})


def manager_method(tr: Tracer, fn: FunctionValue, args: Args) -> ManagerMethod | None:
    """For `__enter__` or `__exit__`, taken from the class of a manager: what calling it with one is."""
    if fn.code.co_name not in ManagerMethod.NAMES or not args:
        return None
    owner = args[0].realize(tr)
    return ManagerMethod(owner, fn.code.co_name) if isinstance(owner, TorchContextValue) else None


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

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name == "prev" or (name == "mode" and self.cls is torch.set_grad_enabled):
            return ConstantValue(self.previous if name == "prev" else self.enabled)
        return super().getattr(tr, name)

    def build(self, glue: Glue) -> str:
        if self.cls is torch.set_grad_enabled:
            return f"{glue.keep(_remade_set_grad_enabled)}({self.enabled}, {self.previous})"
        return f"{glue.keep(_remade)}({glue.keep(self.cls)}, {self.previous})"


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


def _remade(cls: type, previous: bool) -> Any:
    """A `no_grad` or `enable_grad` as after it was entered, if it was: it knows the mode to go back to."""
    manager = cls()
    manager.prev = previous
    return manager


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
