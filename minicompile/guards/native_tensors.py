"""What tensor_check.c gives, by functions: a recalled entry calls these too, and imports nothing more of guards.

In: what is expected of each tensor, as tensor_check.c wants it. Out: the check; the function that reads sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..torch_compat import can_read_tensors

try:
    from minicompile.guards import _tensor_check as native
except ImportError:  # not built: no C compiler when the package was installed
    native = None  # type: ignore[assignment]

native_shape = getattr(native, "shape", None)
"""The sizes of a tensor, quicker than `tensor.shape`. To be used beside our own check only: another torch's tensors
may not be readable."""


def native_check(expected: tuple[tuple[Any, ...], ...]) -> Callable[..., bool]:
    """Raises LookupError where tensors can't be read."""
    if not can_read_tensors(native):
        raise LookupError("it is not known how tensors are read")
    return native.TensorCheck(expected)


def shape_reader() -> Callable[[Any], tuple[int, ...]]:
    """`native_shape`, where there is one."""
    assert native_shape is not None
    return native_shape
