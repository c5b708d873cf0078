"""When an entry is used again and when a new one is made: whatever differs between calls, the result is eager's."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minicompile
from minicompile.config import config
from tests.support import assert_same

from .conftest import Counting, assert_like_eager

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)


def scaled(x: Tensor) -> Tensor:
    return torch.relu(x) * 2


def test_shape_dtype_stride_and_gradient() -> None:
    calls = [X, X[:1], X.double(), X.t().contiguous().t(), X.clone().requires_grad_(), X]
    compiled = assert_like_eager(scaled, *((x,) for x in calls))
    assert len(compiled.entries) == 5


def test_reasons_are_in_the_users_terms() -> None:
    compiled = minicompile.compile(scaled, backend="eager")
    compiled(X)
    compiled(X[:1])
    (record,) = compiled.recompiles
    assert "argument x: size of dimension 0 is 1, compiled for 2" in str(record)


def test_grad_mode() -> None:
    compiled = minicompile.compile(scaled, backend="eager")
    x = X.clone().requires_grad_()
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad
    assert len(compiled.entries) == 2


def test_train_and_eval() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = minicompile.compile(module, backend="eager")
    module.eval()
    assert_same(compiled(X), module(X))
    module.train()
    torch.manual_seed(3)
    expected = module(X)
    torch.manual_seed(3)
    assert_same(compiled(X), expected)
    module.eval()
    assert_same(compiled(X), module(X))


@pytest.mark.parametrize(
    "values",
    [(1, True, 1.0), (0.0, -0.0), (2, 3, 4, 5), ("a", "b"), (None, 0), ((1, 2), [1, 2]), (float("nan"), 1.0)],
)
def test_constants_by_type_and_value(values: tuple[Any, ...]) -> None:
    def fn(x: Tensor, value: Any) -> Any:
        return x * 2, value, str(value), type(value).__name__

    compiled = minicompile.compile(fn, backend="eager")
    for value in (*values, *values):
        result = compiled(X, value)
        assert result[2:] == (str(value), type(value).__name__)
        assert result[1] is value or result[1] == value


def test_an_unused_argument_is_not_guarded() -> None:
    def fn(x: Tensor, unused: Any) -> Any:
        return x + 1, unused

    compiled = minicompile.compile(fn, backend="eager")
    for value in (1, "a", None, [1], X):
        assert compiled(X, value)[1] is value
    assert len(compiled.entries) == 1


def test_an_int_that_varies_becomes_a_symbol() -> None:
    def fn(x: Tensor, n: int) -> Any:
        return x * n, n + 1

    compiled = assert_like_eager(fn, *((X, n) for n in range(2, 14)))
    assert len(compiled.entries) == 2


def test_dynamic_sizes_share_an_entry(backend: Counting) -> None:
    def fn(x: Tensor) -> Any:
        return torch.softmax(x, -1).sum(0) * x.shape[0], x.shape[0] + 1, x.reshape(-1).shape

    compiled = minicompile.compile(fn, backend=backend, dynamic=True)
    for rows in (4, 6, 8, 3):
        x = torch.randn(rows, 8)
        assert_same(compiled(x), fn(x))
    assert len(compiled.entries) == 1
    kinds = [type(node.meta["example_value"]) for node in backend.graphs[0].graph.nodes if node.op == "placeholder"]
    assert kinds[-1] is not torch.SymInt and torch.SymInt in kinds


def test_marked_dimension_is_dynamic_and_others_are_not() -> None:
    compiled = minicompile.compile(scaled, backend="eager")
    for rows in (4, 6, 8):
        x = torch.randn(rows, 8)
        minicompile.mark_dynamic(x, 0)
        assert_same(compiled(x), scaled(x))
    assert len(compiled.entries) == 1
    x = torch.randn(4, 9)
    minicompile.mark_dynamic(x, 0)
    assert_same(compiled(x), scaled(x))
    assert len(compiled.entries) == 2


def test_recompile_limit_ends_in_eager_with_one_warning() -> None:
    def fn(x: Tensor, text: str) -> Any:
        return x * len(text), text

    compiled = minicompile.compile(fn, backend="eager")
    with warnings.catch_warnings(record=True) as caught, config.patch(strict=False):
        warnings.simplefilter("always")
        for n in range(config.recompile_limit + 4):
            assert_same(compiled(X, "a" * n), fn(X, "a" * n))
    assert len(compiled.entries) == config.recompile_limit
    assert len([w for w in caught if "which is the limit" in str(w.message)]) == 1


# ---- the traps ----


def test_a_patched_method_is_noticed() -> None:
    class Model:
        def scale(self) -> int:
            return 2

    def fn(x: Tensor, model: Model) -> Tensor:
        return x * model.scale()

    compiled = minicompile.compile(fn, backend="eager")
    model = Model()
    assert torch.equal(compiled(X, model), X * 2)
    Model.scale = lambda self: 5  # type: ignore[method-assign]
    assert torch.equal(compiled(X, model), X * 5)
    model.scale = lambda: 7  # type: ignore[method-assign]
    assert torch.equal(compiled(X, model), X * 7)


def test_an_instance_attribute_that_hides_a_submodule_is_noticed() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x - 4)

    model = Model()
    compiled = minicompile.compile(model, backend="eager")
    assert torch.equal(compiled(X), model(X))
    model.__dict__["act"] = torch.neg
    assert torch.equal(compiled(X), model(X))


def test_a_global_that_hides_a_builtin_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: Tensor) -> Tensor:
        return x * len([1, 2])

    compiled = minicompile.compile(fn, backend="eager")
    assert torch.equal(compiled(X), X * 2)
    monkeypatch.setitem(globals(), "len", lambda items: 10)
    assert torch.equal(compiled(X), X * 10)


def test_one_list_passed_twice() -> None:
    def fn(x: Tensor, a: list[int], b: list[int]) -> Any:
        a.append(1)
        return x * len(b), a is b

    compiled = minicompile.compile(fn, backend="eager")
    for same in (False, True, False, True):
        a: list[int] = [0]
        b = a if same else [0]
        result, is_same = compiled(X, a, b)
        assert is_same is same and torch.equal(result, X * (2 if same else 1))


def test_one_tensor_passed_twice_and_overlapping_views() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    compiled = minicompile.compile(fn, backend="eager")
    for make in (lambda t: (t, t.clone()), lambda t: (t, t), lambda t: (t, t.view(2, 4)), lambda t: (t[:1], t[1:])):
        assert_same(compiled(*make(X.clone())), fn(*make(X.clone())))


def test_defaults_code_and_cells_of_a_called_function() -> None:
    def helper(x: Tensor, k: int = 2) -> Tensor:
        return x * k

    def fn(x: Tensor) -> Tensor:
        return helper(x)

    compiled = minicompile.compile(fn, backend="eager")
    assert torch.equal(compiled(X), X * 2)
    helper.__defaults__ = (3,)
    assert torch.equal(compiled(X), X * 3)
    helper.__code__ = (lambda x, k=3: x + k).__code__
    assert torch.equal(compiled(X), X + 3)
    helper = torch.neg  # noqa: F841
    assert torch.equal(compiled(X), -X)


def test_attributes_and_keys_that_come_and_go() -> None:
    class Config:
        pass

    def fn(x: Tensor, config: Any, d: dict[str, int]) -> Any:
        return x * getattr(config, "k", 1), x + d.get("b", 0), list(d)

    compiled = minicompile.compile(fn, backend="eager")
    holder = Config()
    for d in ({}, {"a": 1, "b": 2}, {"b": 2, "a": 1}):
        assert_same(compiled(X, holder, d), fn(X, holder, d))
    holder.k = 4
    assert_same(compiled(X, holder, {}), fn(X, holder, {}))


def test_default_dtype() -> None:
    def fn(n: int) -> Tensor:
        return torch.ones(n) + 1

    compiled = minicompile.compile(fn, backend="eager")
    assert compiled(2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_autocast() -> None:
    weight = torch.randn(4, 4)

    def fn(x: Tensor) -> Tensor:
        return x @ weight

    compiled = minicompile.compile(fn, backend="eager")
    assert compiled(X).dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(X).dtype is torch.bfloat16
    assert compiled(X).dtype is torch.float32


def test_impure_calls_are_not_baked_in() -> None:
    import random
    import time

    def fn(x: Tensor) -> Any:
        return x + 1, time.perf_counter(), random.random()

    compiled = minicompile.compile(fn, backend="eager")
    first, second = compiled(X), compiled(X)
    assert first[1] < second[1] and first[2] != second[2]


def test_ids_that_are_used_again() -> None:
    def fn(x: Tensor, f: Any) -> Tensor:
        return f(x)

    compiled = minicompile.compile(fn, backend="eager")
    for k in range(6):
        scale = eval(f"lambda x: x * {k}")
        assert torch.equal(compiled(X, scale), X * k)
        del scale


def test_attributes_changed_through_the_attribute_dict() -> None:
    class Holder:
        def __init__(self) -> None:
            self.k = 2

    def through_dict(x: Tensor, holder: Holder) -> Any:
        attributes = holder.__dict__
        attributes["k"] = 5
        return x * holder.k

    def beside_dict(x: Tensor, holder: Holder, attributes: dict[str, int]) -> Any:
        holder.k = 7
        return x * attributes["k"]

    def registry(x: Tensor, module: nn.Module) -> Any:
        module._buffers["b"] = x * 3
        return module.b + 1

    module = nn.Module()
    module.register_buffer("b", torch.zeros(4))
    for _ in range(2):
        assert torch.equal(minicompile.compile(through_dict, backend="eager")(X, Holder()), X * 5)
        holder = Holder()
        assert torch.equal(minicompile.compile(beside_dict, backend="eager")(X, holder, holder.__dict__), X * 7)
        assert torch.equal(minicompile.compile(registry, backend="eager")(X, module), X * 3 + 1)


def test_data_is_written_through() -> None:
    def fn(x: Tensor) -> Tensor:
        x.data.add_(1)
        return x * 2

    assert_like_eager(fn, (X,))


def test_a_miss_runs_no_code_of_another_object() -> None:
    """Looking for what varies reads only what is of the kind that was compiled for."""

    class Plain:
        def __init__(self, k: int) -> None:
            self.k = k

    class Loud:
        reads = 0

        @property
        def k(self) -> int:
            Loud.reads += 1
            return 5

    compiled = minicompile.compile(lambda x, d, o: x * d["b"] if "b" in d else x * o.k, backend="eager")
    for d, o in (({"b": 2}, Plain(1)), ({}, Plain(3)), ({}, Plain(4))):
        compiled(X, d, o)
    empty: defaultdict[str, int] = defaultdict(int)
    assert_same(compiled(X, empty, Loud()), X * 5)
    assert not empty and Loud.reads == 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda d: d[1] + d["1"] * 2,
        lambda self, other: self + other,
        lambda s0, s1, s77: s0.sum(0) * s0.shape[0] + s1.sum(0) * s1.shape[0] + s77.sum(),
        lambda input, x, x_1, __graph__, __o0: input + x * x_1 + __graph__ + __o0,
    ],
)
def test_names_of_inputs_are_told_apart(fn: Any) -> None:
    compiled = minicompile.compile(fn, fullgraph=True)
    for rows in (2, 3, 5):
        tensors = [torch.full((rows, 2), float(index)) for index in range(fn.__code__.co_argcount)]
        args = [{1: X, "1": X + 1}] if fn.__code__.co_varnames[0] == "d" else tensors
        assert_same(compiled(*args), fn(*args))
