"""Walks over graphs of any kind, without recursion: they may be thousands of nodes deep.

In: where to begin, and a function from a node to its neighbours. Out: the nodes that are met. Nodes are hashable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def reachable(roots: Iterable[T], following: Callable[[T], Iterable[T]]) -> set[T]:
    """The roots, and all that is reached from them."""
    found = set(roots)
    pending = list(found)
    while pending:
        new = set(following(pending.pop())) - found
        found |= new
        pending += new
    return found


def operands_first(root: T, missing: Callable[[T], list[T]]) -> Iterator[T]:
    """What has to be placed until `root` can be, and `root` itself.

    missing: what a node needs that has no place yet; none for a node that has one. The caller places each node before
    it asks for the next. A node that several others need may come again.
    """
    stack = [root]
    while stack:
        wanting = missing(stack[-1])
        if wanting:
            stack += wanting
        else:
            yield stack.pop()
