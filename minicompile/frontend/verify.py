"""Checking compiled graphs against eager: `compile(verify=True)`.

In: a backend. Out: the same backend, whose graphs run in eager as well on their first call, on copies of the inputs. A
difference beyond the dtype's tolerance raises VerificationError, which names the stage at fault and the first node that
differs (inspect/bisect.py); under `verify="warn"` it warns, and the graph runs in eager from then on. A graph that
draws random numbers is not compared: compiled code may draw them in another order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import VerificationError

Backend = Callable[..., Callable[..., Any]]


def verified(backend: Backend, *, warn: bool = False) -> Backend:
    """A backend that checks what `backend` makes. `warn`: after a difference the graph runs in eager."""

    def make(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return Verified(gm, backend(gm, example_inputs), warn)

    return make


class Verified:
    """A compiled graph that is compared with eager on its first call. Everything else is the compiled graph's."""

    def __init__(self, gm: torch.fx.GraphModule, compiled: Callable[..., Any], warn: bool = False) -> None:
        self.gm = gm
        self.compiled = compiled
        self.warn = warn
        self._is_checked = False
        self._run = compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compiled"], name)

    def call(self, *args: Any) -> Any:
        """Run; on the first call, compare results and written inputs."""
        if self._is_checked:
            return self._run(*args)
        self._is_checked = True
        untouched, copies = [_copy(arg) for arg in args], [_copy(arg) for arg in args]
        before = torch.get_rng_state()
        expected = self.gm.forward(*copies)
        is_random = not torch.equal(before, torch.get_rng_state())
        torch.set_rng_state(before)
        actual = self.compiled(*args)
        if is_random:
            return actual
        problem = _difference(actual, expected, "result") or _difference(args, copies, "input")
        if not problem:
            return actual
        problem += self._fault(untouched)
        if not self.warn:
            raise VerificationError(problem)
        warnings.warn(f"minicompile: {problem}\nThe graph runs in eager mode.", RuntimeWarning, stacklevel=2)
        self._run = self.gm.forward
        for arg, copy in zip(args, copies, strict=True):
            if isinstance(arg, torch.Tensor) and not _is_close(arg, copy):
                arg.detach().copy_(copy.detach())
        return expected

    def _fault(self, inputs: list[Any]) -> str:
        """What bisection says, as a line; nothing for a graph whose stages are not at hand."""
        from ..codegen.compiled import CompiledGraph
        from ..inspect.bisect import find_fault

        if not isinstance(self.compiled, CompiledGraph):
            return ""
        fault = find_fault(self.gm, self.compiled, inputs, _is_close)
        return f"\n{fault}" if fault is not None else "\nno stage differs from eager alone"

    __call__ = call


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    copy.copy_(value.detach())
    return copy.requires_grad_(value.requires_grad)


def _difference(actual: Sequence[Any], expected: Sequence[Any], what: str) -> str:
    """The first difference, in words; "" if there is none."""
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(other, torch.Tensor):
            try:
                torch.testing.assert_close(one, other, equal_nan=True, check_stride=what == "result")
            except AssertionError as error:
                return f"{what} {index} of a compiled graph differs from eager: {error}"
    return ""


def _is_close(one: Any, other: Any) -> bool:
    """Two tensors, by the dtype's tolerance; other results are not compared."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return True
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except AssertionError:
        return False
    return True
