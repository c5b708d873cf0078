"""The check of all of an entry's tensors: one native call.

In: the entry's `TensorGuard`s. Out: a callable of as many values, in their order, which says whether all hold, and
whether it may be given any objects at all.

What is compared: exact Python class; dispatch keys, which stand for device type, layout, conjugate and negative bits
and being an inference tensor; the thread's own dispatch keys, which stand for inference mode, autocast and functorch
state; dtype; device index; requires_grad; sizes and strides (dynamic ones excepted); that no two arguments are one
object; and, by our own check, how many torch modes are active. What is not: the storage offset (`StorageOffsetGuard`,
only where a trace depended on it), and overlapping memory of two different tensors (`OverlapGuard`, only where one of
them is written).

The check is ours (tensor_check.c, 20 ns a tensor), or, where that was not built or this torch's tensors can't be read,
torch's own `TensorGuards` (100 ns). On a nested tensor that one throws where nothing catches it and ends the process;
since a nested tensor has the class of a dense one, each plain torch.Tensor must be asked `is_nested` first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..torch_compat import can_read_tensors, tensor_numbers
from .made import Made
from .native_tensors import native as _native
from .native_tensors import native_check
from .tensors import TensorGuard


def tensor_check(guards: list[TensorGuard]) -> tuple[Callable[..., bool], bool]:
    """The check for these guards' tensors, and whether it is our own: that stands nested tensors and counts modes.

    Must be built where the check will run, as far as the thread's state goes: no fake mode, and the same autocast and
    inference mode. Raises ReferenceError if a traced tensor is dead already.
    """
    for guard in guards:
        if guard.tensor is not None and guard.tensor() is None:
            raise ReferenceError(f"{guard.source.describe()} died before its check was built")
    if can_read_tensors(_native):
        try:
            return native_check(tuple(map(_expected, guards))), True
        except LookupError:  # a dtype or device of which torch's stable interface knows nothing
            pass
    return (FirstTensors(guards) if any(guard.tensor is None for guard in guards) else torch_check(guards)), False


def made_from(guards: list[TensorGuard], is_own_check: bool) -> Made:
    """The same check in another process, which does not have the traced tensors."""
    if is_own_check:
        return Made(native_check, (tuple(map(_expected, guards)),))
    return Made(FirstTensors, ([replace(guard, tensor=None) for guard in guards],))


def _expected(guard: TensorGuard) -> tuple[Any, ...]:
    numbers = tensor_numbers(guard.dtype, guard.device)
    return (guard.cls, guard.keys, *numbers, guard.requires_grad, guard.shape, guard.stride)


def torch_check(guards: list[TensorGuard]) -> Callable[..., bool]:
    """Torch's own check, made from the traced tensors."""
    from torch._C._dynamo.guards import TensorGuards

    tensors = [guard.tensor() for guard in guards if guard.tensor is not None]
    sizes, strides = [list(guard.shape) for guard in guards], [list(guard.stride) for guard in guards]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check  # type: ignore[arg-type]


class FirstTensors:
    """Torch's check for guards that another process made: in Python until a call's tensors have passed.

    Those tensors stand for the traced ones, which are not here.
    """

    def __init__(self, guards: list[TensorGuard]) -> None:
        self.guards = guards
        self._check: Callable[..., bool] | None = None

    def __call__(self, *tensors: Any) -> bool:
        if self._check is not None:
            return self._check(*tensors)
        different = len({id(tensor) for tensor in tensors}) == len(tensors)
        if not different or not all(guard.holds_for(t) for guard, t in zip(self.guards, tensors, strict=True)):
            return False
        known = [replace(guard, tensor=weakref.ref(t)) for guard, t in zip(self.guards, tensors, strict=True)]
        self._check = torch_check(known)
        return True
