"""Python floats that vary from call to call: constants at first, inputs of the graph from the second value on."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import minicompile
from minicompile.codegen.compiled import CompiledGraph
from minicompile.config import config
from minicompile.frontend.segments import Segment
from tests.support import assert_same

VALUES = (0.1, 0.25, 0.7, 1.5, 1e-30, 3.0)

OPEN = {
    "operators": lambda x, v: (x * v, v - x, x / v, v / x, x.abs() ** v, v**x, x + v, x % v, x // v),
    "comparison": lambda x, v: (x > v, x == v, torch.where(x > 0, x, v), x.masked_fill(x > v, v), x.clamp(-v, v)),
    "keywords": lambda x, v: (torch.add(x, x, alpha=v), torch.addcmul(x, x, x, value=-v), x.lerp(x * 2, v)),
    "matmul": lambda x, v: torch.addmm(x, x @ x.t(), x, beta=v, alpha=v * 2),
    "activations": lambda x, v: (F.leaky_relu(x, v), F.elu(x, v), F.hardtanh(x, -1.0, v), F.softplus(x, v)),
    "creation": lambda x, v: (torch.full((3,), v), torch.full((2,), v * 10, dtype=torch.int64), x.new_full((2,), v)),
    "in place": lambda x, v: x.clone().mul_(v).add_(x, alpha=-v).fill_(v),
    "item assignment": lambda x, v: (y := x.clone(), y.__setitem__(0, v))[0],
    "reductions": lambda x, v: ((x * v).sum(-1) + v, F.softmax(x / v, -1), torch.linalg.vector_norm(x, v)),
    "dtypes": lambda x, v: (x.double() * v, x.bfloat16() * v, torch.arange(5) * v, torch.arange(5) > v),
    "lists of tensors": lambda x, v: torch._foreach_mul([x, x + 1], v),
    "Python arithmetic": lambda x, v: x * (v * 2 + 1) ** 2 / (1 - v / 10) - v % 0.3 + v // 0.2 - -v,
    "math": lambda x, v: x * math.sqrt(v) + math.exp(-v) * math.log(v + 1) + math.pi * v,
    "branch": lambda x, v: x * v if v > 0 else x - v,
    "truth": lambda x, v: x * v if v and v is not None and isinstance(v, float) else x,
    "results": lambda x, v: (v, v + 1, -v, abs(v), round(v, 1), [v] * 2, {"v": v}, float(v), v * x.shape[0]),
    "text": lambda x, v: (f"lr={v:.3f} {v} {v!r:>8}|{v * 2}", str(v), "v: " + repr(v), x * v),
    "int": lambda x, v: x * v + int(v / 100) + math.floor(-v / 100) + round(v / 100),
}


@pytest.fixture(autouse=True)
def compiled_code_runs(monkeypatch):
    """A graph that fails is run by eager, which would be right as well; here it would hide the fault."""

    def failed(self, func, error, slots, was_mutated):
        raise AssertionError("the graph failed") from error

    monkeypatch.setattr(Segment, "failed", failed)


@pytest.mark.parametrize("name", OPEN)
def test_two_entries_serve_all_values(name):
    fn = OPEN[name]
    compiled = minicompile.compile(fn)
    x = torch.arange(-3.0, 5.0).reshape(2, 4) / 3 + 0.1
    for value in VALUES:
        assert_same(compiled(x, value), fn(x, value))
    assert len(compiled.entries) == 2, compiled.recompiles
    graphs = compiled.entries[-1].graphs
    assert all(isinstance(graph.compiled, CompiledGraph) for graph in graphs)


FIXED = {
    "dropout": lambda x, v: F.dropout(x, v / 10),
    "epsilon": lambda x, v: F.layer_norm(x, (4,), eps=v),
    "sizes of it": lambda x, v: torch.arange(0, v, 0.01),
    "key": lambda x, v: {v: 1}[v] * x,
    "int": lambda x, v: x * int(v * 10),
    "branches": lambda x, v: x * v if v > 0.5 else x - v if v > 0.2 else x,
    "max": lambda x, v: x * max(v, 0.3) + min(v, 0.2),
    "is a whole number": lambda x, v: x * v if v.is_integer() else x - v,
    "constructor": lambda x, v: x * torch.tensor(v),
}


@pytest.mark.parametrize("name", FIXED)
def test_what_needs_the_number_is_right_for_each(name):
    fn = FIXED[name]
    compiled = minicompile.compile(fn)
    x = torch.ones(2, 4)
    for value in (0.1, 0.25, 0.7, 0.7, 0.1, 2.0, 0.26):
        torch.manual_seed(0)
        expected = fn(x, value)
        torch.manual_seed(0)
        with config.patch(fallback_random=True):
            assert_same(compiled(x, value), expected)


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1, True, 5e-324, 1.7e308])
def test_odd_values_behind_an_open_one(value):
    def fn(x, v):
        return x * v, math.copysign(1.0, v), v * 10

    compiled = minicompile.compile(fn)
    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    for each in (0.5, 0.25, value, 0.75, value):
        actual, expected = compiled(x, each), fn(x, each)
        assert_same(actual[:2], expected[:2])
        assert repr(actual[2]) == repr(expected[2])


def test_errors_of_the_arithmetic_are_eagers():
    fn = minicompile.compile(lambda x, v: x * (1 / v) + math.log(v))
    x = torch.ones(3)
    for value in (0.5, 0.25, 2.0):
        fn(x, value)
    with pytest.raises(ZeroDivisionError):
        fn(x, 0.0)
    with pytest.raises(ValueError, match="math domain|positive"):
        fn(x, -1.0)
    assert torch.equal(fn(x, 0.5), x * 2 + math.log(0.5))


def test_fractions_of_symbolic_sizes_stay_open():
    def fn(x):
        n = x.shape[0]
        return x * (1 / n) / math.sqrt(n), x[: int(n * 0.5)], x[: math.ceil(n / 2)], f"{n}: {n / 2:.2f}", n * 0.5 - 1.0

    compiled = minicompile.compile(fn)
    for n in (3, 4, 5, 8, 11):
        x = torch.randn(n, 3)
        assert_same(compiled(x), fn(x))
    assert len(compiled.entries) == 2, compiled.recompiles


def test_attributes_items_globals_and_closures(monkeypatch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.temperature, self.options = nn.Linear(3, 3), 1.0, {"scale": 1.0}

        def forward(self, x):
            return torch.softmax(self.linear(x) / self.temperature, -1) * self.options["scale"] * SCALE + offset

    net, offset = Net(), 0.0
    compiled = minicompile.compile(net)
    for step in range(4):
        net.temperature, net.options["scale"], offset = 1.0 - 0.1 * step, 1.0 + step, step / 2
        monkeypatch.setitem(globals(), "SCALE", 2.0 + step)
        x = torch.randn(2, 3)
        assert_same(compiled(x), net(x))
    assert len(compiled.entries) == 2, compiled.recompiles


SCALE = 1.0


def test_training_with_open_floats():
    def loss(x, w, v):
        return ((x @ w * v).relu() ** 2).mean() * v + (w * v).sum() / v

    compiled = minicompile.compile(loss)
    for value in VALUES:
        x, w = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
        other = w.detach().clone().requires_grad_()
        loss(x, w, value).backward()
        compiled(x, other, value).backward()
        assert_same(other.grad, w.grad)
    assert len(compiled.entries) == 2, compiled.recompiles


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.1),
], ids=["SGD", "AdamW"])  # fmt: skip
def test_a_learning_rate_that_a_schedule_changes(make):
    first, second = ([nn.Parameter(torch.ones(3) * i) for i in (1, 2)] for _ in range(2))
    eager, other = make(first), make(second)
    step = minicompile.compile(other.step)
    counts = []
    for i in range(8):
        for parameter in (*first, *second):
            parameter.grad = torch.full((3,), 0.5 + i)
        for optimizer in (eager, other):
            optimizer.param_groups[0]["lr"] = 0.1 * 0.9**i
        eager.step()
        step()
        counts.append(len(step.entries))
        assert_same([p.detach() for p in second], [p.detach() for p in first])
    assert counts[-1] == counts[2], step.recompiles


def test_static_means_constants():
    compiled = minicompile.compile(lambda x, v: x * v, dynamic=False)
    for value in (0.1, 0.2, 0.3):
        compiled(torch.ones(2), value)
    assert len(compiled.entries) == 3


def test_the_same_values_as_torch_compile():
    """torch.compile with specialize_float off has the float as an input as well."""
    def fn(x, v):
        return torch.softmax(x * v, -1) + v * 2

    with torch._dynamo.config.patch(specialize_float=False):
        theirs, ours = torch.compile(fn, backend="eager"), minicompile.compile(fn)
        for value in VALUES:
            x = torch.randn(2, 3)
            torch.testing.assert_close(ours(x, value), theirs(x, value))
    assert len(ours.entries) == 2


def test_triton_gets_all_bits():
    text = """
import torch, minicompile
from minicompile.codegen.triton_launch import Launcher
calls = []
original = Launcher.__call__
Launcher.__call__ = lambda self, *args: (calls.append(args), original(self, *args))[1]
compiled = minicompile.compile(lambda x, v: x * v + 0.5, backend="triton")
x = torch.tensor([1.0, 3.0, 7.0], dtype=torch.float64)
for value in (0.1, 0.2, 0.3, -0.0, 1e-300, 123456789.123456789):
    assert torch.equal(compiled(x, value), x * value + 0.5), value
assert len(compiled.entries) == 2 and len(calls) >= 5, (compiled.recompiles, len(calls))
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_kernels_launched_by_ctypes_get_all_bits(monkeypatch):
    from minicompile.runtime import launch

    monkeypatch.setattr(launch, "_native", None)
    compiled = minicompile.compile(lambda x, v: x * v)
    x = torch.tensor([1.0, 3.0], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.1, 0.2, 1 / 3, -0.0):
            assert torch.equal(compiled(x, value), x * value)
