"""Memory of dead results: handed out again when nobody can reach it, and never before."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.runtime.pages import LARGE, empty_large
from minicompile.runtime.recycled import RECYCLER

SHAPE = (LARGE // 4096, 1024)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    RECYCLER.shrink(0)
    yield
    RECYCLER.shrink(0)


def make(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> Tensor:
    strides = torch.empty(shape, device="meta").stride()
    return empty_large(shape, strides, dtype)


def test_a_dead_result_s_memory_is_the_next_one_s() -> None:
    first = make()
    address = first.data_ptr()
    del first
    second = make((1024, LARGE // 4096))
    assert second.data_ptr() == address and second.shape == (1024, LARGE // 4096)
    assert second.stride() == (LARGE // 4096, 1) and second._version == 0 and second._base is None
    assert not second.requires_grad and second.untyped_storage().resizable()
    del second
    assert make((LARGE // 8192, 1024), torch.float64).data_ptr() == address  # of as many bytes
    assert make((*SHAPE, 2)).data_ptr() != address


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "tensor": lambda x: x, "view": lambda x: x[3:5, 1:], "storage": lambda x: x.untyped_storage(),
    "typed storage": lambda x: x._typed_storage(), "array": lambda x: x.numpy(), "detached": lambda x: x.detach(),
    "buffer": lambda x: memoryview(x.numpy()), "capsule": torch.utils.dlpack.to_dlpack, "list": lambda x: [x],
    "graph": lambda x: (x.requires_grad_() * 2).grad_fn, "saved": lambda x: torch.exp(x.requires_grad_()).grad_fn,
    "parameter": torch.nn.Parameter, "lazy clone": lambda x: torch._lazy_clone(x), "data": lambda x: x.data,
    "bits": lambda x: x.view(torch.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
def test_whatever_reaches_the_memory_keeps_it(name: str) -> None:
    held = HOLDERS[name](make().fill_(1))
    others = [make() for _ in range(3)]
    for other in others:
        other.fill_(2)
    if name == "lazy clone":
        assert torch.equal(held, torch.ones(SHAPE))
    elif isinstance(held, Tensor):
        assert bool((held.view(torch.int32) == torch.ones(1).view(torch.int32)).all())
    else:
        reached = {
            "storage": lambda: torch.empty(0).set_(held), "list": lambda: held[0],
            "typed storage": lambda: torch.empty(0).set_(held._untyped_storage),
            "array": lambda: torch.from_numpy(held), "buffer": lambda: torch.frombuffer(held, dtype=torch.float32),
            "capsule": lambda: torch.utils.dlpack.from_dlpack(held),
            "graph": lambda: held.next_functions[0][0].variable.detach(),
            "saved": lambda: held.next_functions[0][0].variable.detach(),
        }[name]()  # fmt: skip
        assert bool((reached == 1).all())


def share(x: Tensor) -> None:
    x.share_memory_()


def grow(x: Tensor) -> None:
    x.resize_(LARGE, 2)


def empty(x: Tensor) -> None:
    x.untyped_storage().resize_(0)


@pytest.mark.parametrize("change", [share, grow, empty])
def test_a_storage_that_is_no_longer_as_it_was_made_is_forgotten(change: Callable[[Tensor], None]) -> None:
    x = make()
    change(x)
    address = x.data_ptr()
    del x
    y = make().fill_(2)
    assert y.data_ptr() != address and y.untyped_storage().nbytes() == LARGE and not y.is_shared()


def test_no_more_is_kept_than_allowed_and_the_oldest_goes_first() -> None:
    def kept() -> int:
        return sum(block.size for queue in RECYCLER.blocks.values() for block in queue)

    with minicompile.config.patch(kept_memory=3 * LARGE):
        addresses = [make((1 + n, *SHAPE)).data_ptr() for n in range(2)]  # of LARGE and twice LARGE
        assert kept() == 3 * LARGE
        assert make().data_ptr() == addresses[0]  # used once more: the other is older now
        make((1, 1, LARGE // 4 + 1024))
        assert kept() == 2 * LARGE + 4096
        assert make().data_ptr() == addresses[0]
        make((4, *SHAPE))  # more than all that is allowed
        assert kept() <= 3 * LARGE
        minicompile.reset()
        assert kept() == 0
    with minicompile.config.patch(kept_memory=0):
        make()
        assert kept() == 0
    x = make()
    assert kept() == LARGE
    with minicompile.config.patch(kept_memory=0):
        del x
        make()
        assert kept() == 0


def test_memory_of_results_and_of_what_is_between_them() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x @ x).relu()
        return y @ x, y.sum(0)

    compiled = minicompile.compile(fn, fullgraph=True)
    x, addresses = torch.randn(1024, 1024) / 32, set()
    for _ in range(4):
        y, total = compiled(x)
        torch.testing.assert_close((y, total), fn(x), rtol=1e-4, atol=1e-4)
        addresses.add(y.data_ptr())
        del y
    assert len(addresses) == 1
    kept = [compiled(x)[0] for _ in range(4)]
    assert len({y.data_ptr() for y in kept}) == 4 and all(torch.equal(y, kept[0]) for y in kept)


def test_training_keeps_what_backward_reads() -> None:
    compiled = minicompile.compile(lambda x, w: torch.tanh(torch.exp(x * w)).sum())
    x, w = torch.randn(SHAPE), torch.randn(SHAPE, requires_grad=True)
    losses = [compiled(x + n, w) for n in range(3)]
    for n, loss in reversed(list(enumerate(losses))):
        (got,) = torch.autograd.grad(loss, w)
        (want,) = torch.autograd.grad(torch.tanh(torch.exp((x + n) * w)).sum(), w)
        torch.testing.assert_close(got, want)


def test_inference_tensors() -> None:
    address = make().data_ptr()
    with torch.inference_mode():
        x = make()
        assert x.data_ptr() == address and x.is_inference()
    del x
    y = make()
    assert y.data_ptr() == address and not y.is_inference() and y.add_(1)._version == 1


def test_threads_never_get_the_same_memory() -> None:
    def is_left_alone(number: int) -> bool:
        mine = make().fill_(number)
        return bool((mine == number).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(is_left_alone, range(240)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_writes_to_its_own_copy() -> None:
    address = make().fill_(1).data_ptr()
    child = os.fork()
    if child == 0:
        mine = make()
        mine[0, 0] = 2  # one element: the parent's pool of threads is not there
        os._exit(int(mine.data_ptr() != address))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    x = make()
    assert x.data_ptr() == address and bool((x == 1).all())


def test_tensors_die_as_ever() -> None:
    x = make()
    reference = weakref.ref(x)
    del x
    assert reference() is None
