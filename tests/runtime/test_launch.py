"""Calling kernels: arguments in, errors out, through the C type and through ctypes."""

from __future__ import annotations

import sys
import timeit

import pytest
import torch

from minicompile.errors import KernelError, MinicompileError
from minicompile.runtime import launch
from minicompile.runtime.compiler import compiler
from minicompile.runtime.cpp_build import build_shared_object

from .ticking import ticks_during

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

MANY = 40
SOURCE = """
typedef long int64_t;
extern "C" int usleep(unsigned);
extern "C" int add(void **b, const int64_t *s) {
    float *out = (float *)b[0], *x = (float *)b[1], *y = (float *)b[2];
    for (int64_t i = 0; i < s[0]; i++) out[i] = x[i] + y[i];
    return 0;
}
extern "C" int fail(void **, const int64_t *s) { return (int)s[0]; }
extern "C" int nothing(void **, const int64_t *) { return 0; }
extern "C" int sleep(void **, const int64_t *s) { usleep((unsigned)s[0]); return 0; }
extern "C" int many(void **b, const int64_t *s) {
    int64_t *out = (int64_t *)b[0];
    out[0] = 0;
    for (int i = 1; i < 40; i++) out[0] += *(int64_t *)b[i] * s[i];
    return 0;
}
"""


@pytest.fixture(params=["C", "ctypes"])
def load(request, monkeypatch):
    if request.param == "ctypes":
        monkeypatch.setattr(launch, "_native", None)
    elif not launch.native_launcher():
        pytest.skip("the C launcher was not built")
    return lambda symbol, tensors, ints: launch.load_kernel(build_shared_object(SOURCE), symbol, tensors, ints)


def test_tensors_then_sizes(load):
    add = load("add", 3, 1)
    x, y, out = torch.randn(10), torch.randn(10), torch.zeros(10)
    assert add(out, x, y, 9) is None
    assert torch.equal(out[:9], (x + y)[:9]) and out[9] == 0
    add(out[1:], x, y, 2)  # a tensor's address counts its storage offset
    assert torch.equal(out[1:3], (x + y)[:2])
    assert (add.name, add.n_tensors, add.n_ints) == ("add", 3, 1)
    assert "add" in repr(add)


class Elsewhere(torch.Tensor):
    """A tensor that says where its memory is."""

    where = 0

    def data_ptr(self):
        return self.where


class Plain(torch.Tensor):
    pass


def test_every_kind_of_tensor_tells_its_address(load):
    add, x, out = load("add", 3, 1), torch.randn(4), torch.zeros(4)
    moved = torch.zeros(4).as_subclass(Elsewhere)
    moved.where = x.data_ptr()
    kinds = [torch.nn.Parameter(x.clone()), x.clone().requires_grad_(), x.as_subclass(Plain), moved, x.view(2, 2)]
    for tensor in kinds:
        add(out, tensor, torch.nn.Buffer(x.clone()), 4)
        assert torch.equal(out, x + x)
    with torch.inference_mode():
        add(out, x.clone(), x, 4)


@pytest.mark.parametrize("place", range(3))
def test_what_has_no_address_is_an_error(load, place):
    arguments = [torch.zeros(4), torch.zeros(4), torch.zeros(4)]
    for wrong in (None, 3, torch.zeros(4).to_sparse()):
        arguments[place] = wrong
        with pytest.raises((AttributeError, RuntimeError)):
            load("add", 3, 1)(*arguments, 0)


def test_memory_that_moves_is_followed(load):
    add, x, out = load("add", 3, 1), torch.ones(4), torch.zeros(4)
    add(out, x, x, 4)
    x.data = torch.full((4,), 5.0)
    add(out, x, x, 4)
    assert out.tolist() == [10.0] * 4
    x.resize_(1000).fill_(7.0)
    add(out, x, x, 4)
    assert out.tolist() == [14.0] * 4
    lazy = torch._lazy_clone(x)  # copy-on-write: asking for the address makes the copy
    add(lazy, x, x, 4)
    assert x[0] == 7.0 and lazy[0] == 14.0


def test_more_arguments_than_fit_on_the_stack(load):
    many = load("many", MANY, MANY)
    tensors = [torch.tensor([i]) for i in range(MANY)]
    many(*tensors, *range(MANY))
    assert tensors[0].item() == sum(i * i for i in range(MANY))


def test_no_arguments_and_empty_tensors(load):
    assert load("nothing", 0, 0)() is None
    assert load("nothing", 2, 0)(torch.empty(0), torch.empty(3, 0)) is None


def test_an_error_code_is_raised(load):
    fail = load("fail", 0, 1)
    assert fail(0) is None
    with pytest.raises(KernelError) as caught:
        fail(7)
    assert isinstance(caught.value, MinicompileError)
    assert (caught.value.code, caught.value.kernel) == (7, "fail")


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
def test_a_wrong_number_of_arguments(load, arguments):
    with pytest.raises(TypeError, match="takes 1 tensors and 1 integers"):
        load("nothing", 1, 1)(*arguments)


def test_wrong_types(load):
    with pytest.raises(AttributeError, match="data_ptr"):
        load("nothing", 1, 0)(3)
    with pytest.raises(TypeError):
        load("nothing", 0, 1)("five")
    with pytest.raises(TypeError):
        load("nothing", 0, 1)(n=5)


def test_what_cannot_be_loaded(load, tmp_path):
    with pytest.raises(AttributeError):
        load("absent", 0, 0)
    with pytest.raises(OSError):
        launch.load_kernel(tmp_path / "absent.so", "add", 0, 0)


def test_other_threads_run_meanwhile(load):
    sleep = load("sleep", 0, 1)
    assert ticks_during(lambda: sleep(200_000)) > 5


def test_no_reference_leaks(load):
    fail, tensor = load("fail", 1, 1), torch.zeros(1)
    big = 2**40
    before = [sys.getrefcount(o) for o in (tensor, big, fail)]

    def call():
        try:
            fail(tensor, big + 3)
        except KernelError:
            pass

    for _ in range(20_000):
        call()
    assert all(abs(sys.getrefcount(o) - b) < 5 for o, b in zip((tensor, big, fail), before, strict=True))


@pytest.mark.skipif(not launch.native_launcher(), reason="the C launcher was not built")
def test_the_c_launcher_is_cheaper_than_ctypes():
    path, x = build_shared_object(SOURCE), torch.zeros(4)
    native = launch.load_kernel(path, "nothing", 3, 1)
    fallback = launch.CtypesKernel(launch.ctypes.CDLL(str(path)).nothing, 3, 1, "nothing")
    costs = [min(timeit.repeat(lambda k=k: k(x, x, x, 4), number=5000, repeat=7)) for k in (native, fallback)]
    assert costs[0] < costs[1]


@pytest.mark.skipif(not launch.native_launcher(), reason="the C launcher was not built")
def test_the_c_type_checks_what_it_is_made_of():
    from minicompile.runtime._launch import Kernel

    for address, tensors, ints in [(0, 1, 1), (8, -1, 0), (8, 0, -1)]:
        with pytest.raises(ValueError):
            Kernel(address, tensors, ints, "k", KernelError, None)
