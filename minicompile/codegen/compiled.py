"""What code generation hands on: the callable, and everything a person may want to see about it.

In: nothing. Out: the records `KernelInfo`, `FusionDecision` and `CompiledGraph`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..runtime.profiled import note
from ..timeline import Span

if TYPE_CHECKING:
    from ..ir.graph import Graph, Origin


@dataclass(frozen=True)
class FusionDecision:
    """Two neighbouring groups, and why they became one kernel or did not."""

    first: str
    second: str
    fused: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.first} + {self.second}: {'fused' if self.fused else 'kept apart'}: {self.reason}"


@dataclass(frozen=True)
class KernelInfo:
    """One generated kernel.

    Attributes:
        name: the function's name in the native source.
        language: "cpp" or "triton".
        source: its native source.
        ops: IR ops in it, in order.
        origins: the user's lines it computes, each once.
        bytes_moved: bytes loaded and stored, each tensor counted once per load; an int or a size expression.
        kind: "pointwise", "reduction" or "product" (of matrices).
        ir: the kernel IR as text.
        nodes: positions in `CompiledGraph.prepared.nodes` of the nodes it computes, in order.
    """

    name: str
    language: str
    source: str
    ops: list[str]
    origins: list[Origin]
    bytes_moved: Any
    kind: str
    ir: str = ""
    nodes: tuple[int, ...] = ()


@dataclass
class CompiledGraph:
    """A compiled graph; call it with the graph's inputs, get the tuple of its outputs.

    Attributes:
        call: the generated wrapper.
        ir: the graph that was compiled; `ir_before` the one before the passes, where the pipeline keeps it;
            `prepared` as fusion saw it: node number i of it is called `op_i` in the decisions.
        kernels: in order of launch.
        externs: ATen calls that remain, by name, in order.
        wrapper_source: Python text of `call`.
        native_source: C++ or Triton text of all kernels.
        objects: what `wrapper_source` names: kernels, operators, dtypes, constants.
        decisions: what fusion tried.
        seconds: stage → seconds.
        span: when it was compiled, where that was not while its entry was made: a backward.
    """

    call: Callable[..., tuple[Any, ...]]
    name: str
    ir: Graph
    kernels: list[KernelInfo]
    externs: list[str]
    wrapper_source: str
    native_source: str
    objects: dict[str, Any] = field(default_factory=dict, repr=False)
    decisions: list[FusionDecision] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    ir_before: Graph | None = field(default_factory=lambda: None)
    prepared: Graph | None = field(default_factory=lambda: None)
    span: Span | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        note(self)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)

    @property
    def kernel_count(self) -> int:
        return len(self.kernels)

    def describe(self) -> str:
        """The plan as text: kernels with their ops, lines and bytes, extern calls, and every fusion decision."""
        lines = [f"{self.name}: {len(self.kernels)} kernel(s), {len(self.externs)} extern call(s)"]
        for kernel in self.kernels:
            lines.append(f"  {kernel.name} ({kernel.language}, {kernel.kind}): {' '.join(kernel.ops)}")
            lines.append(f"    moves {_bytes_text(kernel.bytes_moved)}")
            lines.extend(f"    {origin}" for origin in kernel.origins)
        lines.extend(f"  extern {name}" for name in self.externs)
        if self.decisions:
            lines.append("  fusion:")
            lines.extend(f"    {decision}" for decision in self.decisions)
        return "\n".join(lines)


def count_kernels(compiled: Any) -> int:
    """How many kernels what a backend has made of a graph consists of, if it says so."""
    return compiled.kernel_count if isinstance(compiled, CompiledGraph) else len(getattr(compiled, "kernels", ()))


def _bytes_text(count: Any) -> str:
    if not isinstance(count, int):
        from ..ir.symbols import dim_text  # a process that recalls a graph has no use for the IR

        return f"{dim_text(count)} bytes"
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
