"""docs/options.md names every option there is, with its default."""

from __future__ import annotations

import inspect
import re

from minicompile import backends, logs
from minicompile.api import compile
from minicompile.config import OPTIONS

from .chapters import ROOT

PAGE = (ROOT / "docs/options.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """The rows of the table below a heading: its first cell's name → the second cell."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))


def test_every_option_and_its_default(monkeypatch) -> None:
    for name in ("MINICOMPILE_DEBUG", "MINICOMPILE_ENTRY_CACHE"):
        monkeypatch.delenv(name, raising=False)
    described = {name: cell.strip("` ") for name, cell in rows("Of the process").items()}
    defaults = {name: str(option.default()) for name, option in OPTIONS.items()}
    assert described == {**defaults, "kept_memory": f"{int(defaults['kept_memory']) >> 20} MiB"}


def test_every_argument_mode_and_log() -> None:
    arguments = rows("Of one compilation")
    assert list(arguments) == [name for name in inspect.signature(compile).parameters if name != "fn"]
    assert {f'"{mode}"' for mode in filter(None, backends.MODES)} == set(re.findall(r'"[\w-]+"', arguments["mode"]))
    assert all(name in arguments["options"] for name in backends.OPTIONS)
    assert all(f'"{name}"' in arguments["backend"] for name in backends.OWN_BACKENDS)
    assert f"{', '.join(f'`{name}`' for name in logs.NAMES)}, or `all`" in PAGE
