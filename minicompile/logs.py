"""Logs: what the compiler did, through Python's own logging, one logger a subject.

In: `set_logs(graph=True, recompiles=True)`, or `MINICOMPILE_LOGS=graph,recompiles` (or `all`) in the environment.
Out: records of level INFO on `minicompile.<name>`; a handler of ours only if the program has configured none: rich's on
a terminal, a plain one elsewhere. Nothing is logged, and no text is built, for a subject that is off.

    log = logs.get("graph")
    if log.on: log("traced %s", str(graph))
"""

from __future__ import annotations

import logging
import os
import sys
import warnings

NAMES: dict[str, str] = {
    "graph": "each graph that the frontend captured, with the user's lines",
    "fx": "the same as FX's own text",
    "ir": "the IR before and after the passes",
    "breaks": "graph breaks: place, reason, hint",
    "guards": "the guards of each new entry, as Python",
    "recompiles": "what was called with and which guard failed",
    "dynamic": "sizes that became symbolic or were specialised, and where",
    "fusion": "which operations share a kernel, and why others do not",
    "kernels": "each kernel: operations, bytes moved, source lines",
    "output_code": "the generated C++, Triton and Python",
    "perf": "seconds by stage",
    "cache": "hits and misses of the kernel cache",
}
"""Every subject, and what it shows."""

ENVIRONMENT_VARIABLE = "MINICOMPILE_LOGS"

_root = logging.getLogger("minicompile")
_handler: logging.Handler | None = None


class Log:
    """One subject's logger. `on` is cheap; ask it before building a text that costs something."""

    __slots__ = ("name", "_logger")

    def __init__(self, name: str) -> None:
        _check([name])
        self.name = name
        self._logger = logging.getLogger(f"minicompile.{name}")

    @property
    def on(self) -> bool:
        return self._logger.isEnabledFor(logging.INFO)

    def __call__(self, message: str, *args: object) -> None:
        """Log, with `%` formatting as in logging."""
        self._logger.info(message, *args, stacklevel=2)


def get(name: str) -> Log:
    """The log of a subject. Raises ValueError for an unknown one."""
    return Log(name)


def set_logs(**subjects: bool) -> None:
    """Turn subjects on or off; those not named stay as they are. `all=True` names every one.

    Raises ValueError for an unknown subject, before anything is changed.
    """
    everything = subjects.pop("all", None)
    _check(subjects)
    if everything is not None:
        subjects = {**dict.fromkeys(NAMES, everything), **subjects}
    for name, on in subjects.items():
        logging.getLogger(f"minicompile.{name}").setLevel(logging.INFO if on else logging.NOTSET)
    _set_handler(any(Log(name).on for name in NAMES))


def set_from_environment() -> None:
    """Apply `MINICOMPILE_LOGS`. An unknown subject there is a warning: a misspelt variable must not stop a program."""
    asked = [name.strip() for name in os.environ.get(ENVIRONMENT_VARIABLE, "").split(",") if name.strip()]
    if not asked:
        return
    try:
        set_logs(**dict.fromkeys(asked, True))
    except ValueError as error:
        warnings.warn(f"{ENVIRONMENT_VARIABLE}: {error}", RuntimeWarning, stacklevel=2)


def _check(names: object) -> None:
    unknown = [name for name in names if name not in NAMES]  # type: ignore[attr-defined]
    if unknown:
        raise ValueError(f"no logs called {', '.join(map(repr, unknown))}; known: {', '.join(NAMES)}, all")


def _set_handler(wanted: bool) -> None:
    """Ours comes when a subject is on and nobody else listens, and goes when all are off."""
    global _handler
    if _handler is not None and not wanted:
        _root.removeHandler(_handler)
        _handler = None
    elif _handler is None and wanted and not _root.hasHandlers():
        _handler = _make_handler()
        _root.addHandler(_handler)


def _make_handler() -> logging.Handler:
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.logging import RichHandler

        return RichHandler(console=Console(stderr=True), show_path=False, markup=False)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    return handler


set_from_environment()
