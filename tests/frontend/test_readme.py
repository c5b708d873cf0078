"""The table of promises names tests and programs that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_REFERENCE = re.compile(r"^(?P<file>[\w/]+\.py)(::(?P<test>\w+)|\[(?P<programs>[^\]]+)\])?$")
ROWS = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ") and ".py" in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_what_is_named_exists(row: str) -> None:
    references = re.split(r", (?=[\w/]+\.py)", row.split("|")[2].strip())
    for reference in references:
        found = _REFERENCE.match(reference)
        assert found is not None, reference
        text = (HERE.parent / found["file"]).read_text()
        names = [found["test"]] if found["test"] else (found["programs"] or "").split(", ") if found["programs"] else []
        for name in names:
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{name} in {found['file']}"
