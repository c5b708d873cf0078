"""torch's ShapeEnv as tracing wants it, and what its private attributes tell of symbolic sizes and of data's numbers.

In: torch >= 2.11. Out: an environment in which sizes stay apart until they have to be equal, and in which each answer
that torch takes for granted about data is noted as a fact (`data_facts`), which the compiled code checks; questions
about symbols, with one meaning on every version of torch.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from .torch_compat import quiet_size_arithmetic


def symbol_hint(shape_env: Any, symbol: Any) -> int | float | None:
    """The value that a size symbol had when it was made; None for one that stands for data (`backed_var_to_val` was
    called `var_to_val` in earlier versions)."""
    table = getattr(shape_env, "backed_var_to_val", None)
    value = (shape_env.var_to_val if table is None else table).get(symbol)
    return None if value is None else int(value) if value.is_integer else float(value)


def is_known_contiguous(tensor: Any) -> bool:
    """Whether a fake tensor is contiguous for all sizes that its symbols may stand for; assumes nothing about them."""
    import torch._prims_common as common

    known = getattr(common, "is_contiguous_or_false", None)
    return bool(known(tensor)) if known is not None else False


def torch_captures(option: str) -> bool:
    """What torch._dynamo.config says of `capture_scalar_outputs` or `capture_dynamic_output_shape_ops`; False where
    nobody has imported it."""
    return bool(getattr(sys.modules.get("torch._dynamo.config"), option, False))


def make_shape_env(scalars: bool, sizes: bool) -> Any:
    """A ShapeEnv for sizes that stay apart until they have to be equal. `scalars`, `sizes`: whether numbers and sizes
    that depend on data become symbols; `data_facts` tells what was taken for granted about those. `offsets`: those that
    stand for storage offsets only."""
    return _shape_env_class()(
        specialize_zero_one=True,
        duck_shape=False,
        allow_scalar_outputs=scalars,
        allow_dynamic_output_shape_ops=sizes,
    )


@functools.cache
def _shape_env_class() -> Any:
    from sympy.logic.boolalg import Boolean
    from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
    from torch.utils._sympy.functions import Max

    class HonestShapeEnv(ShapeEnv):
        """Where torch does not know whether a size that depends on data is 0, or 1, or equal to another, and takes a
        default, that is noted as a fact that the program relies on."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.assumed: dict[Any, None] = {}
            self.offsets: set[Any] = set()

        def evaluate_sym_node(
            self, sym_node: Any, size_oblivious: bool = False, fallback_value: bool | None = None
        ) -> Any:
            expr, result = sym_node.expr, None
            is_default = size_oblivious or fallback_value is not None
            if is_default and expr.has(Max):
                result = self._without_maxima(expr)
            if result is None:
                result = super().evaluate_sym_node(sym_node, size_oblivious, fallback_value)
            if is_default and free_unbacked_symbols(expr) and self._maybe_evaluate_static(expr) is None:
                is_of_few = self._maybe_evaluate_static(expr, size_oblivious=True) is not None
                if not _is_harmless(is_of_few):
                    self.assumed[expr if result else ~expr] = None
            return result

        def _maybe_evaluate_static(self, expr: Any, **options: Any) -> Any:
            """As torch's, which looks long for a proof, the longer the more convolutions a size has gone through; none
            is looked for where two sizes give two answers."""
            if not any(options.values()) and isinstance(expr, Boolean):
                condition = self.replace(expr)
                if _varies(condition, _ranges_of(self, condition)) and not _is_axiom(self, condition, **options):
                    return None
            return super()._maybe_evaluate_static(expr, **options)

        functools.update_wrapper(_maybe_evaluate_static, ShapeEnv._maybe_evaluate_static)  # its cache's methods, too

        def _without_maxima(self, expr: Any) -> Any:
            """The answer for sizes that are not 0, where that makes one: `max(1, n)`, as strides are made, is n."""
            maxima = expr.atoms(Max)
            if not all(1 in term.args and len(term.args) == 2 for term in maxima):
                return None
            sizes = {term: next(arg for arg in term.args if arg != 1) for term in maxima}
            return self._maybe_evaluate_static(expr.xreplace(sizes))

    return HonestShapeEnv


def _ranges_of(shape_env: Any, expr: Any) -> list[tuple[Any, Any]]:
    """The symbols and their ranges; none, where one is no size of an input."""
    symbols = sorted(expr.free_symbols, key=str)
    if not all(symbol in shape_env.backed_var_to_val and shape_env.var_to_range[symbol].is_int for symbol in symbols):
        return []
    return [(symbol, shape_env.var_to_range[symbol]) for symbol in symbols]


def _is_axiom(shape_env: Any, condition: Any, axioms: Any = None, **options: Any) -> bool:
    """Whether it is known, although it does not follow from the ranges."""
    import sympy
    from torch.fx.experimental.symbolic_shapes import canonicalize_bool_expr

    known = shape_env.axioms if axioms is None else {}
    return bool(canonicalize_bool_expr(shape_env.simplify(condition)).xreplace(known) in (sympy.true, sympy.false))


def _varies(condition: Any, ranges: list[tuple[Any, Any]]) -> bool:
    """Whether a condition is true for some sizes in these ranges, and false for others. A no means nothing."""
    found: set[int | None] = set()
    for place in _PLACES if ranges else ():
        found.add(_answer(condition, _sizes(ranges, place)))
        if len(found - {None}) > 1:
            return True
    return False


_PLACES: tuple[Callable[[int], int], ...] = (
    lambda i: 2, lambda i: (2, 997)[i % 2], lambda i: (997, 2)[i % 2], lambda i: 64, lambda i: 5 + i * 37 % 101,
    lambda i: 211 - i * 41 % 97, lambda i: 3 + 1009 * (i * 7 % 5 == 0), lambda i: 3 + 1009 * (i * 7 % 5 == 1),
    lambda i: 1009 - 1006 * (i * 7 % 5 == 2),
)  # fmt: skip
"""Number of a symbol → a size: all alike, all apart, some far larger than the others."""


def _sizes(ranges: list[tuple[Any, Any]], place: Callable[[int], int]) -> dict[Any, int]:
    return {symbol: int(min(max(place(i), found.lower), found.upper)) for i, (symbol, found) in enumerate(ranges)}


def _answer(condition: Any, sizes: dict[Any, int]) -> int | None:
    """1 for yes, -1 for no; of an equation, which side is larger: no proof excludes what lies between two such answers.
    None where the sizes have no answer: they divide by zero."""
    from torch.utils._sympy.interp import sympy_interp
    from torch.utils._sympy.reference import PythonReferenceAnalysis

    try:
        with quiet_size_arithmetic():
            if condition.is_Relational and condition.rel_op in ("==", "!="):
                left, right = (sympy_interp(PythonReferenceAnalysis, sizes, side) for side in condition.args)
                return (left > right) - (left < right)
            return 1 if sympy_interp(PythonReferenceAnalysis, sizes, condition) else -1
    except (ArithmeticError, NotImplementedError, AssertionError):
        return None


_HARMLESS = {
    # Strides only; those of dimensions of size 0 and 1 place no element.
    "torch._prims_common": {
        "compute_elementwise_output_logical_to_physical_perm", "compute_elementwise_output_strides",
    },
    "torch._subclasses.fake_tensor": {"_get_output_tensor_from_cache_entry", "extract_tensor_metadata"},
    # What is not known to be broadcast is checked to be equal; and what is 1 gives the other's size, 1 or not.
    "torch._refs": {"_broadcast_shapes", "should_expand", "contiguous", "tril", "triu"},
    "torch._prims": {"_convert_element_type_meta", "_broadcast_in_dim_meta"},
    "torch._meta_registrations": {"meta_gather", "meta_index_Tensor"},
    __name__: {"is_known_contiguous"},  # its no is a "not known"
    # A slice of which nothing is known has a size of its own; an index is checked by `ir.fake_checks`.
    "torch._subclasses.fake_impls": {
        "infer_size", "fast_binary_impl", "constructors", "_compute_slice_index", "slice_forward", "meta_select",
    },
}  # fmt: skip
"""Module → functions that ask in places where the answer, if it is wrong, changes no value."""


def _is_harmless(of_few: bool) -> bool:
    """Whether one of those functions asks. `of_few`: whether the answer can be wrong only of sizes 0 and 1."""
    frame = sys._getframe(2)
    for _ in range(12):
        if frame is None:
            return False
        name = frame.f_code.co_name
        if name == "should_swap":  # which of two dimensions is the longer one decides about the strides of both
            return of_few
        if str(frame.f_locals.get("file")).endswith("c10/core/Contiguity.h"):
            return True  # after a no, TensorBase.h asks once more for the whole condition
        if name == "is_contiguous_or_false" and frame.f_back and frame.f_back.f_code.co_name == "_view_unbacked_meta":
            return True  # after a no, a view is looked for in another way, or refused
        if name in _HARMLESS.get(frame.f_globals.get("__name__", ""), ()):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def data_facts(env: Any) -> list[Any]:
    """What was taken for granted about numbers that depend on data, as conditions on the symbols."""
    stated = (fact.expr for facts in env.deferred_runtime_asserts.values() for fact in facts)
    offsets: set[Any] = getattr(env, "offsets", set())  # of these, torch says what is so by itself
    found: dict[Any, None] = {}
    for fact in (*stated, *getattr(env, "assumed", ())):
        if offsets.isdisjoint(fact.free_symbols):
            of_inputs = fact.free_symbols & set(env.var_to_sources)
            found[fact.xreplace({symbol: env.replace(symbol) for symbol in of_inputs})] = None
    return list(found)


def take_fresh_symbols(env: Any) -> list[Any]:
    """The symbols for data that were made since the last call."""
    fresh = list(env.pending_fresh_unbacked_symbols)
    env.pending_fresh_unbacked_symbols.clear()
    return fresh


def data_symbols(number: Any) -> set[Any]:
    """The symbols for data in a symbolic number, as it was made: what was learnt since is not put in."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    node = getattr(number, "node", None)
    expr = getattr(node, "_expr", None)
    return free_unbacked_symbols(expr) if expr is not None else set()


def is_decided(condition: torch.SymBool) -> bool:
    """Whether the truth of a condition is known, or can be guarded: it does not hang on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    node = condition.node
    return not free_unbacked_symbols(node.expr) or node.shape_env._maybe_evaluate_static(node.expr) is not None


def depends_on_data(error: BaseException) -> bool:
    """Whether tracing has asked for a number that depends on data."""
    return type(error).__name__ == "GuardOnDataDependentSymNode"
