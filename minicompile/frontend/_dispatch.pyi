"""What dispatch.c offers; see dispatch.py."""

from collections.abc import Callable
from typing import Any

class Dispatch:
    def __init__(self, entries: Any, miss: Callable[..., Any], marker: object) -> None: ...
    def __call__(self, func: Any, *slots: Any) -> Any: ...
