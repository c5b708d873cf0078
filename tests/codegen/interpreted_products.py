"""Matrix products as Triton kernels of ours, in Triton's interpreter, against eager. Run by test_triton_matmul.py in a
process of its own: TRITON_INTERPRET must be set before triton is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile import passes
from minicompile.codegen import matmul_choice
from minicompile.codegen.compile import compile_ir
from minicompile.codegen.compiled import CompiledGraph
from minicompile.codegen.matmul_kernel import Config, Product

from ..lowering.support import lowered
from .checked_addresses import addresses_are_checked  # noqa: F401 - for every test here

TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def compiled_of(fn: Callable[..., Any], *args: Tensor, **options: Any) -> CompiledGraph:
    graph = passes.run(lowered(fn, *args))
    return compile_ir(graph, backend="triton", options={"tune": True, **options})


def check(fn: Callable[..., Any], *args: Tensor) -> CompiledGraph:
    """The results are as near to float64's as eager's are, and have eager's layout."""
    compiled = compiled_of(fn, *args)
    results, eager = compiled(*args), fn(*args)
    eager = eager if isinstance(eager, tuple) else (eager,)
    exact = fn(*(arg.double() if arg.is_floating_point() else arg for arg in args))
    exact = exact if isinstance(exact, tuple) else (exact,)
    for got, want, wide in zip(results, eager, exact, strict=True):
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        tolerance = TOLERANCE[args[0].dtype]
        torch.testing.assert_close(got.double(), wide.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return compiled


def matrix(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape) / max(shape[-2:]) ** 0.5).to(dtype)


SIZES = [(64, 32, 48), (70, 40, 50), (1, 33, 65), (37, 1, 1), (17, 100, 3), (130, 16, 129)]
"""m, k, n"""

FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "plain": lambda a, b, c: a @ b,
    "bias": lambda a, b, c: torch.addmm(c[0], a, b),
    "bias, gelu": lambda a, b, c: F.gelu(torch.addmm(c[0], a, b)),
    "a matrix added": lambda a, b, c: torch.addmm(c, a, b).relu(),
    "a column added": lambda a, b, c: torch.addmm(c[:, :1], a, b) * 2,
    "residual": lambda a, b, c: c + torch.sigmoid(a @ b),
    "exp before": lambda a, b, c: torch.exp(a) @ b,
    "exp before both": lambda a, b, c: torch.exp(a) @ torch.exp(b) - c,
    "the product too": lambda a, b, c: (p := torch.addmm(c[0], a, b), p.relu(), p.sum(1)),
    "a transposed": lambda a, b, c: a.t().contiguous().t() @ b,
    "a column's factor": lambda a, b, c: (a @ b) * c[:, :1],
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_sizes(name: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    compiled = check(FORMS[name], matrix(m, k), matrix(k, n), matrix(m, n))
    assert not compiled.externs and any(kernel.kind == "product" for kernel in compiled.kernels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_half_types(name: str, dtype: torch.dtype) -> None:
    a, b, c = matrix(37, 50), matrix(50, 70), matrix(37, 70)
    assert not check(FORMS[name], *(x.to(dtype) for x in (a, b, c))).externs


LAYOUTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda x, w, b: F.silu(F.linear(x, w, b)), ((6, 7, 20), (30, 20), (30,))),
    "columns first": (lambda a, b: a.t() @ b.t(), ((20, 33), (18, 20))),
    "slices": (lambda a, b: (a[1:, 2:40:2] @ b[:, 3:20]).relu(), ((20, 50), (19, 40))),
    "a repeated row": (lambda a, b: a.expand(20, 30) @ b, ((1, 30), (30, 17))),
    "a repeated column": (lambda a, b: torch.exp(a.expand(20, 30)) @ b, ((20, 1), (30, 17))),
    "batch": (lambda a, b: torch.bmm(a, b).relu(), ((5, 18, 20), (5, 20, 33))),
    "batch, repeated": (lambda a, b: torch.bmm(a.expand(4, 18, 20), b), ((1, 18, 20), (4, 20, 33))),
    "batch, added": (lambda a, b, c: torch.baddbmm(c, a, b), ((3, 18, 20), (3, 20, 9), (3, 1, 9))),
    "heads": (lambda q, k: (heads(q) @ heads(k).transpose(-1, -2)) * 0.25, ((2, 17, 32), (2, 21, 32))),
    "split in heads": (lambda x, w: heads(F.linear(x, w)).contiguous() * 2, ((2, 17, 20), (32, 20))),
    "heads, one by one": (lambda x, w: heads(F.linear(x, w)).transpose(2, 3) + 1, ((2, 17, 20), (32, 20))),
    "merged heads": (lambda x, w: F.linear(x.transpose(1, 2).reshape(2, 17, 32), w), ((2, 4, 17, 8), (9, 32))),
    "gated": (lambda x, g, u: F.silu(x @ g) * (x @ u), ((18, 20), (20, 40), (20, 40))),
    "gated, and on": (lambda x, g, u, d: (F.silu(x @ g) * (x @ u)) @ d, ((18, 20), (20, 40), (20, 40), (40, 7))),
    "twice the same factor": (lambda a: torch.exp(a) @ torch.exp(a), ((20, 20),)),
    "a square": (lambda a: a @ a.t() + a, ((20, 20),)),
    "read at two places": (lambda a, b: (p := a @ b) + p.t(), ((20, 30), (30, 20))),
    "a part is read": (lambda a, b: (a @ b)[3:11].relu(), ((20, 30), (30, 25))),
    "softmax of it": (lambda a, b: ((a @ b) * 2).softmax(-1), ((20, 30), (30, 25))),
    "one after the other": (lambda a, b, c: torch.tanh(torch.relu(a @ b) @ c), ((20, 30), (30, 25), (25, 40))),
    "around the product": (lambda a, b: (p := a @ b, torch.relu(p) + p.sum(0)), ((20, 30), (30, 25))),
    "nothing else than written": (lambda a, b: a.copy_(a @ b), ((20, 20), (20, 20))),
    "a factor is overwritten": (lambda a, b: a.copy_(torch.relu(a @ b)), ((20, 20), (20, 20))),
    "dropout's mask": (lambda a, b, c: torch.where(c > 0, a @ b, 0.0) * 2, ((20, 30), (30, 25), (20, 25))),
}  # fmt: skip


def heads(x: Tensor) -> Tensor:
    return x.view(2, -1, 4, 8).transpose(1, 2)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    fn, shapes = LAYOUTS[name]
    args = [matrix(*(shape if len(shape) > 1 else (1, *shape))).reshape(shape) for shape in shapes]
    if "written" in name:
        compiled, theirs = compiled_of(fn, *args), [arg.clone() for arg in args]
        compiled(*args)
        fn(*theirs)
        torch.testing.assert_close(args[0], theirs[0], rtol=1e-5, atol=1e-5)
    else:
        compiled = check(fn, *args)
    assert not compiled.externs


def test_casts_before_and_after() -> None:
    """As under autocast: the factors are rounded to float16 as they would be in memory."""
    x, w = matrix(37, 50), matrix(50, 70)
    compiled = compiled_of(lambda x, w: (x.half() @ w.half()).float() * 2, x, w)
    assert [kernel.kind for kernel in compiled.kernels] == ["product"] and not compiled.externs
    want = (x.half().double() @ w.half().double()).float() * 2
    torch.testing.assert_close(compiled(x, w)[0], want, rtol=1e-5, atol=1e-5)


CONFIGS = [Config(16, 16, 16, 2, 2), Config(32, 16, 64, 4, 2), Config(64, 128, 32, 4, 3), Config(128, 32, 16, 4, 2)]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_size_of_tiles(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_choice, "configs", lambda kernel: [config])
    for size in ((300, 40, 90), (64, 64, 64), (5, 200, 7)):
        m, k, n = size
        check(FORMS["exp before both"], matrix(m, k), matrix(k, n), matrix(m, n))
        check(FORMS["bias, gelu"], matrix(m, k), matrix(k, n), matrix(m, n))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(48, 96), torch.nn.Linear(96, 48), torch.nn.LayerNorm(48)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return F.cross_entropy(x, x.argmax(1).detach())


def test_a_network_s_gradients_are_eager_s() -> None:
    eager, ours = Net(), Net()
    ours.load_state_dict(eager.state_dict())
    compiled = minicompile.compile(ours, mode="max-autotune-no-cudagraphs", backend="triton")
    for _ in range(2):
        x = torch.randn(33, 48)
        eager(x).backward()
        compiled(x).backward()
        for one, other in zip(eager.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-5, atol=1e-6)
    said = [d.reason for d in minicompile.explain(compiled)(x).fusions]
    assert sum("matmul template" in reason for reason in said) == 6


def test_what_is_said() -> None:
    compiled = compiled_of(lambda a, b: torch.relu(a) @ b + 1, matrix(20, 30), matrix(30, 40))
    (decision,) = (d for d in compiled.decisions if "matmul template" in d.reason)
    assert decision.fused and "relu" in decision.second and "aten.mm" in decision.first
    (kernel,) = compiled.kernels
    assert kernel.ops == ["relu", "mm", "add"] and "tiles of" in kernel.ir


STAYS: dict[str, dict[str, Any]] = {"exact rounding": {"exact_rounding": True}, "no tuning": {"tune": False}}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_a_call(name: str) -> None:
    a, b = matrix(20, 30, dtype=torch.bfloat16), matrix(30, 40, dtype=torch.bfloat16)
    assert compiled_of(lambda a, b: (a @ b).relu(), a, b, **STAYS[name]).externs == ["aten.mm.default"]


def test_float32_stays_a_call_unless_tf32_is_allowed() -> None:
    torch.set_float32_matmul_precision("highest")
    assert compiled_of(lambda a, b: (a @ b).relu(), matrix(20, 30), matrix(30, 40)).externs == ["aten.mm.default"]
    wide = matrix(20, 20).double()
    assert compiled_of(lambda a: a @ a, wide).externs == ["aten.mm.default"]


def test_twelve_layers_are_one_text() -> None:
    def layers(x: Tensor, *ws: Tensor) -> Tensor:
        for w in ws:
            x = F.relu(x @ w) * 2
        return x

    args = [matrix(20, 16), *(matrix(16, 16) for _ in range(4))]
    compiled = check(layers, *args)
    assert len(compiled.kernels) == 4 and compiled.native_source.count("@triton.jit") == 1


def test_offsets_beyond_32_bits_are_64_bit() -> None:
    from minicompile.codegen.triton_matmul import print_product

    compiled = compiled_of(lambda a, b: (a @ b).relu(), matrix(20, 30), matrix(30, 40))
    assert "int64" not in compiled.native_source
    assert "tl.int64" in print_product(_product(70000, 70000)).source


def _product(m: int, n: int) -> Any:
    from minicompile.codegen.matmul_kernel import merge
    from minicompile.codegen.prepare import Views

    from .build import B, tensor_type

    b = B()
    x, w = b.input(m, 16, dtype=torch.float16), b.input(16, n, dtype=torch.float16)
    node = b.extern(torch.ops.aten.mm.default, x, w, type=tensor_type((m, n), torch.float16))
    low = merge("kernel", node, Views(), {}, None, True)
    assert low is not None and isinstance(low.kernel, Product)
    return replace(low.kernel, config=CONFIGS[0])
