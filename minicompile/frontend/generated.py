"""Generated code as a program of its own: readable in tracebacks and debuggers, and honest about the user's lines.

In: the text of an entry; a place in the user's program. Out: functions.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..runtime.written import StoredCode, written_function

if TYPE_CHECKING:
    from .breaks import Location

_numbers = itertools.count(1)
_lock = threading.Lock()


def make_function(
    title: str, text: str, namespace: dict[str, Any], stored: StoredCode | None = None
) -> Callable[..., Any]:
    """The function of an entry's text, which is not compiled where that is `stored`."""
    with _lock:
        filename = f"<minicompile {title} #{next(_numbers)}>"
    return written_function(text, filename, namespace, stored)


def caller_at(place: Location, globals_dict: dict[str, Any]) -> Callable[..., Any]:
    """A function that calls its first argument with the others, and whose frame says that it is the user's line.

    The operation that a graph broke for runs below it, so that an exception's traceback, or a warning, shows where in
    the program.
    """
    one_line = compile("def call(runner, *args): return runner(*args)", place.file, "exec").co_consts[0]
    code = one_line.replace(co_name=place.function, co_qualname=place.function, co_firstlineno=place.line)
    return FunctionType(code, globals_dict, place.function)
