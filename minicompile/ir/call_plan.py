"""What a call does around a differentiable graph.

In: nothing.
Out: `CallPlan`, which lowering makes and runtime/ turns into Python.

Forward and backward together are one node of autograd's graph. Whatever eager's autograd would see happen on the
caller's own tensors has to be done on them, after that node, under autograd: `x.add_(w)` on an input is a `copy_` into
it; an output that shares memory with an input, and outputs that share memory with one another, are made as views, so
that a mutation of one is known to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .types import TensorType


@dataclass(frozen=True)
class Own:
    """An output that is a result of the pair."""

    result: int


@dataclass(frozen=True)
class Whole:
    """An output that is the very input; `detached`: another object over it, which autograd does not know."""

    input: int


@dataclass(frozen=True)
class View:
    """An output that is a view of an input, or of a result: of `type`'s shape and strides, `offset` elements on.

    `detached`: autograd does not see it. `key` is equal for outputs that are one tensor object. `retyped`: it shows the
    memory in another dtype. `lazy`: see `retyped.view_as`. `unrecorded`: it was made where gradients are not recorded,
    and is a leaf that requires one, as all views of what requires one.
    """

    of_input: bool
    index: int
    type: TensorType
    offset: Any
    detached: bool
    key: int
    retyped: bool = False
    lazy: str = ""
    unrecorded: bool = False


@dataclass(frozen=True)
class Write:
    """A result that is copied into an input after the pair; `recorded`: by autograd."""

    input: int
    result: int
    recorded: bool


@dataclass(frozen=True)
class CallPlan:
    """`outputs` holds Own, Whole, View, Dims, Python scalars and None."""

    outputs: tuple[Any, ...]
    writes: tuple[Write, ...]
