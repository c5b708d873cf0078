"""Every row of the op table in C++, over special values and all its dtypes, against torch; accuracy against float64."""

from __future__ import annotations

import math

import pytest
import torch

from minicompile.codegen import compile_ir
from minicompile.ir.ops import POINTWISE, ScalarOp
from minicompile.ir.special_ops import SPECIAL
from minicompile.ir.types import dtype_kind

from .build import B

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DIVISIONS = ("floor_divide", "trunc_divide", "remainder", "fmod")


def float_values(dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, -3.0, 7.0, math.inf, -math.inf, math.nan, info.max,
               -info.max, info.tiny, -info.tiny, info.tiny / 8, 1e-3, -1e-3, 88.7, -87.5, -103.0, 100.0, 1e4, -1e4]
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(500, generator=generator, dtype=torch.float64)
    wide = random[:200] * torch.exp(torch.linspace(-20, 20, 200, dtype=torch.float64))
    return torch.cat([torch.tensor(special, dtype=torch.float64), random, random * 10, wide]).to(dtype)


def values(dtype: torch.dtype) -> torch.Tensor:
    kind = dtype_kind(dtype)
    if kind == "f":
        return float_values(dtype)
    generator = torch.Generator().manual_seed(0)
    if kind == "b":
        return torch.randint(0, 2, (300,), generator=generator).bool()
    info = torch.iinfo(dtype)
    special = torch.tensor([0, 1, 2, 3, info.max, info.min, info.min + 1, info.max - 1])
    return torch.cat([special, torch.randint(-20 if info.min else 0, 20, (300,), generator=generator)]).to(dtype)


def second(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return x[torch.randperm(len(x), generator=generator)]


def rows_for(dtype: torch.dtype) -> list[ScalarOp]:
    """But for ATen's own functions: these have a test below."""
    return [row for row in POINTWISE.values() if dtype_kind(dtype) in row.kinds and not row.aten]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_every_row_equals_torch(dtype: torch.dtype) -> None:
    x, cond = values(dtype), values(torch.bool)
    y = second(x)
    cond = cond.repeat(len(x) // len(cond) + 1)[: len(x)]
    nonzero = torch.where(y == 0, torch.ones_like(y), y)
    if dtype_kind(dtype) == "i" and torch.iinfo(dtype).min < 0:
        nonzero = torch.where(nonzero == -1, torch.full_like(y, 3), nonzero)  # MIN // -1 traps in eager
    b = B("rows")
    nodes = [b.input_like(t) for t in (x, y, cond, nonzero)]
    outputs, references = [], []
    for row in rows_for(dtype):
        args = [nodes[0], nodes[3] if row.name in DIVISIONS and dtype_kind(dtype) == "i" else nodes[1]][: row.arity]
        tensors = [x, nonzero if args[-1] is nodes[3] else y][: row.arity]
        if row.name == "where":
            args, tensors = [nodes[2], *args], [cond, *tensors]
        if row.name == "pow" and dtype_kind(dtype) == "i":
            args[1], tensors[1] = 3, 3
        outputs.append(getattr(b, row.name)(*args))
        references.append((row, reference(row, tensors)))
    results = compile_ir(b.finish(*outputs))(x, y, cond, nonzero)
    for (row, want), got in zip(references, results, strict=True):
        assert got.dtype == want.dtype, row.name
        check(row.name, got, want, x, y)


def reference(row: ScalarOp, tensors: list[torch.Tensor]) -> torch.Tensor:
    """What torch computes; for half types in float32, rounded at the end: eager's own half kernels round in between."""
    dtypes = [t.dtype for t in tensors if isinstance(t, torch.Tensor)]
    if dtypes[-1] not in (torch.bfloat16, torch.float16):
        return row.torch(*tensors)
    result = row.torch(*[t if t.dtype is torch.bool else t.float() for t in tensors])
    return result if result.dtype is torch.bool else result.to(dtypes[-1])


def check(name: str, got: torch.Tensor, want: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    if not want.dtype.is_floating_point:
        bad = (got != want).nonzero().flatten()[:5]
        assert not len(bad), f"{name}: {x[bad]}, {y[bad]} gave {got[bad]}, eager {want[bad]}"
        return
    tolerance = {torch.float32: 3e-6, torch.float64: 1e-14, torch.bfloat16: 1e-2, torch.float16: 2e-3}[want.dtype]
    close = torch.isclose(got, want, rtol=tolerance, atol=torch.finfo(want.dtype).tiny, equal_nan=True)
    if name in ("remainder", "fmod"):  # eager's vectorised kernel gives NaN where the quotient is huge
        close |= want.isnan() & ((x / y).abs() > 1 / torch.finfo(want.dtype).eps)
    bad = (~close).nonzero().flatten()[:5]
    assert not len(bad), f"{name}: {x[bad]}, {y[bad]} gave {got[bad]}, eager {want[bad]}"


FUNCTIONS = [row.name for row in POINTWISE.values() if row.kinds == "f" and row.result == "same"
             and row.cost >= 4 and row not in SPECIAL]


def ulps(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Distance of float32 results from exact float64 ones, in units of the exact result's last place."""
    rounded = exact.float()
    spacing = (torch.nextafter(rounded.abs(), torch.tensor(math.inf)) - rounded.abs()).double()
    distance = (got.double() - exact).abs() / spacing
    same = (got == rounded) | (got.isnan() & rounded.isnan())
    return torch.where(same, torch.zeros_like(distance), distance)


def test_float_functions_are_within_two_ulp() -> None:
    generator = torch.Generator().manual_seed(2)
    n = 200_000
    bits = torch.randint(-(2**31), 2**31 - 1, (n,), generator=generator, dtype=torch.int64).to(torch.int32)
    x = torch.cat([bits.view(torch.float32), torch.randn(n, generator=generator) * 4,
                   torch.rand(n, generator=generator) * 2 - 1, torch.randn(n, generator=generator) * 40,
                   1 + torch.randn(n, generator=generator) * 1e-3])
    y = second(x)
    b = B("ulp")
    nodes = [b.input_like(x), b.input_like(y)]
    results = compile_ir(b.finish(*[getattr(b, f)(*nodes[: POINTWISE[f].arity]) for f in FUNCTIONS]))(x, y)
    worst = {}
    for name, got in zip(FUNCTIONS, results, strict=True):
        exact = POINTWISE[name].torch(*[x.double(), y.double()][: POINTWISE[name].arity])
        error = ulps(got, exact)
        worst[name] = (error.max().item(), x[error.argmax()].item())
    assert all(error <= 2 for error, _ in worst.values()), {k: v for k, v in worst.items() if v[0] > 2}


ODD = ("sin", "tan", "tanh", "erf", "expm1", "log1p", "asin", "atan", "sinh", "asinh", "atanh")


def test_odd_functions_keep_the_sign_of_zero() -> None:
    b = B("zeros")
    x = b.input(4)
    zeros = torch.tensor([0.0, -0.0, 0.0, -0.0])
    for name, got in zip(ODD, compile_ir(b.finish(*[getattr(b, f)(x) for f in ODD]))(zeros), strict=True):
        assert torch.equal(got, zeros) and torch.equal(got.signbit(), zeros.signbit()), name


def test_one_distant_angle_in_a_block_of_near_ones() -> None:
    """The block is then done again with the exact functions; blocks before and after it are not."""
    x = torch.linspace(-70000, 70000, 3 * 4096 + 5)
    x[4096 + 100 : 4096 + 106] = torch.tensor([1e5, -1e30, torch.inf, -torch.inf, torch.nan, -0.0])
    b = B("angles")
    node = b.input_like(x)
    results = compile_ir(b.finish(b.sin(node), b.cos(node), b.sum(b.sin(node), 0)))(x)
    for got, want in zip(results, (x.double().sin(), x.double().cos()), strict=False):
        assert ulps(got, want).max() <= 2
    assert results[2].isnan().all()
    near = x[:4096].clone()
    b = B("sum")
    total = compile_ir(b.finish(b.sum(b.sin(b.input_like(near)), 0)))(near)[0]
    torch.testing.assert_close(total, near.double().sin().sum().float().reshape(1), rtol=1e-5, atol=1e-4)


CASTS = [*FLOATS, *INTS, torch.bool]


@pytest.mark.parametrize("source", CASTS, ids=str)
def test_casts_equal_torch(source: torch.dtype) -> None:
    x = values(source)
    if source.is_floating_point:  # out of range is undefined in C++, so eager itself gives no rule for it
        x = x[(x.abs() < 100) & ~x.isnan() & (x.double() >= 0)]
        x = torch.cat([x, torch.tensor([math.nan, math.inf, -math.inf, -1.5, -0.0]).to(source)])
    b = B("casts")
    node = b.input_like(x)
    results = compile_ir(b.finish(*[b.cast(node, target) for target in CASTS]))(x)
    for target, got in zip(CASTS, results, strict=True):
        want = x.to(target)
        if source.is_floating_point and not target.is_floating_point and target is not torch.bool:
            got, want = got[:-5], want[:-5]
        assert torch.equal(got.nan_to_num(3.5) if got.is_floating_point() else got,
                           want.nan_to_num(3.5) if want.is_floating_point() else want), (source, target)


def test_constants_keep_their_bits() -> None:
    b = B("constants")
    x = b.input(1, dtype=torch.float64)
    special = [math.inf, -math.inf, -0.0, 1e-310, 0.1]
    i = b.input(1, dtype=torch.int64)
    integers = [-(2**63), 2**63 - 1]
    graph = b.finish(*[b.add(b.mul(x, 1.0), v) for v in special], *[b.bitwise_or(i, v) for v in integers])
    results = compile_ir(graph)(torch.tensor([-0.0], dtype=torch.float64), torch.zeros(1, dtype=torch.int64))
    for value, got in zip(special, results[: len(special)], strict=True):
        assert got.item() == value and math.copysign(1, got.item()) == math.copysign(1, value)
    assert [t.item() for t in results[len(special) :]] == integers


FEW = ("digamma", "erfinv", "i0e", "igamma", "zeta", "polygamma")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_special_functions_are_atens(dtype: torch.dtype) -> None:
    """Compiled from one text with other flags; a polynomial's cancellation lets the last bits grow. bfloat16 has the
    functions of float32 between a load and a store that are the same for all, so that few rows say what all would."""
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, 0.5, 1e-3, 30.0])
    x = torch.cat([special, torch.linspace(-6, 6, 100)]).to(dtype)
    y = torch.cat([special.flip(0), torch.arange(100) % 7 / 2]).to(dtype)
    b = B("special")
    nodes = [b.input_like(x), b.input_like(y)]
    few = dtype is torch.bfloat16
    rows = [row for row in SPECIAL if row.kinds == "f" and (not few or not row.aten or row.name in FEW)]
    calls = [[nodes[0], 3.0] if row.name == "polygamma" else nodes[: row.arity] for row in rows]
    results = compile_ir(b.finish(*(getattr(b, row.name)(*args) for row, args in zip(rows, calls, strict=True))))(x, y)
    wide = [t.float() if dtype is torch.bfloat16 else t for t in (x, y)]
    for row, got in zip(rows, results, strict=True):
        want = row.torch(wide[0], 3) if row.name == "polygamma" else row.torch(*wide[: row.arity])
        relative = {torch.float32: 2e-5, torch.float64: 1e-12}.get(dtype, 1e-2)
        bad = (~torch.isclose(got, want.to(dtype), rtol=relative, atol=relative * 10, equal_nan=True)).nonzero()[:, 0]
        assert not len(bad), f"{row.name}: {x[bad]}, {y[bad]} gave {got[bad]}, eager {want[bad]}"
