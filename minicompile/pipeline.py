"""The middle and the back end as one function: FX graph in, callable out.

In: a `torch.fx.GraphModule` and example inputs, from whichever frontend traced it (ours or Dynamo's).
Out: a `CompiledGraph`: a callable with every stage kept for inspection.

Both doors, `minicompile.compile` and `torch.compile(backend="minicompile")`, come through here, so that a graph
compiles the same way whoever captured it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from .errors import BackendError, CompilerMissing
from .nests import requires_grad
from .timeline import record, stage
from .torch_compat import without_function_modes

if TYPE_CHECKING:
    from .codegen.compiled import CompiledGraph
    from .ir.graph import Graph
    from .lowering.sections import Section
    from .runtime.autograd import TrainingGraph
    from .runtime.chained import ChainedGraph


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    target: str = "auto",
    name: str = "graph",
    options: dict[str, Any] | None = None,
) -> CompiledGraph:
    """Lower, optimise and generate code for one graph, for inference.

    Args:
        gm: torch-level or ATen-level calls; placeholders are tensors and symbolic ints.
        example_inputs: one per placeholder; fake or real tensors, SymInts or ints.
        target: "cpp", "triton" or "auto" (by the device of the inputs).
        name: used in file and kernel names.
        options: options of `minicompile.compile`.
    Raises:
        BackendError: a stage failed; names the stage and carries the original exception.
        CompilerMissing: there is no C++ compiler.
    """
    from .codegen import compile_ir
    from .lowering import lower
    from .passes import run as run_passes

    seconds: dict[str, float] = {}
    with _stage("lowering", seconds):
        lowered = lower(gm, example_inputs, name=name)
    with _stage("passes", seconds):
        optimised = run_passes(lowered)
    with _stage("codegen", seconds):
        compiled = compile_ir(optimised, backend=target, options=options)
    compiled.ir_before = lowered
    compiled.seconds = {**seconds, **compiled.seconds}
    return compiled


@contextmanager
def _stage(name: str, seconds: dict[str, float]) -> Iterator[None]:
    with stage(name, seconds):
        try:
            yield
        except CompilerMissing:
            raise
        except Exception as error:  # a fault of ours, of whatever kind: it gets the stage's name
            raise BackendError(name, error) from error


def compile_training(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    target: str = "auto",
    name: str = "graph",
    options: dict[str, Any] | None = None,
) -> TrainingGraph:
    """As `compile_graph`, with gradients: forward is compiled now, backward when it is first needed.

    Raises: as `compile_graph`.
    """
    from .codegen import compile_ir
    from .lowering.joint import lower_joint
    from .lowering.partition import partition
    from .passes import run as run_passes
    from .runtime.autograd import Backward, TrainingGraph

    options = dict(options or {})
    budget = options.pop("activation_memory_budget", 1.0)
    seconds: dict[str, float] = {}
    grad_mode = entry_grad_mode(gm)
    with _stage("lowering", seconds):
        lowered = lower_joint(gm, example_inputs, input_requires_grad(gm, example_inputs), grad_mode, name)
    with _stage("passes", seconds):
        joint = replace(lowered, graph=run_passes(lowered.graph))
    with _stage("partition", seconds):
        split = partition(joint, budget)
    with _stage("codegen", seconds):
        forward = compile_ir(run_passes(split.forward), backend=target, options=options)
    n_tangents = len(joint.tangents)
    backward = Backward(split, n_tangents, _BackwardCompiler(split.backward, n_tangents, target, options))
    seconds = {**seconds, **forward.seconds}
    return TrainingGraph(gm, joint, split, forward, backward, grad_mode, seconds, lowered.graph)


def compile_sections(
    gm: torch.fx.GraphModule,
    sections: Sequence[Section],
    *,
    target: str = "auto",
    options: dict[str, Any] | None = None,
    compile_body: Callable[..., Any],
) -> ChainedGraph:
    """Compile a graph that was cut (see lowering/sections.py). `compile_body`: makes something to call of the module of
    a function within it and examples.

    Raises: as `compile_graph`; LoweringError where a section writes to memory that it also knows by another name.
    """
    from .lowering.errors import LoweringError
    from .lowering.sections import aliased_inputs
    from .runtime.chained import ChainedGraph, PlainSection
    from .runtime.compiled_bodies import compile_bodies

    given = frozenset(gm.graph.find_nodes(op="placeholder"))
    compiled: list[Any] = []
    for number, section in enumerate(sections):
        if section.runs_as_captured:
            compiled.append(PlainSection(section.gm, compile_bodies(section.gm, compile_body)))
            continue
        compile_it = compile_training if needs_autograd(section.gm) else compile_graph
        compiled.append(compile_it(section.gm, section.examples, target=target, name=f"part_{number}", options=options))
        if _writes(compiled[-1]) and aliased_inputs(section, given):
            raise LoweringError("an output is computed from another one, and memory that both share is written to")
    return ChainedGraph(gm, sections, compiled)


def _writes(compiled: Any) -> bool:
    """Whether a compiled graph writes to its inputs."""
    joint = getattr(compiled, "joint", None)
    return bool(joint.plan.writes or joint.graph.writes) if joint is not None else bool(compiled.ir.writes)


@dataclass
class _BackwardCompiler:
    """Compiles a backward graph when autograd first asks for it. That late there is no eager to go back to: where a
    stage fails, the graph is run operation by operation, with one warning."""

    graph: Graph
    n_tangents: int
    target: str
    options: dict[str, Any]

    def __call__(self, missing: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
        from .codegen import compile_ir
        from .config import config
        from .ir import reference
        from .lowering.undefined import without_tangents
        from .passes import run as run_passes

        graph = self.graph
        if missing:
            first = len(graph.inputs) - self.n_tangents
            graph = without_tangents(graph, range(first, len(graph.inputs)), missing)
        start = time.perf_counter()
        try:
            with without_function_modes(), _stage("backward", {}):
                made = compile_ir(run_passes(graph), backend=self.target, options=self.options, boxed=True)
            made.span = record(f"compile backward of {graph.name}", start, time.perf_counter())
            return made
        except (BackendError, CompilerMissing) as error:
            if config.strict:
                raise
            text = f"minicompile: {error}\nThe backward runs one operation at a time."
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return lambda boxed: reference.run(graph, *boxed)


def entry_grad_mode(gm: torch.fx.GraphModule) -> bool:
    """The grad mode in which calls of the graph come: a graph that changes it ends by setting it back."""
    modes = [node.args[0] for node in gm.graph.nodes if node.target is torch._C._set_grad_enabled]
    return bool(modes[-1]) if modes else torch.is_grad_enabled()


def input_requires_grad(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> list[bool]:
    """Whether each placeholder requires a gradient when the graph starts (its example may have been mutated since)."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return [
        bool(node.meta.get("requires_grad", requires_grad(example)))
        for node, example in zip(placeholders, example_inputs, strict=True)
    ]


def needs_autograd(gm: torch.fx.GraphModule) -> bool:
    """Whether the results of the graph depend on autograd: gradients are recorded, and something requires one.

    Judged by the fake values that tracing left in the graph.
    """
    modes = [node.args[0] for node in gm.graph.nodes if node.target is torch._C._set_grad_enabled]
    if not any(modes) and not entry_grad_mode(gm):
        return False
    return any(requires_grad(node.meta.get("example_value")) for node in gm.graph.nodes)


class EagerGraph:
    """A graph that runs as captured: under eager autograd, or because a stage failed. `reason` says which."""

    def __init__(self, gm: torch.fx.GraphModule, reason: str) -> None:
        self.gm = gm
        self.reason = reason
        self.kernels: list[Any] = []
        self._forward: Callable[..., Any] = gm.forward

    def __call__(self, *args: Any) -> Any:
        return self._forward(*args)
