"""`x[:, pos] = k` and `x[pos]` where `pos` is a tensor of one integer: one graph, as in eager, for any number in it."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile

from ..support import assert_same
from .conftest import Counting
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(24.0).reshape(2, 3, 4)
K = torch.rand(2, 3, 4)
WHOLE = Programs()
whole = WHOLE.program


@whole()
def a_number(x, p):
    x[p - 1] = 7
    x[:, p] = 2.5
    return x * 2


@whole(K[0, 0])
def a_row(x, p, k):
    x[:, p] = k
    return x * 2


@whole(K[:, 0].double())
def of_another_type(x, p, k):
    x[:, p] = k
    return x * 2


@whole(K[None, :, :1].reshape(1, 1, 2, 4))
def with_dimensions_to_spare(x, p, k):
    x[:, p] = k
    return x


@whole(K[:, :, 0])
def behind_an_ellipsis(x, p, k):
    x[..., p] = k
    x[..., p, 1:3] = k[:, :1]
    x[None, ..., p, None, 0] = k[0, 0]
    return x + 1


@whole(K[0, 0, 0])
def of_no_dimensions(x, p, k):
    x[1, p, 2:] = k
    x[p] = k
    return x


@whole()
def what_it_reads_itself(x, p):
    x[:, p] = x[:, 0]
    return x * 2


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str) -> None:
    fn, args = WHOLE[name]
    backend = Counting()
    compiled = minicompile.compile(fn, backend=backend)
    for place in (1, 0, -1):
        p = torch.tensor(place)
        mine, eagers = X.clone(), X.clone()
        assert_same(compiled(mine, p, *args), fn(eagers, p, *args))
        assert_same(mine, eagers)
    assert len(backend.graphs) == 1 and not compiled.breaks


@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_gradients(backend: str) -> None:
    def put(x: Any, p: Any, k: Any) -> Any:
        y = x * 1
        y[:, p] = k * k
        return y.sin()

    results = []
    for run in (minicompile.compile(put, backend=backend, fullgraph=True), put):
        x, k = X.clone().requires_grad_(), K[:, 0].clone().requires_grad_()
        run(x, torch.tensor(1, dtype=torch.int32), k).sum().backward()
        results.append((x.grad, k.grad))
    assert_same(*results)


@pytest.mark.parametrize(("place", "shape", "error"), [(9, (2, 4), IndexError), (1, (3, 4), RuntimeError)])
def test_errors_are_eagers(place: int, shape: tuple[int, ...], error: type[Exception]) -> None:
    compiled = minicompile.compile(a_row)
    with pytest.raises(error, match="out of bounds|must match the existing size"):
        compiled(X.clone(), torch.tensor(place), torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_masks_are_no_places(dtype: torch.dtype) -> None:
    def put(x: Any, p: Any) -> None:
        x[p] = 3.0

    mine, eagers, compiled = X.clone(), X.clone(), minicompile.compile(put)
    for value in (0, 1):
        compiled(mine, torch.tensor(value, dtype=dtype)), put(eagers, torch.tensor(value, dtype=dtype))
        assert_same(mine, eagers)


@pytest.mark.parametrize("k", [torch.arange(4.0), torch.tensor(7.0)])
def test_beside_a_symbolic_number(k: torch.Tensor) -> None:
    """A cube: what is put fits in another dimension, too."""

    def put(x: Any, p: Any, k: Any, other: Any) -> Any:
        x[other.shape[0] - 1, p] = k
        x[p, other.shape[0] - 1] = k + 1
        return x * 2

    compiled = minicompile.compile(put, dynamic=True)
    for rows in (3, 4):
        mine, eagers, other = torch.zeros(4, 4, 4), torch.zeros(4, 4, 4), torch.zeros(rows, 2)
        assert_same(compiled(mine, torch.tensor(2), k, other), put(eagers, torch.tensor(2), k, other))
        assert_same(mine, eagers)


READ = Programs()


@READ.program()
def rows_of_a_table(x, p):
    return x[p] * 2 + x[p - 1, None, 1:].sum(), x[:1, p].sin(), x[p].exp()[p] * 1


@READ.program()
def one_element(x, p):
    return x[p, 1, 2] + 1, (x[p, p + 0] if False else x[0, p, 1:3]) * 2


@pytest.mark.parametrize("name", READ)
def test_read_in_one_graph(name: str) -> None:
    fn, _ = READ[name]
    compiled = minicompile.compile(fn, fullgraph=True)
    for place in (1, 0, -1):
        p = torch.tensor(place)
        assert_same(compiled(X, p), fn(X, p))
        results = []
        for run in (compiled, fn):
            x = X.clone().requires_grad_()
            sum(part.sum() for part in run(x, p)).backward()
            results.append(x.grad)
        assert_same(*results)
    assert len(compiled.entries) == 2
    for run in (compiled, fn):
        with pytest.raises(IndexError, match="out of "):
            run(X, torch.tensor(7))


@pytest.mark.parametrize(
    "read",
    [
        lambda x, p: x[p],
        lambda x, p: (x[p].add_(1), x * 2)[1],
        lambda x, p: x[p].view(-1)[1:],
        lambda x, p: (x[p], x.add_(1))[0] * 2,
        lambda x, p: x[:, p] * 2,
        lambda x, p: x.transpose(0, 2)[p] + 1,
        lambda x, p: x[p].tolist(),
        lambda x, p: x[p, p] + 1,
    ],
)
def test_where_a_view_is_seen(read: Any) -> None:
    compiled = minicompile.compile(read)
    for place in (1, 0, -1):
        mine, eagers, p = X.clone(), X.clone(), torch.tensor(place)
        result, expected = compiled(mine, p), read(eagers, p)
        assert_same(result, expected)
        if isinstance(expected, torch.Tensor):
            result.add_(1), expected.add_(1)
        assert_same(mine, eagers)
