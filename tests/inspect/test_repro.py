"""A stage that fails leaves a script that fails alike in a process of its own."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.config import config

ROOT = Path(__file__).parents[2]
SCALE = 3


def helper(x: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
    return F.relu(x) * by + math.pi


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.options = {"gain": 0.5, "names": ["a"]}

    def forward(self, x: torch.Tensor, *rest: torch.Tensor, flag: bool = True) -> Any:
        return torch.exp(helper(self.linear(x), by=SCALE)) * self.options["gain"], rest, flag


# What breaks each stage, as text: it is run here, and in the script's process before anything else.
FAULTS = {
    "frontend": """
from minicompile.frontend.values import torch_functions
from minicompile.frontend.graph import GraphBuilder
right = GraphBuilder.call
def call(self, tr, target, args, kwargs):
    if target is torch.exp:
        raise ZeroDivisionError("a fault in the frontend")
    return right(self, tr, target, args, kwargs)
GraphBuilder.call = call
""",
    "lowering": """
from minicompile.lowering import rule_tables, rules
rule_tables.load_rules()
def rule(c, x):
    raise ZeroDivisionError("a fault in the lowering")
rules.RULES[torch.ops.aten.exp.default] = rule
""",
    "passes": """
from minicompile import passes
def run(graph):
    raise ZeroDivisionError("a fault in the passes")
passes.PASSES["cse"] = run
""",
    "codegen": """
from minicompile.codegen import plan as module
def fuse(*args):
    raise ZeroDivisionError("a fault in the codegen")
module.fuse = fuse
""",
    "g++": """
from dataclasses import replace
from minicompile.ir.ops import POINTWISE
POINTWISE["exp"] = replace(POINTWISE["exp"], cpp="no_such_function({0})")
""",
    "Triton": """
from minicompile.codegen import triton_build
def print_triton(kernel):
    raise ZeroDivisionError("a fault in Triton's printer")
triton_build.print_triton = print_triton
""",
}


def in_process(text: str, cwd: Path, fault: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script whose process has the fault from its start."""
    (cwd / "sitecustomize.py").write_text(f"import torch\n{fault}")
    given = {**os.environ, "PYTHONPATH": f"{cwd}:{ROOT}", "MINICOMPILE_CACHE_DIR": str(cwd / "cache"), **environment}
    return subprocess.run([sys.executable, text], cwd=cwd, env=given, capture_output=True, text=True, timeout=120)


DRIVER = """
import sys, torch
sys.path.insert(0, {root!r})
import minicompile
from minicompile.config import config
from tests.inspect.test_repro import Block
torch.manual_seed(0)
with config.patch(debug_dir={folder!r}, entry_cache=False), torch.set_grad_enabled({grad}):
    minicompile.compile(Block(4).eval(), backend={backend!r})(torch.ones(3, 4), torch.ones(2), flag=False)
"""


@pytest.mark.parametrize(
    ("stage", "says", "grad"),
    [
        ("frontend", "ZeroDivisionError: a fault in the frontend", False),
        ("lowering", "ZeroDivisionError: a fault in the lowering", False),
        ("lowering", "ZeroDivisionError: a fault in the lowering", True),
        ("passes", "ZeroDivisionError: a fault in the passes", False),
        ("codegen", "ZeroDivisionError: a fault in the codegen", True),
        ("g++", "no_such_function", False),
        ("Triton", "ZeroDivisionError: a fault in Triton's printer", False),
    ],
)
def test_the_script_fails_alike(stage: str, says: str, grad: bool, tmp_path: Path) -> None:
    folder = tmp_path / "debug"
    backend = "triton" if stage == "Triton" else "auto"
    (tmp_path / "driver.py").write_text(
        DRIVER.format(root=str(ROOT), folder=str(folder), backend=backend, grad=grad)
    )
    extra = {"TRITON_INTERPRET": "1"} if stage == "Triton" else {}
    done = in_process("driver.py", tmp_path, FAULTS[stage], **extra)
    scripts = list(folder.rglob("repro.py"))
    assert len(scripts) == 1, done.stderr
    assert "repro.py" in done.stderr and says in scripts[0].read_text()
    failed = in_process(str(scripts[0]), tmp_path, FAULTS[stage], **extra)
    assert failed.returncode == 1 and says in failed.stderr, failed.stderr
    if stage != "frontend":
        return
    mended = in_process(str(scripts[0]), tmp_path, "", **extra)
    assert mended.returncode == 0 and "the frontend compiles the function" in mended.stdout


def test_strict_names_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minicompile.errors import StageError
    from minicompile.frontend.graph import GraphBuilder

    def call(*args: Any) -> Any:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(GraphBuilder, "call", call)
    offset = torch.ones(2)
    with config.patch(debug_dir=tmp_path, strict=True), pytest.raises(StageError) as caught:
        minicompile.compile(lambda x, y=(1, 2): x + offset + y[0])(torch.ones(2))
    assert caught.value.reproducer is not None
    done = in_process(str(caught.value.reproducer), tmp_path, "")
    assert done.returncode == 0, done.stderr
