"""autograd.Function and activation checkpointing within compiled functions: values, gradients, and what is kept."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import minicompile
from tests.training.support import check, compiled_graph

from .conftest import assert_like_eager
from .programs import Programs

X = torch.arange(8.0).reshape(2, 4) / 8
R = X.clone().requires_grad_()
Y = (X + 1).requires_grad_()
W = torch.nn.Parameter(torch.arange(4.0))
NET = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
CALLS, EAGER = Programs(), Programs()
LOG: list[Any] = []


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.scale * g, None


class Several(Function):
    @staticmethod
    def forward(ctx, x, y, k=3):
        assert not torch.is_grad_enabled()
        z = x.exp()
        ctx.z, ctx.k = z, k
        ctx.save_for_backward(y, x + y)
        ctx.mark_non_differentiable(mask := (x > 0))
        return z * y, mask, None

    @staticmethod
    @once_differentiable
    def backward(ctx, g, gmask, gnone):
        y, s = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            gx = g * ctx.z * y
        if ctx.needs_input_grad[1]:
            gy = g * ctx.z + 0 * s
        return gx, gy, None


class InTwoParts(Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.k = inputs

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -g


class FromAround(Function):
    @staticmethod
    def forward(ctx, x):
        return x * W

    @staticmethod
    def backward(ctx, g):
        return g * W * 2


class Logging(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        LOG.append("backward")
        return g * 2


class Doubling(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Pair(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 + b * 3 + 1


class Largest(Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.max(1)
        ctx.mark_non_differentiable(places)
        ctx.places, ctx.shape = places, x.shape
        return values, places

    @staticmethod
    def backward(ctx, g, _):
        return torch.zeros(ctx.shape).scatter(1, ctx.places[:, None], g[:, None])


class Rounded(Function):
    """Leaves zeros of gradients out; what stands beside its one result has none."""

    @staticmethod
    def forward(x):
        return x.round(), x > 0, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, g, positive, doubled):
        assert positive is None and doubled is None
        return g * 3


class Scaling(Function):
    """Changes its first argument in place; what it saves is the argument as changed."""

    @staticmethod
    def forward(ctx, x, scale):
        x.mul_(scale)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x, scale)
        return x

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        return g * scale, g * x / scale


class Optional(Function):
    """Tells which gradients there are; of the last result there is none."""

    @staticmethod
    def forward(x, y):
        x.exp_()
        return x, x * y, x > 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx, a, b, c):
        (x,) = ctx.saved_tensors
        assert c is None
        if a is None or b is None:
            return (x * 5, None) if a is None else (a * x * 7, None)
        return (a + b) * x, b * x


def _used(*places):
    def run(x, y):
        t = x * 1
        results = Optional.apply(t, y)
        assert results[0] is t
        return sum(results[place] * 2 for place in places)

    return run


class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b * 2, g * a * 3


class Row(Function):
    @staticmethod
    def forward(ctx, x):
        return x[0]

    @staticmethod
    def backward(ctx, g):
        return torch.stack([g, g * 0])


class Counting(Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counting.calls += 1
        ctx.calls = Counting.calls
        return x * ctx.calls

    @staticmethod
    def backward(ctx, g):
        return g * ctx.calls


def _counted(x):
    Counting.calls = 0
    return Counting.apply(x) + Counting.apply(x)


for _name, _args, _fn in [
    ("an_unused_result", (R,), lambda x: Pair.apply(x)[1]),
    ("indices", (R,), lambda x: Largest.apply(x)),
    ("one_gradient_of_three", (R,), lambda x: Rounded.apply(x * 1)[:2]),
    ("a_view", (R,), lambda x: Row.apply(x) * 2),
    ("counted", (R,), _counted),
    ("as_a_function", (R,), lambda x: list(map(Square.apply, [x]))[0]),
    ("a_view_of_a_checkpoint", (R,), lambda x: checkpoint(lambda t: t.sin(), x, use_reentrant=False).view(-1).mul_(2)),
    ("in_place", (R, Y), lambda x, y: (lambda t: (Scaling.apply(t, y).sin(), t + 1))(x * 3)),
    ("in_a_view", (R, Y), lambda x, y: (lambda t: (Scaling.apply(t[0], y[1]) * 2, t.exp()))(x * 3)),
    ("in_place_twice", (R, Y), lambda x, y: Doubling.apply(Doubling.apply(x * y)) * 2),
    ("without_the_first_gradient", (R, Y), _used(1)),
    ("without_the_second_gradient", (R, Y), _used(0)),
    ("with_both_gradients", (R, Y), _used(0, 1)),
    ("one_tensor_twice", (R,), lambda x: Product.apply(x, x) + Product.apply(x * 2, x)),
    ("one_tensor_twice_of_three", (R, Y), lambda x, y: (lambda t: Product.apply(t, t) * t + y)(x * y)),
    ("one", (R,), lambda x: Square.apply(x) + 1),
    ("one_in_another", (R,), lambda x: Square.apply(Square.apply(x * 2)) + x),
    ("attributes", (R,), lambda x: Reverse.apply(x * 2, 0.5)),
    ("several_results", (R, Y), lambda x, y: Several.apply(x * 1, y, 2)[0] * 2),
    ("a_gradient_less", (R, X), lambda x, y: Several.apply(x * 1, y)[0] * 2),
    ("in_two_parts", (R,), lambda x: InTwoParts.apply(x, 3)),
    ("an_argument_returned", (R,), lambda x: Same.apply(x * 1) * 2),
    ("a_leaf_returned", (R,), lambda x: Same.apply(x) * 2),
    ("reads_a_global", (R,), lambda x: FromAround.apply(x)),
    ("without_gradients", (R,), lambda x: (Square.apply(x.detach()), Square.apply(x))),
    ("checkpoint", (R,), lambda x: checkpoint(lambda t: t.sin().exp() @ t.T, x * 2, use_reentrant=False) + 1),
    ("reentrant", (R,), lambda x: checkpoint(lambda t: t.sin().exp() @ t.T, x * 2, use_reentrant=True) + 1),
    ("of_a_module", (R,), lambda x: checkpoint(NET, x, use_reentrant=False)),
    ("tree", (R,), lambda x: checkpoint(lambda t, k: (t * k, {"a": t + k, "b": 3}), x * 2, 3, use_reentrant=False)[1]["a"] + 1),
    ("keywords", (R,), lambda x: checkpoint(lambda t, k=1: t * k, x * 2, k=3, use_reentrant=False, preserve_rng_state=False)),
    ("reads_around", (R,), lambda x: (lambda y: checkpoint(lambda t: t * y, x, use_reentrant=False))(x + 1)),
    ("partial", (R,), lambda x: functools.partial(checkpoint, use_reentrant=False)(lambda t: t * 2, x)),
    ("nested", (R,), lambda x: checkpoint(lambda t: checkpoint(lambda u: u.sin() * 2, t, use_reentrant=False).cos(), x, use_reentrant=False)),
    ("custom_in_checkpoint", (R,), lambda x: checkpoint(lambda t: Square.apply(t.sin()).sum(), x, use_reentrant=False)),
]:  # fmt: skip
    CALLS[_name] = (_fn, _args)


@pytest.mark.parametrize("target", ["eager", "auto"])
@pytest.mark.parametrize("name", CALLS)
def test_gradients(name: str, target: str) -> None:
    fn, args = CALLS[name]
    compiled = check(fn, *args, backend=target)
    assert len(compiled.entries) == 1


def test_what_was_passed_in_is_changed() -> None:
    """By a function that marks it as dirty: it has the gradient's history from then on; without gradients, none."""
    for y in (Y, Y.detach()):
        found = []
        for call in (Scaling.apply, minicompile.compile(lambda x, y: Scaling.apply(x, y), fullgraph=True)):
            x = X.clone()
            result = call(x, y)
            assert result is x and x.requires_grad == y.requires_grad
            found += [x.detach(), *(torch.autograd.grad(x.sum(), y) if y.requires_grad else ())]
        half = len(found) // 2
        torch.testing.assert_close(found[half:], found[:half])


@pytest.mark.parametrize("cls", [Square, Same, Several, FromAround])
@pytest.mark.usefixtures("door")
def test_without_gradients_forward_is_in_the_graph(cls: Any) -> None:
    args = (X, X + 1) if cls is Several else (X,)
    assert_like_eager(lambda *a: cls.apply(*a), args, fullgraph=True)


def _appends(x: Any) -> Any:
    seen: list[Any] = []

    def f(t: Any) -> Any:
        seen.append(1)
        return t * 2

    return checkpoint(f, x, use_reentrant=False) + len(seen)


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, t: Any) -> Any:
        self.calls += 1
        return t * self.calls


def _counts(x: Any) -> Any:
    m = Counted()
    return checkpoint(m, x, use_reentrant=False) + m.calls


def _prints(x: Any) -> Any:
    return checkpoint(lambda t: print("run") or t * 2, x, use_reentrant=False) + 1


def _writes(x: Any) -> Any:
    y = torch.zeros(2, 4)
    return checkpoint(lambda t: t * 2 + y.add_(1), x, use_reentrant=False) + y


@pytest.mark.parametrize("fn", [_appends, _counts, _prints, _writes, Logging.apply, lambda x: Doubling.apply(x * 1)])
def test_effects_are_eagers(fn: Any, capsys: Any) -> None:
    """What a function changes that runs twice, or in backward, is changed as often as in eager."""
    printed, logged = [], []
    for call in (fn, minicompile.compile(fn, backend="eager")):
        x = X.clone().requires_grad_()
        LOG.clear()
        out = call(x)
        out.sum().backward()
        printed.append((capsys.readouterr().out, out.detach(), x.grad))
        logged.append(list(LOG))
    assert printed[0][0] == printed[1][0] and logged[0] == logged[1]
    torch.testing.assert_close(printed[1][1:], printed[0][1:])


class Keeping(Function):
    @staticmethod
    def forward(ctx, x, weights):
        ctx.weights = weights
        return x * weights[0]

    @staticmethod
    def backward(ctx, g):
        return g * sum(ctx.weights), None


def _keeps_a_list(x: Any) -> Any:
    weights = [2.0]
    out = Keeping.apply(x, weights)
    weights.append(5.0)
    return out


class Scaled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * len(LOG)


def test_what_backward_sees_is_of_its_time() -> None:
    """A list on ctx, or a global, that changes before backward runs."""
    for fn in (_keeps_a_list, Scaled.apply):
        gradients = []
        for call in (fn, minicompile.compile(fn, backend="eager")):
            x = X.clone().requires_grad_()
            LOG.clear()
            out = call(x)
            LOG.extend([1, 2, 3])
            out.sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[1], gradients[0])


def test_messages_name_the_users_class() -> None:
    class Narrow(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g[:1]

    out = minicompile.compile(lambda x: Narrow.apply(x), backend="eager", fullgraph=True)(R)
    with pytest.raises(RuntimeError, match="NarrowBackward returned an invalid gradient"):
        out.sum().backward()


def test_a_gradient_of_a_gradient() -> None:
    def f(x: Any) -> Any:
        (g,) = torch.autograd.grad(Square.apply(x).pow(2).sum(), x, create_graph=True)
        return g.pow(2).sum()

    found = []
    for call in (f, minicompile.compile(f)):
        x = X.clone().requires_grad_()
        call(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


def test_what_is_checkpointed_is_not_kept() -> None:
    """As in eager, and as without checkpointing more is: the function's input is all that backward gets."""

    def f(t: Any) -> Any:
        return (t.sin() @ t.cos()).tanh().sum(0).exp()

    x = torch.rand(64, 64, requires_grad=True)
    kept = []
    for fn in (lambda t: f(t) * 2, lambda t: checkpoint(f, t, use_reentrant=False) * 2):
        compiled = minicompile.compile(fn, fullgraph=True)
        compiled(x).sum().backward()
        kept.append(compiled_graph(compiled).split.saved_bytes)
    assert kept[1] == x.numel() * x.itemsize < kept[0]


def test_a_backward_that_is_replaced_is_seen() -> None:
    class Mine(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    compiled = minicompile.compile(lambda x: Mine.apply(x), backend="eager", fullgraph=True)
    for factor in (2, 7):
        Mine.backward = staticmethod(lambda ctx, g, factor=factor: g * factor)  # type: ignore[method-assign]
        x = X.clone().requires_grad_()
        compiled(x).sum().backward()
        assert x.grad is not None and x.grad.flatten()[0] == factor


def test_a_saved_tensor_that_was_changed_is_an_error() -> None:
    compiled = minicompile.compile(lambda x: Square.apply(x), backend="eager", fullgraph=True)
    x = X.clone().requires_grad_() * 1
    out = compiled(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
