"""The demo's kernels as Triton code, where there is no GPU: interpreted on small shapes, and cross-compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minicompile
from minicompile.codegen.fusion import fuse
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare
from minicompile.codegen.triton_build import compile_to_cubin
from minicompile.examples.programs import PROGRAMS


def test_interpreted_kernels_equal_eager() -> None:
    script = Path(__file__).with_name("interpreted_programs.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(script)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = script.parent.parent.parent
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kernel_cross_compiles_for_hopper(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    with torch.no_grad(), minicompile.config.patch(own_products=False):  # as on a GPU, whatever this CPU does itself
        explanation = minicompile.explain(fn)(*args)
    count = 0
    for graph in explanation.graphs:
        prepared = prepare(graph.compiled.ir)
        for lowered in lower_units(fuse(prepared, Views()).units, prepared).values():
            assert compile_to_cubin(lowered.kernel, arch=90)[:4] == b"\x7fELF"
            count += 1
    assert count == explanation.kernel_count > 0
