"""Random programs of torch calls, run in eager while they are written.

In: a `Choices` (random numbers, or hypothesis). Out: a `Program`: an FX graph of torch-level calls, its inputs, and
what eager returned.

Shapes, strides, dtypes and values are drawn to hurt: size 0 and 1, transposed and sliced inputs, NaN, infinities, both
zeros, subnormals, the extreme integers. A step that eager refuses is dropped. Results are *exact* (every bit counts)
or, once a transcendental function or a float reduction stands in their history, compared with a tolerance; inexact
values feed no further arithmetic, since a comparison or a floor would turn the last bit into a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from minicompile.ir.ops import POINTWISE, REDUCTIONS
from minicompile.ir.special_ops import SPECIAL
from minicompile.ir.types import dtype_kind

from . import rounding

DTYPES = (
    torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)
SHAPES = ((), (1,), (5,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (2, 1, 4), (3, 17), (0, 4), (4, 33), (2, 3, 2, 2))
FLOATS = (0.0, -0.0, 1.0, 0.7, -1.0, 0.5, 2.0, -2.5, 3.25, 7.0, 0.1, 1e-3, math.inf, -math.inf, math.nan, 1e-40, 100.0)
RELATIVE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-9}
"""Tolerance of a value that some inexact operation has made, by that operation's dtype."""

EXACT = frozenset(
    "add sub mul div neg abs sign copysign reciprocal floor ceil trunc round isnan isinf eq ne lt le gt ge logical_not "
    "logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor where fmod".split()
)
"""Rows of the op table whose result has one right value, and in eager too (a square root of MKL may be one bit off)."""


DIVISIONS = ("floor_divide", "trunc_divide", "remainder", "fmod")

OVER_FMOD = ("fmod", "remainder", "floor_divide")
"""In eager, or (floor_divide of half types) in the reference interpreter, which runs eager's operators."""

LEFT_OUT = {"where", "philox", *(row.name for row in SPECIAL if row.name != "nextafter")}
"""`where` has a step of its own; `philox` is no function of torch's;
special functions near their poles are as far from eager's as a last bit can carry."""

KINDS = ("pointwise",) * 5 + ("view",) * 4 + (
    "mixed", "cast", "where", "clamp", "reduce", "reduce", "place", "scan", "join", "index", "window",
    "write", "mask",
)
"""What a step may be: methods of `Writer`."""


class Choices(Protocol):
    def pick(self, items: Sequence[Any]) -> Any: ...
    def integer(self, low: int, high: int) -> int: ...


@dataclass
class Value:
    node: torch.fx.Node
    tensor: torch.Tensor
    tolerance: float = 0.0
    spread: torch.Tensor | None = None  # see rounding.py

    @property
    def exact(self) -> bool:
        return not self.tolerance


@dataclass
class Program:
    graph: torch.fx.GraphModule
    inputs: list[torch.Tensor]
    outputs: list[Value]


@dataclass
class Writer:
    """One program under construction."""

    choices: Choices
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    inputs: list[torch.Tensor] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def program(self, steps: int) -> Program:
        for _ in range(self.choices.integer(1, 3)):
            self.new_input(self.tensor(self.choices.pick(DTYPES), self.choices.pick(SHAPES)))
        for _ in range(steps):
            self.step()
        made = [v for v in self.values if v.node.op != "placeholder"] or self.values
        outputs = [self.choices.pick(made[-6:]) for _ in range(self.choices.integer(1, 3))] + [made[-1]]
        outputs = list({id(v): v for v in outputs}.values())
        self.graph.output(tuple(v.node for v in outputs))
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in reversed(placeholders):  # inputs that were drawn late stand first all the same
            self.graph._root.append(node)
        return Program(torch.fx.GraphModule({}, self.graph), self.inputs, outputs)

    # --- inputs -------------------------------------------------------------------------------------------------

    def new_input(self, tensor: torch.Tensor) -> Value:
        value = Value(self.graph.placeholder(f"x{len(self.inputs)}"), tensor)
        self.inputs.append(tensor)
        self.values.append(value)
        return value

    def tensor(self, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """Special values, in a drawn layout."""
        count = math.prod(shape)
        pool = pool_of(dtype)
        start = self.choices.integer(0, len(pool) - 1)
        stride = self.choices.pick((1, 3, 5, 7))
        flat = torch.tensor([pool[(start + i * stride) % len(pool)] for i in range(count)], dtype=dtype)
        result = flat.reshape(tuple(shape))
        layout = self.choices.pick(("plain", "plain", "transposed", "sliced", "expanded"))
        if layout == "transposed" and len(shape) > 1:
            return result.transpose(0, -1).contiguous().transpose(0, -1)
        if layout == "sliced" and shape:
            return torch.stack([result, result], -1)[..., 0]
        if layout == "expanded" and len(shape) > 1 and shape[0] > 1:
            return result[:1].expand(tuple(shape))
        return result

    # --- steps --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        getattr(self, self.choices.pick(KINDS))()

    def any_value(self, kinds: str = "fib", exact: bool = True, rank: int = 0) -> Value | None:
        fitting = [
            v for v in self.values
            if dtype_kind(v.tensor.dtype) in kinds and (v.exact or not exact) and v.tensor.dim() >= rank
        ]
        return self.choices.pick(fitting[-8:]) if fitting else None

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        exact: bool = True,
        spread: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a call, unless eager refuses it."""
        eager = [a.tensor if isinstance(a, Value) else self._plain(a, True) for a in args]
        try:
            result = function(*eager, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError):
            return
        node = self.graph.call_function(function, tuple(self._plain(a, False) for a in args), kwargs)
        flat = [a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else [arg])]
        sources = [a for a in flat if isinstance(a, Value)]
        tolerance = max((v.tolerance for v in sources), default=0.0)
        if not exact:
            tolerance = max(tolerance, RELATIVE.get(result.dtype, 0.0))
        if spread is None and function is not _to:
            spread = rounding.moved(function, args, kwargs)
        if result.numel() <= 2000:
            self.values.append(Value(node, result, tolerance, spread))

    def _plain(self, arg: Any, eager: bool) -> Any:
        if isinstance(arg, Value):
            return arg.tensor if eager else arg.node
        return type(arg)(self._plain(a, eager) for a in arg) if isinstance(arg, (list, tuple)) else arg

    def operand(self, like: Value) -> Any:
        """Something that broadcasts against `like`, of its dtype: another value, or a scalar."""
        shape, dtype = like.tensor.shape, like.tensor.dtype
        others = [v for v in self.values if v.exact and v.tensor.dtype is dtype and broadcasts(v.tensor.shape, shape)]
        if others and self.choices.integer(0, 3):
            return self.choices.pick(others)
        return self.choices.pick(scalars_of(dtype))

    def pointwise(self) -> None:
        x = self.any_value()
        if x is None:
            return
        kind = dtype_kind(x.tensor.dtype)
        row = self.choices.pick([r for r in POINTWISE.values() if kind in r.kinds and r.name not in LEFT_OUT])
        args = [x, *(self.operand(x) for _ in range(row.arity - 1))]
        if row.name in OVER_FMOD and any(isinstance(a, Value) and has_subnormals(a.tensor) for a in args):
            return  # eager's vectorised loops of fmod give NaN where its scalar ones are right
        if row.name == "copysign" and any(isinstance(a, Value) and bool(a.tensor.isnan().any()) for a in args):
            return  # the sign of NaN is nobody's business
        minus_one = any(isinstance(a, Value) and bool((a.tensor == -1).any()) for a in args)
        if row.name in DIVISIONS and kind == "i" and minus_one:
            return  # eager itself dies of the smallest integer divided by -1
        self.call(EAGER.get(row.name, row.torch), *args, exact=row.name in EXACT or (kind != "f" and row.name != "div"))

    def mixed(self) -> None:
        """Type promotion."""
        x, y = self.any_value(), self.any_value()
        if x is not None and y is not None:
            name = self.choices.pick(("add", "mul", "sub", "lt", "eq", "ge", "logical_and"))
            self.call(getattr(torch, name), x, y)

    def cast(self) -> None:
        x = self.any_value(exact=False)
        if x is None:
            return
        dtype = self.choices.pick(DTYPES)
        lossy = dtype_kind(x.tensor.dtype) == "f" and dtype_kind(dtype) == "i"
        if lossy and not bool(((x.tensor >= 0) & (x.tensor <= 100)).all()):
            return  # undefined in C
        if not x.exact and dtype_kind(dtype) != "f":
            return
        self.call(_to, x, dtype, spread=x.spread)

    def where(self) -> None:
        x = self.any_value(exact=False)
        condition = self.any_value("b")
        if x is not None and condition is not None:
            self.call(torch.where, condition, x, self.operand(x) if x.exact else x)

    def clamp(self) -> None:
        x = self.any_value("fi")
        if x is not None:
            low, high = (self.choices.pick(scalars_of(x.tensor.dtype)) for _ in range(2))
            self.call(torch.clamp, x, low, high, exact=dtype_kind(x.tensor.dtype) == "i")  # which zero is not defined

    def reduce(self) -> None:
        x = self.any_value(rank=1)
        if x is None:
            return
        kind = dtype_kind(x.tensor.dtype)
        names = [r.name for r in REDUCTIONS.values() if kind in r.kinds and (r.name != "prod" or kind == "i")]
        name = self.choices.pick([*names, *(["mean", "var", "logsumexp", "softmax"] if kind == "f" else [])])
        dim = self.choices.integer(-x.tensor.dim(), x.tensor.dim() - 1)
        if name in ("softmax", "prod"):
            self.call(getattr(torch, name), x, dim, exact=kind != "f")
            return
        keepdim = bool(self.choices.integer(0, 1))
        spread = rounding.of_sum(name, x.tensor, dim, keepdim=keepdim)
        self.call(getattr(torch, name), x, dim, keepdim=keepdim, exact=kind != "f", spread=spread)

    def place(self) -> None:
        x = self.any_value("fi", rank=1)
        if x is not None:
            name = self.choices.pick(("argmax", "argmin"))
            self.call(getattr(torch, name), x, self.choices.integer(-x.tensor.dim(), x.tensor.dim() - 1))

    def scan(self) -> None:
        x = self.any_value("fi", rank=1)
        if x is not None:
            name, dim = self.choices.pick(("cumsum", "cumprod")), self.choices.integer(0, x.tensor.dim() - 1)
            exact = dtype_kind(x.tensor.dtype) == "i"
            self.call(getattr(torch, name), x, dim, exact=exact, spread=rounding.of_sum(name, x.tensor, dim))

    def join(self) -> None:
        x = self.any_value(exact=False, rank=1)
        if x is None:
            return
        same = [v for v in self.values if v.tensor.shape == x.tensor.shape]
        parts = [x, *(self.choices.pick(same) for _ in range(self.choices.integer(1, 3)))]
        self.call(self.choices.pick((torch.cat, torch.stack)), parts, self.choices.integer(0, x.tensor.dim() - 1))

    def index(self) -> None:
        x = self.any_value(exact=False, rank=1)
        if x is None:
            return
        dim = self.choices.integer(0, x.tensor.dim() - 1)
        size = x.tensor.shape[dim]
        if size == 0:
            return
        how = self.choices.pick(("select", "gather", "index"))
        shape = list(x.tensor.shape) if how == "gather" else [self.choices.integer(1, 4)]
        shape[dim if how == "gather" else 0] = self.choices.integer(1, 4)
        low = -size if how == "index" else 0
        places = torch.tensor([self.choices.integer(low, size - 1) for _ in range(math.prod(shape))]).reshape(shape)
        index = self.new_input(places)
        if how == "index":
            self.call(_index, x, index, dim)
        else:
            self.call(torch.gather if how == "gather" else torch.index_select, x, dim, index)

    def write(self) -> None:
        """By index: some places twice, so that the order of the writes counts."""
        how = self.choices.pick(("scatter", "scatter_add", "index_copy", "index_add", "index_fill", "put"))
        x = self.any_value(exact="add" in how, rank=1)
        if x is None or x.tensor.numel() == 0:
            return
        dim = self.choices.integer(0, x.tensor.dim() - 1)
        size = x.tensor.shape[dim]
        count = self.choices.integer(1, min(size, 5))
        shape = [count if d == dim else s for d, s in enumerate(x.tensor.shape)] if "scatter" in how else [count]
        places = torch.tensor([self.choices.integer(0, size - 1) for _ in range(math.prod(shape))]).reshape(shape)
        index = self.new_input(places)
        if how == "index_fill":
            self.call(torch.index_fill, x, dim, index, self.choices.pick(scalars_of(x.tensor.dtype)))
        elif "scatter" in how:
            self.call(getattr(torch, how), x, dim, index, x)
        else:
            function = {"index_add": _add_rows, "index_copy": _copy_rows, "put": _put_rows}[how]
            self.call(function, x, dim, index, count)

    def mask(self) -> None:
        """An assignment by a mask of the leading dimensions."""
        x = self.any_value(exact=False, rank=1)
        masks = [v for v in self.values if x and v.tensor.dtype is torch.bool and 0 < v.tensor.dim() <= x.tensor.dim()]
        masks = [v for v in masks if x and x.tensor.shape[: v.tensor.dim()] == v.tensor.shape]
        if x is not None and masks:
            self.call(_put_where, x, self.choices.pick(masks), self.choices.pick(scalars_of(x.tensor.dtype)))

    def window(self) -> None:
        x = self.any_value(exact=False, rank=1)
        if x is None:
            return
        how = self.choices.pick(("pad", "flip", "roll", "unfold", "diagonal", "scatter", "tril"))
        dim, size = x.tensor.dim() - 1, x.tensor.shape[-1]
        if how == "pad":
            self.call(torch.nn.functional.pad, x, (self.choices.integer(-1, 2), self.choices.integer(-1, 3)))
        elif how == "flip":
            self.call(torch.flip, x, (self.choices.integer(0, dim), ))
        elif how == "roll":
            self.call(torch.roll, x, self.choices.integer(-3, 3), self.choices.integer(0, dim))
        elif how == "unfold":
            self.call(torch.Tensor.unfold, x, dim, self.choices.integer(1, max(size, 1)), self.choices.integer(1, 3))
        elif how == "diagonal" and dim:
            self.call(torch.diagonal, x, self.choices.integer(-1, 1), 0, dim)
        elif how == "tril" and dim:
            self.call(self.choices.pick((torch.tril, torch.triu)), x, self.choices.integer(-2, 2))
        elif how == "scatter" and size > 1:
            start, step = self.choices.integer(0, size - 1), self.choices.integer(1, 2)
            self.call(_scatter, x, start, step, self.choices.pick(scalars_of(x.tensor.dtype)))

    def view(self) -> None:
        x = self.any_value(exact=False, rank=1)
        if x is None:
            return
        rank, shape = x.tensor.dim(), x.tensor.shape
        how = self.choices.pick(("flatten", "split", "permute", "slice", "select", "expand", "unsqueeze", "transpose"))
        dim = self.choices.integer(0, rank - 1)
        if how == "flatten":
            self.call(torch.flatten, x)
        elif how == "split":
            factors = [f for f in (2, 3, 4) if shape[dim] and shape[dim] % f == 0]
            if factors and rank < 4:
                factor = self.choices.pick(factors)
                self.call(torch.reshape, x, (*shape[:dim], factor, shape[dim] // factor, *shape[dim + 1 :]))
        elif how == "permute":
            order = list(range(rank))
            turn = self.choices.integer(0, rank - 1)
            self.call(torch.permute, x, (*order[turn:], *order[:turn]))
        elif how == "slice":
            start = self.choices.integer(0, max(shape[dim] - 1, 0))
            self.call(_slice, x, dim, start, self.choices.integer(start, shape[dim]), self.choices.integer(1, 2))
        elif how == "select":
            self.call(torch.select, x, dim, self.choices.integer(-1, 0))
        elif how == "expand" and rank < 4:
            self.call(torch.Tensor.expand, x, (2, *shape))
        elif how == "unsqueeze" and rank < 4:
            self.call(torch.unsqueeze, x, dim)
        elif how == "transpose":
            self.call(torch.transpose, x, 0, dim)


def _to(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)


def _index(x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    return x[(slice(None),) * dim + (index,)]


def _slice(x: torch.Tensor, dim: int, start: int, end: int, step: int) -> torch.Tensor:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def _copy_rows(x: torch.Tensor, dim: int, index: torch.Tensor, count: int) -> torch.Tensor:
    return x.index_copy(dim, index, x.narrow(dim, 0, count))


def _add_rows(x: torch.Tensor, dim: int, index: torch.Tensor, count: int) -> torch.Tensor:
    return x.index_add(dim, index, x.narrow(dim, 0, count))


def _put_rows(x: torch.Tensor, dim: int, index: torch.Tensor, count: int) -> torch.Tensor:
    result = x.clone()
    result[(slice(None),) * dim + (index,)] = x.narrow(dim, 0, count)
    return result


def _put_where(x: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
    result = x.clone()
    result[mask] = value
    return result


def _scatter(x: torch.Tensor, start: int, step: int, value: Any) -> torch.Tensor:
    """A write into a slice, which lowering makes functional."""
    result = x.clone()
    result[..., start::step] = value
    return result


EAGER: dict[str, Callable[..., Any]] = {
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}


def broadcasts(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(one), reversed(other), strict=False))


def has_subnormals(x: torch.Tensor) -> bool:
    return x.dtype.is_floating_point and bool(((x != 0) & (x.abs() < torch.finfo(x.dtype).tiny)).any())


def pool_of(dtype: torch.dtype) -> Sequence[Any]:
    if dtype is torch.bool:
        return (True, False, True)
    if dtype.is_floating_point:
        return FLOATS
    info = torch.iinfo(dtype)
    return (0, 1, 2, 3, 7, 100, info.max, info.min, *(() if info.min == 0 else (-1, -7)))


def scalars_of(dtype: torch.dtype) -> Sequence[Any]:
    if dtype is torch.bool:
        return (True, False)
    return (0.0, 1.0, -1.5, 2.0, 0.7, 3.1, math.inf) if dtype.is_floating_point else (1, 2, 3, 7)
