"""NumPy arrays: tensors to the graph, arrays again where the program gets hold of them.

In: `Tensor.numpy()`, arrays from outside, calls of NumPy's functions. Out: nodes that call `torch._numpy`, with tensors
in the place of arrays.

That module does not agree with NumPy everywhere. So every call is also made with NumPy itself, on arrays of ones of the
same kind: if what comes out has another type, dtype, shape, layout, or shares memory where the node's result does not,
the call is made for real. Where NumPy gives a scalar and no array, so does the compiled code.
"""

from __future__ import annotations

import functools
import operator
import types
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...guards.constants import is_numpy_number
from ...guards.kinds import ConstantGuard
from ...numpy_calls import numpy_function, numpy_method
from ...torch_compat import storage_id
from ..breaks import Break, BreakKind, unsupported_call
from ..computed_sources import HelperSource
from ..sources import AttrSource
from .base import Args, BoundMethod, Kwargs, NotConstant, Value, fail
from .classes import ClassValue
from .constant import ConstantValue
from .containers import SequenceValue, SliceValue
from .numpy_scalars import as_operand, folded
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_BINARY = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.truediv: "true_divide",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "power", operator.matmul: "matmul",
    operator.lt: "less", operator.le: "less_equal", operator.gt: "greater", operator.ge: "greater_equal",
    operator.eq: "equal", operator.ne: "not_equal", operator.and_: "bitwise_and", operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor", operator.lshift: "left_shift", operator.rshift: "right_shift",
}  # fmt: skip
_IN_PLACE = {
    operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul,
    operator.itruediv: operator.truediv, operator.ifloordiv: operator.floordiv, operator.imod: operator.mod,
    operator.ipow: operator.pow, operator.imatmul: operator.matmul, operator.iand: operator.and_,
    operator.ior: operator.or_, operator.ixor: operator.xor, operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}  # fmt: skip
_UNARY = {operator.neg: "negative", operator.pos: "positive", operator.invert: "invert"}
_METHODS = frozenset(
    {
        "all", "any", "argmax", "argmin", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal",
        "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum",
        "swapaxes", "take", "trace", "transpose", "var", "fill",
    }
)  # fmt: skip
_UNSURE = frozenset(
    {
        "argsort", "from_dlpack", "empty", "empty_like",
        "angle", "cbrt", "convolve", "divmod", "fix", "heaviside", "inner", "modf", "sign",
    }
)  # fmt: skip
"""Functions whose result NumPy leaves open (the order of equal elements, what memory holds), and those that were seen
to give other numbers in torch: for NaN, infinities, negative numbers."""
_READS = frozenset({"item", "tolist", "tobytes"})


@functools.cache
def _functions() -> dict[int, str]:
    """The ids of NumPy's functions that torch has, with their names."""
    import numpy
    import torch._numpy as ours

    found: dict[int, str] = {}
    for name in dir(ours):
        function = getattr(numpy, name, None)
        if not name.startswith("_") and name not in _UNSURE and callable(function) and not isinstance(function, type):
            found.setdefault(id(function), name)
    return found


def numpy_name(obj: Any) -> str | None:
    """The name of a function of NumPy that may be part of a graph."""
    kind = type(obj)
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        is_theirs = str(obj.__module__).split(".")[0] == "numpy"
    else:
        is_theirs = kind.__module__ == "numpy"
    return _functions().get(id(obj)) if is_theirs else None


class ArrayValue(Value):
    """An array, or (`is_scalar`) one of NumPy's scalars. `tensor` is its memory."""

    def __init__(self, tensor: TensorValue, is_scalar: bool = False, source: Source | None = None) -> None:
        self.tensor = tensor
        self.is_scalar = is_scalar
        self.source = source

    def python_type(self) -> type:
        import numpy

        return type(_example(self)[()]) if self.is_scalar else numpy.ndarray

    def truth(self, tr: Tracer) -> bool:
        raise Break(BreakKind.BRANCH, f"A branch depends on the numbers in {self.describe()}.")

    def getattr(self, tr: Tracer, name: str) -> Value:
        fake = self.tensor.fake
        if name == "shape":
            return SequenceValue(tuple, [tr.number(size) for size in fake.shape])
        if name in ("ndim", "size", "dtype", "itemsize", "nbytes"):
            return ConstantValue(getattr(_example(self), name))
        if name == "T":
            return _method(tr, self, "transpose", [], {})
        if name in _READS:
            raise Break(BreakKind.VALUE, f"ndarray.{name}() reads the numbers of {self.describe()}.")
        if name in _METHODS:
            return _ArrayMethod(self, name)
        raise self.cannot(f"reading attribute {name!r}")

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(_example(self), name)

    def length(self, tr: Tracer) -> int:
        if not self.tensor.fake.dim():
            fail(TypeError("len() of unsized object"), is_exact=True)
        return int(self.tensor.fake.shape[0])

    def items(self, tr: Tracer) -> list[Value]:
        if not self.tensor.fake.dim():
            fail(TypeError("iteration over a 0-d array"), is_exact=True)
        return [self.getitem(tr, ConstantValue(index)) for index in range(self.length(tr))]

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return _method(tr, self, "__getitem__", [key], {})

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        _method(tr, self, "__setitem__", [key, value], {})

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if op in _UNARY:
            return call_numpy(tr, _UNARY[op], [self], {})
        if op in _IN_PLACE:
            op = _IN_PLACE[op]
            if not self.is_scalar and not swapped:
                return _in_place(tr, op, self, other)
        if op not in _BINARY:
            raise self.cannot(op.__name__)
        return call_numpy(tr, _BINARY[op], [other, self] if swapped else [self, other], {})

    def build(self, glue: Glue) -> str:
        text = f"{glue.ref(self.tensor)}.numpy()"
        return f"{text}[()]" if self.is_scalar else text


class _ArrayMethod(BoundMethod):
    owner: ArrayValue

    def python_type(self) -> type:
        return types.BuiltinFunctionType

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return _method(tr, self.owner, self.name, args, kwargs)


# ---- between tensors and arrays ----


def outside_array(tr: Tracer, obj: Any, source: Source) -> Value | None:
    """An array that existed before the frame. None for one that no tensor can show."""
    try:
        with _disable_current_modes():
            tensor = torch.from_numpy(obj) if obj.flags.writeable else None
    except (TypeError, ValueError):
        tensor = None
    if tensor is None:
        return None
    tr.guard_type(source, obj)
    tr.guard(ConstantGuard(AttrSource(AttrSource(source, "flags"), "writeable"), True))
    value = tr.graph.tensor_input(tr, tensor, HelperSource(source, "__from_numpy__"))
    return ArrayValue(value, source=source)


def drawn_array(tr: Tracer, array: Any, source: Source) -> Value | None:
    """An array that each call draws anew, always of this kind. None for one that no tensor can show."""
    try:
        with _disable_current_modes():
            tensor = torch.from_numpy(array)
    except TypeError:
        return None
    return ArrayValue(tr.graph.drawn_input(tr, tensor, HelperSource(source, "__from_numpy__")), source=source)


def of_tensor(tr: Tracer, tensor: TensorValue) -> Value:
    """`tensor.numpy()`: an array over the same memory."""
    fake = tensor.fake
    is_plain = fake.device.type == "cpu" and not (fake.requires_grad or fake.is_conj() or fake.is_neg())
    if not is_plain or fake.dtype in (torch.bfloat16, torch.complex32):
        raise Break(BreakKind.VALUE, f"Tensor.numpy() of {tensor.describe()} cannot be part of a graph.")
    return ArrayValue(tensor)


def to_tensor(tr: Tracer, array: ArrayValue, *, copied: bool) -> Value:
    """A new tensor object over the array's memory, or a copy of it."""
    if array.is_scalar:
        raise array.cannot("making a tensor")
    return tr.torch_call("clone" if copied else "detach", [array.tensor], {})


# ---- calls ----


def _method(tr: Tracer, owner: ArrayValue, name: str, args: Args, kwargs: Kwargs) -> Value:
    return _Call(tr, name, [owner, *args], kwargs, is_method=True).run()


def call_numpy(tr: Tracer, name: str, args: Args, kwargs: Kwargs) -> Value:
    """`numpy.name(*args, **kwargs)`. Raises Break where torch does not give what NumPy does."""
    import numpy

    number = folded(tr, getattr(numpy, name), args, kwargs)
    return number if number is not None else _Call(tr, name, args, kwargs, is_method=False).run()


def _in_place(tr: Tracer, op: Any, owner: ArrayValue, other: Value) -> Value:
    """`owner op= other`: the result, in the type that the operands give it, cast into the array's memory."""
    call = _Call(tr, _BINARY[op], [owner, other], {}, is_method=False)
    call.check_cast()
    result = call.run()
    assert isinstance(result, ArrayValue)
    tr.torch_call("copy_", [owner.tensor, result.tensor], {})
    return owner


class _Call:
    """One call, of torch's function in the graph and of NumPy's on examples."""

    def __init__(self, tr: Tracer, name: str, args: Args, kwargs: Kwargs, *, is_method: bool) -> None:
        self.tr = tr
        self.name = name
        self.is_method = is_method
        self.args = [arg.realize(tr) for arg in args]
        self.kwargs = {key: value.realize(tr) for key, value in kwargs.items()}
        self.arrays: list[tuple[ArrayValue, Any]] = []

    def refuse(self, why: str) -> Break:
        return unsupported_call(f"numpy.{'ndarray.' * self.is_method}{self.name}()", why)

    def run(self) -> Value:
        self._check_form()
        args = [self._example(arg) for arg in self.args]
        expected = self._expected(args, {key: self._example(value) for key, value in self.kwargs.items()})
        target = numpy_method if self.is_method else numpy_function
        operands = [ConstantValue(self.name), *map(self._operand, self.args)]
        named = {key: self._operand(value) for key, value in self.kwargs.items()}
        made = self.tr.torch_call(target, operands, named)
        return self._value(made.realize(self.tr), expected)

    def _check_form(self) -> None:
        import numpy

        function = None if self.is_method else getattr(numpy, self.name)
        is_given_out = isinstance(function, numpy.ufunc) and len(self.args) > function.nin
        if "out" in self.kwargs or is_given_out:
            raise self.refuse("writes into an argument")
        is_array = [isinstance(arg, ArrayValue) for arg in self.args]
        if self.name == "dot" and not all(is_array):
            raise self.refuse("gets a plain number")
        if self.name in ("round", "around") and len(self.args) > 1:
            raise self.refuse("rounds to a given number of digits")

    def _example(self, value: Value) -> Any:
        if isinstance(value, ArrayValue):
            made = _example(value)
            self.arrays.append((value, made))
            return made[()] if value.is_scalar else made
        if isinstance(value, SequenceValue) and value.kind in (list, tuple):
            return value.kind(self._example(element.realize(self.tr)) for element in value.elements)
        if isinstance(value, SliceValue):
            return slice(*(part.const(self.tr) for part in value.parts))
        if isinstance(value, ClassValue):
            return value.cls
        try:
            return value.const(self.tr)
        except NotConstant:
            raise self.refuse(f"gets {value.describe()}") from None

    def _expected(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        import numpy

        try:
            if self.is_method:
                return getattr(args[0], self.name)(*args[1:], **kwargs)
            return getattr(numpy, self.name)(*args, **kwargs)
        except Exception as error:  # the program's mistake, or what ones alone get wrong: the real call will tell
            raise self.refuse("raises an error for arrays of ones") from error

    def check_cast(self) -> None:
        """That the function, if it is one of two operands, may write its result into the first one."""
        import numpy

        owner, other = (self._example(arg) for arg in self.args)
        try:
            getattr(numpy, self.name)(owner, other, out=owner, casting="same_kind")
        except Exception as error:  # as above
            raise self.refuse("raises an error for arrays of ones") from error

    def _operand(self, value: Value) -> Value:
        """As an operand of the node: arrays as tensors, types as their names."""
        import numpy

        if isinstance(value, ArrayValue):
            return value.tensor
        if isinstance(value, SequenceValue) and value.kind in (list, tuple):
            return SequenceValue(value.kind, [self._operand(element.realize(self.tr)) for element in value.elements])
        kind = value.cls if isinstance(value, ClassValue) else value.value if isinstance(value, ConstantValue) else None
        if isinstance(kind, (type, numpy.dtype)):
            return ConstantValue(numpy.dtype(kind).name)
        if isinstance(kind, numpy.generic):
            if not isinstance(value, ConstantValue) or not is_numpy_number(kind):
                raise self.refuse("gets a scalar of NumPy's")
            is_operand = not self.is_method and isinstance(getattr(numpy, self.name), numpy.ufunc)
            return as_operand(self.tr, kind) if is_operand else ConstantValue(kind.item())
        return value

    def _value(self, made: Value, expected: Any) -> Value:
        """The result, which has to be what NumPy gives."""
        import numpy

        if isinstance(made, TensorValue) and isinstance(expected, (numpy.ndarray, numpy.generic)):
            return self._array(made, expected)
        if isinstance(made, SequenceValue) and isinstance(expected, (list, tuple)) and type(expected) is made.kind:
            parts = [item.realize(self.tr) for item in made.elements]
            if len(parts) == len(expected):
                return SequenceValue(made.kind, [self._value(*pair) for pair in zip(parts, expected, strict=True)])
        if isinstance(made, ConstantValue) and type(made.value) is type(expected) and made.value == expected:
            return made
        raise self.refuse("gives something else in torch than in NumPy")

    def _array(self, made: TensorValue, expected: Any) -> Value:
        import numpy

        for value, example in self.arrays:
            if example is expected:
                return value
        is_scalar = isinstance(expected, numpy.generic)
        fake, like = made.fake, numpy.asarray(expected)
        if fake.dtype is not torch.from_numpy(like.copy()).dtype or tuple(fake.shape) != like.shape:
            raise self.refuse("gives another dtype or shape in torch than in NumPy")
        shares = [numpy.shares_memory(like, example) for _, example in self.arrays]
        if not is_scalar and shares != [storage_id(fake) == storage_id(value.tensor.fake) for value, _ in self.arrays]:
            raise self.refuse("shares memory in torch otherwise than in NumPy")
        if not like.flags.writeable and not is_scalar:
            raise self.refuse("gives an array that cannot be written to")
        if not is_scalar and not _same_layout(fake, like):
            raise self.refuse("lays out its result in torch otherwise than in NumPy")
        return ArrayValue(made, is_scalar)


def _example(value: ArrayValue) -> Any:
    """An array of ones of the same kind."""
    fake = value.tensor.fake
    sizes, strides = [int(size) for size in fake.shape], [int(stride) for stride in fake.stride()]
    with _disable_current_modes(), torch.no_grad():
        return torch.empty_strided(sizes, strides, dtype=fake.dtype).fill_(1).numpy()


def _same_layout(fake: torch.Tensor, array: Any) -> bool:
    pairs = zip(fake.shape, fake.stride(), array.strides, strict=True)
    return not array.size or all(size == 1 or stride * array.itemsize == other for size, stride, other in pairs)


__all__ = ["ArrayValue", "call_numpy", "numpy_name", "of_tensor", "outside_array", "to_tensor"]
