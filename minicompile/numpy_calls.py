"""What graphs call for NumPy's functions: torch's own re-implementation of them (`torch._numpy`), on tensors.

In: the name of a function or method, tensors in the place of arrays. Out: tensors in the place of arrays.
"""

from __future__ import annotations

from typing import Any

import torch


def numpy_function(name: str, *args: Any, **kwargs: Any) -> Any:
    """`numpy.name(*args, **kwargs)`."""
    import torch._numpy as numpy

    return _tensors(getattr(numpy, name)(*map(_arrays, args), **{key: _arrays(value) for key, value in kwargs.items()}))


def numpy_method(name: str, owner: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """`owner.name(*args, **kwargs)` of an array."""
    method = getattr(_arrays(owner), name)
    return _tensors(method(*map(_arrays, args), **{key: _arrays(value) for key, value in kwargs.items()}))


def _arrays(value: Any) -> Any:
    import torch._numpy as numpy

    if isinstance(value, torch.Tensor):
        return numpy.ndarray(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_arrays, value))
    return value


def _tensors(value: Any) -> Any:
    import torch._numpy as numpy

    if isinstance(value, numpy.ndarray):
        return value.tensor
    if isinstance(value, (list, tuple)):
        return type(value)(map(_tensors, value))
    return value


__all__ = ["numpy_function", "numpy_method"]
