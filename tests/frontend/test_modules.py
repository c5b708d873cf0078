"""nn.Module in all its uses: one graph, as in eager."""

# ruff: noqa: E501 (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import minicompile
from tests.support import assert_same

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
MODULES = Programs()
module = MODULES.program


@module()
def sequential() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.LayerNorm(4), nn.Identity()))


class Lists(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "relu": nn.ReLU()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4) * k) for k in range(2)])
        self.shifts = nn.ParameterDict({"s": nn.Parameter(torch.ones(4))})

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x) * (i + 1)
        x = self.layers[-1](x) + self.layers[0:2][1](x)
        for name, layer in self.named.items():
            x = layer(x) if name != "b" else x
        if "a" in self.named and len(self.layers) == 3:
            x = self.named["a"](x)
        for scale in self.scales:
            x = x + scale
        return x + self.shifts["s"]


@module()
def lists() -> nn.Module:
    return Lists()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Any:
        return self.head(x), self.embed.weight.sum(), self.head.weight is self.embed.weight


@module()
def weight_tying() -> nn.Module:
    return Tied()


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.count = 0
        self.history: list[Any] = []
        self.cache: Any = None

    def forward(self, x: Tensor) -> Any:
        self.total += x.sum(0)
        self.history.append(x.shape[0])
        self.cache = x * 2
        if self.training:
            x = x + 1
        self.total = self.total * 2
        return x + self.total, len(self.history), self.cache


@module()
def attributes_changed_in_forward() -> nn.Module:
    return Stateful()


class Constructing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        block = nn.Sequential(nn.ReLU(), nn.Softmax(dim=-1))
        pool = nn.AvgPool1d(2)
        drop = nn.Dropout(0.5).eval()
        return pool(block(x) + nn.Identity()(x)) + drop(nn.GELU()(x)).sum()


@module()
def constructed_in_forward() -> nn.Module:
    return Constructing()


class Doubling(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.inner = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.k


class ConstructingOwn(nn.Module):
    def forward(self, x: Tensor) -> Any:
        made = Doubling(3)
        return made(x), made.training, len(list(made.children()))


@module()
def own_module_constructed_in_forward() -> nn.Module:
    return ConstructingOwn()


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.log: list[str] = []
        self.linear.register_forward_pre_hook(self.before)
        self.linear.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
        self.linear.register_forward_hook(lambda m, args, out: out + 1)
        self.linear.register_forward_hook(self.after)

    def before(self, module: nn.Module, args: Any) -> Any:
        self.log.append("before")
        return (args[0] + 1,)

    def after(self, module: nn.Module, args: Any, out: Tensor) -> None:
        self.log.append(str(tuple(out.shape)))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


@module()
def forward_hooks() -> nn.Module:
    return Hooked()


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).transpose(-1, -2)


@module()
def parametrization() -> nn.Module:
    linear = nn.Linear(4, 4)
    parametrize.register_parametrization(linear, "weight", Symmetric())
    return nn.Sequential(linear, nn.ReLU())


@module()
def weight_norm() -> nn.Module:
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)))


class Introspective(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_parameter("none", None)
        self.register_buffer("skipped", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Any:
        total = sum(p.sum() for p in self.parameters())
        names = [name for name, _ in self.named_parameters()]
        kinds = [type(m).__name__ for m in self.modules()]
        children = [name for name, _ in self.named_children()]
        buffers = dict(self.named_buffers())
        return (
            self.b(self.a(x)) * total, names, kinds, children, list(buffers), self.none, hasattr(self, "a"), hasattr(self, "zz"), getattr(self, "zz", None),
            self.a.weight.shape, next(self.parameters()).device, len(self.b), isinstance(self.a, nn.Linear), self.training, self.b[0].in_features, self.get_submodule("b.0") is self.b[0],
        )  # fmt: skip


@module()
def introspection() -> nn.Module:
    return Introspective()


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        return x + self.inner(x, **options)


class Base(nn.Module):
    scale = 2

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.act = F.relu
        self.fns = {"tanh": torch.tanh}
        self.norm = nn.BatchNorm1d(4)

    @property
    def width(self) -> int:
        return self.lin.in_features

    def step(self, x: Tensor, bias: float = 0.0) -> Tensor:
        return self.act(self.lin(x)) * self.scale + bias

    def forward(self, x: Tensor, bias: float = 0.0) -> Tensor:
        return self.norm(self.fns["tanh"](self.step(x, bias=bias))) * self.width


class Derived(Base):
    scale = 3

    def forward(self, x: Tensor, bias: float = 1.0) -> Tensor:
        return super().forward(x, bias=bias) + 1


@module()
def inheritance_and_attributes() -> nn.Module:
    return Residual(Derived())


class Rnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        h = x.new_zeros(2, 4)
        for _ in range(3):
            h = self.cell(x, h)
        out, weights = self.attention(h[None], h[None], h[None])
        return out, weights


@module()
def cells_and_attention() -> nn.Module:
    return Rnn()


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_one_graph_like_eager(name: str, mode: str) -> None:
    import copy

    torch.manual_seed(0)
    make, _ = MODULES[name]
    eager = make().train(mode == "train")
    other = copy.deepcopy(eager)
    compiled = minicompile.compile(other, backend="eager", fullgraph=True)
    for _ in range(3):
        assert_same(compiled(X), eager(X))
    assert_same(dict(other.state_dict()), dict(eager.state_dict()))
    assert getattr(other, "log", None) == getattr(eager, "log", None)


def test_hooks_that_come_and_go() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = minicompile.compile(model, backend="eager")
    expected = model(X)
    assert_same(compiled(X), expected)
    handle = model[0].register_forward_hook(lambda m, args, out: out * 0)
    assert_same(compiled(X), torch.zeros(2, 4, requires_grad=True) * 1)
    handle.remove()
    assert_same(compiled(X), expected)
    with_root = model.register_forward_hook(lambda m, args, out: out + 5)
    assert_same(compiled(X), expected + 5)
    with_root.remove()
    assert_same(compiled(X), expected)


def test_a_made_module_goes_out() -> None:
    def fn(x: Tensor) -> Any:
        made = Doubling(2)
        return made(x), made

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        result, made = compiled(X)
        assert_same(result, fn(X)[0])
        assert repr(made) == repr(Doubling(2)) and made.training and made.inner.training
        assert_same(made(X), Doubling(2)(X))


def test_parameters_made_in_forward_break_cleanly() -> None:
    def fn(x: Tensor) -> Any:
        torch.manual_seed(0)
        linear = nn.Linear(4, 4)
        return linear(x), sum(p.numel() for p in linear.parameters())

    assert_like_eager(fn, (X,))


class LazyScale(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """A lazy module of the program's own, whose class stays."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.UninitializedParameter()

    def initialize_parameters(self, x: Tensor) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.w.materialize((x.shape[-1],))
                self.w.copy_(torch.rand(x.shape[-1]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


class Lazily(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.scale, self.calls = nn.LazyLinear(4), nn.LazyBatchNorm1d(), LazyScale(), 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.scale(self.norm(self.linear(x))), self.calls


@pytest.mark.parametrize("make", [Lazily, lambda: nn.LazyLinear(3), lambda: nn.Sequential(nn.ReLU(), nn.LazyLinear(3))])
def test_lazy_modules_make_their_parameters_in_eager(make: Any) -> None:
    found = []
    for wrap in (lambda model: model, lambda model: minicompile.compile(model, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        model = make()
        compiled = wrap(model)
        results = [compiled(X) for _ in range(3)]
        found.append((results, torch.rand(3), dict(model.state_dict()), repr(model)))
        if compiled is not model:
            assert not compiled.breaks
            assert sum(entry.eager is None for entry in compiled.entries) <= 2  # a count varies
    assert_same(found[1], found[0])
