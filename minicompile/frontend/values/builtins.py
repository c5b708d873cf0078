"""Rules for builtin functions and for the functions of the standard library that Python programs are full of.

In: values. Out: values; registered with `@rule` (see callables).
"""

from __future__ import annotations

import abc
import functools
import math
import operator
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from typing import TYPE_CHECKING, Any

import torch

from ...guards.kinds import ConstantGuard
from .. import directives
from ..breaks import Break, BreakKind, unsupported_call
from ..class_lookup import static_lookup
from ..computed_sources import CallSource
from ..data_dependent import ConditionValue
from .annotations import AnnotationValue
from .base import Kwargs, NotConstant, Value, fail, fail_as
from .callables import RULES, Rule, class_object, rule
from .computed import call_computed
from .constant import ConstantValue, OpenValue, SymIntValue, specialized
from .data_floats import call_data_float
from .iterators import EnumerateValue, FilterValue, IteratorValue, MapValue, ReversedValue, ZipValue, steps
from .objects import ObjectValue, is_open_class
from .protocols import conforms, is_checked_protocol

if TYPE_CHECKING:
    from ..tracer import Tracer

# ---- rules for what the program says to the compiler ----


@rule(directives.graph_break)
def _graph_break(tr: Tracer) -> Value:
    raise Break(BreakKind.EXPLICIT, "The program asks for a graph break here.")


@rule(directives.is_compiling)
def _is_compiling(tr: Tracer) -> Value:
    return ConstantValue(True)


# ---- rules for builtins ----


@rule(len)
def _len(tr: Tracer, value: Value) -> Value:
    from .tensor import TensorValue

    value = value.realize(tr)
    if type(value) is TensorValue and value.fake.dim():
        return tr.number(value.fake.shape[0])
    return ConstantValue(value.length(tr))


@rule(isinstance)
def _isinstance(tr: Tracer, value: Value, classes: Value) -> Value:
    return ConstantValue(is_instance(tr, value.realize(tr), classes.realize(tr)))


def is_instance(tr: Tracer, value: Value, classes: Value) -> bool:
    """`isinstance`: by the object's class, whose rules for abstract classes apply to all its objects."""
    from .containers import SequenceValue
    from .tensor import TensorValue

    if isinstance(classes, SequenceValue):
        return any(is_instance(tr, value, element.realize(tr)) for element in classes.elements)
    wanted: Any = getattr(classes, "cls", None)
    if isinstance(value, TensorValue) and type(wanted).__name__ == "tensortype":  # torch.FloatTensor
        return value.fake.type() == f"{wanted.__module__}.{wanted.__name__}"
    if isinstance(wanted, type) and is_checked_protocol(wanted):
        return conforms(tr, value, wanted)
    return _subclass(tr, value.python_type(), classes) or _says_so(tr, value, classes)


def _says_so(tr: Tracer, value: Value, classes: Value) -> bool:
    """Whether an object whose class defines `__class__` anew gives itself out as one of these."""
    if static_lookup(value.python_type(), "__class__") is object.__dict__["__class__"]:
        return False
    return _subclass(tr, class_object(value.getattr(tr, "__class__").realize(tr)), classes)


@rule(issubclass)
def _issubclass(tr: Tracer, value: Value, classes: Value) -> Value:
    return ConstantValue(_subclass(tr, class_object(value.realize(tr)), classes.realize(tr)))


def _subclass(tr: Tracer, kind: type, classes: Value) -> bool:
    import torch

    from .containers import SequenceValue

    if isinstance(classes, SequenceValue):
        return any(_subclass(tr, kind, element.realize(tr)) for element in classes.elements)
    parts = classes.classes() if isinstance(classes, AnnotationValue) else None
    if parts is not None:
        return any(_subclass(tr, kind, tr.constant(part)) for part in parts)
    wanted = class_object(classes)
    if not isinstance(wanted, type):
        raise unsupported_call("isinstance()", "has a second argument that cannot be traced")
    plain = (type.__instancecheck__, abc.ABCMeta.__instancecheck__)
    if issubclass(wanted, torch.Tensor) and is_open_class(wanted):
        return issubclass(kind, wanted)
    if kind is torch.Tensor and type(wanted).__instancecheck__ not in plain:
        # torch.Tensor has metaclass rules for nn.Parameter and the legacy classes (torch.FloatTensor).
        if wanted is torch.Tensor:
            return True
        if wanted is torch.nn.Parameter or wanted is torch.nn.Buffer:
            return False
        raise unsupported_call("isinstance()", "with this class cannot be traced")
    if type(wanted).__instancecheck__ not in plain:
        if wanted not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise unsupported_call("isinstance()", "with this class cannot be traced")
    found = issubclass(kind, wanted)
    if isinstance(wanted, abc.ABCMeta) and wanted not in kind.__mro__ and not _is_library(wanted):
        call = functools.partial(issubclass, kind, wanted)  # `register` may give it another answer
        tr.guard(ConstantGuard(CallSource(tr.anchor(call)), found))
    return found


def _is_library(cls: type) -> bool:
    package = cls.__module__.partition(".")[0]
    return package in sys.stdlib_module_names or package == "torch"


@rule(type)
def _type(tr: Tracer, value: Value, *rest: Value) -> Value:
    from .new_classes import class_by_call

    if rest:
        return class_by_call(tr, value, *rest)
    return tr.constant(value.realize(tr).python_type())


@rule(getattr)
def _getattr(tr: Tracer, owner: Value, name: Value, default: Value | None = None) -> Value:
    owner = owner.realize(tr)
    key = _string(tr, name)
    if default is None:
        return owner.getattr(tr, key)
    return owner.attribute_or_none(tr, key) or default


@rule(hasattr)
def _hasattr(tr: Tracer, owner: Value, name: Value) -> Value:
    return ConstantValue(owner.realize(tr).has_attr(tr, _string(tr, name)))


@rule(vars)
def _vars(tr: Tracer, owner: Value | None = None) -> Value:
    from .classes import ClassValue

    if owner is None or not isinstance(owner.realize(tr), (ObjectValue, ClassValue)):
        raise unsupported_call("vars()", "of this object cannot be traced")
    return owner.realize(tr).getattr(tr, "__dict__")


@rule(locals)
def _locals(tr: Tracer) -> Value:
    if not tr.frame.code.co_flags & CO_OPTIMIZED:
        raise unsupported_call("locals()", "in a class body cannot be traced")
    return tr.frame.listing(tr)


@rule(setattr)
def _setattr(tr: Tracer, owner: Value, name: Value, value: Value) -> Value:
    owner.realize(tr).setattr(tr, _string(tr, name), value)
    return ConstantValue(None)


@rule(delattr)
def _delattr(tr: Tracer, owner: Value, name: Value) -> Value:
    owner.realize(tr).delattr(tr, _string(tr, name))
    return ConstantValue(None)


def _string(tr: Tracer, value: Value) -> str:
    try:
        text = value.realize(tr).const(tr)
    except NotConstant:
        raise value.cannot("using as an attribute name") from None
    if not isinstance(text, str):
        fail(TypeError("attribute name must be string"))
    return text


@rule(callable)
def _callable(tr: Tracer, value: Value) -> Value:
    return ConstantValue(callable_kind(value.realize(tr).python_type()))


def callable_kind(kind: type) -> bool:
    """Whether objects of this class can be called."""
    return any("__call__" in base.__dict__ for base in kind.__mro__)


@rule(iter)
def _iter(tr: Tracer, value: Value) -> Value:
    return value.realize(tr).iterator(tr).realize(tr)


@rule(next)
def _next(tr: Tracer, iterator: Value, default: Value | None = None) -> Value:
    from .exceptions import stop

    owner = iterator.realize(tr)
    if isinstance(owner, ObjectValue) and default is None:
        method = owner.dunder(tr, "__next__")
        if method is None:
            fail(TypeError(f"'{owner.cls.__name__}' object is not an iterator"), is_exact=True)
        return method.call(tr, [], {})  # with its own StopIteration
    item = owner.next(tr)
    if item is not None:
        return item
    return default if default is not None else stop(tr, owner.returned_value(tr))


@rule(enumerate)
def _enumerate(tr: Tracer, iterable: Value, start: Value | None = None) -> Value:
    from .containers import index_of

    return EnumerateValue(_iter(tr, iterable), index_of(tr, start) if start is not None else 0)


@rule(zip)
def _zip(tr: Tracer, *iterables: Value, strict: Value | None = None) -> Value:
    columns = [_iter(tr, iterable) for iterable in iterables]
    return ZipValue(columns, strict=strict is not None and strict.realize(tr).truth(tr))


@rule(map)
def _map(tr: Tracer, fn: Value, *iterables: Value) -> Value:
    if not iterables:
        fail(TypeError("map() must have at least two arguments."), is_exact=True)
    return MapValue(fn, [_iter(tr, iterable) for iterable in iterables])


@rule(filter)
def _filter(tr: Tracer, fn: Value, iterable: Value) -> Value:
    return FilterValue(fn, _iter(tr, iterable))


@rule(reversed)
def _reversed(tr: Tracer, value: Value) -> Value:
    from .containers import SequenceValue
    from .tensor import TensorValue

    owner = value.realize(tr)
    if isinstance(owner, TensorValue):  # not an iterator: the elements in another order, a tensor
        return owner.getattr(tr, "__reversed__").call(tr, [], {})
    if not isinstance(owner, ObjectValue):
        kind = owner.python_type()
        if not hasattr(kind, "__reversed__") and not (hasattr(kind, "__getitem__") and hasattr(kind, "__len__")):
            fail(TypeError(f"'{kind.__name__}' object is not reversible"), is_exact=True)
        if isinstance(owner, SequenceValue) and owner.kind in (list, tuple):
            return ReversedValue(owner)
        return _iterator(_all(tr, owner)[::-1])
    own = owner.dunder(tr, "__reversed__")
    if own is not None:
        return own.call(tr, [], {}).realize(tr)
    if owner.dunder(tr, "__len__") is None or owner.dunder(tr, "__getitem__") is None:
        fail(TypeError(f"'{owner.cls.__name__}' object is not reversible"), is_exact=True)
    count = owner.length(tr)
    return _iterator([owner.getitem(tr, ConstantValue(index)) for index in reversed(range(count))])


def _iterator(items: list[Value]) -> Value:
    return IteratorValue(None, items)


def _all(tr: Tracer, value: Value) -> list[Value]:
    return value.realize(tr).items(tr)


def each(tr: Tracer, iterable: Value) -> Iterator[Value]:
    """The elements of an iterable, each asked for when its predecessor has been dealt with, as Python does."""
    for item in steps(tr, _iter(tr, iterable)):
        yield item.realize(tr)


def _in_any_order(tr: Tracer, iterable: Value, key: Value | None) -> Iterator[Value] | list[Value]:
    """The elements of an iterable for what compares them with each other; of a set of ints or of texts, which are all
    different, in some order."""
    from .containers import SetValue

    value = iterable.realize(tr)
    is_by_itself = key is None or isinstance(key.realize(tr), ConstantValue)
    if isinstance(value, SetValue) and is_by_itself and {type(item) for item in value.entries} in ({int}, {str}):
        return list(value.entries.values())
    return each(tr, iterable)


@rule(list)
def _list(tr: Tracer, iterable: Value | None = None) -> Value:
    from .containers import SequenceValue

    return SequenceValue(list, _all(tr, iterable) if iterable is not None else [])


@rule(tuple)
def _tuple(tr: Tracer, iterable: Value | None = None) -> Value:
    from .containers import SequenceValue

    value = iterable.realize(tr) if iterable is not None else SequenceValue(tuple, [])
    if isinstance(value, SequenceValue) and value.kind is tuple:
        return value
    return SequenceValue(tuple, value.items(tr))


@rule(set)
def _set(tr: Tracer, iterable: Value | None = None) -> Value:
    from .containers import set_of

    return set_of(tr, set, iterable)


@rule(frozenset)
def _frozenset(tr: Tracer, iterable: Value | None = None) -> Value:
    from .containers import set_of

    return set_of(tr, frozenset, iterable)


@rule(dict)
def _dict(tr: Tracer, source: Value | None = None, /, **named: Value) -> Value:
    from .containers import make_dict, pairs_of

    pairs = pairs_of(tr, source.realize(tr)) if source is not None else []
    return make_dict(tr, [*pairs, *((ConstantValue(name), value) for name, value in named.items())])


@rule(OrderedDict)
def _ordered_dict(tr: Tracer, source: Value | None = None, /, **named: Value) -> Value:
    from .containers import make_dict, pairs_of

    pairs = pairs_of(tr, source.realize(tr)) if source is not None else []
    return make_dict(tr, [*pairs, *((ConstantValue(name), value) for name, value in named.items())], OrderedDict)


@rule(defaultdict)
def _defaultdict(tr: Tracer, factory: Value | None = None, source: Value | None = None, /) -> Value:
    from .containers import make_dict, pairs_of

    result = make_dict(tr, pairs_of(tr, source.realize(tr)) if source is not None else [], defaultdict)
    is_none = factory is None or isinstance(factory.realize(tr), ConstantValue)
    result.factory = None if is_none else factory
    return result


@rule(slice)
def _slice(tr: Tracer, *parts: Value) -> Value:
    from .containers import SliceValue

    none = ConstantValue(None)
    start, stop, step = (none, *parts, none) if len(parts) == 1 else (*parts, none)[:3]
    return SliceValue((start.realize(tr), stop.realize(tr), step.realize(tr)))


@rule(range)
def _range(tr: Tracer, *parts: Value) -> Value:
    numbers = [specialized(tr, part.realize(tr).as_index(tr)) for part in parts]
    return tr.fold(range, *numbers)


@rule(bool)
def _bool(tr: Tracer, value: Value | None = None) -> Value:
    return ConstantValue(value.realize(tr).truth(tr) if value is not None else False)


@rule(int)
def _int(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and not kwargs and isinstance(args[0].realize(tr), SymIntValue):
        return args[0].realize(tr)
    found = call_data_float(tr, int, list(args)) or call_computed(tr, int, list(args)) if not kwargs else None
    return found or _number(tr, int, args, kwargs)


@rule(float)
def _float(tr: Tracer, *args: Value) -> Value:
    found = call_data_float(tr, float, list(args)) or call_computed(tr, float, list(args))
    return found or _number(tr, float, args, {})


@rule(complex)
def _complex(tr: Tracer, *args: Value) -> Value:
    return _number(tr, complex, args, {})


def _number(tr: Tracer, kind: type, args: tuple[Value, ...], kwargs: Kwargs) -> Value:
    from .tensor import TensorValue, read_number

    if len(args) == 1 and not kwargs and isinstance(args[0].realize(tr), ObjectValue):
        return _number_of_object(tr, kind, args[0].realize(tr))
    for arg in args:
        value = arg.realize(tr)
        if isinstance(value, TensorValue):
            number = read_number(tr, value, f"__{kind.__name__}__") if len(args) == 1 and not kwargs else None
            if number is not None:
                return number
            raise Break(BreakKind.VALUE, f"{kind.__name__}() reads the numbers of {value.describe()}.")
    return tr.fold(kind, *[specialized(tr, arg.realize(tr)) for arg in args], **kwargs)


def _number_of_object(tr: Tracer, kind: type, owner: Value) -> Value:
    """What `__int__`, `__float__` or `__complex__` says, and `__index__` where there is none."""
    assert isinstance(owner, ObjectValue)
    own = owner.dunder(tr, f"__{kind.__name__}__") or (owner.dunder(tr, "__float__") if kind is complex else None)
    number = own.call(tr, [], {}).realize(tr) if own is not None else owner.as_index(tr)
    return tr.fold(kind, specialized(tr, number))


@rule(any)
def _any(tr: Tracer, iterable: Value) -> Value:
    return ConstantValue(any(item.truth(tr) for item in each(tr, iterable)))


@rule(all)
def _all_true(tr: Tracer, iterable: Value) -> Value:
    return ConstantValue(all(item.truth(tr) for item in each(tr, iterable)))


@rule(sum)
def _sum(tr: Tracer, iterable: Value, start: Value | None = None) -> Value:
    from ..operators import binary

    result: Value = start.realize(tr) if start is not None else ConstantValue(0)
    for item in each(tr, iterable):
        result = binary(tr, operator.add, result, item)
    return result


@rule(math.prod)
def _product(tr: Tracer, iterable: Value, *, start: Value | None = None) -> Value:
    from ..operators import binary

    result: Value = start.realize(tr) if start is not None else ConstantValue(1)
    for item in each(tr, iterable):
        result = binary(tr, operator.mul, result, item)
    return result


def _extreme(fn: Any, op: Any, pick: Any) -> Rule:
    """The rule of `max` or `min`, of which `op` says what is better; `pick` is torch's of symbolic sizes."""

    def trace(tr: Tracer, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
        if not args:
            fail_as(fn)
        measure = key.realize(tr) if key is not None and not isinstance(key.realize(tr), ConstantValue) else None
        values, keys = [], []
        for value in _in_any_order(tr, args[0], key) if len(args) == 1 else [arg.realize(tr) for arg in args]:
            values.append(value)
            keys.append(measure.call(tr, [value], {}).realize(tr) if measure is not None else value)
        if not values:
            if default is not None:
                return default
            fail_as(fn, [])
        open_extreme = _extreme_of_sizes(tr, pick, values) if measure is None else None
        if open_extreme is not None:
            return open_extreme
        return _first_best(tr, fn, op, values, keys, is_by_itself=measure is None)

    return trace


def _first_best(tr: Tracer, fn: Any, op: Any, values: list[Value], keys: list[Value], is_by_itself: bool) -> Value:
    """The first of the values whose key no other one's is better than. `is_by_itself`: each is its own key."""
    from ..operators import binary

    best = 0
    for index in range(1, len(values)):
        is_better = binary(tr, op, keys[index], keys[best])
        if isinstance(is_better, ConditionValue) and is_by_itself:
            of_floats = call_data_float(tr, fn, values)
            if of_floats is None:
                why = "gets a number that depends on data, and one of another kind"
                raise unsupported_call(f"{fn.__name__}()", why)
            return of_floats
        if is_better.truth(tr):
            best = index
    return values[best]


def _extreme_of_sizes(tr: Tracer, pick: Any, values: list[Value]) -> Value | None:
    """The largest or smallest of ints of which some are open, which it leaves open; None for anything else."""
    if not any(isinstance(value, SymIntValue) for value in values) or len(values) == 1:
        return None
    numbers = [value.sym if isinstance(value, SymIntValue) else getattr(value, "value", None) for value in values]
    if not all(type(number) in (int, torch.SymInt) for number in numbers):
        return None
    return tr.number(functools.reduce(pick, numbers))


RULES[max] = _extreme(max, operator.gt, torch.sym_max)
RULES[min] = _extreme(min, operator.lt, torch.sym_min)


@rule(sorted)
def _sorted(tr: Tracer, iterable: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    from ..operators import sorted_values
    from .containers import SequenceValue

    return SequenceValue(list, sorted_values(tr, list(_in_any_order(tr, iterable, key)), key, reverse))


@rule(abs, operator.abs)
def _abs(tr: Tracer, value: Value) -> Value:
    from .tensor import TensorValue

    value = value.realize(tr)
    if isinstance(value, TensorValue):
        return tr.torch_call(operator.abs, [value], {})
    if isinstance(value, SymIntValue):
        return tr.number(abs(value.sym))
    own = value.dunder(tr, "__abs__") if isinstance(value, ObjectValue) else None
    if own is not None:
        return own.call(tr, [], {})
    return call_data_float(tr, abs, [value]) or call_computed(tr, abs, [value]) or tr.fold(abs, value)


@rule(pow)
def _pow(tr: Tracer, base: Value, exponent: Value) -> Value:
    from ..operators import binary

    return binary(tr, operator.pow, base.realize(tr), exponent.realize(tr))


@rule(divmod)
def _divmod(tr: Tracer, left: Value, right: Value) -> Value:
    from ..operators import binary
    from .containers import SequenceValue

    a, b = left.realize(tr), right.realize(tr)
    for value, other, name in ((a, b, "__divmod__"), (b, a, "__rdivmod__")):
        own = value.dunder(tr, name) if isinstance(value, ObjectValue) else None
        if own is not None:
            return own.call(tr, [other], {})
    if not all(isinstance(value, (ConstantValue, OpenValue)) for value in (a, b)):
        raise unsupported_call("divmod()")
    return SequenceValue(tuple, [binary(tr, operator.floordiv, a, b), binary(tr, operator.mod, a, b)])


@rule(super)
def _super(tr: Tracer, *args: Value) -> Value:
    from .classes import class_of_value
    from .supers import SuperValue

    if len(args) == 2:
        return SuperValue(class_of_value(args[0].realize(tr)), args[1].realize(tr))
    if args:
        raise unsupported_call("super() with one argument")
    cls, owner = tr.frame.super_arguments(tr)
    return SuperValue(class_of_value(cls.realize(tr)), owner.realize(tr))


@rule(functools.partial)
def _partial(tr: Tracer, fn: Value, *args: Value, **kwargs: Value) -> Value:
    from .functions import PartialValue

    inner = fn.realize(tr)
    if isinstance(inner, PartialValue):  # CPython keeps the innermost function, and all arguments
        return PartialValue(inner.function, [*inner.args, *args], {**inner.kwargs, **kwargs})
    return PartialValue(fn, list(args), kwargs)


@rule(functools.reduce)
def _reduce(tr: Tracer, fn: Value, iterable: Value, initial: Value | None = None) -> Value:
    result = initial
    for item in each(tr, iterable):
        result = item if result is None else fn.realize(tr).call(tr, [result, item], {})
    if result is None:
        fail(TypeError("reduce() of empty iterable with no initial value"), is_exact=True)
    return result
