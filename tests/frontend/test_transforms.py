"""torch.func within compiled functions: in one graph where the function is pure, as in eager where it is not."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch.func import (
    functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap,
)

import minicompile

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE, BROKEN = Programs(), Programs()
batched = vmap(lambda row, k: row * k, in_dims=(0, None))
cubed = grad(lambda t: (t**3).sum())
both = grad_and_value(lambda t: (t**3).sum())


NET = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


# ---- in one graph ----


@WHOLE.program(X)
def made_before(x):
    return batched(x, 2.0), batched(x, x[0]), cubed(x), both(x)


@WHOLE.program(X)
def dims(x):
    a = vmap(lambda a, b: a * b["k"], in_dims=(1, {"k": 0}), out_dims=1)(x, {"k": x.T})
    return a, vmap(torch.dot)(x, x), vmap(lambda a: (a.sum(), [a, a + 1]), out_dims=(0, 1))(x), vmap(torch.sum, -1)(x)


@WHOLE.program(X)
def options(x):
    rows = vmap(lambda a: a.sin(), chunk_size=1)(x)
    return rows, vmap(torch.softmax)(x, dim=0), functools.partial(vmap, in_dims=1)(torch.sum)(x)


@WHOLE.program(X)
def reads_from_around(x):
    y = x + 1
    return vmap(lambda a: a + y.sum() + y[0].contiguous())(x), y * 2


@WHOLE.program(X)
def nested(x):
    inner = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))
    return vmap(vmap(lambda a: a * 2))(x), inner(x, x), grad(grad(grad(lambda t: t**4)))(x.sum()), vmap(grad(lambda t: (t**2).sum()))(x)


@WHOLE.program(X)
def auxiliary(x):
    a = grad(lambda t, u: ((t * u).sum(), {"a": t + 1}), has_aux=True, argnums=1)(x, x)
    return a, grad_and_value(lambda t: (t.sum(), t), has_aux=True)(x), jacrev(lambda t: (t.sin(), t), has_aux=True)(x[0])


@WHOLE.program(X)
def argument_numbers(x):
    a = grad(lambda t, u: (t * u * u).sum(), argnums=(0, -1))(x, x + 1)
    return a, grad(lambda d: (d["a"] ** 2).sum())({"a": x}), jacrev(lambda a, b: (a * b, {"k": a.sum()}), argnums=(0, 1))(x, x)


@WHOLE.program(X)
def jacobians(x):
    return jacfwd(torch.sin)(x[0]), jacrev(lambda t: t.sum(0) ** 2)(x), hessian(lambda t: (t**3).sum())(x)


@WHOLE.program(X)
def pullbacks(x):
    out, pull, aux = vjp(lambda a, b: ((a * b, a.sum()), {"z": a}), x, x + 1, has_aux=True)
    return out, pull(out), aux, pull((x, x.sum())), vjp(torch.sin, x)[1](x)


@WHOLE.program(X)
def pushforwards(x):
    return jvp(lambda a, b: a * b, (x, x), (x, x + 1)), jvp(lambda a: (a, a.sum()), (x,), (x,), has_aux=True)


@WHOLE.program(X)
def per_sample_gradients(x):
    params = {k: v.detach() for k, v in NET.named_parameters()}

    def loss(p, s):
        return functional_call(NET, p, (s,)).sum()

    return vmap(grad(loss), in_dims=(None, 0))(params, x)


@WHOLE.program(X)
def other_parameters(x):
    return functional_call(NET, {k: v.detach() * 2 for k, v in NET.named_parameters()}, x), NET(x).detach()


@WHOLE.program(X)
def effects_happen_once(x):
    log = []

    def f(t):
        log.append(len(log))
        return (t * t).sum()

    return grad(f)(x), vmap(lambda t: log.append("v") or t)(x), log


@WHOLE.program(X)
def changes_what_it_made(x):
    return vmap(lambda t: t.clone().mul_(2))(x)


@WHOLE.program(X)
def modes(x):
    def f(t):
        with torch.no_grad():
            u = t * 2
        return (u * t).sum() * torch.is_grad_enabled()

    with torch.no_grad():
        inside = grad(f)(x)
    return grad(f)(x), inside, torch.is_grad_enabled()


@WHOLE.program(X)
def in_a_loop(x):
    return [vmap(lambda t: t * i)(x) for i in range(3)]


@WHOLE.program(X.clone().requires_grad_())
def differentiated_again(x):
    return grad(lambda t: (t**3).sum())(x)


@WHOLE.program(X)
def shapes(x):
    def f(t):
        assert t.dim() == 1 and t.shape == (4,)
        return t.reshape(2, 2) @ t.view(2, 2)

    return vmap(f)(x)


# ---- left to eager, wholly or in part ----


@BROKEN.program(X)
def result_escapes(x):
    log = []
    a = vmap(lambda t: log.append(t * 2) or t)(x)
    return a, len(log)


@BROKEN.program(X)
def prints(x):
    return grad(lambda t: print("hi") or (t * t).sum())(x) + 1


@BROKEN.program(X)
def changes_its_argument(x):
    y = x + 1
    return vmap(lambda t: t.mul_(2))(y), y


@BROKEN.program(X)
def branches(x):
    try:
        return vmap(lambda t: t.sum() > 0 and t)(x)
    except Exception as e:
        return type(e).__name__, str(e)


@BROKEN.program(X)
def constants_beside_gradients(x):
    try:
        return grad(lambda t: (t.sum(), 3), has_aux=True)(x)
    except RuntimeError as e:
        return str(e)


@BROKEN.program(X)
def looks_at_requires_grad(x):
    return grad(lambda t: (t * 2 if t.requires_grad and x.requires_grad is False else t).sum())(x)


@BROKEN.program(X)
def pullback_escapes(x):
    return vjp(torch.sin, x)[1], x + 1


@BROKEN.program(X)
def writes_buffers(x):
    m = torch.nn.BatchNorm1d(4)
    return functional_call(m, {k: v.detach() for k, v in m.named_parameters()}, (x,)), m.running_mean.clone()


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


@pytest.mark.parametrize("name", sorted(set(BROKEN) - {"pullback_escapes"}))
def test_with_breaks(name: str) -> None:
    fn, args = BROKEN[name]
    assert_like_eager(fn, args, eager=True)


def test_a_pullback_that_is_returned_is_a_real_one() -> None:
    pull, _ = minicompile.compile(BROKEN["pullback_escapes"][0], backend="eager")(X)
    torch.testing.assert_close(pull(X)[0], X * X.cos())


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in ("differentiated_again", "effects_happen_once")])
def test_through_our_own_lowering(name: str) -> None:
    fn, args = WHOLE[name]
    compiled = minicompile.compile(fn, fullgraph=True)
    torch.testing.assert_close(compiled(*args), fn(*args))
    assert not any(getattr(graph.compiled, "reason", None) for entry in compiled.entries for graph in entry.graphs)


def _cubes(t: Any) -> Any:
    return (t**3).sin().sum()


@pytest.mark.parametrize(
    "made", [vmap(_cubes), grad(_cubes), vmap(grad(_cubes)), jacrev(torch.sin), jacfwd(torch.sin), hessian(_cubes)]
)
@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_what_a_transform_returns_is_compiled_itself(made: Any, backend: str) -> None:
    compiled = minicompile.compile(made, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(X), made(X))
    assert [len(entry.graphs) for entry in compiled.entries] == [1]


def test_a_replaced_function_is_seen() -> None:
    power = 2

    def loss(t: Any) -> Any:
        return (t**power).sum()

    compiled = minicompile.compile(lambda t: grad(loss)(t), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), 2 * X)
    power = 3
    torch.testing.assert_close(compiled(X), 3 * X**2)


def test_sizes_may_be_symbols() -> None:
    compiled = minicompile.compile(lambda t: vmap(lambda r: r * t.shape[0] + r.sum())(t), dynamic=True, fullgraph=True)
    for n in (3, 5, 7):
        x = torch.rand(n, 4)
        torch.testing.assert_close(compiled(x), x * n + x.sum(1, keepdim=True))
    assert len(compiled.entries) == 1
