"""What the sessions share: a model, headings, questions."""

from __future__ import annotations

import torch
from torch import nn


def model(width: int = 64) -> nn.Module:
    """A small perceptron, the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = (nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.GELU(), nn.LayerNorm(width))
        return nn.Sequential(*layers).eval()


def begin(number: int, title: str, task: str) -> None:
    print(f"Session {number}: {title}\n{'=' * (len(title) + 11)}\n\nYour task: {task}\n")


def question(text: str, answer: str) -> None:
    print(f"\nQuestion: {text}\nAnswer: {answer}")
