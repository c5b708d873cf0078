"""`torch.compile(fn, backend="minicompile")`: found by entry point, right in inference, training and dynamic shapes."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from minicompile.examples.programs import PROGRAMS
from tests.support import assert_same

SCORERS = ["InformationScorer", "QueryContentScorer", "SalienceScorer"]


@pytest.mark.parametrize("name", [*SCORERS, "TransformerBlock"])
def test_inference(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    with torch.no_grad():
        assert_same(torch.compile(fn, backend="minicompile")(*args), fn(*args))


@pytest.mark.parametrize("name", SCORERS)
def test_dynamic_batch_is_one_compilation(name: str) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    fn, args = PROGRAMS[name].make("cpu")
    counter = CompileCounterWithBackend("minicompile")
    compiled = torch.compile(fn, backend=counter, dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5, 8):
            inputs = tuple(arg[:batch] for arg in args)
            assert_same(compiled(*inputs), fn(*inputs))
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", SCORERS)
def test_gradient(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    gradients = []
    for call in (torch.compile(fn, backend="minicompile"), fn):
        leaves = [arg[:2].clone().requires_grad_() for arg in args]
        call(*leaves).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    assert_same(*gradients)


def with_dropout(x: Tensor) -> Tensor:
    return dropout(x.sin(), 0.5).cos()


def with_two_draws(x: Tensor) -> Tensor:
    return dropout(x, 0.5) * torch.rand_like(x).sin()


@pytest.mark.parametrize("inner", [with_dropout, with_two_draws])
def test_random_numbers_that_backward_draws_again(inner: Callable[[Tensor], Tensor]) -> None:
    """The partitioner saves the generator's state in forward and starts from it in backward; eager's numbers, then."""

    def fn(x: Tensor) -> Tensor:
        return (checkpoint(inner, x, use_reentrant=False) * 2).exp()

    results = []
    for call in (torch.compile(fn, backend="minicompile"), fn):
        torch.manual_seed(3)
        x = torch.linspace(-1, 1, 600).reshape(20, 30).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a graph that falls back to eager warns
            y = call(x)
            y.sum().backward()
        results.append((y, x.grad, torch.rand(1)))
    assert_same(*results)


def test_found_without_import() -> None:
    script = """
import sys, torch
assert "minicompile" in torch.compiler.list_backends()
out = torch.compile(lambda x: torch.relu(x + 1), backend="minicompile")(torch.ones(8))
assert torch.equal(out, torch.full((8,), 2.0)), out
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unknown_option_is_named() -> None:
    """In a process of its own: Dynamo 2.13 leaves its frame evaluator installed after a backend has raised."""
    script = """
import torch
torch.compile(torch.relu, backend="minicompile", options={"speed": 11})(torch.ones(2))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search("unknown option 'speed'; known options: .*exact_rounding", done.stderr), done.stderr


DATA = {
    "a float": lambda x, m: (x * x.sum().item(), x.sum().item(), x.clamp(max=x[0, 0].item())),
    "an int": lambda x, m: (x * m.sum().item(), m.sum().item() + 1),
    "a size": lambda x, m: (x[m] * 2, m.nonzero() + 1),
}


@pytest.mark.parametrize("name", DATA)
def test_numbers_that_depend_on_data_run_as_captured(name: str) -> None:
    import torch._dynamo.config as theirs

    torch._dynamo.reset()
    fn = DATA[name]
    with theirs.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(fn, backend="minicompile", fullgraph=True)
        for count in (3, 0, 1):
            x, m = torch.randn(4, 2), torch.arange(4) < count
            torch.testing.assert_close(compiled(x, m), fn(x, m))
