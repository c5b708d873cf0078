"""Python ints that vary from call to call: what is computed from them is right for every value, not for one."""

from __future__ import annotations

import collections
import enum
import math
from types import SimpleNamespace

import pytest
import torch

import minicompile
from tests.support import assert_same

USES = {
    "sum": lambda x, n: x + (n + 1),
    "nested": lambda x, n: x * (2 * n + 1) - (n - 3) * 2,
    "two uses": lambda x, n: (x + n * 2, x * (n + 1), n * n),
    "floor division": lambda x, n: x + n // 2 + n % 3,
    "negative divisors": lambda x, n: (-(n // 2 // -2), n // -2, n % -3, n // 2 % -2, 7 // -n if n else 0, x + n),
    "true division": lambda x, n: x * (n / 4) + 1 / n,
    "power": lambda x, n: x + n**2 + 2**n,
    "negated": lambda x, n: x + -n + abs(-n) + +n,
    "min and max": lambda x, n: x + min(n, 5) + max(n, 4, 1),
    "float": lambda x, n: x * (n * 0.5) + math.sqrt(n) + float(n),
    "bits": lambda x, n: x + (n << 1) + (n >> 1) + (n & 3) + (n | 8) + (n ^ 5) + ~n,
    "comparison": lambda x, n: x + 1 if n > 5 else x - n,
    "divisibility": lambda x, n: x * n if n % 2 == 0 else x - n,
    "range": lambda x, n: sum(x * i for i in range(n)),
    "text": lambda x, n: (f"{n}:{n + 1:>4}", str(n), x + n),
    "sizes": lambda x, n: (torch.arange(n), x.new_full((n + 1,), 2.0), torch.zeros(n, 2).view(-1)),
    "divmod and round": lambda x, n: (divmod(n, 3), round(n / 3, 1), int(n * 0.7), x + n),
    "bool": lambda x, n: (bool(n), not n, n == 4, x * (n == 4)),
    "list of them": lambda x, n: ([n, n + 1][n % 2], {n: "n"}, (n,) * 2, x + n),
}


def outcome(fn, *args):
    try:
        return fn(*args)
    except (ArithmeticError, ValueError, RuntimeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("values", [(3, 4, 5, 6, 9, 2), (4, 5, 0, -3, 7, 1), (2**40, 2**41, 3)], ids=str)
@pytest.mark.parametrize("name", USES)
def test_arguments(name, values):
    fn = USES[name]
    if max(values) > 100 and name in ("range", "power", "bits", "sizes"):
        values = (30, 31, 3)
    compiled = minicompile.compile(fn)
    x = torch.arange(3.0)
    for n in values:
        assert_same(outcome(compiled, x, n), outcome(fn, x, n))


@pytest.mark.parametrize("name", USES)
def test_attributes_that_the_call_itself_changes(name):
    def step(x, state):
        state.count += 1
        return USES[name](x, state.count), state.count

    compiled = minicompile.compile(step)
    x, ours, eager = torch.arange(3.0), SimpleNamespace(count=1), SimpleNamespace(count=1)
    for _ in range(5):
        assert_same(compiled(x, ours), step(x, eager))
    assert ours.count == eager.count == 6


class Counted:
    """As long as a number says that changes."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index] * 2


LENGTHS = {
    "len": lambda x, n: (x * len(Counted(n)), [0] * len(Counted(n))),
    "iteration": lambda x, n: [x * item for item in Counted(n)],
    "enumeration": lambda x, n: [x * i for i, _ in enumerate(Counted(n))],
    "item": lambda x, n: x + Counted(n)[-1],
    "deque": lambda x, n: (list(collections.deque(range(9), maxlen=n)), x + 1),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths(name):
    fn = LENGTHS[name]
    compiled = minicompile.compile(fn)
    x = torch.arange(3.0)
    for n in (2, 3, 4, 6):
        assert_same(compiled(x, n), fn(x, n))
    assert not compiled.breaks


def test_a_parameter_list_that_grows():
    parameters = torch.nn.ParameterList([torch.ones(3)])
    fn = lambda x: sum(x * p * i for i, p in enumerate(parameters))  # noqa: E731
    compiled = minicompile.compile(fn)
    for _ in range(4):
        parameters.append(torch.rand(3))
        assert_same(compiled(torch.ones(3)), fn(torch.ones(3)))
    assert not compiled.breaks


class Speed(enum.Enum):
    SLOW = 1


OTHERS = [None, "a", b"a", (1,), [1], {}, {1}, Speed.SLOW, Speed, len]


def test_what_is_no_number_is_unequal_whatever_the_number_is():
    fn = lambda x, n: (x * n, [n == other for other in OTHERS], [other != n for other in OTHERS], n in (None, "auto"))  # noqa: E731
    compiled = minicompile.compile(fn, fullgraph=True)
    for n in (2, 3, 4, 6):
        assert_same(compiled(torch.ones(3), n), fn(torch.ones(3), n))
    assert len(compiled.entries) == 2


def test_an_attribute_that_is_read_twice_is_one_input():
    def fn(x, counted):
        y = x * counted.count
        return y + counted.count if counted.count > 1 else y

    graphs = []
    compiled = minicompile.compile(fn, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    for n in (2, 3, 4):
        assert_same(compiled(torch.ones(3), Counted(n)), fn(torch.ones(3), Counted(n)))
    assert [len(gm.graph.find_nodes(op="placeholder")) for gm in graphs] == [1, 2]
