"""`python -m benchmarks.training`: forward, loss and backward; eager, torch.compile, minicompile in turns.

In: nothing. Out: a table: medians of one step with their spread, seconds of the first step, bytes of activations saved
between forward and backward.

    python -m benchmarks.training [--only REGEX] [--rounds N] [--no-inductor]
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

import minicompile
from minicompile.inspect.compare import seconds
from minicompile.inspect.timing import Timing, interleaved

from . import models
from .language_models import MODELS
from .pinned import pinned

EAGER, INDUCTOR, OURS = "eager", "torch.compile", "minicompile"
Made = tuple[nn.Module, tuple[Tensor, ...]]


def _mlp() -> Made:
    module, args = models.mlp(256)
    return module, args


def _convnet() -> Made:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10)), (torch.randn(32, 3, 32, 32),)


class _Recurrent(nn.Module):
    """Two layers of an LSTM; the last layer's outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(128, 256, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)[0]


def _lstm() -> Made:
    return _Recurrent(), (torch.randn(16, 32, 128),)


def _encoder_layer() -> Made:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(8, 64, 256),)


def _blocks(pre_norm: bool, causal: bool) -> Callable[[], Made]:
    def make() -> Made:
        return nn.Sequential(*(models.Block(256, 4, pre_norm, causal) for _ in range(4))), (torch.randn(8, 64, 256),)

    return make


ROWS: dict[str, Callable[[], Made]] = {
    "MLP": _mlp,
    "convnet + batch norm": _convnet,
    "LSTM": _lstm,
    "TransformerEncoder": _encoder_layer,
    "blocks as in BERT": _blocks(pre_norm=False, causal=False),
    "blocks as in GPT-2": _blocks(pre_norm=True, causal=True),
    **({f"Hugging Face {name}": make for name, make in MODELS.items()} if find_spec("transformers") else {}),
}
"""Name → what makes a module in training mode and its arguments; Hugging Face's where transformers is installed."""


def step_of(run: Callable[..., Tensor], module: nn.Module, args: tuple[Tensor, ...]) -> Callable[[], None]:
    """Forward, loss and backward with fresh gradients."""

    def step() -> None:
        module.zero_grad(set_to_none=True)
        run(*args).pow(2).mean().backward()

    return step


def saved_bytes(run: Callable[..., Tensor], module: nn.Module, args: tuple[Tensor, ...]) -> int:
    """Bytes of the distinct buffers that autograd saves in one forward, without parameters and arguments."""
    known = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers(), *args)}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run(*args)
    found = sum(t.untyped_storage().nbytes() for pointer, t in kept.items() if pointer not in known)
    del result
    return found


def measure(name: str, *, inductor: bool, rounds: int) -> tuple[dict[str, Timing], dict[str, float], dict[str, int]]:
    """Of each candidate: the time of a step, the seconds of its first step, the bytes it saves."""
    torch.manual_seed(0)
    module, args = ROWS[name]()
    module.train()
    compilers: dict[str, Callable[..., Any]] = {EAGER: lambda m: m, OURS: minicompile.compile}
    if inductor:
        compilers[INDUCTOR] = torch.compile
    steps, first, saved = {}, {}, {}
    for compiler, compile_module in compilers.items():
        own = copy.deepcopy(module)
        run = compile_module(own)
        steps[compiler] = step_of(run, own, args)
        first[compiler] = seconds(steps[compiler])
        saved[compiler] = saved_bytes(run, own, args)
    with pinned():
        return interleaved(steps, rounds=rounds), first, saved


def _warm_up(*, inductor: bool) -> None:
    """The first training step of a process pays for imports."""
    for compile_function in (minicompile.compile, *((torch.compile,) if inductor else ())):
        x = torch.ones(5, requires_grad=True)
        compile_function(lambda x: (x * 2 + 1).exp().sum())(x).backward()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description="training steps, side by side")
    parser.add_argument("--only", metavar="REGEX", help="rows whose name matches")
    parser.add_argument("--rounds", type=int, default=15, help="how often each candidate takes its turn")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as caches:  # the first steps are measured too
        os.environ["MINICOMPILE_CACHE_DIR"] = f"{caches}/minicompile"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{caches}/inductor"
        _run(args)
    return 0


def _run(args: argparse.Namespace) -> None:
    _warm_up(inductor=not args.no_inductor)
    for name in [name for name in ROWS if not args.only or re.search(args.only, name)]:
        times, first, saved = measure(name, inductor=not args.no_inductor, rounds=args.rounds)
        for who, timing in times.items():
            print(f"{name:22} {who:14} {timing!s:16} first {first[who]:7.2f} s  saved {saved[who]:>10} B", flush=True)
        minicompile.reset()
        torch.compiler.reset()


if __name__ == "__main__":
    sys.exit(main())
