"""Small models of Hugging Face transformers: ten optimizer steps follow eager's losses."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from benchmarks.language_models import MODELS
from minicompile.runtime.autograd import TrainingGraph

from .support import train_alike

pytest.importorskip("transformers")

# The gradient of attention keys' bias is zero: it adds the same number to each score of a row, and softmax takes that
# out. What is computed for it is rounding noise of 1e-11 here, and Adam divides noise by its own size but for this
# number, which has to be above the noise for the steps to say anything. (1e-8 is the default.)
ADAM_EPSILON = 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_follow_eager(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, args = MODELS[name](layers=2, width=16)

    def loss(run: Any, step: int) -> torch.Tensor:
        return run(*args)

    compiled = train_alike(module.train(), loss, lambda ps: torch.optim.AdamW(ps, lr=1e-3, eps=ADAM_EPSILON), steps=10)
    graphs = [graph.compiled for entry in compiled.entries for graph in entry.graphs]
    assert any(isinstance(graph, TrainingGraph) and graph.kernels for graph in graphs)
