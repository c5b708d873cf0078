"""Padding to a few sizes."""

import pytest
import torch

import minicompile


@pytest.mark.parametrize(("dim", "shape", "padded"), [
    (1, (2, 5, 3), (2, 8, 3)), (-1, (2, 3), (2, 4)), (0, (4,), (4,)), (-2, (9, 2), (16, 2)), (0, (1, 2), (4, 2)),
])  # fmt: skip
def test_sizes_go_up_to_the_next_bucket(dim, shape, padded):
    pad = minicompile.bucket(dim, [16, 4, 8])
    x = torch.randn(shape)
    result = pad(x)
    assert result.shape == padded and torch.equal(pad.crop(result, x.shape[dim]), x)
    assert result.sum().allclose(x.sum())


def test_value_mask_and_several_tensors():
    pad = minicompile.bucket(0, (4,), value=-1, mask=True)
    ids, weights, real = pad(torch.arange(3), torch.ones(3, 2))
    assert ids.tolist() == [0, 1, 2, -1] and weights[3].tolist() == [-1.0, -1.0]
    assert real.tolist() == [True, True, True, False] and ids.dtype == torch.int64


def test_gradients_come_from_real_places():
    x = torch.randn(3, requires_grad=True)
    (minicompile.bucket(0, (8,))(x) * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("use", "message"), [
    (lambda: minicompile.bucket(0, []), "positive sizes"),
    (lambda: minicompile.bucket(0, [0, 2]), "positive sizes"),
    (lambda: minicompile.bucket(0, [2])(torch.ones(3)), "size 3 does not fit into the largest bucket, 2"),
    (lambda: minicompile.bucket(0, [4])(torch.ones(3), torch.ones(2)), "different sizes"),
])  # fmt: skip
def test_errors(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_a_dimension_that_is_not_there_is_named():
    with pytest.raises(IndexError, match="no dimension 3 to pad: a tensor has 1"):
        minicompile.bucket(3, [4])(torch.ones(3))


def test_compiled_code_meets_few_shapes():
    pad = minicompile.bucket(1, (8, 16), mask=True)

    @minicompile.compile(dynamic=False, fullgraph=True)
    def mean(x, real):
        return torch.where(real, x, 0).sum(1) / real.sum()

    for count in range(2, 17):
        x = torch.randn(3, count)
        torch.testing.assert_close(mean(*pad(x)), x.mean(1))
    assert len(mean.entries) == 2
