"""Which stage makes a graph's results wrong, and at which node first.

In: a captured graph, what it was compiled to, inputs on which the two differ. Out: a `Fault`.

Each stage's graph is run by the reference interpreter on the same inputs: the first stage whose outcome differs from
eager's is at fault: lowering, a pass by name, the layout for kernels; with gradients also the cut into forward and
backward (bisect_training.py). If all are right, it is the generated code: then each kernel's results are computed
alone, in order, and the first that differs is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..ir import reference
from ..ir.graph import Graph, Node, Origin
from .outcome import Expected, copied, difference, fresh, leaf_like, outcome

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph
    from ..runtime.chained import ChainedGraph

Place = tuple[str, "Origin | None"]
MAX_PREFIXES = 200
"""Nodes of a graph that are looked at one by one."""
_LOOSELY = 1e-3


@dataclass(frozen=True)
class Fault:
    """`stage`: "capture", "lowering", "pass cse" and so on, "partition", "layout", "code"; `node`: what differs first,
    `origin`: its place."""

    stage: str
    node: str = ""
    origin: Origin | None = None

    def __str__(self) -> str:
        where = f", first at {self.node}" if self.node else ""
        line = f" ({self.origin})" if self.origin is not None else ""
        return f"stage at fault: {self.stage}{where}{line}"


@dataclass(frozen=True)
class Stage:
    """What a stage made, as something with the captured graph's signature; `locate` finds what differs first in it."""

    name: str
    call: Callable[..., Sequence[Any]]
    locate: Callable[[], Place | None]


def find_fault(gm: torch.fx.GraphModule, compiled: Any, expected: Expected) -> Fault | None:
    """The stage at fault; None where every stage gives eager's results alone, or where its stages are not known."""
    from ..codegen.compiled import CompiledGraph
    from ..runtime.autograd import TrainingGraph
    from ..runtime.chained import ChainedGraph
    from .bisect_training import first_kernel_of, training_stages

    if isinstance(compiled, ChainedGraph):
        return _in_sections(gm, compiled, expected)
    if isinstance(compiled, TrainingGraph):
        stages, in_code = training_stages(compiled, expected), partial(first_kernel_of, compiled, expected.inputs)
    elif isinstance(compiled, CompiledGraph):
        stages, in_code = _stages(gm, compiled, expected.inputs), partial(first_kernel, compiled, expected.inputs)
    else:
        return None
    for stage in stages:
        if expected.problem(outcome(stage.call, expected.inputs, gradients=expected.has_gradients)):
            return Fault(stage.name, *(stage.locate() or ("", None)))
    kernel = in_code()
    return Fault("code", *kernel) if kernel is not None else None


def _in_sections(gm: torch.fx.GraphModule, chain: ChainedGraph, expected: Expected) -> Fault | None:
    """A graph that was cut: its first section that differs on what eager gives it."""
    values = node_values_of(gm, expected.inputs)
    for section, compiled in zip(chain.parts, chain.sections, strict=True):
        inputs = [values[node] for node in section.inputs]
        alone = Expected(section.gm.forward, inputs, gradients=hasattr(compiled, "halves"))
        if alone.problem(outcome(compiled, inputs, gradients=alone.has_gradients)):
            return find_fault(section.gm, compiled, alone)
    return None


def node_values_of(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[torch.fx.Node, Any]:
    """Every node's value, as the graph computes it in eager from copies of the inputs; each is a leaf."""
    values: dict[torch.fx.Node, Any] = {}

    class Keeping(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            values[n] = leaf_like(value)
            return value

    Keeping(gm, garbage_collect_values=False).run(*fresh(inputs)[0])
    return values


# ---- the stages of a graph without gradients ----


def _stages(gm: torch.fx.GraphModule, compiled: CompiledGraph, inputs: Sequence[Any]) -> Iterator[Stage]:
    before = compiled.ir_before
    if before is not None:
        yield Stage("lowering", partial(reference.run, before), partial(first_call, gm, inputs, _lowered))
    for name, graph, previous in [*pass_stages(before, compiled.ir), ("layout", compiled.prepared, compiled.ir)]:
        if graph is not None:
            locate = partial(first_node, previous, graph, inputs)
            yield Stage(name, partial(reference.run, graph), locate)


def pass_stages(before: Graph | None, after: Graph) -> Iterator[tuple[str, Graph, Graph | None]]:
    """The graph after each pass that changed something, with the one before it; at the end the one that was kept."""
    from ..passes import run as run_passes

    history: list[tuple[str, Graph]] = []
    if before is not None:
        run_passes(before, history=history)
    for name, graph in history:
        yield f"pass {name}", graph, before
        before = graph
    yield "passes" if before is not None else "lowering and passes", after, before


def _lowered(prefix: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    from ..lowering import lower

    return partial(reference.run, lower(prefix, inputs))


# ---- the first node ----


def first_call(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    lowered: Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Sequence[Any]]],
    gradients: bool = False,
) -> Place | None:
    """The first call of the captured graph that is lowered to something else: by graphs that end at each call."""
    from ..ir.origins import call_name, origin_of

    nodes = [node for node in gm.graph.nodes if node.op.startswith("call")]
    for node in nodes[:MAX_PREFIXES]:
        prefix = _ending_at(gm, node)
        try:
            expected = Expected(prefix.forward, inputs, gradients=gradients)
            found = outcome(lowered(prefix, inputs), inputs, gradients=gradients)
        except Exception:  # a prefix may not be a graph: a call without a tensor result
            continue
        if expected.problem(found):
            return call_name(node), origin_of(node)
    return None


def _ending_at(gm: torch.fx.GraphModule, last: torch.fx.Node) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            break
        made[node] = graph.node_copy(node, made.__getitem__)
        if node is last:
            break
    for node in gm.graph.nodes:  # every input stays, so that the same ones can be given
        if node.op == "placeholder" and node not in made:
            with graph.inserting_before(next(iter(graph.nodes))):
                made[node] = graph.node_copy(node)
    graph.output((made[last],))
    return torch.fx.GraphModule(gm, graph)


def first_node(before: Graph | None, after: Graph, inputs: Sequence[Any]) -> Place | None:
    """The first new node of a pass's graph whose value no node of the graph before has.

    A pass may round otherwise than the nodes that it replaces: what differs by more is looked for first.
    """
    return None if before is None else first_unknown(tensors_in(before, inputs), tensors_in(after, inputs))


def tensors_in(graph: Graph, inputs: Sequence[Any]) -> dict[Node, torch.Tensor]:
    """The value of each node that is a tensor."""
    return {node: value for node, value in node_values(graph, inputs) if isinstance(value, torch.Tensor)}


def first_unknown(before: dict[Node, torch.Tensor], after: dict[Node, torch.Tensor]) -> Place | None:
    """See `first_node`."""
    old = list(before.values())
    new = [(node, value) for node, value in after.items() if node not in before]
    for same in (_loosely_same, is_same):
        for node, value in new:
            if not any(same(value, each) for each in old if each.shape == value.shape):
                return node.op, node.origin
    return None


def node_values(graph: Graph, inputs: Sequence[Any]) -> Iterator[tuple[Node, Any]]:
    """Each node with its value by the reference interpreter, in order."""
    given = copied(inputs)
    sizes = reference.bind_sizes(graph, given)
    values: dict[Node, Any] = dict(zip(graph.inputs, given, strict=True))
    with torch.no_grad():
        for node in graph.nodes:
            values[node] = reference.evaluate_node(node, values, sizes)
            yield node, values[node]


def is_same(one: Any, other: Any) -> bool:
    """Whether two results cannot be told apart."""
    return not difference(one, other)


def _loosely_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """By the size of the largest element."""
    from .accuracy import max_error

    if not other.numel() or one.dtype != other.dtype:
        return one.dtype == other.dtype
    finite = other[other.isfinite()]
    scale = finite.abs().max().item() if finite.numel() else 1.0
    return max_error(one, other) <= _LOOSELY * max(float(scale), 1e-30)


def first_kernel(compiled: CompiledGraph, inputs: Sequence[Any]) -> Place | None:
    """The first kernel one of whose nodes, compiled as a graph of its own, differs from the reference."""
    from ..codegen import compile_ir

    graph = compiled.prepared
    if graph is None:
        return None
    values = dict(node_values(graph, inputs))
    for kernel in compiled.kernels:
        for number in kernel.nodes:
            node = graph.nodes[number]
            alone = compile_ir(replace(graph, outputs=(node,), writes=()), backend=kernel.language)
            (found,) = alone(*copied(inputs))
            if not is_same(found, values[node]):
                return f"{node.op} in {kernel.name}", node.origin
    return None
