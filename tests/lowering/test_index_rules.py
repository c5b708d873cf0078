"""Reading by index, putting together and moving: all in kernels, all as eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from minicompile.ir import reference
from minicompile.lowering import LoweringError
from minicompile.passes import run as run_passes

from .support import check_function, externs, lowered


def grid(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)


ROWS, PLACES = torch.tensor([[2, 0, 1], [1, 1, -3]]), torch.tensor([0, -1, 2])

ONE_TENSOR = {
    "cat": lambda x: torch.cat([x, x + 1, x], 1),
    "cat of slices": lambda x: torch.cat([x[:, :2], x[:, 3:]], 1),
    "cat with a legacy empty": lambda x: torch.cat([x, x.new_zeros(0)], 0),
    "cat promotes": lambda x: torch.cat([x, x.long()], 0),
    "stack": lambda x: torch.stack([x, x * 2, -x], 1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=1.5),
    "pad cuts off": lambda x: F.pad(x, (-1, 2)),
    "pad bool": lambda x: F.pad(x > 5, (1, 1)),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "flip": lambda x: x.flip(0, -1),
    "flip of a view": lambda x: (x.t().flip(0) * 2).reshape(-1),
    "flip is an output": lambda x: x.flip(1),
    "roll": lambda x: x.roll((1, -2), (0, 1)),
    "roll flat": lambda x: x.roll(7),
    "unfold": lambda x: x.unfold(1, 3, 2) * 2,
    "diagonal": lambda x: x.diagonal(1) + x.diagonal(-1)[0],
    "trace": lambda x: x.trace(),
    "index": lambda x: x[ROWS],
    "index of a column": lambda x: x[:, PLACES] + 1,
    "two indices": lambda x: x[PLACES, PLACES],
    "indices apart": lambda x: x.reshape(4, 3, 2)[PLACES, :, torch.tensor([1, 0, 1])],
    "indices broadcast": lambda x: x[ROWS, PLACES],
    "index_select of a number": lambda x: x[0, 0].index_select(0, torch.tensor([0])),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0])),
    "gather": lambda x: x.gather(0, torch.tensor([[1, 0, 3], [2, 2, 0]])),
    "take": lambda x: x.take(torch.tensor([[0, -1], [5, 23]])),
    "embedding": lambda x: F.embedding(torch.tensor([[3, 0], [1, 1]]), x),
    "one_hot": lambda x: F.one_hot((x % 5).long(), 5) * 2,
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2] * 0, 1, 2, 4),
    "slice_scatter by steps": lambda x: torch.slice_scatter(x, x[:, :2] * 0, 1, 1, 5, 2),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x[:, 0] * 0, 1),
    "cumsum": lambda x: x.cumsum(1) * 2,
    "cumsum of ints": lambda x: x.int().cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "softmax of a scan": lambda x: x.cumsum(1).softmax(1),
    "argmax": lambda x: (x % 7).argmax(1),
    "argmin flat": lambda x: (x % 7).argmin(),
    "argmax keepdim": lambda x: (x % 7).argmax(0, True),
    "max": lambda x: (x % 7).max(1),
    "min": lambda x: (x % 7).min(0, keepdim=True),
    "avg_pool": lambda x: F.avg_pool2d(x[None, None], 3, 2, 1),
    "avg_pool inside": lambda x: F.avg_pool2d(x[None, None], 3, 2, 1, count_include_pad=False, ceil_mode=True),
    "max_pool": lambda x: F.max_pool2d(x[None, None], 2, 2, 1),
    "max_pool places": lambda x: F.max_pool2d(x[None, None] % 7, 3, 1, 1, return_indices=True),
    "nearest": lambda x: F.interpolate(x[None, None], scale_factor=2.0),
    "bilinear": lambda x: F.interpolate(x[None, None], size=(7, 5), mode="bilinear"),
    "fmax": lambda x: torch.fmax(torch.where(x > 3, x, float("nan")), x.t().reshape(4, 6)),
    "signbit": lambda x: torch.signbit(x - 3),
    "decimals": lambda x: (x / 7).round(decimals=2),
}


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize("name", ONE_TENSOR)
def test_in_kernels(name: str, layout: str) -> None:
    x = grid(4, 6)
    if layout == "transposed":
        x = x.t().contiguous().t()
    elif layout == "sliced":
        x = grid(4, 12)[:, ::2]
    assert externs(check_function(ONE_TENSOR[name], x)) == []


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_interpolated_as_in_eager(mode: str, format: torch.memory_format) -> None:
    """With weights that are integers, in ATen's fast forms; with rounded floats in others."""
    x = torch.randint(0, 256, (2, 3, 7, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    check_function(lambda x: F.interpolate(x, size=(3, 9), mode=mode), x.contiguous(memory_format=format))


def test_a_split_put_together_again_is_the_tensor() -> None:
    graph = check_function(lambda x: torch.cat(x.split(2, 1), 1) * 2, grid(4, 6))
    assert [node.op for node in run_passes(graph).nodes] == ["mul"]
    graph = check_function(lambda x: torch.cat([x[:, 1:3], x[:, 3:], x[:, :1]], 1), grid(4, 6))
    assert [node.op for node in run_passes(graph).nodes].count("gather") == 2


def test_nan_is_an_extremum_and_the_first_wins() -> None:
    x = grid(3, 6)
    x[0, 2] = x[0, 4] = x[2, 0] = float("nan")
    x[1] = -float("inf")
    for function in (lambda x: x.argmax(1), lambda x: x.argmin(1), lambda x: x.max(1), lambda x: x.min(0)):
        check_function(function, x)
    check_function(lambda x: F.max_pool2d(x[None, None], 2, 1, return_indices=True), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i[:, None].expand(-1, 6)),
        lambda x, i: F.embedding(i, x),
        lambda x, i: x.take(i * 100),
        lambda x, i: F.one_hot(i, 3),
    ],
)
def test_an_index_out_of_range_is_an_error(function) -> None:
    good, bad = torch.tensor([0, 0]), torch.tensor([0, 4])
    graph = lowered(function, grid(4, 6), good)
    assert externs(graph) == []
    for one in (graph, run_passes(graph)):
        with pytest.raises(IndexError):
            reference.run(one, grid(4, 6), bad)


def test_negative_indices_where_eager_refuses_them() -> None:
    graph = lowered(lambda x, i: F.embedding(i, x), grid(4, 6), torch.tensor([0]))
    with pytest.raises(IndexError):
        reference.run(graph, grid(4, 6), torch.tensor([-1]))


def test_a_bool_index_is_refused() -> None:
    with pytest.raises(LoweringError):
        lowered(lambda x, m: x[m] + 1, grid(4), torch.tensor([True, False, True, False]))
