"""Entries recalled from disk: the same program recalls, any change that matters traces anew, results are eager's."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.config import config
from minicompile.frontend.fingerprints import Names, NotPortable
from minicompile.frontend.portable import dumps, loads
from minicompile.guards import check
from minicompile.runtime import written

PROGRAM = """
import functools
import torch
import torch.nn.functional as F

SCALE = 2.0
TABLE = {"a": 1.0, "b": 2.0}

def helper(x, k=3.0):
    return x * k

def offset(amount):
    def add(x):
        return x + amount
    return add

add = offset(1.0)

class Base(torch.nn.Module):
    def scale(self, x):
        return x * 2

class Net(Base):
    factor = 1.5
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.eps = 0.5
        with torch.no_grad():
            self.linear.weight.fill_(0.25)
            self.linear.bias.fill_(0.125)
    @property
    def twice(self):
        return self.eps * 2
    def forward(self, x):
        return F.gelu(self.scale(self.linear(x))) * self.factor + self.twice

net = Net()
def f(x):
    return add(helper(torch.sin(x)) * SCALE) + TABLE["b"] + net(x)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any) -> Iterator[None]:
    with config.patch(cache_dir=tmp_path, entry_cache=True), torch.no_grad():
        yield
    sys.modules.pop("recalled_program", None)


def load(source: str) -> types.ModuleType:
    """The program as a module that was just imported, in the place of one loaded before."""
    module = sys.modules["recalled_program"] = types.ModuleType("recalled_program")
    exec(compile(source, "recalled_program.py", "exec"), module.__dict__)
    return module


def first_entry(fn: Any, *args: Any, **how: Any) -> Any:
    """The entry of a first call, after a comparison with eager."""
    compiled = minicompile.compile(fn, **how)
    for _ in range(2):
        torch.testing.assert_close(compiled(*args), fn(*args))
    return compiled.entries[-1]


def recalls(fn: Any, *args: Any) -> bool:
    return first_entry(fn, *args).recalled


def test_an_unchanged_program_recalls_everything():
    x = torch.randn(3, 4)
    traced, recalled = first_entry(load(PROGRAM).f, x), first_entry(load(PROGRAM).f, x)
    assert (traced.recalled, recalled.recalled) == (False, True)
    assert str(recalled.guards) == str(traced.guards)
    assert recalled.code.splitlines()[-9:] == traced.code.splitlines()[-9:]
    before, after = traced.graphs[0], recalled.graphs[0]
    assert after.gm.code == before.gm.code
    assert [n.meta.get("origin") for n in after.gm.graph.nodes] == [n.meta.get("origin") for n in before.gm.graph.nodes]
    assert str(after.compiled.ir) == str(before.compiled.ir)
    assert str(after.compiled.ir_before) == str(before.compiled.ir_before)
    assert after.compiled.describe() == before.compiled.describe()
    assert after.compiled.wrapper_source == before.compiled.wrapper_source


@pytest.mark.parametrize(
    "old, new",
    [
        ("torch.sin(x)", "torch.cos(x)"),
        ("SCALE = 2.0", "SCALE = 4.0"),
        ("SCALE = 2.0", "SCALE = 2"),
        ('"b": 2.0', '"b": 3.0'),
        ("k=3.0", "k=4.0"),
        ("return x * k", "return x + k"),
        ("offset(1.0)", "offset(2.0)"),
        ("return x + amount", "return x - amount"),
        ("return x * 2", "return x * 3"),
        ("factor = 1.5", "factor = 2.5"),
        ("self.eps = 0.5", "self.eps = 0.25"),
        ("return self.eps * 2", "return self.eps * 3"),
        ("F.gelu(self", "F.relu(self"),
        ("net = Net()", "net = Net().double().float().requires_grad_(False)"),
        ("net = Net()", "net = Net()\nnet.forward = lambda x: x * 7"),
        ("net = Net()", "net = Net()\nnet.register_forward_hook(lambda m, a, r: r * 5)"),
        ("net = Net()", "net = Net()\nnet.linear.weight = torch.nn.Parameter(torch.ones(8, 4)[::2])"),
        ("net = Net()", "net = Net()\nnet.linear.bias = None"),
        ("net = Net()", "net = Net()\nBase.scale = lambda self, x: x - 1"),
        ("net = Net()", "net = Net()\nNet.__call__ = lambda self, x: x - 1"),
        ("net = Net()", "net = Net()\nNet.__getattr__ = lambda self, n: torch.nn.Module.__getattr__(self, n)"),
        ("net = Net()", "class Other(Net):\n    pass\nnet = Other()"),
        ("import torch.nn.functional as F", "class F:\n    gelu = torch.relu"),
        ("add = offset(1.0)", "add = lambda x: x * 9"),
        ("add = offset(1.0)", "add = functools.partial(helper, k=8.0)"),
    ],
)
def test_a_changed_program_is_traced_anew(old: str, new: str):
    x = torch.randn(3, 4)
    assert old in PROGRAM and not recalls(load(PROGRAM).f, x)
    assert not recalls(load(PROGRAM.replace(old, new, 1)).f, x)


@pytest.mark.parametrize(
    "name, other",
    [("sin", torch.cos), ("sin", lambda x: x * 3), ("sigmoid", torch.tanh)],
)
def test_a_patched_torch_function_is_another(monkeypatch: Any, name: str, other: Any):
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.sigmoid(x)

    x = torch.randn(5)
    assert not recalls(f, x)
    with monkeypatch.context() as patch:
        patch.setattr(torch, name, other)
        assert not recalls(f, x)


def test_a_patched_functional_is_another(monkeypatch: Any):
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.max_pool1d(x, 2) + F.softplus(x)[..., :4]

    x = torch.randn(2, 3, 8)
    assert not recalls(f, x)
    monkeypatch.setattr(F, "softplus", F.relu)
    assert not recalls(f, x)


def scaled(x: torch.Tensor, k: Any = 2) -> torch.Tensor:
    return torch.sigmoid(x) * k


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x.double(),),
        lambda x: (x.t(),),
        lambda x: (x[:2],),
        lambda x: (x, 3),
        lambda x: (x, 2.0),
        lambda x: (x, True),
        lambda x: (x, x),
        lambda x: (x, x.clone()),
        lambda x: (torch.nn.Parameter(x),),
        lambda x: (x.clone().requires_grad_(),),
        lambda x: (x.expand(2, 4, 4),),
    ],
)
def test_other_arguments_have_other_entries(make: Any):
    x = torch.randn(4, 4)
    assert not recalls(scaled, x)
    assert not recalls(scaled, *make(x))
    assert recalls(scaled, x.clone())


@pytest.mark.parametrize(
    "state",
    [
        torch.enable_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("cpu"),
    ],
)
def test_another_state_of_torch_has_other_entries(state: Any):
    def f(x: torch.Tensor) -> torch.Tensor:
        return x @ x + torch.ones(4)

    x = torch.randn(4, 4)
    assert not recalls(f, x)
    with state():
        assert not recalls(f, torch.randn(4, 4))
    torch.set_default_dtype(torch.float64)
    try:
        assert not recalls(f, torch.randn(4, 4, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    assert recalls(f, x)
    torch.set_num_threads(2)


def test_a_recalled_entry_is_guarded_like_a_traced_one():
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * scaled(x)

    x = torch.randn(4)
    assert not recalls(f, x)
    compiled = minicompile.compile(f)
    for argument in (x, torch.randn(4), torch.randn(5), torch.randn(4, dtype=torch.float64), x):
        torch.testing.assert_close(compiled(argument), f(argument))
    assert compiled.entries[0].recalled and len(compiled.entries) > 1


def test_what_only_people_look_at_stays_packed():
    first_entry(scaled, torch.randn(3))
    (graph,) = first_entry(scaled, torch.randn(3)).graphs
    assert "decisions" not in vars(graph.compiled)
    assert graph.compiled.ir.nodes
    assert "decisions" in vars(graph.compiled)


def test_a_recalled_text_is_not_compiled(monkeypatch: Any):
    x = torch.randn(3)
    assert not recalls(scaled, x)
    monkeypatch.setattr(written, "compiled_text", lambda text, filename: pytest.fail(f"{filename} is compiled"))
    assert recalls(scaled, x)


def test_a_recalled_check_is_not_written_anew(monkeypatch: Any):
    """Nor where what is stored is not what was traced: functions without a name are known by their code's digest."""
    x = torch.randn(3, 4)
    assert not recalls(load(PROGRAM).f, x)
    monkeypatch.setattr(check, "_Writer", lambda *args: pytest.fail("a check is written"))
    monkeypatch.setattr(written, "compiled_text", lambda text, filename: pytest.fail(f"{filename} is compiled"))
    assert recalls(load(PROGRAM).f, x)


def test_guards_of_a_recalled_entry_are_unpacked_for_a_miss():
    """Whatever has become of the names by which their objects were found."""
    x = torch.randn(3, 4)
    assert not recalls(load(PROGRAM).f, x)
    program = load(PROGRAM)
    compiled = minicompile.compile(program.f)
    torch.testing.assert_close(compiled(x), program.f(x))
    assert compiled.entries[0].recalled and callable(compiled.entries[0].guards_or_packed)
    program.helper = lambda x: x * 10
    program.Base.scale = lambda self, x: x * 4
    torch.testing.assert_close(compiled(x), program.f(x))
    assert len(compiled.entries) == 2 and "helper" in str(compiled.recompiles[0])


def test_a_recalled_entry_keeps_no_class_alive():
    x = torch.randn(3, 4)
    assert not recalls(load(PROGRAM).f, x)
    program = load(PROGRAM)
    net = weakref.ref(program.Net)
    compiled = minicompile.compile(program.f)
    compiled(x)
    assert compiled.entries[0].recalled
    del program.net, program.Net, compiled
    gc.collect()
    assert net() is None


def test_mutation_aliases_and_effects_survive():
    log: list[Any] = []

    def f(x: torch.Tensor, y: torch.Tensor, out: list[Any]) -> Any:
        x.add_(1)
        result = x * y
        out.append(result)
        return result, x, result

    for expected in (False, True):
        compiled = minicompile.compile(f)
        x, y, out = torch.zeros(4), torch.arange(4.0), list(log)
        first, second, third = compiled(x, y, out)
        assert second is x and first is third and out == [first] and x.tolist() == [1] * 4
        assert compiled.entries[0].recalled is expected
    overlapping = torch.arange(5.0)  # the entry was made for tensors apart
    both = overlapping.clone()
    f(both[1:], both[:4], out := [])
    compiled_on = overlapping.clone()
    minicompile.compile(f)(compiled_on[1:], compiled_on[:4], seen := [])
    assert torch.equal(compiled_on, both) and torch.equal(seen[0], out[0])


def broken(x: torch.Tensor) -> Any:
    y = x * 2
    print(end="")
    return y + 1


@pytest.mark.parametrize(
    "fn, how",
    [
        (broken, {}),
        (scaled, {"dynamic": True}),
        (scaled, {"backend": "eager"}),
        (scaled, {"backend": lambda gm, _: gm.forward}),
        (scaled, {"verify": True}),
    ],
)
def test_what_is_not_stored(fn: Any, how: dict[str, Any]):
    x = torch.randn(4)
    for _ in range(2):
        compiled = minicompile.compile(fn, **how)
        torch.testing.assert_close(compiled(x), fn(x))
        assert not any(entry.recalled for entry in compiled.entries if entry.breaks or how)


def test_promised_constants_are_asked_for_again():
    answers = iter((2.0, 3.0))
    ask = minicompile.assume_constant_result(lambda: next(answers))
    try:
        for expected in (2.0, 3.0):
            assert minicompile.compile(lambda x: x * ask())(torch.ones(2)).tolist() == [expected] * 2
    finally:
        from minicompile.frontend.directives import constant_results

        constant_results.discard(ask)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda data: data[:40] + b"?" + data[41:], lambda data: b""]
)
def test_a_damaged_file_is_no_entry(tmp_path: Any, damage: Any):
    x = torch.randn(4)
    assert not recalls(scaled, x) and recalls(scaled, x)
    (stored,) = tmp_path.glob("*.entry")
    stored.write_bytes(damage(stored.read_bytes()))
    assert not recalls(scaled, x) and recalls(scaled, x)


def test_a_lost_library_is_built_again(tmp_path: Any):
    x = torch.randn(4)
    assert not recalls(scaled, x)
    for library in tmp_path.glob("*.so"):
        library.unlink()
    assert recalls(scaled, x)


def test_the_switch():
    x = torch.randn(4)
    with config.patch(entry_cache=False):
        assert not recalls(scaled, x) and not recalls(scaled, x)


@pytest.mark.parametrize(
    "obj",
    [torch, torch.relu, F.gelu, F.layer_norm, F.max_pool2d, torch.nn.Linear, torch.Tensor.relu, torch.Tensor, int, len,
     torch.ops.aten.addmm.default, torch.einsum, torch.float32, torch.device("cpu"), (1, "a", -0.0), slice(1)],
)  # fmt: skip
def test_objects_travel(obj: Any):
    again = loads(dumps(obj))
    assert again is obj or (type(again) is type(obj) and repr(again) == repr(obj))


@pytest.mark.parametrize("obj", [object(), lambda: 0, threading.Lock(), iter([1])])
def test_objects_that_do_not_travel(obj: Any):
    with pytest.raises(NotPortable):
        dumps(obj)


def test_fingerprints_see_bases_and_closures():
    def cls(value: int) -> type:
        base = type("Base", (), {"k": value})
        return type("Same", (base,), {"m": lambda self: 1})

    names = Names()
    assert names.fingerprint(cls(1)) != names.fingerprint(cls(2))
    assert names.fingerprint(F.max_pool1d) != names.fingerprint(F.max_pool2d)


def test_a_base_is_read_once_for_all_its_heirs(monkeypatch: Any):
    real, read = Names._own_parts, []
    monkeypatch.setattr(Names, "_own_parts", lambda self, cls: read.append(cls) or real(self, cls))
    names = Names()
    assert names.fingerprint(torch.nn.Linear) != names.fingerprint(torch.nn.Bilinear)
    assert sorted(read, key=str) == sorted([torch.nn.Linear, torch.nn.Bilinear, torch.nn.Module, object], key=str)


SCRIPT = """
import sys, torch, minicompile
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linears = nn.LayerNorm(8), nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
    def forward(self, x):
        for linear in self.linears:
            x = x + torch.nn.functional.gelu(linear(self.norm(x)))
        return torch.relu(torch.nn.functional.conv2d(x[None, None], torch.ones(2, 1, 3, 3)))
torch.manual_seed(0)
block, x = Block().eval(), torch.randn(3, 8)
compiled = minicompile.compile(block)
with torch.no_grad():
    assert torch.allclose(compiled(x), block(x))
compilers = ("torch._dynamo", "sympy", "minicompile.lowering", "minicompile.passes", "minicompile.codegen.cpp",
             "minicompile.frontend.tracer", "minicompile.frontend.values.tensor", "minicompile.frontend.sources",
             "minicompile.guards.kinds", "minicompile.ir.graph")
print(minicompile.stats()["cache_hits"], *(name for name in compilers if name in sys.modules))
"""
COMPILERS = (
    "torch._dynamo sympy minicompile.lowering minicompile.passes minicompile.codegen.cpp minicompile.frontend.tracer "
    "minicompile.frontend.values.tensor minicompile.frontend.sources minicompile.guards.kinds minicompile.ir.graph"
)


def test_another_process_imports_no_compiler():
    for expected in (f"0 {COMPILERS}", "1"):
        run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == expected


def test_an_entry_that_took_the_users_word_is_not_stored():
    source = PROGRAM + "\nimport minicompile\nminicompile.allow_in_graph(helper)\n"
    x = torch.randn(3, 4)
    assert not recalls(load(source).f, x) and not recalls(load(source).f, x)
