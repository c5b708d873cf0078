"""Functions of the user's program: inlined when called.

In: function objects from outside (guarded by identity or by code), functions made in the frame, bound methods,
functools.partial, closure cells. Out: the callee's result, with the callee's operations in the caller's graph.
"""

from __future__ import annotations

import functools
import operator
import types
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import TYPE_CHECKING, Any, NoReturn

from ...guards.kinds import FunctionCodeGuard
from ...guards.presence import EmptyCellGuard
from ..breaks import unsupported_call
from ..sources import AttrSource, CellSource, ConstSource, FunctionClosureSource, FunctionDefaultSource
from .base import Args, Kwargs, Lazy, Value, fail
from .callables import rule
from .constant import ConstantValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class CellValue(Value):
    """A closure cell. `contents` is what it holds now, None if it is empty."""

    def __init__(self, contents: Value | None, source: Source | None = None) -> None:
        self.contents = contents
        self.source = source
        self.was_empty = source is not None and contents is None

    @classmethod
    def outside(cls, cell: types.CellType, source: Source, contents_source: Source) -> CellValue:
        """A cell that existed before the frame."""
        try:
            return cls(Lazy(cell.cell_contents, contents_source), source)
        except ValueError:
            return cls(None, source)

    def python_type(self) -> type:
        return types.CellType

    def read(self, tr: Tracer) -> Value | None:
        """The contents, None if there are none now."""
        if self.contents is None and self.was_empty and self.source is not None:
            tr.guard(EmptyCellGuard(self.source))
        return self.contents

    def store(self, tr: Tracer, value: Value) -> None:
        """Set the contents."""
        self.contents = value
        tr.mutated(self, "{0}.cell_contents = {1}", value)

    def empty(self, tr: Tracer) -> None:
        """`del` of the variable."""
        self.contents = None
        tr.mutated(self, "del {0}.cell_contents")

    def build(self, glue: Glue) -> str:
        name = glue.assign("__cell__()", self)
        contents = self.contents
        if contents is not None:
            glue.fill(lambda: f"{name}.cell_contents = {glue.ref(contents)}")
        return name


class FunctionValue(Value):
    """A Python function with code to inline. `fn` is the object of one from outside, None for one made in the frame."""

    def __init__(self, code: types.CodeType, globals_dict: dict[str, Any], name: str) -> None:
        self.code = code
        self.globals_dict = globals_dict
        self.name = name
        self.fn: types.FunctionType | None = None
        self.source: Source | None = None
        self.globals_base: Source | None = None
        self.defaults: list[Value] = []
        self.kwdefaults: dict[str, Value] = {}
        self.closure: list[CellValue] = []
        self.annotations: Value | None = None
        self.attributes: dict[str, Value] = {}
        self.own_dict: Value | None = None

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"{self.name}()"

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return tr.inline(self, args, kwargs)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "__get__":
            return _BindingValue(self)
        if self.fn is not None and self.source is not None:
            if not hasattr(self.fn, name):
                raise self.cannot(f"reading missing attribute {name!r}")
            return Lazy(getattr(self.fn, name), AttrSource(self.source, name))
        known = self._part(tr, name) if _is_of_functions(name) else None
        if known is not None:
            return known
        if not _is_of_functions(name):
            fail(AttributeError(f"'function' object has no attribute '{name}'"), is_exact=True)
        return super().getattr(tr, name)

    def _part(self, tr: Tracer, name: str) -> Value | None:
        """An attribute of a function made in the frame."""
        from .containers import AttributeDictValue, DictValue, SequenceValue

        if name == "__dict__":
            if self.own_dict is None:
                self.own_dict = AttributeDictValue(self, self.attributes)
            return self.own_dict
        if name == "__annotations__":
            if not isinstance(self.annotations, DictValue):
                self.annotations = _annotations_dict(tr, self.annotations)
            return self.annotations
        if name in ("__name__", "__qualname__"):
            return ConstantValue(self.name if name == "__qualname__" else self.name.rpartition(".")[2])
        if name == "__code__":
            return CodeValue(self.code)
        if name == "__type_params__":
            return SequenceValue(tuple, [])
        if name == "__defaults__":
            return SequenceValue(tuple, list(self.defaults)) if self.defaults else ConstantValue(None)
        if name == "__kwdefaults__":
            return DictValue(dict, dict(self.kwdefaults)) if self.kwdefaults else ConstantValue(None)
        if name == "__doc__":
            is_text = bool(self.code.co_consts) and isinstance(self.code.co_consts[0], str)
            return ConstantValue(self.code.co_consts[0] if is_text else None)
        if name == "__module__":
            return ConstantValue(self.globals_dict.get("__name__"))
        return None

    def has_attr(self, tr: Tracer, name: str) -> bool:
        if name in self.attributes or name in ("__name__", "__call__", "__code__", "__qualname__"):
            return True
        if self.fn is None:
            return _is_of_functions(name)
        from ...guards.kinds import AttrPresenceGuard

        assert self.source is not None
        tr.guard(AttrPresenceGuard(self.source, name, hasattr(self.fn, name)))
        return hasattr(self.fn, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        self.attributes[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)

    def build(self, glue: Glue) -> str:
        arguments = [glue.keep(self.code), glue.keep(self.globals_dict), repr(self.name.rpartition(".")[2])]
        name = glue.assign(f"__function__({', '.join([*arguments, 'None', glue.cells(self.closure)])})", self)
        if self.defaults:
            glue.fill(lambda: f"{name}.__defaults__ = ({''.join(f'{glue.ref(value)}, ' for value in self.defaults)})")
        if self.kwdefaults:
            glue.fill(lambda: f"{name}.__kwdefaults__ = {{{_named(glue, self.kwdefaults)}}}")
        annotations = self.annotations
        if annotations is not None:
            glue.fill(lambda: f"{name}.__annotations__ = __annotations_of__({glue.ref(annotations)})")
        glue.line(f"{name}.__qualname__ = {self.name!r}")
        for key, value in self.attributes.items():
            if isinstance(value, ConstantValue):  # at once: what makes a class of it may look
                glue.line(f"{name}.{key} = {glue.ref(value)}")
            else:
                glue.fill(lambda key=key, value=value: f"{name}.{key} = {glue.ref(value)}")  # type: ignore[misc]
        return name


def _annotations_dict(tr: Tracer, parts: Value | None) -> Value:
    """Annotations as the compiler hands them over, name and value in turn, as the dict that the function shows."""
    from .containers import DictValue

    items = parts.items(tr) if parts is not None else []
    names = [name.realize(tr).const(tr) for name in items[::2]]
    return DictValue(dict, dict(zip(names, items[1::2], strict=True)))


def _is_of_functions(name: str) -> bool:
    """Whether every function has an attribute of this name (`hasattr` of the class would ask its metaclass as well)."""
    return any(name in base.__dict__ for base in types.FunctionType.__mro__)


def _named(glue: Glue, values: dict[str, Value]) -> str:
    return ", ".join(f"{key!r}: {glue.ref(value)}" for key, value in values.items())


class _BindingValue(Value):
    """`function.__get__`: binds it."""

    def __init__(self, function: FunctionValue) -> None:
        self.function = function

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if not 1 <= len(args) <= 2 or kwargs:
            raise unsupported_call(f"{self.function.name}.__get__()", "is in a form that cannot be traced")
        owner = args[0].realize(tr)
        is_none = isinstance(owner, ConstantValue) and owner.value is None
        return self.function if is_none else MethodValue(self.function, owner)

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.function)}.__get__"


class CodeValue(Value):
    """A code object: its attributes are constants."""

    def __init__(self, code: types.CodeType, source: Source | None = None) -> None:
        self.code = code
        self.obj = code
        self.source = source

    def python_type(self) -> type:
        return types.CodeType

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        return tr.constant(getattr(self.code, name))

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.code, name)

    def build(self, glue: Glue) -> str:
        return glue.keep(self.code)


def outside_function(tr: Tracer, fn: types.FunctionType, source: Source) -> FunctionValue:
    """A function object that existed before the frame.

    One of a module or class is guarded by identity, and its code once more (code can be replaced). A closure is a new
    object each time its maker runs, so it is guarded by its code only, and its parts are read from it again.
    """
    value = FunctionValue(fn.__code__, fn.__globals__, fn.__qualname__)
    value.fn, value.source = fn, source
    is_constant = isinstance(source, ConstSource)
    if is_constant or (fn.__closure__ is None and "<locals>" not in fn.__qualname__):
        tr.guard_identity(source, fn)
        anchor: Source = source if is_constant else tr.anchor(fn)
    else:
        tr.guard_type(source, fn)
        anchor = source
    tr.guard(FunctionCodeGuard(anchor, fn.__code__))
    value.globals_base = anchor
    value.defaults = [
        Lazy(default, FunctionDefaultSource(anchor, index)) for index, default in enumerate(fn.__defaults__ or ())
    ]
    value.kwdefaults = {
        key: Lazy(default, FunctionDefaultSource(anchor, key)) for key, default in (fn.__kwdefaults__ or {}).items()
    }
    value.closure = [
        outside_cell(tr, cell, anchor, index, name)
        for index, (cell, name) in enumerate(zip(fn.__closure__ or (), fn.__code__.co_freevars, strict=True))
    ]
    return value


def outside_cell(tr: Tracer, cell: types.CellType, function: Source, index: int, name: str) -> CellValue:
    """Cell `index` of a function from outside; one cell is one value, however many functions share it."""
    known = tr.known(cell)
    if known is None:
        source = CellObjectSource(function, index, name)
        known = CellValue.outside(cell, source, FunctionClosureSource(function, index, name))
        tr.remember(cell, known)
    assert isinstance(known, CellValue)
    return known


def slot_cell(tr: Tracer, cell: types.CellType, source: Source) -> CellValue:
    """A cell that a slot of the segment holds."""
    known = tr.known(cell)
    if known is None:
        known = CellValue.outside(cell, source, CellSource(source))
        tr.remember(cell, known)
    assert isinstance(known, CellValue)
    return known


class CellObjectSource(AttrSource):
    """The cell object itself: `function.__closure__[index]`."""

    def __init__(self, base: Source, index: int, cell_name: str) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "attr", f"__closure__[{index}]")
        object.__setattr__(self, "cell_name", cell_name)

    def expr_over(self, base: str) -> str:
        return f"{base}.{self.attr}"


class MethodValue(Value):
    """A function bound to an object."""

    def __init__(self, function: Value, owner: Value, source: Source | None = None) -> None:
        self.function = function
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return self.function.describe()

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return self.function.realize(tr).call(tr, [self.owner, *args], kwargs)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        return self.function.realize(tr).getattr(tr, name)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return name in ("__self__", "__func__") or self.function.realize(tr).has_attr(tr, name)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        """Bound methods are equal if they are one function, bound to one object."""
        from ..operators import same

        if op not in (operator.eq, operator.ne) or not isinstance(other, MethodValue):
            return None
        is_equal = same(tr, self.function, other.function) and same(tr, self.owner, other.owner)
        return ConstantValue(is_equal == (op is operator.eq))

    def build(self, glue: Glue) -> str:
        return f"__method__({glue.ref(self.function)}, {glue.ref(self.owner)})"


@rule(types.MethodType)
def _method_type(tr: Tracer, function: Value, owner: Value) -> Value:
    return MethodValue(function, owner)


def is_method(raw: Any) -> bool:
    """Whether a class attribute is a function of Python's, as written or as minicompile.compile has decorated it."""
    return isinstance(raw, types.FunctionType) or getattr(type(raw), "__minicompile_compiled__", None) is True


def bound_attribute(tr: Tracer, owner: Value, cls: type, raw: Any, source: Source) -> Value | None:
    """A class attribute `raw`, which `source` reads from the class, as an attribute of `owner`, an object (or for
    `super()` a subclass) of it. None for descriptors that are not modelled."""
    if is_method(raw):
        return MethodValue(tr.wrap(raw, source), owner)
    if isinstance(raw, property):
        if raw.fget is None:
            fail(AttributeError("property has no getter"))
        return tr.wrap(raw.fget, AttrSource(source, "fget")).call(tr, [owner], {})
    if isinstance(raw, classmethod):
        return MethodValue(Lazy(raw.__func__, AttrSource(source, "__func__")), tr.constant(cls))
    if isinstance(raw, staticmethod):
        return Lazy(raw.__func__, source)
    return None if hasattr(type(raw), "__get__") else Lazy(raw, source)


class PartialValue(Value):
    """functools.partial."""

    def __init__(self, function: Value, args: Args, kwargs: Kwargs, source: Source | None = None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.source = source

    def python_type(self) -> type:
        return functools.partial

    def describe(self) -> str:
        return f"partial of {self.function.describe()}"

    def getattr(self, tr: Tracer, name: str) -> Value:
        from .containers import DictValue, SequenceValue

        parts: dict[str, Any] = {
            "func": lambda: self.function,
            "args": lambda: SequenceValue(tuple, list(self.args)),
            "keywords": lambda: DictValue(dict, dict(self.kwargs)),
        }
        return parts[name]() if name in parts else super().getattr(tr, name)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(functools.partial, name) if self.source is None else super().has_attr(tr, name)

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return self.function.realize(tr).call(tr, [*self.args, *args], {**self.kwargs, **kwargs})

    def build(self, glue: Glue) -> str:
        parts = [glue.ref(self.function), *map(glue.ref, self.args)]
        parts += [f"**{{{key!r}: {glue.ref(value)}}}" for key, value in self.kwargs.items()]
        return f"__partial__({', '.join(parts)})"


def bind_arguments(tr: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> dict[str, Value]:
    """Parameters → values, as CPython binds them. A mismatch is the user's TypeError."""
    from .containers import DictValue, SequenceValue

    code = fn.code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :]
    slots = dict(zip(positional, args, strict=False))
    rest = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & CO_VARARGS:
        slots[code.co_varnames[rest]] = SequenceValue(tuple, args[code.co_argcount :])
        rest += 1
    elif len(args) > code.co_argcount:
        _mismatch(fn, args, kwargs)
    extra: dict[str, Value] = {}
    by_name = set(names[code.co_posonlyargcount :])
    for name, value in kwargs.items():
        if name not in by_name:
            extra[name] = value
        elif name in slots:
            _mismatch(fn, args, kwargs)
        else:
            slots[name] = value
    if code.co_flags & CO_VARKEYWORDS:
        slots[code.co_varnames[rest]] = DictValue(dict, extra)
    elif extra:
        _mismatch(fn, args, kwargs)
    _fill_defaults(fn, slots, positional, keyword_only)
    if any(name not in slots for name in names):
        _mismatch(fn, args, kwargs)
    return slots


def _fill_defaults(
    fn: FunctionValue, slots: dict[str, Value], positional: tuple[str, ...], keyword_only: tuple[str, ...]
) -> None:
    for name, default in zip(reversed(positional), reversed(fn.defaults), strict=False):
        slots.setdefault(name, default)
    for name in keyword_only:
        if name not in slots and name in fn.kwdefaults:
            slots[name] = fn.kwdefaults[name]


def _mismatch(fn: FunctionValue, args: Args, kwargs: Kwargs) -> NoReturn:
    """The TypeError of a call whose arguments do not fit, in CPython's words."""
    from ..binding import binding_error

    name = fn.name if fn.fn is None else fn.fn.__qualname__
    error = binding_error(fn.code, name, len(fn.defaults), fn.kwdefaults, len(args), kwargs)
    fail(error or TypeError(f"{name}() got arguments that do not fit"), is_exact=error is not None)
