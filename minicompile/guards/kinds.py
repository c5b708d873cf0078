"""Guard kinds: one small frozen dataclass for each sort of fact about the outside that a trace relied on.

In: sources, and the facts as they were when tracing.
Out: `condition(scope)`, the Python text that is true while the fact holds; `explain(frame)`, why it does not hold for
this call, in the user's terms; `str(guard)`, the fact itself for `entry.guards`.

Each kind lives alone: `guards.check` orders the guards, gives repeated reads a local name and writes the function.
Facts about tensors are in `guards.tensors`, about torch's global state in `guards.state`, about symbolic sizes in
`guards.sizes`.

No guard keeps the user's objects alive unless it must: an object that can be weakly referenced is (`Held`), and the
entry dies with it; so a number that is reused as the `id` of a later object can never pass for the first.
"""

from __future__ import annotations

import math
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ..frontend.sources import AttributesSource, ConstSource, GlobalsSource, InstanceDictSource, RegistrySource, Source
from .constants import constant_key, is_constant, is_singleton
from .held import Held
from .words import a, show, with_type


class Scope(Protocol):
    """What a guard may ask for while it writes its condition."""

    def read(self, source: Source) -> str:
        """The text that yields the source's value: a local name or an expression."""

    def keep(self, value: Any) -> str:
        """A name in the generated function's namespace that stands for this object (held strongly)."""

    def make(self, factory: Callable[..., Any], *args: Any) -> str:
        """A name for what the factory makes of these arguments, here and in every process that recalls the entry."""

    def watch(self, held: Held) -> str:
        """A name for a weak reference whose death kills the entry."""


class Frame(Protocol):
    """What a guard may ask for while it explains a miss."""

    def value(self, source: Source) -> Any:
        """The source's value in this call. Raises whatever reading it raises."""


Stay = tuple[str, Source] | tuple[str, Source, Any]
"""What is to stay about the value of a source: ("object", s): which object it is; "place": the same, if only as long as
the call lasts; "constant": which constant; "type"; "keys": a container's contents; "empty"; "code"; "class": the
attributes of a class."""


class Guard:
    """Base class; see the module's docstring.

    `rank` orders checks, cheapest first: 0 pointers, 10 values, 20 containers, 30 global state, 40 all tensors at once,
    50 size arithmetic, 60 helpers in Python. A structural guard is a fact that makes it safe to read further.
    """

    rank: ClassVar[int] = 0
    structural: ClassVar[bool] = False

    def sources(self) -> tuple[Source, ...]:
        return (self.source,) if hasattr(self, "source") else ()

    def condition(self, scope: Scope) -> str:
        raise NotImplementedError

    def comparison(self) -> tuple[Source, str, Any] | None:
        """The condition as a comparison of one source's value in the sense of walk.c, where it is one."""
        return None

    def rests_on(self) -> tuple[Stay, ...] | None:
        """What has to stay as it is for the fact to hold for ever: then it need not be asked again. None: more than
        can be watched (see unchanged.py)."""
        return None

    def explain(self, frame: Frame) -> str | None:
        """Why the fact does not hold; None if it does. Never raises on account of the user's objects."""
        try:
            return self.miss(frame)
        except Exception as error:
            place = ", ".join(source.describe() for source in self.sources())
            return f"{place}: cannot be read any more ({type(error).__name__}: {error})"

    def miss(self, frame: Frame) -> str | None:
        raise NotImplementedError


# ---- identity ----


@dataclass(frozen=True)
class IdentityGuard(Guard):
    """The source yields this very object."""

    source: Source
    held: Held
    structural: ClassVar[bool] = True

    @classmethod
    def of(cls, source: Source, value: Any) -> IdentityGuard:
        return cls(source, Held(value))

    def condition(self, scope: Scope) -> str:
        if not self.held.weak:
            return f"{scope.read(self.source)} is {scope.keep(self.held())}"
        # A dead reference yields None, and so may the source: the last comparison keeps that from being a hit.
        return f"{scope.watch(self.held)}() is {scope.read(self.source)} is not None"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("object", self.source),)

    def miss(self, frame: Frame) -> str | None:
        expected, value = self.held(), frame.value(self.source)
        if self.held.weak and expected is None:
            return f"{self.source.describe()}: the object it was compiled for no longer exists"
        return None if value is expected else f"{self.source.describe()} is another object: {show(value)}"

    def __str__(self) -> str:
        return f"{self.source} is {self.held}"


@dataclass(frozen=True)
class SameObjectGuard(Guard):
    """Two sources yield one object, as they did when tracing: a list passed twice, a tensor passed twice."""

    first: Source
    second: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.first, self.second)

    def condition(self, scope: Scope) -> str:
        return f"{scope.read(self.first)} is {scope.read(self.second)}"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("place", self.first), ("place", self.second))

    def miss(self, frame: Frame) -> str | None:
        if frame.value(self.first) is frame.value(self.second):
            return None
        return f"{self.first.describe()} and {self.second.describe()} are two objects, compiled for one"

    def __str__(self) -> str:
        return f"{self.first} is {self.second}"


@dataclass(frozen=True)
class DistinctObjectsGuard(Guard):
    """No two of these sources yield one object; needed where one is mutated. Tensor guards imply it among tensors."""

    members: tuple[Source, ...]
    rank: ClassVar[int] = 20

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def condition(self, scope: Scope) -> str:
        if len(self.members) == 2:
            return f"{scope.read(self.members[0])} is not {scope.read(self.members[1])}"
        ids = ", ".join(f"{scope.keep(id)}({scope.read(member)})" for member in self.members)
        return f"__len__({{{ids}}}) == {len(self.members)}"

    def rests_on(self) -> tuple[Stay, ...]:
        return tuple(("place", member) for member in self.members)

    def miss(self, frame: Frame) -> str | None:
        seen: dict[int, Source] = {}
        for member in self.members:
            earlier = seen.setdefault(id(frame.value(member)), member)
            if earlier is not member:
                return f"{earlier.describe()} and {member.describe()} are one object, compiled for two"
        return None

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.members))} are different objects"


# ---- types and values ----


@dataclass(frozen=True)
class TypeGuard(Guard):
    """The value's class is exactly this one."""

    source: Source
    held: Held
    structural: ClassVar[bool] = True

    @classmethod
    def of(cls, source: Source, value: Any) -> TypeGuard:
        """A guard on the class of `value`."""
        return cls(source, Held(type(value)))

    def condition(self, scope: Scope) -> str:
        text = f"__type__({scope.read(self.source)}) is "
        # A class is never None, so a dead reference cannot be a hit here.
        return text + (f"{scope.watch(self.held)}()" if self.held.weak else scope.keep(self.held()))

    def comparison(self) -> tuple[Source, str, Any] | None:
        if not self.held.weak:
            return self.source, "type", self.held()
        held = self.held()
        return None if held is None else (self.source, "weak type", weakref.ref(held))

    def rests_on(self) -> tuple[Stay, ...]:
        return (("type", self.source),)

    def miss(self, frame: Frame) -> str | None:
        value = frame.value(self.source)
        if type(value) is self.held():
            return None
        return f"{self.source.describe()} is {a(type(value))}, compiled for {a(self.held())}"

    def __str__(self) -> str:
        return f"type({self.source}) is {self.held}"


@dataclass(frozen=True)
class ClassNamesGuard(Guard):
    """A class holds as many names as it did, so what a lookup did not find in it, it does not find now."""

    held: Held
    count: int
    rank: ClassVar[int] = 10

    @classmethod
    def of(cls, owner: type) -> ClassNamesGuard:
        return cls(Held(owner), len(owner.__dict__))

    def condition(self, scope: Scope) -> str:
        owner = f"{scope.watch(self.held)}()" if self.held.weak else scope.keep(self.held())
        return f"__len__({owner}.__dict__) == {self.count}"

    def rests_on(self) -> tuple[Stay, ...] | None:
        owner = self.held()
        return None if self.held.weak or owner is None else (("class", ConstSource(owner, "")),)

    def miss(self, frame: Frame) -> str | None:
        owner = self.held()
        if owner is not None and len(owner.__dict__) == self.count:
            return None
        return f"class {self.held} has other attributes now"

    def __str__(self) -> str:
        return f"class {self.held} has {self.count} attributes"


@dataclass(frozen=True)
class ConstantGuard(Guard):
    """The value is this constant, by type and by bits. Raises TypeError for a value that `is_constant` refuses."""

    source: Source
    constant: Any = field(compare=False)
    key: Any = field(init=False, repr=False)
    rank: ClassVar[int] = 10
    structural: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_constant(self.constant):
            raise TypeError(f"{a(type(self.constant))} cannot be guarded by value")
        object.__setattr__(self, "key", constant_key(self.constant))

    def __reduce__(self) -> Any:  # the key may hold the id of an object
        return (ConstantGuard, (self.source, self.constant))

    def condition(self, scope: Scope) -> str:
        value, read = self.constant, scope.read(self.source)
        if is_singleton(value):
            return f"{read} is {repr(value) if value is None or type(value) is bool else scope.keep(value)}"
        if type(value) in (int, str, bytes) or (type(value) is float and value != 0.0 and math.isfinite(value)):
            return f"__type__({read}) is {scope.keep(type(value))} and {read} == {value!r}"
        return f"{scope.keep(constant_key)}({read}) == {scope.make(constant_key, value)}"

    def comparison(self) -> tuple[Source, str, Any] | None:
        if is_singleton(self.constant):
            return self.source, "is", self.constant
        return (self.source, "equal", self.constant) if type(self.constant) in (int, str, bytes) else None

    def rests_on(self) -> tuple[Stay, ...]:
        return (("constant", self.source),)

    def miss(self, frame: Frame) -> str | None:
        value = frame.value(self.source)
        if constant_key(value) == self.key:
            return None
        if type(value) is type(self.constant):
            return f"{self.source.describe()} is {show(value)}, compiled for {show(self.constant)}"
        return f"{self.source.describe()} is {with_type(value)}, compiled for {with_type(self.constant)}"

    def __str__(self) -> str:
        return f"{self.source} == {show(self.constant)}"


# ---- containers, attributes, keys ----


@dataclass(frozen=True)
class LengthGuard(Guard):
    """`len(value)` is this number."""

    source: Source
    length: int
    rank: ClassVar[int] = 10
    structural: ClassVar[bool] = True

    def condition(self, scope: Scope) -> str:
        return f"__len__({scope.read(self.source)}) == {self.length}"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("keys" if self.length else "empty", self.source),)

    def miss(self, frame: Frame) -> str | None:
        length = len(frame.value(self.source))
        if length == self.length:
            return None
        return f"{self.source.describe()} has {length} items, compiled for {self.length}"

    def __str__(self) -> str:
        return f"len({self.source}) == {self.length}"


@dataclass(frozen=True)
class KeysGuard(Guard):
    """A dict's keys (or a set's elements), with their types and in their order.

    `keys` holds one `constant_key` per key; an object key is known by identity and held (weakly where possible).
    """

    source: Source
    keys: tuple[Any, ...]
    shown: str = field(compare=False)
    rank: ClassVar[int] = 20
    structural: ClassVar[bool] = True

    @classmethod
    def of(cls, source: Source, container: Any) -> KeysGuard:
        return cls(source, tuple(map(_expected_key, container)), ", ".join(map(show, container)))

    def condition(self, scope: Scope) -> str:
        read = scope.read(self.source)
        if all(type(key) is str for key in self.keys):
            return f"[*{read}] == {list(self.keys)!r}"
        for key in self.keys:
            if isinstance(key, Held) and key.weak:
                scope.watch(key)
        return f"{scope.keep(same_keys)}({read}, {scope.keep(self.keys)})"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("keys" if self.keys else "empty", self.source),)

    def miss(self, frame: Frame) -> str | None:
        container = frame.value(self.source)
        if same_keys(container, self.keys):
            return None
        return f"{self.source.describe()} has the keys {', '.join(map(show, container))}, compiled for {self.shown}"

    def __str__(self) -> str:
        return f"keys of {self.source} are {self.shown or 'none'}"


def _expected_key(key: Any) -> Any:
    if type(key) is str:
        return key
    return constant_key(key) if is_constant(key) else Held(key)


def same_keys(container: Any, expected: tuple[Any, ...]) -> bool:
    """Whether a container has these keys, of the same types and values, in this order; objects by identity."""
    return len(container) == len(expected) and all(map(_same_key, container, expected))


def _same_key(key: Any, expected: Any) -> bool:
    if isinstance(expected, Held):
        return expected() is key
    return (key if type(key) is str else constant_key(key)) == expected


@dataclass(frozen=True)
class KeyPresenceGuard(Guard):
    """A constant key is, or is not, in a dict or set."""

    source: Source
    key: Any
    present: bool
    rank: ClassVar[int] = 10

    def condition(self, scope: Scope) -> str:
        return f"{scope.keep(self.key)} {'in' if self.present else 'not in'} {scope.read(self.source)}"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("key", self.source, self.key),)

    def miss(self, frame: Frame) -> str | None:
        if (self.key in frame.value(self.source)) == self.present:
            return None
        return f"{self.source.describe()} has {'no' if self.present else 'a'} key {show(self.key)} now"

    def __str__(self) -> str:
        return f"{show(self.key)} {'in' if self.present else 'not in'} {self.source}"


@dataclass(frozen=True)
class AttrPresenceGuard(Guard):
    """`hasattr(value, attr)` is what it was. Runs `__getattr__`, as the user's own `hasattr` does.

    `owner`: the class of an object whose attributes are looked up in the ordinary way: in its `__dict__`, its class and
    these registries of nn.Module, and nowhere else.
    """

    source: Source
    attr: str
    present: bool
    owner: Held | None = field(default=None, compare=False)
    registries: tuple[str, ...] = field(default=(), compare=False)
    rank: ClassVar[int] = 10

    def condition(self, scope: Scope) -> str:
        return f"{scope.keep(hasattr)}({scope.read(self.source)}, {self.attr!r}) is {self.present}"

    def rests_on(self) -> tuple[Stay, ...] | None:
        owner = self.owner() if self.owner is not None and not self.owner.weak else None
        if owner is None:
            return None
        places = (AttributesSource(self.source), *(RegistrySource(self.source, name) for name in self.registries))
        return (("class", ConstSource(owner, "")), *(("key", place, self.attr) for place in places))

    def miss(self, frame: Frame) -> str | None:
        if hasattr(frame.value(self.source), self.attr) == self.present:
            return None
        return f"{self.source.describe()} has {'no' if self.present else 'an'} attribute {self.attr} now"

    def __str__(self) -> str:
        return f"{self.source} has {'an' if self.present else 'no'} attribute {self.attr}"


@dataclass(frozen=True)
class InstanceAttrAbsentGuard(Guard):
    """The object's own `__dict__` has no such name, so what its class or nn.Module's registry gives is what counts."""

    source: Source
    attr: str
    rank: ClassVar[int] = 10

    def sources(self) -> tuple[Source, ...]:
        return (AttributesSource(self.source),)

    def condition(self, scope: Scope) -> str:
        return f"{self.attr!r} not in {scope.read(AttributesSource(self.source))}"

    def comparison(self) -> tuple[Source, str, Any] | None:
        return AttributesSource(self.source), "absent", self.attr

    def rests_on(self) -> tuple[Stay, ...]:
        return (("key", AttributesSource(self.source), self.attr),)

    def miss(self, frame: Frame) -> str | None:
        if self.attr not in frame.value(self.source).__dict__:
            return None
        return f"{self.source.describe()} has an attribute {self.attr} of its own now, which hides the one compiled for"

    def __str__(self) -> str:
        return f"{self.source} has no {self.attr} of its own"


@dataclass(frozen=True)
class GlobalAbsentGuard(Guard):
    """No global of this name hides the builtin; `base`: the function whose globals are meant, None for the frame's."""

    global_name: str
    base: Source | None = None
    rank: ClassVar[int] = 10

    def sources(self) -> tuple[Source, ...]:
        return (GlobalsSource(self.base),)

    def condition(self, scope: Scope) -> str:
        return f"{self.global_name!r} not in {scope.read(GlobalsSource(self.base))}"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("key", GlobalsSource(self.base), self.global_name),)

    def miss(self, frame: Frame) -> str | None:
        if self.global_name not in frame.value(GlobalsSource(self.base)):
            return None
        return f"a global {self.global_name} exists now and hides the builtin of that name"

    def __str__(self) -> str:
        return f"no global {self.global_name}"


# ---- functions and modules ----


@dataclass(frozen=True)
class FunctionCodeGuard(Guard):
    """A function still runs this code. Defaults and closure cells are sources of their own."""

    source: Source
    code: types.CodeType
    rank: ClassVar[int] = 1
    structural: ClassVar[bool] = True

    def condition(self, scope: Scope) -> str:
        return f"{scope.read(self.source)}.__code__ is {scope.keep(self.code)}"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("code", self.source),)

    def miss(self, frame: Frame) -> str | None:
        code = frame.value(self.source).__code__
        if code is self.code:
            return None
        return f"{self.source.describe()} runs other code: {code.co_name} at {code.co_filename}:{code.co_firstlineno}"

    def __str__(self) -> str:
        return f"{self.source} runs {self.code.co_name} of line {self.code.co_firstlineno}"


@dataclass(frozen=True)
class ModuleTrainingGuard(Guard):
    """nn.Module's `training` flag."""

    source: Source
    training: bool
    rank: ClassVar[int] = 1

    def condition(self, scope: Scope) -> str:
        return f"{scope.read(self.source)}.training is {self.training}"

    def miss(self, frame: Frame) -> str | None:
        now = frame.value(self.source).training
        if now is self.training:
            return None
        return f"{self.source.describe()} is in {_mode(now)} mode, compiled for {_mode(self.training)} mode"

    def __str__(self) -> str:
        return f"{self.source}.training is {self.training}"


def _mode(training: bool) -> str:
    return "training" if training else "evaluation"


@dataclass(frozen=True)
class NoModuleHooksGuard(Guard):
    """A module has no forward or backward hooks, so that calling it is calling `forward`."""

    source: Source
    HOOKS: ClassVar[tuple[str, ...]] = tuple(
        f"_{kind}_hooks" for kind in ("forward", "forward_pre", "backward", "backward_pre")
    )
    rank: ClassVar[int] = 1

    def sources(self) -> tuple[Source, ...]:
        return (AttributesSource(self.source),)

    def condition(self, scope: Scope) -> str:
        read = scope.read(AttributesSource(self.source))
        return f"not ({' or '.join(f'{read}[{hooks!r}]' for hooks in self.HOOKS)})"

    def rests_on(self) -> tuple[Stay, ...]:
        return tuple(("empty", InstanceDictSource(self.source, hooks)) for hooks in self.HOOKS)

    def miss(self, frame: Frame) -> str | None:
        module = frame.value(self.source)
        if not any(getattr(module, hooks) for hooks in self.HOOKS):
            return None
        return f"{self.source.describe()} has hooks now, compiled for none"

    def __str__(self) -> str:
        return f"{self.source} has no hooks"
