"""`view_strides` against torch's own `Tensor.view`, which refuses where only a copy has the shape."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minicompile.ir.types import view_strides


def torch_strides(x: torch.Tensor, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return x.view(shape).stride()
    except RuntimeError:
        return None


def strides_that_matter(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> list[int] | None:
    return None if strides is None else [stride for size, stride in zip(shape, strides, strict=True) if size != 1]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_view_strides_are_torchs(data: st.DataObject) -> None:
    factors = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5))
    x = torch.empty(factors).permute(data.draw(st.permutations(range(len(factors)))))
    if data.draw(st.booleans()):
        x = x[..., : data.draw(st.integers(1, x.shape[-1]))]
    pieces = data.draw(st.permutations([*x.shape, 1]))
    cut = data.draw(st.integers(1, len(pieces)))
    shape = (*pieces[:cut], torch.Size(pieces[cut:]).numel())
    expected = torch_strides(x, shape)
    actual = view_strides(tuple(x.shape), x.stride(), shape)
    assert strides_that_matter(shape, actual) == strides_that_matter(shape, expected)
