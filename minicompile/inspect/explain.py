"""`minicompile.explain(fn)(*args)`: what became of a function, as values and as readable text.

In: a function (compiled afresh) or an already compiled one, and a call's arguments. Out: an `Explanation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..codegen.compiled import FusionDecision
    from ..frontend.breaks import BreakRecord
    from ..frontend.segments import Entry, GraphRecord
    from ..frontend.side_effects import EffectRecord
    from ..guards import RecompileRecord
    from .advice import Advice
    from .stacks import KernelRow


@dataclass(frozen=True)
class Explanation:
    """Everything that compiling a function made, over all its entries.

    Attributes:
        entries: the compiled entries themselves.
        graphs: captured graphs: `.gm` is the FX graph, `.compiled` what the backend made of it.
        graph_breaks: each break once: kind, reason, hint, file and line.
        kernels: generated kernels, in order.
        guards: one list of readable lines per entry.
        glue: the generated Python of each entry.
        eager: why pieces of code run in eager mode, if any do.
        recompiles: calls that no entry fitted, and which guards failed.
    """

    entries: list[Entry]
    graphs: list[GraphRecord]
    graph_breaks: list[BreakRecord]
    kernels: list[Any]
    guards: list[list[str]]
    glue: list[str]
    eager: list[str]
    recompiles: list[RecompileRecord] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.graph_breaks)

    @property
    def kernel_count(self) -> int:
        return len(self.kernels)

    @cached_property
    def advice(self) -> list[Advice]:
        """One row for each place where a graph breaks: the line's text, why, and a suggested rewrite."""
        from .advice import advise

        return advise(self.graph_breaks)

    @cached_property
    def costs(self) -> list[KernelRow]:
        """Kernels and ATen calls with bytes, operations and the user's lines."""
        from .stacks import compiled_halves, kernel_rows

        return [row for graph in self.graphs for half in compiled_halves(graph.compiled) for row in kernel_rows(half)]

    @cached_property
    def least_bytes(self) -> int:
        """What any compiler has to move for these graphs: inputs once, results once."""
        from .cost import least_bytes
        from .stacks import compiled_halves

        return sum(least_bytes(half.ir) for graph in self.graphs for half in compiled_halves(graph.compiled))

    @property
    def fusions(self) -> list[FusionDecision]:
        """Which operations share a kernel, and why others do not."""
        from .stacks import compiled_halves

        return [d for graph in self.graphs for half in compiled_halves(graph.compiled) for d in half.decisions]

    @property
    def effects(self) -> list[EffectRecord]:
        """Mutations of objects from outside: the statement, where it was made, where it is repeated."""
        return [effect for entry in self.entries for effect in entry.effects]

    @property
    def seconds(self) -> dict[str, float]:
        """By stage, over all entries."""
        from .stacks import compile_seconds

        return compile_seconds(self)

    @property
    def ran_wholly_in_eager(self) -> bool:
        """Whether nothing was compiled at all."""
        return not self.graphs

    @staticmethod
    def of(entries: list[Entry], recompiles: Sequence[RecompileRecord] = (), why_none: str = "") -> Explanation:
        """Collect over entries; a break that several entries met counts once. `why_none`: why there are none."""
        graphs = [graph for entry in entries for graph in entry.graphs]
        eager = [entry.eager for entry in entries if entry.eager] or [why_none]
        return Explanation(
            entries=entries,
            graphs=graphs,
            graph_breaks=list(dict.fromkeys(broken for entry in entries for broken in entry.breaks)),
            kernels=[kernel for graph in graphs for kernel in getattr(graph.compiled, "kernels", ())],
            guards=[[str(guard) for guard in entry.guards] for entry in entries],
            glue=[entry.code for entry in entries],
            eager=list(dict.fromkeys(filter(None, eager))),
            recompiles=list(recompiles),
        )

    def __str__(self) -> str:
        from .explain_text import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .explain_html import as_html

        return as_html(self)


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """A function that takes `fn`'s arguments, runs it compiled, and returns the `Explanation`.

    A function that `minicompile.compile` returned is explained as it stands, with all its entries so far; anything
    else is compiled afresh with `options`.
    """
    from .uncompiled import compiled_for_looking

    compiled = compiled_for_looking(fn, **options)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled(*args, **kwargs)
        return explanation_of(compiled)

    return explained


def explanation_of(compiled: Any) -> Explanation:
    """Of a compiled function as it stands."""
    from .uncompiled import why_uncompiled

    entries = compiled.entries
    return Explanation.of(entries, compiled.recompiles, "" if entries else why_uncompiled(compiled))
