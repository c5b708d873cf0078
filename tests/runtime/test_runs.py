"""Several kernels as one call, below code generation: order, places, errors, and what a call needs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from minicompile.errors import KernelError
from minicompile.runtime import launch
from minicompile.runtime.compiler import compiler
from minicompile.runtime.cpp_build import build_shared_object
from minicompile.runtime.runs import Run, StepByStep, load_run, run_type

from .ticking import ticks_during

pytestmark = pytest.mark.skipif(
    compiler() is None or not hasattr(launch._native, "Run"), reason="no C++ compiler, or the C launcher was not built"
)

SOURCE = """
typedef long int64_t;
extern "C" int usleep(unsigned);
extern "C" int append(void **b, const int64_t *) {  // to a list: its length, then its numbers
    int64_t *list = (int64_t *)b[0];
    list[++list[0]] = *(int64_t *)b[1];
    return 0;
}
extern "C" int stop(void **b, const int64_t *) { return (int)*(int64_t *)b[0]; }
extern "C" int wait(void **, const int64_t *) { usleep(100000); return 0; }
extern "C" int sum(void **b, const int64_t *) {
    for (int i = 1; i < 150; i++) *(int64_t *)b[0] += *(int64_t *)b[i];
    return 0;
}
extern "C" int sized(void **, const int64_t *) { return 0; }
"""


@pytest.fixture
def kernels() -> dict[str, Any]:
    library = build_shared_object(SOURCE)
    wanted = {"append": (2, 0), "stop": (1, 0), "wait": (0, 0), "sum": (150, 0), "sized": (0, 1)}
    return {name: launch.load_kernel(library, name, *counts) for name, counts in wanted.items()}


NUMBERS = torch.tensor([5, 6, 7, 0])
LIST = ((0, 0), (1, 0)), ((0, 0), (1, 16)), ((0, 0), (1, 8))
"""Places of three appended numbers: 5, 7, 6."""


def given() -> tuple[torch.Tensor, torch.Tensor]:
    """An empty list, and the numbers as bytes, so that a place may begin anywhere."""
    return torch.zeros(9, dtype=torch.int64), NUMBERS.view(torch.uint8)


@pytest.mark.parametrize("kind", [load_run, StepByStep])
def test_kernels_run_in_order_at_their_places(kernels: dict[str, Any], kind: Any) -> None:
    found, numbers = given()
    call = kind(Run(("append",) * 3, LIST, 2), kernels)
    assert call(found, numbers) is None and found.tolist()[:4] == [3, 5, 7, 6]
    call(found, numbers)
    assert found.tolist()[:7] == [6, 5, 7, 6, 5, 7, 6]


@pytest.mark.parametrize("kind", [load_run, StepByStep])
def test_after_an_error_nothing_runs(kernels: dict[str, Any], kind: Any) -> None:
    found, numbers = given()
    places = LIST[0], ((1, 24),), LIST[1], ((1, 8),), LIST[2]
    with pytest.raises(KernelError) as caught:
        kind(Run(("append", "stop", "append", "stop", "append"), places, 2), kernels)(found, numbers)
    assert (caught.value.code, caught.value.kernel) == (6, "stop")
    assert found.tolist()[:4] == [2, 5, 7, 0]


def test_many_buffers(kernels: dict[str, Any]) -> None:
    tensors = [torch.tensor([i]) for i in range(150)]
    places = tuple((i, 0) for i in range(150))
    load_run(Run(("sum", "sum"), (places, places), 150), kernels)(*tensors)
    assert tensors[0].item() == 2 * sum(range(150))


def test_other_threads_run_meanwhile(kernels: dict[str, Any]) -> None:
    call = load_run(Run(("wait", "wait"), ((), ()), 0), kernels)
    assert ticks_during(call) > 5


def test_no_reference_leaks(kernels: dict[str, Any]) -> None:
    found, numbers = given()
    call = load_run(Run(("append", "stop"), (LIST[0], ((1, 0),)), 2), kernels)
    held = (found, numbers, call, kernels["append"], kernels["stop"])
    before = [sys.getrefcount(each) for each in held]
    for _ in range(5_000):
        found.zero_()
        with pytest.raises(KernelError):
            call(found, numbers)
    assert all(abs(sys.getrefcount(each) - count) < 5 for each, count in zip(held, before, strict=True))
    again = load_run(Run(("append", "stop"), (LIST[0], ((1, 0),)), 2), kernels)
    assert sys.getrefcount(kernels["append"]) == before[3] + 1
    del again
    assert sys.getrefcount(kernels["append"]) == before[3]


def test_a_kernel_with_sizes_is_no_step(kernels: dict[str, Any]) -> None:
    assert run_type(kernels["sized"]) is None and run_type(print) is None
    with pytest.raises(ValueError, match="other buffers"):
        run_type(kernels["wait"])(((kernels["sized"], ()),), 0, print)


def test_tensors_tell_their_addresses(kernels: dict[str, Any]) -> None:
    call = load_run(Run(("append", "append"), (LIST[0], LIST[0]), 2), kernels)
    found = torch.zeros(9, dtype=torch.int64)
    call(found[2:], torch.nn.Parameter(NUMBERS[1:], requires_grad=False))
    assert found.tolist()[:5] == [0, 0, 2, 6, 6]
