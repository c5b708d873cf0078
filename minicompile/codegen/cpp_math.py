"""The C++ prelude: only those of the headers' functions that a source uses.

In: generated C++ text. Out: the text of every `mc_…` function in it, and of those that these use, in the header's
order.

The header is cut at lines `//@ name …`; the names are what the section defines. A translation unit that uses exp
alone carries exp alone: half of g++'s time would otherwise go into functions nobody calls."""

from __future__ import annotations

import functools
import importlib.resources
import re

HEADERS = ("cpp_prelude.h", "cpp_prelude_trig.h", "cpp_prelude_special.h", "cpp_prelude_vectors.h",
           "cpp_prelude_blocks.h", "cpp_prelude_softmaxes.h", "cpp_prelude_products.h")  # fmt: skip
"""Read one after the other: a section may use those above it."""

_NAME = re.compile(r"\bmc_\w+")


@functools.cache
def _sections() -> list[tuple[frozenset[str], str, frozenset[str]]]:
    """(names defined, text, names used) for each section of the header."""
    text = "\n".join(importlib.resources.files(__package__).joinpath(name).read_text() for name in HEADERS)
    sections = []
    for chunk in re.split(r"^//@", text, flags=re.MULTILINE)[1:]:
        head, _, body = chunk.partition("\n")
        names = frozenset(head.split())
        sections.append((names, body.strip("\n"), frozenset(_NAME.findall(body)) - names))
    return sections


def prelude(source: str) -> str:
    """The functions that `source` needs. Raises ValueError for an `mc_` name that the header does not define."""
    wanted = set(_NAME.findall(source))
    chosen: list[str] = []
    for names, body, uses in reversed(_sections()):
        if names & wanted:
            chosen.append(body)
            wanted |= uses
        wanted -= names
    if wanted:
        raise ValueError(f"cpp_prelude.h does not define {', '.join(sorted(wanted))}")
    return "\n".join(reversed(chosen))
