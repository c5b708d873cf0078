"""What remains of a branch that only raises (`raising_branches`): a condition on data, in the graph and in the glue.

In: the condition as a traced tensor; in a call, its value. Out: FactMissed where it does not hold. Every entry has
`Conditions`, a recalled one too, so nothing of tracing is imported.
"""

from __future__ import annotations

from typing import Any

from ..runtime.facts import FactMissed


class Conditions:
    """What the glue calls with an entry's conditions. `misses`: in how many calls in a row one did not hold."""

    def __init__(self) -> None:
        self.misses = 0

    def __call__(self, *conditions: Any) -> None:
        """Raises FactMissed unless all of them hold."""
        if not all(conditions):
            raise FactMissed(self, "a branch does not raise")
        self.misses = 0
