"""The reference interpreter: what a graph means, by one torch call per node.

In: a Graph and real input tensors (plain ints for size inputs).
Out: the outputs, with eager's strides and sharing; mutated inputs are written, last.

Slow and obvious on purpose: tests compare passes and generated code against it, and it against eager. Half precision is
computed in float32 and rounded after every node, as eager rounds after every operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .graph import BufferView, Graph, InputView, Node
from .ops import POINTWISE, REDUCTIONS, SCANS, is_pointwise
from .retyped import view_as
from .symbols import evaluate, evaluate_scalar
from .types import SizeType, TensorType

Sizes = dict[str, int]


def run(graph: Graph, *inputs: Any) -> tuple[Any, ...]:
    """Compute the graph.

    Args:
        inputs: one per graph input: a tensor of the input's dtype, shape and strides, or an int; None where no node
            reads it, as backward does not read missing tangents.
    Raises:
        ValueError: the number of inputs, or a shape, is not the graph's.
    """
    sizes = bind_sizes(graph, inputs)
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    with torch.no_grad():
        for node in graph.nodes:
            values[node] = evaluate_node(node, values, sizes)
        results = _outputs_before_writes(graph, values, sizes)
        written = [(index, values[node].clone()) for index, node in graph.writes]
        for index, value in written:
            inputs[index].copy_(value)
        return tuple(
            _input_view(out, inputs, sizes) if isinstance(out, InputView) else result
            for out, result in zip(graph.outputs, results, strict=True)
        )


def bind_sizes(graph: Graph, inputs: Sequence[Any]) -> Sizes:
    """The value of every size symbol, read off the inputs. Raises ValueError where an input does not fit."""
    if len(inputs) != len(graph.inputs):
        raise ValueError(f"the graph has {len(graph.inputs)} inputs, got {len(inputs)}")
    pairs: list[tuple[Any, Any]] = []  # a float that varies is a symbol too
    for node, value in zip(graph.inputs, inputs, strict=True):
        if isinstance(node.type, SizeType):
            pairs.append((node.type.expr, value if isinstance(value, float) else int(value)))
        elif value is not None:
            pairs += zip(node.tensor.shape, value.shape, strict=True)
            pairs += zip(node.tensor.strides, value.stride(), strict=True)
    sizes: Sizes = {expr.name: value for expr, value in pairs if getattr(expr, "is_Symbol", False)}
    for node, value in zip(graph.inputs, inputs, strict=True):
        if value is None or not isinstance(node.type, TensorType):
            continue
        if shape_of(node.tensor.shape, sizes) != tuple(value.shape):
            raise ValueError(f"input {node.attrs['name']} has shape {tuple(value.shape)}, the graph is for {node.type}")
    return sizes


def shape_of(dims: Sequence[Any], sizes: Sizes) -> tuple[int, ...]:
    """Dims as numbers, for sizes by symbol."""
    return tuple(evaluate(dim, sizes) for dim in dims)


# --- one node -------------------------------------------------------------------------------------------------------


def evaluate_node(node: Node, values: Mapping[Node, Any], sizes: Sizes) -> Any:
    """The node's value: a tensor, or a tuple for an extern with several results. Raises NotImplementedError."""
    args = [_argument(arg, values, sizes) for arg in node.args]
    if node.op in REDUCTIONS:
        return REDUCTIONS[node.op].torch(args[0], node.attrs["dims"], True)
    if node.op in SCANS:
        return SCANS[node.op].torch(args[0], node.attrs["dim"])
    if is_pointwise(node.op):
        return _pointwise(node, args, sizes)
    rule = _RULES.get(node.op)
    if rule is None:
        raise NotImplementedError(f"the reference interpreter does not know the op {node.op!r}")
    return rule(node, args, sizes)


def _argument(arg: Any, values: Mapping[Node, Any], sizes: Sizes) -> Any:
    if isinstance(arg, Node):
        return values[arg]
    if isinstance(arg, (tuple, list)):
        return [_argument(item, values, sizes) for item in arg]
    return evaluate_scalar(arg, sizes) if hasattr(arg, "free_symbols") else arg


def _pointwise(node: Node, args: list[Any], sizes: Sizes) -> torch.Tensor:
    if node.op == "cast":
        return lay_out(args[0].to(node.attrs["dtype"]), node.tensor, sizes)
    return pointwise(node.op, args)


def pointwise(op: str, args: Sequence[Any]) -> torch.Tensor:
    """One row of the op table on tensors of one dtype (broadcasting is torch's) and scalars."""
    dtype = next(arg for arg in reversed(args) if isinstance(arg, torch.Tensor)).dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    result = POINTWISE[op].torch(*(_operand(arg, dtype, wide) for arg in args))
    return result if POINTWISE[op].result == "bool" else result.to(dtype)


def _operand(arg: Any, dtype: torch.dtype, wide: torch.dtype) -> torch.Tensor:
    """Scalars become 0-dim tensors of the computing dtype; half precision is widened."""
    if not isinstance(arg, torch.Tensor):
        return torch.tensor(arg, dtype=wide)
    return arg.to(wide) if arg.dtype is dtype else arg


def _slice(node: Node, args: list[Any], sizes: Sizes) -> torch.Tensor:
    dim, step, start = node.attrs["dim"], node.attrs["step"], evaluate(node.attrs["start"], sizes)
    length = evaluate(node.tensor.shape[dim], sizes)
    if step < 0:
        return args[0].index_select(dim, torch.arange(length, device=args[0].device) * step + start)
    index = (slice(None),) * dim + (slice(start, start + (length - 1) * step + 1 if length else start, step),)
    return args[0][index]


def gather(source: torch.Tensor, indices: Sequence[Any], dims: Sequence[int], masked: bool, checked: str = "") -> Any:
    """The op `gather` (see ops.py); `indices` has the mask at its end. Raises IndexError for an index out of range."""
    if checked == "strict" and any((index < 0).any() for index in indices[: len(dims)]):
        raise IndexError("a negative index where none is allowed")
    shape = torch.broadcast_shapes(*(index.shape for index in indices))
    keep = indices[-1] if masked else None
    if source.numel() == 0 and keep is not None and not keep.any():
        return source.new_zeros(shape)
    places: list[torch.Tensor] = []
    for dim, size in enumerate(shape):
        column = [-1 if i == dim else 1 for i in range(len(shape))]
        places.append(torch.arange(size, device=source.device).reshape(column))
    for dim, index in zip(dims, indices, strict=False):
        places[dim] = index if keep is None else torch.where(keep, index, 0)
    result = source[tuple(places)] if places else source.clone()
    return result.expand(shape) if keep is None else torch.where(keep, result, torch.zeros((), dtype=source.dtype))


def _gather(node: Node, args: list[Any], sizes: Sizes) -> torch.Tensor:
    return gather(args[0], args[1:], node.attrs["dims"], node.attrs["masked"], node.attrs["checked"])


def _full(node: Node, args: list[Any], sizes: Sizes) -> torch.Tensor:
    type = node.tensor
    return torch.full(shape_of(type.shape, sizes), args[0], dtype=type.dtype, device=type.device)


def _iota(node: Node, args: list[Any], sizes: Sizes) -> torch.Tensor:
    shape, dim = shape_of(node.tensor.shape, sizes), node.attrs["dim"]
    column = [-1 if i == dim else 1 for i in range(len(shape))]
    return torch.arange(shape[dim], device=node.tensor.device).reshape(column).expand(shape)


def _extern(node: Node, args: list[Any], sizes: Sizes) -> Any:
    keywords = node.attrs["keywords"]
    operands = _lay_out_operands(node.args, args, sizes)
    split = len(operands) - len(keywords)
    kwargs = {name: _argument(value, {}, sizes) for name, value in node.attrs["kwargs"].items()}
    return node.attrs["target"](*operands[:split], **dict(zip(keywords, operands[split:], strict=True)), **kwargs)


def _lay_out_operands(nodes: Sequence[Any], values: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Tensor arguments with the strides of their types: ATen's results may depend on them."""

    def one(node: Any, value: Any) -> Any:
        if isinstance(node, Node):
            return lay_out(value, node.tensor, sizes)
        if isinstance(node, (tuple, list)):
            return [one(*pair) for pair in zip(node, value, strict=True)]
        return value

    return [one(*pair) for pair in zip(nodes, values, strict=True)]


_RULES: dict[str, Callable[[Node, list[Any], Sizes], Any]] = {
    "reshape": lambda node, args, sizes: args[0].reshape(shape_of(node.tensor.shape, sizes)),
    "permute": lambda node, args, sizes: args[0].permute(node.attrs["dims"]),
    "expand": lambda node, args, sizes: args[0].expand(shape_of(node.tensor.shape, sizes)),
    "slice": _slice,
    "gather": _gather,
    "full": _full,
    "iota": _iota,
    "constant": lambda node, args, sizes: node.attrs["value"],
    "extern": _extern,
    "getitem": lambda node, args, sizes: args[0][args[1]],
}


# --- outputs --------------------------------------------------------------------------------------------------------


def lay_out(value: torch.Tensor, type: TensorType, sizes: Sizes, fresh: bool = False) -> torch.Tensor:
    """The value with the strides of `type` (copied only if they differ, or if `fresh` memory is asked for)."""
    strides = shape_of(type.strides, sizes)
    if value.stride() == strides and not fresh:
        return value
    core = value[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]  # overlapping dimensions
    result = torch.empty_strided(core.shape, strides, dtype=value.dtype, device=value.device).copy_(core)
    return result.as_strided(value.shape, strides)


def _outputs_before_writes(graph: Graph, values: Mapping[Node, Any], sizes: Sizes) -> list[Any]:
    buffers: dict[Node, torch.Tensor] = {}
    views: dict[BufferView, torch.Tensor] = {}

    def one(out: Any) -> Any:
        if isinstance(out, Node) and out.op in ("extern", "getitem") and graph.outputs.count(out) == 1:
            return values[out]  # ATen's own strides, of which the fake tensor may have been wrong
        if isinstance(out, Node):
            return lay_out(values[out], out.tensor, sizes, fresh=True)
        if isinstance(out, BufferView):
            buffer = out.buffer
            if buffer not in buffers:
                buffers[buffer] = lay_out(values[buffer], buffer.tensor, sizes, fresh=True)
            if out not in views:
                views[out] = _view_of(buffers[buffer], out, sizes)
            return views[out]
        return _argument(out, values, sizes)

    return [None if isinstance(out, InputView) else one(out) for out in graph.outputs]


def _view_of(base: torch.Tensor, out: InputView | BufferView, sizes: Sizes) -> torch.Tensor:
    places = shape_of(out.type.shape, sizes), shape_of(out.type.strides, sizes), evaluate(out.offset, sizes)
    return view_as(base, out.type.dtype, *places, out.lazy)


def _input_view(out: InputView, inputs: Sequence[Any], sizes: Sizes) -> torch.Tensor:
    base = inputs[out.input].detach() if out.detached else inputs[out.input]
    return base if out.whole else _view_of(base, out, sizes)
