"""`compile()` and what it returns: everything that can be called, attributes that pass through, counters."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minicompile
from minicompile.errors import VerificationError
from tests.support import assert_same

X = torch.arange(8.0).reshape(2, 4)


def relu_plus_one(x: Tensor) -> Tensor:
    """Add one, cut at zero."""
    return torch.relu(x + 1)


class Scorer:
    def __init__(self, k: int) -> None:
        self.k = k

    @minicompile.compile(backend="eager")
    def method(self, x: Tensor) -> Tensor:
        return x * self.k

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.k

    def plain(self, x: Tensor) -> Tensor:
        return x - self.k

    @staticmethod
    def static(x: Tensor) -> Tensor:
        return x * 10


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x) * self.scale


def test_decorator_with_and_without_options() -> None:
    for compiled in (
        minicompile.compile(relu_plus_one, backend="eager"),
        minicompile.compile(backend="eager")(relu_plus_one),
    ):
        assert torch.equal(compiled(X), relu_plus_one(X))
        assert compiled.__name__ == "relu_plus_one" and compiled.__doc__ == relu_plus_one.__doc__
        assert "relu_plus_one" in repr(compiled) and compiled.__wrapped__ is relu_plus_one


def test_methods_callables_and_static_functions() -> None:
    scorer = Scorer(3)
    assert torch.equal(scorer.method(X), X * 3)
    assert torch.equal(minicompile.compile(scorer.plain, backend="eager")(X), X - 3)
    assert torch.equal(minicompile.compile(scorer, backend="eager")(X), X + 3)
    assert torch.equal(minicompile.compile(Scorer.static, backend="eager")(X), X * 10)
    assert minicompile.compile(scorer, backend="eager").k == 3


def test_compiled_twice_is_compiled_once() -> None:
    once = minicompile.compile(relu_plus_one, backend="eager")
    twice = minicompile.compile(once, backend="eager")
    assert torch.equal(twice(X), relu_plus_one(X)) and len(twice.entries) == 1


def test_module_passes_everything_through() -> None:
    model = Model().eval()
    compiled = minicompile.compile(model, backend="eager")
    assert_same(compiled(X), model(X))
    assert isinstance(compiled, nn.Module)
    assert list(compiled.state_dict()) == ["scale", "linear.weight", "linear.bias"]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    assert dict(compiled.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert compiled.linear is model.linear and not compiled.training
    compiled.train()
    assert model.training
    compiled.extra = 5
    assert model.extra == 5
    del compiled.extra
    assert not hasattr(model, "extra") and "linear" in dir(compiled)


def test_module_counts_its_calls_and_trains() -> None:
    model = Model()
    compiled = minicompile.compile(model, backend="eager")
    for _ in range(5):
        compiled(X).sum().backward()
    assert model.calls == 5 and model.linear.weight.grad is not None
    assert len(compiled.entries) <= 4


def test_module_copies_and_pickles() -> None:
    compiled = minicompile.compile(Model(), backend="eager")
    twin = copy.deepcopy(compiled)
    assert twin.linear.weight is not compiled.linear.weight
    assert_same(twin(X), compiled(X))
    again = pickle.loads(pickle.dumps(compiled))
    assert_same(again(X), compiled(X))


def test_a_class_compiles_its_objects() -> None:
    @minicompile.compile(backend="eager")
    class Net(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu() * (2 if minicompile.is_compiling() else 1)

    @minicompile.compile(backend="eager")
    class Doubler:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * (2 if minicompile.is_compiling() else 1)

    class Deeper(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    net = Net(X.shape[-1])
    assert isinstance(Net, type) and isinstance(net, Net) and Net.__name__ == "Net"
    assert_same(net(X), net.linear(X).relu() * 2)
    assert_same(copy.deepcopy(net)(X), net(X))
    deeper = Deeper(X.shape[-1])
    assert_same(deeper(X), deeper.linear(X).relu() * 2 + 1)
    assert torch.equal(Doubler()(X), X * 2) and isinstance(Doubler(), Doubler)
    assert minicompile.compile(Net) is Net
    with pytest.raises(TypeError, match="have no __call__"):
        minicompile.compile(type("Plain", (), {}))


def test_module_hooks_run() -> None:
    model, seen = Model(), []
    model.register_forward_hook(lambda module, args, out: seen.append("root"))
    model.linear.register_forward_pre_hook(lambda module, args: seen.append("inner"))
    compiled = minicompile.compile(model, backend="eager")
    for _ in range(2):
        assert_same(compiled(X), model(X))
    assert seen == ["inner", "root"] * 4


def test_disable_option_returns_the_function() -> None:
    assert minicompile.compile(relu_plus_one, disable=True) is relu_plus_one


@pytest.mark.parametrize("nothing", [5, "f", [relu_plus_one]])
def test_not_a_callable(nothing: Any) -> None:
    with pytest.raises(TypeError, match="needs a callable"):
        minicompile.compile(nothing)


def test_unknown_backend_mode_and_option() -> None:
    with pytest.raises(ValueError, match="eager"):
        minicompile.compile(relu_plus_one, backend="nonsense")
    with pytest.raises(ValueError, match="max-autotune"):
        minicompile.compile(relu_plus_one, mode="nonsense")
    with pytest.raises(ValueError, match="exact_rounding"):
        minicompile.compile(relu_plus_one, options={"nonsense": 1})
    with pytest.raises(TypeError, match="options is a dict, {'exact_rounding', .*: …}, got 1"):
        minicompile.compile(relu_plus_one, options=1)
    with pytest.raises(ValueError, match="dynamic is True, False or None, not 'yes'"):
        minicompile.compile(relu_plus_one, dynamic="yes")


def test_entries_recompiles_and_stats() -> None:
    minicompile.reset()
    compiled = minicompile.compile(relu_plus_one, backend="eager")
    compiled(X)
    compiled(X.double())
    first = compiled.entries[0]
    assert "torch.relu" in first.graphs[0].gm.code and "def entry(" in first.code
    assert any("argument x" in str(record) for record in compiled.recompiles) and first.seconds["trace"] > 0
    assert minicompile.stats()["graphs"] == 2 and minicompile.stats()["recompiles"] == 1
    minicompile.reset()
    assert minicompile.stats()["graphs"] == 0 and not compiled.entries
    assert torch.equal(compiled(X), relu_plus_one(X))


def test_directives() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * 2 if minicompile.is_compiling() else x

    assert not minicompile.is_compiling()
    assert torch.equal(minicompile.compile(fn, backend="eager")(X), X * 2)


def opaque(x: Tensor) -> Tensor:
    print("called")
    return x + 1


def table(n: int) -> list[int]:
    TABLE_CALLS.append(n)
    return [n, n + 1]


TABLE_CALLS: list[int] = []


def test_allow_in_graph_and_assume_constant_result() -> None:
    def fn(x: Tensor) -> Tensor:
        return opaque(x) * table(2)[1]

    minicompile.allow_in_graph(opaque)
    minicompile.assume_constant_result(table)
    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), (X + 1) * 3)
    assert TABLE_CALLS == [2]
    with pytest.raises(TypeError, match="allow_in_graph needs a plain function, got int"):
        minicompile.allow_in_graph(5)
    with pytest.raises(TypeError, match="disable needs a callable, got int"):
        minicompile.disable(5)


def test_mark_dynamic_checks_the_dimension() -> None:
    with pytest.raises(IndexError, match="no dimension 2: the tensor has 2"):
        minicompile.mark_dynamic(X, 2)
    with pytest.raises(ValueError, match="min is 5, above max, which is 2"):
        minicompile.mark_dynamic(X, 0, min=5, max=2)
    for mark in (minicompile.mark_dynamic, minicompile.mark_static):
        with pytest.raises(TypeError, match="not of a list"):
            mark([X], 0)


def test_compiled_calls_compiled_and_itself() -> None:
    inner = minicompile.compile(lambda x: x + 1, backend="eager")

    @minicompile.compile(backend="eager")
    def outer(x: Tensor, n: int) -> Tensor:
        return inner(x) if n == 0 else outer(x, n - 1) * 2

    assert torch.equal(outer(X, 3), (X + 1) * 8)
    assert len(outer.entries) == 1


def test_torch_compile_inside_and_outside() -> None:
    theirs = torch.compile(lambda x: torch.relu(x) * 3, backend="eager")
    ours = minicompile.compile(lambda x: theirs(x + 1) + 1, backend="eager")
    assert torch.equal(ours(X), torch.relu(X + 1) * 3 + 1)
    inner = minicompile.compile(lambda x: x * 2, backend="eager")
    outside = torch.compile(lambda x: inner(x) + 1, backend="eager")
    assert torch.equal(outside(X), X * 2 + 1)
    assert torch.equal(ours(X), torch.relu(X + 1) * 3 + 1)


def test_verify_finds_a_wrong_graph_and_lets_right_ones_pass() -> None:
    def wrong(gm: Any, example_inputs: Any) -> Any:
        return lambda *args: tuple(result + 1 for result in gm(*args))

    with pytest.raises(VerificationError, match="result 0"):
        minicompile.compile(relu_plus_one, backend=wrong, verify=True)(X)
    right = minicompile.compile(relu_plus_one, backend="eager", verify=True)
    assert torch.equal(right(X), relu_plus_one(X)) and torch.equal(right(X), relu_plus_one(X))
    noisy = minicompile.compile(lambda x: x + torch.rand_like(x), backend="eager", verify=True)
    torch.manual_seed(1)
    actual = noisy(X)
    torch.manual_seed(1)
    assert torch.equal(actual, X + torch.rand_like(X))


@pytest.mark.parametrize("subject", ["graph", "fx", "breaks", "guards", "output_code", "perf", "recompiles"])
def test_logs_say_what_was_compiled(subject: str, caplog: pytest.LogCaptureFixture) -> None:
    def fn(x: Tensor) -> Tensor:
        print("break")
        return torch.relu(x)

    expected = {
        "graph": "test_api.py:", "fx": "torch.relu", "breaks": "print()", "guards": "x is a Tensor",
        "output_code": "def entry(", "perf": "trace", "recompiles": "compiled for",
    }  # fmt: skip
    compiled = minicompile.compile(fn, backend="eager")
    with caplog.at_level("INFO", logger=f"minicompile.{subject}"):
        compiled(X)
        compiled(X[:1])
    assert any(expected[subject] in record.getMessage() for record in caplog.records)


def test_threads_share_one_first_call() -> None:
    compiled = minicompile.compile(lambda x: torch.relu(x) * 2 + x.sum(), backend="eager")
    results: list[Any] = [None] * 4
    barrier = threading.Barrier(4)

    def work(index: int) -> None:
        barrier.wait()
        results[index] = [compiled(X + k) for k in range(3)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert_same(result, [torch.relu(X + k) * 2 + (X + k).sum() for k in range(3)])
    assert len(compiled.entries) == 1


def test_a_deleted_model_is_not_kept_alive() -> None:
    import gc
    import weakref

    model = Model()
    watch = weakref.ref(model)

    @minicompile.compile(backend="eager")
    def fn(model: Model, x: Tensor) -> Tensor:
        return model(x)

    fn(model, X)
    del model
    gc.collect()
    assert watch() is None


def test_import_is_light() -> None:
    script = "import sys, torch; before = set(sys.modules); import minicompile; minicompile.compile; " + (
        "print([name for name in ('sympy', 'triton', 'rich', 'networkx', 'torch._dynamo', 'torch._subclasses') "
        "if name in set(sys.modules) - before])"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )
