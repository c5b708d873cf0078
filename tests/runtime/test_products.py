"""Matrix products into given memory: the very numbers of eager, whatever is given, through both doors."""

from __future__ import annotations

import threading

import pytest
import torch

import minicompile
from minicompile.codegen import extern_calls
from minicompile.codegen.extern_calls import BINDINGS, OutsideAutocast, ProductCall, operator, quickest
from minicompile.runtime import products

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture(params=["C", "eager"], autouse=True)
def door(request, monkeypatch):
    if request.param == "eager":
        monkeypatch.setattr(products, "_native", None)
    elif products._native is None:
        pytest.skip("the extension was not built: no C compiler")
    return request.param


def product(target, *views):
    return quickest(ProductCall(target, "cpu", views))


def operands(target, dtype):
    """Operands that lie as they should, and shape of the result."""
    shapes = {
        aten.mm.default: [(4, 6), (6, 5)],
        aten.bmm.default: [(2, 4, 6), (2, 6, 5)],
        aten.addmm.default: [(5,), (4, 6), (6, 5)],
        aten.baddbmm.default: [(2, 4, 5), (2, 4, 6), (2, 6, 5)],
    }[target]
    return [torch.randn(shape).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", products.EAGER, ids=str)
def test_the_numbers_are_eagers(target, dtype, door):
    given = operands(target, dtype)
    expected = target(*given)
    out = torch.full_like(expected, float("nan"))
    call = product(target, *[None] * (len(given) + 1))
    assert (type(call).__name__ == "Product") is (door == "C")
    assert call(out, *given) is None
    assert torch.equal(out, expected)
    # The same, of memory that lies otherwise: transposed, shifted, and with the result in a larger buffer.
    factor = given[-1]
    turned = torch.cat([factor.new_ones(*factor.shape[:-2], 5, 1), factor.mT], -1)
    strides = (35, 1, 7) if factor.dim() == 3 else (1, 7)
    memory = torch.full((100,), float("nan"), dtype=dtype)
    where = (tuple(expected.shape), tuple(expected.stride()), 3)
    views = [where, *[None] * (len(given) - 1), (tuple(factor.shape), strides, 1)]
    product(target, *views)(memory, *given[:-1], turned)
    result = memory[3 : 3 + expected.numel()].view_as(expected)
    tolerance = {"rtol": 1.6e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
    torch.testing.assert_close(result, expected, **tolerance)
    assert memory[:3].isnan().all() and memory[3 + expected.numel() :].isnan().all()
    shifted = memory.clone()[1:]
    product(target, *views)(shifted, *given[:-1], turned)
    assert torch.equal(shifted[3 : 3 + expected.numel()].view_as(expected), result)


class Elsewhere(torch.Tensor):
    pass


@pytest.mark.parametrize("kind", ["parameter", "requires grad", "subclass", "inference", "conjugate", "negative"])
def test_every_kind_of_tensor_is_multiplied(kind):
    a, b, out = torch.randn(4, 6), torch.randn(6, 5), torch.empty(4, 5)
    wanted = a @ b
    if kind == "conjugate":
        a, b, out = a.to(torch.complex64).conj(), b.to(torch.complex64), out.to(torch.complex64)
    if kind == "inference":
        with torch.inference_mode():
            a = a.clone()
    given = {
        "parameter": lambda: torch.nn.Parameter(a), "requires grad": lambda: a.requires_grad_(),
        "subclass": lambda: a.as_subclass(Elsewhere), "negative": lambda: torch._neg_view(-a),
    }.get(kind, lambda: a)()  # fmt: skip
    product(aten.mm.default, None, None, None)(out, given, b)
    torch.testing.assert_close(out.real, wanted)
    assert not out.requires_grad


@pytest.mark.parametrize(
    "wrong",
    [
        (torch.randn(4, 7), torch.randn(6, 5)),
        (torch.randn(4, 6).double(), torch.randn(6, 5)),
        (torch.randn(4, 6), 3),
        (None, torch.randn(6, 5)),
    ],
)
def test_what_eager_refuses_raises_what_eager_raises(wrong):
    with pytest.raises(Exception) as eager:
        torch.mm(*wrong, out=torch.empty(4, 5))
    with pytest.raises(eager.type):
        product(aten.mm.default, None, None, None)(torch.empty(4, 5), *wrong)


def _users(tensor):
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


def test_nothing_is_kept():
    a, b, out = torch.randn(4, 6), torch.randn(5, 6), torch.empty(4, 5)
    call = product(aten.mm.default, None, None, ((6, 5), (1, 6), 0))
    users = [_users(tensor) for tensor in (a, b, out)]
    for _ in range(50):
        call(out, a, b)
    assert [_users(tensor) for tensor in (a, b, out)] == users
    assert torch.allclose(out, a @ b.T)


def test_threads_share_a_product():
    call = product(aten.mm.default, None, None, ((64, 64), (1, 64), 0))
    failures = []

    def work(seed):
        a = torch.full((64, 64), float(seed))
        out = torch.empty(64, 64)
        for _ in range(50):
            call(out, a, a)
            if not torch.equal(out, torch.full((64, 64), 64.0 * seed * seed)):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_parameters_that_move_are_followed():
    layer = torch.nn.Linear(6, 6).eval()
    compiled, x = minicompile.compile(layer), torch.randn(2, 6)
    with torch.no_grad():
        assert "extern_0(buf" in _wrapper(compiled, x)
        for change in (
            lambda: layer.weight.mul_(2),
            lambda: setattr(layer.weight, "data", torch.randn(6, 6)),
            lambda: layer.load_state_dict({"weight": torch.eye(6), "bias": torch.ones(6)}),
            lambda: layer.load_state_dict({"weight": torch.ones(6, 6), "bias": torch.ones(6)}, assign=True),
            lambda: setattr(layer, "weight", torch.nn.Parameter(torch.randn(6, 6))),
            lambda: setattr(layer.weight, "data", torch.randn(6, 6).t()),
        ):
            change()
            assert torch.equal(compiled(x), layer(x))


def _wrapper(compiled, *args):
    compiled(*args)
    return compiled.entries[0].graphs[0].compiled.wrapper_source


def test_varying_sizes():
    weight = torch.randn(5, 6)

    def f(x):
        return (x.sin() @ weight.T).relu() @ weight

    compiled = minicompile.compile(f, dynamic=True)
    for rows in (3, 4, 9):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), f(x))
    assert len(compiled.entries) == 1


def test_what_was_cast_is_not_cast_again():
    """Under autocast, in a block that turns it off: our calls must not meet it again."""

    def f(a, b, image, filters):
        with torch.autocast("cpu", enabled=False):
            exact = a @ b, torch.nn.functional.conv2d(image, filters)
        return *exact, a @ b, torch.nn.functional.conv2d(image, filters)

    given = torch.randn(8, 8), torch.randn(8, 8), torch.randn(2, 16, 12, 12), torch.randn(32, 16, 5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results, wanted = minicompile.compile(f)(*given), f(*given)
        assert isinstance(operator(aten.convolution.default), OutsideAutocast)
    for result, expected in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, expected)
    assert operator(aten.convolution.default) is aten.convolution.default


CALLS = {
    aten.convolution.default: lambda: (
        torch.randn(1, 2, 8, 8), torch.randn(3, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    aten.max_pool2d_with_indices.default: lambda: (torch.randn(1, 2, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False),
    aten.avg_pool2d.default: lambda: (torch.randn(1, 2, 8, 8), [2, 2], [2, 2], [0, 0], False, True, None),
    aten._adaptive_avg_pool2d.default: lambda: (torch.randn(1, 2, 8, 8), [3, 3]),
    aten._scaled_dot_product_flash_attention_for_cpu.default: lambda: (
        *torch.randn(3, 1, 2, 4, 8), 0.0, True),
}  # fmt: skip


@pytest.mark.parametrize("target", [*BINDINGS], ids=str)
def test_bindings_take_what_the_operators_take(target):
    """Names, order and defaults of the arguments; and, where there is no GPU's kernel behind it, the results."""
    assert target.overloadpacket.__name__ == BINDINGS[target].__name__
    given = operands(target, torch.float32) if target in products.EAGER else CALLS.get(target, lambda: None)()
    if given is not None:
        torch.testing.assert_close(BINDINGS[target](*given), target(*given), atol=0, rtol=0)
    assert quickest(target) is BINDINGS[target]


def test_other_objects_are_called_as_they_are():
    for value in (torch.float32, 3, aten.sort.default, extern_calls):
        assert quickest(value) is value
