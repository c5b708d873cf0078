"""The site: every page is in the navigation and is there, links lead somewhere, chapters have what a chapter has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .chapters import ROOT, blocks

DOCS = ROOT / "docs"
BOOK = sorted((DOCS / "book").glob("*.md"))
NAVIGATION = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_navigation_is_what_there_is() -> None:
    assert sorted(NAVIGATION) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+\.(?:md|png|svg))", path.read_text()):
        assert (path.parent / target).resolve().is_file(), target


@pytest.mark.parametrize("path", BOOK, ids=lambda path: path.stem)
def test_a_chapter_is_short_and_complete(path: Path) -> None:
    text = path.read_text()
    body = text.split("## Exercises")[0]
    assert len(body.split()) < 700 and "In PyTorch" in body and re.search(r"torch/[\w/]+|TORCH_LOGS", body)
    assert text.count("<details") == 2 == len(re.findall(r"^\d\. ", text.split("## Exercises")[1], re.MULTILINE))
    assert any(block.expected for block in blocks(text)), "real output"
    assert "fill" not in [(block.expected or "").strip() for block in blocks(text)]


@pytest.mark.skipif(__import__("importlib.util").util.find_spec("material") is None, reason="pip install '.[docs]'")
def test_site_builds_without_a_warning(tmp_path: Any) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "book" / "13_inductor" / "index.html").is_file()
