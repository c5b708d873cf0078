"""What a call does around the functional pair: which results are handed out as they are, which as views, and which
are written back into inputs.

In: the functional wrappers of inputs and outputs after a run with gradients recorded.
Out: a `CallPlan` (see ir/call_plan.py), and the results that the pair itself has to produce.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..ir.call_plan import CallPlan, Own, View, Whole, Write
from ..ir.retyped import lazy_bit, offset_between
from ..ir.symbols import same_dim, to_dim, to_dims
from ..ir.types import TensorType
from ..torch_compat import storage_id
from .errors import LoweringError
from .functional import is_functional, same_strides
from .trace import Trace


class Result(NamedTuple):
    """One result of the pair: its value (a fake tensor), its functional wrapper (None for a constant)."""

    value: torch.Tensor
    wrapper: Any
    differentiable: bool


def make_plan(
    trace: Trace, wrappers: list[Any], edges: dict[int, Any], constants: dict[str, Any], outputs: list[Any]
) -> tuple[CallPlan, list[Result]]:
    """Sort outputs and mutated inputs; writes that autograd need not see go to `trace.writes`.

    Raises LoweringError where autograd's view of the aliases cannot be rebuilt.
    """
    return _Planner(trace, wrappers, edges, constants).run(outputs)


class _Planner:
    def __init__(self, trace: Trace, wrappers: list[Any], edges: dict[int, Any], constants: dict[str, Any]) -> None:
        self.trace = trace
        self.wrappers = wrappers
        self.edges = edges
        self.constants = constants
        self.results: list[Result] = []
        self._numbers: dict[int, int] = {}  # id of wrapper → number of its result

    def run(self, outputs: list[Any]) -> tuple[CallPlan, list[Result]]:
        self._check_constants()
        writes = [w for w in map(self._write, range(len(self.wrappers))) if w is not None]
        inputs = {storage_id(w): i for i, w in reversed(list(enumerate(self.wrappers))) if is_functional(w)}
        bases = self._bases(outputs, inputs)
        planned = tuple(self._output(out, inputs, bases) for out in outputs)
        return CallPlan(planned, tuple(writes)), self.results

    def _check_constants(self) -> None:
        for name, wrapper in self.constants.items():
            if is_functional(wrapper) and id(torch._from_functional_tensor(wrapper)) not in self.trace.constants:
                raise LoweringError(f"the constant {name} of the graph is mutated")

    # --- results ----------------------------------------------------------------------------------------------------

    def _result(self, wrapper: Any, differentiable: bool) -> int:
        """The number of the result that a wrapper is."""
        number = self._numbers.get(id(wrapper))
        if number is None:
            number = self._numbers[id(wrapper)] = len(self.results)
            torch._sync(wrapper)
            if differentiable and wrapper.grad_fn is None:
                raise LoweringError("a result is a leaf that was made to require a gradient inside the graph")
            self.results.append(Result(torch._from_functional_tensor(wrapper), wrapper, differentiable))
        return number

    # --- writes -----------------------------------------------------------------------------------------------------

    def _write(self, index: int) -> Write | None:
        wrapper, value = self.wrappers[index], self.trace.inputs[index]
        if not is_functional(wrapper):
            return None
        if wrapper.shape != value.shape or not same_strides(wrapper, value):
            raise LoweringError(f"input {index} has its shape or strides changed in place")
        self._check_history(index, wrapper)
        final = torch._from_functional_tensor(wrapper)
        if final is value:
            return None
        if not wrapper.requires_grad:
            self.trace.writes.append((index, final))
            return None
        recorded = index not in self.edges or wrapper.grad_fn is not self.edges[index].node
        if recorded:
            return Write(index, self._result(wrapper, True), True)
        self.results.append(Result(final, wrapper, False))
        return Write(index, len(self.results) - 1, False)

    def _check_history(self, index: int, wrapper: Any) -> None:
        if wrapper.requires_grad and wrapper.grad_fn is None:
            raise LoweringError(f"input {index} is made to require a gradient inside the graph")
        if index in self.edges and not wrapper.requires_grad:
            raise LoweringError(f"input {index} is detached in place")

    # --- outputs ----------------------------------------------------------------------------------------------------

    def _bases(self, outputs: list[Any], inputs: dict[int, int]) -> dict[int, Any]:
        """Storage → the wrapper that all outputs in it are made views of, where there are several, or none is of its
        own for autograd."""
        groups: dict[int, list[Any]] = {}
        for out in {id(out): out for out in outputs if is_functional(out)}.values():
            if storage_id(out) not in inputs:
                groups.setdefault(storage_id(out), []).append(out)
        return {storage: _base_of(group) for storage, group in groups.items()
                if len(group) > 1 or is_unrecorded(group[0])}  # fmt: skip

    def _output(self, out: Any, inputs: dict[int, int], bases: dict[int, Any]) -> Any:
        if not isinstance(out, torch.Tensor):
            return to_dim(out) if isinstance(out, (torch.SymInt, torch.SymFloat)) else out
        if not torch._is_functional_tensor(out):
            return self._constant(out)
        index = inputs.get(storage_id(out))
        if index is not None:
            return self._alias(index, out)
        base = bases.get(storage_id(out))
        if base is None or base is out:
            return Own(self._result(out, out.requires_grad))
        return self._view(out, base, False, self._result(base, base.requires_grad))

    def _constant(self, out: torch.Tensor) -> Own:
        if id(out) not in self.trace.constants:
            self.trace.constants[id(out)] = out
            self.trace.alive.append(out)
        self.results.append(Result(out, None, False))
        return Own(len(self.results) - 1)

    def _alias(self, index: int, out: Any) -> Whole | View:
        whole = next((i for i, wrapper in enumerate(self.wrappers) if wrapper is out), None)
        return Whole(whole) if whole is not None else self._view(out, self.wrappers[index], True, index)

    def _view(self, out: Any, base: Any, of_input: bool, index: int) -> View:
        lazy = lazy_bit(out, base)
        if lazy is None:
            raise LoweringError("an output is a view with lazy bits of several kinds")
        if not is_plain_view(out, base):
            raise LoweringError("an output shares memory with a tensor that it does not depend on as a plain view")
        offset = to_dim(offset_between(out, base))
        if not of_input and not _is_inside(out, base):
            raise LoweringError("outputs share memory that none of them covers")
        if of_input and out.requires_grad and not is_unrecorded(out) and _repeats(self.trace.inputs[index]):
            raise LoweringError("an output is a view of an expanded input, whose elements' gradients differ")
        detached, retyped = base.requires_grad and not out.requires_grad, out.dtype is not base.dtype
        type_, unrecorded = _type_of(out), is_unrecorded(out)
        return View(of_input, index, type_, offset, detached, id(out), retyped, lazy, unrecorded)


def _type_of(out: torch.Tensor) -> TensorType:
    from .convert import type_of

    return type_of(torch._from_functional_tensor(out))


def _base_of(group: list[Any]) -> Any:
    """The tensor that all of a group are views of; one that requires a gradient, if any does."""
    candidates = [out._base if out._is_view() else out for out in group]
    recorded = {id(base): base for base in candidates if base.requires_grad}
    if len(recorded) > 1:
        raise LoweringError("two outputs share memory but not their history")
    whole = sorted(candidates, key=lambda base: not base.requires_grad)
    return whole[0]


def is_plain_view(out: Any, base: Any) -> bool:
    """Whether autograd knows `out` as nothing but a view of `base`, or does not know it at all.

    A custom function that returns a view of its argument has a backward of its own, which a view made anew would lack.
    """
    if not out.requires_grad or is_unrecorded(out):
        return True
    node, end = out.grad_fn, base.grad_fn
    while node is not None and node is not end:
        is_custom = isinstance(node, torch.autograd.function.BackwardCFunction)
        if is_custom or len(node.next_functions) != 1:
            return False
        node = node.next_functions[0][0]
    return node is not None


def is_unrecorded(out: Any) -> bool:
    """Whether it is a view of what requires a gradient, made where none is recorded: a leaf that requires one."""
    if not (out.requires_grad and out._is_view()):
        return False
    try:
        return bool(out.is_leaf)
    except RuntimeError:  # autograd refuses to say what it is, now that its base has been written to
        return True


def _repeats(value: torch.Tensor) -> bool:
    """Whether elements share an address: `as_strided` cannot tell which of them a view shows, and would give each the
    mean of their gradients."""
    places = zip(to_dims(value.shape), to_dims(value.stride()), strict=True)
    return any(same_dim(stride, 0) and not same_dim(size, 1) for size, stride in places)


def _is_inside(out: Any, base: Any) -> bool:
    """Whether a view lies in a dense base; unknown (symbolic) ones that autograd made as views do."""
    start = offset_between(out, base)
    reach = start + sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True))
    if isinstance(reach, int) and isinstance(base.numel(), int):
        ends_at, size = (reach + 1) * out.element_size(), max(base.numel(), 1) * base.element_size()
        return start >= 0 and (out.numel() == 0 or ends_at <= size)
    return bool(out._is_view() and out._base is base)
