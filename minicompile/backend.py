"""The other door: `torch.compile(fn, backend="minicompile")`.

In: graphs that Dynamo captured; torch finds this module by the entry point in pyproject.toml, without an import of
ours.
Out: callables for Dynamo. Inference and training: torch's own AOTAutograd, the documented way for backend authors,
functionalises and splits the graph, and hands us plain ATen graphs for forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .backends import check_mode, check_options, compile_or_fall_back, with_mode
from .pipeline import EagerGraph


def minicompile_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A torch.compile backend.

    Args:
        gm, example_inputs: as Dynamo gives them.
        mode, options: as `torch.compile(..., mode=, options=)` passes them on; the same as `minicompile.compile`'s.
    Raises:
        ValueError: an unknown mode or option.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    check_mode(mode)
    check_options(options)

    def compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if any(node.meta.get("unbacked_bindings") for node in graph.graph.nodes):
            made: Callable[..., Any] = EagerGraph(graph, "a number or a size in it depends on data")
        else:
            made = compile_or_fall_back(graph, inputs, options=with_mode(mode, options))
        return make_boxed_func(made)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler)
    return backend(gm, example_inputs)
