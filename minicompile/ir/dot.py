"""Drawings of graphs: of the IR, and of FX graphs.

In: an `ir.Graph`, or a `torch.fx.GraphModule`.
Out: a `graphviz.Digraph`, coloured by the kind of op, or a picture file.

The `dot` program need not be installed: pygraphviz's wheels (2.0 and later) carry the layout engine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DrawingUnavailable
from .graph import BufferView, Graph, InputView, Node, nodes_in
from .ops import CREATION, REDUCTIONS, SCANS, VIEWS, is_pointwise
from .symbols import dim_text
from .types import TensorType

if TYPE_CHECKING:
    import graphviz
    import torch

FORMATS = ("svg", "png", "pdf")

COLOURS = {
    "input": "#d9e8f6", "output": "#d9e8f6", "pointwise": "#d5ecd4", "reduction": "#fbe3c0", "view": "#eeeeee",
    "creation": "#f4f4d7", "extern": "#f6d5d5", "call": "#d5ecd4",
    "gather": "#e6dbf2", "scan": "#fbe3c0",
}
"""Fill colour per kind of node."""

KERNEL_COLOURS = ("#cfe3f7", "#fbe0c2", "#d8ecd0", "#ead7f2", "#f7d9dc", "#d5ecec", "#f3ecc4", "#dfdff5")
"""Fill colours of the nodes of one kernel, in turn."""


def kind_of(op: str) -> str:
    """The kind by which a node is coloured."""
    if is_pointwise(op):
        return "pointwise"
    if op in REDUCTIONS:
        return "reduction"
    if op in VIEWS or op == "getitem":
        return "view"
    if op in CREATION or op == "constant":
        return "creation"
    if op in SCANS:
        return "scan"
    return "pointwise" if op == "cast" else op


def to_dot(graph: Graph, groups: Mapping[Node, str] | None = None) -> graphviz.Digraph:
    """The graph, data flowing downwards; every node says its op, its type and its source line.

    Args:
        groups: node → name of the kernel it is part of; nodes of one kernel are drawn in one box and one colour.
    """
    drawing = _digraph(graph.name)
    ids = {node: f"n{i}" for i, node in enumerate((*graph.inputs, *graph.nodes))}
    kernels = dict.fromkeys((groups or {}).values())
    colours = {name: KERNEL_COLOURS[i % len(KERNEL_COLOURS)] for i, name in enumerate(kernels)}
    boxes: dict[str, list[Node]] = {}
    for node in ids:
        boxes.setdefault((groups or {}).get(node, ""), []).append(node)
    for name, nodes in boxes.items():
        _box(drawing, name, nodes, ids, colours.get(name))
    for node, name in ids.items():
        for operand in dict.fromkeys(node.operands()):
            drawing.edge(ids[operand], name)
    _draw_ends(drawing, graph, ids)
    return drawing


def _digraph(name: str) -> graphviz.Digraph:
    import graphviz

    style = {"shape": "box", "style": "filled,rounded", "fontname": "Helvetica", "fontsize": "10", "color": "#888888"}
    return graphviz.Digraph(name, graph_attr={"rankdir": "TB"}, node_attr=style, edge_attr={"color": "#666666"})


def _box(
    drawing: graphviz.Digraph, name: str, nodes: list[Node], ids: dict[Node, str], colour: str | None
) -> None:
    """The nodes of one kernel in a labelled box; nodes of no kernel stand free."""
    if not name:
        for node in nodes:
            _draw_node(drawing, node, ids[node])
        return
    with drawing.subgraph(name=f"cluster_{name}") as box:
        box.attr(label=name, style="rounded", color="#4477aa", fontname="Helvetica", fontsize="11")
        for node in nodes:
            _draw_node(box, node, ids[node], colour)


def _draw_node(drawing: graphviz.Digraph, node: Node, name: str, colour: str | None = None) -> None:
    where = f"{os.path.basename(node.origin.file)}:{node.origin.line}" if node.origin else ""
    lines = [_title(node), _type(node), where]
    tooltip = str(node.origin) if node.origin else node.op
    drawing.node(name, _label(lines), fillcolor=colour or COLOURS[kind_of(node.op)], tooltip=tooltip)


def _title(node: Node) -> str:
    """The op with what a reader needs to know beyond its operands."""
    if node.op == "input":
        return str(node.attrs["name"])
    if node.op == "extern":
        return str(node.attrs["target"])
    scalars = [_scalar(arg) for arg in node.args if not isinstance(arg, (Node, tuple, list))]
    attrs = [f"{name}={value}" for name, value in node.attrs.items() if name in ("dims", "dim", "start", "step")]
    details = ", ".join(scalars + attrs)
    return f"{node.op} {details}" if details else node.op


def _scalar(value: Any) -> str:
    return dim_text(value) if hasattr(value, "free_symbols") else repr(value)


def _type(node: Node) -> str:
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    text = ", ".join("-" if type is None else str(type) for type in types)
    sizes = [type.numel * type.dtype.itemsize for type in types if isinstance(type, TensorType)]
    is_known = bool(sizes) and node.op not in CREATION and all(isinstance(size, int) for size in sizes)
    return f"{text}  {_bytes_text(sum(sizes))}" if is_known else text


def _bytes_text(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _label(lines: list[str]) -> str:
    """Text lines as a dot label; backslashes are literal."""
    import graphviz

    return "\\n".join(graphviz.escape(line) for line in lines if line)


def _draw_ends(drawing: graphviz.Digraph, graph: Graph, ids: dict[Node, str]) -> None:
    """The outputs, and the inputs as written; memory shared with inputs as a dashed line."""
    for i, out in enumerate(graph.outputs):
        drawing.node(f"out{i}", f"output {i}", fillcolor=COLOURS["output"])
        if isinstance(out, InputView):
            drawing.edge(ids[graph.inputs[out.input]], f"out{i}", style="dashed", label="is" if out.whole else "view")
            continue
        for node in nodes_in(out.buffer if isinstance(out, BufferView) else out):
            drawing.edge(ids[node], f"out{i}", style="dashed" if isinstance(out, BufferView) else "solid")
    for i, (index, node) in enumerate(graph.writes):
        name = graph.inputs[index].attrs["name"]
        drawing.node(f"write{i}", _label([f"{name}.copy_"]), fillcolor=COLOURS["output"])
        drawing.edge(ids[node], f"write{i}")


# --- FX graphs ------------------------------------------------------------------------------------------------------


def fx_to_dot(gm: torch.fx.GraphModule, name: str = "fx") -> graphviz.Digraph:
    """An FX graph; types from `meta["example_value"]` or `meta["val"]` where tracing left them."""
    drawing = _digraph(name)
    for node in gm.graph.nodes:
        kind = {"placeholder": "input", "get_attr": "creation", "output": "output"}.get(node.op, "call")
        drawing.node(node.name, _label([node.name, *_fx_lines(node)]), fillcolor=COLOURS[kind])
        for operand in node.all_input_nodes:
            drawing.edge(operand.name, node.name)
    return drawing


def _fx_lines(node: Any) -> list[str]:
    import torch

    from .origins import call_name, origin_of

    origin = origin_of(node)
    call = call_name(node) if node.op.startswith("call") else ""
    value = node.meta.get("example_value", node.meta.get("val"))
    shape = ", ".join(map(str, value.shape)) if isinstance(value, torch.Tensor) else ""
    type = f"{str(value.dtype).removeprefix('torch.')}[{shape}]" if isinstance(value, torch.Tensor) else ""
    return [call, type, f"{os.path.basename(origin.file)}:{origin.line}" if origin else ""]


# --- pictures -------------------------------------------------------------------------------------------------------


def render(graph: Graph | graphviz.Digraph, path: str) -> str:
    """Draw a graph, or a drawing made by `to_dot` or `fx_to_dot`, into a file; returns the path.

    Args:
        path: ends in .svg, .png or .pdf.
    Raises:
        ValueError: another ending.
        DrawingUnavailable: no layout engine was found: neither pygraphviz, which carries one, nor a `dot` program.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].removeprefix(".")
    if ending not in FORMATS:
        raise ValueError(f"cannot draw {path!r}; the file name must end in one of {', '.join(FORMATS)}")
    drawing = to_dot(graph) if isinstance(graph, Graph) else graph
    _layout(drawing.source, path)
    return path


def to_svg(drawing: graphviz.Digraph) -> str:
    """The `<svg>` element of a drawing, to stand in a page. Raises DrawingUnavailable."""
    if layout_engine() == "dot":
        text = drawing.pipe(format="svg").decode()
    else:
        import pygraphviz

        text = pygraphviz.AGraph(string=drawing.source).draw(format="svg", prog="dot").decode()
    return text[text.index("<svg") :]


def layout_engine() -> str:
    """`"pygraphviz"`, or `"dot"` where pygraphviz cannot be loaded (its wheel needs the system's glib) but the program
    is there. Raises DrawingUnavailable."""
    try:
        import pygraphviz
    except ImportError as error:
        if shutil.which("dot") is None:
            raise DrawingUnavailable(
                f"drawing needs pygraphviz 2.0 or later, which could not be loaded ({error}). Install it, with glib "
                "(libglib2.0-0 in Debian and Ubuntu), or install the graphviz program dot."
            ) from error
        return "dot"
    if int(pygraphviz.__version__.split(".")[0]) < 2 and shutil.which("dot") is None:
        raise DrawingUnavailable(
            f"pygraphviz {pygraphviz.__version__} needs the program dot; version 2.0 and later do not: "
            "pip install -U 'pygraphviz>=2.0'"
        )
    return "pygraphviz"


def _layout(source: str, path: str) -> None:
    if layout_engine() == "dot":
        import graphviz

        Path(path).write_bytes(graphviz.Source(source).pipe(format=Path(path).suffix[1:]))
    else:
        import pygraphviz

        pygraphviz.AGraph(string=source).draw(path, prog="dot")
