"""Which inference tensors a graph changes in place: they have no version that would tell.

In: the calls that are made with fake inference tensors, as ATen operators. Out: the memory that they write, by what
their schemas say.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..ir.fake_versions import written
from ..torch_compat import storage_id


class WriteWatch(TorchDispatchMode):
    """While it is on, notes what is written. `count`: how many writes it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._storages: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for tensor in written(func, args, kwargs):
                self.count += 1
                self._storages.add(storage_id(tensor))
        return func(*args, **kwargs)

    def has_seen(self, tensor: torch.Tensor) -> bool:
        """Whether memory of an inference tensor was written."""
        return tensor.is_inference() and storage_id(tensor) in self._storages


__all__ = ["WriteWatch"]
