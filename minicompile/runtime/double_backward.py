"""Backward of a backward: under `create_graph=True` the captured graph runs again, in eager.

In: the captured graph and the inputs of a call. Out: gradients that autograd can differentiate.

It needs the inputs of the call. Those that are saved for backward anyway come from there. Of the others, those whose
values backward depends on are kept too, where nobody else does; the rest may die, and are zeros then, which change
no gradient. Where this cannot be right (the graph mutates its inputs or draws random numbers), a clear error says so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..ir.call_plan import CallPlan, Own
from ..ir.graph import Graph, Node
from ..walks import reachable


@dataclass
class DoubleBackward:
    """What a call keeps, and how its gradients are computed a second time.

    Attributes:
        forward: the captured graph.
        tangents: numbers of the differentiable results.
        places: number of an input → its place among the saved tensors.
        needed: numbers of the inputs whose values backward depends on.
        grad_mode: the grad mode in which calls come.
        why_not: why this graph cannot run again, or None.
    """

    forward: Callable[..., Sequence[Any]]
    plan: CallPlan
    tangents: tuple[int, ...]
    places: Mapping[int, int]
    needed: frozenset[int]
    grad_mode: bool
    why_not: str | None

    def remember(self, args: Sequence[Any]) -> list[Any]:
        """Of each input: None if it is saved, what brings it back for a tensor, else the value."""
        if self.why_not is not None:
            return []
        return [None if i in self.places else self._remembered(i, arg) for i, arg in enumerate(args)]

    def _remembered(self, index: int, arg: Any) -> Any:
        if not isinstance(arg, torch.Tensor):
            return arg
        is_parameter = arg.requires_grad and arg.is_leaf  # autograd's own graph keeps it
        return _Held(arg) if index in self.needed and not is_parameter else _Watched(arg)

    def run(self, remembered: Sequence[Any], saved: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """One gradient, or None, for each input. Raises RuntimeError that names the way out."""
        if self.why_not is not None:
            raise RuntimeError(explained(self.why_not))
        args = [saved[self.places[i]] if i in self.places else _brought_back(kept) for i, kept in enumerate(remembered)]
        with torch.enable_grad():
            args = list(map(_entered, args))
        with torch.set_grad_enabled(self.grad_mode):
            outputs = self.forward(*args)
        by_number = {out.result: value for out, value in zip(self.plan.outputs, outputs, strict=True)
                     if isinstance(out, Own)}  # fmt: skip
        pairs = [(by_number[i], t) for i, t in zip(self.tangents, tangents, strict=True) if t is not None]
        gradients: list[Any] = [None] * len(args)
        wanted = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and arg.requires_grad]
        if pairs and wanted:
            results, given = zip(*pairs, strict=True)
            with torch.enable_grad():
                found = torch.autograd.grad(results, [args[i] for i in wanted], given, create_graph=True,
                                            allow_unused=True)  # fmt: skip
            for i, gradient in zip(wanted, found, strict=True):
                gradients[i] = gradient
        return tuple(gradients)


def why_not(graph: Graph, plan: CallPlan, tangents: Sequence[int]) -> str | None:
    """Why running the captured graph again would not give the same, or None."""
    if plan.writes or graph.writes:
        return "it mutates its inputs"
    if any(node.attrs.get("effect") is True for node in graph.nodes):
        return "it draws random numbers"
    if not {out.result for out in plan.outputs if isinstance(out, Own)} >= set(tangents):
        return "its results share memory with one another"
    return None


def explained(reason: str) -> str:
    """The message for a user."""
    return (
        "minicompile cannot differentiate this compiled graph twice (create_graph=True, a gradient of a gradient): "
        f"{reason}. Keep the function out of compilation with minicompile.disable, or compile it with "
        "backend='eager', whose graphs autograd can differentiate any number of times."
    )


def _entered(arg: Any) -> Any:
    """An input as a tensor of its own for autograd: the gradient with respect to it is this graph's part alone, also
    where another input was computed from it."""
    return arg.view_as(arg) if isinstance(arg, torch.Tensor) and arg.requires_grad else arg


class _Watched:
    """An input that may die: a weak reference, and how it looked."""

    __slots__ = ("looks", "reference", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.reference, self.version = weakref.ref(tensor), tensor._version
        self.looks = tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad

    def get(self) -> torch.Tensor:
        tensor = self.reference()
        return _unchanged(tensor, tensor, self.version) if tensor is not None else self._blank()

    def _blank(self) -> torch.Tensor:
        shape, strides, dtype, device, requires_grad = self.looks
        last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        memory = torch.zeros(last + 1 if shape.numel() else 0, dtype=dtype, device=device)
        return memory.as_strided(shape, strides).requires_grad_(requires_grad)


class _Held:
    """An input that lives on: its numbers, and its place in autograd's graph. Not the tensor itself, which comes to
    hold this very node when it is written to later."""

    __slots__ = ("numbers", "place", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.numbers, self.version = tensor.detach(), tensor._version  # a detached tensor's version is the tensor's
        with torch.enable_grad():
            self.place = torch.ops.aten._unsafe_view(tensor, tensor.shape) if tensor.requires_grad else self.numbers

    def get(self) -> torch.Tensor:
        return _unchanged(self.place, self.numbers, self.version)


def _brought_back(kept: Any) -> Any:
    return kept.get() if isinstance(kept, (_Watched, _Held)) else kept


def _unchanged(tensor: torch.Tensor, counted: torch.Tensor, version: int) -> torch.Tensor:
    if counted._version != version:
        raise RuntimeError(explained("one of its inputs has been modified in place since"))
    return tensor


def needed_inputs(graph: Graph, n_inputs: int, cut: Sequence[Node]) -> frozenset[int]:
    """The numbers of the inputs of a joint graph that the values which backward gets are computed from."""
    reached = reachable(cut, Node.operands)
    return frozenset(i for i, node in enumerate(graph.inputs[:n_inputs]) if node in reached)
