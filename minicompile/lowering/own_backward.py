"""Custom operators whose backward can be run, but not traced: it looks at the numbers of a tensor, say.

In: a call of the captured graph. Out: whether it is one of these, found by running operator and backward on fake
tensors. Eager's autograd then does what nobody can do for it, between two compiled sections (see sections.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..nests import requires_grad, tensors_in

_OWN_RULES = ("aten", "prims", "prim")
"""Namespaces of operators whose backward is torch's own."""


def keeps_own_backward(node: fx.Node) -> bool:
    """See the module's docstring."""
    if not _is_custom(node.target) or not requires_grad(node.meta.get("example_value")):
        return False
    try:
        _run(node)
    except Exception:  # whatever the user's backward raises on fake tensors
        return True
    return False


def _is_custom(target: Any) -> bool:
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    if not isinstance(target, torch._ops.OpOverloadPacket):
        return False
    return target._qualified_op_name.split("::")[0] not in _OWN_RULES


def _run(node: fx.Node) -> None:
    """The operator and its backward on fake tensors. Raises whatever they raise."""
    inputs: list[torch.Tensor] = []

    def leaf(source: fx.Node) -> Any:
        value = source.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            return value
        inputs.append(value.detach().requires_grad_(value.requires_grad))
        return inputs[-1]

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), leaf)
    with torch.enable_grad(), torch.autograd.set_multithreading_enabled(False):
        assert callable(node.target)
        results = [result for result in tensors_in(node.target(*args, **kwargs)) if result.requires_grad]
        wanted = [value for value in inputs if value.requires_grad]
        torch.autograd.grad(results, wanted, [torch.empty_like(result) for result in results], allow_unused=True)
