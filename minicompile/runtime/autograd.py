"""A compiled forward and its backward as one node of autograd's graph.

In: a compiled forward graph, a backward graph that is compiled when it is first needed, and the plan of what a call
does around them.
Out: `TrainingGraph`: a callable with autograd's own semantics.

Saved tensors go through `save_for_backward`, so that autograd notices when one was changed in place, frees them after
backward, and runs hooks on saved tensors. Gradients of what got no gradient itself stay None (see
lowering/undefined.py), as in eager.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..ir.symbols import dim_text
from ..ir.types import SizeType
from .double_backward import DoubleBackward, needed_inputs, why_not
from .one_by_one import OneByOne
from .training_call import make_call

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph
    from ..ir.graph import Graph
    from ..lowering.joint import Joint
    from ..lowering.partition import Split


class Backward:
    """The backward graph, compiled once for every set of results that get a gradient.

    Attributes:
        graph: for all of them.
        compiled: numbers of the missing tangents → compiled graph.
    """

    def __init__(self, split: Split, n_tangents: int, compile_without: Callable[[Sequence[int]], Any]) -> None:
        self.graph = split.backward
        self.compiled: dict[tuple[int, ...], Any] = {}
        self._first = len(self.graph.inputs) - n_tangents
        self._strides = [_strides_function(self.graph, self._first + i) for i in range(n_tangents)]
        self._unsure = {
            i: _strides_function(self.graph, split.n_sizes + i)
            for i, node in enumerate(split.cut)
            if node.op in ("extern", "getitem")
        }
        self._compile_without = compile_without
        self._lock = threading.Lock()

    def __call__(self, sizes: Sequence[int], saved: list[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """One gradient, or None, for each input of the captured graph.

        Args:
            saved: emptied, so that each saved tensor can die when backward has read it for the last time.
            tangents: may hold None.
        """
        missing = tuple(i for i, tangent in enumerate(tangents) if tangent is None)
        run = self.compiled.get(missing) or self._compile_for(missing)
        laid_out = [
            tangent if tangent is None else _laid_out(tangent, strides(*sizes))
            for tangent, strides in zip(tangents, self._strides, strict=True)
        ]
        for i, strides in self._unsure.items():
            if saved[i] is not None:  # not needed for these tangents
                saved[i] = _as_promised(saved[i], strides(*sizes))
        boxed = [*sizes, *saved, *laid_out]
        saved.clear()
        return run(boxed)

    def _compile_for(self, missing: tuple[int, ...]) -> Any:
        with self._lock:
            if missing not in self.compiled:
                self.compiled[missing] = self._compile_without([self._first + i for i in missing])
            return self.compiled[missing]


def _strides_function(graph: Graph, index: int) -> Callable[..., tuple[int, ...]]:
    """Sizes → the strides that a graph input must have."""
    strides = graph.inputs[index].tensor.strides
    if all(isinstance(stride, int) for stride in strides):
        return lambda *sizes: strides
    names = [str(node.attrs["name"]) for node in graph.inputs if isinstance(node.type, SizeType)]
    text = f"lambda {', '.join(names)}: ({''.join(f'{dim_text(stride)}, ' for stride in strides)})"
    return eval(text, {"math": math})  # our own text, over our own symbols


def _laid_out(tangent: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A tangent as kernels expect it: strided, without lazy bits, in the given strides."""
    if tangent.layout is not torch.strided:
        tangent = tangent.to_dense()
    tangent = tangent.resolve_conj().resolve_neg()
    if tangent.stride() == strides:
        return tangent
    return torch.empty_strided(tangent.shape, strides, dtype=tangent.dtype, device=tangent.device).copy_(tangent)


def _as_promised(value: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A result of ATen in the strides that fake tensors foretold, about which they err now and then."""
    fits = value.stride() == strides or value.dim() != len(strides)
    return value if fits else _laid_out(value, strides)


@dataclass
class TrainingGraph:
    """A compiled graph that autograd can differentiate; call it with the graph's inputs, get the tuple of its outputs.

    Attributes:
        gm: the captured graph.
        joint, split: its IR before and after the cut.
        forward, backward: the halves.
        grad_mode: the grad mode in which calls come.
        source: the generated Python of `call`.
        seconds: stage → seconds.
    """

    gm: torch.fx.GraphModule
    joint: Joint
    split: Split
    forward: CompiledGraph
    backward: Backward
    grad_mode: bool
    seconds: dict[str, float] = field(default_factory=dict)
    ir_before: Graph | None = None
    source: str = field(init=False)
    call: Callable[..., tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        joint = self.joint
        pair = _make_function(self).apply if joint.tangents else _without_autograd(self.forward.call)
        inputs = joint.graph.inputs[: joint.n_inputs]
        self.source, self.call = make_call(joint.plan, inputs, pair, self.grad_mode, self.name)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)

    @property
    def name(self) -> str:
        return self.joint.graph.name

    @property
    def halves(self) -> list[CompiledGraph]:
        """What is compiled: forward, and backward once it was needed."""
        return [self.forward, *(half for half in self.backward.compiled.values() if hasattr(half, "kernels"))]

    @property
    def kernels(self) -> list[Any]:
        return [kernel for half in self.halves for kernel in half.kernels]

    @property
    def externs(self) -> list[str]:
        return [name for half in self.halves for name in half.externs]

    @property
    def ir(self) -> Graph:
        """The joint graph."""
        return self.joint.graph

    @property
    def wrapper_source(self) -> str:
        return "\n".join([self.source, *(half.wrapper_source for half in self.halves)])

    @property
    def native_source(self) -> str:
        return "\n".join(half.native_source for half in self.halves)

    def to_dot(self) -> Any:
        """The joint graph and its cut as a `graphviz.Digraph`."""
        from ..inspect.training import joint_to_dot

        return joint_to_dot(self)

    def describe(self) -> str:
        """The plans of both halves."""
        return "\n".join(half.describe() for half in self.halves)


def _without_autograd(run: Callable[..., Any]) -> Callable[..., Any]:
    """A forward whose results are all not differentiable."""

    def pair(*args: Any) -> Any:
        with torch.no_grad():
            return run(*args)

    return pair


def _make_function(graph: TrainingGraph) -> type[torch.autograd.Function]:
    """The autograd.Function of one compiled pair."""
    joint, split, run, backward = graph.joint, graph.split, graph.forward.call, graph.backward
    saved, n_results, tangents = split.saved, split.n_results, joint.tangents
    first_size = len(split.forward.outputs) - split.n_sizes
    plain = [i for i in range(n_results) if i not in tangents]
    places = {s.index: i for i, s in enumerate(saved) if s.is_input}
    one_by_one = OneByOne(split.backward, [node.op == "input" for node in split.cut], len(tangents))
    reason = why_not(joint.graph, joint.plan, tangents)
    needed = needed_inputs(joint.graph, joint.n_inputs, split.cut)
    again = DoubleBackward(graph.gm.forward, joint.plan, tangents, places, needed, graph.grad_mode, reason)

    def forward(ctx: Any, *args: Any) -> tuple[Any, ...]:
        found = run(*args)
        ctx.save_for_backward(*[args[s.index] if s.is_input else found[s.index] for s in saved])
        ctx.sizes = found[first_size:]
        ctx.remembered = again.remember(args)
        ctx.mark_non_differentiable(*[found[i] for i in plain])
        ctx.set_materialize_grads(False)
        return found[:n_results]

    def backward_(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        given = [gradients[i] for i in tangents]
        if torch.is_grad_enabled():
            return again.run(ctx.remembered, ctx.saved_tensors, given)
        return backward(ctx.sizes, kept_for(ctx, given), given)

    def kept_for(ctx: Any, given: list[Any]) -> list[Any]:
        try:
            kept = list(ctx.saved_tensors)
        except RuntimeError:  # freed, but perhaps for other results than these
            left = one_by_one.take(ctx, given)
            if left is None:
                raise
            return left
        one_by_one.leave(ctx, kept, given)
        ctx.maybe_clear_saved_tensors()
        if kept and not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.remembered = None  # nobody can ask any more: the saved tensors are freed
        return kept

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward_)}
    return type("Minicompile", (torch.autograd.Function,), members)
