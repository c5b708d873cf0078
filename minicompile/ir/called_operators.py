"""Operators of ATen's that are called in a way of their own.

In: an operator. Out: what stands for it as the target of an extern node: an object that is called with the operator's
arguments, and has its schema and tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..nests import leaves
from ..torch_compat import rng_state_operators


@dataclass(frozen=True)
class CalledOperator:
    """An operator, and by its class how it is called."""

    op: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    @property
    def _schema(self) -> Any:
        return self.op._schema

    @property
    def _overloadname(self) -> str:
        return self.op._overloadname

    @property
    def tags(self) -> Any:
        return self.op.tags

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.op})"


class Recording(CalledOperator):
    """An operator that keeps what its backward needs only if gradients are recorded. Nothing is recorded: it gets
    detached arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            return self.op(*(arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args), **kwargs)


class FromOwnStart(CalledOperator):
    """`as_strided`, with an offset that counts from where the tensor itself begins in its memory: in a graph a tensor
    may lie elsewhere than in eager."""

    def __call__(self, x: torch.Tensor, size: Any, stride: Any, offset: Any) -> torch.Tensor:
        return self.op(x, size, stride, x.storage_offset() + offset)


class Flattened(CalledOperator):
    """An operator that returns lists of tensors among its results: all of them in one tuple."""

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(leaves(self.op(*args, **kwargs)))


class SavingState(CalledOperator):
    """A random operator whose numbers are to be drawn again: the state of the generator before it, then its results."""

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        save, _ = rng_state_operators()
        state, result = save(self.op, *args, **kwargs)
        return (state, *result) if isinstance(result, (tuple, list)) else (state, result)


class FromState(CalledOperator):
    """A random operator from a state of the generator, its first argument; the generator goes on from where it was."""

    def __call__(self, state: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        _, start = rng_state_operators()
        return start(state, self.op, *args, **kwargs)
