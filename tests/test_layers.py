"""Imports point downstream, as docs/architecture.md says: who may import whom, read from the package's source."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.glob("minicompile/**/*.py")}

STAGES = ("frontend", "guards", "pipeline", "lowering", "passes", "codegen", "runtime", "ir")
UPSTREAM = {
    # Guards read a frame's values through the frontend's sources.
    "guards": {
        "frontend.sources", "frontend.computed_sources", "frontend.draws", "frontend.helpers", "frontend.class_lookup",
    },
    # A training graph's call knows what lowering has cut it into.
    "runtime": {"lowering.sections", "lowering.errors", "lowering.undefined", "codegen.wrapper_text"},
}  # fmt: skip
"""Stage → the modules upstream of it that it may import."""
WATCHERS = ("inspect", "lessons", "examples", "demo", "doctor", "cli")
"""What looks at the stages from outside; they import it in functions only, when it is asked for."""


def imports(name: str) -> Iterator[tuple[str, bool]]:
    """The modules of the package that a module imports when it runs, and whether it does so as it is loaded."""
    path = MODULES[name]
    package = name.split(".")[:-1]
    todo = [(node, True) for node in ast.parse(path.read_text()).body]
    while todo:
        node, at_load = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield (inner if (inner := f"{base}.{alias.name}") in MODULES else base), at_load
        at_load = at_load and not isinstance(node, (ast.FunctionDef, ast.Lambda))
        todo += [(child, at_load) for child in ast.iter_child_nodes(node)]


def place(name: str) -> str:
    return (name.split(".") + [""])[1]


EDGES = sorted({(name, *found) for name in MODULES for found in imports(name) if found[0].startswith("minicompile.")})


def imported_by(stage: str) -> set[str]:
    return {there.removeprefix("minicompile.") for here, there, _ in EDGES if place(here) == stage}


def test_imports_are_found() -> None:
    assert ("minicompile.guards.check", "minicompile.frontend.sources", True) in EDGES and len(EDGES) > 1000


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_what_is_downstream(stage: str) -> None:
    above = STAGES[: STAGES.index(stage)]
    assert {name for name in imported_by(stage) if name.split(".")[0] in above} <= UPSTREAM.get(stage, set())


def test_exceptions_are_needed() -> None:
    for stage, known in UPSTREAM.items():
        assert known <= imported_by(stage)


def test_no_stage_loads_what_looks_at_it() -> None:
    assert not [edge for edge in EDGES if edge[2] and place(edge[0]) in STAGES and place(edge[1]) in WATCHERS]


def test_no_module_is_loaded_in_a_circle() -> None:
    loaded: dict[str, set[str]] = {}
    for here, there, at_load in EDGES:
        if at_load:
            loaded.setdefault(here, set()).add(there)
    graphlib.TopologicalSorter(loaded).prepare()  # raises CycleError, with the circle
