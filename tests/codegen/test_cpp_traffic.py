"""Streaming stores and prefetches: right at every length, alignment and dtype; used for what is large only."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp, cpp_blocks, cpp_traffic
from minicompile.codegen.kernel_ir import Affine, Axis, Buffer, Kernel, Value
from minicompile.runtime.compiler import BUILD

LENGTHS = (79, 512, 1039)


def several(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A result of every width, some of them also reduced."""
    s = x * 2 + y
    return s, s.double(), s.bfloat16(), s > 0, (s * 10).to(torch.int8), s.sum(-1), s.exp(), s.sin() * 1e4


def normalised(x: Tensor, y: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x + y, x.shape[-1:])) + y


def shifted(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Results whose rows start anywhere in a cache line."""
    return torch.cat([x, y, x * y], -1), F.pad(x + 1, (3, 5)), torch.stack([x, y], 1).relu()


PROGRAMS: list[Callable[..., object]] = [several, normalised, shifted,
    lambda x, y: x + y, lambda x, y: torch.exp(x), lambda x, y: torch.softmax(x + y, -1),
    lambda x, y: x.view(-1).softmax(0), lambda x, y: (x.t().contiguous(), x.t() + y.t()),
    lambda x, y: x + y.t().reshape(x.shape), lambda x, y: x.cumsum(-1) + y, lambda x, y: (x * y).sum(0),
    lambda x, y: (x * x).sum(), lambda x, y: x.var(-1),
    lambda x, y: torch.log_softmax(x, 0), lambda x, y: (x.half() + y.half()).relu()]  # fmt: skip


@pytest.fixture(autouse=True)
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_traffic, "STREAMED", 1)
    monkeypatch.setattr(cpp_traffic, "STREAMED_ROWS", 1)
    monkeypatch.setattr(cpp_traffic, "FETCHED", 1)
    monkeypatch.setattr(cpp_traffic, "FETCHED_ONCE", 1)


def sources(compiled: object) -> str:
    return "\n".join(str(g.compiled.native_source) for e in compiled.entries for g in e.graphs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("rows", [3, 64])
def test_programs_at_every_length(fn: Callable[..., object], rows: int) -> None:
    compiled = minicompile.compile(fn, dynamic=False)
    for length in LENGTHS:
        torch.manual_seed(length)
        x, y = torch.randn(rows, length), torch.randn(rows, length)
        torch.testing.assert_close(compiled(x, y), fn(x, y), rtol=1e-4, atol=1e-4)


def test_results_that_lie_anywhere_and_over_their_operands() -> None:
    """Written are views of odd places, and inputs themselves."""

    def fn(x: Tensor, y: Tensor) -> None:
        x.mul_(y).add_(1)
        y[1:].copy_(x[:-1].exp())

    for start in (0, 1, 7, 15):
        mine = [torch.linspace(-1, 1, 40000)[start:].clone() for _ in range(2)]
        theirs = [torch.cat([torch.zeros(start), tensor])[start:] for tensor in mine]
        minicompile.compile(fn)(*theirs)
        fn(*mine)
        torch.testing.assert_close(theirs, mine)


def test_used_where_it_pays_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def source(fn: Callable[[Tensor], object], *size: int) -> str:
        compiled = minicompile.compile(fn, dynamic=False)
        compiled(torch.randn(size))
        return sources(compiled)

    for simd, fn in (("avx512", lambda x: x * 2), ("neon", lambda x: x * 5)):
        monkeypatch.setattr(cpp_traffic, "simd_name", lambda simd=simd: simd)
        text = source(fn, 64, 1000)
        assert ("mc_stream(&" in text) == ("mc_fence();" in text) == (simd == "avx512")
        assert "__builtin_prefetch(" in text
    monkeypatch.setattr(cpp_traffic, "simd_name", lambda: "avx512")
    assert "mc_stream(&" not in source(lambda x: torch.cat([x, x], -1), 640, 17), "rows of broken lines"
    assert "mc_stream(&" not in source(lambda x: x.sum(-1) + 1, 64, 1000)
    monkeypatch.setattr(cpp_traffic, "STREAMED", 64000 * 4 + 1)
    monkeypatch.setattr(cpp_traffic, "FETCHED", 64000 * 4 + 1)
    text = source(lambda x: x * 3, 64, 1000)
    assert "mc_stream(&" not in text and "__builtin_prefetch(" not in text


def test_short_rows_are_stored_past_the_caches_from_fewer_bytes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_traffic, "STREAMED", 1 << 20)
    monkeypatch.setattr(cpp_traffic, "STREAMED_ROWS", 1 << 16)
    monkeypatch.setattr(cpp_traffic, "simd_name", lambda: "avx512")

    def is_streamed(rows: int, width: int) -> bool:
        compiled = minicompile.compile(lambda x: torch.softmax(x, -1) * width)
        compiled(torch.randn(rows, width))
        return "mc_stream(&" in sources(compiled)

    assert is_streamed(1024, 64) and not is_streamed(128, 64)
    assert is_streamed(512, 1024) and not is_streamed(64, 1024)


def test_what_is_not_reduced_is_fetched_from_more_bytes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_traffic, "FETCHED_ONCE", 1 << 20)
    for fn, expected in ((lambda x: x * 2, False), (lambda x: x.sum(), True), (lambda x: x.amax(-1), True)):
        compiled = minicompile.compile(fn)
        compiled(torch.randn(64, 4000))
        assert ("__builtin_prefetch(" in sources(compiled)) == expected


@pytest.mark.parametrize(("fn", "width", "distance", "cache"), [
    (lambda x: torch.softmax(x, -1), 4096, 4096, 3),
    (lambda x: torch.softmax(x, -1), 128, 6 * 128, 3),
    (lambda x: torch.softmax(x, -1), 8192, 8192, 2),
    (lambda x: torch.softmax(x, -1), 100_000, cpp_traffic.AHEAD // 4, 2),
    (lambda x: torch.var(x, -1), 4096, 4096, 2),
    (lambda x: F.layer_norm(x, (256,)), 256, 3 * 256, 2),
])  # fmt: skip
def test_where_rows_are_fetched_to(
    fn: Callable[[Tensor], Tensor], width: int, distance: int, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next row, into L1 beside block functions; several short ones; of one that fits no cache the next part."""
    monkeypatch.setattr(cpp_blocks, "simd_name", lambda: "avx512")  # others have no block function for these
    compiled = minicompile.compile(fn, dynamic=False)
    compiled(torch.randn(64, width))
    assert set(re.findall(r"r0 \+ (\d+), 0, (\d)\);", sources(compiled))) == {(str(distance), str(cache))}


@pytest.mark.parametrize("flags", [(), ("-march=x86-64",), ("-mavx",)], ids=str)
def test_a_streaming_copy_writes_these_bytes_and_no_others(flags: tuple[str, ...], tmp_path: Path) -> None:
    """At every distance from a cache line, for lengths around whole lines, in each instruction set."""
    if flags and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()} has no {flags}")
    text, library = tmp_path / "copy.cpp", tmp_path / "copy.so"
    text.write_text(cpp.translation_unit(['extern "C" void copy(void *to, const void *from, int64_t bytes) '
                                          "{ mc_stream(to, from, bytes); mc_fence(); }"]))  # fmt: skip
    subprocess.run(["g++", *BUILD, *flags, str(text), "-o", str(library)], check=True)
    copy = ctypes.CDLL(str(library)).copy
    copy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    source = torch.arange(1, 513, dtype=torch.int16).to(torch.uint8).clamp(min=1)
    for start in (0, 1, 4, 33, 63, 64):
        for length in (0, 1, 31, 63, 64, 65, 127, 128, 200):
            target = torch.zeros(512, dtype=torch.uint8)
            copy(target.data_ptr() + start, source.data_ptr() + start % 7, length)
            wanted = torch.zeros_like(target)
            wanted[start : start + length] = source[start % 7 : start % 7 + length]
            assert torch.equal(target, wanted), (start, length)


def test_a_kernel_without_loops() -> None:
    """All elements of a result of strides 0 are one."""
    one = Value("const", (), torch.float32, {"value": 1.5})
    out = Buffer("out0", torch.float32, 1, output=True)
    store = Value("store", (one,), torch.float32, {"buffer": out, "index": Affine(()), "block": False})
    kernel = Kernel("kernel", (Axis("p0", 5, "parallel", 5),), (out,), (one, store), ())
    assert "out0[0] = v0;" in cpp.print_cpp(kernel)
