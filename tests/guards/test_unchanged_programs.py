"""Modules that change between calls as they like compute what eager computes, though guards are not asked again."""

import functools
import random

import pytest
import torch
from torch import nn

import minicompile


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.act, self.scale, self.config = torch.relu, 1.5, {"steps": 2, "bias": [0.5]}
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        for _ in range(self.config["steps"]):
            for layer in self.layers:
                x = self.act(layer(x)) * self.scale + self.shift
        return (x + self.config["bias"][0]) / DIVISOR


DIVISOR = 3.0


def random_change(net, rng):
    """One of many ways to change what the net computes."""
    layer = rng.choice(net.layers)
    return rng.choice(
        [
            lambda: setattr(net, "scale", rng.choice([1.5, 2.5])),
            lambda: net.config.update(steps=rng.choice([1, 2])),
            lambda: net.config["bias"].__setitem__(0, rng.choice([0.5, 0.25])),
            lambda: setattr(net, "act", rng.choice([torch.relu, torch.tanh])),
            lambda: setattr(layer, "weight", nn.Parameter(torch.randn(3, 3))),
            lambda: setattr(layer, "bias", None) if layer.bias is not None else None,
            lambda: setattr(layer, "bias", nn.Parameter(torch.randn(3))),
            lambda: net._buffers.__setitem__("shift", torch.randn(3)),
            lambda: net.layers.__setitem__(rng.randrange(4), nn.Linear(3, 3)),
            lambda: layer.__dict__.__setitem__("forward", functools.partial(torch.mul, 2)),
            lambda: layer.__dict__.pop("forward", None),
            lambda: globals().__setitem__("DIVISOR", rng.choice([3.0, 5.0])),
            lambda: setattr(Net, "extra", rng.random()),
            lambda: setattr(net, "calls", rng.random()),
            lambda: net.train(rng.choice([True, False])),
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_programs_whose_modules_change_as_they_like(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    nets = [Net(), Net()]
    compiled = [minicompile.compile(net) for net in nets]
    with torch.no_grad():
        for _ in range(40):
            which = rng.randrange(2)
            random_change(nets[which], rng)()
            for _ in range(2):
                x = torch.randn(2, 3)
                torch.testing.assert_close(compiled[which](x), nets[which](x))
