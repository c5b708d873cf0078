"""Numbers that an entry is not compiled for one value of.

In: where they are read. Out: `OpenNumbers`, one for each segment; nothing is open at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sources import Source


@dataclass(frozen=True)
class OpenNumbers:
    """What is a symbol in the next entry of a segment.

    Attributes:
        numbers: where an int or a float is read.
        sizes: where a tensor is read → its open dimensions.
        marked: whether a tensor was met that the user has marked as dynamic.
        data: whether a number was met that depends on data, and that is to be captured.
    """

    numbers: frozenset[Source] = frozenset()
    sizes: Mapping[Source, frozenset[int]] = field(default_factory=dict)
    marked: bool = False
    data: bool = False

    def __bool__(self) -> bool:
        return bool(self.numbers or self.sizes or self.marked or self.data)

    def beyond(self, before: OpenNumbers) -> list[str]:
        """What is open here and was not before, as the user writes it: `lr`, `x.shape[0]`."""
        numbers = sorted(source.path() for source in self.numbers - before.numbers)
        sizes = [
            f"{source.path()}.shape[{dim}]"
            for source, dims in self.sizes.items()
            for dim in sorted(dims - before.sizes.get(source, frozenset()))
        ]
        return numbers + sizes
