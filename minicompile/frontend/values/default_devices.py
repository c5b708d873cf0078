"""`torch.set_default_device` and blocks of a device: what functions make tensors on that device, and which a graph may
hold.

In: a call of a torch function while such a device is set. Out: its arguments, with the device said, so that a graph
means the same with and without torch's mode for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from ..breaks import unsupported_call
from .base import Kwargs
from .callables import function_name, is_safe_to_hash
from .constant import ConstantValue


def on_default_device(device: torch.device | None, fn: Any, kwargs: Kwargs) -> Kwargs:
    """The arguments by name of a call of `fn`."""
    if device is None or not is_safe_to_hash(fn) or fn not in _device_constructors():
        return kwargs
    given = kwargs.get("device")
    is_said = given is not None and getattr(given, "value", given) is not None
    return kwargs if is_said else {**kwargs, "device": ConstantValue(device)}


class NoConstructors(TorchFunctionMode):
    """While a function written in Python runs: it makes no tensor on whatever device is set."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            raise unsupported_call(f"{function_name(func)}()", "makes a tensor on the default device")
        return func(*args, **kwargs)
