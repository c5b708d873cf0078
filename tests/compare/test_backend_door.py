"""`torch.compile(fn, backend="minicompile")`: found by entry point, right in inference, training and dynamic shapes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

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
