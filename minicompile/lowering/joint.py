"""The joint graph: a torch-level FX graph with its gradients becomes one functional `ir.Graph`.

In: a `torch.fx.GraphModule`, its example inputs, which of them require gradients, and the grad mode that it starts in.
Out: a `Joint`: one `ir.Graph` from (inputs, tangents) to (results, gradients), and what a call has to do around it.

The FX graph runs once on functional fake tensors with gradients recorded, and then `torch.autograd.grad` runs on what
came out, while the same recorder listens: PyTorch's own autograd writes the backward half. Nothing of it is copied
here, so custom `autograd.Function`s, islands of `no_grad` and everything else that autograd can do come out right by
themselves.

What autograd must see happen on the caller's own tensors stays outside the functional graph and is described by a plan
(see plan.py): writes into inputs that take part in autograd, and results that are views.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..ir.call_plan import CallPlan
from ..ir.graph import Graph, Origin
from ..torch_compat import storage_id, without_saved_tensor_hooks
from .errors import LoweringError
from .extern import has_effect
from .functional import functional, functionalized, is_functional, sync
from .kept import kept_storages
from .plan import Result, make_plan
from .trace import HiddenWrite, Recorder, Trace, fake_inputs, fake_mode_of, interpret, is_dynamic, wrap_constants


@dataclass(frozen=True)
class Joint:
    """Forward and backward as one graph.

    Attributes:
        graph: inputs are the FX graph's placeholders, then one tangent for each number in `tangents`; outputs are
            `n_results` results, then one gradient (or None) for each placeholder. Its writes are of the forward half.
        n_inputs: the number of placeholders.
        n_results: the number of results.
        tangents: the results that are differentiable, in the order in which their tangents enter.
        plan: how a call's outputs and writes follow from the results.
        kept_inputs, kept_results: which of them eager would keep for backward (see kept.py).
    """

    graph: Graph
    n_inputs: int
    n_results: int
    tangents: tuple[int, ...]
    plan: CallPlan
    kept_inputs: frozenset[int]
    kept_results: frozenset[int]


def lower_joint(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    requires_grad: Sequence[bool],
    grad_mode: bool,
    name: str = "graph",
) -> Joint:
    """Lower an FX graph together with its gradients.

    Args:
        gm: torch-level calls; placeholders for tensors and sizes only.
        example_inputs: one per placeholder (see `lower`).
        requires_grad: one per placeholder: whether it requires a gradient when the graph starts.
        grad_mode: the grad mode when the graph starts; nodes inside may change it.
        name: becomes the graph's name.
    Raises:
        LoweringError: the graph, or its backward, has no functional form here; run it under eager autograd.
    """
    from .convert import Converter
    from .rule_tables import load_rules

    load_rules()
    traced = _trace_twice(gm, example_inputs, requires_grad, grad_mode)
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    tangents = [f"tangent_{i}" for i in range(len(traced.tangents))]
    graph = Converter(traced.trace, name).run([*names, *tangents])
    kept_inputs, kept_results = traced.kept
    return Joint(graph, len(names), traced.n_results, traced.tangents, traced.plan, kept_inputs, kept_results)


@dataclass
class _Traced:
    trace: Trace
    n_results: int
    tangents: tuple[int, ...]
    plan: CallPlan
    kept: tuple[frozenset[int], frozenset[int]]


class _JointRecorder(Recorder):
    """Also finds out which forward call a backward call belongs to: autograd numbers its nodes as they are made."""

    sets_grad_mode = True

    def __init__(self, trace: Trace, may_retry: bool) -> None:
        self._numbers: list[int] = []
        self._origins: list[Origin | None] = []
        self._origin: Origin | None = None
        super().__init__(trace, may_retry)

    @property
    def origin(self) -> Origin | None:
        node = torch._C._current_autograd_node()
        if node is None:
            return self._origin
        place = bisect_right(self._numbers, node._sequence_nr()) - 1
        origin = self._origins[place] if place >= 0 else None
        return origin and replace(origin, call=f"{origin.call} (backward)")

    @origin.setter
    def origin(self, origin: Origin | None) -> None:
        self._origin = origin
        self._numbers.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self._origins.append(origin)


class _Enter(torch.autograd.Function):
    """Makes an input's functional wrapper as the result of an autograd node: no leaf, so that it may be mutated."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, box: list[torch.Tensor]) -> torch.Tensor:
        return torch._to_functional_tensor(box[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("gradients stop at the inputs")


@dataclass
class _Inputs:
    """The wrappers of the inputs, and where in autograd's graph those that require a gradient begin."""

    values: list[Any]
    wrappers: list[Any] = field(default_factory=list)
    edges: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: list[Any], requires_grad: Sequence[bool]) -> _Inputs:
        made = cls(values)
        with torch.enable_grad():
            anchor = torch.zeros((), requires_grad=True)
            for index, (value, needed) in enumerate(zip(values, requires_grad, strict=True)):
                made.wrappers.append(_Enter.apply(anchor, [value]) if needed else functional(value))
                if needed:
                    made.edges[index] = torch.autograd.graph.get_gradient_edge(made.wrappers[-1])
        return made


def _trace_twice(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], requires_grad: Sequence[bool], grad_mode: bool
) -> _Traced:
    """As `trace.trace`: with ATen's own composite operators first, with torch's Python ones where they are needed."""
    mode = fake_mode_of(example_inputs)
    with mode, torch.no_grad():
        inputs = [v.detach() if isinstance(v, torch.Tensor) else v for v in fake_inputs(example_inputs, mode)]
    try:
        return _trace(gm, _Inputs.of(inputs, requires_grad), mode, grad_mode, any(map(is_dynamic, inputs)))
    except HiddenWrite:
        return _trace(gm, _Inputs.of(inputs, requires_grad), mode, grad_mode, True)


def _trace(gm: torch.fx.GraphModule, inputs: _Inputs, mode: Any, grad_mode: bool, python_dispatcher: bool) -> _Traced:
    trace = Trace(list(inputs.values))
    constants = wrap_constants(gm, trace, mode)
    recorder = _JointRecorder(trace, may_retry=not python_dispatcher)
    with (
        torch.set_grad_enabled(grad_mode),
        without_saved_tensor_hooks(),
        torch.autograd.set_detect_anomaly(False),  # it reads the gradients' numbers
        functionalized(mode, recorder, python_dispatcher=python_dispatcher),
    ):
        outputs = interpret(gm, inputs.wrappers, constants, recorder)
        sync([*inputs.wrappers, *constants.values(), *outputs])
        plan, results = make_plan(trace, inputs.wrappers, inputs.edges, constants, outputs)
        kept = _kept(inputs, results)
        trace.own = len(trace.calls)
        gradients, tangents = _backward(trace, inputs, results)
    _refuse_effects(trace.calls[trace.own :])
    trace.outputs = [*(result.value for result in results), *gradients]
    trace.alive += [inputs, constants, outputs, results]
    return _Traced(trace, len(results), tangents, plan, kept)


def _kept(inputs: _Inputs, results: list[Result]) -> tuple[frozenset[int], frozenset[int]]:
    """The numbers of the inputs and results that eager would keep for backward."""
    storages = kept_storages([result.wrapper for result in results if result.differentiable])
    wrappers = [result.wrapper for result in results]
    return _in_storages(inputs.wrappers, storages), _in_storages(wrappers, storages)


def _in_storages(wrappers: list[Any], storages: set[int]) -> frozenset[int]:
    return frozenset(i for i, w in enumerate(wrappers) if is_functional(w) and storage_id(w) in storages)


def _backward(trace: Trace, inputs: _Inputs, results: list[Result]) -> tuple[list[Any], tuple[int, ...]]:
    """Record autograd's own backward: one gradient (or None) per input, and which results have tangents."""
    differentiable = tuple(i for i, result in enumerate(results) if result.differentiable)
    gradients: list[Any] = [None] * len(inputs.wrappers)
    if not differentiable or not inputs.edges:
        return gradients, ()
    fakes = [_tangent_like(results[i].value) for i in differentiable]
    tangents = list(map(functional, fakes))
    found = _run_autograd([results[i].wrapper for i in differentiable], list(inputs.edges.values()), tangents)
    sync(found)
    for index, gradient in zip(inputs.edges, found, strict=True):
        gradients[index] = torch._from_functional_tensor(gradient) if is_functional(gradient) else gradient
    trace.inputs += fakes
    trace.alive += [tangents, found]
    return gradients, differentiable


def _run_autograd(results: list[Any], edges: list[Any], tangents: list[Any]) -> list[Any]:
    """autograd.grad, in this thread, without autocast: backward is called outside of it."""
    for device in ("cpu", "cuda"):
        torch.set_autocast_enabled(device, False)
    try:
        with torch.autograd.set_multithreading_enabled(False):
            return list(torch.autograd.grad(results, edges, tangents, allow_unused=True))
    except (LoweringError, HiddenWrite):
        raise
    except Exception as error:  # from any operator, and from the user's own backward functions
        raise LoweringError(f"the backward does not run on fake tensors: {error}") from error


def _tangent_like(value: torch.Tensor) -> torch.Tensor:
    """A tangent: laid out as the result, if that is dense. Made where no recorder listens."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad(), value.fake_mode:  # type: ignore[attr-defined]
        return torch.empty_like(value, requires_grad=False)


def _refuse_effects(backward: Sequence[Any]) -> None:
    for call in backward:
        if has_effect(call.func):
            raise LoweringError(f"its backward calls {call.func}, which does more than compute a value")
