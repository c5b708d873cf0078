"""What a program has asked of its surroundings is asked again: a table of programs, each with what happens between its
calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

from . import programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(6.0).reshape(2, 3)
HEAD = """
import enum, torch, types
from torch import nn
class Plain: pass
class Slots: __slots__ = ("b",)
class Getter:
    def __get__(self, owner, kind=None): return 2
class Finds:
    def __init__(self): self.inner = Plain()
    def __getattr__(self, name): return getattr(self.inner, name)
"""
ASKED = "(x, hasattr(o, 'b'))"
PROGRAMS: dict[str, tuple[str, ...]] = {
    # name: what there is, what the program computes, what happens between the calls
    "attribute of a namespace": ("o = types.SimpleNamespace(b=[1])", ASKED, "del o.b", "o.b = 1"),
    "attribute of an object": ("o = Plain(); o.b = [1]", ASKED, "del o.b", "o.b = 1"),
    "slot": ("o = Slots(); o.b = [1]", ASKED, "del o.b", "o.b = 1"),
    "attribute of a class": ("class A: b = [1]\no = A()", ASKED, "del A.b", "o.b = 1"),
    "through __getattr__": ("o = Finds(); o.inner.b = [1]", ASKED, "del o.inner.b", "o.inner.b = 1"),
    "through a property": (
        "class A:\n    b = property(lambda self: self.c)\no = A(); o.c = [1]", ASKED, "del o.c", "o.c = 1"
    ),
    "attribute of a module": ("o = nn.ReLU(); o.b = [1]", ASKED, "del o.b", "o.register_buffer('b', None)", "del o.b"),
    "parameter": ("o = nn.Module(); o.b = nn.Parameter(torch.ones(1))", ASKED, "del o.b", "o.b = nn.ReLU()"),
    "attribute of a dict of a class": ("class D(dict): pass\no = D(); o.b = 1", ASKED, "del o.b", "o.b = 1"),
    "deleted where it is": ("o = Plain(); o.b = 1", "(x, hasattr(o, 'b') and not delattr(o, 'b'))", "", "o.b = 2"),
    "a getter becomes a data descriptor": (
        "class A: v = Getter()\no = A(); o.v = 9", "x * o.v", "Getter.__set__ = lambda *args: None",
        "del Getter.__set__",
    ),
    "global that is not there yet": (
        "def f(x):\n    try: return x * later\n    except NameError: return x", "f(x)", "later = 3", "del later",
        "import builtins; builtins.later = 8", "del builtins.later",
    ),
    "variable that has no value yet": (
        "def make():\n    def f(x):\n        try: return x * later\n        except NameError: return x\n"
        "    def put(value):\n        nonlocal later\n        later = value\n    if 0: later = 1\n"
        "    return f, put\nf, put = make()", "f(x)", "put(4)", "put(5)",
    ),
    "leaf": ("w = torch.ones(3, requires_grad=True)", "x * (2 if w.is_leaf else 3)", "w = w * 2", "w = w.detach()"),
    "view": ("w = torch.ones(3)", "x * (2 if w._is_view() else 3)", "w = w[:]", "w = w.clone()"),
    "list of a member": ("class E(enum.Enum): A = [1]", "x * E.A.value[0]", "E.A.value[0] = 7", "E.A.value.append(1)"),
    "attribute of a member": (
        "class E(enum.Enum):\n    A = 1\n    def __init__(self, v): self.k = v", "x * E.A.k", "E.A.k = 7", "E.A.k = []"
    ),
    "method of a member": (
        "class E(enum.IntEnum):\n    A = 1\n    def f(self): return self + 1", "x * E.A.f()", "E.f = lambda self: 5"
    ),
    "property of a member": (
        "class E(enum.StrEnum):\n    A = 'a'\n    @property\n    def f(self): return self * 2", "x * len(E.A.f)",
        "E.f = property(lambda self: self.value * 3)",
    ),
    "property of all members": (
        "class E(enum.Flag):\n    A = 1\n    @enum.property\n    def f(self): return [self.name]",
        "(x, E.A.f, E.A.value)", "E.A.f.append(1)",
    ),
}  # fmt: skip


def results(compile_: Callable[[Any], Any], there_is: str, computed: str, *changes: str) -> list[Any]:
    module = ModuleType("program")
    exec(f"{HEAD}\n{there_is}\ndef run(x): return {computed}", module.__dict__)
    fn, found = compile_(module.run), []
    for change in ("", "", *changes, ""):
        exec(change, module.__dict__)
        try:
            found.append(fn(X))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    program = PROGRAMS[name]
    assert_same(results(minicompile.compile, *program), results(lambda fn: fn, *program))


def appends(x: Tensor, member: Any) -> Any:
    member.value.append(len(member.value))
    return x + len(member.value)


def test_what_a_member_holds_is_changed() -> None:
    import enum

    class E(enum.Enum):
        MINE, EAGERS = [0], [1]  # noqa: RUF012

    compiled = minicompile.compile(appends)
    for _ in range(2):
        assert_same(compiled(X, E.MINE), appends(X, E.EAGERS))
    assert E.MINE.value == [0, 1, 2]


def imports(x: Tensor) -> Tensor:
    import put_in_anew
    from put_in_anew import scaled

    return scaled(x) + put_in_anew.k


def test_a_module_that_is_put_in_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = minicompile.compile(imports)
    for k in (1, 1, 2):
        module: Any = ModuleType("put_in_anew")
        module.k, module.scaled = k, lambda x, k=k: x * k
        monkeypatch.setitem(sys.modules, "put_in_anew", module)
        assert_same(compiled(X), imports(X))


def imports_from_here(x: Tensor) -> tuple[Any, ...]:
    from . import support_is_not_here_yet  # type: ignore[attr-defined]
    from .programs import Obj

    return x * Obj.k, support_is_not_here_yet


def imports_relatively(x: Tensor) -> Tensor:
    from ..support import assert_same as found
    from .programs import Obj

    return x * Obj.k if found is assert_same else x


def test_imports_from_the_package_are_traced() -> None:
    compiled = minicompile.compile(imports_relatively, fullgraph=True)
    assert_same(compiled(X), X * programs.Obj.k)


def imports_what_is_missing(x: Tensor) -> Any:
    try:
        from math import support_is_not_here_yet  # type: ignore[attr-defined]
    except ImportError as error:
        return x, str(error), support_is_not_here_yet if False else None
    return x


@pytest.mark.parametrize("fn", [imports_from_here, imports_what_is_missing])
def test_imports_of_what_is_missing(fn: Callable[..., Any]) -> None:
    found: list[Any] = []
    for call in (minicompile.compile(fn), fn):
        try:
            found.append(call(X))
        except ImportError as error:
            found.append(str(error))
    assert_same(*found)
