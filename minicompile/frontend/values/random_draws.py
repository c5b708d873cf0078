"""Draws from generators that are not torch's: `random.uniform(a, b)`, `numpy.random.rand(3)`, `rng.random()`.

In: a generator's method and its arguments: numbers, sizes, sequences of constants. Out: a number, text, list or array
that only the call knows, drawn when the guards have passed; see frontend/draws.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import unsupported_call
from ..data_dependent import NeedsSymbols
from ..draws import DrawSource, is_drawn
from ..sources import AttrSource, ItemSource, Source
from .base import Args, Kwargs, NotConstant, Value, fail
from .classes import ClassValue
from .computed import ComputedValue, is_number, now_of, source_over
from .constant import ConstantValue, SymIntValue, specialized
from .containers import SequenceValue
from .data_floats import depends_on_data

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_INT64 = (-(2**63), 2**63 - 1)
_DRAWS = {
    "Random": frozenset(
        {
            "random", "uniform", "randint", "randrange", "getrandbits", "gauss", "normalvariate", "lognormvariate",
            "expovariate", "vonmisesvariate", "gammavariate", "betavariate", "paretovariate", "weibullvariate",
            "choice", "choices", "sample", "shuffle",
        }
    ),
    "RandomState": frozenset(
        {
            "rand", "random", "random_sample", "uniform", "randn", "standard_normal", "normal", "randint",
            "exponential", "beta", "gamma", "laplace", "lognormal", "choice", "permutation",
        }
    ),
    "Generator": frozenset(
        {
            "random", "uniform", "standard_normal", "normal", "exponential", "beta", "gamma", "laplace", "lognormal",
            "integers", "choice", "permutation",
        }
    ),
}  # fmt: skip
"""What draws Python numbers or arrays; numbers of NumPy's own types are drawn for real."""


def is_generator(obj: Any) -> bool:
    """Whether an object is a generator of the standard library or NumPy, and of no class of the program's."""
    kind = type(obj)
    return kind is random.Random or (kind.__module__.startswith("numpy.random.") and kind.__name__ in _DRAWS)


def _draws(generator: Any, name: str) -> bool:
    is_own = name in getattr(generator, "__dict__", ())  # an attribute hides the method
    return is_generator(generator) and name in _DRAWS[type(generator).__name__] and not is_own


def outside_draw(tr: Tracer, obj: Any, source: Source) -> DrawMethod | None:
    """A generator's method that is an object of its own, as `random.random` is; None for other methods."""
    owner, name = obj.__self__, obj.__name__
    if not _draws(owner, name) or obj != getattr(owner, name):
        return None
    tr.guard_identity(source, obj)
    return DrawMethod(owner, name, tr.anchor(owner), tr.anchor(obj))


def draw_of(owner: Value, generator: Any, name: str) -> DrawMethod | None:
    """The method `name` of a generator from outside; None where it draws no number."""
    if owner.source is None or not _draws(generator, name):
        return None
    return DrawMethod(generator, name, owner.source, AttrSource(owner.source, name))


class DrawMethod(Value):
    """A generator's method, bound. `place`: where the generator is read."""

    def __init__(self, generator: Any, name: str, place: Source, source: Source) -> None:
        self.generator = generator
        self.name = name
        self.place = place
        self.source: Source = source

    def python_type(self) -> type[Any]:
        return type(getattr(self.generator, self.name))

    def describe(self) -> str:
        return f"{type(self.generator).__name__}.{self.name}()"

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        plain = [_plain(tr, arg.realize(tr)) for arg in args]
        named = {key: _plain(tr, value.realize(tr)) for key, value in kwargs.items()}
        if not all(map(_may_be_given, (*plain, *named.values()))):
            raise unsupported_call(self.describe(), "gets what is no number, or hangs on data")
        if len(tr.graph.bodies) > 1:
            raise unsupported_call(self.describe(), "stands in a function within the graph")
        call = self._text(tr, plain, named)
        if call is None:
            raise unsupported_call(self.describe())
        drawn = self._drawn(tr, plain, named)
        source = DrawSource(call.template, call.terms, len(tr.draws.sources))
        value = self._value(tr, drawn, source, plain, named)
        tr.draws.note(tr, source, self.place)
        return self._put(tr, args[0].realize(tr), value) if self.name == "shuffle" else value

    def _text(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Any:
        places = [f"{{{index}}}" for index in range(1, len(args) + 1)]
        places += [f"{key}={{{index}}}" for index, key in enumerate(kwargs, len(args) + 1)]
        method = ComputedValue(self.source, None)
        template = _SHUFFLED if self.name == "shuffle" else f"{{0}}({', '.join(places)})"
        return source_over(tr, template, [method, *args, *kwargs.values()])

    def _drawn(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Any:
        """What this call draws, from the copy."""
        method = getattr(tr.draws.copy_of(self.generator), self.name)
        numbers, named = list(map(now_of, args)), {key: now_of(value) for key, value in kwargs.items()}
        try:
            if self.name == "shuffle":
                numbers[0] = list(numbers[0])
            result = method(*numbers, **named)
        except Exception as error:
            if _are_constants(args, kwargs):
                fail(error, is_exact=True)
            raise unsupported_call(self.describe(), "raises for what an argument is now") from error
        return numbers[0] if self.name == "shuffle" else result

    def _value(self, tr: Tracer, drawn: Any, source: DrawSource, args: Args, kwargs: Kwargs) -> Value:
        if type(drawn).__name__ == "ndarray":
            return self._array(tr, drawn, source, args, kwargs)
        if tr.graph.shapes is None:
            if tr.takes_symbols:
                raise NeedsSymbols(data=True)
            raise unsupported_call(self.describe())
        if self.name not in _FROM_SEQUENCES:
            return self._number(tr, drawn, source, self._bounds(args, kwargs) if type(drawn) is int else _INT64)
        if not isinstance(args[0], ConstantValue) or not _are_of_one_kind(args[0].value):
            raise unsupported_call(self.describe(), "draws from elements that are not all floats, ints or texts")
        bounds = (min(args[0].value), max(args[0].value)) if type(args[0].value[0]) is int else _INT64
        if type(drawn) is not list:
            return self._number(tr, drawn, source, bounds)
        parts = [self._number(tr, item, ItemSource(source, place), bounds) for place, item in enumerate(drawn)]
        return SequenceValue(list, parts)

    def _number(self, tr: Tracer, number: Any, source: Source, bounds: tuple[int, int]) -> Value:
        if type(number) is str or type(number) is float and math.isfinite(number):
            return ComputedValue(source, number)
        if type(number) is not int:
            raise unsupported_call(self.describe(), f"draws a {type(number).__name__}")
        low, high = bounds
        if low < _INT64[0] or high > _INT64[1]:
            raise unsupported_call(self.describe(), "draws a number of more than 64 bits")
        assert tr.graph.shapes is not None
        return SymIntValue(tr.graph.shapes.drawn_int(number, source, low, high), source)

    def _array(self, tr: Tracer, array: Any, source: DrawSource, args: Args, kwargs: Kwargs) -> Value:
        """An array, whose sizes and dtype follow from the arguments."""
        from .arrays import drawn_array

        sizes = [value for value in (*args, *kwargs.values()) if isinstance(value, SymIntValue)]
        if any(value.source is not None and is_drawn(value.source) for value in sizes):
            raise unsupported_call(self.describe(), "gets a size that is drawn")
        for value in sizes:
            value.specialize(tr)
        found = drawn_array(tr, array, source)
        if found is None:
            raise unsupported_call(self.describe(), f"draws an array of {array.dtype}")
        return found

    def _put(self, tr: Tracer, owner: Value, shuffled: Value) -> Value:
        """What `shuffle` leaves in the list."""
        assert isinstance(shuffled, SequenceValue)
        if not isinstance(owner, SequenceValue) or owner.kind is not list:
            raise owner.cannot("shuffling")
        owner.elements[:] = shuffled.elements
        return tr.mutated(owner, "{0}[:] = {1}", SequenceValue(tuple, list(owner.elements)))

    def _bounds(self, args: Args, kwargs: Kwargs) -> tuple[int, int]:
        """Between which numbers an int lies that is drawn."""
        if not _are_constants(args, kwargs):
            return _INT64
        numbers, named = map(now_of, args), {key: now_of(value) for key, value in kwargs.items()}
        return _BOUNDS[type(self.generator).__name__, self.name](*numbers, **named)

    def build(self, glue: Glue) -> str:
        return glue.source(self.source)


def _plain(tr: Tracer, value: Value) -> Value:
    """The argument; a sequence of constants as a constant, one of NumPy's types as its name."""
    if isinstance(value, ClassValue) and value.cls.__module__ == "numpy":
        return ConstantValue(value.cls.__name__)
    if isinstance(value, SequenceValue) and value.kind in (list, tuple, torch.Size):
        parts = [specialized(tr, item) if _is_size(item.realize(tr)) else item for item in value.elements]
        try:
            found = SequenceValue(value.kind, parts).const(tr)
        except NotConstant:
            return value
        return ConstantValue(list(found) if value.kind is list else tuple(found))
    return value


def _is_size(value: Value) -> bool:
    return isinstance(value, SymIntValue) and not (value.source is not None and is_drawn(value.source))


def _may_be_given(value: Value) -> bool:
    if isinstance(value, ConstantValue):
        return type(value.value) in (int, float, bool, str, type(None), range) or _is_written(value.value)
    return is_number(value) and not depends_on_data(value)


def _is_written(value: Any) -> bool:
    """Whether the text of a sequence tells all of it."""
    return type(value) in (list, tuple) and all(
        type(item) in (int, str, bool) or type(item) is float and math.isfinite(item) for item in value
    )


def _are_of_one_kind(population: Any) -> bool:
    """Whether whatever is drawn is of the same type."""
    if type(population) in (range, str):
        return len(population) > 0
    return type(population) in (list, tuple) and {type(item) for item in population} in ({int}, {float}, {str})


def _are_constants(args: Args, kwargs: Kwargs) -> bool:
    return all(isinstance(value, ConstantValue) for value in (*args, *kwargs.values()))


def _range(start: int, stop: int | None = None, step: int = 1) -> tuple[int, int]:
    numbers = range(start) if stop is None else range(start, stop, step)
    return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])


_FROM_SEQUENCES = frozenset({"choice", "choices", "sample", "shuffle"})
_SHUFFLED = "(lambda items: ({0}(items), items)[1])({1})"
_BOUNDS: dict[tuple[str, str], Callable[..., tuple[int, int]]] = {
    ("Random", "randint"): lambda a, b: (a, b),
    ("Random", "randrange"): _range,
    ("Random", "getrandbits"): lambda k: (0, 2**k - 1),
    ("RandomState", "randint"): lambda low, high=None: _range(low, high),
}
