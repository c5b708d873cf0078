"""The keys that random numbers in kernels are computed from.

In: the place where a key is needed. Out: an extern call that draws `count` keys from torch's generator of a device, so
that `torch.manual_seed` decides them. It is an effect: never merged with another one like it, never left out or run
again.
"""

from __future__ import annotations

from typing import Any

import torch

from .graph import Node, Origin
from .types import TensorType

_TARGET = torch.ops.aten.randint.low
_RANGE = (-(2**63), 2**63 - 1)


def draw_keys(count: int, device: torch.device, origin: Origin | None = None) -> Node:
    """The call: `count` numbers of int64, any."""
    type = TensorType(torch.int64, (count,), (1,), device)
    kwargs = {"dtype": torch.int64, "device": device}
    attrs: dict[str, Any] = {"target": _TARGET, "kwargs": kwargs, "keywords": (), "effect": True}
    return Node("extern", (*_RANGE, (count,)), attrs, type, origin)


def is_key(node: Node) -> bool:
    """Whether the node is a call that draws one key."""
    return node.op == "extern" and node.attrs["target"] is _TARGET and node.args == (*_RANGE, (1,))
