"""Loops in phases around block functions: against float64, at every place where a block, a vector or a phase ends."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import timeit
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp, cpp_blocks
from minicompile.runtime import cpu
from minicompile.runtime.compiler import BUILD
from minicompile.torch_compat import math_library, vector_libraries

LENGTHS = (79, 512, 1039)


@pytest.fixture(autouse=True)
def block_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases are planned on every processor; their functions have a scalar form."""
    monkeypatch.setattr(cpp_blocks, "simd_name", lambda: "avx512")


def several(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Values of all phases are stored, one is read in three of them."""
    a = torch.exp(x) * y
    b = torch.log(a.abs() + 1) + x
    return a, torch.tanh(b) * a, x + y, torch.erf(a - b)


def entropy(x: Tensor, y: Tensor) -> Tensor:
    p = torch.softmax(x, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1) + torch.logsumexp(y, -1)


def two_reductions(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    e = torch.exp(x)
    return e.sum(-1), (torch.sigmoid(e) * y).amax(-1), e / e.sum(-1, keepdim=True)


def far_sines(x: Tensor, y: Tensor) -> Tensor:
    """The block is done a second time with exact sines; its exponentials too."""
    return torch.sin(torch.exp(x)) + torch.exp(torch.sin(y * 30000))


def masked(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(y > 0.5, float("-inf")), -1) + torch.where(y > 0, torch.tanh(x), torch.exp(y))


def gathered(x: Tensor, y: Tensor) -> Tensor:
    index = (y.abs() * 1000).long() % x.shape[-1]
    return torch.exp(torch.gather(x, -1, index)) * index


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(torch.cat([x, torch.exp(y), F.pad(y, (3, 2))], -1))


PROGRAMS: list[Callable[..., object]] = [several, entropy, two_reductions, far_sines, masked, gathered, joined,
    lambda x, y: torch.exp(x), lambda x, y: torch.exp(x * 2 + y), lambda x, y: F.gelu(x + y) + y,
    lambda x, y: F.gelu(x, approximate="tanh"), lambda x, y: F.silu(x) * y, lambda x, y: torch.log(x.abs()).relu(),
    lambda x, y: torch.exp(torch.exp(x).neg()).log() * y, lambda x, y: torch.log_softmax(x + y, -1)]  # fmt: skip


def close(got: object, want: object, tolerance: float) -> None:
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for one, other in pairs:
        torch.testing.assert_close(one.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_programs_at_every_length(fn: Callable[..., object]) -> None:
    compiled = minicompile.compile(fn, dynamic=False)
    for length in LENGTHS:
        torch.manual_seed(length)
        x, y = torch.randn(3, length), torch.randn(3, length)
        exact = fn(x, y) if fn is far_sines else fn(x.double(), y.double())  # a rounded angle has another sine
        close(compiled(x, y), exact, 2e-5)


@pytest.mark.parametrize("fn", PROGRAMS[:1] + PROGRAMS[7:], ids=lambda fn: fn.__name__)
def test_unknown_sizes_and_half_types(fn: Callable[..., object]) -> None:
    compiled = minicompile.compile(fn, dynamic=True)
    for length in (64, 777, 1):
        x, y = torch.randn(2, length), torch.randn(2, length)
        close(compiled(x, y), fn(x.double(), y.double()), 2e-5)
    x, y = torch.randn(2, 700).bfloat16(), torch.randn(2, 700).bfloat16()
    close(compiled(x, y), fn(x.double(), y.double()), 4e-2)


@pytest.mark.parametrize("traced", [64, 768])
@pytest.mark.parametrize("fn", [several, two_reductions, lambda x, y: F.layer_norm(x, x.shape[-1:]) * y,
                                lambda x, y: (x.argmax(-1), y.var(-1)), lambda x, y: x.cumsum(-1).exp()],
                         ids=lambda fn: fn.__name__)  # fmt: skip
def test_one_kernel_for_all_sizes_at_the_ends_of_its_blocks(fn: Callable[..., object], traced: int) -> None:
    """Such a kernel has a copy for whole blocks and one for the rest; `traced` chooses the block's length."""
    compiled = minicompile.compile(fn, dynamic=True)
    for length in (traced, 2, 31, 63, 65, 127, 128, 255, 256, 257, 511, 512, 513, 1024, 1100):
        torch.manual_seed(length)
        x, y = torch.randn(3, length) / 8, torch.randn(3, length) / 8
        close(compiled(x, y), fn(x.double(), y.double()), 2e-5)
    assert len(compiled.entries) == 1


def test_blocks_of_unknown_sizes_have_a_body_of_constant_length() -> None:
    """Where they are many, or the row is short; those of known sizes are printed once."""
    for dynamic, traced, block in ((True, 1024, 256), (True, 100, 64), (False, 1024, 256)):
        compiled = minicompile.compile(lambda x, y: torch.relu(torch.exp(x + y) * 2), dynamic=dynamic)
        compiled(torch.randn(70, traced), torch.randn(traced))
        source = compiled.entries[0].graphs[0].compiled.native_source
        assert ("from_part(part +" in source) is dynamic and f"part += {block})" in source


def grow(x: Tensor, y: Tensor) -> None:
    """Each is overwritten with what was computed from all of it."""
    x.copy_(torch.exp(x) * x + torch.tanh(x * y))
    y.exp_()


def test_inputs_overwritten_in_phases() -> None:
    for length in LENGTHS:
        x, y = torch.randn(length), torch.randn(length)
        mine, wide = (x.clone(), y.clone()), (x.double(), y.double())
        minicompile.compile(grow)(*mine)
        grow(*wide)
        close(mine, wide, 2e-5)


def test_blocks_are_used_where_they_pay_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def source(x: Tensor) -> str:
        compiled = minicompile.compile(lambda x: torch.exp(x) + 1)
        compiled(x)
        return str(compiled.entries[0].graphs[0].compiled.native_source)

    assert "mc_exp_block(" in source(torch.randn(64))
    assert "mc_exp_block(" not in source(torch.randn(63))
    assert "mc_exp_block(" not in source(torch.randn(640).double())
    monkeypatch.setattr(cpp_blocks, "simd_name", lambda: "sse2")
    assert "mc_exp_block(" not in source(torch.randn(641))


LIBRARY = sorted(cpp_blocks.VML_DOUBLE | cpp_blocks.SLEEF | {"sigmoid", "asinh", "acosh"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("libraries", [("vml", "sleef"), ("sleef",), ()], ids=str)
def test_functions_of_torchs_library(
    libraries: tuple[str, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each alone and among others, with and without the library, at ends and NaN; no dtype takes another's function."""
    monkeypatch.setenv("MINICOMPILE_CACHE_DIR", str(tmp_path))  # it counts on a torch that stays as it is
    monkeypatch.setattr(cpp_blocks, "vector_libraries", lambda: frozenset(libraries))
    torch.manual_seed(0)
    special = [0.0, -0.0, 1, -1, torch.inf, -torch.inf, torch.nan, 1e-40, -3, 88.9, -104.5, 710.2, -745.5, 1e30]
    ends = torch.tensor(special, dtype=dtype)
    x = torch.cat([torch.rand(150, dtype=dtype), torch.randn(150, dtype=dtype) * 4, ends, ends + 0.5])
    functions = [getattr(torch, name) for name in LIBRARY]

    def fn(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(x) for f in functions) + tuple(f(x * 0.5).abs() + x for f in functions)

    got, wanted = minicompile.compile(fn)(x), fn(x)
    tolerance, absolute = (2e-6, 1e-7) if dtype is torch.float32 else (1e-13, 1e-15)  # near the zeros of lgamma and log
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=absolute, equal_nan=True)
    for f in (torch.exp, torch.asin, torch.expm1, torch.erfinv):
        alone = minicompile.compile(lambda x, f=f: f(x))
        torch.testing.assert_close(alone(x), f(x), rtol=tolerance, atol=absolute, equal_nan=True)
        source = alone.entries[0].graphs[0].compiled.native_source
        assert ("_vml(" in source) <= ("vml" in libraries) and ("_sleef(" in source) <= ("sleef" in libraries)


@pytest.mark.skipif("vml" not in vector_libraries(), reason="this torch exports no MKL")
def test_mkl_stays_on_the_threads_that_call_it() -> None:
    """After torch.set_num_threads MKL would form a team for each block: 0.4 µs of 0.05 µs of work."""
    mkl = ctypes.CDLL(str(math_library()))
    before = mkl.MKL_Get_Max_Threads()
    x = torch.rand(64, 1024)
    programs = (
        lambda x: torch.exp(x), lambda x: torch.asin(x) + 1, lambda x: torch.log2(x).sum(-1),
        lambda x: torch.erfc(x[:2]) + 1, lambda x: torch.asin(x).sum(), lambda x: torch.tan(x.t() * 2))  # fmt: skip
    for fn in programs:
        compiled = minicompile.compile(fn)
        torch.testing.assert_close(compiled(x), fn(x))
        source = compiled.entries[0].graphs[0].compiled.native_source
        assert "_vml(" in source and "mc_OneThread one_thread;" in source
        assert source.count("#pragma omp parallel") == source.count("firstprivate(one_thread)")
    assert mkl.MKL_Get_Max_Threads() == before


@pytest.mark.parametrize("simd", ["avx512", "scalar"])
def test_ends_of_the_range(simd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """exp through the subnormals, as rounded from float64; tanh and erf end in 1, so that 1 + tanh(-20) is 0."""
    monkeypatch.setattr(cpp_blocks, "simd_name", lambda: simd)
    x = torch.linspace(-106, -85, 4099)
    got, wanted = minicompile.compile(lambda x: x.exp())(x), x.double().exp().float()
    assert int((got.view(torch.int32) - wanted.view(torch.int32)).abs().max()) <= 1
    ends = torch.tensor([-torch.inf, torch.inf, torch.nan, -torch.nan, -1000, 1000, -20, 20, -9.1, 9.1]).repeat(64)
    for fn in (torch.tanh, torch.erf, lambda x: x.exp() * 1, lambda x: torch.sigmoid(x.clamp(max=90))):
        got, wanted = minicompile.compile(lambda x, fn=fn: fn(x))(ends), fn(ends.double()).float()
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=0, equal_nan=True)


def test_masked_softmax_pays_nothing_for_what_is_masked() -> None:
    """An underflow costs 150 cycles in the processor's microcode, exp of an element less than two. (A function all by
    itself is eager's own, of MKL, which pays.)"""
    compiled = minicompile.compile(lambda x: x.exp() + 1)

    def least(x: Tensor) -> float:
        return min(timeit.repeat(lambda: compiled(x), number=1, repeat=300))

    x = torch.randn(1 << 14)  # one thread's work: two would wait for each other on a busy machine
    assert least(torch.full_like(x, -torch.inf)) < 5 * least(x)


OWN = """
extern "C" void run(const float *x, float *y, int64_t n) {
%s
}"""
SETS = {"native": (), "avx512": ("-march=skylake-avx512",), "avx2": ("-mavx2", "-mfma"), "sse2": ("-march=x86-64",)}


@pytest.mark.parametrize("simd", SETS)
def test_own_functions_in_every_instruction_set(simd: str, tmp_path: Path) -> None:
    """Within 2 ulp of the exact value wherever a vector ends, with nothing stored behind the last; one that this
    processor lacks is built only."""
    if simd != "native" and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()} has no {simd}")
    names, needs = sorted(cpp_blocks.OWN), dict(cpu.LEVELS)
    text, library = tmp_path / "own.cpp", tmp_path / "own.so"
    text.write_text(cpp.translation_unit([OWN % "".join(f"mc_{name}_block(x, y + {k} * (n + 1), n);\n"
                                                        for k, name in enumerate(names))]))
    subprocess.run(["g++", *BUILD, *SETS[simd], str(text), "-o", str(library)], check=True)
    if not needs.get(simd, set()) <= cpu.features():
        return
    run = ctypes.CDLL(str(library)).run
    run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    for n in (1, 7, 8, 9, 15, 16, 17, 1 << 18):
        bits = torch.randint(-(2**31), 2**31, (n,)).to(torch.int32)  # floats of every size, NaN and infinities
        x = torch.cat([bits.view(torch.float32)[: n // 2], torch.randn(n - n // 2) * 4])
        x[::5] = torch.linspace(-105, 90, len(x[::5]))  # exp from its subnormals to infinity, beside the others
        y = torch.full((len(names), n + 1), 7.0)
        run(x.data_ptr(), y.data_ptr(), n)
        assert bool((y[:, n] == 7).all())
        for name, got in zip(names, y[:, :n], strict=True):
            exact = getattr(torch, name)(x.double())
            wanted = exact.float()
            ulp = torch.nextafter(wanted.abs(), torch.tensor(torch.inf)) - wanted.abs()
            far = ((got.double() - exact).abs() > 2 * ulp.double()) & wanted.isfinite()
            assert not far.any(), (name, x[far][:5], got[far][:5])
            torch.testing.assert_close(got[~wanted.isfinite()], wanted[~wanted.isfinite()], equal_nan=True)
