"""Sources: where a value that a compiled piece depends on can be read again on a later call.

In: what the interpreter knows about a value's way from the frame (argument `x`, its attribute `weight`, item 0 of it).
Out: three texts. `expr()` is Python, valid inside the generated check-and-glue function; `describe()` is for the user;
`name()` is a valid identifier for placeholders and files.

A source is a small frozen dataclass, hashable and compared by value, so one tracker, one guard and one graph input
per place fall out of ordinary dicts. Guards, glue and messages all share it: there is no second spelling of a place.

Names that `expr()` takes for granted in the generated function: its own arguments and slots; `__func__`, the function
object of the running frame; `__globals__` and `__builtins_dict__`, that function's two dicts (`guards.check` writes
the lines that set them); `HELPERS`; and whatever `bindings()` of the source or of one of its bases puts into the
namespace. All of these are dunder names, because a user may well call an argument `type` or `len`.

Reading a source must not run user code that eager would not run. An attribute may be a property: the caller guards
the type of the base first, or reads with `InstanceDictSource`, which calls nothing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar, dataclass_transform

from .helpers import ARITHMETIC

_CALLED = re.compile(rf"\b({'|'.join(name.strip('_') for name in ARITHMETIC)})\b")


def namespaced(text: str) -> str:
    """`min(…)` as `__min__(…)`: a user may have an argument called `min`."""
    return _CALLED.sub(r"__\1__", text)


class Source:
    """Base class. Subclasses are frozen dataclasses; one that derives from another source has it in `base`."""

    __slots__ = ()
    undoes: ClassVar[bool] = False
    """Whether it is a function that undoes what reading the sources behind it does."""

    def expr(self) -> str:
        """Python expression that reads the value, given the text of nothing else."""
        parent = self.parent()
        return self.expr_over(parent.expr() if parent is not None else "")

    def expr_over(self, base: str) -> str:
        """`expr()` when the value of `parent()` already stands in the expression `base`."""
        raise NotImplementedError

    def path(self) -> str:
        """How the user would write it, as short as clear: `self.weight`, `x[0]`."""
        raise NotImplementedError

    def describe(self) -> str:
        """For messages: the path, with the kind of its root where it is one (`argument x`, `global scale`)."""
        return self.path()

    def name(self) -> str:
        """A valid identifier made from the path. Not unique; whoever needs that adds a number."""
        text = re.sub(r"\W+", "_", self.path()).strip("_") or "value"
        is_free = text.isidentifier() and not keyword.iskeyword(text) and text != "self"  # a graph's own first argument
        return text if is_free else f"v_{text}"

    def parent(self) -> Source | None:
        """The source that this one is read from, or None for a root."""
        return getattr(self, "base", None)

    def parents(self) -> tuple[Source, ...]:
        """What reading this one reads first: the parent, or the terms of what is computed; nothing for a root."""
        parent = self.parent()
        return () if parent is None else (parent,)

    def ancestors(self) -> Iterator[Source]:
        """The sources that reading this one goes through, nearest first."""
        source = self.parent()
        while source is not None:
            yield source
            source = source.parent()

    def bindings(self) -> dict[str, Any]:
        """Names that `expr()` needs in the namespace of the generated function, bases included."""
        parent = self.parent()
        return parent.bindings() if parent is not None else {}

    def __str__(self) -> str:
        return self.path()


_S = TypeVar("_S", bound=type)


@dataclass_transform(frozen_default=True)
def source_class(cls: _S) -> _S:
    """A frozen dataclass that computes its hash once: sources nest, and are keys of every table while tracing."""
    result: Any = dataclass(frozen=True)(cls)
    compute: Any = result.__hash__

    def cached_hash(self: Any) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = compute(self)
        return found

    def fields_alone(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    result.__hash__ = cached_hash
    result.__getstate__ = fields_alone  # a hash of another process is no use
    return result


# ---- roots: what the frame itself holds ----


@source_class
class LocalSource(Source):
    """An argument or a local variable of the frame, under its slot's name in the generated function.

    `slot` is that name where it differs from the user's (a name like `.0` is no identifier).
    """

    local_name: str
    is_argument: bool = True
    slot: str | None = None

    def expr_over(self, base: str) -> str:
        return self.slot or self.local_name

    def path(self) -> str:
        return self.local_name

    def describe(self) -> str:
        return f"{'argument' if self.is_argument else 'local variable'} {self.local_name}"


@source_class
class StackSource(Source):
    """Value `index` (0 = deepest) of the frame's stack where a segment starts; slot `__stack_<index>`."""

    index: int

    def expr_over(self, base: str) -> str:
        return f"__stack_{self.index}"

    def path(self) -> str:
        return f"stack{self.index}"

    def describe(self) -> str:
        return f"intermediate value {self.index}"


@source_class
class FunctionSource(Source):
    """The function object of the running frame."""

    def expr_over(self, base: str) -> str:
        return "__func__"

    def path(self) -> str:
        return "function"

    def describe(self) -> str:
        return "the function itself"


@source_class
class ConstSource(Source):
    """An object that the namespace of the generated function keeps alive under `binding`. Compared by identity."""

    value: Any
    binding: str

    def expr_over(self, base: str) -> str:
        return self.binding

    def path(self) -> str:
        return getattr(self.value, "__name__", None) or self.binding

    def bindings(self) -> dict[str, Any]:
        return {self.binding: self.value}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstSource) and self.value is other.value and self.binding == other.binding

    def __hash__(self) -> int:
        return hash((id(self.value), self.binding))


# ---- what hangs on a function ----


@source_class
class GlobalSource(Source):
    """Global variable `global_name` of the running frame's function, or of the function read from `base`."""

    global_name: str
    base: Source | None = None

    def expr_over(self, base: str) -> str:
        return f'{_dict_of(base, "__globals__", "__globals__")}[{self.global_name!r}]'

    def path(self) -> str:
        return self.global_name

    def describe(self) -> str:
        return f"global {self.global_name}"


@source_class
class GlobalsSource(Source):
    """The globals dict itself, of the running frame's function or of the function read from `base`."""

    base: Source | None = None

    def expr_over(self, base: str) -> str:
        return _dict_of(base, "__globals__", "__globals__")

    def path(self) -> str:
        return f"{self.base.path()}.__globals__" if self.base else "globals()"


@source_class
class BuiltinSource(Source):
    """Builtin `builtin_name` as the running frame's function, or the one read from `base`, sees it.

    Guard with `GlobalAbsentGuard` as well: a global of the same name hides the builtin.
    """

    builtin_name: str
    base: Source | None = None

    def expr_over(self, base: str) -> str:
        return f'{_dict_of(base, "__builtins__", "__builtins_dict__")}[{self.builtin_name!r}]'

    def path(self) -> str:
        return self.builtin_name

    def describe(self) -> str:
        return f"builtin {self.builtin_name}"


def _dict_of(base: str, attribute: str, root_name: str) -> str:
    return f"{base}.{attribute}" if base else root_name


@source_class
class FreeCellSource(Source):
    """Contents of the running frame's closure cell `index`, called `cell_name` by the user."""

    cell_name: str
    index: int

    def expr_over(self, base: str) -> str:
        return f"__func__.__closure__[{self.index}].cell_contents"

    def path(self) -> str:
        return self.cell_name

    def describe(self) -> str:
        return f"closure variable {self.cell_name}"


@source_class
class FunctionClosureSource(Source):
    """Contents of cell `index`, called `cell_name`, in the closure of the function read from `base`."""

    base: Source
    index: int
    cell_name: str = ""

    def expr_over(self, base: str) -> str:
        return f"{base}.__closure__[{self.index}].cell_contents"

    def path(self) -> str:
        return self.cell_name or f"{self.base.path()}.__closure__[{self.index}]"

    def describe(self) -> str:
        return f"closure variable {self.cell_name} of {self.base.path()}" if self.cell_name else self.path()


@source_class
class CellSource(Source):
    """Contents of the cell object that stands in `base` itself (a slot that holds a cell)."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"{base}.cell_contents"

    def path(self) -> str:
        return self.base.path()

    def describe(self) -> str:
        return f"closure variable {self.path()}"


@source_class
class FunctionDefaultSource(Source):
    """A parameter's default in the function in `base`: `key` counts `__defaults__` or names a keyword-only one."""

    base: Source
    key: int | str

    def expr_over(self, base: str) -> str:
        return f"{base}.{'__defaults__' if isinstance(self.key, int) else '__kwdefaults__'}[{self.key!r}]"

    def path(self) -> str:
        return f"default {self.key} of {self.base.path()}"


# ---- what hangs on any object ----


@source_class
class AttrSource(Source):
    """Attribute `attr` of `base`, by ordinary attribute access (descriptors and `__getattr__` run)."""

    base: Source
    attr: str

    def expr_over(self, base: str) -> str:
        if self.attr.isidentifier() and not keyword.iskeyword(self.attr):
            return f"{base}.{self.attr}"
        return f"__getattr__({base}, {self.attr!r})"

    def path(self) -> str:
        return f"{self.base.path()}.{self.attr}"


@source_class
class AttributesSource(Source):
    """`base.__dict__`: a step that all reads below it share. On an nn.Module any attribute costs 80 ns, as its class
    has a `__getattr__`, and an item of this dict 20."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"{base}.__dict__"

    def path(self) -> str:
        return self.base.path()


class _InAttributes(Source):
    """What is read from `base.__dict__`."""

    base: Source

    @cached_property
    def _attributes(self) -> AttributesSource:
        return AttributesSource(self.base)

    def parent(self) -> Source:
        return self._attributes


@source_class
class InstanceDictSource(_InAttributes):
    """Attribute `attr` straight from `base.__dict__`: no descriptor, no `__getattr__`, no user code."""

    base: Source
    attr: str

    def expr_over(self, base: str) -> str:
        return f"{base}[{self.attr!r}]"

    def path(self) -> str:
        return f"{self.base.path()}.{self.attr}"


@source_class
class ModuleMemberSource(Source):
    """A parameter, buffer or submodule, read from nn.Module's own registry.

    Twenty times cheaper than `module.weight`, which goes through `Module.__getattr__`, and blind to properties. The
    user sees `self.weight` all the same. An instance or class attribute of that name hides it: `AttrAbsentGuard`.
    `registry` is `"_parameters"`, `"_buffers"` or `"_modules"`.
    """

    base: Source
    registry: str
    key: str

    def expr_over(self, base: str) -> str:
        return f"{base}[{self.key!r}]"

    def path(self) -> str:
        return f"{self.base.path()}.{self.key}" if self.key.isidentifier() else f"{self.base.path()}[{self.key}]"

    @cached_property
    def _registry(self) -> RegistrySource:
        return RegistrySource(self.base, self.registry)

    def parent(self) -> Source:
        return self._registry


@source_class
class RegistrySource(_InAttributes):
    """One of nn.Module's registries itself; the step between a module and its members, shared by all of them."""

    base: Source
    registry: str

    def expr_over(self, base: str) -> str:
        return f"{base}[{self.registry!r}]"

    def path(self) -> str:
        return f"{self.base.path()}.{self.registry}"


@source_class
class ItemSource(Source):
    """`base[key]` for a constant key (int, str, bool, None, bytes or tuple of these), or for the value of a source."""

    base: Source
    key: Any

    def __post_init__(self) -> None:
        if not isinstance(self.key, Source) and not _is_literal(self.key):
            raise ValueError(f"a {type(self.key).__name__} has no literal text; pass a ConstSource as the key")

    def expr_over(self, base: str) -> str:
        return f"{base}[{self.key.expr() if isinstance(self.key, Source) else repr(self.key)}]"

    def path(self) -> str:
        return f"{self.base.path()}[{self.key.path() if isinstance(self.key, Source) else repr(self.key)}]"

    def bindings(self) -> dict[str, Any]:
        own = self.key.bindings() if isinstance(self.key, Source) else {}
        return {**self.base.bindings(), **own}


def _is_literal(key: Any) -> bool:
    if type(key) is tuple:
        return all(map(_is_literal, key))
    return key is None or type(key) in (int, str, bool, bytes)


@source_class
class DictKeySource(Source):
    """Key number `index` of the dict (or element of the iterable container) in `base`, in its own order."""

    base: Source
    index: int

    def expr_over(self, base: str) -> str:
        return f"[*{base}][{self.index}]"

    def path(self) -> str:
        return f"key {self.index} of {self.base.path()}"


@source_class
class ContentsSource(Source):
    """What an object of a subclass of a builtin container holds, as a plain container; see `contents_of`."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"__contents__({base})"

    def path(self) -> str:
        return self.base.path()
