"""One compiled function in many hands: threads, itself, objects that die, copies."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch

import minicompile
from tests.support import assert_same


@minicompile.compile(backend="eager")
def pickled_by_name(x):
    return x * 2


class Holder:
    def __init__(self, scale):
        self.scale = scale
        self.fn = minicompile.compile(self.apply, backend="eager")

    def apply(self, x):
        return x * self.scale


# ---- threads ----


@pytest.mark.parametrize("same", [True, False], ids=["one size", "many sizes"])
def test_concurrent_first_calls(same):
    def inner(x, n):
        minicompile.graph_break()
        return x.cumsum(0) + n

    def fn(x, n):
        total = x.sin() * n
        for _ in range(2):
            total = inner(total, n) + total.shape[0]
        return total

    compiled = minicompile.compile(fn, backend="eager")
    barrier, failures = threading.Barrier(8), []

    def work(index):
        barrier.wait()
        try:
            for step in range(12):
                x = torch.randn(4 if same else 2 + (index + step) % 5, 3)
                assert_same(compiled(x, step % 3), fn(x, step % 3))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_a_mode_of_one_thread_is_not_anothers():
    compiled = minicompile.compile(lambda x: (x * 2, torch.is_grad_enabled()), backend="eager")
    results = {}

    def work(mode):
        with torch.set_grad_enabled(mode):
            results[mode] = [compiled(torch.ones(2, requires_grad=True)) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(mode,)) for mode in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mode, pairs in results.items():
        assert all(flag is mode and out.requires_grad is mode for out, flag in pairs)


# ---- itself ----


def test_recursion_through_the_compiled_function():
    @minicompile.compile(backend="eager")
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    for n in (0, 1, 5, 3):
        assert_same(power(torch.full((2,), 2.0), n), torch.full((2,), 2.0 ** (n + 1)))


def test_recursion_across_a_break():
    @minicompile.compile(backend="eager")
    def countdown(x, n):
        minicompile.graph_break()
        return x + n if n <= 0 else countdown(x * 2, n - 1) + 1

    def eager(x, n):
        return x + n if n <= 0 else eager(x * 2, n - 1) + 1

    for n in (0, 4, 9):
        assert_same(countdown(torch.ones(2), n), eager(torch.ones(2), n))


def test_a_call_while_compiling():
    calls = []

    def backend(gm, example_inputs):
        calls.append(helper(torch.ones(3)))
        return gm.forward

    helper = minicompile.compile(lambda x: x + 1, backend="eager")
    compiled = minicompile.compile(lambda x: x * 3, backend=backend)
    assert_same(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert_same(calls, [torch.full((3,), 2.0)])


def test_a_backend_that_calls_the_function_that_is_being_compiled():
    def backend(gm, example_inputs):
        assert_same(compiled(torch.ones(2)), torch.full((2,), 3.0))
        return gm.forward

    compiled = minicompile.compile(lambda x: x * 3, backend=backend)
    for _ in range(2):
        assert_same(compiled(torch.ones(2)), torch.full((2,), 3.0))


# ---- objects that die ----


def test_entries_go_with_the_objects_that_they_are_for():
    compiled = minicompile.compile(lambda owner, x: x * owner.scale, backend="eager")
    x = torch.ones(1, 3)

    def call_with_a_class_of_its_own(scale):
        class Owner:
            pass

        owner = Owner()
        owner.scale = scale
        assert_same(compiled(owner, x), x * scale)
        return owner

    kept, _ = call_with_a_class_of_its_own(2), call_with_a_class_of_its_own(3)
    del _
    graphs = [weakref.ref(entry.graphs[0].gm) for entry in compiled.entries]
    gc.collect()
    gc.collect()
    assert len(compiled.entries) == 1 and [graph() is None for graph in graphs] == [False, True]
    assert_same(compiled(kept, x), x * 2)
    assert len(compiled.entries) == 1


# ---- copies ----


def test_functions_copy_as_functions_and_objects_as_objects():
    assert copy.deepcopy(pickled_by_name) is pickled_by_name
    holder = Holder(2)
    twin = copy.deepcopy(holder)
    twin.scale = 5
    assert_same(holder.fn(torch.ones(2)), torch.full((2,), 2.0))
    assert_same(twin.fn(torch.ones(2)), torch.full((2,), 5.0))


def test_a_decorated_function_pickles_by_name():
    assert pickle.loads(pickle.dumps(pickled_by_name)) is pickled_by_name
    with pytest.raises(TypeError, match="compile it again"):
        pickle.dumps(minicompile.compile(lambda x: x, backend="eager"))
