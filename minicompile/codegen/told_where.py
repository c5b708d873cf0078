"""Which of ATen's calls write their result where they are told.

In: an extern node. Out: whether its result may lie in memory that the wrapper plans.
"""

from __future__ import annotations

import torch

from ..ir.graph import Node
from ..ir.types import TensorType
from ..runtime.products import EAGER

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_DEVICES = ("cpu", "cuda")


def writes_where_told(node: Node) -> bool:
    """Whether an extern node is a product whose result may be put into memory of the wrapper's own."""
    if node.attrs.get("target") not in EAGER or node.attrs.get("kwargs") or node.attrs.get("keywords"):
        return False
    types = [node.type, *(arg.type for arg in node.args if isinstance(arg, Node))]
    if len(types) != len(node.args) + 1 or not all(isinstance(type, TensorType) for type in types):
        return False
    result = node.tensor
    alike = all(type.dtype == result.dtype and type.device == result.device for type in types)  # type: ignore[union-attr]
    return alike and result.dtype in _DTYPES and result.device.type in _DEVICES and result.is_contiguous
