"""Graphs as scripts that run alone.

In: an FX graph with its example inputs, or an `ir.Graph`. Out: Python text with everything in it: imports, a function,
inputs of the same shapes, strides and dtypes, and a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..ir.graph import Graph
from ..ir.symbols import evaluate, free_symbols
from ..ir.types import SizeType

TENSOR = '''

def tensor(shape, strides, dtype, device="cpu", requires_grad=False):
    """Small random numbers, laid out as asked."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides)) if 0 not in shape else 0
    base = torch.randn(size) if dtype.is_floating_point or dtype.is_complex else torch.randint(0, 2, (size,))
    return base.to(dtype=dtype, device=device).as_strided(shape, strides).requires_grad_(requires_grad)

'''


def fx_script(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, comment: str = "", ending: str = "") -> str:
    """The graph as the function `forward`, its inputs, and a call.

    Args:
        comment: stands at the top.
        ending: takes the place of the call; `inputs` and `forward` are at hand.
    """
    code = gm.graph.python_code("self", verbose=False)
    body = code.src.replace("def forward(self, ", "def forward(", 1).replace("def forward(self)", "def forward()", 1)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += ["import torch", "from torch import device, inf, nan  # noqa: F401", *_imports(code.globals)]
    given = ",\n".join(f"    {value_text(value)}" for value in example_inputs)
    call = ending or "torch.manual_seed(0)\nprint(forward(*inputs))"
    return "\n".join(lines) + TENSOR + f"{body.strip()}\n\n\ninputs = [\n{given}\n]\n{call}\n"


def _imports(names: dict[str, Any]) -> list[str]:
    """One import for each object that the graph's code names."""
    lines = []
    for name, value in names.items():
        if name in ("torch", "device", "inf", "nan", "NoneType", "pytree", "fx_pytree"):
            continue
        module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, type(torch)):
            lines.append(f"import {value.__name__} as {name}")
        elif module and own and "<" not in own and "." not in own:
            lines.append(f"from {module} import {own} as {name}")
        else:
            lines.append(f"# {name} = {value!r}: cannot be imported")
    return lines


def value_text(value: Any) -> str:
    """A tensor like this one, or a number."""
    if not isinstance(value, torch.Tensor):
        return str(hint_of(value))
    shape, strides = (tuple(map(hint_of, sizes)) for sizes in (value.shape, value.stride()))
    return f"tensor({shape}, {strides}, {value.dtype}, {str(value.device)!r}, {value.requires_grad})"


def hint_of(size: Any) -> Any:
    """A number for a size, symbolic ones included."""
    node = getattr(size, "node", None)
    return size if node is None else node.hint


def ir_script(graph: Graph) -> str:
    """The IR's own text, which is a Python function, its inputs, and a call."""
    given = ",\n".join(f"    {_input_text(node.type, graph)}" for node in graph.inputs)
    call = f"inputs = [\n{given}\n]\ntorch.manual_seed(0)\nprint({graph.name}(*inputs))\n"
    text = str(graph).rstrip()
    head, _, rest = text.partition("\ndef ")
    return f"{head}{TENSOR}\ndef {rest}\n\n\n{call}"


def _input_text(type: Any, graph: Graph) -> str:
    def number(size: Any) -> int:
        if isinstance(size, int):
            return size
        return int(evaluate(size, {name: graph.symbols.get(name, 8) for name in free_symbols(size)}))

    if isinstance(type, SizeType):
        return str(number(type.expr))
    shape, strides = (tuple(map(number, sizes)) for sizes in (type.shape, type.strides))
    return f"tensor({shape}, {strides}, {type.dtype}, {str(type.device)!r})"
