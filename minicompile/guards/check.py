"""The check: an entry's guards as the first lines of its generated function.

In: a `GuardSet`, the parameters of the generated function, and the sources that the code behind the check will read.
Out: a `Check`: lines of Python that `return __MISS__` as soon as a guard fails, the namespace that they need, and the
text under which each source's value is at hand afterwards.

    try:
        if __type__(self) is not …: return __MISS__          # type(self) is Net
        __g0 = self._modules
        …
        if not __tensors(x, __g1): return __MISS__
    except Exception:
        return __MISS__                                      # a guard that raises is a miss

How the lines come about: guards are taken cheapest first, but before a guard reads `self.layers[0]` come the
structural guards (type, keys, length, code) on `layers` and `self`, whatever they cost, so that nothing is read from an
object of an unknown kind. All tensor guards are one native call. A source that is read more than once, by guards or
later by the glue, is read once into a local (a name starting with `__g`). Where many guards rest on what hardly ever
changes, their lines run only if it may have changed (unchanged.py).
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from ..frontend.computed_sources import ComputedSource, SizeSource
from ..frontend.helpers import HELPERS
from ..frontend.sources import BuiltinSource, GlobalSource, GlobalsSource, Source
from ..walks import reachable
from .guard_set import GuardSet
from .held import Held
from .kinds import Guard, SameObjectGuard
from .made import Made
from .miss import MISS
from .native_tensors import shape_reader
from .state import GlobalStateGuard
from .tensor_check import made_from, tensor_check
from .tensors import TENSOR_RANK, TensorGuard
from .unchanged import Watch
from .walk import SKIPPED, Step, path_to, walked


@dataclass
class Check:
    """A built check.

    Attributes:
        lines: statements for the head of the generated function, not indented.
        namespace: what they need as globals, `HELPERS` and `__MISS__` included; merge it with the glue's own.
        guards: the guards in the order in which they are checked.
        available: source → the local name or argument that holds its value once the check has passed.
        watched: objects that the entry is tied to.
        made: of the namespace, what another process has to make anew.
    """

    lines: list[str]
    namespace: dict[str, Any]
    guards: list[Guard]
    available: dict[Source, str]
    watched: list[Held] = field(default_factory=list)
    made: dict[str, Made] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The lines as text."""
        return "\n".join(self.lines)

    def expr(self, source: Source) -> str:
        """Text that yields the source's value behind the check: a name where there is one."""
        return self.available.get(source) or _over_nearest(source, self.available)

    def is_dead(self) -> bool:
        """Whether an object that the entry is tied to has died, so that the check can never pass again."""
        return any(held() is None for held in self.watched)

    def function(self, parameters: Sequence[str]) -> Callable[..., bool]:
        """The check alone, as a function `(__func__, *parameters) -> bool`."""
        body = "\n".join(f"    {line}" for line in (*self.lines, "return True"))
        namespace = dict(self.namespace, __MISS__=False)
        exec(f"def check({', '.join(('__func__', *parameters))}):\n{body}\n", namespace)
        return namespace["check"]


def build_check(
    guards: GuardSet,
    parameters: Sequence[str],
    reads: Iterable[Source] = (),
    on_death: Callable[[], None] | None = None,
) -> Check:
    """Write the check.

    Args:
        guards: what must hold. Traced tensors must still be alive.
        parameters: the generated function's parameters behind `__func__`.
        reads: sources that the glue reads; `Check.available` has them all.
        on_death: called when an object dies that the entry is tied to. It must not keep the entry alive: a method of
            the segment, or a weak method.
    Call it in the state the guarded call starts in: outside any fake mode, with its autocast and inference mode.
    Raises ReferenceError if a traced tensor has died.
    """
    return _Writer(guards, parameters, tuple(reads), on_death).build()


class _Writer:
    """Writes one check; a guard's `Scope`."""

    def __init__(
        self,
        guards: GuardSet,
        parameters: Sequence[str],
        reads: tuple[Source, ...],
        on_death: Callable[[], None] | None,
    ) -> None:
        self.tensors, twins = _distinct(guards.tensors())
        others = [guard for guard in guards.needed() if not isinstance(guard, TensorGuard)] + twins
        self.others = sorted(others, key=_rank)
        self.reads, self.on_death = reads, on_death
        self.prefix = _unused_prefix(parameters)
        self.namespace: dict[str, Any] = {**HELPERS, "__MISS__": MISS}
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.steps: dict[int, Step] = {}  # number of a line → what it means, where a walk could do it
        self.ordered: dict[Guard, None] = {}
        self.available: dict[Source, str] = {}
        self.watched: list[Held] = []
        self.made: dict[str, Made] = {}
        self.is_own_check = False
        self.undoing: list[str] = []  # names of functions that undo what reading has done
        self.bound = 0
        self.ranks = {guard.source: len(guard.shape) for guard in self.tensors}
        self.below_tensor = {guard.source: True for guard in self.tensors}
        self.required: set[Source] = set()  # what structural guards have been written for
        self.done: set[Guard] = set()
        self.structural: dict[Source, list[Guard]] = {}
        for guard in self.others:
            if guard.structural and len(guard.sources()) == 1:
                self.structural.setdefault(guard.sources()[0], []).append(guard)

    # ---- what guards call ----

    def read(self, source: Source) -> str:
        """The source's name; it and what it is read through are bound to locals first where they are used again."""
        if source in self.available:
            return self.available[source]
        self._add_bindings(source)
        for parent in source.parents():
            self.read(parent)
        return self._share(source)

    def _add_bindings(self, source: Source) -> None:
        """The names that its text takes for granted; of what is at hand they are there already."""
        if source in self.available:
            return
        parents = source.parents()
        if not parents or type(source).bindings is not Source.bindings:
            self.namespace.update(source.bindings())
        for parent in parents:
            self._add_bindings(parent)

    def keep(self, value: Any) -> str:
        if id(value) not in self.names:
            self.names[id(value)] = f"__k{len(self.names)}{_hint(value)}"
            self.namespace[self.names[id(value)]] = value
        return self.names[id(value)]

    def make(self, factory: Callable[..., Any], *args: Any) -> str:
        name = self.keep(factory(*args))
        self.made[name] = Made(factory, args)
        return name

    def watch(self, held: Held) -> str:
        value = held()
        if value is None:
            raise ReferenceError("an object died before the check that depends on it was built")
        if held not in self.watched:
            self.watched.append(held)
        callback = self.on_death
        # weakref.ref without a callback is shared by all who ask, so its id is a key for `keep`.
        reference = weakref.ref(value) if callback is None else self._reference(held, value, callback)
        return self.keep(reference)

    def _reference(self, held: Held, value: Any, callback: Callable[[], None]) -> weakref.ref[Any]:
        name = f"__w{self.watched.index(held)}"
        if name not in self.namespace:
            self.namespace[name] = weakref.ref(value, lambda _: callback())
        return self.namespace[name]

    # ---- the work ----

    def build(self) -> Check:
        if self.tensors:
            self.namespace["__tensors"], self.is_own_check = tensor_check(self.tensors)
            self.made["__tensors"] = made_from(self.tensors, self.is_own_check)
        watch = Watch([guard for guard in self.others if not self._hangs_on_tensor(guard)])
        head = self._emit_watched(watch) if watch.is_worthwhile() else []
        lines = [*self._function_dicts(), *_guarded([*head, *self._emit_rest()], self.undoing)]
        return Check(lines, self.namespace, list(self.ordered), self.available, self.watched, self.made)

    def _emit_watched(self, watch: Watch) -> list[str]:
        """Lines that ask the guards that a watch covers only if something they rest on may have changed; see there."""
        covered = set(watch.guards)
        rest = [guard for guard in self.others if guard not in covered]
        used = [*(source for guard in (*rest, *self.tensors) for source in guard.sources()), *self.reads]
        exports = list(dict.fromkeys(node for source in used if (node := watch.nearest(source)) is not None))
        self.uses = _uses(watch.guards, exports)
        for guard in watch.guards:
            self._emit(guard)
        values = [self.read(source) for source in exports]
        asked = self._walked()
        self.made["__unchanged"], inputs = watch.finish(exports)
        self.namespace["__unchanged"] = self.made["__unchanged"]()
        arguments = ", ".join(source.expr() for source in inputs)
        self.lines, self.steps, self.done, self.required = [], {}, covered, set()
        self.available = {source: self._new_name() for source in exports}
        return [
            f"__kept = __unchanged({arguments})",
            "if __kept is None:",
            *(f"    {line}" for line in (f"__noted = __unchanged.note({arguments})", *asked)),
            f"    __kept = ({''.join(f'{value}, ' for value in values)})",
            "    __unchanged.settle(__noted)",
            *([f"{', '.join(self.available.values())}, = __kept"] if exports else []),
        ]

    def _emit_rest(self) -> list[str]:
        """The lines of the guards that are asked at every call, and of what the glue reads."""
        rest = [guard for guard in (*self.others, *self.tensors) if guard not in self.done]
        # A tensor is read by the check of them all, and before that, where it must be, to ask whether it is nested.
        self.uses = _uses(rest, self.reads, [guard.source for guard in self.tensors])
        for guard in self.others:
            if guard.rank < TENSOR_RANK and not self._hangs_on_tensor(guard):
                self._emit(guard)
        self._emit_tensors()
        for guard in self.others:
            self._emit(guard)
        for source in self.reads:
            self._require(source)
            self._bind(source)
        return self._walked()

    def _walked(self) -> list[str]:
        """The lines so far, runs of them as native calls."""
        before = set(self.made)
        lines = walked(self.lines, self.steps, self.made)
        self.namespace.update((name, self.made[name]()) for name in self.made if name not in before)
        return lines

    def _hangs_on_tensor(self, guard: Guard) -> bool:
        return any(map(self._is_below_tensor, guard.sources()))

    def _is_below_tensor(self, source: Source) -> bool:
        """Whether the source is a tensor's or read through one."""
        if source not in self.below_tensor:
            self.below_tensor[source] = any(map(self._is_below_tensor, source.parents()))
        return self.below_tensor[source]

    def _emit(self, guard: Guard) -> None:
        """Write the guard, after the structural guards on everything that it reads through. Once."""
        if guard in self.done:
            return
        self.done.add(guard)
        for source in guard.sources():
            self._require(source)
            if not guard.structural:
                self._emit_all(self.structural.get(source, ()))
        if isinstance(guard, GlobalStateGuard) and self.tensors:
            condition = guard.condition_beside_tensors(self, self.is_own_check)
        else:
            condition = guard.condition(self)
        self._line(condition, str(guard))
        self._note_comparison(guard)
        self.ordered.setdefault(guard)

    def _note_comparison(self, guard: Guard) -> None:
        """The line just written may be part of a walk."""
        found = guard.comparison()
        path = path_to(found[0], self.available) if found is not None else None
        if found is not None and path is not None:
            self.steps[len(self.lines) - 1] = Step(*path, comparison=found[1:])

    def _require(self, source: Source) -> None:
        for parent in source.parents():
            if parent not in self.required:
                self.required.add(parent)
                self._require(parent)
                self._emit_all(self.structural.get(parent, ()))

    def _emit_all(self, guards: Iterable[Guard]) -> None:
        for guard in guards:
            self._emit(guard)

    def _emit_tensors(self) -> None:
        if not self.tensors:
            return
        for guard in self.tensors:
            self._require(guard.source)
        nested = [] if self.is_own_check else [text for guard in self.tensors if (text := guard.nested_condition(self))]
        for text in nested:
            self._line(text, "not a nested tensor, which the next check could not stand")
        names = [self.read(guard.source) for guard in self.tensors]
        self._line(f"__tensors({', '.join(names)})", f"{len(names)} tensors")
        self.ordered.update(dict.fromkeys(self.tensors))

    def _line(self, condition: str, comment: str) -> None:
        text = " ".join(comment.split())
        self.lines.append(f"if not ({condition}): return __MISS__  # {text if len(text) < 100 else text[:97] + '...'}")

    # ---- locals ----

    def _share(self, source: Source) -> str:
        if source not in self.available and (self.uses[source] > 1 or isinstance(source, SizeSource)):
            self._bind(source)
        return self.available.get(source) or _over_nearest(source, self.available)

    def _bind(self, source: Source) -> None:
        if source in self.available:
            return
        self._add_bindings(source)
        if isinstance(source, SizeSource) and self._bind_sizes(source.base):
            return
        text = _over_nearest(source, self.available)
        if not text.isidentifier():
            name = self._new_name()
            path = path_to(source, self.available)
            if path is not None:
                self.steps[len(self.lines)] = Step(*path, target=name)
            self.lines.append(f"{name} = {text}")
            text = name
            if source.undoes:
                self.undoing.append(name)
        self.available[source] = text

    def _new_name(self) -> str:
        self.bound += 1
        return f"{self.prefix}{self.bound - 1}"

    def _bind_sizes(self, tensor: Source) -> bool:
        """All sizes of a tensor that are read, in one go: `__g0, __skipped = __shape(x)`."""
        rank = self.ranks.get(tensor)
        if rank is None:
            return False
        names = []
        for size in (SizeSource(tensor, dim) for dim in range(rank)):
            names.append(self._new_name() if self.uses[size] else SKIPPED)
            if self.uses[size]:
                self.available[size] = names[-1]
        read = self.read(tensor)
        if self.is_own_check:
            self.made["__shape"] = Made(shape_reader, ())
            self.namespace["__shape"] = shape_reader()
        shape = f"__shape({read})" if self.is_own_check else f"{read}.shape"
        self.lines.append(f"{', '.join(names)}{',' * (rank == 1)} = {shape}")
        return True

    # ---- the frame around the lines ----

    def _function_dicts(self) -> list[str]:
        roots = [node for node in _with_parents(self._all_sources()) if not node.parents()]
        lines = []
        if any(isinstance(root, (GlobalSource, GlobalsSource)) for root in roots):
            lines.append("__globals__ = __func__.__globals__")
        if any(isinstance(root, BuiltinSource) for root in roots):
            lines.append("__builtins_dict__ = __func__.__builtins__")
        return lines

    def _all_sources(self) -> list[Source]:
        return [*(source for guard in (*self.others, *self.tensors) for source in guard.sources()), *self.reads]


def _guarded(lines: Sequence[str], undoing: Sequence[str]) -> list[str]:
    if not lines:
        return []
    before = [f"{' = '.join(undoing)} = None"] if undoing else []
    undo = [f"    {name} is not None and {name}()" for name in undoing]
    return [*before, "try:", *(f"    {line}" for line in lines), "except Exception:", *undo, "    return __MISS__"]


def _uses(guards: Iterable[Guard], *reads: Iterable[Source]) -> Counter[Source]:
    """How often each source will be read: as an operand of a guard, for other reasons, or on the way to another."""
    uses = Counter(source for guard in guards for source in guard.sources())
    for some in reads:
        uses.update(some)
    for source in _with_parents(uses):
        if (parent := source.parent()) is not None:
            uses[parent] += 1
    return uses


def _with_parents(sources: Iterable[Source]) -> set[Source]:
    """The sources and all that they are read through."""
    return reachable(sources, Source.parents)


def _rank(guard: Guard) -> int:
    return guard.rank


def _over_nearest(source: Source, available: Mapping[Source, str]) -> str:
    """The source's text over the nearest ancestor that has a name."""
    if source in available:
        return available[source]
    if isinstance(source, ComputedSource):
        return source.over([_over_nearest(term, available) for term in source.terms])
    parent = source.parent()
    return source.expr_over(_over_nearest(parent, available) if parent is not None else "")


def _distinct(tensors: list[TensorGuard]) -> tuple[list[TensorGuard], list[Guard]]:
    """The native check wants different objects: a tensor met again under another source becomes a relation."""
    first: dict[int, TensorGuard] = {}
    twins: list[Guard] = []
    for guard in tensors:
        # What another process made has no tensors; its twins were told apart there.
        earlier = first.setdefault(id(guard if guard.tensor is None else guard.tensor()), guard)
        if earlier is not guard:
            twins.append(SameObjectGuard(earlier.source, guard.source))
    return list(first.values()), twins


def _unused_prefix(parameters: Sequence[str]) -> str:
    prefix = "__g"
    while any(parameter.startswith(prefix) for parameter in parameters):
        prefix += "_"
    return prefix


def _hint(value: Any) -> str:
    name = getattr(value, "__name__", "") if isinstance(value, (type, FunctionType)) else ""
    return f"_{name}" if name.isidentifier() else ""
