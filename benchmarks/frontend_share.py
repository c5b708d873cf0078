"""`python -m benchmarks.frontend_share`: what the frontend alone costs of a first call, beside Dynamo.

In: a 12-layer GPT-2 of Hugging Face transformers (its default configuration, random weights, a batch of 1 × 64 tokens).
Out: seconds of CPU of the first call with a backend that gives the captured graph back as it is, less an eager call:
capture, guards and the code around the graph. Each figure is the least of several new processes; in each, the compiler
has compiled a small function before, so that what it imports once is paid.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

COMPILERS = ("torch.compile", "minicompile")


def first_call(compiler: str, layers: int) -> tuple[float, int]:
    """CPU seconds of the frontend in the first call, and how many graphs it captured. To be called in a new process."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers)).eval()
    ids = torch.randint(0, 50257, (1, 64))
    graphs = 0

    def count(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        nonlocal graphs
        graphs += 1
        return gm.forward

    with torch.no_grad():
        compile_with(compiler, lambda x: (x + 1).relu(), count)(torch.ones(4))
        compiled, graphs = compile_with(compiler, model, count), 0
        eager = min(_seconds(model, ids) for _ in range(3))
        return _seconds(compiled, ids) - eager, graphs


def compile_with(compiler: str, fn: Any, backend: Any) -> Any:
    """`fn`, compiled with a backend for torch's graphs."""
    if compiler == "minicompile":
        import minicompile

        return minicompile.compile(fn, backend=backend)
    import torch

    return torch.compile(fn, backend=backend)


def _seconds(fn: Any, ids: Any) -> float:
    start = time.process_time()
    fn(ids)
    return time.process_time() - start


def measured(compiler: str, layers: int, runs: int) -> tuple[float, int]:
    """The least of `runs` new processes."""
    found = [_in_new_process(compiler, layers) for _ in range(runs)]
    return min(found)


def _in_new_process(compiler: str, layers: int) -> tuple[float, int]:
    command = [sys.executable, "-m", "benchmarks.frontend_share", "--one", compiler, "--layers", str(layers)]
    with tempfile.TemporaryDirectory() as caches:
        run = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "MINICOMPILE_CACHE_DIR": caches}
        )
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip().splitlines()[-1])
    seconds, graphs = run.stdout.split()[-2:]
    return float(seconds), int(graphs)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontend_share", description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3, help="new processes a compiler")
    parser.add_argument("--one", choices=COMPILERS, help="measure one compiler in this process")
    args = parser.parse_args()
    if args.one:
        print(*first_call(args.one, args.layers))
        return 0
    (theirs, their_graphs), (ours, our_graphs) = (measured(name, args.layers, args.runs) for name in COMPILERS)
    print(f"the frontend's share of a first call, GPT-2 with {args.layers} layers, CPU seconds:")
    print(f"  torch.compile {theirs:.2f} ({their_graphs} graphs)   minicompile {ours:.2f} ({our_graphs} graphs)")
    print(f"  minicompile / torch.compile: {ours / theirs:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
