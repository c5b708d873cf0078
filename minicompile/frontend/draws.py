"""What a piece draws from generators that are not torch's, in the program's order.

In: draws, as tracing meets them (values/random_draws.py). Out: sources that the entry reads behind its guards. Reading
one draws, so it is read once, and by no guard: what asks tracing for the number itself is a graph break. Tracing draws
from copies of the generators.

A call that draws and then has to begin again, in eager or with another entry, first puts the generators back.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from .breaks import Break, BreakKind, Restart
from .computed_sources import ComputedSource
from .sources import Source, source_class

if TYPE_CHECKING:
    from .tracer import Tracer

_HINT = "Use torch's generators, whose numbers are tensors, or draw outside of the compiled function."


@source_class
class DrawSource(ComputedSource):
    """A draw, number `index` of this piece."""

    index: int


@source_class
class GeneratorStateSource(Source):
    """A function that puts the generator in `base` back to where it stands now."""

    base: Source
    undoes: ClassVar[bool] = True

    def expr_over(self, base: str) -> str:
        return f"__keep_state__({base})"

    def path(self) -> str:
        return f"state of {self.base.path()}"

    def bindings(self) -> dict[str, Any]:
        return {**self.base.bindings(), "__keep_state__": keep_state}


def keep_state(generator: Any) -> Callable[[], None]:
    """A function that sets the generator to the state that it has now."""
    if hasattr(generator, "getstate"):
        return functools.partial(generator.setstate, generator.getstate())
    if hasattr(generator, "get_state"):
        return functools.partial(generator.set_state, generator.get_state(legacy=False))
    bits = generator.bit_generator
    return functools.partial(setattr, bits, "state", bits.state)


def is_drawn(source: Source) -> bool:
    """Whether reading a source draws."""
    return isinstance(source, DrawSource) or any(isinstance(part, DrawSource) for part in source.ancestors())


def needed(kind: BreakKind = BreakKind.VALUE) -> Break:
    """The break where a drawn number has to be known."""
    what = "A branch depends on" if kind is BreakKind.BRANCH else "What follows has to know"
    return Break(kind, f"{what} a random number that is drawn at each call.", _HINT)


class Draws:
    """The draws of one translation. `places`: where their generators are read."""

    def __init__(self) -> None:
        self.sources: list[DrawSource] = []
        self.places: dict[Source, None] = {}
        self._steps: list[int] = []
        self._copies: dict[int, tuple[Any, Any]] = {}

    def copy_of(self, generator: Any) -> Any:
        """The copy that tracing draws from; it stands where the generator will stand in this call."""
        found = self._copies.get(id(generator))
        if found is None:
            found = self._copies[id(generator)] = (generator, copy.deepcopy(generator))
        return found[1]

    def note(self, tr: Tracer, source: DrawSource, place: Source) -> None:
        """A draw from the generator that is read at `place`."""
        tr.changed()
        tr.is_portable = False
        self.sources.append(source)
        self.places[place] = None
        self._steps.append(tr.root_step)

    def reads(self) -> list[Source]:
        """What the entry reads behind its guards, in this order."""
        return [*map(GeneratorStateSource, self.places), *self.sources]

    def check(self, tr: Tracer, step: int | None = None) -> None:
        """Nothing has been decided about a drawn number. Raises Restart, to break at the root instruction `step`, or
        where the first number was drawn."""
        if self.sources and tr.graph.shapes is not None and tr.graph.shapes.assumes_drawn():
            raise Restart(self._steps[0] if step is None else step, needed())
