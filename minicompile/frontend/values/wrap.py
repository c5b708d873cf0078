"""From real objects to values: what kind of value stands for an object from outside, and what is guarded for it.

In: an object and its source, the moment something depends on it. Out: a value. The table is by exact class first, then
by kind; anything else is a user object, or opaque.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.library import CustomOpDef

from ...guards.constants import is_constant
from ...guards.kinds import ConstantGuard, KeysGuard, LengthGuard
from ...torch_compat import script_original, without_generation_tag
from ..eager_calls import is_no_plain_tensor
from ..skip import why_not_inlined
from ..sources import (
    AttrSource,
    ConstSource,
    DictKeySource,
    InstanceDictSource,
    ItemSource,
    ModuleMemberSource,
    RegistrySource,
    Source,
)
from .annotations import AnnotationValue, is_annotation
from .arrays import numpy_name, outside_array
from .base import Lazy, OpaqueValue, Value
from .caches import CACHED, CachedFunctionValue
from .callables import CallableValue, has_rule, is_tensor_getter
from .classes import ClassValue, is_namedtuple
from .constant import ConstantValue, is_constant_object
from .containers import DictValue, SequenceValue, SetValue
from .contexts import GradModeExit, GradModeExitValue
from .deques import DequeValue
from .functions import CodeValue, MethodValue, PartialValue, outside_function, slot_cell
from .getters import KINDS as GETTERS
from .getters import outside_getter
from .identities import WeakReferenceValue
from .mode_blocks import outside_autocast
from .namespaces import outside_namespace
from .nn_module import make_module
from .objects import ObjectValue, PyModuleValue
from .profiler_ranges import outside_range
from .proxies import outside_proxy
from .random_draws import is_generator, outside_draw
from .real_iterators import KINDS, RealIteratorValue
from .signatures import outside_signature
from .subclasses import native_base, outside_subclass
from .tensor_subclasses import is_traceable, outside_tensor
from .thread_locals import outside_thread_local
from .torch_functions import is_torch_function
from .transforms import outside_transform

if TYPE_CHECKING:
    from ..tracer import Tracer

_FUNCTORCH = ("torch/_functorch/apis.py", "torch/_functorch/eager_transforms.py")
Maker = Callable[["Tracer", Any, Source], Value]


def wrap(tr: Tracer, obj: Any, source: Source) -> Value:
    """The value of an object from outside, guarded. One object is one value, wherever it is met."""
    if is_constant_object(obj):
        return _constant(tr, obj, source)
    known = tr.known(obj)
    if known is not None:
        tr.guard_same(known, obj, source)
        return known
    make = _maker(obj)
    value = make(tr, obj, source)
    if make is not _compiled:  # whose value is that of another object
        tr.remember(obj, value)
    return value


def _maker(obj: Any) -> Maker:
    return _BY_TYPE.get(type(obj)) or next((make for holds, make in _BY_PROPERTY if holds(obj)), _opaque)


def _constant(tr: Tracer, obj: Any, source: Source) -> Value:
    if not isinstance(source, ConstSource):
        if is_constant(obj):
            guard_constant(tr, obj, source)
        else:
            tr.guard_identity(source, obj)
    return ConstantValue(obj, source)


def guard_constant(tr: Tracer, obj: Any, source: Source) -> None:
    """The entry is for this value of the source."""
    tr.guard(ConstantGuard(source, obj))


def _tensor(tr: Tracer, obj: torch.Tensor, source: Source) -> Value:
    with torch._C.DisableTorchFunctionSubclass():  # it is no call of the program's
        if is_no_plain_tensor(obj):
            return _opaque(tr, obj, source)
        if is_traceable(obj):
            return outside_tensor(tr, obj, source)
    return tr.graph.tensor_input(tr, obj, source)


def _sequence(tr: Tracer, obj: Any, source: Source) -> Value:
    tr.guard_type(source, obj)
    tr.guard(LengthGuard(source, len(obj)))
    items = [Lazy(item, ItemSource(source, index)) for index, item in enumerate(tuple(obj))]
    return SequenceValue(type(obj), items, source)  # type: ignore[arg-type]


def _size(tr: Tracer, obj: torch.Size, source: Source) -> Value:
    tr.guard(ConstantGuard(source, obj))
    return SequenceValue(torch.Size, [ConstantValue(size) for size in obj], source)


def _dict(tr: Tracer, obj: Any, source: Source) -> Value:
    if getattr(obj, "__dict__", None):  # an OrderedDict with attributes: a state dict
        return _opaque(tr, obj, source)
    tr.guard_type(source, obj)
    tr.guard(KeysGuard.of(source, obj))
    result = DictValue(type(obj), {}, source)
    for key, item in dict_items(tr, obj, source):
        result.store(tr, key, item)
    if isinstance(obj, defaultdict) and obj.default_factory is not None:
        result.factory = Lazy(obj.default_factory, AttrSource(source, "default_factory"))
    return result


def dict_items(tr: Tracer, obj: dict[Any, Any], source: Source) -> Iterator[tuple[Value, Value]]:
    """Keys and items of a dict from outside, as values."""
    for index, (key, item) in enumerate(obj.items()):
        key_value, item_source = _dict_item(tr, source, index, key)
        yield key_value, Lazy(item, item_source)


def _dict_item(tr: Tracer, source: Source, index: int, key: Any) -> tuple[Value, Source]:
    """The key as a value, and where the item is read again."""
    if isinstance(source, RegistrySource):
        return ConstantValue(key), ModuleMemberSource(source.base, source.registry, key)
    if key is None or type(key) in (int, str, bool, bytes):
        return ConstantValue(key), ItemSource(source, key)
    key_source = DictKeySource(source, index)
    if is_constant(key):
        return tr.constant(key), ItemSource(source, key_source)
    return tr.wrap(key, key_source), ItemSource(source, key_source)


def _set(tr: Tracer, obj: Any, source: Source) -> Value:
    if not all(is_constant(item) or isinstance(item, (type, types.FunctionType)) for item in obj):
        return _opaque(tr, obj, source)
    tr.guard_type(source, obj)
    tr.guard(KeysGuard.of(source, obj))
    return SetValue(type(obj), {tr.key(item): item for item in map(tr.constant, obj)}, source, obj)


def _function(tr: Tracer, obj: types.FunctionType, source: Source) -> Value:
    if _is_callable_constant(obj):
        return _callable(tr, obj, source)
    original = without_generation_tag(obj)
    if original is not None:
        tr.guard_identity(source, obj)
        return tr.wrap(original, tr.anchor(original))
    if why_not_inlined(obj.__code__) is not None or hasattr(obj, "__minicompile_disable__"):
        return _made_by_transform(tr, obj, source) or _opaque_identity(tr, obj, source)
    return outside_function(tr, obj, source)


def _made_by_transform(tr: Tracer, obj: types.FunctionType, source: Source) -> Value | None:
    if not obj.__code__.co_filename.endswith(_FUNCTORCH):
        return None
    return outside_transform(tr, obj, outside_function(tr, obj, source))


def _method(tr: Tracer, obj: types.MethodType, source: Source) -> Value:
    draw = outside_draw(tr, obj, source) if is_generator(obj.__self__) else None
    if draw is not None:
        return draw
    tr.guard_type(source, obj)
    owner = Lazy(obj.__self__, AttrSource(source, "__self__"))
    return MethodValue(Lazy(obj.__func__, AttrSource(source, "__func__")), owner, source)


def _partial(tr: Tracer, obj: functools.partial, source: Source) -> Value:
    tr.guard_type(source, obj)
    args, keywords = AttrSource(source, "args"), AttrSource(source, "keywords")
    tr.guard(LengthGuard(args, len(obj.args)))
    tr.guard(KeysGuard.of(keywords, obj.keywords))
    return PartialValue(
        Lazy(obj.func, AttrSource(source, "func")),
        [Lazy(item, ItemSource(args, index)) for index, item in enumerate(obj.args)],
        {key: Lazy(item, ItemSource(keywords, key)) for key, item in obj.keywords.items()},
        source,
    )


def _builtin_method(tr: Tracer, obj: Any, source: Source) -> Value:
    """A builtin function, or a bound method of a builtin object."""
    owner = obj.__self__
    if owner is None or isinstance(owner, (types.ModuleType, type, frozenset)) or _is_callable_constant(obj):
        return _callable(tr, obj, source)
    if is_generator(owner):
        return outside_draw(tr, obj, source) or _opaque(tr, obj, source)
    if isinstance(owner, (list, dict, set, torch.Tensor)):
        bound = tr.wrap(owner, AttrSource(source, "__self__"))
        tr.guard_type(source, obj)
        _constant(tr, obj.__name__, AttrSource(source, "__name__"))
        return bound.getattr(tr, obj.__name__)
    return _constants_method(tr, obj, source) if is_constant_object(owner) else _opaque(tr, obj, source)


def _constants_method(tr: Tracer, obj: Any, source: Source) -> Value:
    """`"abc".upper`: made anew whenever it is read, and known by its owner and name."""
    tr.guard_type(source, obj)
    if not isinstance(source, ConstSource):
        for part in ("__self__", "__name__"):
            _constant(tr, getattr(obj, part), AttrSource(source, part))
    return CallableValue(obj, source)


def _method_wrapper(tr: Tracer, obj: types.MethodWrapperType, source: Source) -> Value:
    """`"abc".__len__`: a slot of a builtin object, bound."""
    is_known = is_constant_object(obj.__self__) or is_tensor_getter(obj)
    return _callable(tr, obj, source) if is_known else _opaque(tr, obj, source)


def _is_torchs_module(obj: Any) -> bool:
    """torch.backends: a module with properties, by a class of its own."""
    return isinstance(obj, types.ModuleType) and type(obj).__module__.split(".")[0] == "torch"


def _is_callable_constant(obj: Any) -> bool:
    return has_rule(obj) or is_torch_function(obj) or numpy_name(obj) is not None or isinstance(obj, CustomOpDef)


def _same_object(kind: Callable[[Any, Source], Value]) -> Maker:
    """Makes values of objects that programs share: guarded to be that very object."""

    def make(tr: Tracer, obj: Any, source: Source) -> Value:
        tr.guard_identity(source, obj)
        return kind(obj, source)

    return make


_annotation = _same_object(AnnotationValue)
_callable, _class, _module = _same_object(CallableValue), _same_object(ClassValue), _same_object(PyModuleValue)
_cached_function, _code = _same_object(CachedFunctionValue), _same_object(CodeValue)


def _compiled(tr: Tracer, obj: Any, source: Source) -> Value:
    """What minicompile.compile has made: traced into like its original."""
    tr.guard_type(source, obj)
    name = "__minicompile_original__"
    return tr.wrap(obj.__dict__[name], InstanceDictSource(source, name))


def _scripted(tr: Tracer, obj: Any, source: Source) -> Value:
    """A function through torch.jit.script: traced into like its original, as torch.compile does."""
    tr.guard_identity(source, obj)
    original = script_original(obj)
    return tr.wrap(original, tr.anchor(original))


def _cell(tr: Tracer, obj: types.CellType, source: Source) -> Value:
    tr.guard_type(source, obj)
    return slot_cell(tr, obj, source)


def _grad_exit(tr: Tracer, obj: GradModeExit, source: Source) -> Value:
    tr.guard_type(source, obj)
    tr.guard(ConstantGuard(AttrSource(source, "previous"), obj.previous))
    return GradModeExitValue(obj.previous, source)


def _deque(tr: Tracer, obj: deque[Any], source: Source) -> Value:
    tr.guard_type(source, obj)
    tr.guard(LengthGuard(source, len(obj)))
    tr.guard(ConstantGuard(AttrSource(source, "maxlen"), obj.maxlen))
    return DequeValue([Lazy(item, ItemSource(source, index)) for index, item in enumerate(obj)], obj.maxlen, source)


def _getter(tr: Tracer, obj: Any, source: Source) -> Value:
    return outside_getter(tr, obj, source) or _opaque(tr, obj, source)


def _weakref(tr: Tracer, obj: weakref.ReferenceType[Any], source: Source) -> Value:
    tr.guard_type(source, obj)
    return WeakReferenceValue(obj, source)


def _proxy(tr: Tracer, obj: types.MappingProxyType[Any, Any], source: Source) -> Value:
    return outside_proxy(tr, obj, source) or _opaque(tr, obj, source)


def _real_iterator(tr: Tracer, obj: Any, source: Source) -> Value:
    tr.guard_type(source, obj)
    return RealIteratorValue(obj, source)


def _numpy(tr: Tracer, obj: Any, source: Source) -> Value:
    if numpy_name(obj) is not None:
        return _callable(tr, obj, source)
    is_array = type(obj).__qualname__ == "ndarray"
    return (outside_array(tr, obj, source) if is_array else None) or _opaque(tr, obj, source)


def _opaque(tr: Tracer, obj: Any, source: Source) -> Value:
    tr.guard_type(source, obj)
    return OpaqueValue(obj, source)


def _opaque_identity(tr: Tracer, obj: Any, source: Source) -> Value:
    tr.guard_identity(source, obj)
    return OpaqueValue(obj, source)


def _object(tr: Tracer, obj: Any, source: Source) -> Value:
    tr.guard_type(source, obj)
    tr.guard_names(type(obj))
    return ObjectValue(type(obj), obj, source)


def _is_plain_object(cls: type) -> bool:
    """Whether objects of the class hold nothing beyond attributes: a Python class on top of `object` alone."""
    return (
        bool(cls.__flags__ & (1 << 9))
        and all(base is object or base.__flags__ & (1 << 9) for base in cls.__mro__)
        and cls.__basicsize__ >= object.__basicsize__
        and not issubclass(
            cls, (torch.Tensor, BaseException, int, float, str, bytes, list, tuple, dict, set, frozenset)
        )
    )


_BY_TYPE: dict[type, Maker] = {
    torch.Tensor: _tensor,
    torch.nn.Parameter: _tensor,
    torch.Size: _size,
    inspect.Signature: outside_signature,
    list: _sequence,
    tuple: _sequence,
    dict: _dict,
    OrderedDict: _dict,
    defaultdict: _dict,
    deque: _deque,
    CACHED: _cached_function,
    set: _set,
    frozenset: _set,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin_method,
    type(re.compile("").match): _builtin_method,  # of a class that its C code asks for
    types.MethodDescriptorType: _callable,
    types.WrapperDescriptorType: _callable,
    types.MethodWrapperType: _method_wrapper,
    types.ModuleType: _module,
    types.CellType: _cell,
    types.CodeType: _code,
    types.SimpleNamespace: outside_namespace,
    types.MappingProxyType: _proxy,
    threading.local: outside_thread_local,
    functools.partial: _partial,
    GradModeExit: _grad_exit,
    torch.autocast: outside_autocast,
    torch.autograd.profiler.record_function: outside_range,
    weakref.ReferenceType: _weakref,
    **dict.fromkeys(KINDS, _real_iterator),
    **dict.fromkeys(GETTERS, _getter),
}

_BY_PROPERTY: tuple[tuple[Callable[[Any], bool], Maker], ...] = (
    (lambda obj: isinstance(obj, type), _class),
    (is_traceable, _tensor),
    (is_annotation, _annotation),
    (lambda obj: type(obj).__module__ == "numpy", _numpy),
    (is_generator, _opaque),
    (_is_torchs_module, _module),
    (lambda obj: isinstance(obj, torch.jit.ScriptFunction) and script_original(obj) is not None, _scripted),
    (lambda obj: getattr(type(obj), "__minicompile_compiled__", None) is True, _compiled),
    (lambda obj: isinstance(obj, torch.nn.Module), make_module),
    (_is_callable_constant, _callable),
    (lambda obj: is_namedtuple(type(obj)), _sequence),
    (lambda obj: _is_plain_object(type(obj)), _object),
    (lambda obj: native_base(type(obj)) is not None, outside_subclass),
)
"""For objects whose type is not in the table above; the first that holds decides."""
