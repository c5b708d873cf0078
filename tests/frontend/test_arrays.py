"""NumPy within compiled functions: in one graph where torch has the same function, as in eager everywhere."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import minicompile

from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
HALF, TWO = np.float64(0.5), np.int64(2)
WHOLE, BROKEN = Programs(), Programs()


@WHOLE.program(X)
def basics(x):
    a = x.numpy()
    return a * 2 + 1, a.sum(), a.sum(axis=0), a.mean(), a[0], a[0, 1], a[:, 1:], a.T, a.reshape(4, 2), a.astype("float64"), a.astype(np.int32), a.shape, a.ndim, a.dtype, a.size, len(a)


@WHOLE.program(X)
def functions(x):
    a = x.numpy()
    return np.sin(a), np.concatenate([a, a]), np.stack([a, a], axis=1), np.where(a > 0.5, a, 0), np.clip(a, 0.1, 0.5), np.dot(a, a.T), a @ a.T, np.max(a), np.argmax(a), np.zeros(3), np.arange(4), np.linspace(0, 1, 5), np.eye(2), np.maximum(a, 0.3), np.exp(-a), np.sqrt(a), np.std(a), np.mean(a, axis=1, keepdims=True)


@WHOLE.program(X)
def writes_through(x):
    a = x.numpy()
    a[0] = 7
    b = a.copy()
    b[1] = 3
    return x + 1, a, b


@WHOLE.program(X)
def there_and_back(x):
    a = np.cos(x.numpy())
    t, u = torch.from_numpy(a), torch.tensor(a)
    t.add_(1)
    return a, t, u, torch.as_tensor(a) * x


@WHOLE.program(X)
def one_object(x):
    a = x.numpy()
    same = np.asarray(a)
    return a, a, same is a, x.numpy() is a


@WHOLE.program(np.arange(4.0), X)
def from_outside(a, x):
    return np.cos(a) * 2, a.mean(), torch.from_numpy(a) + x[0], a


@WHOLE.program(np.arange(4.0))
def written(a):
    a[1:] = 5
    return a * 2, a.sum()


@WHOLE.program(X)
def new_arrays(x):
    a = np.zeros((2, 4), dtype=np.float32)
    a[0] = 1
    return x + torch.from_numpy(a), torch.as_tensor(np.ones(4)) * x, np.array([1.0, 2.0]), np.full((2,), 3.0), x * np.pi


@WHOLE.program(X)
def views(x):
    return x.detach().cpu().numpy(), x.T.numpy(), x[:, ::2].numpy(), x.expand(3, 2, 4).numpy()


@WHOLE.program(np.arange(-6, 6, dtype=np.int64))
def integers(a):
    return a // 4, a % 4, a**2, a.sum(), a.mean(), a + 1.5, -a, ~a, a > 2, a & 1, a >> 1, np.cumsum(a), a.prod(), np.abs(a), np.floor_divide(a, -4)


@WHOLE.program(np.array([1.5, -2.5, np.nan, 0.5, -0.0, np.inf]))
def odd_floats(a):
    return a % 2, a // 2, np.round(a), np.floor(a), np.trunc(a), np.isnan(a).any(), np.maximum(a, 0), np.fmax(a, 0), np.max(a), np.argmax(a), np.sort(a), np.clip(a, -1, 1), np.nan_to_num(a), a == a, np.where(np.isinf(a), 0, a), np.copysign(1.0, a)


@WHOLE.program(np.array([True, False]))
def booleans(a):
    return a.sum(), a & a, ~a, np.any(a), a + a, a.mean()


@WHOLE.program(np.arange(6, dtype=np.float16))
def half(a):
    return a + 1, a.sum(), a * 2.0


@WHOLE.program(X)
def in_place(x):
    a = x.numpy()
    a += 1; a -= 0.5; a *= 2; a /= 3; a **= 2; a //= 0.1; a %= 0.7
    a[0] *= 3; a[1, 2] += 5; a[:, 1:] -= a[:, :-1]; a += a[0]; a *= np.float64(2); a += np.ones((2, 4))
    b = a
    b += 1
    return a, b is a, x


@WHOLE.program(np.arange(6), np.array([True, False]), np.array(2.0))
def in_place_of_other_kinds(i, b, n):
    i += 1; i *= 2; i //= 3; i %= 4; i <<= 1; i |= 1; i ^= 3; i &= 6; i >>= 1; i -= np.int64(3); i **= 2
    b |= True; b &= np.array([True, True]); b ^= True
    n += 1; m = n; m *= 3
    s = i.sum(); s += 2
    e = np.eye(4); e @= np.full((4, 4), 2.0)
    return i, b, n, s, e


@WHOLE.program(X, np.float64(2.5), np.float32(1.5), np.int64(2), np.float16(0.5))
def scalars_and_tensors(x, a, b, c, h):
    return x * a, a * x, x + b, b - x, x**c, x / h, torch.add(x, a), x[c - 1], x.view(c, -1), torch.full((c,), a), torch.tensor(a), torch.tensor(h), torch.as_tensor(c), torch.zeros(c), x.clamp(max=b), a < x, x.sum(c - 1), x.half() * a


@WHOLE.program(X, np.float64(2.5), np.float32(1.5), np.int64(2))
def scalars_and_arrays(x, a, b, c):
    v = x.numpy()
    return v * a, v + b, v - c, a - v, c * v, v**c, v[c - 1], v[0, c], v.sum() * a, v.sum() + b, v.sum() * 2, v.reshape(c, -1), np.full((c,), a), v.mean() + v.sum(), v // a, np.maximum(v, a)


@WHOLE.program(X)
def scalars_by_themselves(x):
    return x * HALF + TWO, HALF, HALF * 2 + 1, TWO // 2, float(HALF), int(TWO), str(HALF), f"{HALF:.3f}", round(HALF, 1), HALF.item(), HALF.dtype, HALF == 0.5, -TWO, abs(-HALF), bool(TWO), isinstance(HALF, float), isinstance(TWO, int), isinstance(TWO, np.integer), hash(TWO), np.int8(100) + np.int8(20)


@WHOLE.program({np.int64(1): 3, "a": np.float32(2.0)}, X)
def scalars_as_keys_and_indices(d, x):
    return d[1], d[np.int64(1)], x * d["a"], [*{np.int64(5): x}], [1, 2, 3][np.int64(1)], list(range(np.int64(3))), "ab" * np.int64(2)


@WHOLE.program(X)
def functions_of_numbers(x):
    return x / np.sqrt(x.shape[-1]), x * np.log(2), np.prod([2, 3]), np.max([1, 5]), x.reshape(np.prod(x.shape)), np.ceil(2.5), int(np.ceil(x.shape[0] / 2)), np.round(2.567, 2), np.floor(np.float32(2.5)), np.minimum(3, 4), np.mean([1, 2, 3])


@BROKEN.program(np.array([1.5, -2.5, np.nan, 0.5, -0.0, np.inf]), np.array([15, -4, 3]))
def other_numbers_in_torch(a, i):
    return np.sign(a), np.cbrt(a), np.fix(a), np.modf(a), np.heaviside(a, 0.5), np.divmod(a, 2), np.angle(a), np.dot(a, 0), np.round(i, -1), i.round(-1), np.sqrt(a, a.copy())


@BROKEN.program(np.arange(6).reshape(2, 3)[:, ::-1])
def negative_strides(a):
    return a * 2


@BROKEN.program(np.arange(6).reshape(2, 3).T)
def transposed(a):
    return a * 2, a.sum(0), a.copy(), np.ravel(a)


@BROKEN.program(np.arange(6, dtype=np.uint8))
def small_integers(a):
    return a + 1, a * 3, a.sum(), -a, a - 10, a / 3, a.mean(), np.sqrt(a)


@BROKEN.program(X.clone().requires_grad_())
def with_gradients(x):
    try:
        return x.numpy()
    except RuntimeError as e:
        return str(e)


@BROKEN.program(X)
def numbers(x):
    a = x.numpy()
    m = a.mean()
    return a[a > 0.3], np.nonzero(a)[0], np.unique(a), m * 2, m + a, float(m), m.item(), x * float(m), f"{a.sum():.2f}", str(a[0])


@BROKEN.program(X)
def loops(x):
    return [float(v) for row in x.numpy() for v in row], sum(r.sum() for r in x.numpy())


@BROKEN.program(X)
def scalars(x):
    return x + np.float32(2), np.prod([2, 3]) * x, np.sqrt(2) * x, np.inf, x.new_tensor(np.ones(2)), np.int64(3) + 1, np.float64(1) + x.numpy()


@BROKEN.program(X, np.bool_(True), [np.float32(1.0), np.float32(2.0)])
def scalars_that_torch_takes_otherwise(x, b, l):
    return x * 2 if b else x, not b, np.bool_(False) | b, torch.tensor(b), x + b, torch.tensor(l), np.array(l), np.where(x.numpy() > 0.5, x.numpy(), np.float64(2))


@BROKEN.program(X)
def what_arrays_of_ones_get_wrong(x):
    a = x.numpy() + 1
    a[a > 1.5] *= 2
    try:
        a.reshape(5)
    except ValueError as e:
        m = str(e)
    a += 1
    return a, m, x + 1


@BROKEN.program(X)
def without_dimensions(x):
    return np.array(1.0), np.asarray(2), np.zeros(()), x.sum().numpy(), x.sum().numpy() + 1


@BROKEN.program(X)
def comparisons(x):
    a = x.numpy()
    return a == a, a == None, a != 3, a is None, isinstance(a, np.ndarray), type(a) is np.ndarray


@BROKEN.program(X)
def random_numbers(x):
    np.random.seed(0)
    return x + torch.from_numpy(np.random.rand(2, 4)), np.random.randint(3)


@BROKEN.program(X)
def many(x):
    a = x.numpy()
    return np.transpose(a, (1, 0)), np.expand_dims(a, 0), a[None], a[..., 0], a[[0, 1]], np.split(a, 2, axis=1), np.squeeze(a[None]), np.flip(a, 0), np.argsort(-a), np.pad(a, 1), np.tile(a, 2), np.repeat(a, 2), np.roll(a, 1), np.diff(a), np.outer(a[0], a[1]), np.einsum("ij,kj->ik", a, a), np.median(a), np.percentile(a, 50), np.linalg.norm(a), np.triu(a), np.trace(a), np.allclose(a, a), np.vstack([a, a]), np.broadcast_to(a, (2, 2, 4)).flags.writeable, a.diagonal().flags.writeable


def assert_same(actual: Any, expected: Any) -> None:
    """Equal, types, dtypes, layouts and which things are one included."""
    assert type(actual) is type(expected), (actual, expected)
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        assert [one is first for one in actual for first in actual] == [o is f for o in expected for f in expected]
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=True)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-3 if expected.dtype == np.float16 else 1e-6)
    else:
        assert actual == expected


def check(program: Any, **options: Any) -> Any:
    fn, args = program
    compiled = minicompile.compile(fn, **options)
    for _ in range(2):
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert_same(compiled(*ours), fn(*theirs))
        assert_same(ours, theirs)
    return compiled


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str, backend: str) -> None:
    assert len(check(WHOLE[name], fullgraph=True, backend=backend).entries) == 1


@pytest.mark.parametrize("name", BROKEN)
def test_with_breaks(name: str) -> None:
    check(BROKEN[name], backend="eager")


def fractions_in_integers(a):
    a += 1.5


def a_division_of_integers(a):
    a /= 2


def more_rows(a):
    a -= np.ones((2, 6))


@pytest.mark.parametrize("fn", [fractions_in_integers, a_division_of_integers, more_rows])
def test_what_numpy_refuses_to_do_in_place(fn: Any) -> None:
    compiled, errors = minicompile.compile(fn, backend="eager"), []
    for run in (fn, compiled, compiled):
        with pytest.raises((TypeError, ValueError)) as raised:
            run(np.arange(6))
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1] == errors[2]


def test_scalars_that_differ() -> None:
    """By value, by bits, by type."""
    compiled = minicompile.compile(lambda x, s: (x * s, s), backend="eager", fullgraph=True)
    x = np.float64(1.0)
    for scalar in (np.float64(0.0), np.float64(-0.0), np.float32(0.0), np.int64(0), 0.0, np.float64(np.nan), x, x + 1):
        for _ in range(2):
            product, same = compiled(torch.ones(2), scalar)
            assert type(same) is type(scalar) and repr(same) == repr(scalar)
            torch.testing.assert_close(product, torch.ones(2) * scalar, equal_nan=True)
            assert torch.equal(torch.signbit(product), torch.signbit(torch.ones(2) * scalar))


def test_what_differs_is_compiled_anew() -> None:
    """Shape, dtype, layout, and whether it may be written."""
    compiled = minicompile.compile(lambda a: a.sum(axis=0) * 2, backend="eager", fullgraph=True, dynamic=False)
    for array in (np.ones((2, 3)), np.ones((2, 3), np.float32), np.ones((4, 3)), np.ones((3, 2)).T, np.ones((2, 3))):
        assert_same(compiled(array), array.sum(axis=0) * 2)
    assert len(compiled.entries) == 4
    fixed = np.ones(3)
    fixed.flags.writeable = False
    setter = minicompile.compile(lambda a: a.__setitem__(0, 2.0), backend="eager")
    setter(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        setter(fixed)
    assert fixed[0] == 1
