"""Differences between torch versions, and torch's private names that we rely on, in one place.

In: torch >= 2.11. Out: functions with one meaning on every version.
"""

from __future__ import annotations

from typing import Any


def symbol_hint(shape_env: Any, symbol: Any) -> int | None:
    """The value that a size symbol had when it was made; None for one that stands for data (`backed_var_to_val` was
    called `var_to_val` in earlier versions)."""
    table = getattr(shape_env, "backed_var_to_val", None)
    value = (shape_env.var_to_val if table is None else table).get(symbol)
    return None if value is None else int(value)
