"""Extern nodes: calls that stay ATen's.

In: a recorded call without a rule.
Out: an `extern` node, and `getitem` nodes where ATen returns several tensors.

An extern's result never shares memory with its arguments, so that code generation may reuse their memory: a view
operator is replaced by its `_copy` form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..ir.called_operators import Flattened, FromOwnStart, Recording
from ..ir.graph import Node
from ..ir.types import TensorType, contiguous_strides
from ..nests import tensors_in
from .emit import KERNEL_DTYPES, same_shape
from .errors import LoweringError

if TYPE_CHECKING:
    from .convert import Converter
    from .trace import Call


def has_effect(func: Any) -> bool:
    """Whether a call does more than return a value: it draws random numbers, writes to an argument, returns nothing.

    The backward of attention is given the state that its forward drew with, and draws the same numbers again.
    """
    schema = func._schema
    if schema.is_mutable or not schema.returns:
        return True
    is_told = any(argument.name == "philox_seed" for argument in schema.arguments)
    return torch.Tag.nondeterministic_seeded in func.tags and not is_told


def emit_extern(c: Converter, call: Call) -> list[Node | None]:
    """The call as an extern node; one Node per result, None for results that are not tensors."""
    from .convert import type_of

    target = call.func
    types = [type_of(fake) if isinstance(fake, torch.Tensor) else None for fake in call.results]
    _correct(c, call, types)
    if is_view(target):
        return _emit_view(c, call, types)
    return _emit(c, call, target, types)


def _correct(c: Converter, call: Call, types: list[TensorType | None]) -> None:
    """Where fake tensors are wrong about a dtype: the running statistics keep theirs in half precision."""
    if call.func is torch.ops.aten._native_batch_norm_legit_functional.default:
        for i, statistic in ((3, call.args[3]), (4, call.args[4])):
            type = types[i]
            types[i] = type and type.like(dtype=c.value(statistic).tensor.dtype, strides=type.strides)


def _emit_view(c: Converter, call: Call, types: list[TensorType | None]) -> list[Node | None]:
    """The view's values by the form that copies, then in the view's strides."""
    call, target = _from_own_start(call, copying_form(call.func))
    packed = [t and t.like(strides=contiguous_strides(t.shape)) for t in types]
    nodes = _emit(c, call, target, packed)
    return [_laid_out(c, node, type) if node and type else node for node, type in zip(nodes, types, strict=True)]


def _from_own_start(call: Call, target: Any) -> tuple[Call, Any]:
    """For an `as_strided` that says where in memory it begins: the same, counted from where its operand begins."""
    if call.func is not torch.ops.aten.as_strided.default or len(call.args) < 4 or call.args[3] is None:
        return call, target
    x, size, stride, offset = call.args
    return replace(call, args=(x, size, stride, offset - x.storage_offset())), FromOwnStart(target)


def _laid_out(c: Converter, node: Node, type: TensorType) -> Node:
    """The node in other strides, by a kernel if there is one for the dtype. Where elements share an address in the
    view, they are one element of what it is a view of: whichever is written last, it is the same.

    ATen refuses to write to a dimension of stride 0, so those of other dtypes stay packed.
    """
    if type.dtype in KERNEL_DTYPES:
        return c.copy(node, type)
    if same_shape(node.tensor.strides, type.strides) or 0 in type.strides:
        return node
    attrs: dict[str, Any] = {"target": torch.ops.prims.copy_strided.default, "kwargs": {}, "keywords": ()}
    return c.builder.add("extern", (node, type.strides), type, **attrs)


_KEEPS_MORE = {"aten::mkldnn_rnn_layer": 3}
"""Operators of that kind, and the result that they then have."""


def _emit(c: Converter, call: Call, target: Any, types: list[TensorType | None]) -> list[Node | None]:
    extra = _KEEPS_MORE.get(target._schema.name)
    if extra is not None and id(call.results[extra]) in c.needed:
        target = Recording(target)
    if isinstance(call.result, (tuple, list)) and any(isinstance(item, (tuple, list)) for item in call.result):
        target = Flattened(target)
    args, kwargs, keywords = split_arguments(c, call)
    attrs: dict[str, Any] = {"target": target, "kwargs": kwargs, "keywords": keywords}
    if has_effect(call.func):
        attrs["effect"] = True
    elif not any(id(result) in c.needed for result in call.results):
        attrs["effect"] = "may refuse"
    if isinstance(call.result, torch.Tensor) and types[0] is not None:
        return [c.builder.add("extern", args, types[0], **attrs)]
    node = c.builder.add("extern", args, tuple(types), **attrs)
    return [
        c.builder.add("getitem", (node, i), type) if type is not None and id(fake) in c.needed else None
        for i, (type, fake) in enumerate(zip(types, call.results, strict=True))
    ]


def split_arguments(c: Converter, call: Call) -> tuple[tuple[Any, ...], dict[str, Any], tuple[str, ...]]:
    """Positional arguments with the Nodes of keyword arguments at their end, the other keywords, the Nodes' names."""
    args = tuple(map(c.value, call.args))
    keywords = tuple(name for name, value in call.kwargs.items() if tensors_in(value))
    kwargs = {name: c.value(value) for name, value in call.kwargs.items() if name not in keywords}
    return args + tuple(c.value(call.kwargs[name]) for name in keywords), kwargs, keywords


def is_view(func: Any) -> bool:
    """Whether a result of the operator may share memory with an argument that it does not write."""
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)


def copying_form(func: Any) -> Any:
    """`aten.diagonal_copy.default` for `aten.diagonal.default`. Raises LoweringError if there is none."""
    name = func._schema.name.split("::")[1]
    packet = getattr(torch.ops.aten, name + "_copy", None)
    form = getattr(packet, func._overloadname, None) if packet is not None else None
    if form is None:
        raise LoweringError(f"the view {func} has no form that copies")
    return form
