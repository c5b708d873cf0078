"""Checking compiled graphs against eager: `compile(verify=True)`.

In: a backend. Out: the same backend, whose graphs run in eager as well on their first call, on copies of the inputs:
results, what was written to inputs, and where gradients are recorded the gradients of all inputs. A difference beyond
rounding raises VerificationError, which names the stage at fault and the first node that differs (inspect/bisect.py);
under `verify="warn"` it warns, and the graph runs in eager from then on. A graph that draws random numbers is not
compared: compiled code may draw them in another order.

That the captured graph is the function is checked as well, once an entry: see inspect/captured.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import VerificationError

if TYPE_CHECKING:
    from ..inspect.outcome import Expected

Backend = Callable[..., Callable[..., Any]]


def verified(backend: Backend, *, warn: bool = False) -> Backend:
    """A backend that checks what `backend` makes. `warn`: after a difference the graph runs in eager."""

    def make(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return Verified(gm, backend(gm, example_inputs), warn)

    make.__name__ = getattr(backend, "__name__", type(backend).__name__)
    return make


def checked_run(warn: bool) -> Callable[..., Any]:
    """How a context that verifies runs a new entry."""

    def run(segment: Any, entry: Any, func: Any, slots: tuple[Any, ...]) -> Any:
        from ..inspect.captured import first_run

        return first_run(segment, entry, func, slots, warn=warn)

    return run


class Verified:
    """A compiled graph that is compared with eager on its first call. Everything else is the compiled graph's.

    Attributes:
        inputs: copies of those of the first call, for the check of the capture, which takes them.
    """

    def __init__(self, gm: torch.fx.GraphModule, compiled: Callable[..., Any], warn: bool = False) -> None:
        self.gm = gm
        self.compiled = compiled
        self.warn = warn
        self.inputs: list[Any] | None = None
        self._is_checked = False
        self._run = compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compiled"], name)

    @property
    def halves(self) -> list[Any]:
        return getattr(self.compiled, "halves", [self.compiled])

    def call(self, *args: Any) -> Any:
        """Run; on the first call, compare."""
        if self._is_checked:
            return self._run(*args)
        self._is_checked = True
        return self._first_call(args)

    __call__ = call

    def _first_call(self, args: tuple[Any, ...]) -> Any:
        """On copies first, so that nothing has happened if they differ; then for real, where memory may be shared."""
        from ..inspect.outcome import Expected, Outcome, RandomState, leaf_like, outcome

        self.inputs = untouched = [leaf_like(arg) for arg in args]
        gradients = torch.is_grad_enabled() and any(getattr(arg, "requires_grad", False) for arg in args)
        before = RandomState()
        expected = Expected(self.gm.forward, untouched, gradients=gradients)
        if before.has_moved():
            before.restore()
            return self.compiled(*args)
        problem = expected.problem(outcome(self.compiled, untouched, gradients=gradients))
        if not problem:
            actual = self.compiled(*args)
            problem = expected.problem(Outcome.of(actual, args))
        if not problem:
            return actual
        self._report(problem, expected)
        _restore(args, untouched)
        self._run = self.gm.forward
        return self._run(*args)

    def _report(self, problem: str, expected: Expected) -> None:
        from ..inspect.bisect import find_fault

        fault = find_fault(self.gm, self.compiled, expected)
        text = f"{problem}\n{fault or 'no stage differs from eager alone'}"
        if not self.warn:
            raise VerificationError(text)
        warnings.warn(f"minicompile: {text}\nThe graph runs in eager mode.", RuntimeWarning, stacklevel=2)


def _restore(args: Sequence[Any], before: Sequence[Any]) -> None:
    """Inputs that a wrong graph has written to."""
    for arg, value in zip(args, before, strict=True):
        if isinstance(arg, torch.Tensor) and not torch.equal(arg, value):
            with torch.no_grad():
                arg.copy_(value.detach())
