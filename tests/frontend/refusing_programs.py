"""Programs that refuse some numbers, for test_refusals; here, because pytest rewrites the assertions of test files."""

from __future__ import annotations

import torch
from torch import distributions as d


def asserts(x: torch.Tensor) -> torch.Tensor:
    assert torch.isfinite(x).all(), f"not finite: {x.shape}"
    return x.exp() + 1


def if_raises(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if (y > 1e6).any():
        text = "large"
        raise ValueError(text, y.shape)
    return y.sin()


def unless_raises(x: torch.Tensor) -> torch.Tensor:
    if not (x.abs() < 1e6).all():
        raise ValueError("large")
    return x.sin()


def numbers(x: torch.Tensor) -> torch.Tensor:
    assert x.isfinite().sum()
    assert x[0, 0] + 100.5, "zero"
    return x + 1


def both_sides(x: torch.Tensor) -> torch.Tensor:
    assert (x < 1e6).all() and (x > -1e6).all(), "out of range"
    return x.cos()


def in_a_function(x: torch.Tensor) -> torch.Tensor:
    return asserts(x) + if_raises(x * 0.5)


def changed_afterwards(x: torch.Tensor) -> torch.Tensor:
    fine = torch.isfinite(x).all()
    assert fine
    fine.logical_not_()
    return x + fine


def effects(x: torch.Tensor) -> list[torch.Tensor]:
    made = []
    for i in range(3):
        made.append(x * i)
        assert (made[-1] < 1e6).all(), i
    return made


def normal(x: torch.Tensor) -> torch.Tensor:
    return d.Normal(x, x.exp()).log_prob(x * 2) + d.Normal(x, 1.0).entropy()


def categorical(x: torch.Tensor) -> torch.Tensor:
    made = d.Categorical(logits=x)
    return made.log_prob(x.argmax(-1)) + made.entropy() + d.Categorical(probs=x.softmax(-1)).logits.sum(-1)


def on_the_class(x: torch.Tensor) -> torch.Tensor:
    return x + isinstance(d.Categorical.logits, property)


def bernoulli(x: torch.Tensor) -> torch.Tensor:
    return d.Independent(d.Bernoulli(logits=x), 1).log_prob((x > 0).float())


def divergence(x: torch.Tensor) -> torch.Tensor:
    return d.kl_divergence(d.Normal(x, x.exp()), d.Normal(torch.zeros(3), torch.ones(3)))


def gamma(x: torch.Tensor) -> torch.Tensor:
    return d.Gamma(x.exp(), 1.0).log_prob(x.exp()) + d.Beta(x.exp(), x.exp()).log_prob(x.sigmoid())


def transformed(x: torch.Tensor) -> torch.Tensor:
    return d.TransformedDistribution(d.Normal(x, 1.0), [d.TanhTransform()]).log_prob(x.tanh() * 0.9)


PROGRAMS = (
    asserts, if_raises, unless_raises, numbers, both_sides, in_a_function, changed_afterwards, effects,
    normal, on_the_class, categorical, bernoulli, divergence, gamma, transformed,
)  # fmt: skip


def truth_of(x: torch.Tensor) -> torch.Tensor:
    assert x
    return x * 2
