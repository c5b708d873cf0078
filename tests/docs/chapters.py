"""Chapters of docs/ that run: what a chapter's code prints is what the chapter says that it prints.

In: a Markdown file. Its ```python blocks are one program, run in order in one namespace; a ```text block right behind
one is what that one prints (standard output, warnings, logs), where `...` stands for anything.
Out: for each block that has such a text, what was printed; `mismatches(path)` names those that differ.

    python -m tests.docs.chapters docs/guards_and_dynamic_shapes.md            # compare
    python -m tests.docs.chapters docs/guards_and_dynamic_shapes.md --write    # put what was printed into the chapter

A block whose first line is a comment like `# train.py` is a file of that name to tracebacks and to the compiler's
messages, others are `example.py`; lines count from the block's own first. ```python blocks below `<!-- not run -->` are
left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import linecache
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOT_RUN = "<!-- not run -->"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# (\w+\.py)$")


@dataclass(frozen=True)
class Block:
    """One block of code, and the text of the block of output behind it with where that stands in the chapter."""

    code: str
    expected: str | None
    span: tuple[int, int] = (0, 0)

    @property
    def filename(self) -> str:
        named = _NAME.match(self.code.split("\n", 1)[0])
        return named[1] if named else "example.py"


def blocks(chapter: str) -> Iterator[Block]:
    """The blocks of code that are run, in order."""
    found = list(_FENCE.finditer(chapter))
    for fence, following in zip(found, [*found[1:], None], strict=False):  # a page may have none
        before = chapter[: fence.start()].rstrip()
        if fence[1] != "python" or before.endswith(NOT_RUN):
            continue
        if following is not None and following[1] == "text" and not chapter[fence.end() : following.start()].strip():
            yield Block(fence[2], following[2], following.span(2))
        else:
            yield Block(fence[2], None)


def run(chapter: str) -> list[str]:
    """Run the blocks in this process; what each printed. The program's own exceptions come out as they are."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    stream = io.StringIO()
    printed = []
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_, **__: print(f"{category.__name__}: {message}")
        for block in blocks(chapter):
            lines = block.code.splitlines(keepends=True)
            linecache.cache[block.filename] = (len(block.code), None, lines, block.filename)
            start = stream.tell()
            exec(compile(block.code, block.filename, "exec"), namespace)
            printed.append(stream.getvalue()[start:])
    return printed


def run_apart(path: Path) -> list[str]:
    """`run` in a process of its own, without entries that earlier processes have stored."""
    environment = {**os.environ, "MINICOMPILE_ENTRY_CACHE": "0", "PYTHONPATH": str(ROOT)}
    environment.pop("MINICOMPILE_LOGS", None)
    command = [sys.executable, "-m", "tests.docs.chapters", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    if done.returncode:
        raise RuntimeError(f"{path.name} does not run:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def mismatches(path: Path) -> list[str]:
    """What the chapter says that its blocks print, and what they do print instead."""
    every = list(blocks(path.read_text()))
    return [
        f"{path.name}, {block.code}\nsays\n{block.expected}\nprints\n{output}"
        for block, output in zip(every, run_apart(path), strict=True)
        if block.expected is not None and not matches(block.expected, output)
    ]


def matches(expected: str, output: str) -> bool:
    """Whether they are equal but for spaces at the ends of lines; `...` in `expected` is any text."""
    parts = _trimmed(expected).split("...")
    return re.fullmatch(".*?".join(map(re.escape, parts)), _trimmed(output), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def write(path: Path) -> None:
    """Replace the texts of output that do not match by what is printed."""
    chapter = path.read_text()
    pairs = list(zip(blocks(chapter), run_apart(path), strict=True))
    for block, output in reversed(pairs):
        if block.expected is not None and not matches(block.expected, output):
            start, end = block.span
            chapter = f"{chapter[:start]}{_trimmed(output)}\n{chapter[end:]}"
    path.write_text(chapter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapter", type=Path)
    parser.add_argument("--write", action="store_true", help="put what was printed into the chapter")
    parser.add_argument("--json", action="store_true", help="run here, and print what was printed as JSON")
    args = parser.parse_args()
    if args.json:
        print(json.dumps(run(args.chapter.read_text())))
        return 0
    if args.write:
        write(args.chapter)
        return 0
    found = mismatches(args.chapter.resolve())
    print("\n".join(found) or f"{args.chapter.name}: as printed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
