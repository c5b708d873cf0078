"""Column kernels: right where a tile, a run or a group of rows ends; every thread has as many tiles as every other."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.codegen import cpp
from minicompile.runtime.compiler import BUILD

COLUMNS: list[Callable[[Tensor], object]] = [
    lambda x: x.sum(0), lambda x: (x.amax(0), x.amin(0)), lambda x: torch.var_mean(x, 0), lambda x: (x * 2 + 1).sum(0),
    lambda x: x.argmax(0), lambda x: x - x.mean(0), lambda x: x.softmax(0),
    lambda x: x.unflatten(1, (-1, 1)).sum((0, 2)), lambda x: (x > 0).any(0), lambda x: x.prod(0),
]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", COLUMNS)
def test_every_size(fn: Callable[[Tensor], object], dynamic: bool) -> None:
    compiled = minicompile.compile(fn, dynamic=dynamic)
    for rows, columns in ((3, 128), (17, 129), (64, 300), (18, 1100), (2, 2048), (19, 5000)):
        torch.manual_seed(rows)
        x = torch.randn(rows, columns)
        torch.testing.assert_close(compiled(x), fn(x), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.fixture(scope="module")
def tile(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., int]:
    """Of (threads, lanes, others, most): the lanes of a tile."""
    folder = tmp_path_factory.mktemp("tile")
    source = cpp.translation_unit(["""
extern "C" int64_t tile(int64_t lanes, int64_t others, int64_t most) { return mc_tile(lanes, others, 128, most); }
extern "C" void omp_set_num_threads(int);
extern "C" void threads(int n) { omp_set_num_threads(n); }"""])
    (folder / "tile.cpp").write_text(source)
    subprocess.run(["g++", *BUILD, str(folder / "tile.cpp"), "-o", str(folder / "tile.so")], check=True)
    library = ctypes.CDLL(str(folder / "tile.so"))
    library.tile.argtypes, library.tile.restype = (ctypes.c_int64,) * 3, ctypes.c_int64

    def of(threads: int, lanes: int, others: int = 1, most: int = 2048) -> int:
        library.threads(threads)
        try:
            return int(library.tile(lanes, others, most))
        finally:
            library.threads(torch.get_num_threads())

    return of


def test_tiles_are_wide_and_shared_evenly(tile: Callable[..., int]) -> None:
    assert (tile(2, 4096), tile(1, 4096), tile(16, 4096), tile(3, 4096)) == (2048, 2048, 256, 1408)
    assert tile(2, 5000) == 1280, "four tiles, not three"
    assert (tile(2, 1024), tile(16, 1024), tile(2, 40), tile(2, 0)) == (512, 128, 128, 128)
    assert (tile(8, 1024, 8), tile(8, 1024, 3), tile(8, 4096, 0)) == (1024, 384, 2048), "others go to threads as well"
    for threads, lanes, others, most in product((1, 2, 3, 16), (1, 129, 5000, 70000), (0, 1, 7), (128, 1024, 2048)):
        assert 128 <= tile(threads, lanes, others, most) <= most


def test_a_tile_fits_the_caches() -> None:
    def most(fn: Callable[[Tensor], object]) -> int:
        compiled = minicompile.compile(lambda x: fn(x))
        compiled(torch.randn(40, 4096))
        source = compiled.entries[-1].graphs[0].compiled.native_source
        return int(re.findall(r"mc_tile\(4096, 1, 128, (\d+)\)", source)[0])

    assert most(lambda x: x.sum(0)) == 2048
    assert most(lambda x: (x * x).sum(0) + x.sum(0)) == 1024, "two accumulators share L1"
    assert most(lambda x: x.softmax(0)) == 128, "a later loop finds it again"


def test_rows_are_added_up_four_at_a_time_in_their_order() -> None:
    """As one by one: a run's float is rounded after each."""
    x = torch.tensor([2.0**24, 1, 1, 1, 1, 1, 1, -(2.0**24)]).repeat_interleave(256).view(8, 256)
    compiled = minicompile.compile(lambda x: x.sum(0))
    one_by_one = torch.zeros(256)
    for row in x:
        one_by_one = one_by_one + row
    assert torch.equal(compiled(x), one_by_one)
    assert "row += 4" in compiled.entries[0].graphs[0].compiled.native_source
