"""Modes of autograd's around a compiled call, and functions whose kept results or decompositions lead astray."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

import minicompile
from minicompile.config import config

from ..support import assert_same
from .support import check

LABELS = torch.tensor([[0, -1, 1], [1, 2, -1], [2, 1, 0], [-1, 0, 1]])
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "log sigmoid": lambda x: F.logsigmoid(x),
    "log sigmoid among others": lambda x: F.logsigmoid(-x) * F.logsigmoid(x + 1),
    "in half precision": lambda x: F.logsigmoid(x.to(torch.bfloat16)),
    "soft margin": lambda x: F.multilabel_soft_margin_loss(x, (x.detach() > 0).float()),
    "margin": lambda x: F.multilabel_margin_loss(x, LABELS),
    "margins": lambda x: F.multilabel_margin_loss(x, LABELS, reduction="none"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss: str) -> None:
    with config.patch(strict=True):
        check(LOSSES[loss], torch.randn(4, 3, generator=torch.Generator().manual_seed(3)).requires_grad_())


def test_dual_tensors_keep_their_tangents() -> None:
    def fn(x: Tensor) -> Tensor:
        return x.sin() * x

    compiled, x = minicompile.compile(fn), torch.randn(3)
    for _ in range(2):
        assert_same(compiled(x), fn(x))
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(3))
            assert_same(tuple(forward_ad.unpack_dual(compiled(dual))), tuple(forward_ad.unpack_dual(fn(dual))))
    assert len(compiled.entries) == 2


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_anomalies_are_looked_for() -> None:
    compiled = minicompile.compile(lambda x: torch.sqrt(x).sum())
    with config.patch(strict=True), torch.autograd.set_detect_anomaly(True):
        x = torch.ones(3, requires_grad=True)
        compiled(x).backward()
        assert_same(x.grad, torch.full((3,), 0.5))
        bad = torch.full((3,), -1.0, requires_grad=True)
        with pytest.warns(UserWarning, match="Error detected"), pytest.raises(RuntimeError, match="nan values"):
            compiled(bad).backward()
