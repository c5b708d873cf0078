"""dynamic=None: the first call compiles for its sizes; what varies, and only that, is a symbol from the second on."""

from __future__ import annotations

import math
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import minicompile
from tests.support import assert_same


def shapes_of(*sizes):
    return [(size, 6) for size in sizes]


def restrided(t):
    return t.as_strided(t.shape, t.stride())


PROGRAMS = {
    "size in arithmetic": lambda x: x * x.shape[0] + x.size(0) // 2 - x.shape[0] % 3,
    "true division": lambda x: x.sum(0) / x.shape[0],
    "reshape": lambda x: (x.view(-1), x.reshape(x.shape[0] * 2, 3), x.flatten(), x.view(-1, 2, 3)),
    "arange": lambda x: x[:, 0] + torch.arange(x.shape[0]),
    "full": lambda x: torch.full((x.shape[0], 2), 1.5) + x.new_zeros(x.size(0), 1),
    "slices": lambda x: (x[1:], x[:-1], x[x.shape[0] // 2 :], x[:: 2], x.narrow(0, 1, x.shape[0] - 1)),
    "indices": lambda x: (x[-1], x[x.shape[0] - 2], x[torch.arange(x.shape[0] - 1, -1, -1)]),
    "indices in tuples": lambda x: (x[x.shape[0] // 2, None, ..., 1:], x[..., x.size(1) - 1], x[x.shape[0] - 3, 2]),
    "cat": lambda x: torch.cat([x, x[:2], x.new_ones(x.shape[0], 6)]),
    "shift": lambda x: x[1:] - x[:-1],
    "transposed": lambda x: (x.t().contiguous(), x.t() @ x, x @ x.t()),
    "length": lambda x: x * len(x),
    "result": lambda x: (x.shape, x.shape[0] + 1, tuple(x.size()), x.numel(), x.stride()),
    "padding": lambda x: F.pad(x, (0, 0, 1, 2)),
    "repeat and expand": lambda x: (x.repeat(2, 1), x[:, :1].expand(x.shape[0], 4), x.unsqueeze(1).expand(-1, 3, 6)),
    "mask": lambda x: x.masked_fill(torch.ones(x.shape[0], 6).triu().bool(), 0.0),
    "softmax over it": lambda x: (x.softmax(0), x.mean(0), x.var(0), x.amax(0), x.cumsum(0)),
    "in place": lambda x: x.clone().mul_(2).add_(x.shape[0]),
    "outer": lambda x: x[:, :1] * x[:, 0],
    "strides asked for": lambda x: restrided(torch.cat([x, x])[:, None].transpose(0, -1).flip(0)),
    "powers": lambda x: x * x.shape[0] ** 2 + torch.zeros(x.shape[0] * x.shape[0]).sum() + (x.shape[0] + 1) ** 3,
    "products": lambda x: (x.reshape(math.prod(x.shape)), x / math.prod(x.shape[:-1]), math.prod((), start=x.size(0))),
    "logarithm": lambda x: x * math.log(x.shape[0]) + math.log2(x.shape[0] + 1),
    "tensors of sizes": lambda x: (torch.tensor(x.shape[0]), torch.tensor(x.shape), torch.as_tensor([x.size(0), 2.0])),
    "tensor of sizes written to": lambda x: torch.tensor([[x.shape[0], 0], [1, 2]], dtype=torch.float64).add_(1),
    "tensor of fractions": lambda x: torch.tensor([x.shape[0] / 3, 1]) * x[0, 0],
    "broadcast shapes": lambda x: x.new_zeros(torch.broadcast_shapes(x.shape, (2, 1, 1), 6)),
    "text of a shape": lambda x: (x + 1, f"{x.shape}", str(x.shape), repr(x.size()), str(list(x.shape))),
    "text of containers": lambda x: (x + 1, f"{(x.shape[0],)} {[len(x), 'a']}", str({"n": len(x), 2: (1.5, None)})),
    "text by percent": lambda x: (x + 1, "%d rows" % x.shape[0], "%s of %3d%%" % (x.shape[0], x.shape[1])),  # noqa: UP031
    "text by format": lambda x: (x + 1, "{} x {:>4}".format(*x.shape), "{1}{{{0}".format(x.shape[0], "a")),  # noqa: UP030, UP032
    "text by join": lambda x: (x + 1, "x".join(str(size) for size in x.shape), ", ".join(map(str, [*x.shape, 3]))),
    "max of sizes": lambda x: torch.zeros(max(x.shape[0], 4)) + min(x.shape[0], 3),
    "max that is now this, now that": lambda x: (torch.zeros(max(10, x.shape[0] - 2)) + 1, x * max(*x.shape, 8)),
    "min that is now this, now that": lambda x: (x[: min(8, len(x))].sum(0), F.pad(x, (0, 0, 0, max(0, 9 - len(x))))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_entry_for_the_first_size_and_one_for_all_others(name):
    fn = PROGRAMS[name]
    compiled = minicompile.compile(fn, fullgraph=True)
    for shape in shapes_of(5, 8, 12, 7, 30):
        x = torch.randn(shape)
        assert_same(compiled(x), fn(x))
    assert len(compiled.entries) == 2, compiled.recompiles
    row = torch.ones(1, 6)
    assert_same(outcome(compiled, row), outcome(fn, row))


def outcome(fn, x):
    try:
        return fn(x)
    except (IndexError, RuntimeError) as error:
        return type(error), str(error)


SPECIALISING = {
    "range": (lambda x: sum(x * i for i in range(x.shape[0])), (3, 4, 5, 4, 3, 5)),
    "branch": (lambda x: x + 1 if x.shape[0] > 6 else x - 1, (3, 4, 9, 10, 5)),
    "divisibility": (lambda x: x.view(2, -1) if x.shape[0] % 4 == 0 else x * 2, (3, 8, 12, 5, 16)),
    "groups": (lambda x: x.view(-1, 4, 6).sum(1) if x.shape[0] % 4 == 0 else x, (8, 12, 7, 16, 9)),
    "unbind": (lambda x: [row * 2 for row in x], (2, 3, 4, 3)),
    "zero and one": (lambda x: x.sum(0) + x.shape[0], (3, 4, 1, 0, 5, 1, 0)),
    "item of a list": (lambda x: x * [1, 2, 3, 4, 5, 6][x.shape[0]], (2, 3, 4, 3)),
    "text": (lambda x: (f"{x.shape[0]} rows", str(x.shape[0]), x + 1), (2, 3, 4)),
    "root": (lambda x: x * x.shape[0] ** -0.5, (2, 3, 4)),
    "thirds": (lambda x: x.view(2, 3, -1) + x.shape[0], (2, 8, 3, 6)),
    "dictionary": (lambda x: x * {2: 1.0, 3: 2.0, 4: 3.0}[x.shape[0]], (2, 3, 4)),
}


@pytest.mark.parametrize("name", SPECIALISING)
def test_sizes_that_decide_something_are_guarded(name):
    fn, sizes = SPECIALISING[name]
    compiled = minicompile.compile(fn)
    for shape in shapes_of(*sizes):
        x = torch.randn(shape)
        assert_same(compiled(x), fn(x))


def test_only_the_dimension_that_varied_is_open():
    compiled = minicompile.compile(lambda x, y: (x * 2, y + 1), fullgraph=True)
    for size in (4, 9, 11):
        compiled(torch.randn(size, 9), torch.randn(3))
    facts = [str(guard) for guard in compiled.entries[-1].guards if " is a Tensor" in str(guard)]
    assert any("(?, 9)" in fact for fact in facts) and any("(3)" in fact for fact in facts)
    assert len(compiled.entries) == 2
    assert "dimension 0 is 9, compiled for 4" in str(compiled.recompiles[0])


def test_sizes_that_are_equal_by_chance_stay_apart():
    compiled = minicompile.compile(lambda x, y: (x.sum(0), y * 2), fullgraph=True)
    for first, second in ((2, 3), (8, 8), (5, 9), (9, 5), (4, 4)):
        x, y = torch.randn(first, second), torch.randn(second, 2)
        assert_same(compiled(x, y), (x.sum(0), y * 2))
    assert len(compiled.entries) == 2, compiled.recompiles


def test_sizes_that_the_program_needs_equal_are_one_symbol():
    compiled = minicompile.compile(lambda x, y: x + y)
    for size in (3, 8, 5):
        assert_same(compiled(torch.ones(size), torch.ones(size)), torch.full((size,), 2.0))
    assert len(compiled.entries) == 2
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.ones(4), torch.ones(6))


def test_sums_of_sizes_that_must_be_equal():
    def fn(a, b, c, d):
        return torch.cat([a, b]) + torch.cat([c, d]) * 2, torch.cat([a, b]).sum(0)

    compiled = minicompile.compile(fn, dynamic=True, fullgraph=True)
    for sizes in ((3, 4, 5, 2), (3, 4, 2, 5), (10, 2, 4, 8)):
        args = [torch.randn(size, 5) for size in sizes]
        assert_same(compiled(*args), fn(*args))
    assert len(compiled.entries) == 1


def written(view):
    def fn(x, y):
        z = x.clone()
        view(z, y.shape[0]).zero_()
        return z

    return fn


FROM_THE_END = {
    "start": lambda x, y: x[-y.shape[0] :] * 2,
    "half": lambda x, y: x[-y.shape[0] // 2 :] * 2,
    "stop": lambda x, y: x[: -y.shape[0]] * 2,
    "stride": lambda x, y: x[-y.shape[0] : -1 : 2] * 2,
    "beyond both ends": lambda x, y: (x[-3 * y.shape[0] :] * 2, x[3 * y.shape[0] :] * 2),
    "element": lambda x, y: x[-y.shape[0]] * x[1 - y.shape[0]],
    "narrow": lambda x, y: x.narrow(0, -y.shape[0], 1) * 2,
    "write to a start": written(lambda z, n: z[-n:]),
    "write to a stop": written(lambda z, n: z[:-n]),
    "write to an element": written(lambda z, n: z.select(0, -n)),
    "slice_scatter": lambda x, y: torch.slice_scatter(x, y[:1], 0, -y.shape[0], -y.shape[0] + 1),
}


@pytest.mark.parametrize("name", FROM_THE_END)
def test_places_counted_from_the_end_by_a_symbol(name):
    fn = FROM_THE_END[name]
    compiled = minicompile.compile(fn, dynamic=True, fullgraph=True)
    for rows, others in ((5, 3), (7, 2), (4, 3), (9, 8)):
        x, y = torch.arange(1.0, rows + 1), torch.randn(others)
        assert_same(compiled(x, y), fn(x, y))


def test_layouts_under_symbols():
    def fn(x):
        return x * 2 + x.mean(0), x.is_contiguous()

    compiled = minicompile.compile(fn)
    for size in (4, 7, 9):
        base = torch.randn(size, 6)
        for x in (base, base.t().contiguous().t(), torch.randn(size, 12)[:, ::2], base[:1].expand(size, 6)):
            assert_same(compiled(x), fn(x))


class Growing(nn.Module):
    """A cache that becomes longer with each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 0, 4))
        self.length = 0

    def forward(self, x):
        self.cache = torch.cat([self.cache, x], 1)
        self.length += x.shape[1]
        return (self.cache.softmax(1) * x).sum(1) / self.length


@pytest.mark.parametrize("dynamic", [True, None])
def test_a_buffer_that_grows_is_open_once_it_has_grown(dynamic):
    eager, model = Growing(), Growing()
    compiled = minicompile.compile(model, dynamic=dynamic, fullgraph=True)
    for _ in range(12):
        x = torch.randn(2, 1, 4)
        assert_same(compiled(x), eager(x))
    assert model.cache.shape == (2, 12, 4)
    assert len(compiled.entries) <= 4, compiled.recompiles  # of length 0, of 1, the first of more, all others


def test_a_buffer_that_never_varied_stays_as_it_is():
    model = nn.BatchNorm1d(6).eval()
    compiled = minicompile.compile(model, dynamic=True)
    compiled(torch.randn(4, 6))
    assert "self.running_mean is a Tensor torch.float32 (6)" in str(compiled.entries[0].guards)


def test_static_never_opens_a_size():
    compiled = minicompile.compile(lambda x: x * 2, dynamic=False)
    for size in (3, 4, 5):
        compiled(torch.ones(size))
    assert len(compiled.entries) == 3


# ---- marks ----


def test_marked_dimension_is_open_from_the_first_call():
    compiled = minicompile.compile(lambda xs: xs[0].sum(0) * xs[0].shape[0])
    for size in (4, 6, 9):
        x = torch.randn(size, 3)
        minicompile.mark_dynamic(x, 0, min=2, max=64)
        assert_same(compiled([x]), x.sum(0) * size)
    assert len(compiled.entries) == 1
    assert "xs[0].shape[0] <= 64" in [str(guard) for guard in compiled.entries[0].guards]
    assert_same(compiled([torch.ones(65, 3)]), torch.full((3,), 65.0 * 65))
    assert len(compiled.entries) == 2


@pytest.mark.parametrize("mark", [torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic])
def test_marks_of_torchs_count(mark):
    compiled = minicompile.compile(lambda x: x.sum(0) * x.shape[0])
    for size in (4, 6, 9):
        x = torch.randn(size, 3)
        mark(x, 0)
        assert_same(compiled(x), x.sum(0) * size)
    assert len(compiled.entries) == 1


def test_bounds_of_torchs_marks_count():
    compiled = minicompile.compile(lambda x: x.sum(0) * x.shape[0])
    for size, bounds in ((4, {"max": 64}), (6, {}), (65, {})):
        x = torch.randn(size, 3)
        torch._dynamo.mark_dynamic(x, 0, **bounds)
        assert_same(compiled(x), x.sum(0) * size)
    assert "x.shape[0] <= 64" in [str(guard) for guard in compiled.entries[0].guards]
    assert len(compiled.entries) == 2


def test_torchs_static_mark_keeps_a_dimension_a_number():
    compiled = minicompile.compile(lambda x: x * 2, dynamic=True)
    for size in (4, 6):
        x = torch.randn(size, 3)
        torch._dynamo.mark_static(x, 0)
        assert_same(compiled(x), x * 2)
    assert len(compiled.entries) == 2


def test_marks_are_checked():
    with pytest.raises(ValueError, match="size 3, which is not between 4 and"):
        minicompile.mark_dynamic(torch.ones(3), 0, min=4)
    with pytest.raises(IndexError):
        minicompile.mark_dynamic(torch.ones(3), 1)


def test_static_mark_keeps_a_dimension_a_number():
    compiled = minicompile.compile(lambda x: x * 2)
    for size in (4, 6, 9):
        x = torch.randn(size)
        minicompile.mark_static(x, 0)
        assert_same(compiled(x), x * 2)
    assert len(compiled.entries) == 3


# ---- a transformer ----


class Model(nn.Module):
    def __init__(self, width=32, heads=4, vocabulary=50, longest=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.register_buffer("mask", torch.ones(longest, longest).tril().bool())
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        weights = scores.masked_fill(~self.mask[:length, :length], float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_transformer_compiles_twice_for_thirty_shapes(train):
    torch.manual_seed(0)
    model, numbers = Model(), random.Random(0)
    compiled = minicompile.compile(model, fullgraph=True)
    pairs = [(3, 10), *((numbers.randint(2, 9), numbers.randint(2, 40)) for _ in range(29))]
    for batch, length in pairs:
        tokens = torch.randint(50, (batch, length))
        with torch.set_grad_enabled(train):
            assert_same(compiled(tokens), model(tokens))
            if train:
                assert_same(gradients(compiled, model, tokens), gradients(model, model, tokens))
    assert len(compiled.entries) == 2, [str(record) for record in compiled.recompiles]
    for pair in ((1, 12), (1, 30)):
        tokens = torch.randint(50, pair)
        with torch.set_grad_enabled(train):
            assert_same(compiled(tokens), model(tokens))
    assert len(compiled.entries) == 3, [str(record) for record in compiled.recompiles]


def gradients(call, model, tokens):
    return torch.autograd.grad(call(tokens).square().mean(), list(model.parameters()))


VIEWS = {
    "view": lambda x: x.view(-1, 4, 3) * 2,
    "reshape of a result": lambda x: (x + 1).reshape(-1, 4, 3).sum(1),
    "indexed": lambda x: (x * 2).view(-1, 4, 6)[:, 1] + 1,
    "groups": lambda x: x.view(4, -1, 6).transpose(0, 1).reshape(-1, 24) + 1,
    "divided size": lambda x: x.view(4, x.shape[0] // 4, 6).sum(1),
    "unflatten": lambda x: x.unflatten(0, (4, -1)) * 2,
    "softmax": lambda x: x.view(-1, 4, 3).softmax(1) + x.view(-1, 4, 3),
    "transposed": lambda x: x.t().reshape(-1, 4) * 2,
    "joined": lambda x: torch.cat([x, x * 2]).view(-1, 2, 3).mean(-1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", VIEWS)
def test_shapes_of_as_many_elements_assume_only_that_the_sizes_divide(name, dynamic):
    fn = VIEWS[name]
    compiled = minicompile.compile(fn, dynamic=dynamic, fullgraph=True)  # which refuses to run a graph in eager
    for rows in (8, 12, 16, 4, 40, 12):
        x = torch.randn(rows, 6)
        assert_same(compiled(x), fn(x))
    assert len(compiled.entries) <= 3, compiled.recompiles  # the third where a size of the result is 1
