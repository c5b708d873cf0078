"""What a person can do about a graph break: their own line, and how it could be written.

In: `BreakRecord`s. Out: one `Advice` for each place and reason, with the line's text and a suggested rewrite. The
rewrite is made from the line itself where its form is known; else it is the hint that the break came with.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..frontend.breaks import BreakKind

if TYPE_CHECKING:
    from ..frontend.breaks import BreakRecord


@dataclass(frozen=True)
class Advice:
    """One graph break, as a row: where, the source text, why, and a suggested rewrite."""

    file: str
    line: int
    function: str
    source: str
    kind: str
    why: str
    rewrite: str

    def __str__(self) -> str:
        place = f"Graph break: {self.file}:{self.line} in {self.function}"
        return f"{place}\n    {self.source}\n  why: {self.kind}: {self.why}\n  try: {self.rewrite}"


def advise(records: Iterable[BreakRecord]) -> list[Advice]:
    """One row for each place and reason, in the order in which they were first met."""
    rows: dict[tuple[str, int, str], Advice] = {}
    for record in records:
        key = (record.file, record.line, record.reason)
        if key not in rows:
            source = linecache.getline(record.file, record.line).strip()
            rewrite = suggestion(record.kind, source) or record.hint
            rows[key] = Advice(
                *key[:2], record.location.function, source, record.kind.value, record.reason, rewrite
            )
    return list(rows.values())


def suggestion(kind: BreakKind, source: str) -> str:
    """A rewrite of the line, or "" where its form says too little."""
    statement = _parsed(source)
    for rule in _RULES:
        text = rule(kind, statement)
        if text:
            return text
    return ""


def _parsed(source: str) -> ast.stmt | None:
    """The line as a statement; the head of a block gets an empty block."""
    source = source.removeprefix("el") if source.startswith("elif ") else source
    for text in (source, f"{source}\n    pass"):
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        return body[0] if body else None
    return None


def _branch(kind: BreakKind, statement: ast.stmt | None) -> str:
    if kind is not BreakKind.BRANCH or not isinstance(statement, (ast.If, ast.While, ast.Assert)):
        return ""
    test = ast.unparse(statement.test)
    if isinstance(statement, ast.Assert):
        return f"Leave the check out of the compiled function, or write torch._assert_async({test})."
    if isinstance(statement, ast.While):
        return f"Iterate a fixed number of times, and mask the steps with torch.where({test}, new, old)."
    return f"Compute both sides, and choose: torch.where({test}, a, b)."


def _conditional(kind: BreakKind, statement: ast.stmt | None) -> str:
    """`a if test else b`."""
    if kind is not BreakKind.BRANCH or statement is None:
        return ""
    found = next((node for node in ast.walk(statement) if isinstance(node, ast.IfExp)), None)
    if found is None:
        return ""
    test, body, other = map(ast.unparse, (found.test, found.body, found.orelse))
    return f"torch.where({test}, {body}, {other})"


def _print(kind: BreakKind, statement: ast.stmt | None) -> str:
    if _called(statement) not in ("print", "logging.info", "logging.debug", "logger.info", "logger.debug", "log.info"):
        return ""
    return "Return what is to be printed and print it outside, or do without the line while compiled: " + (
        "if not minicompile.is_compiling(): …"
    )


def _number(kind: BreakKind, statement: ast.stmt | None) -> str:
    """`x.item()`, `float(x)`: a number is read back."""
    if statement is None or kind not in (BreakKind.VALUE, BreakKind.CALL):
        return ""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist", "numpy"):
            tensor = ast.unparse(node.func.value)
            return f"Go on with the tensor {tensor} itself instead of {ast.unparse(node)}: it computes alike."
        if isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool") and node.args:
            return f"Go on with the tensor {ast.unparse(node.args[0])} instead of {ast.unparse(node)}."
    return ""


def _explicit(kind: BreakKind, statement: ast.stmt | None) -> str:
    return "Delete the line." if kind is BreakKind.EXPLICIT else ""


_RULES: tuple[Callable[[BreakKind, ast.stmt | None], str], ...] = (_explicit, _branch, _conditional, _print, _number)


def _called(statement: ast.stmt | None) -> str:
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return ast.unparse(statement.value.func) if is_call else ""  # type: ignore[union-attr]
