"""What the explorer shows, as plain data.

In: an `Explanation`, the interpreter's recordings, the calls. Out: a dict for JSON:

    title, machine
    facts      breaks, kernels, calls, effects, guards: what a reader asks first, as records
    panes      name → listings (see explore_lines): source, bytecode, fx, ir, native, wrapper, glue, guards
    drawings   [title, svg]: the FX graph, and the IR by kernel
    steps      the interpreter's recordings; texts are numbers into `texts`
    timeline   [entry, stage, start, seconds]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..errors import DrawingUnavailable
from ..frontend.skip import is_torch_file
from ..ir.dot import fx_to_dot, to_svg
from ..passes import run as run_passes
from ..timeline import Span, within
from .explain_html import MAX_DRAWN, kernel_drawing
from .explore_lines import (
    Links,
    Listing,
    bytecode_listing,
    fx_listing,
    ir_listing,
    kernel_key,
    line_key,
    named_listing,
    native_listing,
    source_listing,
)
from .recorder import Recording, codes_of
from .stacks import compiled_halves, kernel_rows, operations
from .timing import format_bytes

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph
    from ..frontend.segments import Entry
    from .explain import Explanation
    from .explore import CallRecord

Halves = list[tuple[int, "CompiledGraph"]]


def collect(
    title: str, machine: str, explanation: Explanation, recordings: list[Recording], calls: list[CallRecord]
) -> dict[str, Any]:
    """The page's data."""
    halves = [(n, half) for n, graph in enumerate(explanation.graphs) for half in compiled_halves(graph.compiled)]
    links = Links()
    for number, half in halves:
        for kernel in half.kernels:
            links.add(number, kernel)
    codes = [code for code in codes_of(recordings) if not is_torch_file(code.co_filename)]
    panes = dict(_panes(explanation, halves, codes, links))
    texts: dict[str, int] = {}
    return {
        "title": title,
        "machine": machine,
        "facts": _facts(explanation, halves, calls),
        "panes": {name: [made.to_dict() for made in listings] for name, listings in panes.items()},
        "drawings": list(_drawings(explanation, halves)),
        "steps": [_recording(made, codes, explanation.entries, texts) for made in recordings],
        "texts": list(texts),
        "timeline": list(_timeline(explanation.entries)),
    }


# ---- panes ----


def _panes(
    explanation: Explanation, halves: Halves, codes: list[CodeType], links: Links
) -> Iterator[tuple[str, list[Listing]]]:
    sources = [made for code in codes if (made := source_listing(code, links)) is not None]
    yield "source", sources
    yield "bytecode", [bytecode_listing(number, code, links) for number, code in enumerate(codes)]
    yield "fx", [fx_listing(number, graph.gm, links) for number, graph in enumerate(explanation.graphs)]
    yield "ir", [made for number, half in halves for made in _ir(number, half, links)]
    yield "native", [_native(number, half) for number, half in halves if half.kernels]
    yield "wrapper", [named_listing(_half(n, half), n, half.wrapper_source, [half], n) for n, half in halves]
    yield "glue", list(_glue(explanation))
    yield "guards", [
        Listing(entry.name, [[_plain(str(guard)), [], []] for guard in entry.guards], number)
        for number, entry in enumerate(explanation.entries)
    ]


def _half(number: int, half: CompiledGraph) -> str:
    return f"graph {number}" if half.name == "graph" else f"graph {number}: {half.name}"


def _ir(number: int, half: CompiledGraph, links: Links) -> Iterator[Listing]:
    """Before the passes, after each that changed something, and what fusion saw."""
    name = _half(number, half)
    if half.ir_before is None:
        yield ir_listing(name, number, str(half.ir), links)
    else:
        history: list[tuple[str, Any]] = []
        run_passes(half.ir_before, history=history)
        yield ir_listing(f"{name}: lowered", number, str(half.ir_before), links)
        for step, (changed_by, graph) in enumerate(history, start=1):
            yield ir_listing(f"{name}: {step}. after {changed_by}", number, str(graph), links)
    if half.prepared is not None and half.prepared.nodes != half.ir.nodes:
        yield ir_listing(f"{name}: laid out for kernels", number, str(half.prepared), links)


def _native(number: int, half: CompiledGraph) -> Listing:
    language = "cpp" if half.kernels[0].language == "cpp" else "python"
    text = "\n".join(kernel.source for kernel in half.kernels)
    return native_listing(_half(number, half), number, text, language, half.kernels)


def _glue(explanation: Explanation) -> Iterator[Listing]:
    graph = 0
    for number, entry in enumerate(explanation.entries):
        compiled = [half for record in entry.graphs for half in compiled_halves(record.compiled)]
        made = named_listing(entry.name, number, entry.code, compiled, graph)
        for effect in entry.effects:
            if 0 < effect.replayed_at <= len(made.lines):
                made.lines[effect.replayed_at - 1][1].append(line_key(effect.place.file, effect.place.line))
        graph += len(entry.graphs)
        yield made


def _plain(text: str) -> str:
    from html import escape

    return escape(text)


# ---- facts ----


def _facts(explanation: Explanation, halves: Halves, calls: list[CallRecord]) -> dict[str, Any]:
    return {
        "breaks": [{**asdict(row), "key": line_key(row.file, row.line)} for row in explanation.advice],
        "eager": [f"{entry.name}: {entry.eager}" for entry in explanation.entries if entry.eager]
        or ([] if explanation.entries else explanation.eager),
        "kernels": list(_kernels(halves)),
        "least_bytes": explanation.least_bytes,
        "refusals": [asdict(decision) for decision in explanation.fusions if not decision.fused],
        "calls": [asdict(call) for call in calls],
        "effects": [
            {"statement": effect.statement, "entry": number, "glue_line": effect.replayed_at, "line": effect.place.line,
             "file": effect.place.file, "key": line_key(effect.place.file, effect.place.line)}
            for number, entry in enumerate(explanation.entries) for effect in entry.effects
        ],
        "entries": [_entry(entry) for entry in explanation.entries],
    }  # fmt: skip


def _entry(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "graphs": len(entry.graphs), "guards": len(entry.guards), "eager": entry.eager or ""}


def _kernels(halves: Halves) -> Iterator[dict[str, Any]]:
    """Every launch and ATen call, numbered over all graphs."""
    count = 0
    for graph, half in halves:
        for row in kernel_rows(half):
            places = [place.rpartition(":") for place in row.lines]
            keys = [line_key(file, int(line)) for file, _, line in places]
            own = [kernel_key(graph, row.name)] if row.language != "extern" else []
            yield {
                "number": count, "graph": graph, "name": row.name, "language": row.language, "ops": list(row.ops),
                "operations": operations(row), "bytes": row.bytes, "flops": row.flops, "lines": list(row.lines),
                "keys": own, "also": keys,
                "ir": next((kernel.ir for kernel in half.kernels if kernel.name == row.name), ""),
            }  # fmt: skip
            count += 1


# ---- pictures, steps, time ----


def _drawings(explanation: Explanation, halves: Halves) -> Iterator[tuple[str, str]]:
    for number, graph in enumerate(explanation.graphs):
        if len(graph.gm.graph.nodes) <= MAX_DRAWN:
            try:
                yield f"graph {number}: FX", to_svg(fx_to_dot(graph.gm))
                training: Any = graph.compiled
                joint = getattr(training, "joint", None)
                if joint is not None and len(joint.graph.nodes) <= MAX_DRAWN:
                    saved = format_bytes(training.split.saved_bytes)
                    title = f"graph {number}: forward blue, backward orange, {saved} saved between (red)"
                    yield title, to_svg(training.to_dot())
            except DrawingUnavailable:
                return
    for number, half in halves:
        svg = kernel_drawing(half)
        if svg:
            yield f"{_half(number, half)}: IR by kernel", svg


def _recording(
    made: Recording, codes: list[CodeType], entries: list[Entry], texts: dict[str, int]
) -> dict[str, Any]:
    """A step is [code, offset, line key, depth, stack, variables, journal, nodes]; code -1 is torch's own."""
    numbers = {id(code): number for number, code in enumerate(codes)}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    steps = [
        [
            numbers.get(id(step.code), -1), step.offset, text(line_key(step.code.co_filename, step.line)), step.depth,
            [text(value) for value in step.stack],
            [number for name, value in step.variables for number in (text(name), text(value))],
            step.journal, step.nodes,
        ]
        for step in made.steps
    ]  # fmt: skip
    entry = made.entry
    outcome = "started over: a call broke half-way" if entry is None else _outcome(entry)
    return {
        "name": made.name,
        "outcome": outcome,
        "entry": next((number for number, known in enumerate(entries) if known is entry), None),
        "steps": steps,
        "journal": [[statement, _short_key(place)] for statement, place in made.journal],
        "nodes": [[node, _short_key(place)] for node, place in made.nodes],
        "left_out": made.left_out,
    }


def _outcome(entry: Entry) -> str:
    if entry.eager:
        return f"runs in eager: {entry.eager}"
    return f"graph break: {entry.breaks[0].reason}" if entry.breaks else "compiled"


def _short_key(place: str) -> str:
    file, _, line = place.rpartition(":")
    return line_key(file, int(line)) if file else ""


def _timeline(entries: list[Entry]) -> Iterator[tuple[int, str, float, float]]:
    """The stages of each entry when they ran, from the first one's begin; a part stands below its whole, indented."""
    first = min((entry.span.start for entry in entries if entry.span is not None), default=0.0)
    for number, entry in enumerate(entries):
        above: list[Span] = []
        for span in within(entry.span)[1:] if entry.span is not None else ():
            above = [each for each in above if each.holds(span)]
            yield number, f"{'· ' * len(above)}{span.name}", span.start - first, span.end - span.start
            above.append(span)
