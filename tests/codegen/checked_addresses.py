"""Every address that an interpreted Triton kernel reads or writes must lie in the memory of one of its operands.

In: `addresses_are_checked`, a fixture for files that run in Triton's interpreter, which itself reads whatever there is.
Out: an AssertionError in the kernel's call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from triton.runtime.interpreter import InterpreterBuilder

from minicompile.codegen.triton_launch import Launcher

CHECKED = {"create_masked_load": 1, "create_masked_store": 2}
"""Methods of the interpreter, and where the mask stands after the addresses."""


@pytest.fixture(autouse=True)
def addresses_are_checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    inside: list[tuple[int, int]] = []
    interpret = Launcher._interpret

    def noted(self: Launcher, args: tuple[Any, ...]) -> None:
        inside[:] = [_memory_of(arg) for arg in args if isinstance(arg, torch.Tensor)]
        interpret(self, args)

    monkeypatch.setattr(Launcher, "_interpret", noted)
    for name, place in CHECKED.items():
        monkeypatch.setattr(InterpreterBuilder, name, _checking(getattr(InterpreterBuilder, name), place, inside))
    yield


def _memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _checking(method: Any, place: int, inside: list[tuple[int, int]]) -> Any:
    def checked(self: Any, pointers: Any, *args: Any) -> Any:
        size = pointers.get_element_ty().primitive_bitwidth // 8
        mask = np.broadcast_to(args[place - 1].data, pointers.data.shape).astype(bool)
        addresses = pointers.data[mask].astype(np.int64)
        good = np.zeros(addresses.shape, bool)
        for begin, end in inside:
            good |= (addresses >= begin) & (addresses + max(size, 1) <= end)
        assert good.all(), f"{(~good).sum()} addresses lie outside of the kernel's operands: {addresses[~good][:3]}"
        return method(self, pointers, *args)

    return checked
