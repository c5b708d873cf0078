"""Views, creation and extern calls against eager, over several layouts of the input."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from minicompile.ir import reference
from minicompile.lowering import LoweringError, lower

from .support import lowered


def layouts() -> dict[str, torch.Tensor]:
    base = torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))
    return {
        "contiguous": base,
        "channels_last": base.contiguous(memory_format=torch.channels_last),
        "transposed": torch.randn(2, 6, 4, 3).transpose(1, 3),
    }


VIEWS = {
    "view": lambda x: x.reshape(6, -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(3, (2, 3)),
    "transpose": lambda x: x.transpose(1, -1) + 1,
    "permute": lambda x: x.permute(3, 0, 2, 1) * 2,
    "movedim": lambda x: x.movedim(0, -1),
    "mT": lambda x: x.mT.contiguous(),
    "unsqueeze": lambda x: x.unsqueeze(-1) + x.unsqueeze(0).squeeze(0).unsqueeze(-1),
    "expand": lambda x: (x[:1, :, :1] + 0).expand(5, -1, 4, 6) * 2,
    "select": lambda x: x[1, :, -1],
    "slice": lambda x: x[:, 1:, ::2, -4:-1],
    "slice_all": lambda x: x[:, :, 3:2],
    "ellipsis": lambda x: x[..., 2],
    "none": lambda x: x[:, None, :, 1],
    "narrow": lambda x: x.narrow(3, 2, 3),
    "chunk": lambda x: x.chunk(2, -1),
    "split": lambda x: x.split(4, -1),
    "split_sizes": lambda x: x.split([1, 2, 3], -1),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: torch.tensor_split(x, 4, -1),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "repeat_more": lambda x: x[0, 0].repeat(2, 2, 1),
    "tril": lambda x: x.tril(-1) + x.triu(2),
    "contiguous": lambda x: x.contiguous(),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "clone": lambda x: x.clone(),
    "view_as": lambda x: (x + 1).view_as(x),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x[0], x[:, :1])[1] * 2,
    "swapaxes": lambda x: torch.swapaxes(x, 0, 1) - 1,
    "atleast": lambda x: torch.atleast_3d(x[0, 0]),
    "ravel": lambda x: x.ravel(),
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed"])
@pytest.mark.parametrize("name", VIEWS)
def test_views(kernel_only, name, layout):
    kernel_only(VIEWS[name], layouts()[layout])


EXTERNS = {
    "cat": lambda x: torch.cat([x, x + 1], 1),
    "stack": lambda x: torch.stack([x, x * 2]),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll(1, 2),
    "pad": lambda x: F.pad(x, (1, 2), value=3.0),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "diagonal": lambda x: x.diagonal(0, 2, 3) + 1,
    "unfold": lambda x: x.unfold(3, 2, 1) * 2,
    "index": lambda x: x[:, torch.tensor([0, 2])],
    "gather": lambda x: x.gather(3, torch.zeros(2, 3, 4, 2, dtype=torch.int64)),
    "sort": lambda x: x.sort(-1),
    "topk": lambda x: x.topk(2),
    "cumsum": lambda x: x.cumsum(-1),
    "conv": lambda x: F.conv2d(x, x[:, :, :2, :2].contiguous()),
    "pool": lambda x: F.max_pool2d(x, 2),
    "avg_pool": lambda x: F.adaptive_avg_pool2d(x, 2),
    "avg_pool of nothing": lambda x: F.adaptive_avg_pool2d(x, (0, 3)),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "sdpa": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.zeros(4, 4)),
    "sdpa_causal": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "embedding": lambda x: F.embedding(torch.tensor([[1, 0]]), x[0, 0].contiguous()),
    "einsum": lambda x: torch.einsum("abcd,abed->ace", x, x),
    "lgamma": torch.lgamma,
    "as_strided": lambda x: (x + 0).as_strided((2, 2), (1, 2), 1),
    "view_dtype": lambda x: (x + 0).view(torch.int32) + 1,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.transpose(1, 2).contiguous(), 2),
    "cross_entropy": lambda x: F.cross_entropy(x[0, 0], torch.tensor([0, 1, 2, 3])),
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed"])
@pytest.mark.parametrize("name", EXTERNS)
def test_externs(check, name, layout):
    check(EXTERNS[name], layouts()[layout])


CREATION = {
    "zeros": lambda x: torch.zeros(x.shape) + x,
    "ones_int": lambda x: x + torch.ones(6, dtype=torch.int32),
    "full_like": lambda x: torch.full_like(x, 2.5) * x,
    "new_zeros": lambda x: x.new_zeros(3) + 1,
    "new_full": lambda x: x.new_full((2, 2), 7),
    "arange_like": lambda x: torch.arange(x.size(3)) * x,
    "eye": lambda x: torch.eye(4, 6) * x,
    "tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "scalar_tensor": lambda x: x * torch.tensor(3),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(kernel_only, name):
    kernel_only(CREATION[name], layouts()["contiguous"])


@pytest.mark.parametrize("args", [(5,), (2, 9), (1, 10, 3), (0, 10, 2.5), (5, 0, -2)], ids=str)
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.int32, torch.float64])
def test_arange(args, dtype):
    """Built by hand: symbolic_trace runs creation functions at once instead of recording them."""
    graph = torch.fx.Graph()
    graph.placeholder("x")
    graph.output((graph.call_function(torch.arange, args, {"dtype": dtype}),))
    ours = lower(torch.fx.GraphModule({}, graph), [torch.ones(1)])
    (result,) = reference.run(ours, torch.ones(1))
    torch.testing.assert_close(result, torch.arange(*args, dtype=dtype))
    assert {node.op for node in ours.nodes} <= {"iota", "cast", "mul", "add"}


def test_a_data_dependent_operator_is_refused_by_name():
    with pytest.raises(LoweringError, match="needs the values of a tensor"):
        lowered(lambda x: F.one_hot((x > 0).long()), torch.randn(3))
