"""Cut an FX graph where one of its differentiable outputs is computed from another, and around what runs as it is.

In: a captured graph. Out: its sections, in order; none where it need not be cut.

A compiled pair is one node of autograd's graph, so its results are siblings: between two of them there is no path,
where eager has one. A hook on the logits, their `retain_grad`, or the gradient of the loss with respect to them would
not see what it sees in eager. So the graph is cut behind each output that another one is computed from; every section
becomes a pair of its own, and the later one reads the very tensor that the caller gets.

A call whose result has a size that only the data tells, and a number that is read from a tensor, are sections of their
own, which run as they are: behind them, such a number is an input like any other size. So do a custom operator whose
backward can only be run, not traced (see own_backward.py), and what calls one of two functions, or one in a loop.

Sections are runs of the program's own order: mutations and random numbers stay in order. Arithmetic on sizes, which is
cheap, is repeated in every section that needs it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import fx

from ..body_calls import branched, hooked, inner_gradients, looped
from ..nests import requires_grad
from ..torch_compat import enter_attention_kernels, leave_attention_kernels, storage_id
from ..walks import reachable
from .errors import LoweringError
from .own_backward import keeps_own_backward

_BLOCKS = {
    torch.amp._enter_autocast: 1, torch.amp._exit_autocast: -1, enter_attention_kernels: 1, leave_attention_kernels: -1,
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A part of a graph. `inputs` and `outputs` are nodes of the whole graph, in the order of the part's own.
    `runs_as_captured`: its results, or its gradients, can only be had by running it."""

    gm: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    runs_as_captured: bool = False

    @property
    def examples(self) -> list[Any]:
        return [node.meta["example_value"] for node in self.inputs]


def sections(gm: fx.GraphModule, training: bool) -> list[Section]:
    """See the module's docstring. `training`: whether what is computed from outputs matters.

    Raises LoweringError where a cut would stand inside a grad mode or autocast block, or something that is neither a
    tensor nor a size would cross it."""
    body = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output") and not _is_repeated(node)]
    cuts, alone = _cuts(gm, body, training)
    if not cuts:
        return []
    bounds = list(pairwise(sorted({0, *cuts, len(body)})))
    _check_parts(gm, [body[start:end] for start, end in bounds])
    modes = _grad_modes(body)
    return [
        _section(gm, body[start:end], body[end:], alone, (modes[0], modes[start], modes[end])) for start, end in bounds
    ]


def aliased_inputs(section: Section, given: frozenset[fx.Node]) -> bool:
    """Whether two inputs share memory of which not both were `given` to the graph (for those, the entry has guards)."""
    seen: dict[int, list[fx.Node]] = {}
    for node in section.inputs:
        if isinstance(node.meta["example_value"], torch.Tensor):
            seen.setdefault(_storage(node), []).append(node)
    return any(len(group) > 1 and not given.issuperset(group) for group in seen.values())


# --- where to cut ---------------------------------------------------------------------------------------------------


def _cuts(gm: fx.GraphModule, body: list[fx.Node], training: bool) -> tuple[set[int], set[fx.Node]]:
    """The positions in the body at which a part ends, and the nodes that run by themselves, as captured."""
    levels = _levels(body)
    read = read_by_others(gm.graph, _outputs(gm)) if training else []
    if within_inner_gradients(gm.graph, read):
        raise LoweringError("an output is computed from another one, behind which gradients are taken within the graph")
    cuts = {_cut_behind(body, node, levels) for node in read}
    alone = {node for node in body if _begins_data(node) or (training and keeps_own_backward(node))}
    chosen = [node for node in body if node.target in (branched, looped)]
    if within_inner_gradients(gm.graph, chosen):
        raise LoweringError("gradients are taken within the graph through a branch or a loop")
    alone.update(chosen)
    return cuts | _around(alone, body, levels), alone


def _check_parts(gm: fx.GraphModule, parts: list[list[fx.Node]]) -> None:
    """Raises LoweringError for parts that cannot be compiled one by one."""
    if not all(_is_tensor(node) or is_size(node) for node in _outputs(gm)):
        raise LoweringError("an output is computed from another one, and a third one is neither a tensor nor a size")
    for part in parts:
        if any(node.target is hooked and node.args[1] not in part for node in part):
            raise LoweringError("a tensor gets its hook where only a part of its gradient is known")


def read_by_others(graph: fx.Graph, outputs: Sequence[fx.Node]) -> list[fx.Node]:
    """Differentiable outputs from which another one is computed, other than as a view."""
    wanted = {node for node in outputs if node.op != "placeholder" and _requires_grad(node)}
    reached: dict[fx.Node, set[fx.Node]] = {}
    found: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output") or not _requires_grad(node):
            continue
        below = set().union(*(_below(source, node, reached) for source in node.all_input_nodes))
        reached[node] = below | ({node} if node in wanted else set())
        if node in wanted:
            found.update(dict.fromkeys(source for source in below if not _share_memory(source, node)))
    return list(found)


def _below(source: fx.Node, node: fx.Node, reached: dict[fx.Node, set[fx.Node]]) -> set[fx.Node]:
    """The outputs to which a path leads from a node through one that it reads. Gradients within the graph go on from
    what lies before the tensors that are differentiated, not from these."""
    is_differentiated = node.target is inner_gradients and source in node.args[0]  # type: ignore[operator]
    return reached.get(source, set()) - ({source} if is_differentiated else set())


def within_inner_gradients(graph: fx.Graph, nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """Those of the nodes through which gradients are taken within the graph, which therefore cannot be cut there."""
    calls = graph.find_nodes(op="call_function", target=inner_gradients)
    return [node for node in nodes if any(node in _differentiated(call) for call in calls)]


def _differentiated(call: fx.Node) -> set[fx.Node]:
    """What lies between the tensors for which gradients are taken and those of which they are, the latter included."""
    ends, starts = set(call.args[0]), set(call.args[1])  # type: ignore[arg-type]
    above: set[fx.Node] = reachable(ends, lambda node: node.all_input_nodes)
    below: set[fx.Node] = reachable(starts, lambda node: node.users)
    return (above & below) - starts


def _outputs(gm: fx.GraphModule) -> list[fx.Node]:
    (output,) = gm.graph.find_nodes(op="output")
    return list(output.all_input_nodes)


def _cut_behind(body: list[fx.Node], node: fx.Node, levels: list[bool]) -> int:
    """The first position behind a node and its hooks, and before what reads it, where modes are as at the graph's start
    and no tuple waits to be taken apart."""
    hooks = [hook for hook in node.users if hook.target is hooked and hook.args[1] is node]
    place = max(map(body.index, (node, *hooks))) + 1
    first = min((body.index(user) for user in node.users if user in body and user not in hooks), default=len(body))
    while place <= first:
        waits = place < len(body) and body[place].target is operator.getitem and not _is_tensor(body[place].args[0])
        if levels[place] and not waits:
            return place
        place += 1
    raise LoweringError("an output is computed from another one before its hook, or inside a block that sets a mode")


def _around(alone: set[fx.Node], body: list[fx.Node], levels: list[bool]) -> set[int]:
    """The positions before and behind each node that runs as it is, with what takes its result apart. A branch or a
    loop may stand in a block that sets the grad mode."""
    cuts: set[int] = set()
    depths = _depths(body)
    for start, node in enumerate(body):
        if node not in alone:
            continue
        end, own = start + 1, {node}
        while end < len(body) and _takes_apart(body[end], own):
            own.add(body[end])
            end += 1
        may_set_grad_mode = node.target in (branched, looped)
        is_clean = not (depths[start] or depths[end]) if may_set_grad_mode else levels[start] and levels[end]
        if not is_clean:
            raise LoweringError(f"{node.name}, which has to be run, stands inside a block that sets a mode")
        cuts |= {start, end}
    return cuts


def _begins_data(node: fx.Node) -> bool:
    return "is_data" in node.meta and node.target is not torch.ops.aten.sym_size.int


def _takes_apart(node: fx.Node, own: set[fx.Node]) -> bool:
    if node.target not in (operator.getitem, torch.ops.aten.sym_size.int) or node.args[0] not in own:
        return False
    return node.target is not operator.getitem or not _is_tensor(node.args[0])


def _levels(body: Sequence[fx.Node]) -> list[bool]:
    """For each position between nodes, whether grad mode, autocast and attention's kernels are as at the start."""
    modes = _grad_modes(body)
    return [mode == modes[0] and not depth for mode, depth in zip(modes, _depths(body), strict=True)]


def _grad_modes(body: Sequence[fx.Node]) -> list[Any]:
    """The grad mode at each position between nodes; None everywhere where none sets it."""
    modes = [node.args[0] for node in body if node.target is torch._C._set_grad_enabled]
    result = [modes[-1] if modes else None]  # a graph that changes the mode ends by setting it back
    for node in body:
        result.append(node.args[0] if node.target is torch._C._set_grad_enabled else result[-1])
    return result


def _depths(body: Sequence[fx.Node]) -> list[int]:
    """In how many blocks of other modes each position between nodes stands."""
    result = [0]
    for node in body:
        result.append(result[-1] + _BLOCKS.get(node.target, 0))
    return result


# --- the parts ------------------------------------------------------------------------------------------------------


def _section(
    gm: fx.GraphModule, part: list[fx.Node], later: list[fx.Node], alone: set[fx.Node], modes: tuple[Any, Any, Any]
) -> Section:
    """`modes`: the grad mode where the whole graph starts, and where the part starts and ends."""
    graph = fx.Graph()
    entering = _entering(part)
    entering |= _symbol_nodes(gm, entering) - set(part)
    inputs = [node for node in gm.graph.nodes if node in entering]
    copies = {node: _placeholder(graph, node) for node in inputs}
    _set_grad_mode(graph, modes[1], modes[0])
    for node in part:
        _copy(graph, node, copies)
    _set_grad_mode(graph, modes[0], modes[2])
    wanted = {source for node in later for source in _needs(node)} | set(_outputs(gm))
    as_captured = not alone.isdisjoint(part)
    outputs = [node for node in part if node in wanted or (as_captured and is_size(node))]
    graph.output(tuple(copies[node] for node in outputs))
    for node in outputs:
        if not _is_tensor(node) and not is_size(node):
            raise LoweringError(f"{node.name}, which is no tensor, would cross from one part of the graph to the next")
    return Section(fx.GraphModule(gm, graph, "CapturedSection"), tuple(inputs), tuple(outputs), as_captured)


def _set_grad_mode(graph: fx.Graph, mode: Any, before: Any) -> None:
    if mode != before:
        graph.call_function(torch._C._set_grad_enabled, (mode,)).meta["example_value"] = None


def _symbol_nodes(gm: fx.GraphModule, tensors: set[fx.Node]) -> set[fx.Node]:
    """The nodes of the symbols in the sizes of tensors: a section that gets these may compute with those."""
    sizes = (size for node in tensors if _is_tensor(node) for size in node.meta["example_value"].shape)
    wanted = {symbol for size in sizes if isinstance(size, torch.SymInt) for symbol in size.node.expr.free_symbols}
    return {node for node in gm.graph.nodes if symbol_of(node) in wanted} if wanted else set()


def _entering(part: Sequence[fx.Node]) -> set[fx.Node]:
    inside = set(part)
    return {source for node in part for source in _needs(node) if source not in inside}


def _needs(node: fx.Node) -> set[fx.Node]:
    """What a node reads, with repeated nodes replaced by what they read."""
    found: set[fx.Node] = set()
    for source in node.all_input_nodes:
        found |= _needs(source) if _is_repeated(source) else {source}
    return found


def _placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
    made = graph.placeholder(node.name)
    made.meta = dict(node.meta)
    if node.op != "placeholder":
        made.meta["requires_grad"] = _requires_grad(node)
    return made


def _copy(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    for source in node.all_input_nodes:
        if source not in copies and _is_repeated(source):
            _copy(graph, source, copies)
    copies[node] = graph.node_copy(node, copies.__getitem__)
    return copies[node]


# --- what nodes are -------------------------------------------------------------------------------------------------


def _is_repeated(node: fx.Node) -> bool:
    """Sizes and attributes: made again where they are needed; and checks, which stand between the sections."""
    if node.op == "get_attr" or node.target is torch._check:
        return True
    is_number = isinstance(node.meta.get("example_value"), _SIZES)
    return node.op == "call_function" and is_number and "is_data" not in node.meta


_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool, int)


def is_size(node: fx.Node) -> bool:
    """Whether a node's value is a symbolic number."""
    return isinstance(node.meta.get("example_value"), (torch.SymInt, torch.SymFloat))


def symbol_of(node: fx.Node) -> Any:
    """The symbol that a node is the value of, as it was made; None for any other node."""
    if not is_size(node) or not (node.op == "placeholder" or "is_data" in node.meta):
        return None
    expr = node.meta["example_value"].node._expr
    return expr if expr.is_Symbol else None


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("example_value"), torch.Tensor)


def _requires_grad(node: fx.Node) -> bool:
    return requires_grad(node.meta.get("example_value"))


def _storage(node: fx.Node) -> int:
    return storage_id(node.meta["example_value"])


def _share_memory(first: fx.Node, second: fx.Node) -> bool:
    return _is_tensor(first) and _is_tensor(second) and _storage(first) == _storage(second)
