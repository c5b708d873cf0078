"""The order in which a segment's entries are tried.

In: entries, as they are made, used and given up. Out: a tuple of them, the one that was used last in front.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RecentFirst(Generic[T]):
    """Entries in least-recently-used order, the latest first. Reading never locks: a use replaces the tuple."""

    def __init__(self) -> None:
        self.entries: tuple[T, ...] = ()

    def use(self, entry: T) -> None:
        """Move (or put) an entry to the front."""
        if not self.entries or self.entries[0] is not entry:
            self.entries = (entry, *(other for other in self.entries if other is not entry))

    def discard(self, entry: T) -> None:
        self.entries = tuple(other for other in self.entries if other is not entry)

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
