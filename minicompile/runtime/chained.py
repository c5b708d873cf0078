"""A graph in sections: what one gives, the next reads.

In: the sections of a captured graph (see lowering/sections.py), each compiled. Out: `ChainedGraph`, a callable from the
graph's inputs to its outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import fx

from ..ir.symbols import dim_text, to_dim
from ..lowering.errors import LoweringError
from ..lowering.sections import Section, symbol_of
from ..shape_env import data_facts
from .facts import FactMissed


class ChainedGraph:
    """Compiled sections, one after the other. What only a later section needs is not kept longer than that.

    Attributes:
        gm: the captured graph.
        parts: the sections of it; `sections`: what was made of each.
        source: the generated Python of `call`.
        misses: in how many calls in a row something about data was not as taken for granted.
    """

    def __init__(self, gm: fx.GraphModule, sections: Sequence[Section], compiled: Sequence[Any]) -> None:
        self.gm = gm
        self.parts = list(sections)
        self.sections = list(compiled)
        self.misses = 0
        self.source, self.call = _write_call(self, sections, compiled)

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


class PlainSection:
    """A section that runs as it was captured: its result depends on data in more than its numbers, or its backward is
    not to be traced. `bodies`: what was compiled of functions within it."""

    def __init__(self, gm: fx.GraphModule, bodies: Sequence[Any] = ()) -> None:
        self.gm = gm
        self.bodies = list(bodies)
        self.name = "part_as_captured"
        self.seconds: dict[str, float] = {}
        self.externs = [str(node.target) for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
        self.wrapper_source = self.native_source = ""
        self._forward: Callable[..., Any] = gm.forward

    def __call__(self, *args: Any) -> Any:
        return self._forward(*args)

    @property
    def kernels(self) -> list[Any]:
        return [kernel for body in self.bodies for kernel in body.kernels]

    @property
    def halves(self) -> list[Any]:
        return [half for body in self.bodies for half in getattr(body, "halves", [body])]

    def describe(self) -> str:
        """What it calls."""
        return "\n".join(f"as captured: {name}" for name in self.externs)


def _write_call(
    graph: ChainedGraph, sections: Sequence[Section], compiled: Sequence[Any]
) -> tuple[str, Callable[..., tuple[Any, ...]]]:
    from ..codegen.wrapper_text import compile_wrapper

    gm = graph.gm
    names = {node: _name(node, f"a{i}") for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    facts = _facts(gm)
    constants: dict[str, Any] = {f"section_{number}": run for number, run in enumerate(compiled)}
    constants.update(FactMissed=functools.partial(FactMissed, graph), graph=graph, math=math)
    has_facts = bool(facts)
    lines = [f"def call({', '.join(names.values())}):"]
    for number, section in enumerate(sections):
        given = ", ".join(names[node] for node in section.inputs)
        names.update({node: _name(node, f"t{number}_{i}") for i, node in enumerate(section.outputs)})
        results = "".join(f"{names[node]}, " for node in section.outputs)
        lines.append(f"    {f'({results}) = ' if results else ''}section_{number}({given})")
        lines += [f"    {line}" for line in _checks(facts, set(names.values()))]
    if facts:
        raise LoweringError(f"{facts[0]} would have to be checked, and nothing tells its numbers")
    if has_facts:
        lines.append("    graph.misses = 0")
    (output,) = gm.graph.find_nodes(op="output")
    lines.append(f"    return ({''.join(f'{_text(item, names, constants)}, ' for item in output.args[0])})")
    source = "\n".join(lines) + "\n"
    return source, compile_wrapper("chained graph", source, constants)


def _name(node: fx.Node, otherwise: str) -> str:
    """A size symbol is called what it is called everywhere."""
    symbol = symbol_of(node)
    return otherwise if symbol is None else str(symbol)


def _facts(gm: fx.GraphModule) -> list[Any]:
    """What was taken for granted about data while the graph was captured and compiled, as conditions on symbols."""
    sizes = [node.meta["example_value"] for node in gm.graph.nodes if symbol_of(node) is not None]
    return data_facts(sizes[0].node.shape_env) if sizes else []


def _checks(facts: list[Any], known: set[str]) -> Iterator[str]:
    """The lines that check the facts of which all numbers are known; these are taken off the list."""
    for fact in list(facts):
        if {str(symbol) for symbol in fact.free_symbols} <= known:
            facts.remove(fact)
            text = dim_text(fact)
            yield f"if not {text}: raise FactMissed({str(fact)!r})"


def _text(item: Any, names: dict[fx.Node, str], constants: dict[str, Any]) -> str:
    if isinstance(item, fx.Node):
        return names[item] if item in names else dim_text(to_dim(item.meta["example_value"]))
    constants[f"c{len(constants)}"] = item
    return f"c{len(constants) - 1}"
