"""The tracer: what all frames of one translation share.

In: the root frame's real variables and their sources. Out: a graph, guards, a journal of side effects, and whatever the
interpreted program left on its stack and in its variables.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ..guards.guard_set import GuardSet
from ..guards.kinds import (
    ClassNamesGuard,
    DistinctObjectsGuard,
    Guard,
    IdentityGuard,
    SameObjectGuard,
    TypeGuard,
)
from ..guards.presence import PresenceGuard
from ..guards.torch_state import default_device
from ..ir.graph import Origin
from . import observer
from .breaks import Break, Location, Restart, UserError, unsupported, unsupported_call
from .bytecode import decode
from .data_dependent import condition
from .draws import Draws
from .frame import Frame
from .graph import GraphBuilder
from .side_effects import Journal
from .sources import ConstSource, Source
from .values.base import Args, Kwargs, Lazy, NotConstant, Value, fail
from .values.classes import ClassValue
from .values.computed import ComputedValue
from .values.constant import ConstantValue, OpenValue, SymIntValue, is_constant_object, specialized
from .values.containers import DictValue, SequenceValue, SetValue
from .values.functions import CellValue, FunctionValue, bind_arguments
from .values.generators import GeneratorValue
from .values.objects import ObjectValue, PyModuleValue, is_open_class
from .values.subclasses import SubclassValue
from .values.tensor import TensorValue
from .values.wrap import wrap

if TYPE_CHECKING:
    from ..guards.state import GlobalStateGuard
    from .raising_branches import Refusal
    from .values.indexing import Taken
    from .values.mode_blocks import BlockExitValue
    from .values.tensor_data import DataRead

MAX_DEPTH = 60
"""How many calls deep inlining goes; every level takes a few Python frames of our own."""


class Tracer:
    """The state of one translation. `epoch` counts every symbolic mutation: whether an instruction that broke has
    already changed anything; `root_step` the root frame's instructions."""

    def __init__(self, graph: GraphBuilder, state: GlobalStateGuard) -> None:
        self.graph = graph
        self.guards = GuardSet([state])
        self.journal = Journal()
        self.epoch = 0
        self.root_step = 0
        self.frame: Frame = None  # type: ignore[assignment]
        self.observer = observer.current()
        self.entry_grad_mode = torch.is_grad_enabled()
        self.default_device = default_device()
        self.handled: list[Value | None] = [None]
        """The exception that is being handled, of the frame and of each generator that is running, innermost last."""
        self.is_called_in_handler = sys.exc_info()[1] is not None
        self.open_blocks: list[BlockExitValue] = []
        self.is_portable = True
        self.starts_silent = self.is_silent = not torch._C._is_torch_function_enabled()
        """Whether operands' classes are not asked about torch's functions; at first, and now."""
        """Whether another process may use what is traced: not if a function was used as `allow_in_graph` or
        `assume_constant_result` say, nor if something hangs on the hashes of strings."""
        self.texts: list[int] = []
        """The ids of the containers whose text is being taken."""
        self.stand_ins: dict[tuple[int, str], Value] = {}
        """Members of modules (id of the module, name) for which torch.func.functional_call has put in others."""
        self._fixed: list[tuple[str, set[int]]] = []
        self._remembered: dict[int, tuple[Value, Restart]] = {}
        self.cached_calls: dict[Any, Any] = {}
        """Calls of functions with a cache: the function's id and keys of its arguments → the call."""
        self.generators: list[GeneratorValue] = []
        self._known: dict[int, tuple[Any, Value]] = {}
        self._anchors: dict[int, ConstSource] = {}
        self._attributes: dict[int, dict[str, Value]] = {}
        self._globals: dict[tuple[int, str], Value] = {}
        self._shadowed: dict[int, Any] = {}
        self._hashed: dict[int, Value] = {}
        self.address_keys: set[str] = set()
        """Which of "ids" of objects and "numbers" that could be such are keys; see values.hashing."""
        self.data_reads: list[DataRead] = []
        self.shown: frozenset[Source] = frozenset()
        """The tensors from outside of which what `data` gives is an input of its own."""
        self.takes_data = True
        """Whether something may be taken for granted about data."""
        self.takes_symbols = True
        """Whether numbers may be symbols."""
        self.draws = Draws()
        self.refusals: list[Refusal] = []
        """Branches on data that are taken not to raise."""
        self.final_cells: list[tuple[CellValue, Value, int]] = []
        """Cells that a hook or a backward reads, what was in them, and the root instruction that made it."""
        self.hooked: list[tuple[torch.fx.Node, int, str]] = []
        """Tensors that must not leave the graph, the root instruction that said so, and by which call."""
        self.taken: list[Taken] = []
        """Elements that were copied where eager has a view."""
        self.new_leaves: list[tuple[torch.Tensor, int]] = []
        """Tensors that the graph has made and that collect gradients, and the root instruction that said so."""
        self.inner_gradients: list[int] = []
        """The root instructions that took gradients within the graph."""

    # ---- changes ----

    def changed(self) -> None:
        self.epoch += 1

    def mutated(self, value: Value, text: str, *operands: Value) -> Value:
        """A value has been changed; for one that existed before the frame, `text` repeats it on the real object."""
        self.epoch += 1
        target, text = value.effect(text)
        self.check_remembered(value)
        for what, values in self._fixed:
            if target.source is not None or id(value) in values:
                raise unsupported(f"{what[0].upper()}{what[1:]} changes {value.describe()}, and may run twice.")
        if target.source is not None:
            self.journal.record(text, target, operands, self.place())
        return ConstantValue(None)

    @contextmanager
    def unchanged(self, what: str, values: set[int]) -> Iterator[None]:
        """While it is open, changing anything from outside the frame, or one of these values (ids), is a break."""
        self._fixed.append((what, values))
        try:
            yield
        finally:
            self._fixed.pop()

    def remembered_elsewhere(self, value: Value, reason: Break) -> None:
        """In eager somebody keeps this very object: where it, or what it holds, is changed or leaves the frame, tracing
        begins again and breaks here."""
        from .values.checkpointing import reachable

        for part in reachable([value]):
            is_mutable = isinstance(part, (DictValue, SetValue, ObjectValue)) or getattr(part, "mutable", False)
            if part.source is None and is_mutable:
                self._remembered[id(part)] = (part, Restart(self.root_step, reason))

    def check_remembered(self, value: Value) -> None:
        """Raises Restart for what is kept elsewhere."""
        if id(value) in self._remembered:
            raise self._remembered[id(value)][1]

    # ---- objects from outside ----

    def wrap(self, obj: Any, source: Source) -> Value:
        """The value of an object from outside; see values.wrap."""
        if id(obj) in self._shadowed:
            raise unsupported("The attribute dict of an object whose attributes were set cannot be traced.")
        if type(obj) is int:
            number = self.graph.int_input(obj, source)
            self.guards.read(source, self.here())
            if isinstance(number, torch.SymInt):  # 0 and 1 stay constants
                return self.number(number, source)
        if self.graph.is_open(source) and (type(obj) is str or type(obj) is float and math.isfinite(obj)):
            self.guard_type(source, obj)
            return ComputedValue(source, obj)
        return wrap(self, obj, source)

    def forget_objects(self) -> None:
        """Let go of the user's objects: the tracer itself may live until the next garbage collection."""
        self._known.clear()
        self.graph.forget_objects()
        if self.frame is not None:
            self.frame.slots.clear()
            self.frame.stack.clear()

    def known(self, obj: Any) -> Value | None:
        found = self._known.get(id(obj))
        return found[1] if found is not None else None

    def remember(self, obj: Any, value: Value) -> None:
        self._known[id(obj)] = (obj, value)

    def anchor(self, obj: Any) -> ConstSource:
        """A source for an object that the generated code itself keeps: classes, functions, modules."""
        source = self._anchors.get(id(obj))
        if source is None:
            hint = getattr(obj, "__name__", "") or type(obj).__name__
            hint = "".join(c if c.isalnum() else "_" for c in str(hint))
            source = self._anchors[id(obj)] = ConstSource(obj, f"__c{len(self._anchors)}_{hint}")
        return source

    def constant(self, obj: Any, *, anchored: bool = True) -> Value:
        """The value of an object that is known and fixed. Raises NotConstant if it is none and `anchored` is off."""
        if is_constant_object(obj):
            return ConstantValue(obj)
        known = self.known(obj)
        if known is not None:
            return known
        kind = type(obj)
        if kind in (list, tuple, torch.Size) or (isinstance(obj, tuple) and hasattr(kind, "_fields")):
            return SequenceValue(kind, [self.constant(item, anchored=anchored) for item in obj])
        if kind is dict and all(map(is_constant_object, obj)):
            return DictValue(dict, {key: self.constant(item, anchored=anchored) for key, item in obj.items()})
        if kind in (set, frozenset):
            return SetValue(kind, {item: self.constant(item, anchored=anchored) for item in obj}, None, kind(obj))
        if not anchored:
            raise NotConstant
        return self.wrap(obj, self.anchor(obj))

    def number(self, number: Any, source: Source | None = None) -> Value:
        """A Python or symbolic number. Symbolic booleans and floats are decided now, which a guard
        records, unless they hang on data."""
        if isinstance(number, torch.SymInt):
            if not number.node.expr.is_number:
                return SymIntValue(number, source)
            number = int(number)
        elif isinstance(number, torch.SymBool):
            undecided = condition(number)
            if undecided is not None:
                return undecided
            number = bool(number)
        elif isinstance(number, torch.SymFloat):
            number = float(number)
        return ConstantValue(number)

    def size_source(self, value: SymIntValue) -> Source | None:
        """Where a symbolic int is read, or how it is computed from what is read."""
        if value.source is not None or self.graph.shapes is None:
            return value.source
        return self.graph.shapes.source_of(value.sym)

    # ---- guards ----

    def here(self) -> str:
        """The user's `file:line` that is being traced."""
        if self.frame is None:
            return ""
        place = self.origin("")
        return f"{place.file}:{place.line}"

    def note_causes(self) -> None:
        """What tracing has just assumed about symbols, it has assumed here."""
        if self.graph.shapes is not None:
            self.graph.shapes.attribute(self.here)
            self.draws.check(self, self.root_step)

    def guard(self, guard: Guard) -> None:
        self.guards.add(guard, self.here())

    def guard_type(self, source: Source, obj: Any) -> None:
        if not isinstance(source, ConstSource):
            self.guard(TypeGuard.of(source, obj))

    def guard_names(self, cls: type) -> None:
        """No name is added to a class of the program's, or to a base, that a lookup would find from then on."""
        for base in cls.__mro__:
            if is_open_class(base):
                self.guard(ClassNamesGuard.of(base))

    def guard_presence(self, value: Value) -> None:
        """Where a value comes from there is one, which is all that the program has asked."""
        if value.source is not None:
            self.guard(PresenceGuard(value.source))

    def guard_identity(self, source: Source, obj: Any) -> None:
        if not isinstance(source, ConstSource):
            self.guard(IdentityGuard.of(source, obj))

    def guard_same(self, known: Value, obj: Any, source: Source) -> None:
        """The object that `known` stands for has been met again at another place."""
        first = known.source
        if first is None or first == source:
            return
        if isinstance(source, ConstSource):
            self.guard_identity(first, obj)
        elif isinstance(first, ConstSource) or isinstance(known, (ClassValue, PyModuleValue)):
            self.guard_identity(source, obj)
        else:
            self.guard(SameObjectGuard(first, source))

    def guard_distinct(self, left: Value, right: Value) -> None:
        """Two objects from outside were different ones, and the program has seen that."""
        first, second = left.source, right.source
        if first is None or second is None or first == second:
            return
        if isinstance(first, ConstSource) and isinstance(second, ConstSource):
            return
        self.guard(DistinctObjectsGuard((first, second)))

    def has_changed_a_list(self) -> bool:
        """Whether the journal changes a list that existed before the frame."""
        return any(isinstance(target, (SequenceValue, SubclassValue)) for target in self.journal.targets())

    def has_changed(self, obj: Any) -> bool:
        """Whether the journal changes an object from outside, which guards keep apart from the others."""
        found = self.known(obj)
        return found is not None and any(target is found for target in self.journal.targets())

    def guard_aliases(self) -> None:
        """No other object that was looked at may turn out to be one that is changed."""
        values = [value for _, value in self._known.values() if value.source is not None]
        targets = self.journal.targets()
        self._guard_all_distinct(value for value in self._hashed.values() if not isinstance(value, TensorValue))
        if any(isinstance(target, TensorValue) for target in targets):
            self._guard_all_distinct(value for value in values if isinstance(value, TensorValue))
        for target in targets:
            if isinstance(target, TensorValue):
                continue
            kind = type(target)
            for value in values:
                if value is not target and type(value) is kind and _same_class(value, target):
                    self.guard_distinct(target, value)

    def _guard_all_distinct(self, values: Iterable[Value]) -> None:
        """No two of these objects from outside are one: keys that are told apart by identity, tensors that are set."""
        sources = dict.fromkeys(value.source for value in values if value.source is not None)
        if len(sources) > 1 and not all(isinstance(source, ConstSource) for source in sources):
            self.guards.add(DistinctObjectsGuard(tuple(sources)))

    # ---- attributes and globals that the frame has set ----

    def shadow(self, raw: Any) -> None:
        """Attributes or globals that live in this dict have been set, which the dict itself does not show yet."""
        self._shadowed[id(raw)] = raw

    def unshadow(self, raw: Any) -> None:
        """The dict has got a value of its own, which shows what was set."""
        self._shadowed.pop(id(raw), None)

    def attributes_of(self, value: Value) -> dict[str, Value]:
        """Attributes that the frame has set on a class or module."""
        return self._attributes.setdefault(id(value), {})

    def class_attribute(self, cls: type, name: str) -> Value | None:
        """What the frame has set on a class or one of its bases."""
        return self.attribute_among(cls.__mro__, name)

    def attribute_among(self, bases: Iterable[type], name: str) -> Value | None:
        """What the frame has set on one of these classes, unless one before it has an attribute of this name."""
        if not self._attributes:
            return None
        for base in bases:
            value = self.known(base)
            if value is not None and name in self._attributes.get(id(value), {}):
                return self._attributes[id(value)][name]
            if name in base.__dict__:
                return None
        return None

    def pending_global(self, globals_dict: dict[str, Any], name: str) -> Value | None:
        return self._globals.get((id(globals_dict), name))

    def tracked_dict(self, raw: Any) -> DictValue | None:
        """The value of an attribute dict or globals dict, if the program has got hold of the dict itself."""
        found = self.known(raw)
        return found if isinstance(found, DictValue) else None

    def set_global(self, frame: Frame, name: str, value: Value) -> None:
        if self.tracked_dict(frame.globals_dict) is not None:
            raise unsupported("Setting a global whose globals() dict is in use cannot be traced.")
        self._globals[(id(frame.globals_dict), name)] = value
        self.shadow(frame.globals_dict)
        self.epoch += 1
        self.journal.record(f"{{0}}[{name!r}] = {{1}}", _GlobalsValue(frame.globals_base), (value,), self.place())

    # ---- folding ----

    def fold(self, fn: Callable[..., Any], *args: Value, **kwargs: Value) -> Value:
        """`fn` applied to constants. Raises NotConstant for other operands; the user's errors are UserErrors."""
        values = [self._constant_of(arg) for arg in args]
        named = {key: self._constant_of(value) for key, value in kwargs.items()}
        try:
            result = fn(*values, **named)
        except Exception as error:  # whatever the function raises for these operands, the program gets
            fail(error, is_exact=True)
        return self.constant(result, anchored=False)

    def _constant_of(self, value: Value) -> Any:
        value = value.realize(self)
        if isinstance(value, SequenceValue) and _holds_open_numbers(self, value):
            value = SequenceValue(value.kind, [specialized(self, item.realize(self)) for item in value.elements])
        return specialized(self, value).const(self)

    def key(self, value: Value) -> Any:
        """A hashable stand-in for a dict key or set element; see values.hashing."""
        from .values.hashing import key_of

        return key_of(self, value)

    def hashed_by_identity(self, value: Value) -> None:
        """An object is a key by its identity: others that were looked at are other keys."""
        self._hashed[id(value)] = value

    # ---- calls ----

    def torch_call(self, target: Callable[..., Any] | str, args: Args, kwargs: Kwargs) -> Value:
        """A torch function, operator or Tensor method, into the graph."""
        from .values.new_leaves import made_with_gradients
        from .values.tensor_subclasses import answered

        def run() -> Value:
            made = made_with_gradients(self, target, args, kwargs) if "requires_grad" in kwargs else None
            return made or self.graph.call(self, target, args, kwargs)

        return answered(self, target, args, kwargs, run)

    def set_grad_mode(self, mode: bool) -> None:
        """Grad mode from here on, in the graph and while tracing."""
        if mode != torch.is_grad_enabled():
            self.epoch += 1
            self.graph.set_grad_mode(mode, self.origin("torch.set_grad_enabled"))
            torch._C._set_grad_enabled(mode)

    def inline(self, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value:
        """Trace into a call."""
        from .interpreter import run
        from .skip import why_not_inlined
        from .values.wrappers import unwrapped_call

        unwrapped = unwrapped_call(self, fn, args, kwargs)
        if unwrapped is not None:
            return unwrapped
        why = why_not_inlined(fn.code)
        decoded = decode(fn.code)
        if why is not None:
            raise unsupported_call(f"{fn.name}()", f"is not traced into: {why}")
        if decoded.is_coroutine:
            raise unsupported_call(f"{fn.name}()", "makes a coroutine")
        if self.frame.depth >= MAX_DEPTH:
            raise unsupported_call(f"{fn.name}()", f"is nested {MAX_DEPTH} calls deep")
        made = self.frame_of(fn, bind_arguments(self, fn, args, kwargs))
        caller = self.frame
        if decoded.is_generator:
            self.generators.append(GeneratorValue(made, fn, args, kwargs, self.root_step))
            return self.generators[-1]
        self.frame = made
        try:
            return run(self, made)
        finally:
            self.frame = caller

    def frame_of(self, fn: FunctionValue, slots: dict[str, Value]) -> Frame:
        """A new frame of a function, called from the one that runs."""
        return Frame(decode(fn.code), fn.globals_dict, fn.globals_base, slots, fn.closure, self.frame)

    # ---- where ----

    def place(self) -> Location:
        """The user's place that is being traced: the innermost frame that is not torch's own."""
        frame = self.frame
        while frame.parent is not None and _is_torch(frame.code.co_filename):
            frame = frame.parent
        return frame.location()

    def origin(self, target: Any) -> Origin:
        """The user's place that is being traced, and what is called there."""
        place = self.place()
        again = any(body.is_checkpoint for body in self.graph.bodies)
        return Origin(place.file, place.line, place.function, self.name_of(target), again)

    def name_of(self, target: Any) -> str:
        """How the user writes a call: `torch.relu`, `Tensor.add_`, `operator.add`."""
        from .values.callables import function_name

        if isinstance(target, str):
            return target if "." in target else f"Tensor.{target}"
        if getattr(target, "__module__", "") == "_operator":
            return f"operator.{target.__name__}"
        return function_name(target)


class _GlobalsValue(Value):
    """A globals dict, as the target of an effect."""

    def __init__(self, base: Source | None) -> None:
        from .sources import GlobalsSource

        self.source = GlobalsSource(base)


def _holds_open_numbers(tr: Tracer, value: SequenceValue) -> bool:
    """Whether it is constants and open numbers, and nothing else."""
    items = [item.realize(tr) for item in value.elements]
    return any(isinstance(item, OpenValue) for item in items) and all(
        isinstance(item, (ConstantValue, OpenValue)) for item in items
    )


def _same_class(value: Value, target: Value) -> bool:
    if isinstance(value, ObjectValue) and isinstance(target, ObjectValue):
        return value.cls is target.cls
    return True


def _is_torch(filename: str) -> bool:
    from .skip import is_torch_file

    return is_torch_file(filename)


__all__ = ["Break", "Lazy", "Tracer", "UserError"]
