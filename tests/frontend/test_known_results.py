"""Library functions whose result is known while tracing: one graph, eager's results, and a new one when they change."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
import torch
import torch.distributed as dist

import minicompile

from ..support import assert_same
from .conftest import Counting, assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE = Programs()
whole = WHOLE.program
LAYER = re.compile(r"(\w+)\.(?P<index>\d+)")
Found = re.search("b+", "abbc")


@whole(X)
def patterns(x):
    m = LAYER.match("block.12.weight")
    if m and LAYER.search("none") is None and re.fullmatch("x+", "xxx"):
        x = x * int(m["index"]) + m.start(2)
    for found in re.finditer("[a-c]", "xaybzc"):
        x = x + found.start()
    for found in LAYER.finditer("a.1 b.2"):
        x = x + int(found[2])
    parts = re.split(r"[.,]", "a,b.c"), LAYER.findall("a.1 b.2"), re.sub("a", "b", "banana"), re.escape("a.b")
    return x, parts, m.groups(), m.groupdict(), m.span(), m.re.pattern, re.compile("q", re.I).flags, m is m


@whole(X, re.compile("(a)(b)?"), Found)
def patterns_and_matches_from_outside(x, pattern, found):
    return x * found.end(), pattern.sub("c", "abba"), found.group(), Found[0], pattern.match("a").groups()


@whole(X)
def paths_and_json(x):
    path = os.path.join("a", "b.txt")
    name, ext = os.path.splitext(os.path.basename(path))
    config = json.loads('{"scale": 2.5, "sizes": [1, 2]}')
    return x * config["scale"], name + ext, os.path.dirname(path), json.dumps({"n": x.shape[0]}), config, os.path.isabs(path)


@whole(X)
def the_machine(x):
    if dist.is_available() and dist.is_initialized():
        x = x + 100
    if torch.cuda.is_available() and not torch.cuda.is_initialized():
        x = x + 1
    return x * (torch.cuda.device_count() + 1), torch.get_num_threads(), torch.backends.cudnn.is_available()


@whole(X)
def a_condition_that_is_known(x):
    return torch.cond(x.shape[0] > 1, lambda a: a + 1, lambda a: a - 1, (x,))


def bound(a, *args, b=2, **kw):
    c = a + b
    return {name: value for name, value in locals().items() if name != "a"}


@whole(X)
def variables_as_a_dict(x):
    n = 3
    deleted = 4

    def inner():
        return n, sorted(locals())

    seen = dict(locals())
    text = "{n:>{deleted}} {{x}}".format(**seen)
    del deleted
    names = list(seen)
    return x * seen["n"], names, list(locals()), inner(), bound(1, 5, b=x, q=6), text


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


def variables_behind_a_break(x):
    n, y = 3, x + 1
    print("a break")
    z = y * eval("n")
    seen = locals()
    return z * seen["n"], list(seen)


def test_variables_behind_a_break_are_all_there() -> None:
    """Those that nothing names any more as well."""
    assert_like_eager(variables_behind_a_break, (X,), eager=True)


def test_matches_are_told_apart_by_what_they_found() -> None:
    backend = Counting()
    compiled = minicompile.compile(lambda x, found: x * found.start(), backend=backend, fullgraph=True)
    for text, graphs in (("ab", 1), ("ab", 1), ("aab", 2), ("ab", 2)):
        found = re.search("b", text)
        assert found is not None
        assert_same(compiled(X, found), X * found.start())
        assert len(backend.graphs) == graphs


def scaled(x: Any) -> Any:
    if dist.is_initialized():
        return x * 10 + dist.get_rank() + dist.get_world_size()
    return x * torch.get_num_threads()


def test_what_a_process_may_change_is_asked_again() -> None:
    backend = Counting()
    compiled, threads = minicompile.compile(scaled, backend=backend, fullgraph=True), torch.get_num_threads()
    try:
        for count, graphs in ((1, 1), (2, 2), (1, 2)):
            torch.set_num_threads(count)
            assert_same(compiled(X), X * count)
            assert len(backend.graphs) == graphs
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            assert_same(compiled(X), X * 10 + 1)
        finally:
            dist.destroy_process_group()
        assert_same(compiled(X), X)
    finally:
        torch.set_num_threads(threads)


def test_what_fails_is_asked_for_real() -> None:
    def ranked(x: Any) -> Any:
        try:
            return x + dist.get_rank()
        except ValueError:
            return x - 1

    assert_same(minicompile.compile(ranked, backend="eager")(X), X - 1)


def test_a_condition_on_a_tensor_is_left_to_torch() -> None:
    def chosen(x: Any) -> Any:
        return torch.cond(x.sum() > 3, lambda a: a + 1, lambda a: a - 1, (x,)) * 2

    compiled = minicompile.compile(chosen, backend="eager")
    assert_same(compiled(X), (X + 1) * 2)
    assert_same(compiled(-X), (-X - 1) * 2)
