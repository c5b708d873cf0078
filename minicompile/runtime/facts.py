"""What a graph raises that was compiled for numbers of another kind.

In: a graph, and what was taken for granted about data and does not hold in this call. Out: an error that says for how
many calls in a row this has been so, by which the frontend tells an exception from a habit."""

from __future__ import annotations

from typing import Protocol


class Countable(Protocol):
    """A graph, or conditions of one. `misses`: in how many calls in a row something was not as taken for granted."""

    misses: int


class FactMissed(RuntimeError):
    """A number that depends on data is not what the program was compiled for: this call runs in eager. `times`: how
    often in a row."""

    def __init__(self, owner: Countable, fact: str) -> None:
        super().__init__(fact)
        owner.misses += 1
        self.owner = owner
        self.times = owner.misses
