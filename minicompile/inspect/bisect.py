"""Which stage makes a graph's results wrong, and at which node first.

In: a captured graph, what it was compiled to, and inputs on which the two differ. Out: a `Fault`.

Each stage's graph is run by the reference interpreter on the same inputs: the first stage whose results differ from
eager's is at fault: lowering, a pass by name, the layout for kernels. If all are right, it is the generated code: then
each kernel's results are computed alone, in order, and the first that differs is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..ir import reference
from ..ir.graph import Graph, Node, Origin

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph

Same = Callable[[Any, Any], bool]
MAX_PREFIXES = 200
"""Nodes of a graph that are looked at one by one."""


@dataclass(frozen=True)
class Fault:
    """`stage`: "lowering", "pass cse" and so on, "layout", "code"; `node`: what differs first, `origin`: its place."""

    stage: str
    node: str = ""
    origin: Origin | None = None

    def __str__(self) -> str:
        where = f", first at {self.node}" if self.node else ""
        line = f" ({self.origin})" if self.origin is not None else ""
        return f"stage at fault: {self.stage}{where}{line}"


def find_fault(
    gm: torch.fx.GraphModule, compiled: CompiledGraph, inputs: Sequence[Any], same: Same
) -> Fault | None:
    """The stage at fault; None where every stage gives eager's results alone.

    Args:
        inputs: as the graph was called; they are copied for each run.
        same: whether two results agree.
    """
    expected, written = _eager(gm, inputs)
    before = compiled.ir_before
    for stage, graph in _stages(compiled):
        if not _agrees(graph, inputs, expected, written, same):
            if stage == "lowering":
                return Fault(stage, *_first_call(gm, graph, inputs, same))
            origin = _wrong_origin(graph, inputs, expected, same)
            return Fault(stage, *(_first_node(before, graph, inputs, same) or ("a result", origin)))
        before = graph
    kernel = _first_kernel(compiled, inputs, same)
    return Fault("code", *kernel) if kernel is not None else None


def copied(values: Sequence[Any]) -> list[Any]:
    return [_copy(value) for value in values]


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return copy.copy_(value.detach())


def _eager(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
    given = copied(inputs)
    with torch.no_grad():
        return gm.forward(*given), given


def _stages(compiled: CompiledGraph) -> Iterator[tuple[str, Graph]]:
    from ..passes import run as run_passes

    if compiled.ir_before is None:
        yield "lowering and passes", compiled.ir
    else:
        yield "lowering", compiled.ir_before
        history: list[tuple[str, Graph]] = []
        run_passes(compiled.ir_before, history=history)
        yield from ((f"pass {name}", graph) for name, graph in history)
        yield "passes", compiled.ir
    if compiled.prepared is not None:
        yield "layout", compiled.prepared


def _agrees(graph: Graph, inputs: Sequence[Any], expected: Sequence[Any], written: list[Any], same: Same) -> bool:
    given = copied(inputs)
    results = reference.run(graph, *given)
    pairs = [*zip(results, expected, strict=True), *zip(given, written, strict=True)]
    return all(same(one, other) for one, other in pairs)


def _wrong_origin(graph: Graph, inputs: Sequence[Any], expected: Sequence[Any], same: Same) -> Origin | None:
    for out, one, other in zip(graph.outputs, reference.run(graph, *copied(inputs)), expected, strict=True):
        if isinstance(out, Node) and not same(one, other):
            return out.origin
    return None


# ---- the first node ----


def _first_call(
    gm: torch.fx.GraphModule, graph: Graph, inputs: Sequence[Any], same: Same
) -> tuple[str, Origin | None]:
    """The first call of the captured graph that is lowered to something else: by graphs that end at each call."""
    from ..ir.origins import call_name, origin_of
    from ..lowering import lower

    nodes = [node for node in gm.graph.nodes if node.op.startswith("call")]
    for node in nodes[:MAX_PREFIXES]:
        prefix = _ending_at(gm, node)
        try:
            expected = prefix.forward(*copied(inputs))
            with torch.no_grad():
                results = reference.run(lower(prefix, inputs), *copied(inputs))
        except Exception:  # a prefix may not be a graph: a call without a tensor result
            continue
        if not all(same(one, other) for one, other in zip(results, expected, strict=True)):
            return call_name(node), origin_of(node)
    return "", None


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
    return torch.fx.GraphModule({}, graph)


def _first_node(
    before: Graph | None, after: Graph, inputs: Sequence[Any], same: Same
) -> tuple[str, Origin | None] | None:
    """The first new node of a pass's graph whose value no node of the graph before has."""
    if before is None:
        return None
    old = [value for _, value in node_values(before, inputs)]
    known = set(before.nodes)
    for node, value in node_values(after, inputs):
        if node in known or not isinstance(value, torch.Tensor):
            continue
        alike = [each for each in old if isinstance(each, torch.Tensor) and each.shape == value.shape]
        if not any(same(value, each) for each in alike):
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


def _first_kernel(compiled: CompiledGraph, inputs: Sequence[Any], same: Same) -> tuple[str, Origin | None] | None:
    """The first kernel whose last node, compiled as a graph of its own, differs from the reference."""
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
            if not same(found, values[node]):
                return f"{node.op} in {kernel.name}", node.origin
    return None
