"""Typed construction of IR: every helper makes one node and works out its type.

In: Nodes, Python scalars, Dims.
Out: Nodes that obey the op table's rules: pointwise operands are expanded to one shape here, scalars take the dtype of
the tensors beside them, reductions keep their dimensions.

Helpers raise NotConvertible where the op table has no row for a dtype; the caller then makes an extern call instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..ir.graph import GraphBuilder, Node
from ..ir.ops import POINTWISE, REDUCTIONS, SCANS, ScalarOp
from ..ir.symbols import dims_product, is_static, same_dim
from ..ir.types import Shape, TensorType, contiguous_strides, dtype_kind, view_strides
from ..torch_compat import header_folder
from .errors import NotConvertible

KERNEL_DTYPES = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
})
"""What kernels compute with; tensors of any other dtype stay in extern calls."""


UNROUNDED = frozenset({"mul", "div", "floor_divide"})
"""The rows with which eager's half-precision kernels take a Python scalar as it is. For all others, comparisons among
them, it is rounded to half precision first, as if it were a tensor."""


class Emitter:
    """Makes nodes in a GraphBuilder. The base class of the converter, so that rules write `c.mul(a, b)`."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder

    # --- pointwise ------------------------------------------------------------------------------------------------

    def pointwise(self, op: str, *args: Any) -> Node:
        """One row of the op table over tensors of one dtype (see `promote`) and scalars, broadcast together."""
        row = POINTWISE[op]
        tensors = [arg for arg in args if isinstance(arg, Node)]
        if not tensors:
            raise NotConvertible(f"{op} of scalars only")
        dtype = tensors[-1].tensor.dtype
        check_row(row, tensors[-1].tensor)
        shape = broadcast_shapes([tensor.tensor.shape for tensor in tensors])
        rounded = op not in UNROUNDED
        operands = [self.expand(a, shape) if isinstance(a, Node) else scalar_as(a, dtype, rounded) for a in args]
        first = next(operand for operand in operands if isinstance(operand, Node))
        result = torch.bool if row.result == "bool" else dtype
        return self.builder.add(op, operands, _pointwise_type(operands, first, result))

    def __getattr__(self, name: str) -> Any:
        """`c.mul(a, b)` is `c.pointwise("mul", a, b)`."""
        if name in POINTWISE:
            return lambda *args: self.pointwise(name, *args)
        raise AttributeError(name)

    def cast(self, node: Node, dtype: torch.dtype) -> Node:
        """The node in another dtype; the node itself if it has that dtype."""
        if node.tensor.dtype is dtype:
            return node
        if dtype not in KERNEL_DTYPES:
            raise NotConvertible(f"no kernel computes {dtype}")
        return self.builder.add("cast", (node,), _pointwise_type([node], node, dtype), dtype=dtype)

    def copy(self, node: Node, type: TensorType) -> Node:
        """The same values laid out by `type`'s strides."""
        return self.builder.add("cast", (node,), type, dtype=type.dtype)

    def promote(self, dtype: torch.dtype, *args: Any) -> tuple[Any, ...]:
        """Tensors cast to one dtype; scalars pass."""
        return tuple(self.cast(arg, dtype) if isinstance(arg, Node) else arg for arg in args)

    def upcast(self, node: Node, compute: torch.dtype | None = None) -> Node:
        """Half precision as float32: the precision in which eager computes inside one operator."""
        return self.cast(node, compute or opmath(node.tensor.dtype))

    # --- views ----------------------------------------------------------------------------------------------------

    def reshape(self, node: Node, shape: Sequence[Any]) -> Node:
        shape = tuple(shape)
        if same_shape(node.tensor.shape, shape):
            return node
        strides = view_strides(node.tensor.shape, node.tensor.strides, shape) or contiguous_strides(shape)
        return self.builder.add("reshape", (node,), node.tensor.like(shape=shape, strides=strides))

    def permute(self, node: Node, dims: Sequence[int]) -> Node:
        dims = tuple(dim % max(len(dims), 1) for dim in dims)
        if dims == tuple(range(len(dims))):
            return node
        old = node.tensor
        type = old.like(shape=tuple(old.shape[d] for d in dims), strides=tuple(old.strides[d] for d in dims))
        return self.builder.add("permute", (node,), type, dims=dims)

    def expand(self, node: Node, shape: Sequence[Any]) -> Node:
        """Broadcast to `shape`: missing leading dimensions are added by a reshape first."""
        shape = tuple(shape)
        missing = len(shape) - node.tensor.rank
        if missing:
            node = self.reshape(node, (1,) * missing + node.tensor.shape)
        old = node.tensor
        if same_shape(old.shape, shape):
            return node
        # A size that is not 1 is the wanted one: tracing has proved it, even where the expressions are two.
        strides = tuple(
            0 if same_dim(have, 1) and not same_dim(want, 1) else stride
            for have, want, stride in zip(old.shape, shape, old.strides, strict=True)
        )
        return self.builder.add("expand", (node,), old.like(shape=shape, strides=strides))

    def slice(self, node: Node, dim: int, start: Any, length: Any, step: int = 1) -> Node:
        """`length` elements of one dimension from `start` on, every `step`-th; start is not negative."""
        old = node.tensor
        if step == 1 and same_dim(old.shape[dim], length):
            return node
        shape, strides = list(old.shape), list(old.strides)
        shape[dim], strides[dim] = length, strides[dim] * step
        type = old.like(shape=tuple(shape), strides=tuple(strides))
        return self.builder.add("slice", (node,), type, dim=dim, start=start, step=step)

    def flip(self, node: Node, dim: int) -> Node:
        """One dimension backwards: a slice from the end by steps of -1."""
        old = node.tensor
        type = old.like(shape=old.shape, strides=contiguous_strides(old.shape))
        return self.builder.add("slice", (node,), type, dim=dim, start=old.shape[dim] - 1, step=-1)

    def select(self, node: Node, dim: int, index: Any) -> Node:
        shape = node.tensor.shape
        return self.reshape(self.slice(node, dim, index, 1), shape[:dim] + shape[dim + 1 :])

    # --- reductions, creation -------------------------------------------------------------------------------------

    def reduce(self, op: str, node: Node, dims: Sequence[int]) -> Node:
        """One row of the reductions; `dims` empty returns the node. Reduced dimensions stay, with size 1."""
        dims = tuple(sorted(dims))
        if not dims:
            return node
        if dtype_kind(node.tensor.dtype) not in REDUCTIONS[op].kinds:
            raise NotConvertible(f"{op} has no row for {node.tensor.dtype}")
        shape = tuple(1 if i in dims else size for i, size in enumerate(node.tensor.shape))
        return self.builder.add(op, (node,), node.tensor.like(shape=shape), dims=dims)

    def scan(self, op: str, node: Node, dim: int) -> Node:
        """A running sum or product along `dim`."""
        if dtype_kind(node.tensor.dtype) not in SCANS[op].kinds:
            raise NotConvertible(f"{op} has no row for {node.tensor.dtype}")
        return self.builder.add(op, (node,), node.tensor.like(shape=node.tensor.shape), dim=dim)

    def gather(
        self,
        source: Node,
        indices: Mapping[int, Node],
        shape: Sequence[Any],
        *,
        mask: Node | None = None,
        checked: str = "",
    ) -> Node:
        """The source's elements at `indices` (dimension → int64 index), in `shape`; see GATHER in the op table.

        Source, indices and mask are broadcast to `shape` here; the source keeps its size in the indexed dimensions.
        Raises NotConvertible where an index is checked against an empty dimension.
        """
        shape, dims = tuple(shape), tuple(sorted(indices))
        sizes = source.tensor.shape
        if checked and any(is_static(sizes[d]) and sizes[d] == 0 for d in dims):
            raise NotConvertible("an index into an empty dimension")
        source = self.expand(source, tuple(sizes[d] if d in dims else size for d, size in enumerate(shape)))
        operands = [self.expand(self.cast(indices[d], torch.int64), shape) for d in dims]
        operands += [] if mask is None else [self.expand(mask, shape)]
        type = source.tensor.like(shape=shape)
        return self.builder.add(
            "gather", (source, *operands), type, dims=dims, masked=mask is not None, checked=checked
        )

    def positions(self, shape: Sequence[Any], dim: int, device: torch.device) -> Node:
        """The index along `dim`, in a shape that broadcasts against `shape`."""
        column = tuple(size if i == dim else 1 for i, size in enumerate(shape))
        return self.iota(dim, TensorType(torch.int64, column, contiguous_strides(column), device))

    def drop(self, node: Node, dims: Sequence[int]) -> Node:
        """Without the (size-1) dimensions `dims`."""
        return self.reshape(node, tuple(size for i, size in enumerate(node.tensor.shape) if i not in dims))

    def full(self, value: Any, type: TensorType) -> Node:
        if type.dtype not in KERNEL_DTYPES:
            raise NotConvertible(f"no kernel computes {type.dtype}")
        return self.builder.add("full", (scalar_as(value, type.dtype),), type.like(shape=type.shape))

    def iota(self, dim: int, type: TensorType) -> Node:
        """The int64 index along `dim` of `type`'s shape."""
        return self.builder.add("iota", (), type.like(shape=type.shape, dtype=torch.int64), dim=dim)


def check_row(row: ScalarOp, type: TensorType) -> None:
    """Raises NotConvertible where no kernel computes the row."""
    if dtype_kind(type.dtype) not in row.kinds:
        raise NotConvertible(f"{row.name} has no row for {type.dtype}")
    if (row.triton is None and type.device.type != "cpu") or (row.aten and header_folder() is None):
        raise NotConvertible(f"{row.name} has no text for a kernel here")


def opmath(dtype: torch.dtype) -> torch.dtype:
    """float32 for half precision, else the dtype: where eager's operators accumulate."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def same_shape(left: Shape, right: Shape) -> bool:
    """Whether two shapes are the same expressions; equal by a guard is not enough."""
    return len(left) == len(right) and all(map(same_dim, left, right))


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The broadcast shape. Where two sizes are different expressions, tracing has proved them equal by a guard."""
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if same_dim(result[i], 1) or (not is_static(result[i]) and is_static(size) and size != 1):
                result[i] = size
    return tuple(result)


def scalar_as(value: Any, dtype: torch.dtype, rounded: bool = False) -> Any:
    """A Python scalar in the kind of a dtype, as eager converts it; a Dim passes. `rounded`: to the nearest value of a
    half-precision dtype.

    Raises NotConvertible where eager's own conversion is special: complex, or out of an integer dtype's range.
    """
    if isinstance(value, complex):
        raise NotConvertible("a complex scalar")
    if not isinstance(value, (bool, int, float)):
        return value
    kind = dtype_kind(dtype)
    if kind == "f":
        half = rounded and opmath(dtype) is not dtype
        return torch.tensor(float(value), dtype=dtype).item() if half else float(value)
    if kind == "b":
        return bool(value)
    if value != value or value in (float("inf"), float("-inf")) or not _fits(int(value), dtype):
        raise NotConvertible(f"{value} does not fit {dtype}")
    return int(value)


def _fits(value: int, dtype: torch.dtype) -> bool:
    info = torch.iinfo(dtype)
    return info.min <= value <= info.max


def numel(shape: Shape) -> Any:
    """The number of elements, a Dim."""
    return dims_product(shape)


def _pointwise_type(operands: Sequence[Any], first: Node, dtype: torch.dtype) -> TensorType:
    """Laid out as the first operand that is dense; contiguous if none is."""
    type = first.tensor
    for operand in operands:
        if isinstance(operand, Node) and _is_dense(operand.tensor):
            return type.like(dtype=dtype, strides=operand.tensor.strides)
    return type.like(dtype=dtype, strides=contiguous_strides(type.shape))


def _is_dense(type: TensorType) -> bool:
    """Whether some permutation of the dimensions is contiguous (judged for static strides only)."""
    if type.is_contiguous:
        return True
    if not type.is_static:
        return False
    order = sorted(range(type.rank), key=lambda i: (type.strides[i], type.shape[i]))
    expected = 1
    for i in order:
        if type.shape[i] != 1:
            if type.strides[i] != expected:
                return False
            expected *= type.shape[i]
    return True
