"""How many of PyTorch's own operators run in our generated kernels, beside those that torch.compile puts into its own.

    python -m benchmarks.kernel_coverage [--sample 40] [--seed 0] [--all]

An operator of torch's OpInfo database counts as *in kernels* when compiling its first sample inputs leaves no ATen call
and makes at least one kernel (float32 where it has it). torch.compile costs about 4 seconds an operator, so by default
a random sample is asked of it; --all asks for every operator.
"""

from __future__ import annotations

import argparse
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import minicompile.backends


def operators() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def calls(op: Any) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """The first sample inputs, in the first dtype that the operator has."""
    dtypes = op.supported_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in dtypes), None)
    if dtype is None:
        return
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if number == 3:
            return
        yield op.get_op(), (sample.input, *sample.args), sample.kwargs


def ours(op: Any) -> bool:
    """Whether minicompile needs no ATen call."""
    graphs: list[Any] = []
    compile_graph = minicompile.backends.compile_graph

    def spy(*args: Any, **kwargs: Any) -> Any:
        graphs.append(compile_graph(*args, **kwargs))
        return graphs[-1]

    minicompile.backends.compile_graph = spy
    try:
        for function, args, kwargs in calls(op):
            minicompile.reset()
            minicompile.compile(lambda *a, f=function, **k: f(*a, **k))(*args, **kwargs)
    except Exception:
        return False
    finally:
        minicompile.backends.compile_graph = compile_graph
    return any(g.kernels for g in graphs) and not any(g.externs for g in graphs)


def theirs(op: Any) -> bool:
    """Whether torch.compile's generated code calls no ATen operator and has a kernel."""
    from torch._inductor.utils import run_and_get_code

    texts: list[str] = []
    try:
        for function, args, kwargs in calls(op):
            torch._dynamo.reset()
            compiled = torch.compile(lambda *a, f=function, **k: f(*a, **k))
            texts += run_and_get_code(compiled, *args, **kwargs)[1]
    except Exception:
        return False
    return any("cpp_fused" in text for text in texts) and not any(
        re.search(r"torch\.ops\.aten\.\w+\.\w+\(|extern_kernels\.\w+\(", text) for text in texts
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=40, help="operators that torch.compile is asked about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="ask torch.compile about every operator")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    everything = operators()
    names = sorted(everything) if args.all else random.Random(args.seed).sample(sorted(everything), args.sample)
    in_theirs = [name for name in names if theirs(everything[name])]
    in_both = [name for name in in_theirs if ours(everything[name])]
    print(f"asked about {len(names)} of {len(everything)} operators" + ("" if args.all else " (a random sample)"))
    print(f"in torch.compile's own kernels: {len(in_theirs)}")
    print(f"of these in ours: {len(in_both)} ({100 * len(in_both) / max(len(in_theirs), 1):.0f} %)")
    print("not in ours:", ", ".join(sorted(set(in_theirs) - set(in_both))) or "none")


if __name__ == "__main__":
    main()
