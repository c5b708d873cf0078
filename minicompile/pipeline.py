"""The middle and the back end as one function: FX graph in, callable out.

In: a `torch.fx.GraphModule` and example inputs, from whichever frontend traced it (ours or Dynamo's).
Out: a `CompiledGraph`: a callable with every stage kept for inspection.

Both doors, `minicompile.compile` and `torch.compile(backend="minicompile")`, come through here, so that a graph
compiles the same way whoever captured it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .errors import BackendError, CompilerMissing

if TYPE_CHECKING:
    from .codegen.compiled import CompiledGraph


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    target: str = "auto",
    name: str = "graph",
    options: dict[str, Any] | None = None,
) -> CompiledGraph:
    """Lower, optimise and generate code for one graph, for inference.

    Args:
        gm: torch-level or ATen-level calls; placeholders are tensors and symbolic ints.
        example_inputs: one per placeholder; fake or real tensors, SymInts or ints.
        target: "cpp", "triton" or "auto" (by the device of the inputs).
        name: used in file and kernel names.
        options: options of `minicompile.compile`.
    Raises:
        BackendError: a stage failed; names the stage and carries the original exception.
        CompilerMissing: there is no C++ compiler.
    """
    from .codegen import compile_ir
    from .lowering import lower
    from .passes import run as run_passes

    seconds: dict[str, float] = {}
    with _stage("lowering", seconds):
        lowered = lower(gm, example_inputs, name=name)
    with _stage("passes", seconds):
        optimised = run_passes(lowered)
    with _stage("codegen", seconds):
        compiled = compile_ir(optimised, backend=target, options=options)
    compiled.ir_before = lowered
    compiled.seconds = {**seconds, **compiled.seconds}
    return compiled


@contextmanager
def _stage(name: str, seconds: dict[str, float]) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    except CompilerMissing:
        raise
    except Exception as error:
        raise BackendError(name, error) from error
    finally:
        seconds[name] = time.perf_counter() - start


def needs_autograd(gm: torch.fx.GraphModule) -> bool:
    """Whether running the graph records gradients, judged by the fake values that tracing left in the graph."""
    return any(
        node.op != "placeholder" and _requires_grad(node.meta.get("example_value")) for node in gm.graph.nodes
    )


def _requires_grad(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    return isinstance(value, (tuple, list)) and any(map(_requires_grad, value))


class EagerGraph:
    """A graph that runs as captured: under eager autograd, or because a stage failed. `reason` says which."""

    def __init__(self, gm: torch.fx.GraphModule, reason: str) -> None:
        self.gm = gm
        self.reason = reason
        self.kernels: list[Any] = []
        self._forward: Callable[..., Any] = gm.forward

    def __call__(self, *args: Any) -> Any:
        return self._forward(*args)
