"""Tensor guards: everything that code is specialised to, one trap a row."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch

from minicompile.frontend.sources import AttrSource, ItemSource
from minicompile.guards import GuardSet, build_check, tensor_check, tensors
from minicompile.guards.kinds import SameObjectGuard, TypeGuard
from minicompile.guards.tensors import (
    DisjointGuard,
    NoInnerOverlapGuard,
    OverlapGuard,
    StorageOffsetGuard,
    TensorGuard,
    are_disjoint,
    memory_overlaps,
)

from .support import Checked, X, Y, anything, assert_hit, assert_miss


@pytest.fixture(autouse=True, params=["our check", "torch's check"])
def door(request, monkeypatch):
    if request.param == "torch's check":
        monkeypatch.setattr(tensor_check, "can_read_tensors", lambda extension: False)


class Sub(torch.Tensor):
    pass


def base() -> torch.Tensor:
    return torch.randn(4, 6)


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return base()


MISSES = {
    "size": (lambda: torch.randn(5, 6), "argument x: size of dimension 0 is 5, compiled for 4"),
    "rank": (lambda: torch.randn(4, 6, 1), "argument x: number of dimensions is 3, compiled for 2"),
    "stride": (lambda: torch.randn(6, 4).t(), "argument x: stride of dimension 0 is 1, compiled for 6"),
    "expanded": (lambda: torch.randn(1, 6).expand(4, 6), "argument x: stride of dimension 0 is 0, compiled for 6"),
    "dtype": (lambda: base().double(), "argument x: dtype is torch.float64, compiled for torch.float32"),
    "device": (lambda: base().to("meta"), "argument x: device is meta, compiled for cpu"),
    "requires_grad": (lambda: base().requires_grad_(), "argument x: requires_grad is True, compiled for False"),
    "layout": (lambda: base().to_sparse(), "argument x: layout is torch.sparse_coo, compiled for torch.strided"),
    "csr": (lambda: base().to_sparse_csr(), "argument x: layout is torch.sparse_csr"),
    "parameter": (lambda: torch.nn.Parameter(base(), False), "argument x is a Parameter, compiled for a Tensor"),
    "subclass": (lambda: base().as_subclass(Sub), "argument x is a Sub, compiled for a Tensor"),
    "negative bit": (lambda: torch._neg_view(base()), "argument x: negative bit is True, compiled for False"),
    "inference tensor": (inference_tensor, "argument x: inference tensor is True, compiled for False"),
    "none": (lambda: None, "argument x is None, compiled for a Tensor"),
    "list": (lambda: [base()], "argument x is a list, compiled for a Tensor"),
}


@pytest.mark.parametrize("trap", MISSES)
def test_every_property_counts(trap):
    make, reason = MISSES[trap]
    checked = Checked(_guard(base()))
    assert_hit(checked, base())
    assert_miss(checked, (make(),), reason)


_alive: list[torch.Tensor] = []


def _guard(tensor: torch.Tensor) -> TensorGuard:
    """A guard whose tensor lives until the check is built."""
    _alive[:] = [tensor]
    return TensorGuard.of(X, tensor)


@pytest.mark.parametrize("trap", [trap for trap in MISSES if trap not in ("none", "list", "expanded")])
def test_compiled_for_the_other_kind(trap):
    make, _ = MISSES[trap]
    tensor = make()
    checked = Checked(_guard(tensor))
    assert_hit(checked, tensor)
    assert not checked.hit(base())
    assert len(checked.why(base())) == 1


def test_conjugate_bit():
    value = torch.randn(3, dtype=torch.complex64)
    checked = Checked(TensorGuard.of(X, value))
    assert_hit(checked, value)
    assert_miss(checked, (value.conj(),), "conjugate bit is True, compiled for False")


def test_storage_offset_counts_only_where_asked():
    value = base()
    plain, strict = Checked(TensorGuard.of(X, value)), Checked(TensorGuard.of(X, value), StorageOffsetGuard(X, 0))
    shifted = torch.randn(5, 6)[1:]
    assert_hit(plain, shifted)
    assert_hit(strict, base())
    assert_miss(strict, (shifted,), "argument x: storage offset is 6, compiled for 0")


def test_a_nested_tensor_is_a_miss_and_does_not_end_the_process():
    program = f"""
import torch
from minicompile.guards import tensor_check
if {not tensor_check.can_read_tensors(tensor_check._native)}:
    tensor_check.can_read_tensors = lambda extension: False
from minicompile.frontend.sources import LocalSource
from minicompile.guards import GuardSet, build_check, tensor_check
from minicompile.guards.tensors import TensorGuard
x = torch.randn(2, 3)
check = build_check(GuardSet([TensorGuard.of(LocalSource("x"), x)]), ["x"]).function(["x"])
print(check(None, x), check(None, torch.nested.nested_tensor([torch.randn(2), torch.randn(3)])))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_a_nested_tensor_cannot_be_guarded():
    with pytest.raises(ValueError, match="nested"):
        TensorGuard.of(X, torch.nested.nested_tensor([torch.randn(2), torch.randn(3)]))


def test_nothing_is_asked_of_an_object_of_another_class():
    class Trap:
        @property
        def is_nested(self):
            raise SystemExit

    assert not Checked(_guard(base())).hit(Trap())


def test_compiled_for_two_tensors_called_with_one():
    x, y = base(), base()
    checked = Checked(TensorGuard.of(X, x), TensorGuard.of(Y, y))
    assert_hit(checked, x, y)
    assert_miss(checked, (x, x), "argument x and argument y are one tensor, compiled for two different ones")


def test_compiled_for_one_tensor_called_with_two():
    x = base()
    checked = Checked(TensorGuard.of(X, x), TensorGuard.of(Y, x))
    assert any(isinstance(guard, SameObjectGuard) for guard in checked.check.guards)
    assert_hit(checked, x, x)
    assert_miss(checked, (x, base()), "argument x and argument y are two objects, compiled for one")


def test_overlap():
    whole = torch.randn(10)
    apart, shared = Checked(OverlapGuard(X, Y)), Checked(OverlapGuard(X, Y, overlapping=True))
    assert_hit(apart, whole[:5], whole[5:])
    assert_hit(shared, whole[:6], whole[5:])
    assert_miss(apart, (whole[:6], whole[5:]), "argument x and argument y share memory now")
    assert_miss(shared, (whole[:5], whole[5:]), "no longer share memory")


def test_disjoint():
    whole = torch.randn(12)
    checked = Checked(DisjointGuard((X,), (Y,)))
    assert_hit(checked, whole[:5], whole[5:])
    assert_hit(checked, whole[5:5], whole)
    assert_miss(checked, (whole[:6], whole[5:]), "argument x and argument y share memory now")


@pytest.mark.parametrize("is_native", [True, False])
def test_many_tensors_are_disjoint(is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(tensors, "_native", None)
    elif tensors._native is None:
        pytest.skip("the extension was not built: no C compiler")
    assert tensors.can_read_tensors(tensors._native) is is_native
    parts = list(torch.randn(12).split(2))
    assert are_disjoint(parts, []) and are_disjoint(parts[:3], parts[3:])
    assert are_disjoint([], [parts[0], parts[0]]) and are_disjoint(parts[:1], [parts[1], parts[1]])
    whole = torch.randn(4, 6)
    assert not are_disjoint([whole[0]], [whole]) and not are_disjoint([whole], [whole[1], whole[3]])
    assert not are_disjoint([whole[:, 0], whole[:, 1]], [])


class Where(torch.Tensor):
    """A tensor that says where it lies."""

    def data_ptr(self):
        return 16


KINDS = [
    lambda whole: whole[2:5], lambda whole: whole[5:], lambda whole: whole[:0], lambda whole: whole[1::2],
    lambda whole: whole[3:4].expand(9), lambda whole: torch.nn.Parameter(whole[6:8]),
    lambda whole: whole.view(3, 4).t(), lambda whole: whole[4:8].view(torch.int16),
    lambda whole: torch.tensor(1.0), lambda whole: torch.empty(3, device="meta"),
    lambda whole: whole[:3].as_subclass(Where), lambda whole: whole[9:].as_subclass(Sub),
]  # fmt: skip


@pytest.mark.skipif(tensors._native is None, reason="the extension was not built: no C compiler")
def test_the_native_sweep_says_what_pythons_says():
    whole = torch.randn(12)
    for one in KINDS:
        for other in KINDS:
            groups = ((one(whole), other(whole)), ()), ((one(whole),), (other(whole),))
            for written, read in groups:
                assert are_disjoint(written, read) is tensors._are_disjoint(written, read)
    assert tensors._native.are_disjoint((whole.to_sparse(),), ()) is None
    with pytest.raises(TypeError):
        tensors._native.are_disjoint([whole], ())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (lambda t: t, lambda t: t, True),
        (lambda t: t.view(-1), lambda t: t, True),
        (lambda t: t[0], lambda t: t[1], False),
        (lambda t: t[:, 0], lambda t: t[:, 1], True),
        (lambda t: t[0:0], lambda t: t, False),
        (lambda t: t[1].expand(3, 6), lambda t: t[2], False),
        (lambda t: t, lambda t: t.clone(), False),
        (lambda t: t.to("meta"), lambda t: t, False),
        (lambda t: t.to_sparse(), lambda t: t, False),
        (lambda t: t.view(torch.int32)[1], lambda t: t[1], True),
    ],
)
def test_memory_overlaps(first, second, expected):
    tensor = base()
    one, other = first(tensor), second(tensor)
    assert memory_overlaps(one, other) is expected and memory_overlaps(other, one) is expected


def test_overlap_inside_one_tensor():
    checked = Checked(NoInnerOverlapGuard(X))
    assert_hit(checked, base())
    assert_miss(checked, (torch.randn(1, 6).expand(4, 6),), "argument x has elements that share memory")


def test_tensors_behind_attributes_and_items():
    class Holder:
        pass

    holder = Holder()
    holder.weights = [base(), base()]
    sources = [ItemSource(AttrSource(X, "weights"), index) for index in (0, 1)]
    guards = [TensorGuard.of(source, tensor) for source, tensor in zip(sources, holder.weights, strict=True)]
    checked = Checked(TypeGuard.of(X, holder), *guards)
    assert_hit(checked, holder)
    holder.weights[1] = holder.weights[1][:2]
    assert_miss(checked, (holder,), "x.weights[1]: size of dimension 0 is 2, compiled for 4")
    holder.weights = holder.weights[:1]
    assert_miss(checked, (holder,), "x.weights[1]: cannot be read any more (IndexError")


def test_a_guard_on_an_attribute_of_a_tensor():
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.randn(3)
    checked = Checked(TensorGuard.of(X, x), TensorGuard.of(AttrSource(X, "grad"), x.grad))
    assert_hit(checked, x)
    x.grad = None
    assert_miss(checked, (x,), "x.grad is None, compiled for a Tensor")


def test_the_tensor_is_not_kept_alive():
    x = base()
    watcher = weakref.ref(x)
    checked = Checked(TensorGuard.of(X, x))
    del x
    gc.collect()
    assert watcher() is None
    assert_hit(checked, base())


def test_a_tensor_that_died_before_the_check_was_built_is_an_error():
    guards = GuardSet([TensorGuard.of(X, base())])
    gc.collect()
    with pytest.raises(ReferenceError, match="argument x died"):
        build_check(guards, ["x"])


def test_batched_tensors_do_not_pass_for_plain_ones():
    checked = Checked(_guard(torch.randn(6)))
    seen = []

    def record(row):
        seen.append(checked.hit(row))
        return row

    torch.vmap(record)(base())
    assert seen == [False]
    assert checked.run(anything, torch.randn(6), None)
