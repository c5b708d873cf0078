"""Options of the compiler, typed and checked: `minicompile.config`.

In: assignments (`config.recompile_limit = 16`), environment variables read once at import, `config.patch(...)`.
Out: attributes that the stages read.

`config` is an object, not a module full of globals, so that a misspelt option is an error that lists the known ones
and a wrong value is refused where it is set, not where it is used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Option:
    """One option: its default (called, when it is first read), what it may be, and what it does."""

    default: Callable[[], Any]
    types: tuple[type, ...]
    help: str
    minimum: int | None = None

    def check(self, name: str, value: Any) -> Any:
        """The value, a str made a Path where a path is wanted. Raises TypeError or ValueError."""
        if isinstance(value, str) and Path in self.types:
            value = Path(value)
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in self.types)
            raise TypeError(f"config.{name} must be {wanted}, not {value!r}")
        if self.minimum is not None and isinstance(value, int) and value < self.minimum:
            raise ValueError(f"config.{name} must be at least {self.minimum}, not {value!r}")
        return value


def _path_from(variable: str) -> Callable[[], Path | None]:
    return lambda: Path(os.environ[variable]) if os.environ.get(variable) else None


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


_NONE = type(None)

OPTIONS: dict[str, Option] = {
    "recompile_limit": Option(
        _constant(8), (int,), "entries a piece of code may have before it runs eagerly", minimum=1
    ),
    "strict": Option(_constant(False), (bool,), "a stage that fails raises instead of falling back to eager"),
    "dynamic": Option(
        _constant(None), (bool, _NONE), "symbolic sizes: always, never, or (None) once a size was seen to change"
    ),
    "capture_scalar_outputs": Option(
        _constant(False), (bool,), "`item()`, `int()`, `float()`, `tolist()` give numbers of the graph, no break"
    ),
    "capture_dynamic_output_shape_ops": Option(
        _constant(False), (bool,), "operators whose result has as many elements as the data says are no graph breaks"
    ),
    "verify": Option(_constant(False), (bool,), "check the IR after every pass, and results against eager"),
    "entry_cache": Option(
        lambda: os.environ.get("MINICOMPILE_ENTRY_CACHE", "1") != "0", (bool,),
        "compiled entries are kept on disk, for later processes; off: $MINICOMPILE_ENTRY_CACHE=0",
    ),
    "exact_rounding": Option(
        _constant(False), (bool,), "round bf16 and fp16 after every operation, as eager does, not only at stores"
    ),
    "exact": Option(
        _constant(False), (bool,),
        "eager's numbers to the last bit, as far as they can be had: kernels compute only what is rounded in one way, "
        "ATen the rest; see docs/exact.md for what that cannot promise",
    ),
    "fallback_random": Option(
        _constant(False), (bool,),
        "random numbers are ATen's, in eager's order; else kernels compute their own, from keys that torch's "
        "generators give: repeatable by torch.manual_seed, but not eager's",
    ),
    "own_products": Option(
        _constant(None), (bool, _NONE),
        "float32 products of matrices on the CPU, but small ones, are kernels of ours, fused with what reads them, not "
        "MKL's; None: on processors where they were measured to be faster",
    ),
    "kept_memory": Option(
        _constant(512 << 20), (int,),
        "bytes of dead results (of 4 MiB and more, on the CPU) that are kept at most, for later ones; 0: none",
        minimum=0,
    ),
    "cache_dir": Option(
        _constant(None), (Path, _NONE), "kernel folder; None: $MINICOMPILE_CACHE_DIR or the user's cache folder"
    ),
    "debug_dir": Option(
        _path_from("MINICOMPILE_DEBUG"), (Path, _NONE), "folder that gets every stage's output; $MINICOMPILE_DEBUG"
    ),
}  # fmt: skip
"""Every option there is. A new one is a new row."""


class Config:
    """The options as attributes. Unknown names raise ValueError, values of a wrong type TypeError."""

    recompile_limit: int
    strict: bool
    dynamic: bool | None
    capture_scalar_outputs: bool
    capture_dynamic_output_shape_ops: bool
    verify: bool
    entry_cache: bool
    exact_rounding: bool
    exact: bool
    fallback_random: bool
    own_products: bool | None
    kept_memory: int
    cache_dir: Path | None
    debug_dir: Path | None

    def __init__(self) -> None:
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, option.default())
        object.__setattr__(self, "_lock", threading.RLock())

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _known(name).check(name, value))

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not there. Dunder lookups must stay AttributeErrors (copy, pickle, inspect).
        if name.startswith("__"):
            raise AttributeError(name)
        _known(name)
        raise AttributeError(name)

    @contextmanager
    def patch(self, **changes: Any) -> Iterator[Config]:
        """Set options for the time of a `with` block. All are checked before any is set."""
        checked = {name: _known(name).check(name, value) for name, value in changes.items()}
        before = {name: getattr(self, name) for name in checked}
        self._set(checked)
        try:
            yield self
        finally:
            self._set(before)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def reset(self) -> None:
        """Back to the defaults."""
        self._set({name: option.default() for name, option in OPTIONS.items()})

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTIONS}

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *OPTIONS]

    def __repr__(self) -> str:
        rows = (f"  {name} = {getattr(self, name)!r}  # {option.help}" for name, option in OPTIONS.items())
        return "\n".join(("minicompile.config:", *rows))


def _known(name: str) -> Option:
    if name not in OPTIONS:
        raise ValueError(f"no option {name!r}; known options: {', '.join(sorted(OPTIONS))}")
    return OPTIONS[name]


config = Config()
