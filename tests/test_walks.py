"""Walks over graphs: each node once, operands first, and depth costs no recursion."""

from __future__ import annotations

from minicompile.walks import operands_first, reachable

DIAMOND = {"out": ["left", "right"], "left": ["in"], "right": ["in"], "in": [], "elsewhere": ["in"]}
CHAIN = {n: [n - 1] if n else [] for n in range(5000)}


def placed(graph: dict, root: object) -> list:
    order: dict = {}
    for node in operands_first(root, lambda node: [] if node in order else [n for n in graph[node] if n not in order]):
        order.setdefault(node)
    return list(order)


def test_what_is_reached() -> None:
    assert reachable(["out"], DIAMOND.__getitem__) == {"out", "left", "right", "in"}
    assert reachable(["left", "elsewhere"], DIAMOND.__getitem__) == {"left", "elsewhere", "in"}
    assert reachable([], DIAMOND.__getitem__) == set()
    assert reachable(iter([4999]), CHAIN.__getitem__) == set(CHAIN)


def test_a_circle_ends() -> None:
    assert reachable([0], lambda n: [(n + 1) % 3]) == {0, 1, 2}


def test_operands_come_first() -> None:
    order = placed(DIAMOND, "out")
    assert sorted(order) == ["in", "left", "out", "right"] and order[0] == "in" and order[-1] == "out"
    assert placed(CHAIN, 4999) == list(CHAIN)
