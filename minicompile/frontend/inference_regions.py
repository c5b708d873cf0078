"""Inference mode inside a graph: what its blocks come to for a backend.

In: a traced graph with calls that enter and leave inference mode. Out: the same graph with calls that set grad mode in
their place, and whether the graph as a whole runs in inference mode, so that what it returns are inference tensors.

Inside the graph nothing but gradients depends on the mode: whether an operation is allowed there, the fake tensors have
told, which were in the mode for real. Outside, tensors that were made in it behave otherwise (`is_inference`, no
version, no place in autograd). A graph whose results were made partly inside and partly outside cannot be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import torch
from torch import fx
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from ..nests import requires_grad
from .breaks import Restart, unsupported

if TYPE_CHECKING:
    from .graph import GraphBuilder


def settle(builder: GraphBuilder, outputs: Iterable[fx.Node], grad_mode: bool) -> bool:
    """Rewrite the graph's inference mode blocks; `grad_mode` is the one on entry.

    Returns whether the graph has to be called in inference mode, which the entry is not in.
    Raises Restart, to enter a block for real, where no mode of the whole graph gives what eager does.
    """
    blocks = [node for node in builder.graph.nodes if node.target is _enter_inference_mode]
    if not blocks:
        return False
    made_inside = {node.meta["example_value"].is_inference() for node in outputs if _is_tensor(node)}
    is_on, wanted = torch.is_inference_mode_enabled(), made_inside == {True}
    if is_on and not all(node.args[0] for node in blocks):
        _enter_for_real(blocks, "is left by a block of the graph")
    if not is_on and len(made_inside) > 1:
        _enter_for_real(blocks, "makes some of the tensors that the graph returns, and others are made outside")
    if not is_on and any(entry.value.fake.is_inference() for entry in builder.inputs):
        _enter_for_real(blocks, "is entered by a graph that reads an inference tensor")
    if not is_on and wanted and any(map(_records_gradients, builder.graph.nodes)):
        _enter_for_real(blocks, "is entered by a graph that records gradients as well")
    _rewrite(builder.graph, grad_mode)
    if not wanted or is_on:
        return False
    for node in builder.graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            node.args = (False,)
    return True


def _enter_for_real(blocks: list[fx.Node], why: str) -> NoReturn:
    raise Restart(blocks[0].meta["step"], unsupported(f"Inference mode {why}."))


def _rewrite(graph: fx.Graph, grad_mode: bool) -> None:
    """Calls of inference mode as calls of grad mode; those of grad mode inside have no effect there."""
    modes: list[tuple[bool, bool]] = [(False, grad_mode)]  # around and in each open block: inference mode, grad mode
    for node in graph.nodes:
        if node.target is _enter_inference_mode:
            modes.append((node.args[0], not node.args[0]))
        elif node.target is _exit_inference_mode:
            modes.pop()
        elif node.target is torch._C._set_grad_enabled:
            modes[-1] = (modes[-1][0], node.args[0])
        else:
            continue
        inference, enabled = modes[-1]
        node.target, node.args = torch._C._set_grad_enabled, (enabled and not inference,)


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta["example_value"], torch.Tensor)


def _records_gradients(node: fx.Node) -> bool:
    return node.op in ("call_function", "call_method") and requires_grad(node.meta.get("example_value"))


__all__ = ["settle"]
