"""What "the same as eager" means, once for all tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten


def assert_same(actual: Any, expected: Any, *, strides: bool = True) -> None:
    """Same structure, and for tensors the same dtype, shape, strides, requires_grad, and values within the dtype's
    tolerance (torch.testing's defaults); everything else equal, types included."""
    left, left_spec = tree_flatten(actual)
    right, right_spec = tree_flatten(expected)
    assert left_spec == right_spec, f"structure {left_spec} against {right_spec}"
    for one, other in zip(left, right, strict=True):
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other), f"{one!r} against {other!r}"
            if isinstance(other, np.ndarray):
                assert (one.dtype, one.strides) == (other.dtype, other.strides)
                np.testing.assert_array_equal(one, other)
                continue
            if isinstance(other, (dict, list, tuple)):
                assert_same(_opened(one), _opened(other), strides=strides)
            else:
                assert one == other, f"{one!r} against {other!r}"
            continue
        assert one.requires_grad == other.requires_grad, "requires_grad differs"
        torch.testing.assert_close(one, other, check_stride=strides, equal_nan=True)


def _opened(value: Any) -> tuple[Any, Any]:
    """An object of a class that derives from a builtin container: what it holds, and its attributes."""
    base = next(base for base in (dict, list, tuple) if isinstance(value, base))
    items: Any = base.items(value) if isinstance(value, dict) else base.__iter__(value)
    return list(items), getattr(value, "__dict__", None)


def assert_as_accurate(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    """For reduced precision, where fused code rounds less often than eager: the same dtype, shape and strides, and an
    error against the float64 result at most twice eager's own, plus one rounding of the largest value."""
    assert (actual.dtype, actual.shape, actual.stride()) == (eager.dtype, eager.shape, eager.stride())
    error = (actual.double() - exact).abs().max()
    allowed = 2 * (eager.double() - exact).abs().max() + torch.finfo(actual.dtype).eps * exact.abs().max()
    assert error <= allowed, f"error {error:.3g}, allowed {allowed:.3g}"
