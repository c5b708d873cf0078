"""The printer: a graph as a Python function that runs.

In: a Graph.
Out: text. `exec(text, namespace(graph))` defines a function of the graph's name that computes what the graph does,
input mutation included; `runnable(graph)` does that and returns the function.

Above each group of statements stands the user's source line it came from. A value that is used once, by a statement of
the same line, is written where it is used; `expand` is left to torch's broadcasting wherever that gives the same shape.
"""

from __future__ import annotations

import keyword
import linecache
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from .called_operators import CalledOperator
from .graph import BufferView, Graph, InputView, Node, Origin, nodes_in
from .ops import POINTWISE, REDUCTIONS, SCANS, VIEWS, is_pointwise
from .symbols import dim_text, dims_text, is_static, same_dim
from .types import SizeType, TensorType, contiguous_strides

_WIDTH = 96
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}
_PREFIX = {"neg": "-", "bitwise_not": "~"}


def print_graph(graph: Graph) -> str:
    """The graph as Python source."""
    return _Printer(graph).text()


def namespace(graph: Graph) -> dict[str, Any]:
    """The globals that the printed text needs beyond its own imports: the graph's constants."""
    constants = [node for node in graph.nodes if node.op == "constant"]
    return {f"constant_{i}": node.attrs["value"] for i, node in enumerate(constants)}


def runnable(graph: Graph) -> Callable[..., Any]:
    """The function that the printed text defines."""
    scope = namespace(graph)
    exec(compile(print_graph(graph), f"<{graph.name}>", "exec"), scope)
    return scope[_identifier(graph.name)]


def _identifier(name: str) -> str:
    name = re.sub(r"\W", "_", name)
    return name + "_" if keyword.iskeyword(name) or name in _TAKEN or name[:1].isdigit() else name


_TAKEN = frozenset({"torch", "ops", "aten", "math", "max", "min", "float", ""})


class _Printer:
    """The state of one print: names, which nodes are written in place, the lines so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.inline: dict[Node, str] = {}
        self.counts: dict[str, int] = {}
        self.line: tuple[str, int] | None = None
        self.uses: dict[Node, int] = dict.fromkeys((*graph.inputs, *graph.nodes), 0)
        self.user: dict[Node, Node] = {}
        self._count_uses()

    def text(self) -> str:
        for node in self.graph.inputs:
            self.names[node] = self._input_name(node)
        self._bind_sizes()
        constants = (node for node in self.graph.nodes if node.op == "constant")
        self.names.update({node: f"constant_{i}" for i, node in enumerate(constants)})
        for node in self.graph.nodes:
            if node.op != "constant":
                self._statement(node)
        self._ending()
        parameters = ", ".join(self.names[node] for node in self.graph.inputs)
        head = f"def {_identifier(self.graph.name)}({parameters}):"
        return "\n".join([*self._imports(), "", head, *("    " + line if line else "" for line in self.lines), ""])

    def _imports(self) -> list[str]:
        body = "\n".join(self.lines)
        lines = ["import math"] if "math." in body else []
        lines += ["import torch", "from minicompile.ir import eager_ops as ops"]
        return [*lines, "aten = torch.ops.aten"] if "aten." in body else lines

    # --- names and sizes ------------------------------------------------------------------------------------------

    def _input_name(self, node: Node) -> str:
        symbol = getattr(node.type.expr, "name", None) if isinstance(node.type, SizeType) else None
        if symbol is not None:
            return symbol
        return self._unique(_identifier(node.attrs["name"]))

    def _unique(self, name: str) -> str:
        taken = set(self.names.values())
        while name in taken:
            name += "_"
        return name

    def _name(self, node: Node) -> str:
        base = node.attrs["target"]._schema.name.split("::")[1] if node.op == "extern" else node.op
        base = base.strip("_")
        base = base if len(base) <= 20 else base[:20].rstrip("_")
        self.counts[base] = self.counts.get(base, 0) + 1
        self.names[node] = self._unique(f"{base}_{self.counts[base]}")
        return self.names[node]

    def _bind_sizes(self) -> None:
        """One line for each size symbol that is not an argument itself."""
        known = {name for node, name in self.names.items() if isinstance(node.type, SizeType)}
        for node in self.graph.inputs:
            if not isinstance(node.type, TensorType):
                continue
            for method, dims in (("size", node.type.shape), ("stride", node.type.strides)):
                for i, dim in enumerate(dims):
                    name = getattr(dim, "name", None)  # of a symbol; an expression has none
                    if name is not None and name not in known:
                        known.add(name)
                        self.lines.append(f"{name} = {self.names[node]}.{method}({i})")

    def _count_uses(self) -> None:
        """How often each value is written, and (for those written once) by whom; roots count double: they are named."""
        for root in self.graph.roots():
            self.uses[root] += 2
        for node in reversed(self.graph.nodes):
            if node.op == "expand" and not self.uses[node]:
                continue  # all its users leave it to broadcasting
            for operand in nodes_in(self._arguments(node)):
                self.uses[operand] += 1
                self.user[operand] = node

    def _arguments(self, node: Node) -> Sequence[Any]:
        return _unexpanded(node) if is_pointwise(node.op) else node.args

    # --- statements -----------------------------------------------------------------------------------------------

    def _statement(self, node: Node) -> None:
        if node.op == "expand" and not self.uses[node]:
            return
        text = self._expression(node)
        if self._goes_inline(node, text):
            self.inline[node] = text
            return
        self._source_line(node.origin)
        self.lines.append(f"{self._name(node)} = {_bare(text)}  # {_type_text(node.type)}")

    def _goes_inline(self, node: Node, text: str) -> bool:
        if self.uses[node] != 1 or node.op == "extern" and isinstance(node.type, tuple):
            return False
        user = self.user[node]
        if node.op in ("extern", "getitem") and user.op != "getitem" and node.origin != user.origin:
            return False
        return len(text) < _WIDTH // 2 and (node.op in _ALWAYS_INLINE or _same_line(node.origin, user.origin))

    def _source_line(self, origin: Origin | None) -> None:
        if origin is None or (origin.file, origin.line) == self.line:
            return
        self.line = (origin.file, origin.line)
        source = linecache.getline(origin.file, origin.line).strip()
        self.lines.append(f"# {_short_path(origin.file)}:{origin.line}  {source}".rstrip())

    def _ending(self) -> None:
        results = [self._output(out, i) for i, out in enumerate(self.graph.outputs)]
        for index, node in self.graph.writes:
            self.lines.append(f"{self.names[self.graph.inputs[index]]}.copy_({_bare(self._ref(node))})")
        self.lines.append("return (" + ", ".join(results) + ("," if len(results) == 1 else "") + ")")

    # --- expressions ----------------------------------------------------------------------------------------------

    def _ref(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.inline.get(value) or self.names[value]
        if isinstance(value, (tuple, list)):
            return "[" + ", ".join(map(self._ref, value)) + "]"
        if hasattr(value, "free_symbols"):
            return dim_text(value)
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return f'float("{value}")'
        if isinstance(value, torch.device):
            return f'"{value}"'
        return repr(value)

    def _expression(self, node: Node) -> str:
        if is_pointwise(node.op):
            return self._pointwise(node)
        if node.op in REDUCTIONS:
            return f"ops.{node.op}({_bare(self._ref(node.args[0]))}, {tuple(node.attrs['dims'])})"
        if node.op in SCANS:
            return f"ops.{node.op}({_bare(self._ref(node.args[0]))}, {node.attrs['dim']})"
        return getattr(self, f"_{node.op}")(node)

    def _pointwise(self, node: Node) -> str:
        if node.op == "cast":
            return self._cast(node)
        args = [self._ref(arg) for arg in _unexpanded(node)]
        if node.op in _PREFIX:
            return f"({_PREFIX[node.op]}{args[0]})"
        if node.op in _INFIX and POINTWISE[node.op].arity == 2:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        return f"ops.{node.op}({', '.join(map(_bare, args))})"

    def _cast(self, node: Node) -> str:
        source, type = node.args[0], node.tensor
        if source.tensor.dtype is type.dtype:
            return f"ops.strided({_bare(self._ref(source))}, {_tuple(type.strides)})"
        return f"{self._ref(source)}.to({type.dtype})"

    def _reshape(self, node: Node) -> str:
        return f"{self._ref(node.args[0])}.reshape({self._shape(node)})"

    def _expand(self, node: Node) -> str:
        return f"{self._ref(node.args[0])}.expand({self._shape(node)})"

    def _shape(self, node: Node) -> str:
        return dims_text(node.tensor.shape) or "()"

    def _permute(self, node: Node) -> str:
        return f"{self._ref(node.args[0])}.permute({', '.join(map(str, node.attrs['dims']))})"

    def _gather(self, node: Node) -> str:
        args = ", ".join(_bare(self._ref(arg)) for arg in node.args)
        masked = ", masked=True" if node.attrs["masked"] else ""
        checked = f', checked="{node.attrs["checked"]}"' if node.attrs["checked"] else ""
        return f"ops.gather({args}, dims={tuple(node.attrs['dims'])}{masked}{checked})"

    def _slice(self, node: Node) -> str:
        dim, start, step = node.attrs["dim"], node.attrs["start"], node.attrs["step"]
        if step < 0:
            length = dim_text(node.tensor.shape[dim])
            return f"ops.backwards({_bare(self._ref(node.args[0]))}, {dim}, {dim_text(start)}, {length}, {step})"
        stop, size = start + node.tensor.shape[dim] * step, node.args[0].tensor.shape[dim]
        if is_static(stop) and is_static(size):
            stop = min(stop, size)
        part = f"{dim_text(start)}:{dim_text(stop)}" + (f":{step}" if step != 1 else "")
        return f"{self._ref(node.args[0])}[{':, ' * dim}{part}]"

    def _full(self, node: Node) -> str:
        return f"ops.full({_tuple(node.tensor.shape)}, {self._ref(node.args[0])}, {node.tensor.dtype}{_device(node)})"

    def _iota(self, node: Node) -> str:
        return f"ops.iota({_tuple(node.tensor.shape)}, {node.attrs['dim']}{_device(node)})"

    def _getitem(self, node: Node) -> str:
        return f"{self._ref(node.args[0])}[{node.args[1]}]"

    def _extern(self, node: Node) -> str:
        keywords = node.attrs["keywords"]
        split = len(node.args) - len(keywords)
        args = [_bare(self._ref(arg)) for arg in node.args[:split]]
        pairs = [*zip(keywords, node.args[split:], strict=True), *node.attrs["kwargs"].items()]
        args += [f"{name}={_bare(self._ref(value))}" for name, value in pairs]
        return f"{_called(node.attrs['target'])}({', '.join(args)})"

    # --- outputs --------------------------------------------------------------------------------------------------

    def _output(self, out: Any, index: int) -> str:
        if isinstance(out, InputView):
            return self._input_view(out)
        if isinstance(out, BufferView):
            return self._buffer_view(out, index)
        if not isinstance(out, Node):
            return self._ref(out)
        text = self._ref(out)
        if out.op in ("input", "constant", *VIEWS) or out in self.graph.outputs[:index]:
            text = f"{text}.clone()"
        elif out.op in ("extern", "getitem"):
            return _bare(text)
        if tuple(out.tensor.strides) != contiguous_strides(out.tensor.shape):
            return f"ops.strided({_bare(text)}, {_tuple(out.tensor.strides)})"
        return _bare(text) if self._all_contiguous or out.tensor.rank < 2 else f"{text}.contiguous()"

    @cached_property
    def _all_contiguous(self) -> bool:
        """Whether torch's own layout rules can only give contiguous results here."""
        nodes = (*self.graph.inputs, *(node for node in self.graph.nodes if node.op != "expand"))
        return all(node.type.is_contiguous for node in nodes if isinstance(node.type, TensorType))

    def _input_view(self, out: InputView) -> str:
        name = self.names[self.graph.inputs[out.input]] + (".detach()" if out.detached else "")
        return name if out.whole else _view_text(name, self.graph.inputs[out.input], out)

    def _buffer_view(self, out: BufferView, index: int) -> str:
        """Equal views are one object, bound to a name the first time."""
        name = f"view_{self.graph.outputs.index(out) + 1}"
        if out not in self.graph.outputs[:index]:
            self.lines.append(f"{name} = {_view_text(self._ref(out.buffer), out.buffer, out)}")
        return name


_ALWAYS_INLINE = frozenset({"reshape", "permute", "expand", "slice", "full", "iota", "getitem"})


def _unexpanded(node: Node) -> Sequence[Any]:
    """The arguments before their `expand`, where broadcasting them gives the node's shape all the same."""
    args = [arg.args[0] if isinstance(arg, Node) and arg.op == "expand" else arg for arg in node.args]
    covered = [False] * node.tensor.rank
    for arg in args:
        if isinstance(arg, Node):
            for i, (have, want) in enumerate(zip(arg.tensor.shape, node.tensor.shape, strict=True)):
                covered[i] = covered[i] or same_dim(have, want)
    return args if all(covered) else node.args


def _bare(text: str) -> str:
    """Without the outermost parentheses, if they enclose the whole text."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    inner = text[1:-1]
    return text if inner.endswith(",") or not inner else inner


def _view_text(name: str, node: Node, out: InputView | BufferView) -> str:
    dtype = "" if out.type.dtype is node.tensor.dtype else f", {out.type.dtype}"
    lazy = f", lazy={out.lazy!r}" if out.lazy else ""
    places = f"{_tuple(out.type.shape)}, {_tuple(out.type.strides)}, {dim_text(out.offset)}"
    return f"ops.view({name}, {places}{dtype}{lazy})"


def _tuple(dims: Sequence[Any]) -> str:
    return f"({dims_text(dims)}{',' if len(dims) == 1 else ''})"


def _device(node: Node) -> str:
    device = node.tensor.device
    return "" if device.type == "cpu" else f', "{device}"'


def _type_text(type: Any) -> str:
    return ", ".join(map(str, type)) if isinstance(type, tuple) else str(type)


def _same_line(left: Origin | None, right: Origin | None) -> bool:
    if left is None or right is None:
        return left is right
    return (left.file, left.line) == (right.file, right.line)


def _short_path(path: str) -> str:
    """Relative to the working folder where the file lies below it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def _called(target: Any) -> str:
    """An extern's target as text that gives it."""
    if isinstance(target, CalledOperator):
        return f"ops.{type(target).__name__}({_called(target.op)})"
    space, _, name = target._schema.name.partition("::")
    return f"{'' if space == 'aten' else 'torch.ops.'}{space}.{name}.{target._overloadname}"
