"""Every chapter that is a program prints what it says; and the harness notices when one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from .chapters import ROOT, blocks, matches, mismatches, run, write

DOCS = ROOT / "docs"
RUN = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if any(blocks(path.read_text())))
"""Chapters of docs/ with code, which runs in one namespace from top to bottom."""


@pytest.mark.parametrize("chapter", RUN)
def test_chapter_prints_what_it_says(chapter: str) -> None:
    assert mismatches(DOCS / chapter) == []


CHAPTER = """
```python
# train.py
import sys, warnings
def f(): return sys._getframe().f_code.co_filename, sys._getframe().f_lineno
print(f())
```

```text
('train.py', 3)
```

<!-- not run -->
```python
1 / 0
```

Between.

```python
warnings.warn("mind", RuntimeWarning)
print(f()[1] + 1, file=sys.stderr)
```

```text
RuntimeWarning: mind
5
```
"""


def test_blocks_are_one_program() -> None:
    first, second = blocks(CHAPTER)
    assert (first.filename, second.filename) == ("train.py", "example.py")
    assert run(CHAPTER) == ["('train.py', 3)\n", "RuntimeWarning: mind\n4\n"]


def test_a_wrong_text_is_found_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "chapter.md"
    path.write_text(CHAPTER)
    (found,) = mismatches(path)
    assert "says\nRuntimeWarning: mind\n5" in found and "prints\nRuntimeWarning: mind\n4" in found
    write(path)
    assert mismatches(path) == [] and path.read_text() == CHAPTER.replace("\n5\n", "\n4\n")


def test_an_error_in_a_chapter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "chapter.md"
    path.write_text("```python\n1 / 0\n```\n")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        mismatches(path)


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        ("a\nb", "a \nb\n", True), ("a ... c", "a b c", True), ("a\n", "\na\n    \n", True), ("a...", "b", False),
        ("(.*)", "x", False),
    ],  # fmt: skip
)
def test_matching(expected: str, output: str, same: bool) -> None:
    assert matches(expected, output) is same
