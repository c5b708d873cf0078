"""Sources of what is computed from a value: the size of a tensor, the tensor over an array, a call, an expression.

In: other sources. Out: sources like any (see sources.py). Size symbols stand for those of sizes, strides and offsets,
open numbers for computed ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .sources import Source, namespaced, source_class


@source_class
class SizeSource(Source):
    """Size of dimension `dim` of the tensor in `base`, a plain int."""

    base: Source
    dim: int

    def expr_over(self, base: str) -> str:
        return f"{base}.size({self.dim})"

    def path(self) -> str:
        return f"{self.base.path()}.shape[{self.dim}]"

    def describe(self) -> str:
        return f"{self.base.describe()}: size of dimension {self.dim}"


@source_class
class StrideSource(Source):
    """Stride, in elements, of dimension `dim` of the tensor in `base`."""

    base: Source
    dim: int

    def expr_over(self, base: str) -> str:
        return f"{base}.stride({self.dim})"

    def path(self) -> str:
        return f"{self.base.path()}.stride({self.dim})"

    def describe(self) -> str:
        return f"{self.base.describe()}: stride of dimension {self.dim}"


@source_class
class StorageOffsetSource(Source):
    """Storage offset, in elements, of the tensor in `base`."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"{base}.storage_offset()"

    def path(self) -> str:
        return f"{self.base.path()}.storage_offset()"

    def describe(self) -> str:
        return f"{self.base.describe()}: storage offset"


@source_class
class HelperSource(Source):
    """The tensor that a helper (helpers.py) makes of what stands in `base`, over the same memory: of a NumPy array, or
    a plain one of a tensor of a class of the program's."""

    base: Source
    helper: str

    def expr_over(self, base: str) -> str:
        return f"{self.helper}({base})"

    def path(self) -> str:
        return self.base.path()


@source_class
class CallSource(Source):
    """The result of calling what stands in `base` with no arguments; only for calls that are pure and cheap."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"{base}()"

    def path(self) -> str:
        return f"{self.base.path()}()"


_TERM = re.compile(r"\{(\d+)\}")


@source_class
class ComputedSource(Source):
    """A number or a text that is computed from others, as the user's own Python computes it: `lr * 0.5`.

    `template` has `{0}`, `{1}`, … where the values of `terms` go.
    """

    template: str
    terms: tuple[Source, ...]

    def expr_over(self, base: str) -> str:
        return self.over([term.expr() for term in self.terms])

    def over(self, terms: list[str]) -> str:
        """`expr()` where the values of the terms already stand in these expressions."""
        return f"({namespaced(self.template).format(*terms)})"

    def path(self) -> str:
        return _TERM.sub(self._written, self.template).replace("{{", "{").replace("}}", "}")

    def _written(self, place: re.Match[str]) -> str:
        """A term as it stands at a place: in brackets, unless it is an argument of a call."""
        text = self.terms[int(place[1])].path()
        is_argument = place.string[place.start() - 1 : place.start()] in ("(", ",") and place.start() > 0
        return text if is_argument or " " not in text else f"({text})"

    def parents(self) -> tuple[Source, ...]:
        return self.terms

    def ancestors(self) -> Iterator[Source]:
        for term in self.terms:
            yield term
            yield from term.ancestors()

    def bindings(self) -> dict[str, Any]:
        return {name: value for term in self.terms for name, value in term.bindings().items()}
