"""Sums by index on a GPU: which calls are ours, what becomes of the others, and their results on a real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import minicompile
from minicompile.codegen.atomics import SumByIndex
from minicompile.codegen.plan import plan_kernels
from minicompile.codegen.triton_atomics import Form

from .build import B, tensor_type
from .in_interpreter import run_interpreted

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def test_in_the_interpreter() -> None:
    run_interpreted("interpreted_atomics.py", timeout=120)


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=str)
def test_cross_compiles(source: torch.dtype, index: torch.dtype) -> None:
    target = torch.float64 if source is torch.float64 else torch.float32
    is_wide = index is torch.int64
    made = Form(target, index, source, True, is_wide, True, not is_wide).compiled(90)
    assert made.asm["cubin"][:4] == b"\x7fELF"


def targets(device: torch.device, zeros: bool) -> list[tuple[Any, Any]]:
    """What a call of index_add has for target and first operand, as a GPU's kernels are planned."""
    b = B()
    base = b.builder.add("full", (0.0,), tensor_type((8, 4), device=device)) if zeros else b.input(8, 4, device=device)
    index, rows = b.input(16, dtype=torch.int64, device=device), b.input(16, 4, device=device)
    node = b.extern(aten.index_add.default, base, 0, index, rows, type=tensor_type((8, 4), device=device))
    planned = plan_kernels(b.finish(node), "triton")
    externs = [unit.members[0] for unit in planned.units if unit.is_extern]
    return [(node.attrs["target"], node.args[0]) for node in externs]


def test_only_what_lies_on_a_gpu_is_added_by_us() -> None:
    assert [target for target, _ in targets(CUDA, False)] == [SumByIndex(aten.index_add.default)]
    assert [target for target, _ in targets(torch.device("cpu"), False)] == [aten.index_add.default]


def test_zeros_are_made_by_the_call() -> None:
    assert [first for _, first in targets(CUDA, True)] == [(8, 4)]


def put(x: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.index_put((i,), rows, accumulate=True)


def expanded(x: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, i[:, None].expand(-1, x.shape[1]), rows)


def each(x: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, (i[:, None] + torch.arange(x.shape[1], device=x.device)) % x.shape[0], rows)


def onto_zeros(x: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).index_add(0, i, rows * 2) + x


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    "index_add": lambda x, i, rows: x.index_add(0, i, rows),
    "of columns": lambda x, i, rows: x.T.contiguous().index_add(1, i, rows.T),
    "of a transposed base": lambda x, i, rows: x.T.index_add(1, i, rows.T),
    "scaled": lambda x, i, rows: x.index_add(0, i, rows, alpha=2),
    "index_put": put, "of one row": lambda x, i, rows: put(x, i, rows[:1]),
    "from the end": lambda x, i, rows: put(x, i - x.shape[0], rows),
    "expanded": expanded, "an index each": each, "onto zeros": onto_zeros,
    "int32": lambda x, i, rows: x.index_add(0, i.int(), rows),
    "in place": lambda x, i, rows: (x + 1).index_add_(0, i, rows),
    "a written argument": lambda x, i, rows: x.index_add_(0, i, rows),
    "gradient of a gather": lambda x, i, rows: torch.func.grad(lambda x: (x[i] * rows).sum())(x),
    "embedding": lambda x, i, rows: torch.func.grad(lambda x: (F.embedding(i, x, padding_idx=3) * rows).sum())(x),
    "frequencies": lambda x, i, rows: aten.embedding_dense_backward(rows, i, x.shape[0], -1, True),
}  # fmt: skip


def operands(dtype: torch.dtype, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, rows = torch.randn(50, 24), torch.randn(count, 24)
    return x.to(CUDA, dtype), torch.randint(50, (count,), device=CUDA), rows.to(CUDA, dtype)


def error_of_eager(function, x, i, rows, right) -> float:
    """The largest of one run: atomic additions come in another order each time, and are rounded in it."""
    return float((function(x.clone(), i, rows).double() - right).abs().max())


@on_gpu
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_are_eager_s(name: str, dtype: torch.dtype, deterministic: bool) -> None:
    function = PROGRAMS[name]
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic)
    try:
        for count in (4000, 7):
            x, i, rows = operands(dtype, count)
            ours, theirs, exact = x.clone(), x.clone(), x.double()
            got, want = minicompile.compile(function)(ours, i, rows), function(theirs, i, rows)
            right = function(exact, i, rows.double())
            assert got.dtype == want.dtype and got.stride() == want.stride()
            bound = 2 * max(error_of_eager(function, x, i, rows, right) for _ in range(5)) + 1e-4
            assert (got.double() - right).abs().max() <= bound and (ours.double() - exact).abs().max() <= bound
    finally:
        torch.use_deterministic_algorithms(before)


@on_gpu
def test_a_training_step_with_an_embedding() -> None:
    torch.manual_seed(0)
    eager, ours = torch.nn.Embedding(300, 64, device=CUDA), torch.nn.Embedding(300, 64, device=CUDA)
    ours.load_state_dict(eager.state_dict())
    ids = torch.randint(300, (8, 512), device=CUDA)
    for call in (eager, minicompile.compile(ours)):
        call(ids).square().mean().backward()
    torch.testing.assert_close(ours.weight.grad, eager.weight.grad)
