"""What products.c offers; see products.py."""

from collections.abc import Callable
from typing import Any

class Product:
    def __init__(
        self,
        function: int,
        reinterpret: int,
        release: int,
        scaled: bool,
        views: tuple[Any, ...],
        keys: tuple[int, int],
        otherwise: Callable[..., None],
    ) -> None: ...
    def __call__(self, *tensors: Any) -> None: ...

def use_layout(layout: tuple[Any, ...]) -> None: ...
