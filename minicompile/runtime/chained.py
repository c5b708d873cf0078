"""A graph in sections: what one gives, the next reads.

In: the sections of a captured graph (see lowering/sections.py), each compiled. Out: `ChainedGraph`, a callable from the
graph's inputs to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from ..lowering.sections import Section


class ChainedGraph:
    """Compiled sections, one after the other. What only a later section needs is not kept longer than that.

    Attributes:
        gm: the captured graph.
        parts: the sections of it; `sections`: what was made of each.
        source: the generated Python of `call`.
    """

    def __init__(self, gm: fx.GraphModule, sections: Sequence[Section], compiled: Sequence[Any]) -> None:
        self.gm = gm
        self.parts = list(sections)
        self.sections = list(compiled)
        self.source, self.call = _write_call(gm, sections, compiled)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)

    @property
    def name(self) -> str:
        return self.sections[0].name

    @property
    def seconds(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for section in self.sections:
            for stage, spent in section.seconds.items():
                total[stage] = total.get(stage, 0.0) + spent
        return total

    @property
    def halves(self) -> list[Any]:
        """What is compiled: forward, and backward once it was needed, of each section."""
        return [half for section in self.sections for half in getattr(section, "halves", [section])]

    @property
    def kernels(self) -> list[Any]:
        return [kernel for section in self.sections for kernel in section.kernels]

    @property
    def externs(self) -> list[str]:
        return [name for section in self.sections for name in section.externs]

    @property
    def wrapper_source(self) -> str:
        return "\n".join([self.source, *(section.wrapper_source for section in self.sections)])

    @property
    def native_source(self) -> str:
        return "\n".join(section.native_source for section in self.sections)

    def describe(self) -> str:
        """The plans of all sections."""
        return "\n".join(section.describe() for section in self.sections)


def _write_call(
    gm: fx.GraphModule, sections: Sequence[Section], compiled: Sequence[Any]
) -> tuple[str, Callable[..., tuple[Any, ...]]]:
    from ..codegen.wrapper_text import compile_wrapper

    names = {node: f"a{i}" for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    lines = [f"def call({', '.join(names.values())}):"]
    for number, section in enumerate(sections):
        given = ", ".join(names[node] for node in section.inputs)
        names.update({node: f"t{number}_{i}" for i, node in enumerate(section.outputs)})
        results = "".join(f"{names[node]}, " for node in section.outputs)
        lines.append(f"    {f'({results}) = ' if results else ''}section_{number}({given})")
    (output,) = gm.graph.find_nodes(op="output")
    constants: dict[str, Any] = {f"section_{number}": run for number, run in enumerate(compiled)}
    lines.append(f"    return ({''.join(f'{_text(item, names, constants)}, ' for item in output.args[0])})")
    source = "\n".join(lines) + "\n"
    return source, compile_wrapper("chained graph", source, constants)["call"]


def _text(item: Any, names: dict[fx.Node, str], constants: dict[str, Any]) -> str:
    if isinstance(item, fx.Node):
        return names[item]
    constants[f"c{len(constants)}"] = item
    return f"c{len(constants) - 1}"
