"""Conversion: recorded ATen calls become IR nodes.

In: a `Trace`.
Out: an `ir.Graph`.

Calls that nothing needs are left out. Of the others each is tried in this order: its rule (rules_*.py), torch's own
decomposition if all of its calls have rules (decompose.py), an extern call. Whatever made it, a result carries the type
that the fake tensor says eager would have given, strides included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..config import config
from ..ir.graph import BufferView, Graph, GraphBuilder, InputView, Node
from ..ir.ops import VIEWS
from ..ir.retyped import offset_between
from ..ir.symbols import is_size_of_input, is_static, same_dim, to_dim, to_dims
from ..ir.types import SizeType, TensorType
from ..nests import tensors_in
from ..shape_env import symbol_hint
from .decompose import decompose
from .emit import KERNEL_DTYPES, Emitter, same_shape, scalar_as
from .errors import LoweringError, NotConvertible
from .exact import may_compute
from .extern import emit_extern, has_effect
from .refusing_operators import may_refuse
from .rules import RULES
from .trace import Call, InputAlias, SharedValue, Trace


class Converter(Emitter):
    """One conversion. Rules see it as `c`.

    Attributes:
        out: the type that the current call's (first) result has to have.
        outs: the types of all its results, None where a result is no tensor.
        fakes, results: the current call's arguments and results as recorded.
    """

    out: TensorType
    outs: list[TensorType | None]
    fakes: tuple[Any, ...]
    results: tuple[Any, ...]

    def __init__(self, trace: Trace, name: str) -> None:
        super().__init__(GraphBuilder(name))
        self.trace = trace
        self.values: dict[int, Any] = {}
        self.needed: set[int] = set()

    def run(self, names: Sequence[str]) -> Graph:
        """The whole graph; `names` are for the inputs."""
        for value, name in zip(self.trace.inputs, names, strict=True):
            self._add_input(value, name)
        for call in live_calls(self.trace, self.needed):
            self.builder.origin = call.origin
            self.place(call)
        self.builder.origin = None
        writes = [(index, self.value(fake)) for index, fake in self.trace.writes]
        return self.builder.finish(self._outputs(), writes, size_hints(self.trace.inputs))

    def _add_input(self, value: Any, name: str) -> None:
        if isinstance(value, torch.Tensor):
            self.values[id(value)] = self.builder.input(type_of(value), name)
        else:
            self.builder.input(SizeType(to_dim(value)), name)

    def _outputs(self) -> list[Any]:
        shared: dict[int, BufferView] = {}
        return [self._output(out, shared) for out in self.trace.outputs]

    def _output(self, out: Any, shared: dict[int, BufferView]) -> Any:
        if isinstance(out, InputAlias):
            return InputView(out.input, type_of(out.value), to_dim(out.offset), out.whole, out.lazy, out.detached)
        if isinstance(out, SharedValue):
            if out.key not in shared:
                offset = to_dim(offset_between(out.value, out.base))
                shared[out.key] = BufferView(self.value(out.base), type_of(out.value), offset, out.lazy)
            return shared[out.key]
        return self.value(out)

    # --- one call -------------------------------------------------------------------------------------------------

    def place(self, call: Call) -> None:
        """Convert one call and bind its results."""
        for fake in tensors_in((call.args, call.kwargs)):
            self.value(fake)  # a constant stays, also where the rule gives up
        if not (has_effect(call.func) or is_read(call, self.needed)):
            emit_extern(self, call)  # it is made for what it may refuse
            return
        saved = len(self.builder.nodes)
        try:
            results = self.by_rule(call)
        except NotConvertible:
            del self.builder.nodes[saved:]
            if decompose(self, call):
                return
            results = emit_extern(self, call)
        for fake, node in zip(call.results, results, strict=True):
            if isinstance(fake, torch.Tensor) and node is not None:
                self.values[id(fake)] = node

    def by_rule(self, call: Call) -> list[Any]:
        """The results by the call's own rule. Raises NotConvertible."""
        rule = RULES.get(call.func)
        if rule is None:
            raise NotConvertible(f"no rule for {call.func}")
        if config.exact and not may_compute(call):
            raise NotConvertible(f"{call.func} is ATen's, for its very bits")
        self.outs = [type_of(fake) if isinstance(fake, torch.Tensor) else None for fake in call.results]
        self._check_kernel_can(call)
        empty = self._empty_result()
        if empty is not None:
            return [empty]
        start = len(self.builder.nodes)
        self.fakes, self.results = call.args, call.results
        results = rule(self, *map(self.value, call.args), **{k: self.value(v) for k, v in call.kwargs.items()})
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        return [self._typed(node, out, start) for node, out in zip(results, self.outs, strict=True)]

    def _check_kernel_can(self, call: Call) -> None:
        """All tensors of one device, strided, in dtypes that kernels know; the first result is always a tensor."""
        first = self.outs[0] if self.outs else None
        if first is None:
            raise NotConvertible("no tensor result")
        self.out = first
        devices = {first.device}
        for fake in (*tensors_in(call.args), *tensors_in(call.kwargs), *tensors_in(call.results)):
            if fake.dtype not in KERNEL_DTYPES:
                raise NotConvertible(f"no kernel computes {fake.dtype}")
            devices.add(fake.device)
        if len(devices) > 1:
            raise NotConvertible("tensors of several devices")

    def _empty_result(self) -> Node | None:
        """A result without elements needs no computation, whatever the call was."""
        if len(self.outs) == 1 and any(is_static(size) and size == 0 for size in self.out.shape):
            return self.builder.add("full", (scalar_as(0, self.out.dtype),), self.out)
        return None

    def _typed(self, node: Node | None, type: TensorType | None, start: int) -> Node | None:
        """The node with eager's type: retyped if it was made last and by this rule, else copied into the strides."""
        if node is None or type is None:
            return None
        if node.tensor.dtype is not type.dtype or not same_shape_by_guard(node.tensor.shape, type.shape):
            raise LoweringError(f"a rule made {node.type} where eager has {type}, in {node.op}")
        if same_shape(node.tensor.strides, type.strides) and same_shape(node.tensor.shape, type.shape):
            return node
        if len(self.builder.nodes) > start and self.builder.nodes[-1] is node and may_restride(node):
            node = replace(node, type=type)
            self.builder.nodes[-1] = node
            return node
        if node.op in VIEWS and same_places(type, node.tensor):
            return self.builder.add(node.op, node.args, type, **node.attrs)
        return self.copy(node, type)

    # --- values ---------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> Any:
        """What a recorded argument is in the IR: a Node, a Dim, a scalar, a tuple of these."""
        if isinstance(value, torch.Tensor):
            node = self.values.get(id(value))
            return self.constant(value) if node is None else node
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return to_dim(value)
        if isinstance(value, torch.SymBool):
            return bool(value)
        if isinstance(value, (tuple, list)):
            return tuple(map(self.value, value))
        return value

    def constant(self, fake: torch.Tensor) -> Node:
        """A tensor that no call made: one whose contents were known to tracing."""
        from torch._subclasses.fake_tensor import FakeTensor

        known = self.trace.constants.get(id(fake), getattr(fake, "constant", None))
        if known is None and not isinstance(fake, FakeTensor):
            known = fake
        if known is None:
            raise LoweringError(f"the graph reads a tensor {tuple(fake.shape)} that is neither an input nor made in it")
        type = type_of(known)
        if known.dim() == 0 and known.dtype in KERNEL_DTYPES and known.device.type == "cpu":
            node = self.builder.add("full", (known.item(),), type)
        else:
            node = self.builder.add("constant", (), type, value=known.detach())
        self.values[id(fake)] = node
        return node

    def is_negative(self, dim: Any) -> bool:
        """Whether a number is below zero; for a symbolic one a guard says so from here on. Raises NotConvertible for
        one that depends on data."""
        if is_static(dim):
            return bool(dim < 0)
        if not all(map(is_size_of_input, dim.free_symbols)):
            raise NotConvertible("a number that depends on data, and may be negative")
        return bool(shape_env(self.trace.inputs).evaluate_expr(dim < 0))

    def lies_by(self, strides: Sequence[Any]) -> None:
        """The current call's first result lies by these strides: the fake tensor is known to be wrong about them."""
        self.outs[0] = self.out = replace(self.out, strides=tuple(strides))

    def is_used(self, index: int) -> bool:
        """Whether anybody reads the current call's result number `index`."""
        return id(self.results[index]) in self.needed


def may_restride(node: Node) -> bool:
    """A computed value can be laid out at will; views and inputs lie where they lie, but a reshape may copy."""
    return node.op not in ("input", "constant", "permute", "expand", "slice")


def same_places(one: TensorType, other: TensorType) -> bool:
    """Whether two strides put the elements in the same places; those of dimensions of size 1 do not count."""
    triples = zip(one.shape, one.strides, other.strides, strict=True)
    return all(same_dim(size, 1) or same_dim(a, b) for size, a, b in triples)


def same_shape_by_guard(left: Any, right: Any) -> bool:
    """Equal shapes, where symbolic sizes may be equal by a guard of the trace."""
    return len(left) == len(right) and all(
        a == b or not (is_static(a) and is_static(b)) for a, b in zip(left, right, strict=True)
    )


def type_of(tensor: torch.Tensor) -> TensorType:
    """The IR type of a (fake) tensor. Raises LoweringError for layouts without strides."""
    if tensor.layout is not torch.strided:
        raise LoweringError(f"a tensor of layout {tensor.layout} has no place in the IR")
    return TensorType(tensor.dtype, to_dims(tensor.shape), to_dims(tensor.stride()), tensor.device)


def live_calls(trace: Trace, needed: set[int]) -> list[Call]:
    """The calls that outputs, writes and effects need, and those that may raise where eager does, in order; `needed`
    receives the ids of the tensors needed."""
    for out in trace.outputs:
        needed.update(map(id, tensors_in(out.base if isinstance(out, SharedValue) else out)))
    needed.update(id(fake) for _, fake in trace.writes)
    live = []
    for place, call in reversed(list(enumerate(trace.calls))):
        if has_effect(call.func) or is_read(call, needed) or (place < trace.own and may_refuse(call)):
            needed.update(map(id, tensors_in(call.args)))
            needed.update(map(id, tensors_in(call.kwargs)))
            live.append(call)
    return live[::-1]


def is_read(call: Call, needed: set[int]) -> bool:
    """Whether anything needs what a call gives."""
    return any(id(result) in needed for result in call.results)


def shape_env(inputs: Sequence[Any]) -> Any:
    """Where the symbols of the inputs' sizes come from."""
    sizes = (size for value in inputs for size in (value.shape if isinstance(value, torch.Tensor) else (value,)))
    return next(size.node.shape_env for size in sizes if isinstance(size, (torch.SymInt, torch.SymFloat)))


UNKNOWN = 128
"""What heuristics take a size for that depends on data."""


def size_hints(inputs: Sequence[Any]) -> dict[str, Any]:
    """Symbol → its value while tracing, from the sizes of the inputs and the numbers among them."""
    hints: dict[str, Any] = {}
    for value in inputs:
        sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            if isinstance(size, (torch.SymInt, torch.SymFloat)):
                _add_hints(size.node, hints)
    return hints


def _add_hints(node: Any, hints: dict[str, Any]) -> None:
    for symbol in node.expr.free_symbols:
        value = symbol_hint(node.shape_env, symbol)
        hints[symbol.name] = UNKNOWN if value is None else value
