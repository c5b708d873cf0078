"""The verifier: what every graph must satisfy, checked after lowering and after each pass.

In: a Graph.
Out: nothing, or a VerifyError that names the node, the rule, and what was found.

The rules are the op table's (see ops.py), one small function per kind of op. Sizes are compared structurally; where a
symbolic size stands against another expression, equality rests on a guard of the trace and is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .graph import BufferView, Graph, InputView, Node
from .ops import POINTWISE, REDUCTIONS, SCANS, known
from .symbols import dims_product, is_static
from .types import SizeType, TensorType, dtype_kind


class VerifyError(AssertionError):
    """A graph breaks a rule of the IR: a fault of the pass (or the lowering rule) that made it."""


def verify(graph: Graph, since: Graph | None = None) -> Graph:
    """Check every rule; returns the graph itself. Raises VerifyError.

    Of nodes that stood in a graph that was verified before, `since`, only the order is checked: they cannot change.
    """
    seen: set[Node] = set()
    known = frozenset(since.nodes if since is not None else ())
    for index, node in enumerate(graph.inputs):
        _require(node, node.op == "input", "inputs are nodes of op 'input'", node.op)
        _require(node, node.attrs["index"] == index, "an input knows its place", node.attrs["index"])
        _require(node, isinstance(node.type, (TensorType, SizeType)), "an input is a tensor or a size", node.type)
        seen.add(node)
    for node in graph.nodes:
        _verify_order(node, seen)
        if node not in known:
            _verify_node(node)
        seen.add(node)
    _verify_outputs(graph, seen)
    return graph


def _require(node: Node | None, condition: bool, rule: str, found: Any) -> None:
    if not condition:
        where = "" if node is None else f" in {node!r}" + (f" from {node.origin}" if node.origin else "")
        raise VerifyError(f"{rule}; found {found}{where}")


def _verify_order(node: Node, seen: set[Node]) -> None:
    _require(node, node not in seen, "a node stands once in the order", "it twice")
    _require(node, known(node.op) and node.op != "input", "an op is in the op table", repr(node.op))
    missing = [operand for operand in node.operands() if operand not in seen]
    _require(node, not missing, "operands come before their users", f"{missing} later or nowhere")


def _verify_node(node: Node) -> None:
    if node.op in POINTWISE:
        _pointwise(node)
    elif node.op in REDUCTIONS:
        _reduction(node)
    elif node.op in SCANS:
        _scan(node)
    else:
        _RULES[node.op](node)


# --- sizes ----------------------------------------------------------------------------------------------------------


def _same_size(left: Any, right: Any) -> bool:
    return left == right or not (is_static(left) and is_static(right))


def _same_sizes(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(_same_size, left, right))


def _well_formed(node: Node) -> None:
    type = node.tensor
    _require(node, len(type.strides) == type.rank, "one stride per dimension", type.strides)
    _require(node, all(not is_static(s) or s >= 0 for s in type.shape), "sizes are not negative", type.shape)


def _one_tensor(node: Node) -> TensorType:
    _well_formed(node)
    operands = node.operands()
    _require(node, len(operands) == len(node.args) == 1, "the op has one tensor argument", node.args)
    return operands[0].tensor


# --- one function per kind ------------------------------------------------------------------------------------------


def _pointwise(node: Node) -> None:
    _well_formed(node)
    row = POINTWISE[node.op]
    _require(node, len(node.args) == row.arity, f"{node.op} has {row.arity} arguments", len(node.args))
    tensors = [arg for arg in node.args if isinstance(arg, Node)]
    _require(node, bool(tensors), "a pointwise op has a tensor argument", node.args)
    for tensor in tensors:
        same = _same_sizes(tensor.tensor.shape, node.tensor.shape)
        _require(node, same, "pointwise arguments have the node's shape", tensor.type)
    dtypes = {arg.tensor.dtype for arg in (node.args[1:] if node.op == "where" else tensors) if isinstance(arg, Node)}
    if node.op == "where":
        condition = node.args[0]
        is_bool = isinstance(condition, Node) and condition.tensor.dtype is torch.bool
        _require(node, is_bool, "the condition of where is a bool tensor", condition)
    _require(node, len(dtypes) == 1, "pointwise arguments have one dtype", dtypes)
    dtype = dtypes.pop()
    _require(node, dtype_kind(dtype) in row.kinds, f"{node.op} is for dtype kinds {row.kinds!r}", dtype)
    expected = torch.bool if row.result == "bool" else dtype
    _require(node, node.tensor.dtype is expected, f"{node.op} of {dtype} gives {expected}", node.tensor.dtype)
    _same_device(node)


def _same_device(node: Node) -> None:
    for operand in node.operands():
        _require(node, operand.tensor.device == node.tensor.device, "one device per node", operand.tensor.device)


def _reduction(node: Node) -> None:
    source, dims = _one_tensor(node), node.attrs["dims"]
    valid = tuple(sorted(set(dims))) == tuple(dims) and all(0 <= d < source.rank for d in dims) and bool(dims)
    _require(node, valid, "reduced dimensions are sorted, distinct, in range, at least one", dims)
    shape = tuple(1 if i in dims else size for i, size in enumerate(source.shape))
    _require(node, _same_sizes(node.tensor.shape, shape), "reduced dimensions stay with size 1", node.tensor.shape)
    _require(node, node.tensor.dtype is source.dtype, "a reduction keeps the dtype", source.dtype)
    kinds = REDUCTIONS[node.op].kinds
    _require(node, dtype_kind(source.dtype) in kinds, f"{node.op} is for dtype kinds {kinds!r}", source.dtype)
    _same_device(node)


def _scan(node: Node) -> None:
    source = _one_tensor(node)
    _require(node, 0 <= node.attrs["dim"] < source.rank, "a scan's dimension is in range", node.attrs["dim"])
    _require(node, _same_sizes(node.tensor.shape, source.shape), "a scan keeps the shape", source)
    _require(node, node.tensor.dtype is source.dtype, "a scan keeps the dtype", source.dtype)
    kinds = SCANS[node.op].kinds
    _require(node, dtype_kind(source.dtype) in kinds, f"{node.op} is for dtype kinds {kinds!r}", source.dtype)
    _same_device(node)


def _gather(node: Node) -> None:
    _well_formed(node)
    dims, masked = node.attrs["dims"], node.attrs["masked"]
    _require(node, node.attrs["checked"] in ("", "wrap", "strict"), "a gather's check is known", node.attrs["checked"])
    tensors = [arg for arg in node.args if isinstance(arg, Node)]
    _require(node, len(tensors) == len(node.args) == 1 + len(dims) + masked, "a gather's arguments", node.args)
    source, rank = tensors[0].tensor, node.tensor.rank
    _require(node, source.rank == rank and source.dtype is node.tensor.dtype, "a gather keeps rank and dtype", source)
    valid = list(dims) == sorted(set(dims)) and all(0 <= d < rank for d in dims)
    _require(node, valid, "indexed dimensions are sorted, distinct, in range", dims)
    for d, (have, want) in enumerate(zip(source.shape, node.tensor.shape, strict=True)):
        _require(node, d in dims or _same_size(have, want), "other dimensions are the node's", source)
    for i, index in enumerate(tensors[1:]):
        same = _same_sizes(index.tensor.shape, node.tensor.shape)
        _require(node, same, "indices and mask have the node's shape", index.type)
        dtype = torch.bool if masked and i == len(dims) else torch.int64
        _require(node, index.tensor.dtype is dtype, "indices are int64, a mask is bool", index.type)
    _same_device(node)


def _cast(node: Node) -> None:
    source = _one_tensor(node)
    _require(node, node.attrs["dtype"] is node.tensor.dtype, "a cast has the dtype it says", node.attrs["dtype"])
    _require(node, _same_sizes(source.shape, node.tensor.shape), "a cast keeps the shape", source)
    _same_device(node)


def _view(node: Node) -> TensorType:
    source = _one_tensor(node)
    _require(node, source.dtype is node.tensor.dtype, "a view keeps the dtype", source.dtype)
    _same_device(node)
    return source


def _reshape(node: Node) -> None:
    source = _view(node)
    same = _same_size(dims_product(source.shape), dims_product(node.tensor.shape))
    _require(node, same, "a reshape keeps the number of elements", source)


def _permute(node: Node) -> None:
    source, dims = _view(node), node.attrs["dims"]
    _require(node, sorted(dims) == list(range(source.rank)), "permute names every dimension once", dims)
    shape = tuple(source.shape[d] for d in dims)
    _require(node, _same_sizes(shape, node.tensor.shape), "permute permutes the shape", source)


def _expand(node: Node) -> None:
    source = _view(node)
    _require(node, source.rank == node.tensor.rank, "expand keeps the rank", source)
    for have, want in zip(source.shape, node.tensor.shape, strict=True):
        _require(node, (is_static(have) and have == 1) or _same_size(have, want), "expand widens size 1 only", source)


def _slice(node: Node) -> None:
    source, dim, start, step = _view(node), node.attrs["dim"], node.attrs["start"], node.attrs["step"]
    _require(node, 0 <= dim < source.rank and step != 0, "slice has a dimension and a step", (dim, step))
    for i, (have, want) in enumerate(zip(source.shape, node.tensor.shape, strict=True)):
        _require(node, i == dim or _same_size(have, want), "slice keeps the other dimensions", source)
    length, size = node.tensor.shape[dim], source.shape[dim]
    if all(map(is_static, (start, length, size))):
        inside = length == 0 or (0 <= start < size and 0 <= start + (length - 1) * step < size)
        _require(node, inside, "slice stays inside its argument", f"start {start}, step {step} of {source}")


def _full(node: Node) -> None:
    _well_formed(node)
    good = len(node.args) == 1 and not isinstance(node.args[0], (Node, tuple, str))
    _require(node, good, "full has one scalar argument", node.args)


def _iota(node: Node) -> None:
    _well_formed(node)
    _require(node, node.tensor.dtype is torch.int64, "iota is int64", node.tensor.dtype)
    _require(node, 0 <= node.attrs["dim"] < node.tensor.rank, "iota's dimension is in range", node.attrs["dim"])


def _constant(node: Node) -> None:
    value = node.attrs["value"]
    matches = tuple(value.shape) == node.tensor.shape and value.dtype is node.tensor.dtype
    _require(node, matches and value.device == node.tensor.device, "a constant has its value's type", value.shape)


def _extern(node: Node) -> None:
    missing = {"target", "kwargs", "keywords"} - set(node.attrs)
    _require(node, not missing, "an extern has target, kwargs and keywords", f"no {missing}")
    nested = [value for value in node.attrs["kwargs"].values() if isinstance(value, Node)]
    _require(node, not nested, "an extern's kwargs hold no Nodes", nested)


def _getitem(node: Node) -> None:
    good = len(node.args) == 2 and isinstance(node.args[0], Node) and isinstance(node.args[0].type, tuple)
    _require(node, good, "getitem has an extern with several results, and an index", node.args)
    types = node.args[0].type
    _require(node, 0 <= node.args[1] < len(types), "getitem's index is in range", node.args[1])
    _require(node, types[node.args[1]] == node.type, "getitem has the type of its item", types[node.args[1]])


_RULES: dict[str, Callable[[Node], None]] = {
    "cast": _cast, "reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "gather": _gather,
    "full": _full, "iota": _iota, "constant": _constant, "extern": _extern, "getitem": _getitem,
}


# --- the graph's ends -----------------------------------------------------------------------------------------------


def _verify_outputs(graph: Graph, seen: set[Node]) -> None:
    for out in graph.outputs:
        if isinstance(out, InputView):
            _require(None, 0 <= out.input < len(graph.inputs), "an InputView names an input", out.input)
        node = out.buffer if isinstance(out, BufferView) else out
        if isinstance(node, Node):
            _require(node, node in seen, "outputs are nodes of the graph", repr(node))
            _require(node, isinstance(node.type, TensorType), "an output node is one tensor", node.type)
    for index, node in graph.writes:
        _require(node, 0 <= index < len(graph.inputs), "a write names an input", index)
        _require(node, node in seen, "written values are nodes of the graph", repr(node))
        target = graph.inputs[index].tensor
        same = _same_sizes(target.shape, node.tensor.shape) and target.dtype is node.tensor.dtype
        _require(node, same, "a written value has the input's shape and dtype", target)
