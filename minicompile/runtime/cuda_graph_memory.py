"""The memory of recorded graphs: one pool for what is only needed while a graph runs, and memory apart for results.

In: a call to record. Out: the recorded graph, its results, and what must stay alive with it.

Recordings of one stream run one after the other, so what each only needs while it runs may lie in the same memory: a
`Pool` for each device and stream, alive as long as a recording uses it. Results stay, so they must not lie there: a
later recording may have been given that memory for its intermediate results. `Kept` allocates them outside, before the
recording begins; it has noted their sizes when the graph ran for the first time. A graph that returns what an operator
of ATen has allocated is recorded in a pool of its own."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch

from .. import torch_compat
from .cuda_graph_nodes import DriverGraph, memsets_to_kernels

Asked = list[tuple[tuple[Any, ...], dict[str, Any]]]
"""What allocations were asked for, as arguments."""


class Kept:
    """Allocates what a graph returns, as `empty` does. On a thread that records, it hands out what is there."""

    def __init__(self, empty: Callable[..., torch.Tensor]) -> None:
        self.empty = empty
        self.local = threading.local()

    def __call__(self, *size: Any, **how: Any) -> torch.Tensor:
        ready = getattr(self.local, "ready", None)
        if ready is not None:
            return next(ready)
        asked = getattr(self.local, "asked", None)
        if asked is not None:
            asked.append((size, how))
        return self.empty(*size, **how)

    @contextmanager
    def noting(self) -> Iterator[Asked]:
        """What this thread asks for."""
        asked: Asked = []
        self.local.asked = asked
        try:
            yield asked
        finally:
            self.local.asked = None

    @contextmanager
    def ready(self, asked: Asked) -> Iterator[list[torch.Tensor]]:
        """The same, allocated now, and handed out to this thread in that order."""
        memory = [self.empty(*size, **how) for size, how in asked]
        self.local.ready = iter(memory)
        try:
            yield memory
        finally:
            self.local.ready = None


@dataclass(eq=False)
class Pool:
    """Memory that recordings share. An empty recording keeps it while nothing else uses it."""

    keeper: Any
    stream: torch.cuda.Stream  # recordings are made on: memory is given out again only on the stream that had it

    @property
    def handle(self) -> Any:
        return self.keeper.pool()


_pools: WeakValueDictionary[tuple[int, int], Pool] = WeakValueDictionary()
_recording = threading.Lock()


def capture(call: Callable[..., tuple[Any, ...]], args: Sequence[Any], place: tuple[int, int] | None = None) -> Any:
    """Record `call(*args)` on the current device.

    Args:
        place: device and stream whose shared pool is used; None: a pool of its own.
    Returns the graph and the results: their memory is filled by a replay. The graph keeps its pool.
    """
    with _recording:  # one at a time may use a pool
        pool = None if place is None else _pool(place)
        graph = torch_compat.kept_graph()
        clear = torch._C._cuda_clearCublasWorkspaces  # cuBLAS's scratch memory is to lie in the pool
        clear()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local", **_where(pool)):
                results = call(*args)
        finally:
            clear()
        torch_compat.finish_graph(graph, _with_kernels_alone)
    return Replayed(graph, pool), results


def _with_kernels_alone(graph: int) -> None:
    memsets_to_kernels(DriverGraph(graph, torch.cuda.current_device()))


class Replayed:
    """A recorded graph, and the pool that must live as long."""

    def __init__(self, graph: Any, pool: Pool | None) -> None:
        self.replay: Callable[[], None] = graph.replay
        self.pool = pool


def _where(pool: Pool | None) -> dict[str, Any]:
    return {} if pool is None else {"pool": pool.handle, "stream": pool.stream}


def _pool(place: tuple[int, int]) -> Pool:
    pool = _pools.get(place)
    if pool is None:
        keeper, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(place[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is empty
            with torch.cuda.graph(keeper, stream=stream, capture_error_mode="thread_local"):
                pass
        pool = _pools[place] = Pool(keeper, stream)
    return pool
