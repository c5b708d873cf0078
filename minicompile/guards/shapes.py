"""Symbolic sizes: fake inputs whose dimensions are symbols, and the guards that keep the symbols honest.

In: real tensors with their sources and the dimensions to leave open; after tracing, what torch's `ShapeEnv` had to
assume about the symbols.
Out: fake tensors for tracing; then `TensorGuard`s for everything static about those inputs, `SizeGuard`s for the rest,
and the source of each symbol (a size to read on each call, which the glue hands to the graph as an int).

How a symbol becomes guards. Each open size gets a symbol of its own, 0 and 1 get none. Sizes that happen to be equal in
one call stay apart until the program relies on their being equal (torch's "duck shaping" would join them at once, and
compile again for the first call in which batch and length differ); then one symbol replaces the other. So `s0`, met
first as `x.shape[0]`, yields: its range (`x.shape[0] >= 2`); an equality for every other place that has `s0` or an
expression over it (`y.shape[0] == x.shape[0]`, `x.stride(0) == x.shape[1]`); and each relation that a branch, a
broadcast or a reshape decided (`x.shape[0] % 8 == 0`). A symbol that turned out to be one number is that number, in the
tensor's own guard. Sympy and ShapeEnv are imported here only when a size is symbolic.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UnsupportedError
from ..frontend.computed_sources import ComputedSource, SizeSource, StorageOffsetSource, StrideSource
from ..frontend.draws import is_drawn
from ..frontend.sources import AttrSource, Source
from ..ir.symbols import is_float_symbol
from ..shape_env import data_facts, make_shape_env
from .kinds import Guard, TypeGuard
from .marks import marked_ranges
from .sizes import SizeGuard
from .tensors import TensorGuard

if TYPE_CHECKING:
    import sympy


def dynamic_dims(tensor: torch.Tensor, dynamic: bool | None) -> tuple[int, ...]:
    """The dimensions to make symbolic under `compile(dynamic=…)`: all of size 2 or more if True, else none.

    Only plain strided tensors have symbolic sizes; others are compiled for the sizes they have.
    """
    if not dynamic or tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return ()
    return tuple(dim for dim, size in enumerate(tensor.shape) if size >= 2)


def fakify(tensor: torch.Tensor, fake_mode: Any) -> torch.Tensor:
    """A fake twin with static sizes; the same tensor gives the same twin. `fake_mode` may have a ShapeEnv or not."""
    return fake_mode.from_tensor(tensor, static_shapes=True)


@dataclass
class _Input:
    """One tensor that was made symbolic: its twin's sizes and strides as they were before tracing."""

    source: Source
    tensor: torch.Tensor
    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any

    def numbers(self) -> Iterator[tuple[Source, Any]]:
        for dim, size in enumerate(self.shape):
            yield SizeSource(self.source, dim), size
        for dim, stride in enumerate(self.stride):
            yield StrideSource(self.source, dim), stride
        yield StorageOffsetSource(self.source), self.offset


class SymbolicShapes:
    """The symbolic sizes of one trace. Make one per translation, and only if something is dynamic.

    `env` is the ShapeEnv; the trace's fake mode must be `FakeTensorMode(shape_env=shapes.env, …)`. With
    `scalars` and `sizes`, numbers and sizes that depend on data become symbols too; else the operations that make them
    raise. Guards never read these: what was taken for granted about them is for the graph to check (`new_facts`).
    """

    def __init__(self, *, scalars: bool = False, sizes: bool = False) -> None:
        self.env = make_shape_env(scalars, sizes)
        self._told: set[sympy.Basic] = set()
        self._inputs: list[_Input] = []
        self._floats: list[tuple[Source, torch.SymFloat]] = []
        self._ints: dict[Source, torch.SymInt] = {}
        self._drawn: list[tuple[Source, Any]] = []
        self._causes: list[str] = []
        self._names: dict[str, Source] = {}

    # ---- before and while tracing ----

    def fakify(self, tensor: torch.Tensor, source: Source, fake_mode: Any, dims: Collection[int]) -> torch.Tensor:
        """A fake twin with symbols for the sizes in `dims` (others static), within the ranges that the user has marked.
        Without dims: see `fakify`, no guards here.

        `guards()` then has the tensor's TensorGuard: add none of your own.
        """
        if not dims:
            return fakify(tensor, fake_mode)
        context = symbolic_context(tensor, dims)
        fake = fake_mode.from_tensor(tensor, source=self._torch_source(source), symbolic_context=context)
        self._inputs.append(_Input(source, tensor, tuple(fake.shape), tuple(fake.stride()), fake.storage_offset()))
        return fake

    def int_input(self, value: int, source: Source) -> int | torch.SymInt:
        """A symbolic int for an int input, one a source. 0 and 1 get no symbol: they come back as they are, for a
        ConstantGuard."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        if value in (0, 1):
            return value
        if source in self._ints:
            return self._ints[source]
        symbolic = self.env.create_unspecified_symint_and_symbol(value, self._torch_source(source), DimDynamic.DYNAMIC)
        self._ints[source] = symbolic
        return symbolic

    def float_input(self, value: float, source: Source) -> torch.SymFloat:
        """A symbolic float for a finite one that reaches the graph; a guard keeps it finite, as symbols are."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        place = self._torch_source(source)
        symbol = self.env.create_unspecified_symbol(value, place, DimDynamic.DYNAMIC)
        symbolic = self.env.create_symfloatnode(symbol, hint=value, source=place)
        (self._drawn if is_drawn(source) else self._floats).append((source, symbolic))
        return symbolic

    def drawn_int(self, value: int, source: Source, low: int, high: int) -> torch.SymInt:
        """A symbolic int for one that each call draws from `low` to `high`, both included. No guard may read it."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        place = self._torch_source(source)
        symbol = self.env.create_unspecified_symbol(value, place, DimDynamic.DYNAMIC)
        self.env.constrain_symbol_range(symbol, low, high)
        symbolic = self.env.create_symintnode(symbol, hint=value, source=place)
        self._drawn.append((source, symbolic))
        return symbolic

    def assumes_drawn(self) -> bool:
        """Whether something was decided about what is drawn."""
        exprs = [self._expr(number) for _, number in self._drawn]
        drawn = {expr for expr in exprs if expr.is_Symbol}
        assumed = (expr for expr, _ in self._assumed())
        return len(drawn) < len(exprs) or any(drawn & expr.free_symbols for expr in assumed)

    def source_of(self, number: torch.SymInt) -> Source | None:
        """The source of a symbolic int, or how it is computed from such; None if it depends on what is not read."""
        symbols = self.symbols()
        expr = self._expr(number)
        if expr in symbols:
            return symbols[expr]
        if not expr.free_symbols or not expr.free_symbols <= symbols.keys():
            return None
        printed = _printed("", expr, symbols, ())
        return ComputedSource(printed.template, printed.terms)

    def attribute(self, cause: Callable[[], str]) -> None:
        """Whatever was assumed since the last call of this was assumed at `cause()`, the user's `file:line`."""
        count = len(self.env.guards) - len(self._causes)
        if count:
            self._causes.extend([cause()] * count)

    def _torch_source(self, source: Source) -> Any:
        from torch._dynamo.source import LocalSource

        name = f"t{len(self._names)}"
        self._names[name] = source
        return LocalSource(name)

    def new_facts(self) -> list[Any]:
        """What was taken for granted about data since the last call of this: conditions that the graph has to check."""
        found = [fact for fact in data_facts(self.env) if fact not in self._told]
        self._told.update(found)
        return found

    # ---- after tracing ----

    def guards(self) -> list[Guard]:
        """All guards, each relation once, those on the inputs' types first.

        Raises UnsupportedError when something was assumed about a size that no input tells.
        """
        result: dict[Guard, None] = {}
        for entry in self._inputs:
            result.setdefault(self._tensor_guard(entry))
        for source in self._ints:
            result.setdefault(TypeGuard.of(source, 0))
            result.setdefault(SizeGuard(f"-{2**63} <= {{0}} < {2**63}", (source,)))
        result.update(dict.fromkeys(SizeGuard("math.isfinite({0})", (source,)) for source, _ in self._floats))
        symbols = self.symbols()
        for guard in (*self._ranges(symbols), *self._equalities(symbols), *self._relations(symbols)):
            result.setdefault(guard)
        return list(result)

    def symbols(self) -> dict[sympy.Symbol, Source]:
        """Each symbol that an input has → the source of its value: the first size, stride or int that is just it."""
        found: dict[sympy.Symbol, Source] = {}
        for source, number in self._numbers():
            expr = self._expr(number)
            if expr.is_Symbol:
                found.setdefault(expr, source)
        for symbol in self._used_symbols() - found.keys():
            known = self._from_torch(symbol)
            if known is not None:
                found[symbol] = known
        return found

    def _numbers(self) -> Iterator[tuple[Source, Any]]:
        for kind in (SizeSource, StrideSource, StorageOffsetSource):
            for entry in self._inputs:
                yield from (pair for pair in entry.numbers() if isinstance(pair[0], kind))
        yield from self._ints.items()
        yield from self._floats
        yield from self._drawn

    def _expr(self, number: Any) -> sympy.Expr:
        import sympy

        # `node.expr` has what was learnt since put in: a symbol may have become another one, or a number.
        return number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat)) else sympy.Integer(number)

    def _used_symbols(self) -> set[sympy.Symbol]:
        expressions = [self._expr(number) for _, number in self._numbers()] + [expr for expr, _ in self._assumed()]
        return {symbol for expr in expressions for symbol in expr.free_symbols}

    def _from_torch(self, symbol: sympy.Symbol) -> Source | None:
        """Symbols that torch made by itself: sizes of the tensor that an input is a view of."""
        for place in self.env.var_to_sources.get(symbol, ()):
            source = self._convert(place)
            if source is not None:
                return source
        return None

    def _convert(self, place: Any) -> Source | None:
        """A source of torch's as one of ours: `t0`, `._base` of it, a size, stride or storage offset of these."""
        from torch._dynamo import source as theirs

        if isinstance(place, theirs.LocalSource):
            return self._names.get(place.local_name)
        base = self._convert(place.base) if hasattr(place, "base") else None
        if base is None:
            return None
        if isinstance(place, theirs.AttrSource):
            return AttrSource(base, place.member)
        if not isinstance(place, theirs.TensorPropertySource):
            return None
        method = place.prop.method_name()
        if method == "storage_offset":
            return StorageOffsetSource(base)
        return SizeSource(base, place.idx) if method == "size" else StrideSource(base, place.idx)

    def _tensor_guard(self, entry: _Input) -> TensorGuard:
        """What became a plain number is checked natively with the rest of the tensor."""
        shape, stride = (tuple(map(self._number_or_none, numbers)) for numbers in (entry.shape, entry.stride))
        return TensorGuard.of(entry.source, entry.tensor).with_sizes(shape, stride)

    def _number_or_none(self, number: Any) -> int | None:
        expr = self._expr(number)
        return int(expr) if expr.is_number else None

    def _ranges(self, symbols: dict[sympy.Symbol, Source]) -> Iterator[SizeGuard]:
        from torch.utils._sympy.numbers import int_oo

        # A storage offset that nothing was decided on may be anything, 0 included.
        decided = {symbol for expr, _ in self._assumed() for symbol in expr.free_symbols}
        for symbol, source in symbols.items():
            is_free = (_is_offset(source) and symbol not in decided) or is_drawn(source)
            if is_free or is_float_symbol(symbol.name):
                continue
            bounds = self.env.var_to_range[symbol]
            lower, upper = bounds.lower, bounds.upper
            if lower.is_finite and lower != -int_oo and not (isinstance(source, SizeSource) and lower <= 0):
                yield SizeGuard(f"{{0}} >= {int(lower)}", (source,))
            if upper.is_finite and upper != int_oo and upper < 2**63 - 1:
                yield SizeGuard(f"{{0}} <= {int(upper)}", (source,))

    def _equalities(self, symbols: dict[sympy.Symbol, Source]) -> Iterator[SizeGuard]:
        numbers = [source for entry in self._inputs for source, _ in entry.numbers()]
        tensors_check = {source for source in numbers if not _is_offset(source)}
        for source, number in self._numbers():
            expr = self._expr(number)
            if symbols.get(expr) == source or (expr.is_number and (source in tensors_check or type(number) is int)):
                continue
            yield _printed("{0} == ", expr, symbols, (source,))

    def _relations(self, symbols: dict[sympy.Symbol, Source]) -> Iterator[SizeGuard]:
        for expr, cause in self._assumed():
            yield _printed("", expr, symbols, (), cause)

    def _assumed(self) -> Iterator[tuple[sympy.Basic, str]]:
        """What tracing decided about the symbols and what does not follow from their ranges, with the user's line."""
        self.attribute(str)
        for guard, cause in zip(self.env.guards, self._causes, strict=True):
            is_float = any(is_float_symbol(symbol.name) for symbol in guard.expr.free_symbols)  # they have no ranges
            if is_float or self.env._maybe_evaluate_static(guard.expr, axioms=()) is None:
                expr = self.env.simplify(guard.expr)
                if not expr.is_Boolean or expr.free_symbols:
                    yield expr, cause


def _is_offset(source: Source) -> bool:
    return isinstance(source, StorageOffsetSource)


def _printed(
    start: str, expr: Any, symbols: dict[Any, Source], terms: tuple[Source, ...], cause: str = ""
) -> SizeGuard:
    """`start` (which has `terms`) and the expression's Python text, with `{n}` for the source of each symbol."""
    names = {}
    for symbol in sorted(expr.free_symbols, key=str):
        if symbol not in symbols:
            raise UnsupportedError(f"the trace relies on {expr}, and no input tells the value of {symbol}")
        source = symbols[symbol]
        terms = terms if source in terms else (*terms, source)
        names[symbol] = f"{{{terms.index(source)}}}"

    return SizeGuard(start + python_text(expr, names.__getitem__), terms, cause)


def python_text(expr: Any, name: Callable[[Any], str]) -> str:
    """Arithmetic on symbols as plain Python; `name` says what stands for a symbol. Calls what `ARITHMETIC` has."""
    from torch.utils._sympy.printers import PythonPrinter

    class Printer(PythonPrinter):
        def _print_Symbol(self, symbol: Any) -> str:
            return name(symbol)

        def _print_Float(self, number: Any) -> str:
            return repr(float(number))

        def _print_ToFloat(self, call: Any) -> str:
            return f"float({self._print(call.args[0])})"

        def _print_OpaqueUnaryFn_sqrt(self, call: Any) -> str:
            return f"math.sqrt({self._print(call.args[0])})"

    return Printer().doprint(expr)


def symbolic_context(tensor: torch.Tensor, dims: Collection[int]) -> Any:
    """Torch's own description of which sizes get symbols; for a view, of its base as well."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    wanted = {dim % tensor.dim() for dim in dims}
    sizes = [DimDynamic.DUCK if dim in wanted else DimDynamic.STATIC for dim in range(tensor.dim())]
    base = tensor._base
    every = StatelessSymbolicContext([DimDynamic.DUCK] * base.dim()) if base is not None else None
    marks = marked_ranges(tensor)
    ranges = [_range(*marks[dim]) if dim in wanted and dim in marks else None for dim in range(tensor.dim())]
    return StatelessSymbolicContext(sizes, constraint_sizes=ranges, view_base_context=every)


def _range(low: int | None, high: int | None) -> Any:
    from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint
    from torch.utils._sympy.value_ranges import ValueRanges

    least, most = max(low or 0, 2), sys.maxsize if high is None else high
    return StrictMinMaxConstraint(warn_only=False, vr=ValueRanges(least, most))
