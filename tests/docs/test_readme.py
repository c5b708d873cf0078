"""The README's code runs as it stands, each block in a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block: str, tmp_path: Path) -> None:
    program = tmp_path / "tour.py"
    program.write_text(block)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_tour_shows_what_is_printed(tmp_path: Path) -> None:
    """The guards and the IR in the tour are what the tour's program prints today."""
    program = tmp_path / "tour.py"
    program.write_text(BLOCKS[0] + "\nprint(*entry.guards, sep='\\n')\nprint(graph.ir)\nprint(graph.kernels[0].ir)\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=True)
    printed = done.stdout.replace(f"{tmp_path}/", "")
    tour = (ROOT / "README.md").read_text().split("## What you can do")[0]
    indented = re.findall(r"^    (\s*\S.*)$", tour, re.MULTILINE)
    shown = [line for line in indented if not line.startswith("make ") and line.strip() != "..."]
    outside_blocks = [line for line in shown if f"    {line}\n" not in BLOCKS[0]]
    assert len(outside_blocks) > 15
    for line in outside_blocks:
        assert line.rstrip() in printed, line
