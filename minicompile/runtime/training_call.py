"""The Python text of a call of a differentiable graph.

In: a `CallPlan`, the graph's inputs, the function that runs the pair.
Out: text and globals of `run(*inputs) -> tuple of outputs`.

    def run(x, w):
        r = pair(x, w)                        # one node of autograd's graph
        x.copy_(r[1])                         # a write that autograd records
        return (r[0], r[2].as_strided((4, 8), (8, 1), r[2].storage_offset() + 0))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from ..ir.call_plan import CallPlan, Own, View, Whole, Write
from ..ir.graph import Node
from ..ir.retyped import view_as
from ..ir.symbols import dim_text, free_symbols
from ..ir.types import SizeType
from .written import written_function

_serial = count()


def make_call(
    plan: CallPlan, inputs: Sequence[Node], pair: Callable[..., tuple[Any, ...]], grad_mode: bool, name: str
) -> tuple[str, Callable[..., tuple[Any, ...]]]:
    """Write and compile `run`; its text is registered for tracebacks.

    Args:
        pair: inputs → results.
        grad_mode: the mode in which calls come; the pair and recorded writes run with gradients recorded.
    """
    modes = {"no_grad": torch.no_grad, "enable_grad": torch.enable_grad}
    namespace = {"math": math, "torch": torch, "view_as": view_as, "pair": pair, **modes}
    writer = _Writer(plan, inputs, grad_mode, namespace)
    source = writer.run()
    filename = f"<minicompile {name} call {next(_serial)}>"
    return source, written_function(source, filename, writer.namespace)


@dataclass
class _Writer:
    plan: CallPlan
    inputs: Sequence[Node]
    grad_mode: bool
    namespace: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    views: dict[int, str] = field(default_factory=dict)

    def run(self) -> str:
        names = ", ".join(f"a{i}" for i in range(len(self.inputs)))
        self.lines.append(f"def run({names}):")
        self._line(f"r = pair({names})", needs_grad=True)
        for write in self.plan.writes:
            self._write(write)
        self._sizes()
        outputs = [self._output(out) for out in self.plan.outputs]
        self._line(f"return ({''.join(f'{out}, ' for out in outputs)})")
        return "\n".join(self.lines) + "\n"

    def _line(self, text: str, needs_grad: bool = False) -> None:
        if needs_grad and not self.grad_mode:
            self.lines.append("    with enable_grad():")
            text = "    " + text
        self.lines.append("    " + text)

    def _write(self, write: Write) -> None:
        if write.recorded:
            self._line(f"a{write.input}.copy_(r[{write.result}])", needs_grad=True)
        else:
            self.lines.append("    with no_grad():")
            self.lines.append(f"        a{write.input}.copy_(r[{write.result}])")

    def _sizes(self) -> None:
        """Bind the size symbols that outputs mention: from size inputs, or from shapes and strides."""
        wanted = {symbol for out in self.plan.outputs for dim in _dims(out) for symbol in free_symbols(dim)}
        for index, node in enumerate(self.inputs):
            for dim, text in _places(node, f"a{index}"):
                if str(dim) in wanted:
                    wanted.remove(str(dim))
                    self._line(f"{dim} = {text}")

    def _output(self, out: Any) -> str:
        if isinstance(out, Own):
            return f"r[{out.result}]"
        if isinstance(out, Whole):
            return f"a{out.input}"
        if isinstance(out, View):
            if out.key not in self.views:
                self.views[out.key] = f"v{len(self.views)}"
                self._view(self.views[out.key], out)
            return self.views[out.key]
        return dim_text(out) if hasattr(out, "free_symbols") else self._constant(out)

    def _view(self, name: str, out: View) -> None:
        """The view, as autograd is to know it: not at all, or as a view that it differentiates."""
        base = f"a{out.index}" if out.of_input else f"r[{out.index}]"
        source = f"{base}.detach()" if out.detached else base
        shape, strides = _tuple(out.type.shape), _tuple(out.type.strides)
        if out.retyped or out.lazy:
            text = f"view_as({source}, {out.type.dtype}, {shape}, {strides}, {dim_text(out.offset)}, {out.lazy!r})"
        else:
            offset = "" if out.offset == 0 else f" + {dim_text(out.offset)}"
            text = f"{source}.as_strided({shape}, {strides}, {base}.storage_offset(){offset})"
        if out.unrecorded:
            self.lines.append("    with no_grad():")
            self.lines.append(f"        {name} = {text}")
        else:
            self._line(f"{name} = {text}", needs_grad=not out.detached)

    def _constant(self, value: Any) -> str:
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        self.namespace[f"c{len(self.namespace)}"] = value
        return f"c{len(self.namespace) - 1}"


def _dims(out: Any) -> list[Any]:
    if isinstance(out, View):
        return [*out.type.shape, *out.type.strides, out.offset]
    return [out] if hasattr(out, "free_symbols") else []


def _places(node: Node, name: str) -> Iterator[tuple[Any, str]]:
    """The dimensions that an input carries, and how to read each."""
    if isinstance(node.type, SizeType):
        yield node.type.expr, name
        return
    for i, dim in enumerate(node.tensor.shape):
        yield dim, f"{name}.shape[{i}]"
    for i, dim in enumerate(node.tensor.strides):
        yield dim, f"{name}.stride({i})"


def _tuple(dims: Sequence[Any]) -> str:
    return f"({''.join(f'{dim_text(dim)}, ' for dim in dims)})"
