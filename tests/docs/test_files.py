"""Files that the documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .chapters import ROOT

PAGES = [ROOT / "README.md", ROOT / "tests/frontend/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOMES = ("", "minicompile", "tests")
_NAMED = re.compile(r"(?<![\w/.])([a-z_]+(?:/[\w]+)+\.(?:py|c|h))\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_named_files_are_there(page: Path) -> None:
    names = {name for name in _NAMED.findall(page.read_text()) if not name.startswith("torch/")}
    assert not [name for name in sorted(names) if not any((ROOT / at / name).is_file() for at in HOMES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_named_tests_are_there(page: Path) -> None:
    for name, test in re.findall(r"([\w/]+\.py)::(\w+)", page.read_text()):
        assert f"def {test}(" in (ROOT / "tests" / name).read_text(), f"{name}::{test}"
