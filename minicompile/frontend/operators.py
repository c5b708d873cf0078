"""Operators on values: arithmetic, comparison, identity, sorting.

In: a function of the `operator` module and its operands. Out: a folded constant, a graph node, a new container, or the
result of the user's own `__add__` and the like, inlined.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable
from functools import cmp_to_key
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from .breaks import unsupported
from .class_lookup import static_lookup
from .values.annotations import AnnotationValue
from .values.base import NotConstant, OpaqueValue, Value, fail
from .values.callables import CallableValue
from .values.constant import ConstantValue, OpenValue, SymIntValue
from .values.containers import DictValue, SequenceValue, SetValue, make_set, specialized
from .values.objects import ObjectValue, dunder_names
from .values.tensor import TensorValue
from .values.tensor_subclasses import answer_of_class

if TYPE_CHECKING:
    from .tracer import Tracer

BY_SYMBOL: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "<<=": operator.ilshift, ">>=": operator.irshift, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

_IN_PLACE = {
    fn: BY_SYMBOL[text[:-1]]
    for text, fn in BY_SYMBOL.items()
    if text.endswith("=") and text[:-1] in BY_SYMBOL and text not in ("<=", ">=")
}
COMPARISONS = {operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge}
_SWAPPED = {
    operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge, operator.ge: operator.le,
    operator.eq: operator.eq, operator.ne: operator.ne,
}  # fmt: skip
UNARY = {"UNARY_NEGATIVE": operator.neg, "UNARY_POSITIVE": operator.pos, "UNARY_INVERT": operator.invert}


def binary(tr: Tracer, op: Callable[..., Any], left: Value, right: Value) -> Value:
    """`op(left, right)`; an in-place operator mutates where the type does, else makes a new object."""
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        return _tensor_binary(tr, op, left, right)
    if type(left) is ConstantValue and type(right) is ConstantValue:
        return tr.fold(_IN_PLACE.get(op, op), left, right)
    if op in _IN_PLACE and _answers_first(op, left, right) and not _changes_itself(tr, op, left):
        return binary(tr, _IN_PLACE[op], left, right)
    result = _answer(tr, op, left, right)
    if result is not None:
        return result
    if op in _IN_PLACE:
        return binary(tr, _IN_PLACE[op], left, right)
    return _fold_or_compare(tr, op, left, right)


def _answer(tr: Tracer, op: Callable[..., Any], left: Value, right: Value) -> Value | None:
    """What one of the operands says; None if neither knows."""
    ways = [(left, right, False), (right, left, True)]
    is_turned = op not in _IN_PLACE and _answers_first(op, left, right)
    for value, other, swapped in reversed(ways) if is_turned else ways:
        result = value.binary(tr, op, other, swapped)
        if result is not None:
            return result
    return None


def _answers_first(op: Callable[..., Any], left: Value, right: Value) -> bool:
    """Whether the right operand is asked first: its class derives from the left one's, and has a word of its own."""
    if not isinstance(right, ObjectValue) or isinstance(left, OpaqueValue):
        return False
    kind = left.python_type()
    if kind is right.cls or not issubclass(right.cls, kind):
        return False
    if op in COMPARISONS:
        return True
    name = dunder_names(_IN_PLACE.get(op, op), True)[0]
    own = static_lookup(right.cls, name)
    return isinstance(own, FunctionType) and own is not static_lookup(kind, name)


def _changes_itself(tr: Tracer, op: Callable[..., Any], left: Value) -> bool:
    """Whether the left operand of an in-place operator has a method for it."""
    if isinstance(left, ObjectValue):
        return left.dunder(tr, dunder_names(op, False)[0]) is not None
    return isinstance(left, (SequenceValue, DictValue, SetValue))


def _tensor_binary(tr: Tracer, op: Callable[..., Any], left: Value, right: Value) -> Value:
    own = answer_of_class(tr, op, left, right)
    if own is not None:
        return own
    other = right if isinstance(left, TensorValue) else left
    is_text = isinstance(other, (ConstantValue, OpenValue)) and issubclass(other.python_type(), (str, bytes))
    is_none = isinstance(other, ConstantValue) and other.value is None
    if op in (operator.eq, operator.ne) and (is_none or is_text):
        return ConstantValue(op is operator.ne)
    if is_text:  # `"%s" % tensor` would show the fake one
        raise unsupported(f"{op.__name__} of {left.describe()} and {right.describe()} cannot be traced.")
    if isinstance(other, ObjectValue):
        return _tensor_with_object(tr, op, left, right, other)
    if not isinstance(left, TensorValue):  # `0 += tensor` makes a new object, and FX could not even print it
        op = _IN_PLACE.get(op, op)
    return tr.torch_call(op, [left, right], {})


def _tensor_with_object(
    tr: Tracer, op: Callable[..., Any], left: Value, right: Value, other: ObjectValue
) -> Value:
    """A tensor and an object that a tensor's operators know nothing of: it is the object that answers."""
    if hasattr(other.cls, "__torch_function__") and other is right:
        return tr.torch_call(op, [left, right], {})
    if hasattr(other.cls, "__torch_function__"):
        raise unsupported(f"{op.__name__} with {other.describe()}, which overrides torch, cannot be traced.")
    plain = _IN_PLACE.get(op, op) if isinstance(left, TensorValue) else op
    result = other.binary(tr, plain, left if other is right else right, other is right)
    if result is None and op in _IN_PLACE and other is left:
        result = other.binary(tr, _IN_PLACE[op], right, False)
    if result is None and op in (operator.eq, operator.ne):
        return ConstantValue(op is operator.ne)
    if result is None:
        raise unsupported(f"{op.__name__} of {left.describe()} and {right.describe()} cannot be traced.")
    return result


def _fold_or_compare(tr: Tracer, op: Callable[..., Any], left: Value, right: Value) -> Value:
    if op is operator.mod and isinstance(left, ConstantValue):
        from .values.texts import filled_in

        text = filled_in(tr, left, right)
        if text is not None:
            return text
    is_equality = op in (operator.eq, operator.ne)
    if is_equality and isinstance(left, OpenValue) != isinstance(right, OpenValue) and _differ_in_kind(left, right):
        return ConstantValue(op is operator.ne)
    left, right = specialized(tr, left), specialized(tr, right)
    try:
        return tr.fold(op, left, right)
    except NotConstant:
        pass
    if is_equality:
        for value in (left, right):  # an array, say: not even equal to itself
            if isinstance(value, OpaqueValue) and type(value.obj).__eq__ is not object.__eq__:
                raise value.cannot("comparing")
        return ConstantValue(equal(tr, left, right) == (op is operator.eq))
    raise unsupported(f"{op.__name__} of {left.describe()} and {right.describe()} cannot be traced.")


def unary(tr: Tracer, op: Callable[..., Any], operand: Value) -> Value:
    """`-x`, `+x`, `~x`."""
    if isinstance(operand, TensorValue):
        return tr.torch_call(op, [operand], {})
    if isinstance(operand, SymIntValue):
        # SymInt has no `~`.
        return tr.number(-operand.sym - 1 if op is operator.invert else op(operand.sym))
    special = operand.binary(tr, op, operand, False) if not isinstance(operand, ConstantValue) else None
    return special if special is not None else tr.fold(op, operand)


# ---- equality and identity ----


def same(tr: Tracer, left: Value, right: Value) -> bool:
    """`left is right`. Two different objects from outside are guarded to stay different."""
    left, right = left.realize(tr), right.realize(tr)
    if left is right:
        return True
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return _same_constant(left.value, right.value)
    if isinstance(left, ConstantValue) or isinstance(right, ConstantValue):
        return False
    if isinstance(left, AnnotationValue) and isinstance(right, AnnotationValue):  # typing keeps what it has made
        return left.made is right.made
    tr.guard_distinct(left, right)
    return False


def _same_constant(left: Any, right: Any) -> bool:
    # Small ints and strings are shared by CPython as well; what `is` says about larger ones is nobody's business.
    return left is right or (type(left) is type(right) and left == right and isinstance(left, (int, str, bytes)))


def equal(tr: Tracer, left: Value, right: Value) -> bool:
    """`bool(left == right)`, as `in` and `list.index` ask it (identical objects are equal)."""
    left, right = left.realize(tr), right.realize(tr)
    if left is right:
        return True
    try:
        return bool(left.const(tr) == right.const(tr))
    except NotConstant:
        pass
    if isinstance(left, CallableValue) and isinstance(right, CallableValue):
        return bool(left.fn == right.fn)
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue):
        return _equal_sequences(tr, left, right)
    if isinstance(left, DictValue) and isinstance(right, DictValue):
        if left.kind is right.kind is OrderedDict and list(left.entries) != list(right.entries):
            return False
        return set(left.entries) == set(right.entries) and all(
            equal(tr, value, right.entries[key]) for key, value in left.entries.items()
        )
    if isinstance(left, (TensorValue, OpenValue)) or isinstance(right, (TensorValue, OpenValue)):
        return binary(tr, operator.eq, left, right).truth(tr)
    result = _answer(tr, operator.eq, left, right)
    if result is not None:
        return result.realize(tr).truth(tr)
    return _equal_by_identity(tr, left, right)


def _equal_sequences(tr: Tracer, left: SequenceValue, right: SequenceValue) -> bool:
    if (left.kind is list) != (right.kind is list) or len(left.elements) != len(right.elements):
        return False
    return all(equal(tr, one, other) for one, other in zip(left.elements, right.elements, strict=True))


def _equal_by_identity(tr: Tracer, left: Value, right: Value) -> bool:
    """For objects without an `__eq__` of their own, or whose own has said NotImplemented, as a builtin's does of an
    object of a class of the user's."""
    if isinstance(left, ObjectValue) or isinstance(right, ObjectValue):
        if isinstance(left, (ObjectValue, *_BUILT_IN)) and isinstance(right, (ObjectValue, *_BUILT_IN)):
            return same(tr, left, right)
    for value in (left, right):
        if not _compares_by_identity(value) and not _differ_in_kind(left, right):
            raise value.cannot("comparing")
    return same(tr, left, right)


_BUILT_IN = (ConstantValue, SequenceValue, DictValue, SetValue)


def _compares_by_identity(value: Value) -> bool:
    return value.python_type().__eq__ is object.__eq__


def _differ_in_kind(left: Value, right: Value) -> bool:
    """Whether two values are unequal whatever they hold: what one's `__eq__` knows nothing of, or has no `__eq__`."""
    if isinstance(left, _BUILT_IN) and isinstance(right, _BUILT_IN) and type(left) is not type(right):
        return True
    kinds = [_EQUAL_KINDS.get(value.python_type()) for value in (left, right)]
    if None not in kinds:
        return kinds[0] is not kinds[1]
    return kinds != [None, None] and any(map(_compares_by_identity, (left, right)))


_EQUAL_KINDS: dict[type, type] = {
    **{kind: kind for kind in (str, bytes, list, tuple, dict, set, BuiltinFunctionType, MethodType)},
    **dict.fromkeys((bool, int, float, complex), complex),
    frozenset: set,
}
"""Classes whose `__eq__` knows only objects of its own kind, and that kind."""


# ---- containers ----


def sequence_binary(tr: Tracer, op: Any, value: SequenceValue, other: Value, swapped: bool) -> Value | None:
    """+, *, comparison of lists and tuples."""
    if op in (operator.add, operator.iadd) and isinstance(other, SequenceValue):
        return _concatenate(tr, op, *((other, value) if swapped else (value, other)))
    if op is operator.iadd and value.mutable and not swapped:
        value.getattr(tr, "extend").call(tr, [other], {})
        return value
    if op in (operator.mul, operator.imul):
        other = specialized(tr, other.as_index(tr))
    if op in (operator.mul, operator.imul) and isinstance(other, ConstantValue):
        return _repeat(tr, op, value, other.const(tr))
    if op in COMPARISONS and isinstance(other, SequenceValue):
        return _compare(tr, op, *((other, value) if swapped else (value, other)))
    return None


def _concatenate(tr: Tracer, op: Any, left: SequenceValue, right: SequenceValue) -> Value:
    if op is operator.iadd and left.mutable:
        return _extend_in_place(tr, left, list(right.elements))
    if (left.kind is list) != (right.kind is list):
        kinds = f'"{right.kind.__name__}") to {left.kind.__name__}'
        fail(TypeError(f"can only concatenate {left.kind.__name__} (not {kinds}"))
    from .values.sizes import joined

    elements = [*left.elements, *right.elements]
    return SequenceValue(list, elements) if left.kind is list else joined(tr, (left.kind, right.kind), elements)


def _extend_in_place(tr: Tracer, value: SequenceValue, items: list[Value]) -> Value:
    value.elements.extend(items)
    tr.mutated(value, "{0}.extend({1})", SequenceValue(tuple, items))
    return value


def _repeat(tr: Tracer, op: Any, value: SequenceValue, count: Any) -> Value:
    if not isinstance(count, int):
        fail(TypeError(f"can't multiply sequence by non-int of type '{type(count).__name__}'"))
    if op is operator.imul and value.mutable:
        value.elements *= count
        tr.mutated(value, "{0}.__imul__({1})", ConstantValue(count))
        return value
    from .values.sizes import joined

    elements = value.elements * count
    return SequenceValue(list, elements) if value.kind is list else joined(tr, (value.kind,), elements)


def _compare(tr: Tracer, op: Any, left: SequenceValue, right: SequenceValue) -> Value | None:
    if op in (operator.eq, operator.ne):
        return ConstantValue(equal(tr, left, right) == (op is operator.eq))
    if (left.kind is list) != (right.kind is list):
        fail(TypeError(f"'{op.__name__}' not supported between {left.kind.__name__} and {right.kind.__name__}"))
    for one, other in zip(left.elements, right.elements, strict=False):
        if not equal(tr, one, other):
            return binary(tr, op, one.realize(tr), other.realize(tr))
    return ConstantValue(op(len(left.elements), len(right.elements)))


def dict_binary(tr: Tracer, op: Any, value: DictValue, other: Value, swapped: bool) -> Value | None:
    """`|`, `|=`, `==` of dicts."""
    if not isinstance(other, DictValue):
        return None
    if op is operator.or_:
        first, second = (other, value) if swapped else (value, other)
        result = DictValue(first.kind, {**first.entries, **second.entries})
        result.key_values = {**first.key_values, **second.key_values}
        return result
    if op is operator.ior and not swapped:
        for key, item in other.entries.items():
            value.setitem(tr, other.key_value(tr, key), item)
        return value
    return None


def set_binary(tr: Tracer, op: Any, value: SetValue, other: Value, swapped: bool) -> Value | None:
    """`&`, `|`, `-`, `^` and comparison of sets."""
    if not isinstance(other, SetValue):
        return None
    left, right = (other, value) if swapped else (value, other)
    if op in COMPARISONS:
        return ConstantValue(op(left.entries.keys(), right.entries.keys()))
    plain = _IN_PLACE.get(op, op)
    if plain not in (operator.and_, operator.or_, operator.sub, operator.xor):
        return None
    both = {**right.entries, **left.entries}
    keys, is_known = plain(left.entries.keys(), right.entries.keys()), None not in (left.real, right.real)
    result = make_set(tr, left.kind, [both[key] for key in keys], plain(left.real, right.real) if is_known else None)
    if op is plain or left.kind is frozenset or swapped:
        return result
    left.entries.clear()
    left.entries.update(result.entries)
    name = f"__{op.__name__.strip('_')}__"
    left.real = left.real if is_known else None
    left.follow(name, right.real)
    tr.mutated(left, f"{{0}}.{name}({{1}})", right)
    return left


# ---- sorting, products ----


def sorted_values(tr: Tracer, values: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
    """`sorted()` of values whose keys can be compared while tracing."""
    has_key = key is not None and not _is_none(key.realize(tr))
    keys = [key.realize(tr).call(tr, [v], {}).realize(tr) if has_key and key else v.realize(tr) for v in values]
    backwards = reverse is not None and reverse.realize(tr).truth(tr)

    def compare(one: int, other: int) -> int:
        if binary(tr, operator.lt, keys[one], keys[other]).truth(tr):
            return -1
        return int(binary(tr, operator.lt, keys[other], keys[one]).truth(tr))

    order = sorted(range(len(values)), key=cmp_to_key(compare), reverse=backwards)
    return [values[index] for index in order]


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


def product(tr: Tracer, values: list[Value]) -> Value:
    """The product of numbers."""
    result: Value = ConstantValue(1)
    for value in values:
        result = binary(tr, operator.mul, result, value.realize(tr))
    return result


def swapped_comparison(op: Any) -> Any:
    """The comparison that says the same with its operands exchanged."""
    return _SWAPPED[op]
