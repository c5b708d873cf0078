"""The guard on torch's global state: what it notices, with and without tensors beside it, and what it forgives."""

import threading
from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minicompile.guards.state import GlobalStateGuard
from minicompile.guards.tensors import TensorGuard

from .support import Checked, X


@contextmanager
def setting(set_value, value, before):
    set_value(value)
    try:
        yield
    finally:
        set_value(before)


class Mode(torch.overrides.TorchFunctionMode):
    pass


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


CHANGES = {
    "no_grad": (torch.no_grad, "grad mode is off, compiled for on"),
    "inference_mode": (torch.inference_mode, "inference mode is on, compiled for off"),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), "autocast"),
    "autocast cuda": (lambda: setting(lambda on: torch.set_autocast_enabled("cuda", on), True, False), "autocast"),
    "default dtype": (
        lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
        "the default dtype changed",
    ),
    "deterministic": (
        lambda: setting(torch.use_deterministic_algorithms, True, False),
        "torch.use_deterministic_algorithms changed",
    ),
    "matmul precision": (
        lambda: setting(torch.set_float32_matmul_precision, "high", "highest"),
        "float32 matmul precision changed",
    ),
    "default device": (lambda: torch.device("meta"), "torch function modes"),
    "function mode": (Mode, "torch function modes"),
    "dispatch mode": (Dispatch, "torch dispatch modes"),
    "torch function off": (torch._C.DisableTorchFunctionSubclass, "__torch_function__"),
    "all torch function off": (torch._C.DisableTorchFunction, "__torch_function__"),
}


@pytest.mark.parametrize("with_tensor", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change, with_tensor):
    make, words = CHANGES[change]
    x = torch.randn(3)
    checked = Checked(GlobalStateGuard(), *([TensorGuard.of(X, x)] if with_tensor else []))
    assert checked.hit(x) and checked.why(x) == []
    with make():
        hit, why = checked.hit(x), checked.why(x)
    assert not hit
    assert len(why) == 1 and words in why[0], why
    assert checked.hit(x)


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "dispatch mode"])
def test_compiled_under_the_change(change):
    make, _ = CHANGES[change]
    x = torch.randn(3)
    context = make()
    with context:
        checked = Checked(GlobalStateGuard())
        assert checked.hit(x) and checked.why(x) == []
    assert not checked.hit(x) and len(checked.why(x)) == 1


def test_inference_mode_inside_no_grad_is_noticed():
    with torch.no_grad():
        checked = Checked(GlobalStateGuard())
        with torch.inference_mode():
            assert not checked.hit()
            assert checked.why() == ["inference mode is on, compiled for off"]


def test_autocast_dtype_and_cache_count_only_while_it_is_on():
    with torch.autocast("cpu", torch.bfloat16):
        checked = Checked(GlobalStateGuard())
        with torch.autocast("cpu", torch.float16):
            assert not checked.hit()
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            assert not checked.hit()
    off = Checked(GlobalStateGuard())
    with setting(lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16):
        assert off.hit()


def test_functorch_transforms():
    checked = Checked(GlobalStateGuard())
    hits = []
    torch.vmap(lambda row: hits.append(checked.hit()) or row)(torch.randn(2, 3))
    torch.func.grad(lambda v: hits.append(checked.hit()) or v.sum())(torch.randn(3))
    assert hits == [False, False]


def test_functorch_transforms_are_seen_by_the_tensor_check():
    x = torch.randn(3)
    checked = Checked(GlobalStateGuard(), TensorGuard.of(X, x))
    hits = []
    torch.vmap(lambda row: hits.append(checked.hit(x)) or row)(torch.randn(2, 3))
    assert hits == [False] and checked.hit(x)


def test_another_default_device_of_the_same_kind_of_mode():
    with torch.device("meta"):
        checked = Checked(GlobalStateGuard())
    with torch.device("meta"):
        assert checked.hit()
    with torch.device("cpu"):
        assert not checked.hit()


def test_the_number_of_threads_is_forgiven():
    before = torch.get_num_threads()
    checked = Checked(GlobalStateGuard())
    with setting(torch.set_num_threads, before + 1, before):
        assert checked.hit() and checked.why() == []
        with torch.no_grad():
            assert not checked.hit()


def test_another_thread_may_use_the_entry():
    x = torch.randn(3)
    checked = Checked(GlobalStateGuard(), TensorGuard.of(X, x))
    hits = []
    thread = threading.Thread(target=lambda: hits.append(checked.hit(x)))
    thread.start()
    thread.join()
    assert hits == [True]
