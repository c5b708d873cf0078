"""Draws from Python's and NumPy's generators inside a compiled function: made at every call, when the guards have
passed, in the program's order: the values and the state afterwards are eager's."""

# ruff: noqa: S311 (the programs draw)

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import minicompile

from ..support import assert_same

X = torch.arange(32.0).reshape(4, 8) / 8
PROGRAMS: dict[str, Callable[[Tensor], Any]] = {}


def program(fn: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def added_and_returned(x: Tensor) -> Any:
    a, b = random.random(), random.uniform(-1, 2.5)
    return x + a, x * b, a, b


@program
def order_of_draws(x: Tensor) -> Any:
    a = random.random()
    b = random.gauss(0, 1)
    c = random.gauss(mu=a, sigma=2.0)
    return x - c, b, a * c + 1


@program
def unused(x: Tensor) -> Any:
    random.random()
    return x + 1


@program
def whole_numbers(x: Tensor) -> Any:
    n, m = random.randint(0, 9), random.randrange(3, 12, 3)
    return x + n, x * m, n, n * 2 - m


@program
def coin(x: Tensor) -> Any:
    return x * random.randint(0, 1)


@program
def bits(x: Tensor) -> Any:
    return x, random.getrandbits(7), random.randrange(5)


@program
def cropped(x: Tensor) -> Any:
    start = random.randint(0, 4)
    return x[:, start : start + 4] * 2, x[random.randrange(4)]


@program
def rolled(x: Tensor) -> Any:
    return x.roll(random.randint(0, 7), 1) + 1


@program
def drawn_bounds(x: Tensor) -> Any:
    return x + random.uniform(0, random.random()), random.uniform(-x.shape[0], 4)


@program
def in_a_loop(x: Tensor) -> Any:
    return [x * random.random() + k for k in range(3)]


@program
def in_texts(x: Tensor) -> Any:
    return x, f"{random.random():.3f}", str(random.random())


@program
def of_numpy(x: Tensor) -> Any:
    a, b, c = np.random.rand(), np.random.uniform(1, 2), np.random.normal(0.0, 2.0)
    return x + a, x * b - c, np.random.randint(2, 9), np.random.randn()


@program
def both_libraries(x: Tensor) -> Any:
    return x * random.random(), x * np.random.random(), random.random() + np.random.random()


@program
def out_of_sequences(x: Tensor) -> Any:
    a, b = random.sample(range(10), 2)
    column = x[:, random.sample(range(4), 1)[0]] * a + b
    return x + random.choice([1, 2, 3]), x * random.choice((0.5, 1.5)), random.choice("abc"), column


@program
def several(x: Tensor) -> Any:
    return x, random.sample([1, 2, 3], 2), random.choices([1.5, 2.5], k=2), random.choices("ab", weights=[1, 2], k=3)


@program
def shuffled(x: Tensor) -> Any:
    items = list(range(4))
    random.shuffle(items)
    items.append(items[0])
    return x + items[1], items, random.random()


@program
def arrays(x: Tensor) -> Any:
    a = np.random.rand(8)
    a[0] = 5
    a += 1
    noise = torch.from_numpy(np.random.normal(0, 0.1, size=x.shape).astype(np.float32))
    return x + torch.from_numpy(a), a, x + noise, np.random.randn(2, 2), np.random.uniform(0, 1, (2,))


@program
def arrays_of_ints(x: Tensor) -> Any:
    rows = torch.from_numpy(np.random.permutation(x.shape[0]))
    more = np.random.randint(0, 3, 3, dtype=np.int32)
    return x[rows], np.random.randint(0, 5, size=(3,)), np.random.choice(5, 3), torch.as_tensor(more) * 2


@program
def arrays_written_to(x: Tensor) -> Any:
    t = torch.from_numpy(np.random.rand(4))
    t.mul_(2)
    t[1:].add_(1)
    return t, t[1:], x


@program
def arrays_that_nobody_reads(x: Tensor) -> Any:
    np.random.rand(3)
    random.sample([1, 2], 1)
    return x + 1


SEEDED, STATE, GENERATOR = random.Random(5), np.random.RandomState(5), np.random.default_rng(5)


@program
def generators_of_the_programs_own(x: Tensor) -> Any:
    return x * SEEDED.uniform(1, 2), x + SEEDED.randint(1, 3), STATE.uniform(), GENERATOR.normal(), GENERATOR.random()


def states() -> list[Any]:
    def plain(state: Any) -> Any:
        return {**state, "state": {k: np.array(v).tolist() for k, v in state["state"].items()}}

    of_numpy = [plain(np.random.get_state(legacy=False)), plain(STATE.get_state(legacy=False))]
    return [random.getstate(), SEEDED.getstate(), *of_numpy, GENERATOR.bit_generator.state]


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    SEEDED.seed(number)
    STATE.seed(number)
    GENERATOR.bit_generator.state = np.random.default_rng(number).bit_generator.state


def assert_like_eager(fn: Any, compiled: Any, *args: Any, calls: int = 6) -> None:
    seed(1)
    expected = [(fn(*args), states()) for _ in range(calls)]
    seed(1)
    for result, state in expected:
        assert_same(compiled(*args), result)
        assert states() == state


@program
def arrays_of_the_programs_own(x: Tensor) -> Any:
    a = torch.from_numpy(GENERATOR.random(8, dtype=np.float32))
    return x + a, GENERATOR.integers(0, 10, size=2), STATE.normal(size=(2,)), SEEDED.choice([3, 4]) + x


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str, backend: str) -> None:
    compiled = minicompile.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    assert_like_eager(PROGRAMS[name], compiled, X)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]


def test_a_list_from_outside_is_shuffled() -> None:
    def fn(x: Tensor, items: list[int]) -> Any:
        random.shuffle(items)
        items.append(random.choice([7, 9]))
        return x + items[0], items

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for number in range(4):
        found = []
        for run in (fn, compiled):
            seed(number)
            found.append((run(X, [1, 2, 3]), states()))
        assert_same(*found)


def test_sizes_of_arrays_follow_the_call() -> None:
    def fn(x: Tensor) -> Any:
        return x + torch.from_numpy(np.random.rand(*x.shape)), np.random.rand(x.shape[0])

    compiled = minicompile.compile(fn, fullgraph=True)
    for rows in (2, 3, 4, 2):
        assert_like_eager(fn, compiled, torch.ones(rows, 3), calls=2)


@pytest.mark.parametrize("draw", [lambda: random.choice([]), lambda: random.sample([1], 2), lambda: np.random.rand(-1)])
def test_what_cannot_be_drawn_raises_as_ever(draw: Any) -> None:
    def fn(x: Tensor) -> Any:
        return x + 1, draw()

    with pytest.raises(Exception, match=".") as expected:
        fn(X)
    with pytest.raises(expected.type) as met:
        minicompile.compile(fn)(X)
    assert str(met.value) == str(expected.value)


def test_what_a_branch_needs_breaks_there() -> None:
    def fn(x: Tensor) -> Any:
        x = x + 1
        if random.random() < 0.5:
            return x * 2
        return (x, "three") if random.randint(0, 3) == 3 else x

    compiled = minicompile.compile(fn, backend="eager")
    assert_like_eager(fn, compiled, X, calls=30)
    assert len(compiled.entries) <= 6


def test_a_graph_that_must_know_the_number_breaks() -> None:
    def fn(x: Tensor) -> Any:
        return [x + k for k in range(random.randint(1, 3))], x.reshape(random.choice([4, 8]), -1)

    compiled = minicompile.compile(fn, backend="eager")
    assert_like_eager(fn, compiled, X, calls=12)


def test_dropped_layers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
            self.drop = 0.4

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                if self.training and random.uniform(0, 1) < self.drop:
                    continue
                x = layer(x)
            return x

    net = Net()
    assert_like_eager(net, minicompile.compile(net), X, calls=20)


def test_nothing_is_drawn_when_the_guards_miss() -> None:
    def fn(x: Tensor, k: str) -> Any:
        return x + random.random(), k

    compiled = minicompile.compile(fn, backend="eager")
    for name in "abab":
        assert_like_eager(fn, compiled, X, name)


def test_a_graph_that_raises_has_drawn_once() -> None:
    def fn(x: Tensor, index: Tensor) -> Any:
        return x[index] * random.random(), SEEDED.random()

    compiled = minicompile.compile(fn)
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 9])
    assert_like_eager(fn, compiled, X, good)
    seed(2)
    with pytest.raises(IndexError):
        fn(X, bad)
    after = states()
    seed(2)
    with pytest.raises(IndexError):
        compiled(X, bad)
    assert states() == after
    assert_like_eager(fn, compiled, X, good)


def test_seeding_inside_comes_in_order() -> None:
    def fn(x: Tensor) -> Any:
        a = random.random()
        random.seed(4)
        return x + random.random(), a

    assert_like_eager(fn, minicompile.compile(fn), X)


def test_gradients_and_sizes() -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        return (x * random.uniform(1, 2) @ w).sum() * random.randint(1, 4)

    compiled = minicompile.compile(fn, dynamic=True)
    for rows in (2, 3, 5):
        grads = []
        for run in (fn, compiled):
            seed(rows)
            w = torch.ones(8, 2, requires_grad=True)
            loss = run(torch.ones(rows, 8), w)
            loss.backward()
            grads.append((loss.detach(), w.grad))
        torch.testing.assert_close(*grads)
    assert len(compiled.entries) == 1


def test_a_function_that_is_run_by_backward_draws_then() -> None:
    from torch.utils.checkpoint import checkpoint

    def fn(x: Tensor) -> Tensor:
        return checkpoint(lambda t: t.sin() * random.random(), x, use_reentrant=False).sum()

    grads = []
    for run in (fn, minicompile.compile(fn)):
        x = X.clone().requires_grad_()
        seed(3)
        run(x).backward()
        grads.append((x.grad, random.random()))
    torch.testing.assert_close(*grads)


def test_a_replaced_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: Tensor) -> Any:
        return x + random.random()

    compiled = minicompile.compile(fn, backend="eager")
    assert_like_eager(fn, compiled, X)
    monkeypatch.setattr(random, "random", lambda: 2.0)
    assert torch.equal(compiled(X), X + 2.0)


def test_verified() -> None:
    def fn(x: Tensor) -> Any:
        return x + random.random()

    assert_like_eager(fn, minicompile.compile(fn, verify=True), X)


def test_what_cannot_be_computed_is_drawn_once() -> None:
    """A division by a drawn 0 raises before the graph runs: the generator is put back, and the frame begins again."""

    def fn(x: Tensor) -> Any:
        try:
            return x * (1 / random.randint(0, 2))
        except ZeroDivisionError:
            return x - 1

    assert_like_eager(fn, minicompile.compile(fn), X, calls=12)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, items: nn.functional.dropout(x, random.random() * 0, training=True),
        lambda x, items: items[random.randint(0, 2)],
        lambda x, items: torch.full((random.randint(2, 5),), 1.5),
        lambda x, items: x * max(random.random(), 0.5),
        lambda x, items: x * 10 ** random.uniform(-3, -1) + 2 ** random.randint(-2, 3),
        lambda x, items: [x + 1] * random.randint(0, 3),
        lambda x, items: {random.randint(0, 3): x},
        lambda x, items: x.new_zeros(2, random.randint(1, 3)).sum() + x,
        lambda x, items: x[random.randint(0, 5)] if x.shape[0] > 9 else x,
        lambda x, items: (x, random.randint(0, 3) == 2, not random.random() < 0.5),
        lambda x, items: random.choice(items) + x,
        lambda x, items: (random.shuffle(items), x * items[0], random.random()),
        lambda x, items: x + random.choice([1, 2.5]) * random.choice([True, False]),
        lambda x, items: random.choice([torch.sin, torch.cos])(x) + random.choice([x, x + 1]),
        lambda x, items: np.random.rand(random.randint(1, 3)).sum() + x,
        lambda x, items: x * np.random.rand(3)[0] + np.random.choice(4),
        lambda x, items: (x[np.random.permutation(4)], np.random.rand(2).tolist()),
        lambda x, items: x * float(random.randint(0, 3)) + int(random.random() * 5) + round(random.random(), 2),
        lambda x, items: torch.tensor([random.random(), 1.0]) + torch.tensor(random.randint(0, 3)),
        lambda x, items: torch.from_numpy(np.random.rand(4, 8)) + x + np.random.rand(),
        lambda x, items: x + np.random.default_rng(3).random() + random.Random(2).random(),
        lambda x, items: x + torch.rand(()) * 0 + random.uniform(x.sum().item() * 0, 1.0),
    ],
)  # fmt: skip
def test_right_wherever_it_is_used(use: Any) -> None:
    def fn(x: Tensor, items: list[int]) -> Any:
        return use(x, items), items

    compiled = minicompile.compile(fn)
    seed(1)
    expected = [(fn(X, [1, 2, 3]), states()) for _ in range(8)]
    seed(1)
    for result, state in expected:
        assert_same(compiled(X, [1, 2, 3]), result)
        assert states() == state
