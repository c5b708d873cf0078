"""Run test files in a process of its own, where Triton interprets kernels instead of compiling them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_interpreted(*files: str, timeout: float) -> None:
    """Files of this folder; `timeout` in seconds. Triton reads its switch when it is imported."""
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(folder / file) for file in files)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = folder.parent.parent
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
