"""Large graphs are several translation units; every unit compiles for lesser processors too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.codegen import compile_ir, cpp_blocks, cpp_build, cpp_traffic, native_units
from minicompile.ir.ops import POINTWISE
from minicompile.ir.special_ops import SPECIAL
from minicompile.runtime.compiler import BUILD, SEMANTICS

from .build import B, softmax


def chain(x: Tensor) -> Tensor:
    """A kernel of its own before each product."""
    for i in range(30):
        x = x / x.abs().amax()
        x = torch.relu(x + i) @ x
    return x


def test_a_large_graph_is_built_in_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINICOMPILE_CACHE_DIR", str(tmp_path))
    x = torch.randn(6, 6)
    compiled = minicompile.compile(chain)
    torch.testing.assert_close(compiled(x), chain(x))
    source = compiled.entries[0].graphs[0].compiled.native_source
    kernels = source.count('extern "C" int')
    assert source.count(native_units.NEXT) + 1 == -(-kernels // cpp_build.PER_UNIT) > 2
    assert len(list(tmp_path.rglob("*.so"))) == source.count(native_units.NEXT) + 1
    again = minicompile.compile(chain)  # from the cache: no unit is built anew, and nothing waits for threads
    monkeypatch.setattr(native_units, "ThreadPoolExecutor", None)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}
    torch.testing.assert_close(again(x), chain(x))
    assert again.stats["cache_hits"] == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")} == before


TARGETS = {
    "x86-64": ("g++", "-march=x86-64"), "avx2": ("g++", "-mavx2", "-mfma"), "avx512": ("g++", "-march=skylake-avx512"),
    "aarch64": ("aarch64-linux-gnu-g++",), "clang": ("clang++",),
}  # fmt: skip


@pytest.fixture(scope="module")
def everything() -> str:
    """A source with all functions of the prelude, the block functions included."""
    b = B("everything")
    x, wide, half = b.input(2, 80), b.input(80, dtype=torch.float64), b.input(2, 80, dtype=torch.bfloat16)
    rows = [row for row in POINTWISE.values() if "f" in row.kinds and row.result == "same" and row.name != "where"]
    rows = [row for row in rows if row not in SPECIAL]  # these are torch's own, from its headers
    outputs = [getattr(b, row.name)(*[node] * row.arity) for row in rows for node in (x, wide)]
    long = b.input(2, 1000)
    outputs += [b.exp(half), b.sum(b.exp(x), 1), b.amax(b.tanh(x), 1), b.sum(x, 0)]
    outputs += [b.sum(b.exp(b.sub(long, b.expand(b.amax(long, 1), 2, 1000))), 1), softmax(b, b.input(3, 90))]
    with pytest.MonkeyPatch.context() as patch:
        for module in (cpp_blocks, cpp_traffic):
            patch.setattr(module, "simd_name", lambda: "avx512")
        patch.setattr(cpp_traffic, "STREAMED", 1)
        patch.setattr(cpp_traffic, "STREAMED_ROWS", 1)
        patch.setattr(cpp_build, "load_kernels", lambda source, wanted: [lambda *_: None for _ in wanted])
        return compile_ir(b.finish(*outputs)).native_source


@pytest.mark.parametrize("target", TARGETS)
def test_all_functions_compile_for_other_processors(target: str, everything: str, tmp_path: Path) -> None:
    command, *flags = TARGETS[target]
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    names = ("mc_tanh_block(", "mc_stream(&", "mc_online_block(", "mc_exp_sum<", "mc_share(")
    assert all(name in everything for name in names)
    build = [flag for flag in BUILD if flag not in ("-O3", "-shared")]
    for i, unit in enumerate(everything.split(native_units.NEXT)):
        text = tmp_path / f"unit{i}.cpp"
        text.write_text(unit)
        run = subprocess.run([command, *build, *flags, *SEMANTICS, "-S", str(text), "-o", str(tmp_path / "out.s")],
                             capture_output=True, text=True)  # fmt: skip
        assert run.returncode == 0, run.stderr[:2000]
