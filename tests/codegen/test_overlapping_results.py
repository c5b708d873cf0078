"""Kernels whose results overlap themselves: strides of 0, or less than what lies within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile

from ..support import assert_same

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "part of an expanded number": lambda x: x[:1].expand(8).real,
    "operand of ATen": lambda x: torch.fft.fft(x[:1].expand(8).real),
    "part of an expanded result": lambda x: ((x[:1] * 2).expand(8).real, (x[:1] * 2).expand(8).imag + 1),
    "computed, as_strided": lambda x: (x.real * 2).as_strided((3, 8), (1, 0)),
    "as_strided, computed": lambda x: torch.fft.fft((x.real * 2).as_strided((3, 8), (1, 0))),
    "windows": lambda x: (x.real * 2).as_strided((3, 8), (1, 1)),
    "for threads": lambda x: torch.fft.fft((x.real * 2).as_strided((3000, 7), (0, 1))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    x = torch.arange(1.0, 21.0).to(torch.complex64) * (1 + 2j)
    with minicompile.config.patch(strict=True):
        assert_same(minicompile.compile(PROGRAMS[name])(x), PROGRAMS[name](x))
