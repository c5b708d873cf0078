"""Where an FX node comes from in the user's program.

In: an FX node, from this package's frontend (`meta["origin"]`) or from Dynamo (`meta["stack_trace"]`).
Out: an `Origin`, or None when the node tells nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .graph import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


def origin_of(node: Any) -> Origin | None:
    """The node's Origin. Of Dynamo's stack traces, outermost frame first, the innermost frame is taken."""
    origin = node.meta.get("origin")
    if origin is not None:
        return origin
    frame = _innermost(node.meta.get("stack_trace"))
    return Origin(*frame, call=call_name(node)) if frame else None


@lru_cache(maxsize=1024)
def _innermost(stack_trace: str | None) -> tuple[str, int, str] | None:
    frames = _FRAME.findall(stack_trace or "")
    if not frames:
        return None
    file, line, function = frames[-1]
    return file, int(line), function.strip()


def call_name(node: Any) -> str:
    """torch's name for what an FX node calls, as a user would write it."""
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    target = (node.meta.get("source_fn_stack") or [(None, node.target)])[-1][1]
    if isinstance(target, str):
        return target
    if hasattr(target, "_schema"):
        return target._schema.name.replace("::", ".")
    name = getattr(target, "__name__", str(target))
    module = getattr(target, "__module__", None) or ""
    module = {"torch._C._nn": "torch.nn.functional", "_operator": "operator"}.get(module, module).split("._")[0]
    return f"{module}.{name}" if module.startswith(("torch", "operator")) else f"torch.{name}"
