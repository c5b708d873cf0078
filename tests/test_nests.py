"""Leaves of nested arguments and results."""

from __future__ import annotations

import torch

from minicompile.nests import leaves, requires_grad, tensors_in

X, W = torch.ones(2), torch.ones(2, requires_grad=True)


def test_leaves_in_order() -> None:
    assert leaves((1, [2, {"a": 3, "b": (4, slice(5, None, 6))}], torch.Size([7]))) == [1, 2, 3, 4, 5, None, 6, 7]
    assert leaves("text") == ["text"] and leaves(()) == []


def test_tensors() -> None:
    found = tensors_in([X, 1, {"w": (W, None)}])
    assert [tensor is wanted for tensor, wanted in zip(found, (X, W), strict=True)] == [True, True]


def test_a_gradient_is_required_by_one() -> None:
    assert requires_grad(W) and requires_grad([X, {"w": (W,)}])
    assert not requires_grad([X, None, 1.0])
