"""Views without a rule, or in dtypes that no kernel knows: values, strides and what is computed of them are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from minicompile.config import config


def c(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x * 2)


def write_a_view(x: torch.Tensor) -> torch.Tensor:
    y = c(x)
    y.T.mul_(2)
    y[:, ::2].add_(1j)
    return y


def two_views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = c(x)
    return y[1:], y.T


def laid_again(t: torch.Tensor) -> torch.Tensor:
    return t.as_strided(t.shape, t.stride())


VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "transposed": lambda x: c(x).T,
    "every second": lambda x: c(x)[:, ::2],
    "the diagonal": lambda x: c(x).diagonal(),
    "a row": lambda x: c(x)[1],
    "regrouped and turned": lambda x: c(x).view(2, -1, 6).transpose(0, 2),
    "computed from a transposed one": lambda x: c(x).T.abs(),
    "multiplied": lambda x: c(x).T * 2,
    "turned back": lambda x: c(x.T).T,
    "double": lambda x: c(x.double()).T,
    "a transform": lambda x: torch.fft.fft(x).T,
    "real and imaginary": lambda x: (c(x).real, c(x).imag.T),
    "joined": lambda x: torch.cat([c(x).T, c(x).T]),
    "parts": lambda x: c(x).split(2),
    "windows": lambda x: c(x).unfold(1, 3, 3),
    "overlapping windows": lambda x: c(x).unfold(1, 3, 1),
    "overlapping rows": lambda x: c(x).as_strided((x.shape[0], 3), (2, 1)),
    "hermitian product": lambda x: c(x).mH @ c(x),
    "float8 transposed": lambda x: x.to(torch.float8_e4m3fn).T,
    "float8 every second": lambda x: x.to(torch.float8_e5m2)[:, ::2],
    "uint16": lambda x: x.to(torch.uint16).T,
    "float strided": lambda x: (x * 2).as_strided((x.shape[0], 3), (6, 2), 1),
    "float overlapping": lambda x: (x * 2).as_strided((x.shape[0], 3), (2, 1)),
    "float one row": lambda x: (x * 2).as_strided((x.shape[0], 3), (0, 1)),
    "float transposed overlap": lambda x: (x * 2).as_strided((3, x.shape[0]), (1, 1)),
    "float windows laid again": lambda x: laid_again((x * 2).reshape(-1).unfold(0, 2, 1)),
    "float slice laid again": lambda x: laid_again(torch.cat([x, x])[..., :-3]),
    "float expanded laid again": lambda x: laid_again((x * 2).expand(x.shape[0], *x.shape)),
    "float overlapping, then computed with": lambda x: (x * 2).as_strided((x.shape[0], 3), (2, 1)).cumsum(0) + 1,
    "written": write_a_view,
    "two of one": two_views,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str, dynamic: bool) -> None:
    function = VIEWS[name]
    compiled = minicompile.compile(function, dynamic=dynamic)
    for shape in ((4, 6), (8, 6)) if dynamic else ((4, 6),):
        x = torch.arange(float(shape[0] * shape[1])).reshape(shape)
        with config.patch(strict=True):
            results = [function(x), compiled(x)]
        for wanted, actual in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
            assert (actual.dtype, actual.shape, actual.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
            assert torch.equal(actual.to(torch.complex128), wanted.to(torch.complex128))
