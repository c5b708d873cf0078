"""Reductions, softmax and normalisation layers against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from minicompile.ir import reference

from .support import externs, lowered

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INF, NAN = float("inf"), float("nan")


def rows(dtype: torch.dtype) -> torch.Tensor:
    """A (2, 5, 6) tensor, random and finite."""
    return torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0)).to(dtype)


def special_rows(dtype: torch.dtype) -> torch.Tensor:
    """Rows of -inf only, with one +inf, with NaN, with some -inf, of zeros with signs, finite."""
    return torch.tensor([
        [-INF, -INF, -INF, -INF], [1.0, INF, 2.0, 0.0], [NAN, 1.0, 2.0, 3.0], [-INF, 1.0, -INF, 2.0],
        [0.0, -0.0, -0.0, 0.0], [1.0, 2.0, 3.0, 4.0],
    ]).to(dtype)


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum_last": lambda x: x.sum(-1),
    "sum_two": lambda x: x.sum((0, 2), keepdim=True),
    "sum_dtype": lambda x: x.sum(1, dtype=torch.float64),
    "mean": lambda x: x.mean(),
    "mean_dims": lambda x: x.mean((-1, 0)),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "amin_two": lambda x: x.amin((0, 1), keepdim=True),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max_values": lambda x: x.max(-1)[0],
    "min_values": lambda x: x.min(0, keepdim=True).values,
    "any": lambda x: x.any(),
    "any_dim": lambda x: (x > 1).any(-1),
    "all": lambda x: x.all(),
    "all_dim": lambda x: (x > -1).all(0, keepdim=True),
    "logsumexp": lambda x: x.logsumexp(-1),
    "norm": lambda x: x.norm(dim=-1),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, dim=1),
    "norm_3": lambda x: torch.linalg.vector_norm(x, 3.0, dim=1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, INF, dim=(0, 1)),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax_0": lambda x: F.softmax(x, 0),
    "softmax_dtype": lambda x: F.softmax(x, -1, dtype=torch.float32),
    "softmin": lambda x: F.softmin(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(kernel_only, name, dtype):
    kernel_only(REDUCTIONS[name], rows(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [F.softmax, F.softmin, F.log_softmax, torch.ops.aten._safe_softmax.default])
def test_softmax_of_integers_is_atens_to_the_last_bit(function, dtype):
    x = torch.arange(-20, 20).reshape(4, 10) % 7
    graph = lowered(lambda x: function(x, 1, dtype=dtype), x)
    assert externs(graph) and torch.equal(reference.run(graph, x)[0], function(x, 1, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [n for n in REDUCTIONS if "two" not in n and "dims" not in n and n != "norm_inf"])
def test_reductions_of_special_values(check, name, dtype):
    check(REDUCTIONS[name], special_rows(dtype))


@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_variance(kernel_only, name, dtype, correction):
    kernel_only(lambda x: getattr(torch, name)(x, dim=-1, correction=correction), rows(dtype))
    kernel_only(lambda x: getattr(torch, name)(x, correction=correction), rows(dtype))


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_variance_whose_squares_are_huge_or_cancel(kernel_only, name):
    """Eager accumulates in double."""
    huge = torch.tensor([[1.0, 7.0, 9.2e18, 9.1e18] * 8, [3e19, 2e19, 1.0, 0.0] * 8])
    near = torch.full((2, 32), 1e8) + torch.arange(32) % 2 * 8
    for x in (huge, near, huge.bfloat16()):
        kernel_only(lambda x: getattr(torch, name)(x, -1), x)
        assert all(part.isfinite().all() for part in torch.utils._pytree.tree_leaves(getattr(torch, name)(x, -1)))


def test_variance_of_one_element_is_nan(kernel_only):
    kernel_only(lambda x: x.var(-1), torch.randn(3, 1))


@pytest.mark.parametrize("ord", [1, 2, 3.0, 0, INF, -INF])
def test_a_norm_of_one_element_is_its_size(kernel_only, ord):
    """Its square may be 0, or infinite."""
    small, x = torch.tensor([[1e-40], [-1e-30]]), torch.tensor([[1e30], [-3.0], [-0.0], [NAN], [-INF]])
    kernel_only(lambda x: torch.linalg.vector_norm(x, ord, dim=-1, keepdim=True), x)
    kernel_only(lambda x: torch.linalg.vector_norm(x, ord, dim=-1) * 1e38, small)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "any", "all", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_reductions_of_ints(kernel_only, name, dtype):
    x = torch.randint(0, 3, (4, 5), generator=torch.Generator().manual_seed(0)).to(dtype)
    kernel_only(lambda x: getattr(x, name)(), x)


def test_max_with_indices(check):
    check(lambda x: x.max(-1), rows(torch.float32))


def test_argmax(check):
    check(lambda x: x.argmax(-1), rows(torch.float32))


OF_NOTHING = {
    "sum": lambda x: x.sum(), "sum 0": lambda x: x.sum(0), "mean": lambda x: x.mean(-1),
    "softmax": lambda x: x.softmax(-1), "any": lambda x: x.any(), "all 0": lambda x: x.all(0),
    "var": lambda x: x.var(0), "add": lambda x: x + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NOTHING)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
@pytest.mark.filterwarnings("ignore:var")
def test_zero_size(kernel_only, name, shape):
    kernel_only(OF_NOTHING[name], torch.ones(shape))


OF_A_NUMBER = {
    "sum": lambda x: x.sum(), "sum 0": lambda x: x.sum(0), "softmax": lambda x: x.softmax(0),
    "amax": lambda x: x.amax(), "mean": lambda x: x.mean(-1), "logsumexp": lambda x: x.logsumexp(0),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_zero_dim(kernel_only, name):
    kernel_only(OF_A_NUMBER[name], torch.tensor(2.5))


# --- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(kernel_only, dtype, affine):
    x = rows(dtype)
    if affine:
        kernel_only(lambda x, w, b: F.layer_norm(x, (6,), w, b), x, x[0, 0].contiguous(), x[0, 1].contiguous())
    else:
        kernel_only(lambda x: F.layer_norm(x, (5, 6)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_group_norm(kernel_only, dtype):
    x = torch.randn(2, 6, 3, 3).to(dtype)
    w = torch.randn(6).to(dtype)
    kernel_only(lambda x, w: F.group_norm(x, 3, w, w), x, w)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 4)])
def test_batch_norm_in_inference(kernel_only, shape):
    x, m, w = torch.randn(shape), torch.randn(3), torch.randn(3)
    kernel_only(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), x, m, m.abs() + 0.5, w, w)
    kernel_only(lambda x, m, v: F.batch_norm(x, m, v), x, m, m.abs() + 0.5)


def test_batch_norm_in_training_writes_its_statistics(check):
    inputs = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    graph = check(lambda x, m, v: F.batch_norm(x, m, v, training=True), *inputs)
    assert [index for index, _ in graph.writes] == [1, 2]


def test_instance_norm(check):
    check(lambda x: F.instance_norm(x), torch.randn(2, 3, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(kernel_only, dtype):
    kernel_only(lambda x, w: F.rms_norm(x, (6,), w, 1e-6), rows(dtype), torch.rand(6).to(dtype))


LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "mse_none": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "bce_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "kl": lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(check, name):
    check(LOSSES[name], rows(torch.float32), rows(torch.float32).flip(0).contiguous())
