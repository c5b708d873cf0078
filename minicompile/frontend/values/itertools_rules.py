"""`itertools`: lazily through the polyfills in Python; those that read their arguments at once, at once.

In: calls of the classes of `itertools`. Out: iterators, which become the real ones at a graph break as long as nothing
has been taken from them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from .. import polyfills
from .base import Args, Kwargs, Value
from .callables import RULES, Rule
from .containers import SequenceValue, index_of
from .functions import FunctionValue, bind_arguments, outside_function
from .generators import GeneratorValue
from .iterators import IteratorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

LAZY = (
    "chain", "count", "cycle", "repeat", "accumulate", "islice", "starmap", "takewhile", "dropwhile", "filterfalse",
    "compress", "pairwise", "batched", "zip_longest", "groupby",
)  # fmt: skip


class PolyfillValue(GeneratorValue):
    """An iterator of `itertools`. `original` is what the program called, `kind` its class."""

    original: Any
    kind: type

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"itertools.{self.kind.__name__}()"

    def maker(self, glue: Glue) -> str:
        return glue.keep(self.original)


def _lazy(original: Any, kind: type, polyfill: Any) -> None:
    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        function = outside_function(tr, polyfill, tr.anchor(polyfill))
        made = _start(tr, function, list(args), kwargs)
        made.original, made.kind = original, kind
        return made

    RULES[original] = trace


def _start(tr: Tracer, function: FunctionValue, args: Args, kwargs: Kwargs) -> PolyfillValue:
    frame = tr.frame_of(function, bind_arguments(tr, function, args, kwargs))
    made = PolyfillValue(frame, function, args, kwargs, tr.root_step)
    tr.generators.append(made)
    return made


for _name in LAZY:
    if hasattr(itertools, _name):
        _lazy(getattr(itertools, _name), getattr(itertools, _name), getattr(polyfills, _name))
_lazy(itertools.chain.from_iterable, itertools.chain, polyfills.from_iterable)


def _at_once(fn: Any) -> Rule:
    """`product` and the like: the arguments are read at once, and the elements are tuples of theirs."""

    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        count = 1 if fn is not itertools.product else len(args)
        pools = [arg.realize(tr).items(tr) for arg in args[:count]]
        numbers = [index_of(tr, arg) for arg in args[count:]]
        named = {key: index_of(tr, value) for key, value in kwargs.items()}
        return IteratorValue(None, [SequenceValue(tuple, list(row)) for row in fn(*pools, *numbers, **named)])

    return trace


for _fn in (
    itertools.product, itertools.permutations, itertools.combinations, itertools.combinations_with_replacement,
):  # fmt: skip
    RULES[_fn] = _at_once(_fn)
