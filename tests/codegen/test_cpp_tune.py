"""mode="max-autotune" on the CPU: every variant computes the same; the fastest is kept; tuning is not to be noticed."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.codegen import cpp_tune
from minicompile.codegen.cpp_tune import AS_EVER, VARIANTS, TunedKernel, fastest_turns
from minicompile.runtime.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

PROGRAMS = {
    "pointwise": (lambda x: torch.relu(x + 1) * 2 + torch.sigmoid(x), (70, 311)),
    "block functions": (lambda x: torch.tanh(x) + torch.erf(x).exp(), (70, 311)),
    "sine": (lambda x: torch.sin(x * 3e4), (70, 311)),
    "rows": (lambda x: x.softmax(-1), (33, 1000)),
    "norm": (lambda x: F.layer_norm(x, (311,)), (70, 311)),
    "columns": (lambda x: x.sum(0), (311, 200)),
    "everything": (lambda x: x.sum(), (300, 400)),
    "variance": (lambda x: x.var(1), (70, 311)),
    "transposed": (lambda x: x + x.T, (311, 311)),
    "scan": (lambda x: x.cumsum(1), (40, 600)),
    "maximum": (lambda x: x.argmax(1), (70, 311)),
    "gather": (lambda x: x[x.argmax(1) % 70], (70, 311)),
    "batch": (lambda x: [t.exp() for t in x.split(7)], (70, 311)),
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MINICOMPILE_CACHE_DIR", str(tmp_path))


def fastest_is(monkeypatch, name):
    """Have a variant be measured as the fastest."""
    number = list(cpp_tune.VARIANTS).index(name)
    calls = []

    def fake(kernels, args):
        calls.append(len(kernels))
        for kernel in kernels:
            kernel(*args)
        return [float(i != number) + 1 for i in range(len(kernels))]

    monkeypatch.setattr(cpp_tune, "fastest_turns", fake)
    return calls


def kernel_of(compiled):
    graph = compiled.entries[0].graphs[0].compiled
    return next(v for n, v in graph.call.__globals__.items() if n.startswith("kernel_")), graph


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_computes_what_eager_does(monkeypatch, program, variant):
    monkeypatch.setattr(cpp_tune, "VARIANTS", {AS_EVER: (), variant: VARIANTS[variant]})
    fastest_is(monkeypatch, variant)
    function, shape = PROGRAMS[program]
    x = torch.randn(shape)
    compiled = minicompile.compile(function, mode="max-autotune")
    wanted = function(x)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), wanted)
    kernel, _ = kernel_of(compiled)
    assert not isinstance(kernel, TunedKernel)


def test_the_winner_is_kept_on_disk_and_stands_in_the_wrapper(monkeypatch):
    calls = fastest_is(monkeypatch, "unrolled")
    x = torch.randn(100)
    for _ in range(2):
        compiled = minicompile.compile(lambda x: x.exp() + 1, mode="max-autotune")
        torch.testing.assert_close(compiled(x), x.exp() + 1)
        kernel, graph = kernel_of(compiled)
        placed = graph.objects[kernel.name]
        assert isinstance(placed, TunedKernel) and placed.chosen is kernel is not placed.plain
    assert calls == [len(VARIANTS)]


def test_a_variant_that_gains_nothing_is_not_taken(monkeypatch):
    monkeypatch.setattr(cpp_tune, "fastest_turns", lambda kernels, args: [1.0] + [0.98] * (len(kernels) - 1))
    compiled, x = minicompile.compile(lambda x: x.exp(), mode="max-autotune"), torch.randn(9)
    compiled(x)
    kernel, graph = kernel_of(compiled)
    assert kernel is graph.objects[kernel.name].plain


def test_without_the_mode_nothing_is_tuned():
    compiled, x = minicompile.compile(lambda x: x.exp()), torch.randn(9)
    compiled(x)
    assert not isinstance(kernel_of(compiled)[1].objects[kernel_of(compiled)[0].name], TunedKernel)


def test_a_flag_that_the_compiler_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(cpp_tune, "VARIANTS", {AS_EVER: (), "nonsense": ("-fno-such-flag-at-all",)})
    seen = []
    monkeypatch.setattr(cpp_tune, "fastest_turns", lambda kernels, args: seen.append(len(kernels)) or [1.0])
    compiled, x = minicompile.compile(lambda x: x.exp(), mode="max-autotune"), torch.randn(9)
    torch.testing.assert_close(compiled(x), x.exp())
    assert seen == [1]


def test_what_is_written_in_place_is_written_once():
    def step(p, g, m):
        m.mul_(0.9).add_(g)
        p.sub_(m, alpha=0.1)

    given = [torch.randn(500) for _ in range(3)]
    ours, eagers = ([t.clone() for t in given] for _ in range(2))
    minicompile.compile(step, mode="max-autotune")(*ours)
    step(*eagers)
    torch.testing.assert_close(ours, eagers)


@pytest.mark.parametrize("shape", ["expanded", "overlapping", "one memory"])
def test_arguments_that_cannot_be_copied_are_no_obstacle(shape):
    base = torch.randn(64)
    x, y = {
        "expanded": lambda: (base[:1].expand(64), base),
        "overlapping": lambda: (base.as_strided((60,), (1,)), base.as_strided((30, 2), (1, 1)).reshape(60)),
        "one memory": lambda: (base[:32], base.view(2, 32)),
    }[shape]()
    compiled = minicompile.compile(lambda x, y: (x * 2 + y).exp(), mode="max-autotune")
    torch.testing.assert_close(compiled(x, y), (x * 2 + y).exp())


def test_two_arguments_of_one_memory_are_not_tuned():
    base = torch.randn(64)
    with pytest.raises(RuntimeError, match="share memory"):
        cpp_tune._copied([base[:32], base])
    one, other = cpp_tune._copied([base, base])
    assert one is other and one is not base and torch.equal(one, base)


def test_an_index_out_of_range_is_refused_as_ever():
    compiled = minicompile.compile(lambda x, i: x[i] * 2, mode="max-autotune")
    with pytest.raises(IndexError):
        compiled(torch.randn(4), torch.tensor([1, 9]))
    assert torch.equal(compiled(x := torch.randn(4), torch.tensor([1, 3])), x[[1, 3]] * 2)


def test_varying_sizes_are_tuned_for_the_first():
    compiled = minicompile.compile(lambda x: (x * 2).softmax(-1), mode="max-autotune", dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 40)
        torch.testing.assert_close(compiled(x), (x * 2).softmax(-1))


def test_threads_tune_once(monkeypatch):
    calls = fastest_is(monkeypatch, "unrolled")
    compiled, x = minicompile.compile(lambda x: x.exp() * 3, mode="max-autotune"), torch.randn(100)
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and all(torch.equal(result, results[0]) for result in results) and len(results) == 4


def test_turns_are_taken():
    order = []
    times = fastest_turns([lambda x: order.append("a"), lambda x: order.append("b")], [None])
    assert len(times) == 2 and all(0 < spent < 1 for spent in times)
    switches = sum(one != other for one, other in zip(order, order[1:], strict=False))
    assert switches >= 2 * cpp_tune.ROUNDS
