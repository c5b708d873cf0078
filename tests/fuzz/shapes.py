"""Random programs over sizes, called with random sizes: what is compiled for one size must be right for all.

`python -m tests.fuzz.shapes --count 5000` runs that many and prints each that disagrees with eager, with its seed. In:
choices from a `random.Random` (hypothesis makes one that shrinks). A program is Python text; it reads sizes, computes
with them, and reshapes, slices, joins, pads and branches accordingly. Lines that raise for the first sizes are left
out, so the rest mean something; for later sizes they may raise, and then must raise the same kind of error compiled.

Graphs are run by the reference interpreter after lowering and all passes, so one program takes a fraction of a second;
every twentieth is compiled to C++ (`--cpp 1`: every one).
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import minicompile
from minicompile import lowering, passes
from minicompile.config import config
from minicompile.ir import reference
from tests.support import assert_same

INTS = (
    "n", "x.shape[0]", "x.shape[1]", "y.shape[0]", "t.shape[0]", "t.shape[-1]", "t.dim()", "t.numel()", "len(t)",
    "{i} + 1", "{i} - 1", "{i} * 2", "{i} // 2", "{i} % 3", "{i} + {i}", "{i} - {i}", "{i} * {i}", "min({i}, {i})",
    "max({i}, 2)", "abs({i} - 5)", "-{i}", "-({i} // -2)", "2", "3",
)  # fmt: skip
TENSORS = (
    "t.reshape(-1)", "t.reshape({i}, -1)", "t.reshape(-1, {i})", "t.reshape({i}, {i}, -1)", "t.flatten()",
    "t.unflatten(0, ({i}, -1))", "t.t()", "t.transpose(0, -1)", "t.transpose(0, -1).contiguous()", "t.unsqueeze({d})",
    "t.squeeze()", "t.flip({d})", "t.roll({i}, {d})", "t[{i}:]", "t[:{i}]", "t[{i}:{i}]", "t[::2]", "t[..., {i}:]",
    "t[..., :-{i}]", "t[{i}]", "t[..., {i}]", "t[None]", "t[:, None]", "t.narrow({d}, {i}, {i})", "t.select({d}, {i})",
    "torch.cat([t, t])", "torch.cat([t, t[:{i}]])", "torch.cat([t[{i}:], t[:{i}]])", "torch.cat([t, t], -1)",
    "torch.cat([x, y])", "torch.stack([t, t * 2], {d})", "torch.cat([t.reshape(-1), x.reshape(-1), y.reshape(-1)])",
    "t + torch.arange(t.shape[-1])", "t * torch.arange({i}, {i} + t.shape[0]).view(-1, *[1] * (t.dim() - 1))",
    "torch.arange({i}).float()", "torch.arange(0, {i}, 2) * 0.5", "torch.full(({i}, {i}), 1.5)", "t.new_zeros({i}, 3)",
    "t + torch.ones({i})", "t.expand({i}, *t.shape)", "t.repeat({i} % 3 + 1, *[1] * (t.dim() - 1))",
    "F.pad(t, ({i} % 3, 1))", "t.sum({d})", "t.mean({d}, keepdim=True)", "t.cumsum({d})", "t.amax({d})",
    "t * {i}", "t + {i} / 2", "t / t.shape[0]", "t - {i} % 2", "t @ t.t()", "t @ t.transpose(-1, -2)", "t * t[:1]",
    "t + t[..., :1]", "t.chunk(2)[0]", "t.split(2)[-1]", "t.index_select(0, torch.arange({i} % t.shape[0] + 1))",
    "t.masked_fill(t > {i}, 0.0)", "t[1:] - t[:-1]", "t.unfold(0, 2, 1)", "t.tril({i} % 3)", "t.clone().mul_({i})",
    "t if {i} > {i} else t * 2", "t.relu() if {i} % 2 == 0 else -t",
    "sum((t[k] for k in range(min(3, t.shape[0]))), t * 0)",
    "t.softmax({d})", "t.as_strided(t.shape, t.stride())", "t.view(t.shape)", "t.movedim(0, -1)",
)  # fmt: skip
LIMIT = 4000
"""Elements beyond which a line is left out."""


@dataclass(frozen=True)
class Program:
    """Text of `fn(x, y, n)`, and the sizes `(rows, columns, other rows, n)` of each call."""

    text: str
    calls: tuple[tuple[int, int, int, int], ...]
    dynamic: bool | None

    def function(self) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.text, f"<shapes {hash(self.text)}>", "exec"), namespace)
        return namespace["fn"]

    def arguments(self) -> Iterator[tuple[Any, ...]]:
        for index, (rows, columns, others, n) in enumerate(self.calls):
            generator = torch.Generator().manual_seed(index)
            x, y = (torch.randn(size, columns, generator=generator) for size in (rows, others))
            yield x, y, n


def program(choices: random.Random, steps: int) -> Program:
    """A program that works for the sizes of its first call."""
    calls = tuple(
        (choices.randint(1, 6), choices.randint(1, 6), choices.randint(1, 6), choices.randint(1, 5)) for _ in range(4)
    )
    made = Program("", calls, choices.choice([True, None]))
    x, y, n = next(made.arguments())
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "x": x, "y": y, "n": n, "t": x}
    lines: list[str] = []
    for step in range(steps):
        line = f"t = {_filled(choices.choice(TENSORS), choices, 2)}"
        if step % 3 == 2:
            line = f"n = {_filled(choices.choice(INTS), choices, 2)}"
        if _works(line, scope):
            lines.append(line)
    body = "\n    ".join([*(["t = x"]), *lines, "return t, n, t.shape"])
    return Program(f"def fn(x, y, n):\n    {body}\n", calls, made.dynamic)


def _filled(template: str, choices: random.Random, depth: int) -> str:
    while "{" in template:
        pool = INTS if depth else INTS[:9]
        before, _, after = template.partition("{")
        kind, _, after = after.partition("}")
        number = _filled(choices.choice(pool), choices, depth - 1 if depth else 0)
        part = str(choices.randint(-2, 1)) if kind == "d" else f"({number})"
        template = f"{before}{part}{after}"
    return template


def _works(line: str, scope: dict[str, Any]) -> bool:
    trial = dict(scope)
    try:
        exec(line, trial)
    except Exception:
        return False
    if not isinstance(trial["t"], torch.Tensor) or trial["t"].numel() > LIMIT or not -50 < trial["n"] < 50:
        return False
    scope.update(trial)
    return True


# ---- checking ----


def interpreted(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """A backend: lowering and passes, then the reference interpreter."""
    graph = passes.run(lowering.lower(gm, example_inputs))
    return lambda *args: tuple(reference.run(graph, *args))


def check(one: Program, backend: Any = interpreted) -> str | None:
    """Why compiled and eager differ, or None."""
    fn = one.function()
    compiled = minicompile.compile(fn, backend=backend, dynamic=one.dynamic)
    for args in one.arguments():
        expected, actual = _outcome(fn, args), _outcome(compiled, args)
        try:
            assert_same(actual, expected, strides=False)
        except Exception as error:
            sizes = [tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args]
            return f"{sizes}, dynamic={one.dynamic}: {error}\n{one.text}"
    return None


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives. Strides only where they place elements: torch's shape rules, which tracing asks, and its
    kernels differ in the others."""
    try:
        result, *rest = fn(*args)
        if any(size < 0 for size in result.shape):  # what eager's expand makes of a negative size; nothing reads it
            return tuple(result.shape)
        placing = zip(result.shape, result.stride(), strict=True) if result.numel() else ()
        return (result, *rest, [stride for size, stride in placing if size > 1])
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError, TypeError) as error:
        return type(error).__name__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=8, help="lines a program")
    parser.add_argument("--cpp", type=int, default=20, help="every how many-th program is compiled to C++")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    bad = 0
    with config.patch(recompile_limit=64):
        for seed in range(args.seed, args.seed + args.count):
            why = check(program(random.Random(seed), args.steps), "cpp" if seed % args.cpp == 0 else interpreted)
            if why is not None:
                bad += 1
                print(f"--- seed {seed}: {why}", flush=True)
    print(f"{args.count} programs, {bad} mismatches")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
