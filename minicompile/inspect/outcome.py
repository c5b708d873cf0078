"""What a captured graph does when it is called: results, inputs afterwards, gradients; and whether two calls agree.

In: something with the graph's signature, and inputs, which are copied. Out: an `Outcome`; `Expected`, eager's outcome,
judges another one.

Two ways to add up the same numbers differ in the last bits, and the more there are the more. What is not equal within
the dtype's tolerance is therefore compared with float64 as well: as near to it as eager is near enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

AS_NEAR_AS_EAGER = 4.0
"""How many times farther from float64 than eager a result may be."""


@dataclass(frozen=True)
class Outcome:
    """Of one call: each list has a place for everything; what is no tensor stays as it is, no gradient is None.

    Attributes:
        recorded: whether each result requires a gradient.
    """

    results: list[Any]
    inputs: list[Any]
    recorded: list[bool]
    gradients: list[Any] = field(default_factory=list)

    @staticmethod
    def of(results: Sequence[Any], inputs: Sequence[Any], gradients: Sequence[Any] = ()) -> Outcome:
        recorded = [bool(getattr(result, "requires_grad", False)) for result in results]
        return Outcome([*map(_detached, results)], [*map(_detached, inputs)], recorded, list(gradients))

    def parts(self) -> list[tuple[str, Any]]:
        """Everything, with a name for people."""
        named = (("result", self.results), ("input", self.inputs), ("gradient of input", self.gradients))
        return [(f"{what} {number}", value) for what, values in named for number, value in enumerate(values)]


def outcome(call: Callable[..., Sequence[Any]], inputs: Sequence[Any], *, gradients: bool = False) -> Outcome:
    """Call with copies of the inputs; with `gradients`, backward as well, from the same tangents every time."""
    given, leaves = fresh(inputs)
    histories = [getattr(value, "grad_fn", None) for value in given]
    results = list(call(*given))
    found: list[Any] = []
    if gradients:
        changed = [g for g, before in zip(given, histories, strict=True) if getattr(g, "grad_fn", None) is not before]
        found = _gradients([*results, *changed], leaves)
    return Outcome.of(results, given, found)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _gradients(ends: list[Any], leaves: list[Any]) -> list[Any]:
    ends = [end for end in ends if isinstance(end, torch.Tensor) and end.requires_grad]
    wanted = [leaf for leaf in leaves if leaf is not None]
    if not ends or not wanted:
        return []
    given = [tangent(end) for end in ends]
    found = iter(torch.autograd.grad(ends, wanted, given, allow_unused=True))
    return [None if leaf is None else next(found) for leaf in leaves]


def tangent(like: torch.Tensor) -> torch.Tensor:
    """A gradient to start backward from: no two neighbours alike, and no random numbers drawn."""
    numbers = torch.arange(like.numel(), device=like.device) % 11 - 4
    return (numbers.to(like.dtype) / 8).reshape(like.shape)


# ---- copies ----


def copied(values: Sequence[Any]) -> list[Any]:
    """Copies of tensors, laid out alike; gradients are not asked of them."""
    return [_copy(value.detach()) if isinstance(value, torch.Tensor) else value for value in values]


def leaf_like(value: Any) -> Any:
    """A copy that requires a gradient if the value does."""
    (copy,) = copied([value])
    return copy.requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else copy


def fresh(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Copies that a graph may write to, and for each that requires a gradient the leaf it is made of."""
    given, leaves = [], []
    for value in values:
        if isinstance(value, torch.Tensor) and value.requires_grad and not torch.is_inference_mode_enabled():
            leaf = (_memory(value.detach()) if _is_plain(value) else value.detach()).clone().requires_grad_()
            with torch.enable_grad():
                given.append(_shown(leaf.clone(), value) if _is_plain(value) else leaf.clone())
            leaves.append(leaf)
        else:
            given.append(_copy(value) if isinstance(value, torch.Tensor) else value)
            leaves.append(None)
    return given, leaves


def _copy(value: torch.Tensor) -> torch.Tensor:
    return _shown(_memory(value).clone(), value) if _is_plain(value) else value.clone()


def _memory(value: torch.Tensor) -> torch.Tensor:
    """All memory that a strided tensor reaches, in one dimension."""
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.as_strided((reach + 1 if value.numel() else 0,), (1,))


def _shown(memory: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return memory.as_strided(like.shape, like.stride(), 0)


def _is_plain(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not value.is_conj() and not value.is_neg()


# ---- judging ----


class Expected:
    """Eager's outcome, and how to tell whether another one is the same."""

    def __init__(self, eager: Callable[..., Sequence[Any]], inputs: Sequence[Any], *, gradients: bool = False) -> None:
        self.eager, self.inputs, self.has_gradients = eager, inputs, gradients
        self.outcome = outcome(eager, inputs, gradients=gradients)

    @cached_property
    def exact(self) -> Outcome | None:
        """The same in float64; None where the graph does not run so."""
        wide = [_widened(value) for value in self.inputs]
        try:
            return outcome(self.eager, wide, gradients=self.has_gradients)
        except Exception:  # a graph may name a dtype, or call what has no float64
            return None

    def problem(self, found: Outcome) -> str:
        """The first difference, in words; "" if there is none. Gradients count where both have them."""
        for number, ((what, one), (_, other)) in enumerate(zip(found.parts(), self.outcome.parts(), strict=False)):
            error = difference(one, other) or (_strides_differ(one, other) if what.startswith("result") else "")
            if error and not self._is_rounding(number, one, other):
                return f"{what} of a compiled graph differs from eager: {error}"
        for number, pair in enumerate(zip(found.recorded, self.outcome.recorded, strict=True)):
            if pair[0] != pair[1]:
                return f"result {number} of a compiled graph requires {('no', 'a')[pair[0]]} gradient, unlike eager's"
        return ""

    def _is_rounding(self, number: int, one: Any, other: Any) -> bool:
        if not isinstance(one, torch.Tensor) or _strides_differ(one, other) or self.exact is None:
            return False
        return _as_near(one, other, self.exact.parts()[number][1])


def difference(one: Any, other: Any) -> str:
    """How two values differ beyond their dtype's tolerance; what eager returns that is no tensor is not compared."""
    if other is None or not isinstance(other, torch.Tensor):
        return "" if not isinstance(one, torch.Tensor) else "a tensor where eager has none"
    if not isinstance(one, torch.Tensor):
        return f"{one!r} where eager has a tensor"
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


def _strides_differ(one: Any, other: Any) -> str:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.layout is not torch.strided:
        return ""
    return "" if one.stride() == other.stride() else f"strides {one.stride()}, eager has {other.stride()}"


def _as_near(one: torch.Tensor, other: torch.Tensor, exact: Any) -> bool:
    """Whether `one` is about as near to float64's result as eager's is."""
    from .accuracy import max_error

    if not isinstance(exact, torch.Tensor) or not (one.is_floating_point() or one.is_complex()):
        return False
    if one.shape != other.shape or one.dtype != other.dtype or exact.shape != other.shape:
        return False
    finite = exact[exact.isfinite()]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    least = torch.finfo(one.dtype).eps * scale
    return max_error(one, exact) <= AS_NEAR_AS_EAGER * max(max_error(other, exact), least)


def _widened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


class RandomState:
    """Where torch's generators stand."""

    def __init__(self) -> None:
        self.states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]

    def has_moved(self) -> bool:
        """Whether numbers were drawn since."""
        now = RandomState().states
        return len(now) != len(self.states) or not all(map(torch.equal, now, self.states))

    def restore(self) -> None:
        torch.set_rng_state(self.states[0])
        if len(self.states) > 1:
            torch.cuda.set_rng_state_all(self.states[1:])
