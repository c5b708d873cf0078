"""Passes that put several calls into one of ATen's: text in, text out, and the same values."""

from __future__ import annotations

import warnings

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.codegen import compile_ir
from minicompile.ir import reference
from minicompile.ir.graph import Graph

from ..lowering.support import externs, lowered

MM, BMM = "aten.mm.default", "aten.bmm.default"
ADDMM, SDPA = "aten.addmm.default", "aten.scaled_dot_product_attention.default"


def optimised(function, *inputs: torch.Tensor) -> Graph:
    """The optimised graph, which computes what the function does, also compiled."""
    graph = passes.run(lowered(function, *inputs))
    wanted = function(*inputs)
    for result in (reference.run(graph, *inputs)[0], compile_ir(graph, backend="cpp")(*inputs)[0]):
        torch.testing.assert_close(result, wanted, check_stride=True)
    return graph


# --- addmm ----------------------------------------------------------------------------------------------------------


def test_a_product_and_itself_are_one_product():
    x = torch.randn(5, 6)
    assert externs(optimised(lambda x: x @ x.T + x @ x.T, x)) == [MM]


@pytest.mark.parametrize("shape", [(7,), (5, 7), (1, 7), (5, 1), ()], ids=str)
def test_a_product_and_a_sum_are_one_call(shape):
    x, w, b = torch.randn(5, 6), torch.randn(6, 7), torch.randn(shape)
    assert externs(optimised(lambda x, w, b: x @ w + b, x, w, b)) == [ADDMM]
    assert externs(optimised(lambda x, w, b: b + x @ w, x, w, b)) == [ADDMM]


KEPT_APART = {
    "a kernel reads the sum": lambda x, w, b: (x @ w + b).relu(),
    "the product is read twice": lambda x, w, b: (p := x @ w) + b * p.sum(),
    "a scalar": lambda x, w, b: x @ w + 1,
}


@pytest.mark.parametrize("name", KEPT_APART)
def test_products_that_stay(name):
    x, w, b = torch.randn(5, 6), torch.randn(6, 7), torch.randn(7)
    assert externs(optimised(KEPT_APART[name], x, w, b)) == [MM]


def test_half_precision_stays():
    x, w, b = (torch.randn(shape).bfloat16() for shape in ((5, 6), (6, 7), (7,)))
    assert externs(optimised(lambda x, w, b: x @ w + b, x, w, b)) == [MM]


# --- biases ---------------------------------------------------------------------------------------------------------

LINEAR = torch.nn.functional.linear


@pytest.mark.parametrize("name, function, calls", [
    ("a kernel", lambda x, w, b: LINEAR(x, w, b).relu(), [MM]),
    ("two kernels", lambda x, w, b: (y := LINEAR(x, w, b)).relu() + y.sum(1, keepdim=True), [MM]),
    ("a kernel behind views", lambda x, w, b: LINEAR(x.view(2, 3, 6), w, b).softmax(-1), [MM]),
    ("nobody", lambda x, w, b: LINEAR(x, w, b), [ADDMM]),
    ("a kernel and the caller", lambda x, w, b: (LINEAR(x, w, b), LINEAR(x, w, b).relu()), [ADDMM]),
    ("a kernel and a product", lambda x, w, b: (y := LINEAR(x, w, b)).relu() @ y.T, [ADDMM, MM]),
    ("factors", lambda x, w, b: torch.addmm(b, x, w.T, beta=2).relu(), [ADDMM]),
    ("a matrix", lambda x, w, b: torch.addmm(x[:, :1] * 2, x, w.T).relu(), [ADDMM]),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_biases_are_added_by_whoever_reads_the_sum(name, function, calls):
    x, w, b = torch.randn(6, 6), torch.randn(7, 6), torch.randn(7)
    graph = passes.run(lowered(function, x, w, b))
    assert externs(graph) == calls, name
    wanted = function(x, w, b)
    for results in (reference.run(graph, x, w, b), compile_ir(graph, backend="cpp")(x, w, b)):
        for one, other in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(one, other, check_stride=True)


# --- attention ------------------------------------------------------------------------------------------------------

ATTENTION = {
    "by a root": lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v,
    "by a factor": lambda q, k, v: torch.softmax(0.1 * (q @ k.mT), -1) @ v,
    "scaled before": lambda q, k, v: torch.softmax((q * 0.125) @ k.mT, -1) @ v,
    "unscaled": lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v,
}


@pytest.mark.parametrize("shape", [(2, 3, 80, 16), (3, 80, 16)], ids=str)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_by_hand(name, shape):
    q, k, v = (torch.randn(shape) for _ in range(3))
    assert externs(optimised(ATTENTION[name], q, k, v)) == [SDPA]


def test_attention_between_two_lengths_and_layouts():
    q, k, v = torch.randn(2, 80, 3, 16).transpose(1, 2), torch.randn(2, 3, 70, 16), torch.randn(2, 3, 70, 24)
    assert SDPA in externs(optimised(ATTENTION["by a root"], q, k, v))


NOT_ATTENTION = {
    "a mask": lambda q, k, v: torch.softmax(q @ k.mT + torch.zeros(80, 80), -1) @ v,
    "another dimension": lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
    "the weights are a result": lambda q, k, v: ((w := torch.softmax(q @ k.mT, -1)) @ v) + w.sum(),
    "no softmax": lambda q, k, v: (q @ k.mT).exp() @ v,
}


@pytest.mark.parametrize("name", NOT_ATTENTION)
def test_what_only_looks_like_attention(name):
    q, k, v = (torch.randn(3, 80, 16) / 4 for _ in range(3))
    assert externs(optimised(NOT_ATTENTION[name], q, k, v)) == [BMM, BMM]


def test_small_attention_stays_in_kernels():
    q, k, v = (torch.randn(3, 8, 16) for _ in range(3))
    assert externs(optimised(ATTENTION["unscaled"], q, k, v)) == [BMM, BMM]


def test_attention_over_a_cache_of_any_length():
    compiled = minicompile.compile(ATTENTION["unscaled"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a pass that fails
        for length in (70, 80, 90):
            q, k, v = torch.randn(1, 1, 16), torch.randn(1, length, 16), torch.randn(1, length, 16)
            torch.testing.assert_close(compiled(q, k, v), ATTENTION["unscaled"](q, k, v))
