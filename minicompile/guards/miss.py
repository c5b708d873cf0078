"""The answer of a generated function whose check does not hold."""

from __future__ import annotations


class _Miss:
    def __repr__(self) -> str:
        return "<guard miss>"

    def __reduce__(self) -> str:
        return "MISS"


MISS = _Miss()
"""What a generated function returns when a guard failed; in its namespace under `__MISS__`."""
