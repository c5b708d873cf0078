"""Matrix products as Triton kernels of ours: interpreted on the CPU (in a process of its own), cross-compiled for a GPU
that is not there, and, where there is one, run with every candidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen.fusion import fuse
from minicompile.codegen.matmul_choice import Timed, choose_products, configs
from minicompile.codegen.matmul_kernel import Product
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare
from minicompile.ir.graph import Graph

from .build import B, gelu, tensor_type
from .in_interpreter import run_interpreted

pytest.importorskip("triton")

BF16 = torch.bfloat16


def test_products_in_the_interpreter() -> None:
    run_interpreted("interpreted_products.py", timeout=600)


def product(
    m: int, k: int, n: int, dtype: torch.dtype = BF16, *, before: bool = False, transposed: bool = True
) -> Graph:
    """gelu(x · w) or, with `before`, gelu(relu(x) · w)."""
    b = B()
    x, w = b.input(m, k, dtype=dtype), b.input(*((n, k) if transposed else (k, n)), dtype=dtype)
    left = b.relu(x) if before else x
    right = b.permute(w, 1, 0) if transposed else w
    node = b.extern(torch.ops.aten.mm.default, left, right, type=tensor_type((m, n), dtype))
    return b.finish(gelu(b, node))


def joined(graph: Graph) -> Product:
    """The one kernel that the graph becomes where there is no device to time it on."""
    graph, views = prepare(graph), Views()
    plan = fuse(graph, views)
    _, lowered = choose_products(plan, lower_units(plan.units, graph), graph, views, Timed(None))
    (low,) = lowered.values()
    assert isinstance(low.kernel, Product)
    return low.kernel


@pytest.mark.parametrize("how", [{}, {"before": True}, {"transposed": False}], ids=str)
@pytest.mark.parametrize("size", [(4096, 768, 3072), (500, 100, 77), (1, 768, 3072)], ids=str)
def test_cross_compiles_to_a_cubin(size: tuple[int, int, int], how: dict[str, Any]) -> None:
    from minicompile.codegen.triton_build import compile_to_cubin

    kernel = joined(product(*size, **how))
    assert compile_to_cubin(kernel, arch=90)[:4] == b"\x7fELF"


def test_the_tensor_cores_are_used_and_fed_ahead() -> None:
    """128 × 256 results a program: wgmma on tiles that cp.async has brought in 16-byte pieces."""
    from minicompile.codegen.triton import print_triton
    from minicompile.codegen.triton_build import load_functions
    from minicompile.codegen.triton_launch import Launcher

    text = print_triton(joined(product(4096, 768, 3072)))
    (function,) = load_functions([text])
    ptx = Launcher(text, function).cross_compile(90).asm["ptx"]
    assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx and "st.global.v4" in ptx


@pytest.mark.parametrize("size", [(4096, 768, 3072), (1, 4096, 4096), (20, 16, 10000), (64, 1, 64)], ids=str)
def test_tiles_fit_the_sizes_and_the_shared_memory(size: tuple[int, int, int]) -> None:
    kernel = joined(product(*size))
    found = configs(kernel)
    assert 1 <= len(found) <= 6
    for config in found:
        assert config.rows < max(2 * size[0], 17) and config.columns < max(2 * size[2], 17)
        assert (config.rows + config.columns) * config.terms * 2 * config.stages <= 227 << 10


def test_float32_is_a_call_s_unless_tf32_is_allowed() -> None:
    graph, views = prepare(product(64, 64, 64, torch.float32)), Views()
    plan = fuse(graph, views)
    assert torch.get_float32_matmul_precision() == "highest"
    assert choose_products(plan, lower_units(plan.units, graph), graph, views, Timed(None))[0].units == plan.units


# --- on a device ----------------------------------------------------------------------------------------------------

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "linear, gelu": lambda x, w, b, r: F.gelu(F.linear(x, w, b)),
    "residual": lambda x, w, b, r: r + F.linear(x, w, b),
    "silu before": lambda x, w, b, r: F.silu(x) @ w.t() * 2,
    "exp before": lambda x, w, b, r: torch.exp(x) @ w.t(),
    "product too": lambda x, w, b, r: (p := F.linear(x, w, b), p.relu()),
    "alone": lambda x, w, b, r: x @ w.t(),
    "batch": lambda x, w, b, r: torch.bmm(x.view(1, *x.shape).expand(3, -1, -1), w.t().expand(3, -1, -1)).relu(),
}


SIZES = [((512, 256, 384), BF16), ((333, 100, 77), torch.float16), ((1, 768, 512), BF16), ((65, 17, 4), torch.float32)]


@needs_gpu
@pytest.mark.parametrize(("size", "dtype"), SIZES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_candidates_are_right(
    name: str, size: tuple[int, int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minicompile.codegen import matmul_times, triton_tune

    m, k, n = size
    make = torch.Generator(device="cuda").manual_seed(0)
    shapes = ((m, k), (n, k), (n,), (m, n))
    x, w, b, r = (torch.randn(s, device="cuda", generator=make).mul(k**-0.5).to(dtype) for s in shapes)
    wide = FUNCTIONS[name](*(t.double() for t in (x, w, b, r)))
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    monkeypatch.setattr(triton_tune, "tuned", lambda launcher, device: launcher)  # nothing is timed
    built = 0
    for number in (1, 3, 6):  # compiling each takes a second or two
        monkeypatch.setattr(matmul_times, "fastest", lambda c, v, d, i=number: (min(i, len(c) - 1), "matmul template"))
        minicompile.reset()
        compiled = minicompile.compile(FUNCTIONS[name], mode="max-autotune-no-cudagraphs")
        try:
            got = compiled(x, w, b, r)
        except RuntimeError as error:  # tiles that do not fit this card's shared memory are left out when timed
            assert "resource" in str(error) or "CUDA error" in str(error)
            continue
        built += 1
        got, want = (t if isinstance(t, tuple) else (t,) for t in (got, wide))
        for ours, exact in zip(got, want, strict=True):
            tolerance = 3e-2 if dtype == BF16 else 4e-3
            torch.testing.assert_close(ours.double(), exact, rtol=tolerance, atol=tolerance)
    assert built


@needs_gpu
def test_the_winner_is_timed_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from minicompile.codegen import matmul_times, triton_tune

    monkeypatch.setattr(triton_tune, "ROUNDS", 1)
    monkeypatch.setenv("MINICOMPILE_CACHE_DIR", str(tmp_path))
    timed: list[int] = []
    measured = matmul_times.measured
    monkeypatch.setattr(matmul_times, "measured", lambda c, *rest: (timed.append(len(c)), measured(c, *rest))[1])
    x, *ws = (torch.randn(rows, 256, device="cuda").div(16).to(BF16) for rows in (512, 256, 256, 256))

    def layers(x: Tensor, *ws: Tensor) -> Tensor:
        for w in ws:
            x = F.gelu(x @ w)
        return x

    for _ in range(2):
        minicompile.reset()
        compiled = minicompile.compile(layers, mode="max-autotune-no-cudagraphs")
        torch.testing.assert_close(compiled(x, *ws), layers(x, *ws), rtol=3e-2, atol=3e-2)
    assert len(timed) == 1
