"""Which rows of a suite are asked for.

In: rows, and the patterns that `--only` was given, once or several times. Out: the rows whose names match any.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


def add_only(parser: argparse.ArgumentParser) -> None:
    """The option `--only`; a pattern that is none is the parser's error."""
    help = "rows whose name matches; may be given several times"
    parser.add_argument("--only", metavar="REGEX", type=_pattern, action="append", default=[], help=help)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


class Named(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Named)


def chosen(rows: Iterable[R], only: Sequence[re.Pattern[str]]) -> list[R]:
    """The rows that match, in order; all where nothing is asked for. Exits with a message where none does."""
    known = list(rows)
    found = [row for row in known if not only or any(pattern.search(row.name) for pattern in only)]
    if not found:
        asked, names = " or ".join(repr(pattern.pattern) for pattern in only), ", ".join(row.name for row in known)
        raise SystemExit(f"no row matches {asked}; there are: {names}")
    return found
