"""Random numbers in kernels: right in distribution, new with each call, repeatable by torch.manual_seed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile import passes
from minicompile.config import config
from minicompile.ir.philox import philox

from .support import lowered

N = 40_000
F32, F64, F16, BF16, I64, U8 = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8


def known_philox(key: int, counter: int) -> int:
    """The algorithm on Python's integers, as its paper has it."""
    low = 2**32 - 1
    k, c = [key & low, key >> 32 & low], [counter & low, counter >> 32 & low, 0, 0]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & low, p >> 32 ^ c[3] ^ k[1], p & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c[1] << 32 | c[0]


def test_the_reference_is_philox() -> None:
    """The first words of its authors' own test vector, and the same algorithm written another way."""
    assert known_philox(0, 0) == 0xE169C58D_6627E8D5
    keys, counters = torch.randint(-(2**63), 2**63 - 1, (2, 50))
    for key, counter, bits in zip(keys.tolist(), counters.tolist(), philox(keys, counters).tolist(), strict=True):
        assert known_philox(key, counter) == bits % 2**64


def ones(dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.ones(N, dtype=dtype)


UNIFORM = {
    "rand": lambda: torch.rand(N), "rand f64": lambda: torch.rand(N, dtype=F64),
    "rand f16": lambda: torch.rand(N, dtype=F16), "rand bf16": lambda: torch.rand(N, dtype=BF16),
    "rand_like": lambda: torch.rand_like(ones(F64), dtype=F32),
    "uniform_": lambda: ones().uniform_(-3, 5).add(3).div(8), "rand of a plane": lambda: torch.rand(N // 40, 40),
    "cauchy_": lambda: ones(F64).cauchy_(2, 3).sub(2).div(3).atan().div(math.pi).add(0.5),
    "exponential_": lambda: ones(F64).exponential_(2.5).mul(-2.5).exp(),
}  # fmt: skip
NORMAL = {
    "randn": lambda: torch.randn(N), "randn f64": lambda: torch.randn(N, dtype=F64),
    "randn bf16": lambda: torch.randn(N, dtype=BF16), "randn_like": lambda: torch.randn_like(ones(F16)),
    "normal_": lambda: ones().normal_(5, 0.5).sub(5).mul(2),
    "log_normal_": lambda: ones(F64).log_normal_(1, 2).log().sub(1).div(2),
}  # fmt: skip
DISCRETE: dict[str, tuple[Callable[[], torch.Tensor], dict[float, float]]] = {
    "bernoulli": (lambda: torch.bernoulli(ones(), 0.3), {1: 0.3, 0: 0.7}),
    "bernoulli_": (lambda: torch.empty(N, dtype=torch.bool).bernoulli_(0.9), {1: 0.9, 0: 0.1}),
    "never": (lambda: torch.bernoulli(ones(I64), 0.0), {0: 1.0}),
    "always": (lambda: torch.bernoulli(ones(), 1.0), {1: 1.0}),
    "dropout": (lambda: F.dropout(ones(), 0.25), {0: 0.25, ones()[:1].div(0.75).item(): 0.75}),
    "native_dropout": (lambda: torch.native_dropout(ones(F16) * 3, 0.5, True)[0], {0: 0.5, 6: 0.5}),
    "its mask": (lambda: torch.native_dropout(ones(), 0.25, True)[1], {0: 0.25, 1: 0.75}),
    "randint": (lambda: torch.randint(-1, 3, (N,)), {-1: 0.25, 0: 0.25, 1: 0.25, 2: 0.25}),
    "randint_like": (lambda: torch.randint_like(ones(U8), 2), {0: 0.5, 1: 0.5}),
    "one integer": (lambda: torch.randint_like(ones(F32), 7, 8), {7: 1.0}),
    "dropout2d": (lambda: F.dropout2d(torch.ones(N, 1, 1, 1), 0.5)[:, 0, 0, 0], {0: 0.5, 2: 0.5}),
}  # fmt: skip


def drawn(function: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The numbers, as computed by kernels alone."""
    compiled = minicompile.compile(function, fullgraph=True)
    with config.patch(strict=True):
        result = compiled()
    (record,) = [graph for entry in compiled.entries for graph in entry.graphs]
    assert set(record.compiled.externs) == {"aten.randint.low"}
    expected = function()
    assert (result.dtype, result.shape, result.stride()) == (expected.dtype, expected.shape, expected.stride())
    return result.flatten()


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_numbers(name: str) -> None:
    """Kolmogorov and Smirnov's distance, moments, and no neighbours that know of each other."""
    x = drawn(UNIFORM[name])
    if not name.startswith(("exp", "cauchy")):
        assert 0 <= x.min() and x.max() < 1, "1 is never among them"
    x = x.double()
    digits = {BF16: 8, F16: 11}.get(UNIFORM[name]().dtype, 24)
    distance = (x.sort().values - torch.arange(N) / N).abs().max()
    assert distance < 2 / math.sqrt(N) + 2.0**-digits
    assert abs(x.var() - 1 / 12) < 0.003 and abs(torch.corrcoef(torch.stack([x[1:], x[:-1]]))[0, 1]) < 0.03


@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers(name: str) -> None:
    x = drawn(NORMAL[name]).double()
    assert x.isfinite().all() and x.abs().max() < 7
    assert abs(x.mean()) < 0.03 and abs(x.var() - 1) < 0.05
    for edge in (-2, -1, 0, 0.5, 1.5):
        share = 0.5 * (1 + math.erf(edge / math.sqrt(2)))
        assert abs((x < edge).double().mean() + (x == edge).double().mean() / 2 - share) < 0.015


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_numbers(name: str) -> None:
    function, shares = DISCRETE[name]
    x = drawn(function).double()
    assert set(x.unique().tolist()) == {float(torch.tensor(value, dtype=function().dtype)) for value in shares}
    for value, share in shares.items():
        assert abs(torch.isclose(x, torch.tensor(float(value), dtype=F64)).double().mean() - share) < 0.015


@pytest.mark.parametrize("low,high", [(-(2**62), 2**62), (0, 2**31), (-5, 2**32), (2**40, 2**40 + 3)])
def test_wide_ranges_of_integers(low: int, high: int) -> None:
    x = drawn(lambda: torch.randint(low, high, (N,)))
    assert low <= x.min() and x.max() < high
    assert abs(((x - low) >= (high - low) // 2).double().mean() - math.ceil((high - low) / 2) / (high - low)) < 0.015


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.rand_like(x), torch.rand_like(x), torch.randn(x.shape), F.dropout(x, 0.5), torch.rand(3, x.shape[1])


def test_calls_differ_and_a_seed_repeats_them() -> None:
    compiled = minicompile.compile(several, fullgraph=True)
    x = torch.ones(8, 32)
    torch.manual_seed(5)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(5)
    again = compiled(x)
    other = minicompile.compile(several, fullgraph=True)
    torch.manual_seed(5)
    elsewhere = other(x)
    for i, numbers in enumerate(first):
        assert torch.equal(numbers, again[i]) and torch.equal(numbers, elsewhere[i])
        assert not torch.equal(numbers, second[i])
    assert (first[0] != first[1]).sum() > 250, "two operators of one graph draw other numbers"


def test_one_call_draws_all_keys_of_a_graph() -> None:
    graph = passes.run(lowered(several, torch.ones(8, 32)))
    (draw,) = [node for node in graph.nodes if node.op == "extern"]
    assert draw.tensor.shape == (5,) and [n.op for n in graph.nodes].count("philox") == 5


def test_a_graph_without_random_numbers_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    minicompile.compile(lambda x: F.dropout(x, 0.5, training=False) + 1)(torch.ones(4))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("make", [
    lambda x, g: torch.rand(4, generator=g), lambda x, g: x.clone().normal_(generator=g),
    lambda x, g: torch.randperm(9), lambda x, g: torch.bernoulli(x / 2), lambda x, g: torch.multinomial(x, 2),
    lambda x, g: torch.randn(3, dtype=torch.complex64), lambda x, g: torch.empty(5).random_(),
    lambda x, g: torch.normal(x, 2.0),
])  # fmt: skip
def test_the_others_are_atens(make: Any) -> None:
    x = torch.ones(4)
    compiled = minicompile.compile(make)
    torch.manual_seed(1)
    expected = make(x, torch.Generator().manual_seed(2))
    torch.manual_seed(1)
    assert torch.equal(compiled(x, torch.Generator().manual_seed(2)), expected)


@pytest.mark.parametrize("options", [{"fallback_random": True}, {"exact": True}], ids=str)
def test_eagers_own_stream(options: dict[str, bool]) -> None:
    x = torch.ones(8, 32)
    with config.patch(**options):
        compiled = minicompile.compile(several)
        torch.manual_seed(3)
        actual = compiled(x)
    torch.manual_seed(3)
    assert all(map(torch.equal, actual, several(x)))


def test_sizes_that_vary() -> None:
    compiled = minicompile.compile(
        lambda x: torch.rand_like(x) + torch.randn(x.shape[0], 1) * 0, dynamic=True, fullgraph=True
    )
    for rows in (3, 700, 5, 0):
        x = compiled(torch.ones(rows, 100))
        assert x.shape == (rows, 100) and x.unique().numel() >= 0.98 * rows * 100
    assert len(compiled.entries) <= 2


def test_layouts_do_not_matter() -> None:
    """The numbers belong to elements, not to places in memory."""
    plain = torch.zeros(2, 3, 4, 5)
    results = []
    for x in (plain, plain.to(memory_format=torch.channels_last), plain.transpose(1, 3).contiguous().transpose(1, 3)):
        torch.manual_seed(0)
        results.append(minicompile.compile(lambda x: torch.rand_like(x))(x))
        assert results[-1].stride() == torch.rand_like(x).stride()
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_threads_draw_from_one_generator() -> None:
    compiled = minicompile.compile(lambda x: torch.rand_like(x))
    x = torch.ones(64)
    compiled(x)
    found: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: found.extend(compiled(x) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.stack(found).unique(dim=0).shape[0] == 80
