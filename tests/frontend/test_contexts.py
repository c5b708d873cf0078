"""Torch's context managers, as blocks, functions and decorators: as in eager, in one graph where torch.compile does."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

import minicompile
from tests.support import assert_same

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
G = X.clone().requires_grad_()
ONE_GRAPH, CORRECT = Programs(), Programs()
one_graph, correct = ONE_GRAPH.program, CORRECT.program


@one_graph()
def set_grad_enabled_as_function(x: Tensor) -> Any:
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    return y.requires_grad, (x * 3).requires_grad, y


@one_graph()
def set_grad_enabled_as_block(x: Tensor) -> Any:
    with torch.set_grad_enabled(x.shape[0] > 100):
        y = x * 2
        inside = torch.is_grad_enabled()
    return y, inside, torch.is_grad_enabled(), x * 3


@one_graph()
def decorators_inside(x: Tensor) -> Any:
    @torch.no_grad()
    def frozen(t: Tensor) -> Tensor:
        return t * 2

    @torch.no_grad
    def frozen_too(t: Tensor) -> Tensor:
        return t * 3

    @torch.set_grad_enabled(False)
    def frozen_as_well(t: Tensor) -> Tensor:
        return t * 4

    return frozen(x), frozen_too(x), frozen_as_well(x), torch.is_grad_enabled(), x * 2


@torch.set_grad_enabled(False)
def outside_set(x: Tensor) -> Tensor:
    return x * 2


@torch.enable_grad()
def outside_enabled(x: Tensor) -> Tensor:
    return x * 2


@one_graph()
def decorators_outside(x: Tensor) -> Any:
    with torch.no_grad():
        y = outside_enabled(x)
    return outside_set(x), y


@one_graph()
def grad_mode_and_exceptions(x: Tensor) -> Any:
    log = []
    try:
        with torch.no_grad():
            log.append(torch.is_grad_enabled())
            raise ValueError
    except ValueError:
        log.append(torch.is_grad_enabled())
    with contextlib.suppress(KeyError), torch.no_grad():
        x = x * 2
        raise KeyError
    return x, log, torch.is_grad_enabled()


def attended(x: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


KERNELS = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]


@one_graph()
def kernels_of_attention(x: Tensor) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        y = attended(x[None, None])
    with sdpa_kernel(KERNELS, set_priority=True):
        return y, attended(x[None, None]), sdpa_kernel(SDPBackend.MATH)(attended)(x[None, None])


@torch.profiler.record_function("outside")
def in_a_range(x: Tensor) -> Tensor:
    return x * 2


@one_graph()
def ranges_of_a_profile(x: Tensor) -> Any:
    with record_function("block") as named, contextlib.suppress(ValueError):
        y = x + 1
        raise ValueError
    for step in range(3):
        with record_function(f"step {step}"):
            if step == 1:
                break
    return in_a_range(y), record_function("inside")(in_a_range)(x), isinstance(named, record_function), step


@one_graph()
def autocast_block(x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        inside = torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", enabled=False):
            z = x @ x.T
    return y, z, x @ x.T, inside


@one_graph()
def autocast_decorator(x: Tensor) -> Any:
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def product(t: Tensor) -> Tensor:
        return t @ t.T

    return product(x), x @ x.T


@one_graph()
def context_managers_from_contextlib(x: Tensor) -> Any:
    log: list[Any] = []

    @contextlib.contextmanager
    def manager(k: int) -> Any:
        log.append(("in", k))
        try:
            yield k
        finally:
            log.append(("out", k))

    with contextlib.ExitStack() as stack:
        a = stack.enter_context(manager(1))
        stack.callback(log.append, "callback")
        x = x * (a + 1)
    with contextlib.nullcontext(x) as y, manager(2):
        x = x + y

    @manager(5)
    def decorated(t: Tensor) -> Tensor:
        return t * 2

    return decorated(x), log


@correct()
def checkpointed(x: Tensor) -> Any:
    def block(t: Tensor) -> Tensor:
        return torch.relu(t * 2).sin()

    return checkpoint(block, x, use_reentrant=False) + 1


@correct()
def function_transforms(x: Tensor) -> Any:
    def loss(t: Tensor) -> Tensor:
        return (t**2).sum()

    return torch.func.grad(loss)(x), torch.func.vmap(loss)(x), torch.vmap(lambda t: t * 2)(x)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 20


@correct()
def autograd_function(x: Tensor) -> Any:
    return Double.apply(x + 1) * 3


@correct()
def numpy_calls(x: Tensor) -> Any:
    import numpy as np

    array = x.detach().numpy()
    return torch.from_numpy(np.sqrt(array + 1)) + x, float(array.sum()), array.shape


class Logged(torch.Tensor):
    pass


class Wrapper:
    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unwrapped = [a.value if isinstance(a, Wrapper) else a for a in args]
        return Wrapper(func(*unwrapped, **(kwargs or {})))


@correct()
def overriding_objects(x: Tensor) -> Any:
    w = Wrapper(x)
    return torch.add(w, 1).value, torch.relu(w).value, (x + w).value


@correct()
def tensor_subclass(x: Tensor) -> Any:
    y = x.detach().as_subclass(Logged)
    return type(y * 2) is Logged, (y + 1).as_subclass(Tensor)


@correct()
def saved_tensor_hooks(x: Tensor) -> Any:
    log: list[str] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: log.append("pack") or t, lambda t: t):
        y = (x * x).sum()
    return y, len(log) >= 1


@correct()
def device_and_dtype_contexts(x: Tensor) -> Any:
    with torch.device("cpu"):
        y = torch.zeros(2)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        z = torch.ones(2)
    finally:
        torch.set_default_dtype(before)
    return x + 1, y, z, torch.ones(1).dtype


@correct()
def random_state(x: Tensor) -> Any:
    torch.manual_seed(3)
    a = torch.rand(2)
    state = torch.get_rng_state()
    b = torch.rand(2)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        c = torch.rand(1)
    return x, a, b, c, torch.rand(2)


@one_graph()
def on_an_exit_stack(x: Tensor) -> Any:
    log: list[Any] = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        stack.enter_context(torch.no_grad())
        for mode in (True, False):
            stack.enter_context(torch.set_grad_enabled(mode))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        y = x @ x.T
        later = stack.pop_all()
        z = x @ x.T
    w = x * 2
    later.close()
    return y, z, w, x @ x.T, torch.is_grad_enabled(), log


@one_graph()
def entered_by_hand(x: Tensor) -> Any:
    manager = torch.no_grad()
    manager.__enter__()
    y = x * 2
    manager.__exit__(None, None, None)
    return y, x * 3, manager.prev


@correct()
def a_break_inside_an_exit_stack(x: Tensor) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        y = x @ x.T
        print("inside")
        z = x @ x.T
    return y, z, x @ x.T, torch.is_grad_enabled()


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph_like_eager(name: str) -> None:
    fn, _ = ONE_GRAPH[name]
    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        assert_same(compiled(G), fn(G))
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("name", CORRECT)
def test_like_eager(name: str) -> None:
    fn, _ = CORRECT[name]
    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        assert_same(compiled(G), fn(G))
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("fn", [checkpointed, autograd_function], ids=lambda fn: fn.__name__)
def test_gradients(fn: Any) -> None:
    compiled = minicompile.compile(fn)
    grads = [torch.autograd.grad(f(G).sum(), G)[0] for f in (fn, compiled, compiled)]
    assert_same(grads[1], grads[0])
    assert_same(grads[2], grads[0])


def test_a_mode_that_is_left_on() -> None:
    def fn(x: Tensor) -> Tensor:
        torch.set_grad_enabled(False)
        return x * 2

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        try:
            y = compiled(G)
            assert not torch.is_grad_enabled() and not y.requires_grad
        finally:
            torch.set_grad_enabled(True)


def test_a_break_inside_every_torch_context() -> None:
    def fn(x: Tensor, log: list[Any]) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            print("inside")
            log.append(torch.is_autocast_enabled("cpu"))
            z = y @ y
        log.append(torch.is_autocast_enabled("cpu"))
        return y, z, x @ x.T

    assert_like_eager(fn, (X, []))


def test_a_break_inside_ranges_and_kernels() -> None:
    def fn(x: Tensor) -> Any:
        with record_function("block") as named:
            y = x + 1
            print("inside", named.name)
            y = y * 2
        with sdpa_kernel(SDPBackend.MATH):
            z = attended(y[None, None])
            print("inside", torch._C._get_flash_sdp_enabled())
            z = attended(z)
        print("outside", torch._C._get_flash_sdp_enabled())
        return z + 1

    assert_like_eager(fn, (X,))


def test_kernels_of_a_graph_that_raises() -> None:
    def fn(x: Tensor, row: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return attended(x[row][None, None])

    for compiled in (minicompile.compile(fn, backend="eager"), minicompile.compile(fn)):
        for row in (1, 9):
            with contextlib.suppress(IndexError):
                assert_same(compiled(X, torch.tensor([row])), fn(X, torch.tensor([row])))
            assert torch._C._get_flash_sdp_enabled()
