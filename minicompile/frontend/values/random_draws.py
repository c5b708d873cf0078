"""Draws from generators that are not torch's: `random.uniform(a, b)`, `numpy.random.rand()`, `rng.random()`.

In: a generator's method and its arguments, numbers. Out: a number that only the call knows, drawn when the guards have
passed; see frontend/draws.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..breaks import unsupported_call
from ..data_dependent import NeedsSymbols
from ..draws import DrawSource
from ..sources import AttrSource, Source
from .base import Args, Kwargs, Value, fail
from .computed import ComputedValue, is_number, now_of, source_over
from .constant import ConstantValue, SymIntValue
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
        }
    ),
    "RandomState": frozenset(
        {
            "rand", "random", "random_sample", "uniform", "randn", "standard_normal", "normal", "randint",
            "exponential", "beta", "gamma", "laplace", "lognormal",
        }
    ),
    "Generator": frozenset(
        {"random", "uniform", "standard_normal", "normal", "exponential", "beta", "gamma", "laplace", "lognormal"}
    ),
}  # fmt: skip
"""What draws a Python number if its arguments are numbers; arrays, and numbers of NumPy's own types, are drawn for
real."""


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
        args = [arg.realize(tr) for arg in args]
        kwargs = {key: value.realize(tr) for key, value in kwargs.items()}
        if not all(map(_is_plain, (*args, *kwargs.values()))):
            raise unsupported_call(self.describe(), "gets what is no number, or hangs on data")
        if len(tr.graph.bodies) > 1:
            raise unsupported_call(self.describe(), "stands in a function within the graph")
        if tr.graph.shapes is None and tr.takes_symbols:
            raise NeedsSymbols(data=True)
        call = self._text(tr, args, kwargs)
        if call is None or tr.graph.shapes is None:
            raise unsupported_call(self.describe())
        number = self._drawn(tr, args, kwargs)
        source = DrawSource(call.template, call.terms, len(tr.draws.sources))
        value = self._value(tr, number, source, args, kwargs)
        tr.draws.note(tr, source, self.place)
        return value

    def _text(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Any:
        places = [f"{{{index}}}" for index in range(1, len(args) + 1)]
        places += [f"{key}={{{index}}}" for index, key in enumerate(kwargs, len(args) + 1)]
        method = ComputedValue(self.source, None)
        return source_over(tr, f"{{0}}({', '.join(places)})", [method, *args, *kwargs.values()])

    def _drawn(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Any:
        """What this call draws, from the copy."""
        method = getattr(tr.draws.copy_of(self.generator), self.name)
        try:
            return method(*map(now_of, args), **{key: now_of(value) for key, value in kwargs.items()})
        except Exception as error:
            if _are_constants(args, kwargs):
                fail(error, is_exact=True)
            raise unsupported_call(self.describe(), "raises for what an argument is now") from error

    def _value(self, tr: Tracer, number: Any, source: DrawSource, args: Args, kwargs: Kwargs) -> Value:
        if type(number) is float and math.isfinite(number):
            return ComputedValue(source, number)
        if type(number) is not int:
            raise unsupported_call(self.describe(), f"draws a {type(number).__name__}")
        low, high = self._bounds(args, kwargs)
        if low < _INT64[0] or high > _INT64[1]:
            raise unsupported_call(self.describe(), "draws a number of more than 64 bits")
        assert tr.graph.shapes is not None
        return SymIntValue(tr.graph.shapes.drawn_int(number, source, low, high), source)

    def _bounds(self, args: Args, kwargs: Kwargs) -> tuple[int, int]:
        """Between which numbers an int lies that is drawn."""
        if not _are_constants(args, kwargs):
            return _INT64
        numbers, named = map(now_of, args), {key: now_of(value) for key, value in kwargs.items()}
        return _BOUNDS[type(self.generator).__name__, self.name](*numbers, **named)

    def build(self, glue: Glue) -> str:
        return glue.source(self.source)


def _is_plain(value: Value) -> bool:
    is_none = isinstance(value, ConstantValue) and value.value is None
    return is_none or (is_number(value) and not depends_on_data(value))


def _are_constants(args: Args, kwargs: Kwargs) -> bool:
    return all(isinstance(value, ConstantValue) for value in (*args, *kwargs.values()))


def _range(start: int, stop: int | None = None, step: int = 1) -> tuple[int, int]:
    numbers = range(start) if stop is None else range(start, stop, step)
    return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])


_BOUNDS: dict[tuple[str, str], Callable[..., tuple[int, int]]] = {
    ("Random", "randint"): lambda a, b: (a, b),
    ("Random", "randrange"): _range,
    ("Random", "getrandbits"): lambda k: (0, 2**k - 1),
    ("RandomState", "randint"): lambda low, high=None: _range(low, high),
}
