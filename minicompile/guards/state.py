"""The guard on torch's own state: what changes the meaning of an operation without being an operand.

In: nothing; the state of this thread, and of the process, is read when the guard is made.
Out: one guard per entry. Its check is a single C call for most of it (`torch_state.Snapshot`, 0.23 µs), plus what that
call leaves out: inference mode and functorch transforms, forward-mode differentiation, the two stacks of modes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.autograd import forward_ad

from ..frontend.sources import Source
from .kinds import Frame, Guard, Scope
from .torch_state import Snapshot, function_modes, same_function_modes, why_untraceable

_WORDS = {
    "grad_mode": "grad mode",
    "torch_function": "whether __torch_function__ is disabled",
    "deterministic_algorithms": "torch.use_deterministic_algorithms",
    "deterministic_algorithms_warn_only": "warn_only of torch.use_deterministic_algorithms",
    "allow_tf32": "float32 matmul precision",
    "allow_fp16_reduce": "reduced-precision reduction in fp16 matmul",
    "allow_bf16_reduce": "reduced-precision reduction in bf16 matmul",
    "num_threads": "the number of threads",
    "default_dtype": "the default dtype",
}


@dataclass(frozen=True)
class GlobalStateGuard(Guard):
    """Torch's state as it was when this object was made: make it before tracing touches any of it."""

    snapshot: Snapshot = field(compare=False, repr=False, default_factory=Snapshot)
    function_modes: tuple[Any, ...] = field(default_factory=lambda: function_modes())
    grad: bool = field(default_factory=torch.is_grad_enabled)
    inference: bool = field(default_factory=torch.is_inference_mode_enabled)
    dispatch_modes: int = field(default_factory=lambda: torch._C._len_torch_dispatch_stack())
    functorch_level: int | None = field(default_factory=lambda: torch._C._functorch.maybe_current_level())
    forward_level: int = field(default_factory=lambda: forward_ad._current_level)
    rank: ClassVar[int] = 30

    def sources(self) -> tuple[Source, ...]:
        return ()

    def condition(self, scope: Scope) -> str:
        """Everything. Where a tensor check follows, `condition_beside_tensors` will do."""
        return f"{self.condition_beside_tensors(scope)} and {self._thread_condition(scope)}"

    def condition_beside_tensors(self, scope: Scope, modes_are_counted: bool = False) -> str:
        """Without inference mode and functorch: the tensor check's dispatch keys tell these.

        `modes_are_counted`: that check compares how many modes are active, as well.
        """
        keep = scope.keep
        parts = [f"({keep(self.snapshot.check)}() or {keep(self.snapshot.holds_but_for_threads)}())"]
        parts.append(f"{keep(forward_ad)}._current_level == {self.forward_level}")
        if self.function_modes:
            parts.append(f"{keep(same_function_modes)}({keep(self.function_modes)})")
        elif not modes_are_counted:
            parts.append(f"{keep(torch._C._len_torch_function_stack)}() == 0")
        if not modes_are_counted:
            parts.append(f"{keep(torch._C._len_torch_dispatch_stack)}() == {self.dispatch_modes}")
        return " and ".join(parts)

    def _thread_condition(self, scope: Scope) -> str:
        inference = f"{scope.keep(torch.is_inference_mode_enabled)}() is {self.inference}"
        level = f"{scope.keep(torch._C._functorch.maybe_current_level)}()"
        return f"{inference} and {level} {'is' if self.functorch_level is None else '=='} {self.functorch_level}"

    def miss(self, frame: Frame) -> str | None:
        reasons = [_words(word, self) for word in self.snapshot.reason().split() if word != "num_threads"]
        if not self.snapshot.function_flag_holds() and not reasons:
            reasons.append("whether __torch_function__ is disabled changed")
        if self.inference != torch.is_inference_mode_enabled():
            reasons.append(f"inference mode is {_on(not self.inference)}, compiled for {_on(self.inference)}")
        if not same_function_modes(self.function_modes):
            reasons.append("the active torch function modes (torch.set_default_device among them) changed")
        if self.dispatch_modes != torch._C._len_torch_dispatch_stack():
            reasons.append("the active torch dispatch modes changed")
        if self.functorch_level != torch._C._functorch.maybe_current_level():
            reasons.append("the call is under other torch.func transforms (vmap, grad) than compiled for")
        if self.forward_level != forward_ad._current_level:
            reasons.append("the call is under another level of forward-mode differentiation than compiled for")
        return "; ".join(reasons) or None

    def __str__(self) -> str:
        return f"torch's global state: grad mode {_on(self.grad)}, autocast, default dtype, modes as when compiled"


def _words(word: str, guard: GlobalStateGuard) -> str:
    if word == "grad_mode":
        return f"grad mode is {_on(not guard.grad)}, compiled for {_on(guard.grad)}"
    return f"{_WORDS.get(word, word.replace('_', ' '))} changed"


def _on(flag: bool) -> str:
    return "on" if flag else "off"


@dataclass(frozen=True)
class UntraceableGuard(Guard):
    """Something of the kind is so; whatever else is, the call runs in eager."""

    rank: ClassVar[int] = 30

    def condition(self, scope: Scope) -> str:
        return f"{scope.keep(why_untraceable)}() is not None"

    def miss(self, frame: Frame) -> str | None:
        return "no torch mode or transform is active, compiled for one" if why_untraceable() is None else None

    def __str__(self) -> str:
        return "a torch mode or transform is active"
