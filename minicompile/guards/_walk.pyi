"""What walk.c offers; see walk.py."""

from typing import Any

class Walk:
    def __init__(self, steps: tuple[tuple[Any, ...], ...], inputs: int) -> None: ...
    def __call__(self, *objects: Any) -> tuple[Any, ...] | None: ...
