"""Blocks that Triton's interpreter reduces and scans, as ours combines them. Run by test_triton.py in a process of its
own: TRITON_INTERPRET must be set before triton is imported."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from minicompile.codegen.triton_interpreter import prepare_interpreter


@triton.jit
def composed(a, b, c, d):
    """x → a·x + b, and then x → c·x + d: associative, but the order counts."""
    return a * c, b * c + d


@triton.jit
def composed_rows(a, b, scales, sums, scale, shift, N: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * N + tl.arange(0, N)[None, :]
    pairs = tl.load(a + at), tl.load(b + at)
    last_scale, last_sum = tl.reduce(pairs, 1, composed)
    all_scales, all_sums = tl.associative_scan(pairs, 1, composed)
    tl.store(scale + tl.arange(0, 4), last_scale)
    tl.store(shift + tl.arange(0, 4), last_sum)
    tl.store(scales + at, all_scales)
    tl.store(sums + at, all_sums)


@pytest.mark.parametrize("n", [1, 2, 16])
def test_the_interpreter_combines_in_order(n: int) -> None:
    prepare_interpreter()
    a, b = torch.randint(-2, 3, (2, 4, n))
    scales, sums = a.clone(), b.clone()
    for i in range(1, n):
        scales[:, i], sums[:, i] = scales[:, i - 1] * a[:, i], sums[:, i - 1] * a[:, i] + b[:, i]
    got = [torch.empty_like(t) for t in (scales, sums, scales[:, 0], sums[:, 0])]
    composed_rows[(1,)](a, b, *got, N=n)
    for one, other in zip(got, (scales, sums, scales[:, -1], sums[:, -1]), strict=True):
        assert torch.equal(one, other)
