"""Both doors, and a backend that counts.

Every test that asks for `door` runs twice: through the frame hook, and through the wrapper that stands in for it.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import minicompile
from minicompile.config import config
from minicompile.frontend import hook
from tests.support import assert_same


@pytest.fixture(params=["hook", "wrapper"])
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "wrapper":
        monkeypatch.setattr(hook, "available", lambda: False)
    elif not hook.available():
        pytest.skip(f"no hook: {hook.unavailable_reason()}")
    return request.param


@pytest.fixture(autouse=True)
def strict() -> Any:
    """A failure of the frontend itself is a failure of the test, not a fallback."""
    with config.patch(strict=True):
        yield


@dataclass
class Counting:
    """A backend that runs graphs as they are and keeps them."""

    graphs: list[torch.fx.GraphModule] = field(default_factory=list)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


@pytest.fixture
def backend() -> Counting:
    return Counting()


@dataclass
class Outcome:
    """What a call did: result, printed text, arguments afterwards."""

    result: Any
    printed: str
    arguments: tuple[Any, ...]


def run(fn: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Call with copies of the arguments."""
    copies = copy.deepcopy(args)
    out = io.StringIO()
    with redirect_stdout(out):
        result = fn(*copies)
    return Outcome(result, out.getvalue(), copies)


def assert_like_eager(
    fn: Callable[..., Any], *calls: tuple[Any, ...], graphs: int | None = None, eager: bool = False, **options: Any
) -> Any:
    """Compiled and eager agree on result, printed text and mutated arguments, for every call and once more.

    `graphs`: how many graphs that takes. `eager`: frames may run in eager; else none may.
    Returns the compiled function.
    """
    backend = Counting()
    compiled = minicompile.compile(fn, backend=backend, **options)
    for args in (*calls, *calls):
        expected, actual = run(fn, args), run(compiled, args)
        assert_same(actual.result, expected.result)
        assert actual.printed == expected.printed
        assert_same(actual.arguments, expected.arguments)
    if graphs is not None:
        assert len(backend.graphs) == graphs, [str(record) for record in compiled.breaks]
    reasons = [entry.eager for entry in compiled.entries if entry.eager]
    assert eager or not reasons, reasons
    return compiled
