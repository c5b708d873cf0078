"""Small models of Hugging Face transformers: ten optimizer steps follow eager's losses, in one graph each."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from benchmarks.language_models import MODELS

from .support import compiled_graph, train_alike

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_follow_eager(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, args = MODELS[name](layers=2, width=16)

    def loss(run: Any, step: int) -> torch.Tensor:
        return run(*args)

    compiled = train_alike(module.train(), loss, lambda ps: torch.optim.AdamW(ps, lr=1e-3), steps=10)
    compiled_graph(compiled)
