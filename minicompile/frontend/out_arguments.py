"""`torch.add(x, 1, out=b)`: a write to `b`, whose strides stay.

In: a call that writes its result into a tensor that it is given. Out: where the result by itself would have other
strides, nodes that make it and copy it: torch's functionalization takes it for `b` as it is, and what reads `b` by its
strides later (`b.as_strided`, the caller) would find those of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .breaks import Break, UserError

if TYPE_CHECKING:
    from torch import fx

    from .graph import GraphBuilder
    from .tracer import Tracer


def written_apart(
    graph: GraphBuilder, tr: Tracer, target: Callable[..., Any] | str, fakes: tuple[list[Any], dict[str, Any]],
    nodes: tuple[tuple[Any, ...], dict[str, Any]],
) -> fx.Node | None:  # fmt: skip
    """The node of the call; None where it can be made as it stands. `fakes` and `nodes`: its arguments."""
    out = fakes[1].get("out")
    if not isinstance(out, torch.Tensor) or isinstance(target, str):
        return None
    fake_rest, rest = ({key: value for key, value in named.items() if key != "out"} for _, named in (fakes, nodes))
    try:
        result = graph._run(tr, target, fakes[0], fake_rest)
    except (Break, UserError):
        return None
    if not isinstance(result, torch.Tensor) or result.dtype != out.dtype or result.shape != out.shape:
        return None
    if result.stride() == out.stride():
        return None
    made = graph._emit("call_function", target, nodes[0], rest, tr.origin(target))
    made.meta["example_value"] = result
    return graph._emit("call_method", "copy_", (nodes[1]["out"], made), {}, tr.origin(target))
