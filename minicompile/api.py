"""The public face of compilation: `compile()` and what it returns.

In: a function, bound method, callable object, nn.Module or class, and options. Out: something to use in its place.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch

from .frontend.directives import allow_in_graph, assume_constant_result, disable, graph_break, is_compiling
from .runtime.collector import paused
from .runtime.recycled import RECYCLER
from .torch_compat import hide_from_dynamo

if TYPE_CHECKING:
    from .frontend.breaks import BreakRecord
    from .frontend.segments import CompileContext, Entry
    from .guards import RecompileRecord

_instances: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()
_retired: dict[str, int] = {}
_STATS = ("graphs", "graph_breaks", "frames", "recompiles", "kernels", "cache_hits")


class CompiledFunction:
    """A compiled callable. Attributes of the original (`__name__`, `__doc__`, its own) are reachable through it.

    Attributes:
        entries: one per guard set, in the order in which they were compiled: `.guards`, `.graphs`, `.code`, `.seconds`.
        recompiles: what was called with, and which guards failed.
        breaks: graph breaks with reason, place and hint.
    """

    __minicompile_compiled__ = True

    def __init__(self, fn: Callable[..., Any], make_context: Callable[[Any], CompileContext]) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__minicompile_original__ = fn
        self._make_context = make_context
        self._context: CompileContext | None = None
        with _lock:
            _instances.add(self)

    @property
    def context(self) -> CompileContext:
        """The compile context, made on first use."""
        if self._context is None:
            with _lock:
                if self._context is None:
                    with paused():
                        self._context = self._make_context(self.__minicompile_original__)
        return self._context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        context = self._context or self.context
        return context.run(context, self.__minicompile_original__, args, kwargs)

    # Dynamo must not trace into us: our entries are compiled code already. The attribute is for calls that it traces,
    # the strategy for frames that it meets.
    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]
    hide_from_dynamo(__call__.__code__)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """As a method in a class body: bound, like the function it stands for."""
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name.endswith("context"):
            raise AttributeError(name)
        return getattr(self.__dict__["__minicompile_original__"], name)

    def __repr__(self) -> str:
        return f"<minicompile.compile of {self.__minicompile_original__!r}>"

    def __reduce__(self) -> Any:
        """By name, as functions are pickled: a decorated function finds itself again."""
        fn = self.__minicompile_original__
        name = getattr(fn, "__qualname__", "")
        found: Any = sys.modules.get(getattr(fn, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        raise TypeError("this compiled function cannot be pickled; pickle the original and compile it again")

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        """Functions are themselves; a copied object or bound method is compiled anew."""
        fn = copy.deepcopy(self.__minicompile_original__, memo)
        return self if fn is self.__minicompile_original__ else CompiledFunction(fn, self._make_context)

    @property
    def entries(self) -> list[Entry]:
        return list(self._context.entries) if self._context is not None else []

    @property
    def recompiles(self) -> list[RecompileRecord]:
        return list(self._context.recompiles) if self._context is not None else []

    @property
    def breaks(self) -> list[BreakRecord]:
        """Every graph break that was met, in the order in which they were."""
        return [record for entry in self.entries for record in entry.breaks]

    @property
    def stats(self) -> dict[str, int]:
        return dict(self._context.stats) if self._context is not None else {}

    def reset(self) -> None:
        """Forget every compiled entry."""
        context, self._context = self._context, None
        if context is not None:
            for name, count in context.stats.items():
                _retired[name] = _retired.get(name, 0) + count


class CompiledModule(torch.nn.Module):
    """A compiled nn.Module: calling it runs compiled code, everything else is the original's."""

    __minicompile_compiled__ = True

    def __init__(self, module: torch.nn.Module, make_context: Callable[[Any], CompileContext]) -> None:
        # nn.Module's own __init__ would give us registries of our own; ours are the original's.
        object.__setattr__(self, "__minicompile_original__", module)
        object.__setattr__(self, "_compiled", CompiledFunction(module, make_context))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]
    hide_from_dynamo(__call__.__code__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__minicompile_original__"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["__minicompile_original__"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["__minicompile_original__"], name)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN_NAMES or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "__dict__")["__minicompile_original__"], name)

    def __repr__(self) -> str:
        return f"minicompile.compile of {self.__minicompile_original__!r}"

    def __dir__(self) -> list[str]:
        return [*dir(self.__minicompile_original__), "entries", "recompiles", "breaks"]

    def __len__(self) -> int:
        return len(self.__minicompile_original__)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        return iter(self.__minicompile_original__)  # type: ignore[call-overload]

    def __getitem__(self, key: Any) -> Any:
        return self.__minicompile_original__[key]

    @property
    def entries(self) -> list[Entry]:
        return self._compiled.entries

    @property
    def recompiles(self) -> list[RecompileRecord]:
        return self._compiled.recompiles

    @property
    def breaks(self) -> list[BreakRecord]:
        return self._compiled.breaks

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return CompiledModule(copy.deepcopy(self.__minicompile_original__, memo), self._compiled._make_context)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_plain_module, (self.__minicompile_original__,))


_OWN_NAMES = frozenset({"__minicompile_original__", "_compiled", "entries", "recompiles", "breaks"})


def _plain_module(module: torch.nn.Module) -> torch.nn.Module:
    """What a pickled compiled module comes back as: compiled code does not travel."""
    return module


def compile(
    fn: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "auto",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    verify: bool | Literal["warn"] = False,
    disable: bool = False,
) -> Any:
    """Compile a function, bound method, callable object or nn.Module; a decorator if called without one.

    A class comes back itself: its objects are compiled when they are called (`forward` of an nn.Module's).

    Args:
        fullgraph: raise GraphBreakError where the graph would break.
        dynamic: True: sizes are symbols, one entry serves many; False: never; None: the first call is compiled for its
            own sizes and ints, and those that vary become symbols.
        backend: a name of `list_backends()` or a callable `(gm, example_inputs) -> callable`.
        mode, options: of our own back ends; `MODES` and `OPTIONS` of `minicompile.backends` say what there is.
        verify: compare what each new entry does first, gradients included, with the function itself in eager; a
            difference raises VerificationError, which names the stage at fault (capture, lowering, a pass, partition,
            layout, code), the first node that differs, and its line; "warn": a warning, and eager from then on. The
            function runs more than once: code with effects beyond tensors is compared graph by graph only.
        disable: return `fn` as it is.
    Raises:
        TypeError: `fn` is not callable, or `options` no dict.
        ValueError: an unknown backend, mode, option, or value of `dynamic` or `verify`; lists the known ones.
    """
    if dynamic not in (True, False, None):
        raise ValueError(f"dynamic is True, False or None, not {dynamic!r}")
    if verify not in (True, False, "warn"):
        raise ValueError(f'verify is True, False or "warn", not {verify!r}')
    if fn is None:
        how: dict[str, Any] = {"backend": backend, "mode": mode, "options": options, "verify": verify}
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, disable=disable, **how)
    if not callable(fn):
        raise TypeError(f"minicompile.compile needs a callable, got {type(fn).__name__}")
    make_context = _context_maker(fullgraph, dynamic, backend, mode, options, verify)
    if disable:
        return fn
    if isinstance(fn, (CompiledFunction, CompiledModule)):
        fn = fn.__minicompile_original__
    if isinstance(fn, torch.nn.Module):
        return CompiledModule(fn, make_context)
    if isinstance(fn, type):
        return _with_compiled_method(fn, make_context)
    return CompiledFunction(fn, make_context)


def _with_compiled_method(cls: type, make_context: Callable[[Any], CompileContext]) -> type:
    """The class itself, for which calling an object is compiled: `forward` of a module, else `__call__`."""
    name = "forward" if issubclass(cls, torch.nn.Module) else "__call__"
    method = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    if not isinstance(method, CompiledFunction):
        if not isinstance(method, types.FunctionType):
            raise TypeError(f"minicompile.compile needs callable objects; those of {cls.__name__} have no {name}")
        setattr(cls, name, CompiledFunction(method, make_context))
    return cls


def _context_maker(
    fullgraph: bool,
    dynamic: bool | None,
    backend: Any,
    mode: str | None,
    options: dict[str, Any] | None,
    verify: bool | Literal["warn"],
) -> Callable[[Any], CompileContext]:
    with paused():
        from .backends import resolve

    backend_fn = resolve(backend, mode=mode, options=options, strict=fullgraph)

    def make(fn: Any) -> CompileContext:
        from .config import config
        from .frontend.start import make_context

        is_dynamic = dynamic if dynamic is not None else config.dynamic
        if not verify and not config.verify:
            return make_context(fn, backend_fn, dynamic=is_dynamic, fullgraph=fullgraph)
        from .frontend.verify import checked_run, verified

        warn = verify == "warn" and not config.verify
        context = make_context(fn, verified(backend_fn, warn=warn), dynamic=is_dynamic, fullgraph=fullgraph)
        context.first_run = checked_run(warn)
        return context

    return make


# ---- the process ----


def reset() -> None:
    """Forget everything compiled in this process, free the memory kept for results, and set the counters to zero."""
    with _lock:
        instances = list(_instances)
    for instance in instances:
        instance.reset()
    RECYCLER.shrink(0)
    _retired.clear()


def stats() -> dict[str, int]:
    """Counters since the last reset, over all compiled functions of the process."""
    totals = {name: _retired.get(name, 0) for name in _STATS}
    with _lock:
        instances = list(_instances)
    for instance in instances:
        for name, count in instance.stats.items():
            totals[name] = totals.get(name, 0) + count
    return totals


# ---- what a program says to the compiler ----


def mark_dynamic(
    tensor: torch.Tensor,
    dim: int | list[int] | tuple[int, ...],
    *,
    min: int | None = None,  # noqa: A002 (torch's names)
    max: int | None = None,  # noqa: A002
) -> None:
    """Make sizes of this tensor symbols when a compiled function meets it: one entry for many sizes.

    Args:
        dim: the dimension or dimensions; negative ones count from the end.
        min, max: the sizes that the entry is for, both included; others are compiled for on their own.
    Raises:
        TypeError: it is no tensor.
        IndexError: there is no such dimension.
        ValueError: `min` is above `max`, or the tensor's own size is not between them.
    """
    low, high = min or 0, max if max is not None else sys.maxsize
    if low > high:
        raise ValueError(f"min is {low}, above max, which is {high}")
    for each in _dimensions(tensor, dim):
        if not low <= tensor.shape[each] <= high:
            raise ValueError(f"dimension {each} has size {tensor.shape[each]}, which is not between {low} and {high}")
    _mark(tensor, dim, "_minicompile_dynamic", "_minicompile_static")
    if min is not None or max is not None:
        ranges = {**getattr(tensor, "_minicompile_ranges", {})}
        ranges.update(dict.fromkeys(_dimensions(tensor, dim), (low, high)))
        tensor._minicompile_ranges = ranges  # type: ignore[attr-defined]


def mark_static(tensor: torch.Tensor, dim: int | list[int] | tuple[int, ...] | None = None) -> None:
    """Never make sizes of this tensor symbols, whatever `dynamic=` says; all dimensions if `dim` is None.

    Raises:
        TypeError: it is no tensor.
        IndexError: there is no such dimension.
    """
    _check_tensor(tensor)
    _mark(tensor, list(range(tensor.dim())) if dim is None else dim, "_minicompile_static", "_minicompile_dynamic")


def _check_tensor(tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"sizes of a tensor are marked, not of a {type(tensor).__name__}")


def _dimensions(tensor: torch.Tensor, dim: int | list[int] | tuple[int, ...]) -> set[int]:
    _check_tensor(tensor)
    dims = {dim} if isinstance(dim, int) else set(dim)
    for each in dims:
        if not -tensor.dim() <= each < tensor.dim():
            raise IndexError(f"there is no dimension {each}: the tensor has {tensor.dim()}")
    return {each % tensor.dim() for each in dims}


def _mark(tensor: torch.Tensor, dim: int | list[int] | tuple[int, ...], attribute: str, other: str) -> None:
    dims = _dimensions(tensor, dim)
    setattr(tensor, attribute, frozenset(getattr(tensor, attribute, frozenset()) | dims))
    setattr(tensor, other, frozenset(getattr(tensor, other, frozenset()) - dims))


__all__ = [
    "CompiledFunction", "CompiledModule", "allow_in_graph", "assume_constant_result", "compile", "disable",
    "graph_break", "is_compiling", "mark_dynamic", "mark_static", "reset", "stats",
]  # fmt: skip
