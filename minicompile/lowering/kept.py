"""What eager's autograd keeps for backward.

In: the nodes of autograd's graph, over functional wrappers.
Out: the storages that they hold.

A compiled graph may keep an input or a result for backward only where eager does too. Otherwise a program that changes
it in place between forward and backward, which eager allows, would be refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..torch_compat import storage_id
from ..walks import reachable
from .errors import LoweringError

_NAMES: dict[type, tuple[str, ...]] = {}
"""Class of autograd node → the attributes under which it shows what it has saved."""


def kept_storages(roots: Sequence[Any]) -> set[int]:
    """The storages that backward from `roots` (tensors) holds.

    Raises LoweringError where something that was saved has been changed in place: eager's backward refuses that.
    """
    nodes = reachable((root.grad_fn for root in roots), _following)
    return {storage_id(value) for node in nodes for value in _saved(node)}


def _following(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions if following is not None]


def _saved(node: Any) -> Iterator[torch.Tensor]:
    try:
        for name in _names(node):
            value = getattr(node, name)
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, torch.Tensor):
                    yield item
    except RuntimeError as error:
        raise LoweringError(f"backward is refused: {error}") from error


def _names(node: Any) -> tuple[str, ...]:
    kind = type(node)
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return ("saved_tensors",)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(name for name in dir(node) if name.startswith("_saved_"))
    return _NAMES[kind]
