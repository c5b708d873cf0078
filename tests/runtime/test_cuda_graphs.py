"""When a recorded graph may be replayed: the rules, with a recorder that needs no GPU. It computes into the memory of
the first results, as a replay does; tests/codegen/test_triton_device.py has the real one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from minicompile.runtime.cuda_graph_memory import Kept
from minicompile.runtime.cuda_graphs import RECORDINGS, Facts, GraphedCall, InputPlace


class Recorder:
    """`replays` counts; a replay runs the function again, into the same memory."""

    def __init__(self) -> None:
        self.recorded = self.replays = 0
        self.places: list[Any] = []

    def __call__(self, call: Any, args: Any, place: Any = None) -> Any:
        self.recorded += 1
        self.places.append(place)
        tensors = [a for a in args if isinstance(a, torch.Tensor) and 0 not in a.stride()]
        before = [a.clone() for a in tensors]
        results = call(*args)
        for tensor, value in zip(tensors, before, strict=True):  # a real recording runs nothing
            tensor.copy_(value)
        addresses = [a.data_ptr() for a in tensors]
        recorder = self

        class Graph:
            def replay(self) -> None:
                recorder.replays += 1
                for old, new in zip(results, call(*args), strict=True):
                    if isinstance(old, torch.Tensor) and old.data_ptr() not in addresses:
                        old.copy_(new)

        return Graph(), results


plain_graphed = partial(GraphedCall, is_recording=lambda: False)


def graphed(fn: Any, n: int = 1, **facts: Any) -> tuple[GraphedCall, Recorder]:
    recorder = Recorder()
    return plain_graphed(fn, Facts(tuple(range(n)), **facts), record=recorder), recorder


def double(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * 2,)


def test_the_second_call_records_and_later_ones_replay() -> None:
    call, recorder = graphed(double)
    x = torch.randn(4)
    for step in range(5):
        x.fill_(step)
        assert call(x)[0].tolist() == [2.0 * step] * 4
    assert (recorder.recorded, recorder.replays) == (1, 4)


def test_a_result_that_is_held_is_not_overwritten() -> None:
    call, recorder = graphed(double)
    x, held = torch.zeros(4), []
    for step in range(2 * RECORDINGS):
        x.fill_(step)
        held.append(call(x)[0])
    assert [int(h[0]) for h in held] == [2 * step for step in range(2 * RECORDINGS)]
    assert recorder.recorded == RECORDINGS
    view = held.pop()[1:]
    held.clear()
    before = view.clone()
    for step in range(20):
        x.fill_(step)
        call(x)
    assert torch.equal(view, before) and recorder.recorded == RECORDINGS


def test_a_loop_that_rebinds_its_result_needs_two_recordings() -> None:
    call, recorder = graphed(double)
    x = torch.ones(4)
    for _ in range(20):
        result = call(x)
    assert recorder.recorded == 2 and result[0].tolist() == [2.0] * 4


def test_inputs_that_wander_are_copied() -> None:
    call, recorder = graphed(lambda w, x: (w + x,), 2)
    w, xs = torch.ones(3), [torch.full((3,), float(i)) for i in range(12)]
    for x in xs * 2:
        assert call(w, x)[0].tolist() == [1 + float(x[0])] * 3
    assert call.copied == {1} and recorder.recorded == RECORDINGS + 1


def test_expanded_inputs_that_wander_are_copied() -> None:
    call, _ = graphed(double)
    xs = [torch.full((1, 3), float(i)) for i in range(10)]
    for x in xs * 2:
        assert call(x.expand(5, 3))[0].tolist() == [[2 * float(x[0, 0])] * 3] * 5
    assert call.copied == {0} and call.reason is None


@pytest.mark.parametrize("kind", ["written", "overlaps"])
def test_what_cannot_be_copied_is_not_recorded(kind: str) -> None:
    def add_one(x: torch.Tensor) -> tuple[()]:
        x.add_(1)
        return ()

    written = kind == "written"
    call, _ = graphed(add_one if written else double, written=frozenset([0] if written else []))
    alive = [torch.full((5,), float(i)) for i in range(8)]
    for i, x in enumerate(alive):
        result = call(x if written else x.as_strided((3, 3), (1, 1)))
        assert x.tolist() == [i + 1.0] * 5 if written else result[0].tolist() == [[2.0 * i] * 3] * 3
    assert call.reason is not None and kind in call.reason


def test_versions_of_written_inputs_grow_with_each_replay() -> None:
    def fill(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x,)

    call, _ = graphed(fill, written=frozenset([0]), views={0: InputPlace(0, True)})
    x = torch.zeros(2)
    call(x), call(x)
    before = x._version
    assert call(x)[0] is x and x._version == before + 1


def test_outputs_that_are_views_of_inputs_or_each_other() -> None:
    def fn(x: torch.Tensor) -> tuple[Any, ...]:
        y = x * 3
        return x, x[1:], y, y, 7, None

    call, _ = graphed(fn, views={0: InputPlace(0, True), 1: InputPlace(0, False)})
    x = torch.arange(4.0)
    call(x)
    for _ in range(3):
        whole, part, one, other, number, nothing = call(x)
        assert whole is x and part._base is x and part.tolist() == [1, 2, 3]
        assert one is other and one.tolist() == [0, 3, 6, 9] and (number, nothing) == (7, None)


def test_recordings_belong_to_sizes() -> None:
    call, recorder = graphed(lambda n, x: (x * n,), 2, dynamic=True)
    call.facts = Facts((1,), dynamic=True)
    a, b = torch.ones(2), torch.ones(5)
    for _ in range(3):
        assert call(2, a)[0].tolist() == [2, 2] and call(3, a)[0].tolist() == [3, 3]
        assert call(5, b)[0].tolist() == [5] * 5
    assert recorder.recorded == 3


def test_a_boxed_call_empties_its_list() -> None:
    def fn(boxed: list[torch.Tensor]) -> tuple[torch.Tensor]:
        (x,) = boxed
        boxed.clear()
        return (x + 1,)

    recorder = Recorder()
    call = plain_graphed(fn, Facts((0,)), boxed=True, record=recorder)
    x = torch.zeros(2)
    for _ in range(3):
        box = [x]
        assert call(box)[0].tolist() == [1, 1] and box == []
    assert recorder.replays == 2


def test_a_recording_that_fails_leaves_the_plain_call() -> None:
    def refuse(call: Any, args: Any) -> Any:
        raise RuntimeError("not permitted while a stream is recorded")

    call = plain_graphed(double, Facts((0,)), record=refuse)
    x = torch.ones(1)
    assert [call(x)[0].item() for _ in range(3)] == [2.0] * 3
    assert call.reason is not None and "not permitted" in call.reason


def test_two_threads_at_once_do_not_share_a_recording() -> None:
    call, _ = graphed(double)
    x = torch.ones(1)
    call(x), call(x)
    with call.lock:
        assert call(x)[0].item() == 2.0


def test_inside_somebody_else_s_recording_kernels_run_plainly() -> None:
    recorder = Recorder()
    call = GraphedCall(double, Facts((0,)), record=recorder, is_recording=lambda: True)
    for _ in range(4):
        call(torch.ones(1))
    assert recorder.recorded == 0


def test_recordings_belong_to_streams() -> None:
    recorder, current = Recorder(), [7]
    call = plain_graphed(double, Facts((0,), device=0), record=recorder, stream=lambda device: current[0])
    x = torch.ones(3)
    for stream in (7, 7, 7, 8, 8, 7, 8, 8):
        current[0] = stream
        assert call(x)[0].tolist() == [2.0] * 3
    assert recorder.recorded == 2 and recorder.places == [None, None]  # of whom else results are, who knows


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_are_allocated_outside_of_what_is_recorded(dynamic: bool) -> None:
    asked: list[tuple[int, ...]] = []

    def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        asked.append(shape)
        return torch.empty(shape, dtype=dtype)

    kept = Kept(empty)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, other = kept(tuple(x.shape), dtype=torch.float32), kept((1,), dtype=torch.float64)
        return one.copy_(x * 2), other.fill_(float(x.sum()))

    recorder = Recorder()
    facts = Facts((0,), dynamic=dynamic, device=1)
    call = plain_graphed(fn, facts, record=recorder, kept=kept, stream=lambda device: 5)
    for size in (3, 4) if dynamic else (3,):
        asked.clear()
        x = torch.ones(size)
        for step in range(3):
            x.fill_(step)
            doubled, total = call(x)
            assert doubled.tolist() == [2.0 * step] * size and total.item() == step * size
            if step == 1:
                assert asked == [(size,), (1,)] * 2 + [(size,), (1,)]  # the first call; before recording; our replay
            del doubled, total
        (recording,) = call.recordings[call._key([x])]
        assert [m.data_ptr() for m in recording.memory] == [r.data_ptr() for r in recording.results]
    assert recorder.places == [(1, 5)] * recorder.recorded


def test_what_is_kept_is_each_thread_s_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    kept = Kept(torch.empty)
    with kept.noting() as asked, ThreadPoolExecutor(1) as pool:
        kept(2)
        pool.submit(kept, 3).result()
    assert asked == [((2,), {})]
    with kept.ready(asked) as memory, ThreadPoolExecutor(1) as pool:
        assert pool.submit(kept, 2).result() is not memory[0] and kept(2) is memory[0]
        with pytest.raises(StopIteration):
            kept(2)
    assert kept(2) is not memory[0]
