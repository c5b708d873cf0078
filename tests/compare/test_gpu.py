"""Whole functions on a real GPU: modes, training, streams, odd addresses. Skipped where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import minicompile
from minicompile.examples.programs import PROGRAMS
from minicompile.runtime.cuda_graphs import GraphedCall

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

MODES = ["default", "reduce-overhead", "max-autotune-no-cudagraphs"]


def randn(*shape: int, **how: Any) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", **how)


def close(got: Any, want: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_demo_s_programs(name: str, mode: str) -> None:
    torch.manual_seed(0)
    fn, args = PROGRAMS[name].make("cuda")
    compiled = minicompile.compile(fn, mode=mode)
    with torch.no_grad():
        want = fn(*args)
        for _ in range(4):
            close(compiled(*args), want, 1e-3)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(48, 96), torch.nn.Linear(96, 48)
        self.norm = torch.nn.LayerNorm(48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return F.cross_entropy(x, x.argmax(1).detach())


@pytest.mark.parametrize("mode", MODES)
def test_training_steps_are_eager_s(mode: str) -> None:
    torch.manual_seed(0)
    eager, ours = Net().cuda(), Net().cuda()
    ours.load_state_dict(eager.state_dict())
    compiled = minicompile.compile(ours, mode=mode)
    losses: dict[str, list[torch.Tensor]] = {"eager": [], "ours": []}
    optimisers = {"eager": torch.optim.SGD(eager.parameters(), 0.1), "ours": torch.optim.SGD(ours.parameters(), 0.1)}
    for _ in range(12):
        x = randn(32, 48)
        for name, call in (("eager", eager), ("ours", compiled)):
            loss = call(x)
            loss.backward()
            optimisers[name].step()
            optimisers[name].zero_grad()
            losses[name].append(loss.detach())
    close(losses["ours"], losses["eager"])
    close(list(ours.parameters()), list(eager.parameters()))


def test_gradients_may_be_accumulated_with_several_forwards_alive() -> None:
    net = Net().cuda()
    compiled = minicompile.compile(net, mode="reduce-overhead")
    xs = [randn(8, 48) for _ in range(7)]
    for _ in range(3):
        net.zero_grad()
        sum(compiled(x) for x in xs).backward()
        got = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        sum(net(x) for x in xs).backward()
        close(got, [p.grad for p in net.parameters()])


def test_what_is_one_launch_is_not_recorded() -> None:
    functions = {
        "a kernel": (lambda x: torch.relu(x + 1), False),
        "two": (lambda x: (x - x.mean(0)) / (1 + x.abs().sum(1, keepdim=True)), False),
        "a product": (lambda x: (x @ x).relu(), True),
    }
    for name, (function, is_recorded) in functions.items():
        minicompile.reset()
        (graph,) = minicompile.explain(function, mode="reduce-overhead")(randn(64, 64)).graphs
        assert isinstance(graph.compiled.call, GraphedCall) is is_recorded, name


def test_recorded_results_stay_and_parameters_may_change() -> None:
    weight = randn(64, 64)
    compiled = minicompile.compile(lambda x: torch.relu(x @ weight).sum(1), mode="reduce-overhead")
    kept = []
    for step in range(10):
        x = randn(16, 64)
        kept.append((compiled(x), torch.relu(x @ weight).sum(1)))
        if step == 5:
            weight.mul_(2)
    for got, want in kept:
        close(got, want)


def test_recordings_share_memory_and_keep_each_other_s_results() -> None:
    """Twelve recordings, each with 64 MiB on the way to small results that are held across all the others' replays."""

    def function(k: int) -> Callable[[torch.Tensor], Any]:
        return lambda x: (((x @ x) * k).sin() @ x).amax(1) + k

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    x, before = randn(4096, 4096) / 64, torch.cuda.memory_reserved()
    functions = [function(k) for k in range(12)]
    compiled = [minicompile.compile(f, mode="reduce-overhead") for f in functions]
    held: list[Any] = []
    with torch.no_grad():
        for step in range(5):
            x.add_(0.01)
            wanted = [f(x) for f in functions]
            held += [(c(x), want) for c, want in zip(compiled, wanted, strict=True)]
            if step == 2:
                held = held[::5]
        for got, want in held:
            close(got, want, 1e-3)
    del wanted
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < 8 * (64 << 20)


def test_recordings_of_several_streams() -> None:
    compiled = minicompile.compile(lambda x: ((x * 2).softmax(1) @ x).relu(), mode="reduce-overhead")
    streams, x = [torch.cuda.Stream() for _ in range(2)], randn(512, 512)
    want = ((x * 2).softmax(1) @ x).relu()
    torch.cuda.synchronize()
    for _ in range(20):
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(compiled(x) * 1)
        torch.cuda.synchronize()
        for got in results:
            close(got, want, 1e-3)


def test_inputs_written_under_graphs() -> None:
    def step(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state.mul_(0.9).add_(x)
        return state * 2

    compiled = minicompile.compile(step, mode="reduce-overhead")
    ours, eager = torch.zeros(100, device="cuda"), torch.zeros(100, device="cuda")
    for _ in range(8):
        x = randn(100)
        close(compiled(ours, x), step(eager, x))
        close(ours, eager)


FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "pointwise": lambda x: torch.sigmoid(x) * x + 1,
    "rows": lambda x: x.softmax(-1),
    "all": lambda x: (x * x).sum(),
    "columns": lambda x: x.sum(0),
    "transposed": lambda x: x[:, : x.shape[0]] + x[:, : x.shape[0]].T,
    "log": lambda x: torch.log(x.abs() + 1e-3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_addresses_that_no_vector_fits(name: str, dtype: torch.dtype) -> None:
    fn, whole = FUNCTIONS[name], randn(1 + 70 * 768, dtype=torch.float32).to(dtype)
    compiled = minicompile.compile(fn)
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    for x in (whole[:-1].view(70, 768), whole[1:].view(70, 768)):
        close(compiled(x).float(), fn(x.float()), tolerance * (100 if name in ("all", "columns") else 1))


def test_sizes_that_vary() -> None:
    compiled = minicompile.compile(lambda x, y: (x * y).softmax(-1) + y.sum(0), dynamic=True)
    for rows, columns in ((3, 48), (16, 1024), (7, 1001), (1, 9000), (64, 17)):
        x, y = randn(rows, columns), randn(rows, columns)
        close(compiled(x, y), (x * y).softmax(-1) + y.sum(0))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_the_current_stream_is_used(mode: str) -> None:
    compiled = minicompile.compile(lambda x: (x + 1).relu() * 2, mode=mode)
    stream = torch.cuda.Stream()
    for _ in range(4):
        with torch.cuda.stream(stream):
            x = torch.zeros(1 << 22, device="cuda")
            for _ in range(20):
                x = x + 1
            got = compiled(x)
        stream.synchronize()
        assert got.eq(42).all()


def test_dropout_under_graphs_draws_anew() -> None:
    compiled = minicompile.compile(lambda x: F.dropout(x, 0.5), mode="reduce-overhead")
    x = torch.ones(4096, device="cuda")
    results = [compiled(x).clone() for _ in range(6)]
    assert all(not torch.equal(a, b) for a, b in zip(results, results[1:], strict=False))
    assert all(1700 < int((r == 0).sum()) < 2400 for r in results)


SCRIPT = """
import sys, torch, minicompile
table = torch.randn(10, 8, device="cuda")
compiled = minicompile.compile(lambda i: table[i] * 2)
assert torch.equal(compiled(torch.tensor([1, -9], device="cuda")), table[[1, -9]] * 2)
compiled(torch.tensor([1, int(sys.argv[1])], device="cuda"))
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
"""


@pytest.mark.parametrize("index", ["10", "-11"])
def test_an_index_out_of_range_is_refused(index: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, index], capture_output=True, text=True, timeout=300)
    assert "refused:" in done.stdout and "assert" in done.stdout.lower(), done.stdout + done.stderr[-2000:]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_the_device_of_the_tensors_counts() -> None:
    compiled = minicompile.compile(lambda x: x.softmax(-1) * 2)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x = torch.randn(5, 300, device=device)
        close(compiled(x), x.softmax(-1) * 2)
