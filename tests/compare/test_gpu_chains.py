"""Consecutive kernels that one launch of the driver puts on a real GPU. Skipped where there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from minicompile.runtime.runs import Run

from .test_gpu import close, randn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def chain(x: torch.Tensor) -> torch.Tensor:
    """Eight kernels."""
    for _ in range(4):
        x = x - x.mean(0)
        x = x / (1 + x.abs().sum(1, keepdim=True))
    return x


@pytest.fixture
def compiled() -> Any:
    (graph,) = minicompile.explain(chain)(randn(64, 64)).graphs
    (run,) = [value for value in graph.compiled.objects.values() if isinstance(value, Run)]
    assert len(run.kernels) == 8
    return minicompile.compile(chain)


def test_addresses_that_change(compiled: Callable[..., torch.Tensor]) -> None:
    kept = []
    for _ in range(30):
        x = randn(64, 64)
        kept.append((compiled(x), chain(x)))
        if len(kept) % 7 == 0:
            del kept[::2]
    for got, want in kept:
        close(got, want)


def test_an_address_that_no_vector_fits(compiled: Callable[..., torch.Tensor]) -> None:
    whole = randn(64 * 64 + 1)
    for step in range(9):
        x = whole[step % 3 == 0 :][: 64 * 64].view(64, 64)
        close(compiled(x), chain(x))


def test_sizes_in_turns() -> None:
    compiled = minicompile.compile(chain, dynamic=False)
    for _ in range(4):
        for rows, columns in ((64, 64), (7, 300), (300, 7)):
            x = randn(rows, columns)
            close(compiled(x), chain(x))


@pytest.mark.parametrize("priority", [0, -1])
def test_several_streams(compiled: Callable[..., torch.Tensor], priority: int) -> None:
    streams = [torch.cuda.Stream(priority=priority) for _ in range(6)]
    xs = [randn(64, 64) for _ in streams]
    wanted = [chain(x) for x in xs]
    torch.cuda.synchronize()
    kept = []
    for _ in range(20):
        for stream, x, want in zip(streams, xs, wanted, strict=True):
            with torch.cuda.stream(stream):
                kept.append((compiled(x), want))
    torch.cuda.synchronize()
    for got, want in kept:
        close(got, want)


def test_the_order_on_a_stream_is_kept(compiled: Callable[..., torch.Tensor]) -> None:
    x = randn(64, 64)
    slow = randn(4096, 4096)
    for step in range(6):
        for _ in range(3):
            slow = (slow @ slow).clamp_(-1, 1)
        x.copy_(slow[:64, :64] + step)
        got = compiled(x)
        copy = x.clone()
        x.zero_()
        close(got, chain(copy))


def test_captured_by_the_program(compiled: Callable[..., torch.Tensor]) -> None:
    x = randn(64, 64)
    for _ in range(3):
        compiled(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            compiled(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = compiled(x)
    for _ in range(5):
        x.copy_(randn(64, 64))
        close(compiled(x), chain(x))
        graph.replay()
        close(result, chain(x))


@pytest.mark.parametrize("own_streams", [False, True])
def test_several_threads(compiled: Callable[..., torch.Tensor], own_streams: bool) -> None:
    xs = [randn(64, 64) for _ in range(4)]
    wanted = [chain(x) for x in xs]
    for x in xs:
        compiled(x)
    found: list[list[torch.Tensor]] = [[] for _ in xs]
    torch.cuda.synchronize()

    def work(number: int) -> None:
        stream = torch.cuda.Stream() if own_streams else torch.cuda.current_stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(200):
                found[number].append(compiled(xs[number]))
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results, want in zip(found, wanted, strict=True):
        assert len(results) == 200
        for got in results:
            close(got, want)


def test_a_profile_shows_the_kernels(compiled: Callable[..., torch.Tensor]) -> None:
    x = randn(64, 64)
    for _ in range(3):
        compiled(x)
    with torch.profiler.profile() as profile:
        compiled(x)
        torch.cuda.synchronize()
    close(compiled(x), chain(x))
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert len([name for name in names if name.startswith("kernel_")]) >= 8, names
