"""Rules for special functions against eager: all in kernels for floats, ATen's for integers and on a GPU."""

from __future__ import annotations

import pytest
import torch

from minicompile.ir.special_ops import SPECIAL
from minicompile.ir.types import TensorType
from minicompile.lowering.emit import check_row
from minicompile.lowering.errors import NotConvertible

from .support import externs

X = [0.3, 1.5, 2.25, -0.5, 0.0, 7.0, float("nan"), float("inf")]
Y = [1.0, 0.5, 3.0, 2.0, 1.0, 0.0, 2.0, 1.0]

UNARY = [row.name for row in SPECIAL if row.arity == 1 and row.name != "trigamma"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY)
def test_of_one_argument(kernel_only, name, dtype):
    function = getattr(torch.special, name, None) or getattr(torch, name)
    kernel_only(lambda x: function(x), torch.tensor(X, dtype=dtype))


TWO = ["igamma", "igammac", "hypot", "nextafter", "special.zeta", "special.chebyshev_polynomial_t",
       "special.shifted_chebyshev_polynomial_w", "special.hermite_polynomial_he", "special.legendre_polynomial_p",
       "special.laguerre_polynomial_l"]


def named(name):
    return getattr(torch.special, name[8:]) if name.startswith("special.") else getattr(torch, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TWO)
def test_of_two_arguments(kernel_only, name, dtype):
    kernel_only(lambda x, y: named(name)(x, y), torch.tensor(X, dtype=dtype), torch.tensor(Y, dtype=dtype))


@pytest.mark.parametrize("name", ["special.zeta", "special.chebyshev_polynomial_u", "special.hermite_polynomial_h"])
def test_of_a_tensor_and_a_number(kernel_only, name):
    kernel_only(lambda x: (named(name)(x, 3), named(name)(2.0, x)), torch.tensor(X))


OTHER = {
    "polygamma 0": lambda x: torch.polygamma(0, x),
    "polygamma 1": lambda x: torch.polygamma(1, x),
    "polygamma 4": lambda x: torch.polygamma(4, x),
    "entr": torch.special.entr,
    "sinc": torch.sinc,
    "logit": lambda x: torch.special.logit(x, 1e-2),
    "xlogy": lambda x: torch.xlogy(x, x),
    "xlog1py": lambda x: torch.special.xlog1py(x, 2.0),
    "ndtr": torch.special.ndtr,
    "expit": torch.special.expit,
    "multigammaln": lambda x: torch.special.multigammaln(x.abs() + 2, 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OTHER)
def test_compounds(check, name, dtype):
    check(lambda x: OTHER[name](x), torch.tensor(X, dtype=dtype))


@pytest.mark.parametrize("name", ["polygamma 0", "entr", "sinc"])
def test_half_precision_is_computed_in_float32(kernel_only, name):
    kernel_only(lambda x: OTHER[name](x), torch.tensor(X, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
@pytest.mark.parametrize("function", [torch.gcd, torch.lcm])
def test_divisors(kernel_only, function, dtype):
    x = torch.tensor([0, 0, 12, 18, 7, 100, 3, 1])
    y = torch.tensor([0, 5, 18, 12, 0, 75, 27, 64])
    low = 0 if dtype is torch.uint8 else -1
    kernel_only(lambda x, y: function(x, y), (x * torch.tensor([1, low, 1, 1] * 2)).to(dtype), y.to(dtype))


def test_neighbours_of_half_precision_stay_atens(check):
    x = torch.tensor([1.0, 2.0, 0.0], dtype=torch.bfloat16)
    assert externs(check(lambda x, y: torch.nextafter(x, y), x, x.flip(0)))


@pytest.mark.parametrize("name", ["digamma", "i0", "igamma"])
def test_of_integers_stays_atens(check, name):
    ints = torch.tensor([1, 2, 3])
    function = getattr(torch, name)
    if name == "igamma":
        with pytest.raises(RuntimeError):
            function(ints, ints)
    else:
        assert externs(check(lambda x: function(x), ints))


def test_no_kernel_on_a_gpu_without_a_text():
    row = next(row for row in SPECIAL if row.triton is None and row.kinds == "f")
    with pytest.raises(NotConvertible):
        check_row(row, TensorType(torch.float32, (2,), (1,), torch.device("cuda")))


def test_no_kernel_without_atens_header(monkeypatch, check):
    monkeypatch.setattr("minicompile.lowering.emit.header_folder", lambda: None)
    assert externs(check(torch.digamma, torch.tensor(X)))
