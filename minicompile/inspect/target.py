"""What the command line names: `path.py:fn`, or an example of the demo; and arguments to call it with.

In: texts. Out: the function and the arguments. The arguments are a Python expression, evaluated where the function was
defined, with torch at hand; without one, the file's own `fn_args`, or `args`, counts (a tuple, or a function that makes
one).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class TargetError(Exception):
    """The command line names something that is not there; the message says what is."""


def load(target: str, arguments: str | None = None, device: str = "cpu") -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and its arguments.

    Raises:
        TargetError: no such file, function or example, or no arguments.
    """
    if ":" not in target:
        return _example(target, arguments, device)
    path, _, name = target.rpartition(":")
    namespace = _load_file(Path(path))
    fn: Any = namespace.get(name.split(".")[0])
    for part in name.split(".")[1:]:
        fn = getattr(fn, part, None)
    if not callable(fn):
        raise TargetError(f"{path} has no function {name!r}; it has {', '.join(_own_callables(namespace)) or 'none'}")
    if isinstance(fn, type):
        raise TargetError(f"{name} is a class: make an object of it in {path}, and name that")
    return fn, _arguments(arguments, name, namespace, path)


def _own_callables(namespace: dict[str, Any]) -> list[str]:
    """What the file defines itself, objects that can be called included; no classes, and nothing that it imports."""
    return [
        name for name, value in namespace.items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
        and getattr(value, "__module__", None) in (namespace["__name__"], type(value).__module__)
    ]  # fmt: skip


def _load_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return vars(module)


def _example(name: str, arguments: str | None, device: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from ..examples.programs import PROGRAMS

    if name not in PROGRAMS:
        raise TargetError(f"unknown program {name!r}; name a function as path.py:fn, or one of {', '.join(PROGRAMS)}")
    fn, given = PROGRAMS[name].make(device)
    return fn, given if arguments is None else _evaluated(arguments, {})


def _arguments(text: str | None, name: str, namespace: dict[str, Any], path: str) -> tuple[Any, ...]:
    if text is not None:
        return _evaluated(text, namespace)
    given = namespace.get(f"{name}_args", namespace.get("args"))
    if given is None:
        raise TargetError(
            f"what is {name} to be called with? Give --args 'torch.randn(32, 64)', or define {name}_args in {path}: "
            "a tuple, or a function that makes one"
        )
    given = given() if callable(given) else given
    if not isinstance(given, (tuple, list)):
        raise TargetError(f"the arguments of {name} in {path} are no tuple, but a {type(given).__name__}")
    return tuple(given)


def _evaluated(text: str, namespace: dict[str, Any]) -> tuple[Any, ...]:
    try:
        value = eval(f"({text},)" if text.strip() else "()", {"torch": torch, **namespace})
    except Exception as error:  # whatever the expression raises
        raise TargetError(f"--args {text!r}: {type(error).__name__}: {error}") from error
    return tuple(value)
