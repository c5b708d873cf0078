"""Functions whose text we have written: their lines in tracebacks and debuggers, their code objects on the disk.

In: the text of one function, and perhaps the code that an earlier process has compiled it to. Out: the function; and,
the other way, a `StoredCode` for later processes of the same Python (runtime/identity.py tells versions apart).

Python takes 35 ms to compile the check of a ResNet-50's modules, and 2 to read what came of it.
"""

from __future__ import annotations

import hashlib
import linecache
import marshal
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class StoredCode:
    """A function's code object, and which text it is the code of."""

    digest: bytes
    data: bytes


def written_function(
    text: str, filename: str, namespace: dict[str, Any], stored: StoredCode | None = None
) -> Callable[..., Any]:
    """The function that the text defines, with `namespace` as its globals."""
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    is_known = stored is not None and stored.digest == _digest(text)
    code = _under(filename, marshal.loads(stored.data)) if stored and is_known else compiled_text(text, filename)
    return FunctionType(code, namespace)


def store_code(text: str, code: CodeType) -> StoredCode:
    """What `compiled_text` made of the text, for the disk."""
    return StoredCode(_digest(text), marshal.dumps(code))


def compiled_text(text: str, filename: str) -> CodeType:
    """The code of the text's one function."""
    (code,) = (part for part in compile(text, filename, "exec").co_consts if isinstance(part, CodeType))
    return code


def _under(filename: str, code: CodeType) -> CodeType:
    """The same code in a file of another name, as are the functions in it."""
    parts = tuple(_under(filename, part) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=filename, co_consts=parts)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
