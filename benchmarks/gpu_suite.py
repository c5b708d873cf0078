"""The GPU's rows as data: what is measured, with which inputs.

In: nothing. Out: `SUITE` and `MODELS`. Sizes are large enough that a row's bytes do not fit into the L2 cache.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import suite

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class GpuRow:
    """One benchmark.

    Attributes:
        make: → (function, arguments).
        kind: "kernel", "call" (small: the cost of a call) or "model".
        mutates: whether the function writes its arguments.
        skip_bytes: indices of tensor arguments that are not read in full.
        gathered: bytes that are read of those.
        graphs: whether mode="reduce-overhead" is measured too.
        train: whether a call is a forward and a backward.
        mode: what both compilers are asked for.
        moving: whether each call's arguments lie elsewhere than the last one's, and its results are kept for a while.
    """

    name: str
    make: Callable[[], Made]
    kind: str = "kernel"
    mutates: bool = False
    skip_bytes: tuple[int, ...] = ()
    gathered: int = 0
    graphs: bool = False
    train: bool = False
    mode: str | None = None
    moving: bool = False

    def bind(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
        """One call."""
        if self.moving:
            return _on_copies(fn, args)
        if not self.train:
            return lambda: fn(*args)

        def step() -> None:
            fn(*args).backward()

        return step


def _on_copies(fn: Callable[..., Any], args: tuple[Any, ...], copies: int = 16) -> Callable[[], Any]:
    """A call of the function on the next of so many copies of its arguments; half as many results are kept."""
    given = itertools.cycle([tuple(arg.clone() for arg in args) for _ in range(copies)])
    kept: deque[Any] = deque(maxlen=copies // 2)

    def call() -> Any:
        kept.append(fn(*next(given)))
        return kept[-1]

    return call


def _row(
    name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, **how: Any
) -> GpuRow:
    return GpuRow(name, lambda: (fn, tuple(torch.randn(s, device="cuda", dtype=dtype) for s in shapes)), **how)


def _on_gpu(name: str, **how: Any) -> GpuRow:
    """A row of the CPU's suite."""
    row = suite.SUITE[name]

    def make() -> Made:
        fn, args = row.make()
        return fn, tuple(_moved(arg) for arg in args)

    return GpuRow(name, make, mutates=row.mutates, skip_bytes=row.skip_bytes, gathered=row.gathered, **how)


def _moved(arg: Any) -> Any:
    return [_moved(item) for item in arg] if isinstance(arg, list) else arg.cuda()


def _cross_entropy() -> Made:
    logits = torch.randn(4096, 32000, device="cuda")
    return suite.cross_entropy, (logits, torch.randint(32000, (4096,), device="cuda"))


def _sums_by_index(fn: Callable[..., Any], rows: int) -> Callable[[], Made]:
    """A million rows of 64, each added to a random one."""

    def make() -> Made:
        index = torch.randint(rows, (1 << 20,), device="cuda")
        return fn, (torch.randn(rows, 64, device="cuda"), index, torch.randn(1 << 20, 64, device="cuda"))

    return make


def _scatter_add(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    return x.scatter_add(0, index[:, None].expand(-1, 64), rows)


def _embedding_backward(dtype: torch.dtype) -> Callable[[], Made]:
    """GPT-2's: 4096 tokens of 50257."""

    def make() -> Made:
        grad, ids = torch.randn(4096, 768, device="cuda", dtype=dtype), torch.randint(50257, (4096,), device="cuda")
        return lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 50257, -1, False), (grad, ids)

    return make


def _rotary() -> Made:
    angles = torch.outer(torch.arange(2048.0), 10000 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
    return suite.rotary, (torch.randn(16, 16, 2048, 64, device="cuda"), angles.cos().cuda(), angles.sin().cuda())


def _linear_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def _gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A Llama's feed-forward part."""
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def _linear_residual(x: Tensor, w: Tensor, b: Tensor, rest: Tensor) -> Tensor:
    return rest + F.linear(x, w, b)


def _tuned(name: str, fn: Callable[..., Any], *shapes: tuple[int, ...]) -> GpuRow:
    """A row of matrix products in bf16, with templates against cuBLAS; four calls back to back, as a model's."""
    return _row(f"{name}, tuned", fn, *shapes, dtype=torch.bfloat16, kind="model", mode="max-autotune-no-cudagraphs")


def _small(x: Tensor) -> Tensor:
    return torch.relu(x + 1)


def _chain(x: Tensor) -> Tensor:
    """Sums that cannot be one kernel."""
    for _ in range(10):
        x = x - x.mean(0)
        x = x / (1 + x.abs().sum(1, keepdim=True))
    return x


SUITE = (
    _row("relu(x+y)*2+sigmoid(x)", suite.relu_sigmoid, (16384, 2048), (16384, 2048)),
    _row("entropy", suite.entropy, (256, 196, 768)),
    _row("softmax", lambda x: torch.softmax(x, -1), (8192, 4096)),
    GpuRow("cross_entropy", _cross_entropy),
    _row("layer_norm+gelu", suite.layer_norm_gelu, (65536, 768), (768,), (768,)),
    _row("rms_norm bf16", suite.rms_norm, (16384, 4096), (4096,), dtype=torch.bfloat16),
    GpuRow("rotary", _rotary),
    _row("swiglu", lambda x, y: F.silu(x) * y, (4096, 11008), (4096, 11008)),
    _row("swiglu bf16", lambda x, y: F.silu(x) * y, (8192, 11008), (8192, 11008), dtype=torch.bfloat16),
    _row("sum of squares 64M", lambda x: (x * x).sum(), (64 << 20,)),
    _row("column sum", lambda x: x.sum(0), (16384, 4096)),
    _row("row sum", lambda x: x.sum(1), (16384, 4096)),
    _row("var", lambda x: x.var(1), (16384, 4096)),
    _row("x + y.T", lambda x, y: x + y.T, (8192, 4096), (4096, 8192)),
    _row("softmax of 50257", lambda x: torch.softmax(x, -1), (1024, 50257)),
    _row("softmax of 32000", lambda x: torch.softmax(x, -1), (2048, 32000)),
    _row("bias+gelu+residual", suite.bias_gelu_residual, (16384, 3072), (3072,), (16384, 3072)),
    _row("argmax", lambda x: x.argmax(1), (16384, 4096)),
    _row("batch statistics", lambda x: x.var((0, 2, 3)), (64, 64, 112, 112)),
    _on_gpu("masked_fill+softmax"),
    _on_gpu("embedding+add+layer_norm"),
    _on_gpu("cat of 8, relu"),
    _on_gpu("adam 20 tensors"),
    GpuRow("index_add of 1M rows", _sums_by_index(lambda x, i, rows: x.index_add(0, i, rows), 1 << 20)),
    GpuRow("index_add of 1M rows to 1000", _sums_by_index(lambda x, i, rows: x.index_add(0, i, rows), 1000)),
    GpuRow("scatter_add of 1M rows", _sums_by_index(_scatter_add, 1 << 20)),
    GpuRow("embedding backward", _embedding_backward(torch.float32)),
    GpuRow("embedding backward bf16", _embedding_backward(torch.bfloat16)),
    _tuned("linear+gelu 4096·768·3072", _linear_gelu, (4096, 768), (3072, 768), (3072,)),
    _tuned("linear+residual 4096·3072·768", _linear_residual, (4096, 3072), (768, 3072), (768,), (4096, 768)),
    _tuned("gated 4096·768·2048", _gated, (4096, 768), (2048, 768), (2048, 768), (768, 2048)),
    _tuned("product 8192·8192·8192", lambda x, y: x @ y, (8192, 8192), (8192, 8192)),
    _tuned("linear+gelu of 16 rows", _linear_gelu, (16, 4096), (11008, 4096), (11008,)),
    _row("relu(x+1), 8 floats", _small, (8,), kind="call", graphs=True),
    _row("chain of kernels", _chain, (64, 64), kind="call", graphs=True),
    _row("chain of kernels, moving", _chain, (64, 64), kind="call", moving=True),
)
"""The rows, in the order of the table."""


def _language_model(name: str) -> Callable[[], Made]:
    def make() -> Made:
        import transformers as t

        if name == "gpt2":
            model = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))
        elif name == "bert":
            model = t.BertModel(t.BertConfig(), add_pooling_layer=False)
        else:
            config = t.LlamaConfig(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, use_cache=False,
                                   intermediate_size=2048, vocab_size=32000)  # fmt: skip
            model = t.LlamaForCausalLM(config)
        ids = torch.randint(model.config.vocab_size, (8, 512), device="cuda")
        return _First(model).cuda().to(torch.bfloat16).eval(), (ids,)

    return make


def _vision() -> Made:
    import transformers as t

    model = t.ViTModel(t.ViTConfig(), add_pooling_layer=False)
    return _First(model).cuda().to(torch.bfloat16).eval(), (torch.randn(64, 3, 224, 224, device="cuda").bfloat16(),)


class _First(torch.nn.Module):
    """A model's main result: its logits or last hidden state."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[0]


def _trained(make: Callable[[], Made]) -> Callable[[], Made]:
    def made() -> Made:
        model, args = make()
        return _Loss(model), args

    return made


class _Loss(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).float().square().mean()


_MODELS: dict[str, Callable[[], Made]] = {
    "GPT-2 small": _language_model("gpt2"), "BERT-base": _language_model("bert"),
    "Llama 160M": _language_model("llama"), "ViT-base": _vision,
}  # fmt: skip

MODELS = tuple(
    row
    for name, make in _MODELS.items()
    for row in (GpuRow(name, make, kind="model", graphs=True),
                GpuRow(f"{name}, training", _trained(make), kind="model", train=True))
)  # fmt: skip
"""bf16, batch 8 × 512 tokens (64 images), random weights."""
