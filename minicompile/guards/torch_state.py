"""Torch's own state, read and compared; what guards on it, and tracing, ask.

In: nothing; the state of this thread, and of the process. Out: a `Snapshot` of most of it, the active modes, and
whether a call can be traced at all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext


class Snapshot:
    """What one C call compares: grad mode, autocast by device type with dtype and cache, default dtype, deterministic
    algorithms, tf32 and reduced-precision reductions, disabled `__torch_function__`.

    That call also compares the number of threads, which compiled code does not depend on: kernels ask when they run. So
    if it refuses, a second look, off the fast path, forgives a difference in that alone; calls from another thread, or
    after `torch.set_num_threads`, then do not compile anew.

    Attributes:
        check: whether everything is as it was.
        reason: the names of what is not.
    """

    def __init__(self) -> None:
        native = torch._C._dynamo.guards.GlobalStateGuard()
        self.check, self.reason = native.check, native.reason
        self._all_functions_off = torch._C._is_torch_function_all_disabled()

    def holds_but_for_threads(self) -> bool:
        """Whether the number of threads is all that differs."""
        return self.reason().split() == ["num_threads"] and self.function_flag_holds()

    def function_flag_holds(self) -> bool:
        """The C call compares this too but has no word for it."""
        return torch._C._is_torch_function_all_disabled() == self._all_functions_off


def function_modes() -> tuple[Any, ...]:
    """The active torch function modes, outermost first; the one of `torch.set_default_device` as its device."""
    get = torch._C._get_function_stack_at
    stack = [get(index) for index in range(torch._C._len_torch_function_stack())]
    return tuple(mode.device if isinstance(mode, DeviceContext) else mode for mode in stack)


def default_device() -> torch.device | None:
    """The device that `torch.set_default_device`, or a block of a device, has set; None if there is none."""
    bottom = torch._C._get_function_stack_at(0) if torch._C._len_torch_function_stack() else None
    return bottom.device if isinstance(bottom, DeviceContext) else None


def same_function_modes(expected: tuple[Any, ...]) -> bool:
    """Whether exactly these modes are active: devices by value, other modes by identity."""
    now = function_modes()
    return len(now) == len(expected) and all(
        mode == other if isinstance(mode, torch.device) else mode is other
        for mode, other in zip(now, expected, strict=True)
    )


def why_untraceable() -> str | None:
    """What of torch's state keeps this call from being traced, whatever the function; None if nothing does."""
    modes = torch._C._len_torch_function_stack()
    if torch._C._len_torch_dispatch_stack() or (modes and (modes > 1 or default_device() is None)):
        return "a torch function mode or dispatch mode is active"
    if torch._C._functorch.maybe_current_level() is not None:
        return "a functorch transform is active"
    if forward_ad._current_level >= 0:
        return "a level of forward-mode differentiation is active"
    return "__torch_function__ is disabled" if torch._C._is_torch_function_all_disabled() else None
