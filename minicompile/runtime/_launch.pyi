"""What launch.c offers; see launch.py."""

from collections.abc import Callable
from typing import Any

class Kernel:
    n_tensors: int
    n_ints: int
    name: str

    def __init__(
        self,
        address: int,
        n_tensors: int,
        n_ints: int,
        name: str,
        error: Callable[[int, str], BaseException],
        keepalive: Any,
    ) -> None: ...
    def __call__(self, *args: Any) -> None: ...

class Run:
    """See run.h."""

    def __init__(
        self, steps: tuple[tuple[Kernel, tuple[tuple[int, int], ...]], ...], n_tensors: int,
        otherwise: Callable[..., None],
    ) -> None: ...
    def __call__(self, *tensors: Any) -> None: ...

def use_layout(layout: tuple[Any, ...]) -> None: ...
