"""Backends by name: what turns a captured graph into something to call.

In: what the user gave as `backend=`, `mode=` and `options=`.
Out: a function `(gm, example_inputs) -> callable`, torch.compile's own contract for backends, so that ours, torch's
and the user's are interchangeable.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .errors import BackendError, CompilerMissing
from .pipeline import EagerGraph, compile_graph, compile_sections, compile_training, needs_autograd

Backend = Callable[..., Callable[..., Any]]

MODES: dict[str | None, dict[str, bool]] = {
    None: {},
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "tune": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
"""Mode → what it turns on. `cuda_graphs`, on a GPU: calls are recorded and replayed (runtime/cuda_graphs.py). `tune`:
kernels are timed, on a GPU with several block sizes (codegen/triton_tune.py), on the CPU as compiled with several flags
(codegen/cpp_tune.py)."""
OPTIONS: dict[str, type] = {"exact_rounding": bool, "activation_memory_budget": float}
"""Name → type. activation_memory_budget: the part, from 0.0 to 1.0, of what is saved for backward by default that may
be saved; below 1.0 backward computes more again."""
OWN_BACKENDS = ("auto", "cpp", "triton", "eager")

_registered: dict[str, Backend] = {}


def register_backend(name: str, fn: Backend) -> None:
    """Make `backend=name` call `fn(gm, example_inputs)`. Raises ValueError for a name of our own, TypeError for a
    backend that cannot be called."""
    if name in OWN_BACKENDS:
        raise ValueError(f"backend {name!r} is built in and cannot be replaced; choose another name")
    if not callable(fn):
        raise TypeError(f"a backend is a callable (gm, example_inputs) -> callable, got {type(fn).__name__}")
    _registered[name] = fn


def list_backends() -> list[str]:
    """The names that `backend=` accepts: ours, registered ones, torch.compile's."""
    return [*OWN_BACKENDS, *sorted({*_registered, *_torch_backends()} - set(OWN_BACKENDS))]


def _torch_backends() -> list[str]:
    import torch._dynamo

    return list(torch._dynamo.list_backends(exclude_tags=()))


def check_mode(mode: str | None) -> None:
    """Raises ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known modes: {', '.join(filter(None, MODES))}")


def check_options(options: dict[str, Any] | None) -> None:
    """Raises ValueError for an unknown option or value, TypeError for one of the wrong type, or for no dict."""
    if not isinstance(options, (dict, type(None))):
        raise TypeError(f"options is a dict, {{{', '.join(map(repr, OPTIONS))}: …}}, got {options!r}")
    for key, value in (options or {}).items():
        if key not in OPTIONS:
            raise ValueError(f"unknown option {key!r}; known options: {', '.join(sorted(OPTIONS))}")
        if not isinstance(value, OPTIONS[key]):
            raise TypeError(f"option {key!r} is a {OPTIONS[key].__name__}, got {value!r}")
        if isinstance(value, float) and not 0 <= value <= 1:
            raise ValueError(f"option {key!r} is between 0.0 and 1.0, got {value!r}")


def resolve(
    backend: str | Backend, *, mode: str | None = None, options: dict[str, Any] | None = None, strict: bool = False
) -> Backend:
    """The backend function for what the user named.

    Args:
        backend: a name of `list_backends()`, or a callable `(gm, example_inputs) -> callable`.
        mode, options: as for `minicompile.compile`; checked here.
        strict: a failing stage raises instead of falling back to eager.
    Raises:
        ValueError: an unknown backend, mode or option; lists the known ones.
        TypeError: neither a name nor a callable.
    """
    check_mode(mode)
    check_options(options)
    if not isinstance(backend, str):
        if not callable(backend):
            raise TypeError(f"backend is a name or a callable (gm, example_inputs), got {type(backend).__name__}")
        return backend
    if backend == "eager":
        return _eager
    if backend in OWN_BACKENDS:
        return OwnBackend(backend, with_mode(mode, options), strict)
    if backend in _registered:
        return _registered[backend]
    if backend in _torch_backends():
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(backend)
    raise ValueError(f"unknown backend {backend!r}; known backends: {', '.join(list_backends())}, or a callable")


@dataclass(frozen=True)
class OwnBackend:
    """Our middle and back end with its options. `identity`: two with the same compile a graph to the same."""

    target: str
    options: dict[str, Any] | None
    strict: bool

    @property
    def identity(self) -> tuple[Any, ...]:
        return self.target, sorted((self.options or {}).items())

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_or_fall_back(gm, example_inputs, target=self.target, options=self.options, strict=self.strict)


def with_mode(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """The options, and what a mode turns on."""
    return {**(options or {}), **MODES[mode]} if MODES[mode] else options


def _eager(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return EagerGraph(gm, "backend='eager'")


def compile_or_fall_back(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    target: str = "auto",
    options: dict[str, Any] | None = None,
    strict: bool = False,
) -> Callable[..., Any]:
    """Our middle and back end; after a failure, with one warning, the graph in eager."""
    from .config import config
    from .lowering.errors import LoweringError
    from .lowering.sections import sections

    compile_it = compile_training if needs_autograd(gm) else compile_graph
    try:
        parts = sections(gm, compile_it is compile_training)
        if parts:
            again = functools.partial(compile_or_fall_back, target=target, options=options, strict=strict)
            return compile_sections(gm, parts, target=target, options=options, compile_body=again)
        return compile_it(gm, example_inputs, target=target, options=options)
    except LoweringError as error:
        return EagerGraph(gm, str(error))
    except (BackendError, CompilerMissing) as error:
        if isinstance(error, BackendError) and config.debug_dir is not None:
            error = _with_reproducer(error, gm, example_inputs, target, options)
        if strict or config.strict:
            raise error from error.__cause__
        _warn_once(f"minicompile: {error}\nThe graph runs in eager mode.")
        return EagerGraph(gm, str(error))


def _with_reproducer(
    error: BackendError,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    target: str,
    options: dict[str, Any] | None,
) -> BackendError:
    """The same error, with the path of a script that shows it, where one can be written."""
    from .config import config
    from .inspect.debug import write_repro

    assert config.debug_dir is not None
    try:
        path = write_repro(config.debug_dir, gm, example_inputs, error.stage, error.original, target, options)
    except OSError:
        return error
    found = BackendError(error.stage, error.original, path)
    found.__cause__ = error.__cause__
    return found


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
