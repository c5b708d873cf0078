"""Functions within a graph that run as they stand, one of two or again and again: compiled like graphs of their own.

In: a section that is the call of such functions. Out: the same, with what the backend makes of each in its place. A
loop whose tensors have gradients is left as it is: whether they have may change from one round to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx, nn

from ..body_calls import branched, looped

Compile = Callable[[fx.GraphModule, list[Any]], Any]


class CompiledBody(nn.Module):
    """A function in its compiled form, where an FX graph has it as a module."""

    def __init__(self, compiled: Any) -> None:
        super().__init__()
        self.compiled = compiled
        self.call = getattr(compiled, "call", compiled)

    def forward(self, *inputs: Any) -> Any:
        return self.call(*inputs)


def compile_bodies(gm: fx.GraphModule, compile_it: Compile) -> list[Any]:
    """Put the compiled forms of the functions in their places; returns them."""
    made = []
    for name in dict.fromkeys(_names(gm)):
        body = getattr(gm, name)
        inputs = [node.meta["example_value"] for node in body.graph.find_nodes(op="placeholder")]
        if not any(map(_is_symbolic, inputs)):
            with torch.set_grad_enabled(_grad_mode(gm)):
                made.append(compile_it(body, inputs))
            setattr(gm, name, CompiledBody(made[-1]))
    return made


def _names(gm: fx.GraphModule) -> Iterator[str]:
    for node in gm.graph.nodes:
        is_loop = node.target is looped
        if node.target is branched or (is_loop and not _has_gradients(node)):
            yield from (part.target for part in node.args[:2])


def _grad_mode(gm: fx.GraphModule) -> bool:
    """The mode in which the functions run: the section sets it, if it is another than that of the call."""
    modes = [node.args[0] for node in gm.graph.nodes if node.target is torch._C._set_grad_enabled]
    return bool(modes[0]) if modes else torch.is_grad_enabled()


def _has_gradients(node: fx.Node) -> bool:
    values = [part.meta.get("example_value") for part in node.users]
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _is_symbolic(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return isinstance(value, (torch.SymInt, torch.SymFloat))
    return any(not isinstance(size, int) for size in (*value.shape, *value.stride(), value.storage_offset()))
