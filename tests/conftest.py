"""Shared set-up: one kernel cache for the whole session, and a clean compiler for every test.

The caches of minicompile and of torch.compile are temporary folders shared by all tests of a run: kernels are built
once, and nothing that an earlier version left on the machine can make a test pass.
"""

from __future__ import annotations

import os
import tempfile

_is_worker = "PYTEST_XDIST_WORKER" in os.environ  # it shares the caches of the process that has started it
if _is_worker:
    _caches = os.path.dirname(os.environ["MINICOMPILE_CACHE_DIR"])
    # Threads of torch that spin while they wait take the core from the other workers. Read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
else:
    _caches = tempfile.mkdtemp(prefix="minicompile-tests-")
os.environ["MINICOMPILE_CACHE_DIR"] = os.path.join(_caches, "minicompile")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(_caches, "inductor")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import shutil  # noqa: E402
from collections.abc import Iterator  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

# How long one example takes by the clock says how busy the machine is, and nothing about what is tested.
hypothesis.settings.register_profile("minicompile", deadline=None)
hypothesis.settings.load_profile("minicompile")


def pytest_unconfigure() -> None:
    if not _is_worker:
        shutil.rmtree(_caches, ignore_errors=True)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """Every test starts without compiled entries, with the same seed, and leaves torch's global state as it was."""
    import minicompile

    torch.manual_seed(0)
    yield
    minicompile.reset()
    assert torch.is_grad_enabled() and torch.get_default_dtype() is torch.float32
