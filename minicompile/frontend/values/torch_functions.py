"""Torch functions: what goes into the graph as a call, what is a constant, what is left to be called for real.

In: function objects of torch and values. Out: graph nodes (through the tracer), constants.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import stateless

from .. import torch_polyfills
from ..breaks import Break, BreakKind, unsupported_call
from ..data_dependent import ConditionValue, state
from .base import Args, Kwargs, Value, fail
from .callables import RULES, is_safe_to_hash, rule, traced_as
from .constant import ConstantValue, SymIntValue
from .default_devices import NoConstructors, on_default_device
from .numpy_scalars import with_dtype
from .tensor_literals import tensor_of_numbers

if TYPE_CHECKING:
    from ..tracer import Tracer

_NAMESPACES = (
    "torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch._C._nn", "torch._C._linalg",
    "torch._C._fft", "torch._C._special", "torch._C._VariableFunctions", "torch._VF", "torch.sparse",
)  # fmt: skip

_NOT_OPERATIONS = frozenset(
    {
        "save", "load", "compile", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "typename",
        "is_tensor", "is_storage", "set_default_tensor_type", "set_default_dtype", "set_default_device",
        "set_printoptions", "set_num_threads", "set_num_interop_threads", "get_num_threads", "get_num_interop_threads",
        "get_default_device", "get_default_dtype", "from_numpy", "from_file", "frombuffer", "from_dlpack", "to_dlpack",
        "is_grad_enabled", "is_inference_mode_enabled", "set_grad_enabled", "use_deterministic_algorithms",
        "set_flush_denormal", "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
        "vmap", "cond", "set_float32_matmul_precision", "get_float32_matmul_precision", "set_warn_always",
        "is_warn_always_enabled", "set_deterministic_debug_mode", "get_deterministic_debug_mode",
        "autocast_increment_nesting", "autocast_decrement_nesting", "set_autocast_enabled", "is_autocast_enabled",
        "set_autocast_dtype", "get_autocast_dtype", "is_autocast_cache_enabled", "set_autocast_cache_enabled",
        "clear_autocast_cache", "set_anomaly_enabled", "is_anomaly_enabled", "broadcast_shapes", "broadcast_tensors",
        "import_ir_module", "fork", "wait", "parse_ir", "parse_schema", "merge_type_from_type_comment",
        "unify_type_list", "get_device_module", "handle_torch_function", "has_torch_function",
        "has_torch_function_unary", "has_torch_function_variadic", "boolean_dispatch", "assert_int_or_pair",
        "classproperty", "prepare_multiprocessing_environment", "sym_int", "sym_float", "sym_max", "sym_min", "sym_not",
        "sym_ite", "sym_sqrt", "sym_sum", "sym_fresh_size", "get_file_path", "resize_as_", "resize_as_sparse_",
        "set_vital", "read_vitals", "compiled_with_cxx11_abi", "while_loop",
    }
)  # fmt: skip
"""Functions in torch's namespaces that compute no tensor: state, files, tracing machinery."""

_READS_NUMBERS = frozenset({"equal", "allclose", "is_nonzero"})


@functools.cache
def _operations() -> dict[Any, str]:
    """Function object → its name for the user (`torch.relu`), for everything that may be a node."""
    import importlib

    result: dict[Any, str] = {}
    for namespace in _NAMESPACES:
        owner = _namespace(importlib, namespace)
        for name in dir(owner):
            if name not in _NOT_OPERATIONS and not name.startswith("__"):
                _add_operation(result, owner, namespace, name)
    for name in dir(torch.Tensor):
        method = getattr(torch.Tensor, name)
        if isinstance(method, (types.MethodDescriptorType, types.FunctionType, types.WrapperDescriptorType)):
            result.setdefault(method, f"torch.Tensor.{name}")
    result.pop(torch.Tensor.__new__, None)
    return result


def _namespace(importlib: Any, name: str) -> Any:
    if name.rpartition(".")[0] == "torch._C" or name == "torch._VF":
        return functools.reduce(getattr, name.split(".")[1:], torch)
    return importlib.import_module(name)


def _add_operation(result: dict[Any, str], owner: Any, namespace: str, name: str) -> None:
    value = getattr(owner, name, None)
    if isinstance(value, types.BuiltinFunctionType):
        result.setdefault(value, f"{namespace}.{name}")
    elif isinstance(value, types.FunctionType):
        module = value.__module__ or ""
        written_for_users = ("torch.functional", "torch._lowrank")
        homes = written_for_users if namespace == "torch" else (namespace, "torch._jit_internal", *written_for_users)
        if module in homes and not name.startswith("_"):
            result.setdefault(value, f"{namespace}.{name}")


_GETTERS = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}


def is_torch_function(fn: Any) -> bool:
    """Whether a call of this object becomes a graph node."""
    if isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    return is_safe_to_hash(fn) and fn in _operations()


def torch_name(fn: Any) -> str:
    """The name that the user knows a torch function by."""
    known = _operations().get(fn) if is_safe_to_hash(fn) else None
    if known is not None:
        return known.replace("torch._C._VariableFunctions.", "torch.")
    name = getattr(fn, "__name__", None) or str(fn)
    module = getattr(fn, "__module__", "")
    return f"{module}.{name}" if module and not str(name).startswith("torch") else str(name)


def call_torch(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """Call a torch function: as its operands' classes say, a Tensor method's rules, or as a node."""
    from .tensor_subclasses import answered

    return answered(tr, fn, args, kwargs, lambda: _call_torch(tr, fn, args, kwargs))


def _call_torch(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    from .tensor import TensorValue, call_method

    kwargs = on_default_device(tr.default_device, fn, kwargs)
    name = torch_name(fn)
    short = name.rpartition(".")[2]
    if name.startswith("torch.Tensor.") and args and isinstance(args[0].realize(tr), TensorValue):
        return _call_unbound(tr, short, args, kwargs)
    if short in _READS_NUMBERS and name.startswith("torch."):
        raise Break(BreakKind.VALUE, f"{name}() reads the numbers of its arguments.")
    if args and name in ("torch.tensor", "torch.as_tensor", "torch.asarray") and len(args) == 1 and not kwargs:
        from .arrays import ArrayValue

        if isinstance(args[0].realize(tr), ArrayValue):
            return _tensor_of(tr, fn, args[0], copied=name == "torch.tensor")
    if len(args) == 1 and name in ("torch.tensor", "torch.as_tensor"):
        made = tensor_of_numbers(tr, args[0].realize(tr), kwargs)
        if made is not None:
            return made
    if args and short in ("is_floating_point", "is_complex", "numel", "is_inference", "is_signed", "is_conj", "is_neg"):
        owner = args[0].realize(tr)
        if isinstance(owner, TensorValue):
            return call_method(tr, owner, short, args[1:], kwargs)
    with NoConstructors() if tr.default_device is not None else contextlib.nullcontext():
        return tr.torch_call(fn, *with_dtype(tr, short, args, kwargs))


def _call_unbound(tr: Tracer, name: str, args: Args, kwargs: Kwargs) -> Value:
    from .tensor import TensorValue, call_method

    owner = args[0].realize(tr)
    assert isinstance(owner, TensorValue)
    if name == "__getitem__":
        return owner.getitem(tr, args[1].realize(tr))
    if name == "__setitem__":
        owner.setitem(tr, args[1].realize(tr), args[2])
        return ConstantValue(None)
    return call_method(tr, owner, name, args[1:], kwargs)


# ---- torch functions that are constants while tracing ----


def _always(value: Any) -> Any:
    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        return ConstantValue(value)

    return trace


for _fn in (
    torch.jit.is_scripting,
    torch.jit.is_tracing,
    torch._C._get_tracing_state,
    torch.onnx.is_in_onnx_export,
    torch._C._is_tracing,
):
    RULES[_fn] = _always(None if _fn is torch._C._get_tracing_state else False)
RULES[torch.compiler.is_exporting] = _always(False)
RULES[torch.compiler.is_compiling] = _always(True)
RULES[torch.compiler.is_dynamo_compiling] = _always(True)
RULES[torch._utils.is_compiling] = _always(True)


@rule(torch._C._log_api_usage_once)
def _log_api_usage_once(tr: Tracer, event: Value) -> Value:
    return ConstantValue(None)


@rule(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary)
def _has_torch_function(tr: Tracer, *args: Value) -> Value:
    return ConstantValue(False)


RULES[torch.overrides.has_torch_function_variadic] = _has_torch_function
RULES[torch._C._has_torch_function] = _has_torch_function
RULES[torch._C._has_torch_function_unary] = _has_torch_function
RULES[torch._C._has_torch_function_variadic] = _has_torch_function


@rule(torch.jit.annotate)
def _annotate(tr: Tracer, the_type: Value, the_value: Value) -> Value:
    return the_value


@rule(torch.is_tensor)
def _is_tensor(tr: Tracer, value: Value) -> Value:
    from .tensor import TensorValue

    value = value.realize(tr)
    return ConstantValue(isinstance(value, TensorValue) or issubclass(value.python_type(), torch.Tensor))


@rule(torch.is_grad_enabled)
def _is_grad_enabled(tr: Tracer) -> Value:
    return ConstantValue(torch.is_grad_enabled())


def _state_reader(fn: Any) -> None:
    """State that the entry's guard on global state covers."""

    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        return tr.fold(fn, *args, **kwargs)

    RULES[fn] = trace


for _fn in (
    torch.get_default_dtype, torch.is_inference_mode_enabled, torch.is_autocast_enabled, torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled, torch.are_deterministic_algorithms_enabled,
    torch._C._get_privateuse1_backend_name,
):  # fmt: skip
    _state_reader(_fn)


def _legacy_constructor(cls: Any) -> None:
    """`torch.Tensor([1, 2])`, `torch.Tensor(2, 3)`: data if there is one list, else sizes."""

    def trace(tr: Tracer, *args: Value) -> Value:
        from .containers import SequenceValue

        values = [arg.realize(tr) for arg in args]
        dtype = torch.get_default_dtype() if cls is torch.Tensor else cls.dtype
        named: dict[str, Value] = {"dtype": ConstantValue(dtype)}
        if len(values) == 1 and isinstance(values[0], SequenceValue) and values[0].kind in (list, tuple):
            return tr.torch_call(torch.tensor, list(values), named)
        if not all(isinstance(value, (ConstantValue, SymIntValue)) for value in values):
            raise unsupported_call(f"torch.{cls.__name__}()", "gets something else than a list or sizes")
        return tr.torch_call(torch.empty, [SequenceValue(tuple, list(values))], named)

    RULES[cls] = trace


for _name in ("Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "BoolTensor"):
    _legacy_constructor(getattr(torch, _name))


@rule(torch._C._set_grad_enabled)
def _set_grad(tr: Tracer, mode: Value) -> Value:
    tr.set_grad_mode(bool(mode.realize(tr).const(tr)))
    return ConstantValue(None)


@rule(torch.broadcast_tensors)
def _broadcast_tensors(tr: Tracer, *tensors: Value) -> Value:
    return tr.torch_call(torch.broadcast_tensors, list(tensors), {})


@rule(torch.broadcast_shapes)
def _broadcast_shapes(tr: Tracer, *shapes: Value) -> Value:
    from .containers import SequenceValue

    realized = [shape.realize(tr) for shape in shapes]
    sizes = [
        [item.realize(tr) for item in shape.elements] if isinstance(shape, SequenceValue) else [shape]
        for shape in realized
    ]
    if not any(isinstance(size, SymIntValue) for shape in sizes for size in shape):
        return tr.fold(torch.broadcast_shapes, *shapes)
    numbers = [[size.sym if isinstance(size, SymIntValue) else size.const(tr) for size in shape] for shape in sizes]
    try:
        result = torch.broadcast_shapes(*map(tuple, numbers))
    except RuntimeError as error:
        fail(error)
    return SequenceValue(torch.Size, [tr.number(size) for size in result])


@rule(torch.sym_int)
def _sym_int(tr: Tracer, value: Value) -> Value:
    value = value.realize(tr)
    return value if isinstance(value, SymIntValue) else tr.fold(int, value)


@rule(torch._check)
def _check(tr: Tracer, condition: Value, message: Value | None = None) -> Value:
    _state(tr, condition.realize(tr), RuntimeError)
    return ConstantValue(None)


def _state(tr: Tracer, condition: Value, error: type[Exception]) -> None:
    """A condition that has to hold: a guard, or for data a check at run time."""
    if isinstance(condition, ConditionValue):
        state(tr, condition.sym)
    elif not condition.truth(tr):
        fail(error("torch._check failed"))


@rule(torch._check_value)
def _check_value(tr: Tracer, condition: Value, message: Value | None = None) -> Value:
    _state(tr, condition.realize(tr), ValueError)
    return ConstantValue(None)


@rule(torch._check_index)
def _check_index(tr: Tracer, condition: Value, message: Value | None = None) -> Value:
    _state(tr, condition.realize(tr), IndexError)
    return ConstantValue(None)


@rule(torch._check_is_size)
def _check_is_size(tr: Tracer, number: Value, message: Value | None = None, *, max: Value | None = None) -> Value:
    _between(tr, number, ConstantValue(0), max)
    return ConstantValue(None)


@rule(torch._constrain_as_size)
def _constrain_as_size(tr: Tracer, symbol: Value, min: Value | None = None, max: Value | None = None) -> Value:
    _between(tr, symbol, min or ConstantValue(0), max)
    return ConstantValue(None)


def _between(tr: Tracer, number: Value, low: Value, high: Value | None) -> None:
    from ..operators import binary

    for op, bound in ((operator.ge, low), (operator.le, high)):
        if bound is not None and not (isinstance(bound, ConstantValue) and bound.value is None):
            _state(tr, binary(tr, op, number.realize(tr), bound.realize(tr)), RuntimeError)


@rule(torch._assert)
def _assert(tr: Tracer, condition: Value, message: Value) -> Value:
    if not condition.realize(tr).truth(tr):
        text = message.realize(tr)
        is_exact = isinstance(text, ConstantValue)
        fail(AssertionError(text.const(tr) if is_exact else "torch._assert failed"), is_exact=is_exact)
    return ConstantValue(None)


@rule(torch.utils._python_dispatch._get_current_dispatch_mode_stack)
def _dispatch_modes(tr: Tracer) -> Value:
    """None: frames are not compiled while one is active."""
    from .containers import SequenceValue

    return SequenceValue(list, [])


@rule(torch.from_numpy)
def _from_numpy(tr: Tracer, array: Value) -> Value:
    return _tensor_of(tr, torch.from_numpy, array, copied=False)


def _tensor_of(tr: Tracer, fn: Any, data: Value, *, copied: bool) -> Value:
    from .arrays import ArrayValue, to_tensor

    value = data.realize(tr)
    if not isinstance(value, ArrayValue):
        raise unsupported_call(f"{torch_name(fn)}()", "of this object cannot be traced")
    return to_tensor(tr, value, copied=copied)


@rule(torch.manual_seed)
def _manual_seed(tr: Tracer, seed: Value) -> Value:
    raise unsupported_call("torch.manual_seed()", "sets the state of the random generator")


traced_as(torch._C._group_tensors_by_device_and_dtype, torch_polyfills.group_tensors_by_device_and_dtype)
traced_as(stateless._untie_named_tensors_map, torch_polyfills.untie_named_tensors_map)

_masked_variance = types.FunctionType(torch.masked._ops._std_var.__code__, torch.masked._ops._std_var.__globals__)


@rule(torch.masked._ops._std_var)
def _std_var(tr: Tracer, input: Value, *args: Value, **kwargs: Value) -> Value:
    """torch.masked.var and std, as they are written; but of integers, whose results users compare exactly, the last bit
    depends on the order in which eager adds float32 squares."""
    from .tensor import TensorValue

    tensor = input.realize(tr)
    if isinstance(tensor, TensorValue) and not tensor.fake.dtype.is_floating_point | tensor.fake.dtype.is_complex:
        raise unsupported_call("torch.masked.var() or std()", "of integers gives eager's last bit only in eager",
                               "Convert the tensor to a floating-point type first.")  # fmt: skip
    return tr.constant(_masked_variance).call(tr, [input, *args], kwargs)
