"""Symbolic sizes: which guards a trace needs, and that they hold and fail where they should."""

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import symbolic_shapes
from torch.utils._sympy.functions import FloorDiv

from minicompile.frontend.computed_sources import SizeSource
from minicompile.frontend.sources import LocalSource
from minicompile.guards.shapes import SymbolicShapes, dynamic_dims, fakify
from minicompile.guards.sizes import SizeGuard

from .support import Checked, X, assert_hit, assert_miss


class Trace:
    """Trace a function of tensors and ints with symbolic sizes; its guards become a check over the same arguments."""

    def __init__(self, function, **inputs):
        self.shapes = SymbolicShapes()
        self.mode = FakeTensorMode(shape_env=self.shapes.env)
        self.fakes = {name: self._fake(value, LocalSource(name)) for name, value in inputs.items()}
        with self.mode:
            self.result = function(**self.fakes)
        self.guards = self.shapes.guards()
        self.checked = Checked(*self.guards, parameters=tuple(inputs))
        assert_hit(self.checked, *inputs.values())

    def _fake(self, value, source):
        if isinstance(value, int):
            return self.shapes.int_input(value, source)
        return self.shapes.fakify(value, source, self.mode, dynamic_dims(value, True))

    def texts(self) -> set[str]:
        return {str(guard) for guard in self.guards if isinstance(guard, SizeGuard)}


def test_pointwise_graph_takes_any_size_from_two():
    trace = Trace(lambda x: torch.relu(x) + 1, x=torch.randn(32, 196, 7))
    assert trace.texts() == {
        "x.shape[0] >= 2", "x.shape[1] >= 2", "x.shape[2] >= 2",
        "x.stride(0) == x.shape[1]*x.shape[2]", "x.stride(1) == x.shape[2]",
    }  # fmt: skip
    for shape in ((2, 2, 2), (5, 196, 768), (7, 7, 7)):
        assert_hit(trace.checked, torch.randn(shape))
    assert_miss(trace.checked, (torch.randn(1, 196, 768),), "argument x: size of dimension 0 is 1", "x.shape[0] >= 2")
    assert not trace.checked.hit(torch.randn(0, 196, 768))
    assert_miss(trace.checked, (torch.randn(4, 5, 6).double(),), "dtype")
    assert not trace.checked.hit(torch.randn(4, 6, 5).transpose(1, 2))


def test_sizes_zero_and_one_are_static():
    trace = Trace(lambda x: x + 1, x=torch.randn(1, 4, 0))
    assert trace.fakes["x"].shape[0] == 1 and trace.fakes["x"].shape[2] == 0
    assert_hit(trace.checked, torch.randn(1, 9, 0))
    assert_miss(trace.checked, (torch.randn(2, 9, 0),), "size of dimension 0 is 2, compiled for 1")


def test_equal_sizes_share_a_symbol_and_are_held_to_it():
    trace = Trace(lambda x, y: x + y, x=torch.randn(4, 5), y=torch.randn(4, 5))
    assert {"y.shape[0] == x.shape[0]", "y.shape[1] == x.shape[1]"} <= trace.texts()
    assert_hit(trace.checked, torch.randn(9, 3), torch.randn(9, 3))
    assert not trace.checked.hit(torch.randn(9, 3), torch.randn(9, 4))
    why = trace.checked.why(torch.randn(9, 3), torch.randn(9, 4))
    assert any("y.shape[1] == x.shape[1]" in reason for reason in why)


def test_a_size_that_becomes_a_number_moves_into_the_tensor_check():
    trace = Trace(lambda x: x @ torch.empty(5, 3), x=torch.randn(4, 5))
    assert not any("shape[1]" in text for text in trace.texts())
    assert_hit(trace.checked, torch.randn(9, 5))
    assert_miss(trace.checked, (torch.randn(9, 6),), "size of dimension 1 is 6, compiled for 5")


def test_a_branch_on_a_size():
    trace = Trace(lambda x: x * 2 if x.shape[0] > 8 else x, x=torch.randn(10))
    assert "x.shape[0] >= 9" in trace.texts()
    assert not trace.checked.hit(torch.randn(8)) and trace.checked.hit(torch.randn(9))


def test_divisibility():
    trace = Trace(lambda x: x.view(2, x.shape[0] // 2) if x.shape[0] % 2 == 0 else x, x=torch.randn(10))
    hits = [trace.checked.hit(torch.randn(size)) for size in range(2, 12)]
    assert hits == [size % 2 == 0 for size in range(2, 12)]


def test_relation_between_inputs_and_its_cause():
    shapes = SymbolicShapes()
    mode = FakeTensorMode(shape_env=shapes.env)
    x, y = torch.randn(4), torch.randn(7)
    one, other = (shapes.fakify(t, LocalSource(n), mode, (0,)) for t, n in ((x, "x"), (y, "y")))
    assert one.shape[0] != 3
    shapes.attribute(lambda: "model.py:3")
    assert one.shape[0] < other.shape[0]
    shapes.attribute(lambda: "model.py:4")
    guards = shapes.guards()
    (relation,) = [g for g in guards if isinstance(g, SizeGuard) and len(g.terms) == 2 and g.cause]
    assert relation.cause == "model.py:4" and str(relation) == "x.shape[0] < y.shape[0]  (model.py:4)"
    checked = Checked(*guards)
    assert_hit(checked, torch.randn(5), torch.randn(6))
    assert_miss(checked, (torch.randn(6), torch.randn(5)), "x.shape[0] < y.shape[0]", "because of model.py:4")
    assert_miss(checked, (torch.randn(3), torch.randn(5)), "because of model.py:3")


def test_every_size_of_a_grid_is_decided_like_the_trace_would():
    """The check hits exactly where the function, traced with those sizes, would take the same way."""

    def way(x, y):
        return (x.shape[0] > 3, x.shape[0] % 3 == 0, x.shape[0] * 2 == y.shape[0], x.shape[0] + y.shape[0] < 30)

    trace = Trace(lambda x, y: [bool(fact) for fact in way(x, y)], x=torch.randn(6), y=torch.randn(11))
    expected = way(torch.randn(6), torch.randn(11))
    for first in range(2, 24):
        for second in range(2, 24):
            x, y = torch.empty(first), torch.empty(second)
            assert trace.checked.hit(x, y) == (way(x, y) == expected), (first, second)


def test_symbolic_ints():
    trace = Trace(lambda x, n: x[:n], x=torch.randn(10), n=4)
    assert_hit(trace.checked, torch.randn(12), 7)
    assert not trace.checked.hit(torch.randn(12), 13)
    assert_miss(trace.checked, (torch.randn(12), 7.0), "argument n is a float, compiled for an int")
    assert not trace.checked.hit(torch.randn(12), True)
    assert not trace.checked.hit(torch.randn(12), 2**70)


def test_a_negative_int_in_arithmetic():
    trace = Trace(lambda n: [bool(n * n > 3), bool(n // 2 < 5)], n=4)
    for n in range(-9, 20):
        assert trace.checked.hit(n) == (trace.checked.why(n) == []) == (n * n > 3 and n // 2 < 5), n


def test_ints_zero_and_one_stay_constants():
    shapes = SymbolicShapes()
    assert [shapes.int_input(value, LocalSource("n")) for value in (0, 1)] == [0, 1] and shapes.guards() == []


def test_views_and_offsets():
    base = torch.randn(10, 4)
    trace = Trace(lambda x: x * 2, x=base[2:8])
    assert not any("storage_offset" in text for text in trace.texts())
    for rows in (base[2:5], base[1:9], base, torch.randn(3, 4)):
        assert_hit(trace.checked, rows)
    transposed = Trace(lambda x: x.sum(0), x=torch.randn(9, 6).t())
    assert_hit(transposed.checked, torch.randn(3, 8).t())
    assert not transposed.checked.hit(torch.randn(8, 3))


def test_symbols_tell_where_to_read_them():
    trace = Trace(lambda x, y, n: torch.cat([x, y], 1)[:, :n], x=torch.randn(4, 5), y=torch.randn(4, 7), n=3)
    sources = {trace.shapes.symbols()[size.node.expr] for size in (*trace.fakes["x"].shape, trace.fakes["y"].shape[1])}
    assert sources == {SizeSource(X, 0), SizeSource(X, 1), SizeSource(LocalSource("y"), 1)}
    free = trace.result.shape[0].node.expr.free_symbols | trace.result.shape[1].node.expr.free_symbols
    assert free <= trace.shapes.symbols().keys()


def test_what_is_assumed_about_data_is_no_guard_but_a_fact_to_check():
    shapes = SymbolicShapes(scalars=True, sizes=True)
    mode = FakeTensorMode(shape_env=shapes.env)
    x = torch.randn(6)
    fake = shapes.fakify(x, X, mode, (0,))
    with mode:
        count = fake.nonzero().shape[0]
        torch._check(count == fake.shape[0])
        assert fake[fake > 0].squeeze().dim() == 1  # as torch takes it, though the size may be 1
    first, second = shapes.new_facts()
    assert "u0" in str(first) and "u1" in str(second) and shapes.new_facts() == []
    assert not any("u0" in str(guard) or "u1" in str(guard) for guard in shapes.guards())


def test_dynamic_dims():
    assert dynamic_dims(torch.randn(3, 1, 0, 2), True) == (0, 3)
    assert dynamic_dims(torch.randn(3), False) == dynamic_dims(torch.randn(3), None) == ()
    assert dynamic_dims(torch.randn(3, 3).to_sparse(), True) == ()


def test_static_fakes_are_one_per_tensor_and_keep_what_matters():
    mode = FakeTensorMode()
    x = torch.randn(6, 4, requires_grad=True)
    view = torch.randn(8, 4)[2:].t()
    fake = fakify(view, mode)
    assert fakify(x, mode) is fakify(x, mode)
    assert fakify(x, mode).requires_grad and fakify(x, mode).is_leaf
    assert fake.shape == view.shape and fake.stride() == view.stride() and fake.storage_offset() == 8


def test_static_only_never_imports_sympy():
    import subprocess
    import sys

    program = "import sys, minicompile.guards.shapes, minicompile.logs; print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


def test_no_proof_is_looked_for_where_two_sizes_give_two_answers():
    shapes = SymbolicShapes()
    a, b = (shapes.int_input(value, LocalSource(name)).node.expr for name, value in (("a", 9), ("b", 7)))
    size = a
    for _ in range(12):
        size = FloorDiv(size - b + 3, 2) + 1
    asked = symbolic_shapes._maybe_evaluate_static_worker.cache_info().misses
    for condition in (size * b > a, sympy.Eq(size, a), sympy.Ne(a * size, 5 * b), (size > 0) & (size < 100)):
        assert shapes.env._maybe_evaluate_static(condition) is None
    assert symbolic_shapes._maybe_evaluate_static_worker.cache_info().misses == asked
    assert not shapes.env.evaluate_expr(size * b > a)
    assert shapes.env._maybe_evaluate_static(size * b > a) == sympy.false  # an axiom
