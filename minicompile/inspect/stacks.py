"""The two compilers' work in one form, so that it can stand side by side.

In: an `Explanation` of ours; an `InductorWatch` of torch.compile's.
Out: a `Stack` each: graphs as captured and as lowered, breaks, kernels with their bytes, code, seconds by stage.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..codegen.compiled import CompiledGraph
from .cost import extern_costs, kernel_cost, least_bytes
from .inductor_text import kernels_of

if TYPE_CHECKING:
    import torch

    from .explain import Explanation
    from .inductor_watch import InductorWatch


@dataclass(frozen=True)
class BreakRow:
    """Where a graph ended, and why."""

    file: str
    line: int
    function: str
    reason: str


@dataclass(frozen=True)
class KernelRow:
    """One launch: `language` is "cpp", "triton" or "extern"; `bytes`: each tensor once; `lines`: the user's."""

    name: str
    language: str
    ops: tuple[str, ...]
    bytes: int | None
    flops: int | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """A text to show: `language` is a lexer's name."""

    title: str
    language: str
    text: str


@dataclass(frozen=True)
class Stack:
    """What one compiler made of a function.

    Attributes:
        captured, lowered, code: texts, one or more a graph.
        kernels: launches and extern calls, in order, over all graphs.
        least_bytes: what any compiler must move for these graphs: inputs once, results once; None if not known.
        seconds: by stage.
    """

    name: str
    graphs: int
    breaks: list[BreakRow]
    captured: list[Listing]
    lowered: list[Listing]
    kernels: list[KernelRow]
    code: list[Listing]
    seconds: dict[str, float]
    least_bytes: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def generated(self) -> list[KernelRow]:
        return [kernel for kernel in self.kernels if kernel.language != "extern"]

    @property
    def bytes(self) -> int | None:
        """Over all launches; None if one of them is not known."""
        sizes = [kernel.bytes for kernel in self.kernels]
        return None if any(size is None for size in sizes) else sum(size or 0 for size in sizes)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "bytes": self.bytes}


# ---- ours ----


def our_stack(explanation: Explanation) -> Stack:
    """minicompile's work, from the entries of a compiled function."""
    graphs = list(enumerate(explanation.graphs))
    halves = [(number, half) for number, graph in graphs for half in compiled_halves(graph.compiled)]
    return Stack(
        name="minicompile",
        graphs=len(graphs),
        breaks=[BreakRow(b.file, b.line, b.location.function, b.reason) for b in explanation.graph_breaks],
        captured=[Listing(f"graph {number}", "python", fx_text(graph.gm)) for number, graph in graphs],
        lowered=[Listing(_title(number, half), "python", str(half.ir)) for number, half in halves],
        kernels=[row for _, half in halves for row in kernel_rows(half)],
        code=[listing for number, half in halves for listing in _code(number, half)],
        seconds=compile_seconds(explanation),
        least_bytes=sum(least_bytes(half.ir) for _, half in halves) if len(halves) == len(graphs) else None,
        notes=[*explanation.eager, *filter(None, (getattr(graph.compiled, "reason", "") for _, graph in graphs))],
    )


def compiled_halves(compiled: Any) -> list[CompiledGraph]:
    """What a backend's result was compiled to: one graph; forward and backward; none for eager or a foreign one."""
    if isinstance(compiled, CompiledGraph):
        return [compiled]
    return [half for half in getattr(compiled, "halves", ()) if isinstance(half, CompiledGraph)]


def kernel_rows(compiled: CompiledGraph) -> list[KernelRow]:
    """Kernels and extern calls, by the place of their last operation in the graph."""
    rows = []
    for kernel in compiled.kernels:
        cost = kernel_cost(compiled, kernel)
        lines = tuple(dict.fromkeys(f"{origin.file}:{origin.line}" for origin in kernel.origins))
        row = KernelRow(kernel.name, kernel.language, tuple(kernel.ops), int(cost.bytes), int(cost.flops), lines)
        rows.append((max(kernel.nodes, default=-1), row))
    for position, node, cost in extern_costs(compiled):
        name = str(node.attrs["target"])
        lines = (f"{node.origin.file}:{node.origin.line}",) if node.origin is not None else ()
        rows.append((position, KernelRow(name, "extern", (name,), int(cost.bytes), int(cost.flops), lines)))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def operations(row: KernelRow) -> str:
    """Each op once, with how often it occurs."""
    counts: dict[str, int] = {}
    for op in row.ops:
        counts[op] = counts.get(op, 0) + 1
    return " ".join(op if count == 1 else f"{op}×{count}" for op, count in counts.items())


def fx_text(gm: torch.fx.GraphModule) -> str:
    """The captured graph as Python."""
    return gm.print_readable(print_output=False, include_stride=False).strip()


def _title(number: int, half: CompiledGraph) -> str:
    return f"graph {number}" if half.name == "graph" else f"graph {number}, {half.name}"


def _code(number: int, half: CompiledGraph) -> list[Listing]:
    language = "cpp" if all(kernel.language == "cpp" for kernel in half.kernels) else "python"
    native = [Listing(f"{_title(number, half)}: kernels", language, half.native_source)] if half.kernels else []
    return [*native, Listing(f"{_title(number, half)}: wrapper", "python", half.wrapper_source)]


def compile_seconds(explanation: Explanation) -> dict[str, float]:
    """Over all entries: tracing, the stages of the back end, glue."""
    total: dict[str, float] = {}
    for entry in explanation.entries:
        stages = {name: spent for name, spent in entry.seconds.items() if name != "backend"}
        for graph in entry.graphs:
            for name, spent in own_stages(getattr(graph.compiled, "seconds", None) or {}).items():
                stages[name] = stages.get(name, 0.0) + spent
        for name, spent in stages.items():
            total[name] = total.get(name, 0.0) + spent
    return total


def own_stages(seconds: dict[str, float]) -> dict[str, float]:
    """Stages that do not contain one another: `codegen` is the sum of its parts, `kernels` contains `native`."""
    stages = {name: spent for name, spent in seconds.items() if name != "codegen"}
    if "native" in stages:
        stages["native compiler"] = stages.pop("native")
        stages["kernels"] = max(stages.get("kernels", 0.0) - stages["native compiler"], 0.0)
    return stages


# ---- theirs ----

_STAGES = {
    "entire_frame_compile": "dynamo, all of it",
    "backend_compile": "AOTAutograd and inductor",
    "inductor_compile": "inductor",
    "code_gen": "inductor's code generation",
    "async_compile.wait": "of it, native compiler",
}


def their_stack(watch: InductorWatch) -> Stack:
    """torch.compile's work, as it was watched."""
    kernels = [kernel for code in watch.code for kernel in kernels_of(code)]
    return Stack(
        name="torch.compile",
        graphs=len(watch.graphs),
        breaks=[BreakRow(*row) for row in watch.breaks],
        captured=[Listing(f"graph {number}", "python", fx_text(gm)) for number, gm in enumerate(watch.graphs)],
        lowered=[Listing(f"graph {number}", "python", text.strip()) for number, text in enumerate(watch.lowered)],
        kernels=[KernelRow(k.name, _language(k.name, k.is_extern), k.ops, k.bytes) for k in kernels],
        code=[Listing(f"graph {number}: module", "python", code) for number, code in enumerate(watch.code)],
        seconds={label: watch.seconds[name] for name, label in _STAGES.items() if watch.seconds.get(name)},
    )


def _language(name: str, is_extern: bool) -> str:
    return "extern" if is_extern else name.split("_")[0]


__all__ = [
    "BreakRow", "KernelRow", "Listing", "Stack", "compile_seconds", "compiled_halves", "kernel_rows", "operations",
    "our_stack", "their_stack",
]  # fmt: skip
