"""Opcodes that move and make data: loads, stores, displays, operators, attributes, items, f-strings.

In and out: values on the frame's stack.
"""

from __future__ import annotations

import importlib.util
import operator
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ..guards.kinds import AttrPresenceGuard, GlobalAbsentGuard
from .breaks import Break, BreakKind, UserError, unsupported
from .interpreter import opcode
from .operators import BY_SYMBOL, UNARY, binary, same, unary
from .sources import AttrSource, BuiltinSource, GlobalSource, ItemSource
from .values.base import NULL, Lazy, NotConstant, Value, fail
from .values.constant import ConstantValue
from .values.containers import (
    ContainerMethod,
    DictValue,
    SequenceValue,
    SetValue,
    SliceValue,
    make_dict,
    set_of,
)
from .values.functions import CellValue
from .values.generators import GeneratorValue
from .values.subclasses import mapping_pairs
from .values.tensor import TensorValue
from .versions import NULL_FIRST

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer

# ---- the stack ----


@opcode("POP_TOP", "END_FOR_POP")
def _pop_top(tr: Tracer, frame: Frame, arg: Any) -> None:
    value = frame.pop_raw()
    # Known to refer to it: `tr.generators`, `value`, getrefcount's argument, the tracer's copy of the root's stack.
    if isinstance(value, GeneratorValue) and sys.getrefcount(value) <= 3 + (frame.parent is None):
        value.die(tr)


@opcode("END_FOR")
def _end_for(tr: Tracer, frame: Frame, arg: Any) -> None:
    """Never reached by falling through: an exhausted FOR_ITER jumps behind it (see handlers_control)."""


@opcode("PUSH_NULL")
def _push_null(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(NULL)


@opcode("COPY")
def _copy(tr: Tracer, frame: Frame, depth: int) -> None:
    frame.push(frame.stack[-depth])


@opcode("SWAP")
def _swap(tr: Tracer, frame: Frame, depth: int) -> None:
    frame.stack[-1], frame.stack[-depth] = frame.stack[-depth], frame.stack[-1]


# ---- constants and variables ----


@opcode("LOAD_CONST")
def _load_const(tr: Tracer, frame: Frame, obj: Any) -> None:
    frame.push(tr.constant(obj))


@opcode("LOAD_ASSERTION_ERROR")
def _load_assertion_error(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(tr.constant(AssertionError))


@opcode("LOAD_FAST", "LOAD_CLOSURE")
def _load_fast(tr: Tracer, frame: Frame, name: str) -> None:
    frame.push(frame.load(name))


@opcode("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(tr: Tracer, frame: Frame, name: str) -> None:
    frame.push(frame.slots.pop(name, NULL))


@opcode("STORE_FAST")
def _store_fast(tr: Tracer, frame: Frame, name: str) -> None:
    value = frame.pop_raw()
    if value is NULL:
        frame.slots.pop(name, None)
    else:
        frame.slots[name] = value


@opcode("DELETE_FAST")
def _delete_fast(tr: Tracer, frame: Frame, name: str) -> None:
    frame.load(name)
    del frame.slots[name]


@opcode("MAKE_CELL")
def _make_cell(tr: Tracer, frame: Frame, name: str) -> None:
    frame.slots[name] = CellValue(frame.slots.get(name))


@opcode("COPY_FREE_VARS")
def _copy_free_vars(tr: Tracer, frame: Frame, count: int) -> None:
    frame.slots.update(zip(frame.code.co_freevars, frame.closure, strict=True))


@opcode("LOAD_DEREF")
def _load_deref(tr: Tracer, frame: Frame, name: str) -> None:
    contents = frame.cell(name).read(tr)
    if contents is None:
        _fail_unassigned(frame, name)
    frame.push(contents)


def _fail_unassigned(frame: Frame, name: str) -> NoReturn:
    """The error of reading an empty cell: of the function around, or of the frame itself."""
    what = "where it is not associated with a value"
    if name in frame.code.co_freevars:
        fail(NameError(f"cannot access free variable '{name}' {what} in enclosing scope"), is_exact=True)
    fail(UnboundLocalError(f"cannot access local variable '{name}' {what}"), is_exact=True)


@opcode("STORE_DEREF")
def _store_deref(tr: Tracer, frame: Frame, name: str) -> None:
    frame.cell(name).store(tr, frame.pop_raw())


@opcode("DELETE_DEREF")
def _delete_deref(tr: Tracer, frame: Frame, name: str) -> None:
    frame.cell(name).empty(tr)


@opcode("LOAD_GLOBAL")
def _load_global(tr: Tracer, frame: Frame, arg: tuple[str, bool]) -> None:
    name, push_null = arg
    if push_null and NULL_FIRST:
        frame.push(NULL)
    frame.push(load_global(tr, frame, name))
    if push_null and not NULL_FIRST:
        frame.push(NULL)


def load_global(tr: Tracer, frame: Frame, name: str) -> Value:
    """A global variable, or the builtin of that name while no global hides it."""
    pending = tr.pending_global(frame.globals_dict, name)
    if pending is not None:
        return pending
    tracked = tr.tracked_dict(frame.globals_dict)
    if tracked is not None and name in tracked.entries:
        return tracked.entries[name]
    if name in frame.globals_dict:
        return Lazy(frame.globals_dict[name], GlobalSource(name, frame.globals_base))
    builtins = frame.globals_dict.get("__builtins__", __builtins__)
    names = builtins if isinstance(builtins, dict) else vars(builtins)
    tr.guard(GlobalAbsentGuard(name, frame.globals_base))
    if name not in names:
        if names is vars(sys.modules["builtins"]):
            tr.guard(AttrPresenceGuard(tr.anchor(sys.modules["builtins"]), name, False))
        fail(NameError(f"name '{name}' is not defined"), is_exact=True)
    return Lazy(names[name], BuiltinSource(name, frame.globals_base))


@opcode("LOAD_BUILD_CLASS")
def _load_build_class(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(load_global(tr, frame, "__build_class__"))


@opcode("LOAD_NAME")
def _load_name(tr: Tracer, frame: Frame, name: str) -> None:
    """In a class body: a name that it has bound, or a global."""
    value = frame.namespace.get(name)
    frame.push(value if value is not None else load_global(tr, frame, name))


@opcode("STORE_NAME")
def _store_name(tr: Tracer, frame: Frame, name: str) -> None:
    frame.namespace[name] = frame.pop_raw()


@opcode("DELETE_NAME")
def _delete_name(tr: Tracer, frame: Frame, name: str) -> None:
    if frame.namespace.pop(name, None) is None:
        fail(NameError(f"name '{name}' is not defined"))


@opcode("LOAD_CLASSDEREF")
def _load_classderef(tr: Tracer, frame: Frame, name: str) -> None:
    if name in frame.namespace:
        frame.push(frame.namespace[name])
    else:
        _load_deref(tr, frame, name)


@opcode("LOAD_LOCALS")
def _load_locals(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(NULL)  # 3.12: what LOAD_FROM_DICT_OR_… take off again; the namespace is the frame's own


@opcode("LOAD_FROM_DICT_OR_DEREF")
def _load_from_dict_or_deref(tr: Tracer, frame: Frame, name: str) -> None:
    frame.pop_raw()
    _load_classderef(tr, frame, name)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def _load_from_dict_or_globals(tr: Tracer, frame: Frame, name: str) -> None:
    frame.pop_raw()
    _load_name(tr, frame, name)


@opcode("SETUP_ANNOTATIONS")
def _setup_annotations(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.namespace.setdefault("__annotations__", DictValue(dict, {}))


@opcode("STORE_GLOBAL")
def _store_global(tr: Tracer, frame: Frame, name: str) -> None:
    tr.set_global(frame, name, frame.pop_raw())


# ---- operators ----


@opcode("BINARY_OP")
def _binary_op(tr: Tracer, frame: Frame, symbol: str) -> None:
    right, left = frame.pop(tr), frame.pop(tr)
    frame.push(binary(tr, BY_SYMBOL[symbol], left, right))


@opcode("COMPARE_OP")
def _compare_op(tr: Tracer, frame: Frame, symbol: str) -> None:
    right, left = frame.pop(tr), frame.pop(tr)
    frame.push(binary(tr, BY_SYMBOL[symbol], left, right))


def _unary_rule(name: str, op: Any) -> None:
    @opcode(name)
    def rule(tr: Tracer, frame: Frame, arg: Any) -> None:
        frame.push(unary(tr, op, frame.pop(tr)))


for _name, _op in UNARY.items():
    _unary_rule(_name, _op)


@opcode("UNARY_NOT")
def _unary_not(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(ConstantValue(not frame.pop(tr).truth(tr)))


@opcode("TO_BOOL")
def _to_bool(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(ConstantValue(frame.pop(tr).truth(tr)))


@opcode("IS_OP")
def _is_op(tr: Tracer, frame: Frame, inverted: bool) -> None:
    right, left = frame.pop_raw(), frame.pop_raw()
    frame.push(ConstantValue(same(tr, left, right) != inverted))


@opcode("CONTAINS_OP")
def _contains_op(tr: Tracer, frame: Frame, inverted: bool) -> None:
    container, item = frame.pop(tr), frame.pop(tr)
    frame.push(ConstantValue(container.contains(tr, item) != inverted))


# ---- attributes and items ----


@opcode("LOAD_ATTR")
def _load_attr(tr: Tracer, frame: Frame, arg: tuple[str, bool]) -> None:
    name, is_method = arg
    value = frame.pop(tr).getattr(tr, name)
    push_callable(frame, value) if is_method else frame.push(value)


def push_callable(frame: Frame, value: Value) -> None:
    """A callable without a self, with the NULL that goes with it."""
    frame.stack.extend((NULL, value) if NULL_FIRST else (value, NULL))


@opcode("LOAD_SUPER_ATTR")
def _load_super_attr(tr: Tracer, frame: Frame, arg: tuple[str, bool, bool]) -> None:
    from .values.callables import class_object
    from .values.supers import SuperValue

    name, is_method, _ = arg
    owner, cls, maker = frame.pop_raw(), frame.pop(tr), frame.pop(tr)
    if class_object(maker) is not super:
        raise unsupported("A name super that is not the builtin cannot be traced.")
    value = SuperValue(class_object(cls), owner.realize(tr)).getattr(tr, name)
    push_callable(frame, value) if is_method else frame.push(value)


@opcode("STORE_ATTR")
def _store_attr(tr: Tracer, frame: Frame, name: str) -> None:
    owner, value = frame.pop(tr), frame.pop_raw()
    owner.setattr(tr, name, value)


@opcode("DELETE_ATTR")
def _delete_attr(tr: Tracer, frame: Frame, name: str) -> None:
    frame.pop(tr).delattr(tr, name)


@opcode("BINARY_SUBSCR")
def _binary_subscr(tr: Tracer, frame: Frame, arg: Any) -> None:
    key, owner = frame.pop(tr), frame.pop(tr)
    frame.push(subscript(tr, owner, key))


def subscript(tr: Tracer, owner: Value, key: Value) -> Value:
    """`owner[key]`; a tensor used as the index of a Python container is a number read from memory."""
    if isinstance(key, TensorValue) and not isinstance(owner, (TensorValue, DictValue)):
        raise Break(BreakKind.VALUE, f"An index depends on the numbers in {key.describe()}.")
    return owner.getitem(tr, key)


@opcode("BINARY_SLICE")
def _binary_slice(tr: Tracer, frame: Frame, arg: Any) -> None:
    stop, start, owner = frame.pop(tr), frame.pop(tr), frame.pop(tr)
    frame.push(owner.getitem(tr, _slice_of(tr, start, stop, ConstantValue(None))))


@opcode("STORE_SLICE")
def _store_slice(tr: Tracer, frame: Frame, arg: Any) -> None:
    stop, start, owner, value = frame.pop(tr), frame.pop(tr), frame.pop(tr), frame.pop_raw()
    owner.setitem(tr, _slice_of(tr, start, stop, ConstantValue(None)), value)


@opcode("STORE_SUBSCR")
def _store_subscr(tr: Tracer, frame: Frame, arg: Any) -> None:
    key, owner, value = frame.pop(tr), frame.pop(tr), frame.pop_raw()
    owner.setitem(tr, key, value)


@opcode("DELETE_SUBSCR")
def _delete_subscr(tr: Tracer, frame: Frame, arg: Any) -> None:
    key, owner = frame.pop(tr), frame.pop(tr)
    owner.delitem(tr, key)


@opcode("BUILD_SLICE")
def _build_slice(tr: Tracer, frame: Frame, count: int) -> None:
    parts = [part.realize(tr) for part in frame.pop_many(count)]
    frame.push(_slice_of(tr, parts[0], parts[1], parts[2] if count == 3 else ConstantValue(None)))


def _slice_of(tr: Tracer, start: Value, stop: Value, step: Value) -> Value:
    parts = (start, stop, step)
    try:
        return ConstantValue(slice(*(part.const(tr) for part in parts)))
    except NotConstant:
        return SliceValue(parts)


# ---- displays ----


@opcode("BUILD_TUPLE")
def _build_tuple(tr: Tracer, frame: Frame, count: int) -> None:
    frame.push(SequenceValue(tuple, frame.pop_many(count)))


@opcode("BUILD_LIST")
def _build_list(tr: Tracer, frame: Frame, count: int) -> None:
    frame.push(SequenceValue(list, frame.pop_many(count)))


@opcode("BUILD_SET")
def _build_set(tr: Tracer, frame: Frame, count: int) -> None:
    frame.push(set_of(tr, set, SequenceValue(tuple, frame.pop_many(count))))


@opcode("BUILD_MAP")
def _build_map(tr: Tracer, frame: Frame, count: int) -> None:
    flat = frame.pop_many(2 * count)
    frame.push(make_dict(tr, zip(flat[::2], flat[1::2], strict=True)))


@opcode("BUILD_CONST_KEY_MAP")
def _build_const_key_map(tr: Tracer, frame: Frame, count: int) -> None:
    keys = frame.pop(tr).items(tr)
    frame.push(make_dict(tr, zip(keys, frame.pop_many(count), strict=True)))


@opcode("BUILD_STRING")
def _build_string(tr: Tracer, frame: Frame, count: int) -> None:
    from .values.computed import joined

    frame.push(joined(tr, [part.realize(tr) for part in frame.pop_many(count)]))


@opcode("LIST_TO_TUPLE")
def _list_to_tuple(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(SequenceValue(tuple, frame.pop(tr).items(tr)))


def _below(frame: Frame, depth: int) -> Value:
    return frame.stack[-depth]


@opcode("LIST_APPEND")
def _list_append(tr: Tracer, frame: Frame, depth: int) -> None:
    item = frame.pop_raw()
    _method(tr, _below(frame, depth), "append", item)


@opcode("LIST_EXTEND")
def _list_extend(tr: Tracer, frame: Frame, depth: int) -> None:
    items = _starred(tr, frame.pop(tr))
    _method(tr, _below(frame, depth), "extend", SequenceValue(tuple, items))


def _starred(tr: Tracer, value: Value) -> list[Value]:
    """The elements of what stands behind a star, which has an error of its own for what has none."""
    try:
        return value.items(tr)
    except UserError as error:
        kind = value.python_type().__name__
        if str(error.original) == f"'{kind}' object is not iterable":
            fail(TypeError(f"Value after * must be an iterable, not {kind}"), is_exact=True)
        raise


@opcode("SET_ADD")
def _set_add(tr: Tracer, frame: Frame, depth: int) -> None:
    item = frame.pop(tr)
    owner = _below(frame, depth).realize(tr)
    if not isinstance(owner, SetValue):
        raise owner.cannot("adding an element")
    owner.add(tr, item)


@opcode("SET_UPDATE")
def _set_update(tr: Tracer, frame: Frame, depth: int) -> None:
    items = frame.pop(tr)
    _method(tr, _below(frame, depth), "update", items)


@opcode("MAP_ADD")
def _map_add(tr: Tracer, frame: Frame, depth: int) -> None:
    value, key = frame.pop_raw(), frame.pop(tr)
    _below(frame, depth).realize(tr).setitem(tr, key, value)


@opcode("DICT_UPDATE")
def _dict_update(tr: Tracer, frame: Frame, depth: int) -> None:
    other = frame.pop(tr)
    pairs = mapping_pairs(tr, other)
    if pairs is None:
        raise other.cannot("unpacking into a dict")
    _method(tr, _below(frame, depth), "update", make_dict(tr, pairs))


@opcode("DICT_MERGE")
def _dict_merge(tr: Tracer, frame: Frame, depth: int) -> None:
    other, owner = frame.pop(tr), _below(frame, depth).realize(tr)
    pairs = mapping_pairs(tr, other)
    if pairs is None:
        raise other.cannot("unpacking keyword arguments")
    for key, value in pairs:
        if owner.contains(tr, key):
            fail(TypeError(f"got multiple values for keyword argument {key.const(tr)!r}"))
        owner.setitem(tr, key, value)


def _method(tr: Tracer, owner: Value, name: str, *args: Value) -> None:
    method = owner.realize(tr).getattr(tr, name)
    if not isinstance(method, ContainerMethod):
        raise owner.cannot(f"calling {name}")
    method.call(tr, list(args), {})


# ---- unpacking ----


def _unpacked(tr: Tracer, value: Value) -> list[Value]:
    """The elements of what is unpacked; of what has none, Python says so in other words here than elsewhere."""
    try:
        return value.items(tr)
    except UserError as error:
        kind = value.python_type()
        if error.cls is not TypeError or hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"):
            raise
    fail(TypeError(f"cannot unpack non-iterable {kind.__name__} object"), is_exact=True)


@opcode("UNPACK_SEQUENCE")
def _unpack_sequence(tr: Tracer, frame: Frame, count: int) -> None:
    items = _unpacked(tr, frame.pop(tr))
    if len(items) != count:
        many = f"too many values to unpack (expected {count})"
        few = f"not enough values to unpack (expected {count}, got {len(items)})"
        fail(ValueError(few if len(items) < count else many), is_exact=sys.version_info < (3, 14))
    frame.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def _unpack_ex(tr: Tracer, frame: Frame, arg: int) -> None:
    before, after = arg & 0xFF, arg >> 8
    items = _unpacked(tr, frame.pop(tr))
    if len(items) < before + after:
        few = f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        fail(ValueError(few), is_exact=True)
    middle = items[before : len(items) - after]
    parts = [*items[:before], SequenceValue(list, middle), *items[len(items) - after :]]
    frame.stack.extend(reversed(parts))


# ---- text ----


@opcode("FORMAT_VALUE")
def _format_value(tr: Tracer, frame: Frame, arg: tuple[Any, bool]) -> None:
    from .values.texts import formatted

    conversion, has_spec = arg
    spec = frame.pop(tr) if has_spec else ConstantValue("")
    value = frame.pop(tr)
    try:
        frame.push(formatted(tr, converted(tr, value, conversion) if conversion else value, spec))
    except NotConstant:
        raise Break(BreakKind.VALUE, f"An f-string needs the text of {value.describe()}.") from None


@opcode("CONVERT_VALUE")
def _convert_value(tr: Tracer, frame: Frame, conversion: Any) -> None:
    frame.push(converted(tr, frame.pop(tr), conversion))


def converted(tr: Tracer, value: Value, conversion: Any) -> Value:
    """`!s`, `!r` and `!a` in an f-string."""
    from .values.texts import text_of

    return text_of(tr, value, conversion, "__str__" if conversion is str else "__repr__").realize(tr)


# ---- imports ----


@opcode("IMPORT_NAME")
def _import_name(tr: Tracer, frame: Frame, name: str) -> None:
    """Importing what is imported already has no effect; anything else happens for real."""
    fromlist, level = frame.pop(tr).const(tr), frame.pop(tr).const(tr)
    full_name = _absolute_name(frame, name, level)
    module = sys.modules.get(full_name)
    if module is None or not all(part == "*" or hasattr(module, part) for part in fromlist or ()):
        raise unsupported(f"The import of {name or full_name} has effects that cannot be traced.")
    if not fromlist:
        full_name = full_name.partition(".")[0]
    frame.push(_module(tr, full_name))


def _module(tr: Tracer, name: str) -> Value:
    """A module that is imported already. The program may put in another of its own under the name."""
    if name.partition(".")[0] in ("torch", *sys.stdlib_module_names):
        return tr.constant(sys.modules[name])
    return tr.wrap(sys.modules[name], ItemSource(AttrSource(tr.anchor(sys), "modules"), name))


def _absolute_name(frame: Frame, name: str, level: int) -> str:
    """The name of a module from which `level` dots and a name are seen in the frame's package."""
    if level == 0:
        return name
    package = frame.globals_dict.get("__package__")
    if not isinstance(package, str) or package.count(".") < level - 1:
        raise unsupported(f"The import of {'.' * level}{name} has effects that cannot be traced.")
    return importlib.util.resolve_name("." * level + name, package)


@opcode("IMPORT_FROM")
def _import_from(tr: Tracer, frame: Frame, name: str) -> None:
    frame.push(frame.stack[-1].realize(tr).getattr(tr, name))


__all__ = ["load_global", "operator", "push_callable"]
