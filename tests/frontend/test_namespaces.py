"""types.SimpleNamespace: read, written, made, compared, as in eager."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from types import SimpleNamespace as NS

import pytest
import torch

import minicompile
from tests.support import assert_same

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(6.0).reshape(2, 3)
WHOLE, BROKEN = Programs(), Programs()


@WHOLE.program(X, NS(a=2, b=NS(c=[1])))
def read_and_written(x, n):
    n.b.c.append(n.a)
    n.new = n.a * 3
    n.a += 1
    return x * n.new, hasattr(n, "other"), getattr(n, "other", 3), isinstance(n, NS), bool(n), n.b.c


@WHOLE.program(X, NS(a=2))
def as_dicts(x, n):
    made = NS(q=1, t=x)
    vars(made)["r"] = 3
    return x * n.__dict__["a"], vars(made), made.r, {**vars(n)}


@WHOLE.program(X)
def made(x):
    n = NS(q=1, t=x)
    n.q += 1
    n.double = n.t * 2
    n.call = lambda y: y + n.q
    del n.t
    n.me = n
    return n.call(n.double), n.q, hasattr(n, "t"), n.me is n, type(n) is NS


@WHOLE.program(X)
def made_and_returned(x):
    n = NS(q=1, part=NS(z=2))
    n.q += n.part.z
    return x + n.q, n


@BROKEN.program(X, NS(a=2), NS(a=2))
def compared(x, n, m):
    return x + 1, n == m, n != m, n is m, repr(n), n == NS(a=2), [n] == [m], n in [m]


@BROKEN.program(X, NS(lr=0.5, name="q"))
def looked_into(x, n):
    before = {**vars(n)}
    n.lr = 1.0
    return x * n.lr, f"{n.name}", before, vars(n)


@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_like_eager(name: str) -> None:
    fn, args = {**WHOLE, **BROKEN}[name]
    assert_like_eager(fn, args, graphs=1 if name in WHOLE else None, fullgraph=name in WHOLE)


def test_attributes_are_guarded() -> None:
    compiled = minicompile.compile(lambda x, n: x * n.k if hasattr(n, "k") else x, backend="eager", fullgraph=True)
    for n in (NS(k=2), NS(k=3), NS(), NS(k=X), NS(other=1)):
        assert_same(compiled(X, n), X * n.k if hasattr(n, "k") else X)
