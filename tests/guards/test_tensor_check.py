"""The native check of tensors: it says what torch's own check says, and stands what that one does not."""

import gc
import sys
import threading
import weakref
from dataclasses import replace

import pytest
import torch

from minicompile.guards import tensor_check as module
from minicompile.guards.native_tensors import native_shape
from minicompile.guards.tensor_check import FirstTensors, tensor_check, torch_check
from minicompile.guards.tensors import TensorGuard
from minicompile.torch_compat import can_read_tensors, tensor_layout, tensor_numbers

from .support import X, Y

native = pytest.mark.skipif(module._native is None, reason="the extension was not built: no C compiler")


class Sub(torch.Tensor):
    pass


def _in_inference():
    with torch.inference_mode():
        return torch.randn(4, 6)


MAKERS = {
    "plain": lambda: torch.randn(4, 6),
    "size": lambda: torch.randn(5, 6),
    "rank": lambda: torch.randn(4, 6, 1),
    "scalar": lambda: torch.tensor(1.0),
    "empty": lambda: torch.empty(0, 6),
    "transposed": lambda: torch.randn(6, 4).t(),
    "expanded": lambda: torch.randn(1, 6).expand(4, 6),
    "six dimensions": lambda: torch.randn(1, 2, 1, 2, 1, 2),
    "double": lambda: torch.randn(4, 6).double(),
    "bfloat16": lambda: torch.randn(4, 6).bfloat16(),
    "int64": lambda: torch.ones(4, 6, dtype=torch.int64),
    "bool": lambda: torch.ones(4, 6, dtype=torch.bool),
    "float8": lambda: torch.ones(4, 6).to(torch.float8_e4m3fn),
    "complex": lambda: torch.ones(4, 6, dtype=torch.complex64),
    "conjugate": lambda: torch.ones(4, 6, dtype=torch.complex64).conj(),
    "negative": lambda: torch._neg_view(torch.randn(4, 6)),
    "meta": lambda: torch.empty(4, 6, device="meta"),
    "requires grad": lambda: torch.randn(4, 6, requires_grad=True),
    "result of autograd": lambda: torch.randn(4, 6, requires_grad=True) * 2,
    "parameter": lambda: torch.nn.Parameter(torch.randn(4, 6)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.randn(4, 6), False),
    "subclass": lambda: torch.randn(4, 6).as_subclass(Sub),
    "inference": _in_inference,
    "coo": lambda: torch.eye(4, 6).to_sparse(),
    "csr": lambda: torch.eye(4, 6).to_sparse_csr(),
}

_ALIKE = {"result of autograd": "requires grad"}


@native
@pytest.mark.parametrize("compiled_for", MAKERS)
def test_it_says_what_torchs_own_check_says(compiled_for):
    traced = MAKERS[compiled_for]()
    guard = TensorGuard.of(X, traced)
    ours, stands_nested = tensor_check([guard])
    theirs = torch_check([guard])
    assert stands_nested and type(ours).__name__ == "TensorCheck"
    for name, make in MAKERS.items():
        value = make()
        assert ours(value) is theirs(value) is (_ALIKE.get(name, name) == _ALIKE.get(compiled_for, compiled_for)), name
    assert not any(ours(value) for value in (None, 1, "x", [traced], object(), torch.Tensor))


@native
def test_sizes_and_strides_may_be_free():
    traced = torch.randn(4, 6)
    check, _ = tensor_check([TensorGuard.of(X, traced).with_sizes((None, 6), (None, 1))])
    assert check(torch.randn(9, 6)) and check(torch.randn(9, 12)[:, :6])
    assert not check(torch.randn(9, 7)) and not check(torch.randn(6, 9).t()) and not check(torch.randn(6))


@native
def test_a_guard_from_another_process_needs_no_tensor():
    traced = torch.randn(4, 6)
    check, _ = tensor_check([replace(TensorGuard.of(X, traced), tensor=None)])
    assert check(torch.randn(4, 6)) and not check(torch.randn(4, 5))
    assert not check(torch.randn(4, 6, requires_grad=True))


@native
def test_nested_and_wrapped_tensors_are_no_hit(capfd):
    check, _ = tensor_check([TensorGuard.of(X, traced := torch.randn(3))])
    assert check(traced)
    for layout in (torch.strided, torch.jagged):
        assert not check(torch.nested.nested_tensor([torch.randn(2), torch.randn(3)], layout=layout))
    seen = []
    torch.vmap(lambda row: seen.append(check(row)) or row)(torch.randn(2, 3))
    torch.func.grad(lambda x: seen.append(check(x)) or x.sum())(torch.randn(3))
    assert seen == [False, False]
    assert "Exception" not in capfd.readouterr().err


@native
@pytest.mark.parametrize("count", [2, 12, 13, 200])
def test_no_two_are_one_object(count):
    tensors = [torch.randn(2) for _ in range(count)]
    check, _ = tensor_check([TensorGuard.of(X, tensor) for tensor in tensors])
    assert check(*tensors) and check(*reversed(tensors))
    for one, other in ((0, 1), (0, count - 1), (count // 2, count - 1)):
        if one != other:
            twins = list(tensors)
            twins[other] = twins[one]
            assert check(*twins) is False
    with pytest.raises(TypeError, match=f"takes {count} tensors"):
        check(*tensors[1:])


@native
def test_the_threads_own_keys_count():
    traced = torch.randn(3)
    check, _ = tensor_check([TensorGuard.of(X, traced)])
    assert check(traced)
    with torch.inference_mode():
        assert not check(traced)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        assert not check(traced)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(check(traced)))
    thread.start()
    thread.join()
    assert seen == [True] and check(traced)


@native
def test_active_modes_count():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    traced = torch.randn(3)
    outside, _ = tensor_check([TensorGuard.of(X, traced)])
    for mode in (Functions(), Dispatched()):
        with mode:
            inside, _ = tensor_check([TensorGuard.of(X, traced)])
            assert inside(traced) and not outside(traced)
            with mode:
                assert not inside(traced)
        assert outside(traced) and not inside(traced)


@native
def test_what_changes_under_the_same_object_is_seen():
    value = torch.randn(4, 6)
    check, _ = tensor_check([TensorGuard.of(X, value)])
    for change, back in (
        (lambda: value.requires_grad_(True), lambda: value.requires_grad_(False)),
        (lambda: value.resize_(3, 6), lambda: value.resize_(4, 6)),
        (lambda: value.t_(), lambda: value.t_()),
        (lambda: setattr(value, "data", torch.randn(4, 6).double()), lambda: setattr(value, "data", torch.randn(4, 6))),
        (lambda: setattr(value, "__class__", Sub), lambda: setattr(value, "__class__", torch.Tensor)),
    ):
        assert check(value)
        change()
        assert not check(value)
        back()
    assert check(value)


@native
def test_nothing_is_kept_but_the_class():
    class Local(torch.Tensor):
        pass

    value, plain = torch.randn(2).as_subclass(Local), torch.randn(2)
    before = sys.getrefcount(plain)
    check, _ = tensor_check([TensorGuard.of(X, value), TensorGuard.of(Y, plain)])
    for _ in range(100):
        assert check(value, plain) and not check(plain, value)
    assert sys.getrefcount(plain) == before
    dead = weakref.ref(value)
    del value
    gc.collect()
    assert dead() is None
    cls = weakref.ref(Local)
    del check, Local
    gc.collect()
    assert cls() is None


@native
@pytest.mark.parametrize("facts", [(1,), (int, 0, 0, 0, 0, False, (), ()), (torch.Tensor, 0, 0, 0, 0, False, (1,), ()),
                                   (torch.Tensor, 0, 0, 0, 0, False, (-1,), (1,)), "x"])  # fmt: skip
def test_what_is_expected_must_make_sense(facts):
    with pytest.raises((TypeError, ValueError)):
        module._native.TensorCheck((facts,))


@native
@pytest.mark.parametrize("name", ["plain", "int64", "bfloat16", "meta", "parameter", "transposed", "scalar"])
def test_python_and_c_mean_the_same_numbers(name):
    tensor = MAKERS[name]()
    assert can_read_tensors(module._native)
    facts = module._native.describe(tensor)
    assert facts[:2] == (type(tensor), torch._C._dispatch_keys(tensor).raw_repr())
    assert facts[2:5] == tensor_numbers(tensor.dtype, tensor.device)
    assert facts[5:] == (tensor.requires_grad, tuple(tensor.shape), tensor.stride())
    assert native_shape(tensor) == tuple(tensor.shape)


def test_a_dtype_that_c_has_no_number_for_is_checked_by_torch():
    traced = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)
    check, stands_nested = tensor_check([TensorGuard.of(X, traced)])
    assert not stands_nested
    assert check(traced) and not check(torch.randn(4))


def test_where_tensors_cannot_be_read_torchs_check_is_used(monkeypatch):
    monkeypatch.setattr(module, "can_read_tensors", lambda extension: False)
    traced = torch.randn(4, 6)
    guard = TensorGuard.of(X, traced)
    check, stands_nested = tensor_check([guard])
    assert not stands_nested and check(torch.randn(4, 6)) and not check(torch.randn(5, 6))
    recalled, stands_nested = tensor_check([replace(guard, tensor=None)])
    assert isinstance(recalled, FirstTensors) and not stands_nested
    assert not recalled(torch.randn(5, 6)) and recalled(first := torch.randn(4, 6)) and recalled(torch.randn(4, 6))
    assert recalled(first) and not recalled(torch.randn(4, 6).double())


@pytest.mark.parametrize("missing", ["_LOCAL_KEYS", "_REQUIRES_GRAD", "_GETTERS", "_MODES"])
def test_a_torch_that_lacks_a_symbol_is_not_read(monkeypatch, missing):
    from minicompile import torch_compat

    is_one = isinstance(getattr(torch_compat, missing), str)
    monkeypatch.setattr(torch_compat, missing, "no_such_thing" if is_one else ("no_such", "thing"))
    assert tensor_layout.__wrapped__() is None
    monkeypatch.undo()
    assert tensor_layout.__wrapped__() is not None


def test_an_extension_of_an_earlier_release_is_not_told():
    class Earlier:
        @staticmethod
        def use_layout(layout):
            raise TypeError("takes exactly 8 values")

    assert not any(map(can_read_tensors, (None, object(), Earlier)))


def test_the_layout_is_found_under_any_mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError("a mode of the user's saw our tensors")

    with Watch(), torch.device("meta"), torch.inference_mode():
        assert tensor_layout.__wrapped__() == tensor_layout()
