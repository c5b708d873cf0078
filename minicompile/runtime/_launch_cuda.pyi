from collections.abc import Callable
from typing import Any

class CudaKernel:
    """See launch_cuda.c; `runtime/launch_cuda.py` documents the arguments."""

    def __init__(
        self, function: int, grid: int, threads: int, shared: int, n_tensors: int, ints: tuple[int, ...], hidden: int,
        device: int, aligned: bool, name: str, elsewhere: Callable[..., None], stream: Callable[[int], int],
    ) -> None: ...
    def __call__(self, *tensors: Any) -> None: ...

class Run:
    """See run.h."""

    def __init__(
        self, steps: tuple[tuple[CudaKernel, tuple[tuple[int, int], ...]], ...], n_tensors: int,
        otherwise: Callable[..., None],
    ) -> None: ...
    def __call__(self, *tensors: Any) -> None: ...

def use_layout(layout: tuple[Any, ...]) -> None: ...
def same_addresses(tensors: list[Any], addresses: list[int | None], where: list[int]) -> bool: ...
