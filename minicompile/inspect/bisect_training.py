"""The stages of a graph with gradients, each as something that autograd can differentiate.

In: a `TrainingGraph`. Out: for each stage a call with the captured graph's signature: forward and backward by the
reference interpreter, and around them the plan that the compiled pair has as well.

    lowering, each pass      the joint graph: its first half for the results, the whole for the gradients
    partition                the two halves as they were cut
    passes, layout           the two halves as they were compiled
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..ir import reference
from ..ir.graph import Graph, Node
from .bisect import Place, Stage, first_call, first_kernel, first_node, first_unknown, pass_stages, tensors_in
from .outcome import Expected, copied, outcome

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph
    from ..lowering.joint import Joint
    from ..lowering.partition import Split
    from ..runtime.autograd import TrainingGraph

Values = Sequence[Any]


class Pair:
    """A forward and a backward graph, run by the reference interpreter as one node of autograd's graph.

    Attributes:
        given: what the forward graph got last; `given_back`: what the backward graph got.
    """

    def __init__(self, forward: Graph, backward: Graph, n_results: int, tangents: Sequence[int]) -> None:
        self.forward, self.backward = forward, backward
        self.n_results, self.tangents = n_results, tangents
        self.given: list[Any] = []
        self.given_back: list[Any] = []

    def saved(self, args: Values, found: Values) -> list[Any]:
        """What the backward graph gets before the tangents. A joint graph's gets the inputs."""
        return list(args)

    def __call__(self, *args: Any) -> Any:
        return _Function.apply(self, *args)


class CutPair(Pair):
    """The halves of a joint graph that was cut."""

    def __init__(self, split: Split, tangents: Sequence[int], forward: Graph, backward: Graph) -> None:
        super().__init__(forward, backward, split.n_results, tangents)
        self.split = split

    def saved(self, args: Values, found: Values) -> list[Any]:
        sizes = found[len(found) - self.split.n_sizes :]
        return [*sizes, *(args[s.index] if s.is_input else found[s.index] for s in self.split.saved)]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pair: Pair, *args: Any) -> Any:
        pair.given = copied(args)
        found = reference.run(pair.forward, *args)
        results = found[: pair.n_results]
        ctx.pair, ctx.kept = pair, pair.saved(pair.given, found)
        ctx.mark_non_differentiable(*(r for i, r in enumerate(results) if i not in pair.tangents))
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        pair = ctx.pair
        pair.given_back = [*ctx.kept, *(gradients[i] for i in pair.tangents)]
        return (None, *reference.run(pair.backward, *copied(pair.given_back)))


def joint_pair(joint: Joint, graph: Graph) -> Pair:
    """The two halves of a joint graph with nothing cut: backward reads the inputs, and computes all else again."""
    from ..passes import dce

    results, gradients = graph.outputs[: joint.n_results], graph.outputs[joint.n_results :]
    forward = dce.run(replace(graph, inputs=graph.inputs[: joint.n_inputs], outputs=results))
    return Pair(forward, replace(graph, outputs=gradients, writes=()), joint.n_results, joint.tangents)


def around(pair: Pair, joint: Joint, grad_mode: bool) -> Callable[..., Values]:
    """The pair, and the plan around it: the captured graph's signature."""
    from ..runtime.training_call import make_call

    return make_call(joint.plan, joint.graph.inputs[: joint.n_inputs], pair, grad_mode, "verified")[1]


# ---- the stages ----


def training_stages(compiled: TrainingGraph, expected: Expected) -> Iterator[Stage]:
    """Everything up to the generated code."""
    joint, gm = compiled.joint, compiled.gm
    before = compiled.ir_before
    if before is not None:
        lowered = partial(_lowered, grad_mode=compiled.grad_mode)
        locate: Callable[[], Place | None] = partial(
            first_call, gm, expected.inputs, lowered, gradients=expected.has_gradients
        )
        yield Stage("lowering", around(joint_pair(joint, before), joint, compiled.grad_mode), locate)
    for name, graph, previous in pass_stages(before, joint.graph):
        pair = joint_pair(joint, graph)
        yield Stage(name, around(pair, joint, compiled.grad_mode), partial(_in_joint, joint, pair, previous, graph))
    yield from _cut_stages(compiled)


def _in_joint(joint: Joint, pair: Pair, before: Graph | None, after: Graph) -> Place | None:
    """Among all nodes, or where backward did not run, among those of forward."""
    if before is None or pair.given_back:
        return first_node(before, after, pair.given_back)
    return first_node(joint_pair(joint, before).forward, pair.forward, pair.given)


def _cut_stages(compiled: TrainingGraph) -> Iterator[Stage]:
    split, first = compiled.split, compiled.forward
    second = _backward_of(compiled)
    before = split.forward, split.backward
    halves = [("partition", *before)]
    if second is not None:
        halves.append(("passes", first.ir, second.ir))
        halves.append(("layout", first.prepared or first.ir, second.prepared or second.ir))
    for name, forward, backward in halves:
        pair = CutPair(split, compiled.joint.tangents, forward, backward)
        call = around(pair, compiled.joint, compiled.grad_mode)
        known = partial(_joint_values, compiled, pair) if name == "partition" else partial(_half_values, pair, before)
        yield Stage(name, call, partial(_in_halves, pair, known))
        before = forward, backward


def _joint_values(compiled: TrainingGraph, pair: Pair) -> dict[Node, torch.Tensor]:
    tangents = pair.given_back[len(pair.given_back) - len(pair.tangents) :] if pair.tangents else []
    return tensors_in(compiled.joint.graph, [*pair.given, *tangents])


def _half_values(pair: Pair, halves: tuple[Graph, Graph]) -> dict[Node, torch.Tensor]:
    return tensors_in(halves[0], pair.given) | tensors_in(halves[1], pair.given_back)


def _in_halves(pair: Pair, known: Callable[[], dict[Node, torch.Tensor]]) -> Place | None:
    if not pair.given_back:
        return None
    return first_unknown(known(), _half_values(pair, (pair.forward, pair.backward)))


def first_kernel_of(compiled: TrainingGraph, inputs: Values) -> Place | None:
    """The first kernel of forward, then of backward, that differs from the reference."""
    found = first_kernel(compiled.forward, inputs)
    backward = _backward_of(compiled)
    if found is not None or backward is None:
        return found
    pair = CutPair(compiled.split, compiled.joint.tangents, compiled.split.forward, compiled.split.backward)
    outcome(around(pair, compiled.joint, compiled.grad_mode), inputs, gradients=True)
    found = first_kernel(backward, pair.given_back)
    return None if found is None else (f"{found[0]}, in backward", found[1])


def _backward_of(compiled: TrainingGraph) -> CompiledGraph | None:
    """The backward for a gradient of every result, if it was compiled."""
    half = compiled.backward.compiled.get(())
    return half if hasattr(half, "prepared") else None


def _lowered(prefix: torch.fx.GraphModule, inputs: Values, *, grad_mode: bool) -> Callable[..., Values]:
    """A graph that ends early, lowered with its gradients."""
    from ..lowering.joint import lower_joint

    needed = [isinstance(value, torch.Tensor) and value.requires_grad for value in inputs]
    joint = lower_joint(prefix, inputs, needed, grad_mode)
    return around(joint_pair(joint, joint.graph), joint, grad_mode)
