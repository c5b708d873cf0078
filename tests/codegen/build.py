"""Graphs by hand, for tests of code generation: `B` is a GraphBuilder that works out the types."""

from __future__ import annotations

from typing import Any

import torch

from minicompile.ir.graph import Graph, GraphBuilder, Node
from minicompile.ir.ops import POINTWISE, REDUCTIONS
from minicompile.ir.types import TensorType, contiguous_strides

CPU = torch.device("cpu")


def tensor_type(shape: Any, dtype: torch.dtype = torch.float32, strides: Any = None, device: Any = CPU) -> TensorType:
    shape = tuple(shape)
    return TensorType(dtype, shape, contiguous_strides(shape) if strides is None else tuple(strides), device)


class B:
    """`b.exp(x)`, `b.sum(x, 1)`, `b.reshape(x, 3, 4)`: one method a node, types inferred."""

    def __init__(self, name: str = "graph") -> None:
        self.builder = GraphBuilder(name)

    def input(self, *shape: Any, dtype: torch.dtype = torch.float32, strides: Any = None, device: Any = CPU) -> Node:
        name = f"x{len(self.builder.inputs)}"
        return self.builder.input(tensor_type(shape, dtype, strides, device), name)

    def input_like(self, tensor: torch.Tensor) -> Node:
        return self.input(*tensor.shape, dtype=tensor.dtype, strides=tensor.stride())

    def __getattr__(self, op: str) -> Any:
        if op in POINTWISE:
            return lambda *args: self._pointwise(op, args)
        if op in REDUCTIONS:
            return lambda arg, *dims: self._reduce(op, arg, dims)
        raise AttributeError(op)

    def _pointwise(self, op: str, args: Any) -> Node:
        nodes = [arg for arg in args if isinstance(arg, Node)]
        type = nodes[-1].tensor if op != "where" or isinstance(args[1], Node) or isinstance(args[2], Node) else None
        assert type is not None
        dtype = torch.bool if POINTWISE[op].result == "bool" else type.dtype
        return self.builder.add(op, args, type.like(dtype=dtype, shape=type.shape))

    def _reduce(self, op: str, arg: Node, dims: Any) -> Node:
        dims = tuple(sorted(d % arg.tensor.rank for d in dims))
        shape = tuple(1 if d in dims else s for d, s in enumerate(arg.tensor.shape))
        return self.builder.add(op, (arg,), arg.tensor.like(shape=shape), dims=dims)

    def cast(self, arg: Node, dtype: torch.dtype) -> Node:
        return self.builder.add("cast", (arg,), arg.tensor.like(dtype=dtype, shape=arg.tensor.shape), dtype=dtype)

    def reshape(self, arg: Node, *shape: Any) -> Node:
        return self.builder.add("reshape", (arg,), arg.tensor.like(shape=shape))

    def expand(self, arg: Node, *shape: Any) -> Node:
        strides = tuple(0 if o == 1 and n != 1 else s
                        for n, o, s in zip(shape, arg.tensor.shape, arg.tensor.strides, strict=True))
        return self.builder.add("expand", (arg,), arg.tensor.like(shape=shape, strides=strides))

    def permute(self, arg: Node, *dims: int) -> Node:
        t = arg.tensor
        type = t.like(shape=tuple(t.shape[d] for d in dims), strides=tuple(t.strides[d] for d in dims))
        return self.builder.add("permute", (arg,), type, dims=dims)

    def slice(self, arg: Node, dim: int, start: int, length: int, step: int = 1) -> Node:
        t = arg.tensor
        shape, strides = list(t.shape), list(t.strides)
        shape[dim], strides[dim] = length, strides[dim] * step
        type = t.like(shape=tuple(shape), strides=tuple(strides))
        return self.builder.add("slice", (arg,), type, dim=dim, start=start, step=step)

    def full(self, value: Any, *shape: Any, dtype: torch.dtype = torch.float32) -> Node:
        return self.builder.add("full", (value,), tensor_type(shape, dtype))

    def iota(self, dim: int, *shape: Any) -> Node:
        return self.builder.add("iota", (), tensor_type(shape, torch.int64), dim=dim)

    def extern(self, target: Any, *args: Any, type: Any, **attrs: Any) -> Node:
        more = {"kwargs": {}, "keywords": (), "effect": False, **attrs}
        return self.builder.add("extern", args, type, target=target, **more)

    def finish(self, *outputs: Any, **more: Any) -> Graph:
        return self.builder.finish(outputs, **more)


def softmax(b: B, x: Node, dim: int = -1) -> Node:
    shape = x.tensor.shape
    e = b.exp(b.sub(x, b.expand(b.amax(x, dim), *shape)))
    return b.div(e, b.expand(b.sum(e, dim), *shape))


def entropy(b: B, x: Node) -> Node:
    p = softmax(b, x)
    summed = b.sum(b.mul(p, b.log(b.add(p, 1e-8))), -1)
    return b.neg(b.reshape(summed, *x.tensor.shape[:-1]))


def layer_norm(b: B, x: Node, weight: Node, bias: Node) -> Node:
    shape = x.tensor.shape
    ones = (1,) * (len(shape) - 1)
    n = shape[-1]
    mean = b.mul(b.sum(x, -1), 1.0 / n)
    centred = b.sub(x, b.expand(mean, *shape))
    var = b.mul(b.sum(b.mul(centred, centred), -1), 1.0 / n)
    scaled = b.mul(centred, b.expand(b.rsqrt(b.add(var, 1e-5)), *shape))
    rows = [b.expand(b.reshape(v, *ones, n), *shape) for v in (weight, bias)]
    return b.add(b.mul(scaled, rows[0]), rows[1])


def gelu(b: B, x: Node) -> Node:
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, 0.7071067811865476)), 1.0))
