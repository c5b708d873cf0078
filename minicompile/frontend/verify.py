"""Checking compiled graphs against eager: `compile(verify=True)`.

In: a backend. Out: the same backend, whose graphs run in eager as well on their first call, on copies of the inputs; a
difference beyond the dtype's tolerance raises VerificationError. A graph that draws random numbers is not compared:
compiled code may draw them in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import VerificationError

Backend = Callable[..., Callable[..., Any]]


def verified(backend: Backend) -> Backend:
    """A backend that checks what `backend` makes."""

    def make(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return Verified(gm, backend(gm, example_inputs))

    return make


class Verified:
    """A compiled graph that is compared with eager on its first call. Everything else is the compiled graph's."""

    def __init__(self, gm: torch.fx.GraphModule, compiled: Callable[..., Any]) -> None:
        self.gm = gm
        self.compiled = compiled
        self._is_checked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compiled"], name)

    def call(self, *args: Any) -> Any:
        """Run; on the first call, compare results and written inputs."""
        if self._is_checked:
            return self.compiled(*args)
        self._is_checked = True
        copies = [_copy(arg) for arg in args]
        before = torch.get_rng_state()
        expected = self.gm.forward(*copies)
        is_random = not torch.equal(before, torch.get_rng_state())
        torch.set_rng_state(before)
        actual = self.compiled(*args)
        if not is_random:
            _compare(actual, expected, "result")
            _compare(args, copies, "input")
        return actual

    __call__ = call


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    copy.copy_(value.detach())
    return copy.requires_grad_(value.requires_grad)


def _compare(actual: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(other, torch.Tensor):
            try:
                torch.testing.assert_close(one, other, equal_nan=True, check_stride=what == "result")
            except AssertionError as error:
                raise VerificationError(f"{what} {index} of a compiled graph differs from eager: {error}") from None
