"""How many of PyTorch's own operators run in our generated kernels, beside those that torch.compile puts into its own.

    python -m benchmarks.kernel_coverage                # both counts, over the whole operator database
    python -m benchmarks.kernel_coverage --show REGEX   # what stays an ATen call, for the operators that match
    python -m benchmarks.kernel_coverage --inductor     # ask torch.compile again: rewrites inductor_kernels.json

An operator of torch's OpInfo database counts as *in kernels* when compiling its first three sample inputs (float32
where it has it) leaves no ATen call and makes at least one kernel. Neither side builds native code: generated text is
enough to tell. torch.compile's answer, one list of names, is kept in a file, since it takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

ANSWERS = Path(__file__).with_name("inductor_kernels.json")
SAMPLES = 3

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def operators() -> dict[str, Any]:
    """The database by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def calls(op: Any) -> Iterator[Call]:
    """The first sample inputs, in the first dtype that the operator has."""
    dtypes = op.supported_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in dtypes), None)
    if dtype is None:
        return
    torch.manual_seed(1234)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if number == SAMPLES:
            return
        yield op.get_op(), (sample.input, *sample.args), sample.kwargs


@dataclass
class Seen:
    """What compiling an operator's samples came to."""

    kernels: int = 0
    externs: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def in_kernels(self) -> bool:
        return self.kernels > 0 and not self.externs and not self.failures


def ours(op: Any) -> Seen:
    """Kernels and ATen calls of our graphs; every graph then runs in eager."""
    import minicompile
    from minicompile.codegen import cpp_build
    from minicompile.pipeline import compile_graph

    seen = Seen()

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with mock.patch.object(cpp_build, "build", _unbuilt):
            graph = compile_graph(gm, inputs)
        seen.kernels += len(graph.kernels)
        seen.externs.update(graph.externs)
        return gm.forward

    for function, args, kwargs in _calls_or_none(op):
        minicompile.reset()
        try:
            minicompile.compile(lambda *a, f=function, **k: f(*a, **k), backend=backend)(*args, **kwargs)
        except Exception as error:  # whatever a stage raises counts as a failure
            seen.failures.append(f"{type(error).__name__}: {error}")
    return seen


def _unbuilt(kernels: Sequence[Any], *_: Any) -> tuple[str, list[str], list[Any]]:
    """In place of the native build."""
    return "", [""] * len(kernels), [None] * len(kernels)


def _calls_or_none(op: Any) -> list[Call]:
    """The samples; none where the database cannot make them here."""
    try:
        return list(calls(op))
    except Exception:  # samples for devices, libraries or builds that are not here raise what they like
        return []


class _Enough(Exception):
    """torch.compile has generated its code; building it would tell no more."""


def theirs(op: Any) -> bool:
    """Whether torch.compile's generated code calls no ATen operator and has a kernel."""
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    texts: list[str] = []

    def stop(graph: Any) -> Any:
        texts.append(graph.codegen()[0].value)
        raise _Enough

    for function, args, kwargs in _calls_or_none(op):
        torch._dynamo.reset()
        before = len(texts)
        with mock.patch.object(GraphLowering, "compile_to_module", stop), config.patch(force_disable_caches=True):
            try:
                torch.compile(lambda *a, f=function, **k: f(*a, **k))(*args, **kwargs)
            except Exception:  # `_Enough`, in what Dynamo wraps it; or there is no text, which is the answer
                if len(texts) == before:
                    return False
    return any("cpp_fused" in text for text in texts) and not any(
        re.search(r"torch\.ops\.\w+\.\w+\.\w+\(|extern_kernels\.\w+\(", text) for text in texts
    )


def ask_inductor() -> None:
    """Write down which operators torch.compile puts into its own kernels."""
    found = []
    for number, (name, op) in enumerate(sorted(operators().items())):
        if theirs(op):
            found.append(name)
        if number % 50 == 49:
            print(f"{number + 1} asked, {len(found)} in kernels", flush=True)
    command = "python -m benchmarks.kernel_coverage --inductor"
    text = json.dumps({"command": command, "torch": torch.__version__, "operators": found}, indent=1)
    ANSWERS.write_text(text + "\n")


def report(everything: dict[str, Any], known: set[str]) -> None:
    """The counts, and what is missing with the ATen calls that keep it out."""
    seen = {name: ours(op) for name, op in sorted(everything.items())}
    mine = {name for name, one in seen.items() if one.in_kernels}
    both = mine & known
    for name in sorted(known - mine):
        print(f"  {name}: {_why(seen[name])}")
    print(f"operators: {len(everything)}; in our kernels: {len(mine)}")
    print(f"in torch.compile's own kernels: {len(known)}; of these in ours: {len(both)} "
          f"({100 * len(both) / max(len(known), 1):.1f} %)")


def _why(seen: Seen) -> str:
    if seen.in_kernels:
        return "in kernels"
    return ", ".join([*map(str, seen.externs), *seen.failures])[:200] or "no kernel"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="REGEX", help="print what is extern for the operators that match, and stop")
    parser.add_argument("--inductor", action="store_true", help="ask torch.compile about every operator")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if args.inductor:
        ask_inductor()
    elif args.show:
        for name, op in sorted(operators().items()):
            if re.search(args.show, name):
                print(f"{name}: {_why(ours(op))}")
    else:
        everything = operators()
        report(everything, set(json.loads(ANSWERS.read_text())["operators"]) & everything.keys())


if __name__ == "__main__":
    main()
