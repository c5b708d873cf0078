"""The glue: the generated Python of one entry.

In: what tracing left: guards, graph, journal, and how the frame goes on (a return, a break, an eager tail).
Out: the text of a function `entry(__func__, *slots)`:

    the check                    return __MISS__ if a guard fails; reads what the rest needs from outside
    the graph call               if it raises, nothing has been done yet: the frame runs in eager
    objects made in the frame    each once, so identity and aliases are as in eager; cycles are made empty, then filled
    the journal                  mutations of objects that existed before, in program order
    the way on                   return, or the breaking operation and the next segment

Everything from outside is read before anything is changed, so a value that the frame loaded before it replaced it is
still the old one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .helpers import ARITHMETIC
from .side_effects import EffectRecord
from .sources import ConstSource, Source, namespaced
from .values.base import Lazy, Value
from .values.constant import ConstantValue, OpenValue
from .values.tensor import TensorValue

if TYPE_CHECKING:
    from torch import fx

    from .tracer import Tracer
    from .values.containers import DictValue
    from .values.functions import CellValue


_SIMPLE = re.compile(r"[A-Za-z_]\w*|\x00\d+\x00|-?\d+|None|True|False")

_PLACE = re.compile("\x01(\\d+)\x01")


class Glue:
    """Collects lines. `ref` is the heart: the text under which a value's real object is at hand."""

    def __init__(self, tr: Tracer) -> None:
        self.tr = tr
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self.outputs: dict[fx.Node, str] = {}
        self.replayed: dict[int, EffectRecord] = {}
        """Number of a line → the effect that it repeats."""
        self._sources: dict[Source, str] = {}
        self._names: dict[int, str] = {}
        self._kept: dict[int, str] = {}
        self._alive: list[Any] = []
        self._fills: list[Callable[[], str]] = []
        self._late: list[str] = []
        self._depth = 0
        self._count = 0

    @property
    def reads(self) -> list[Source]:
        """The sources that the lines read."""
        return list(self._sources)

    # ---- texts for values ----

    def ref(self, value: Value) -> str:
        """Text that yields the real object; the lines before it make the object if need be."""
        if isinstance(value, Lazy):
            value = value.value or value
        known = self._names.get(id(value))
        if known is not None:
            return known
        if value.source is not None and not self._is_plain(value):
            return self.source(value.source)
        return self._built(value)

    def _is_plain(self, value: Value) -> bool:
        """Constants that are cheaper written out than read, with the same identity."""
        return isinstance(value, ConstantValue) and (value.value is None or type(value.value) is bool)

    def _built(self, value: Value) -> str:
        self.tr.check_remembered(value)
        self._depth += 1
        text = value.build(self)
        self._depth -= 1
        if not _SIMPLE.fullmatch(text) and not isinstance(value, (ConstantValue, OpenValue)):
            text = self.assign(text, value)
        self._names[id(value)] = text
        self._alive.append(value)
        if not self._depth:
            self._flush()
        return text

    def _flush(self, start: int = 0) -> None:
        while len(self._fills) > start:
            self._depth += 1
            line = self._fills.pop(start)()
            self._depth -= 1
            self.lines.append(line)

    def complete(self, value: Value) -> str:
        """As `ref`, for an object that must not be empty any more: a key, whose `__hash__` looks at it."""
        start = len(self._fills)
        text = self.ref(value)
        self._flush(start)
        return text

    def source(self, source: Source) -> str:
        """Text that yields what stands in a source on entry; of a class that the frame has made, in the real class."""
        steps = [source, *source.ancestors()]
        made = self.tr.known(steps[-1].value) if isinstance(steps[-1], ConstSource) else None
        if made is not None and made.source is None:
            self.namespace.update(source.bindings())
            return functools.reduce(lambda base, step: step.expr_over(base), reversed(steps[:-1]), self.ref(made))
        return self._sources.setdefault(source, f"\x00{len(self._sources)}\x00")

    def constant(self, obj: Any) -> str:
        """Literal text for a constant, or the name of the kept object."""
        if obj is None or type(obj) in (bool, int, str, bytes) or obj is Ellipsis:
            return repr(obj)
        return self.keep(obj)

    def class_text(self, cls: type) -> str:
        """Text of a class: kept, or made anew if the frame has made it."""
        known = self.tr.known(cls)
        return self.keep(cls) if known is None or known.source is not None else self.ref(known)

    def keep(self, obj: Any) -> str:
        """A name in the namespace for an object."""
        name = self._kept.get(id(obj))
        if name is None:
            hint = "".join(c if c.isalnum() else "_" for c in str(getattr(obj, "__name__", "") or type(obj).__name__))
            name = self._kept[id(obj)] = f"__k{len(self._kept)}_{hint}_"
            self.namespace[name] = obj
        return name

    def key(self, owner: DictValue, key: Any) -> str:
        """Text for a dict's key."""
        value = owner.key_values.get(key)
        if value is not None:
            return self.complete(value)
        return self.ref(self.tr.constant(key)) if isinstance(key, (tuple, frozenset)) else self.constant(key)

    def cells(self, cells: list[CellValue]) -> str:
        """Text for a closure tuple."""
        return f"({''.join(f'{self.ref(cell)}, ' for cell in cells)})" if cells else "None"

    def graph_output(self, node: fx.Node) -> str:
        """The name that a node's result gets."""
        node = self.tr.graph.local(node)
        return self.outputs.setdefault(node, f"__o{len(self.outputs)}")

    def size(self, sym: torch.SymInt | torch.SymBool) -> str:
        """Text for arithmetic on sizes, or a condition on them, over the sources of the symbols."""
        from ..guards.shapes import python_text

        assert self.tr.graph.shapes is not None
        symbols = self.tr.graph.shapes.symbols()
        self.namespace.update(ARITHMETIC)
        wanted = list(sym.node.expr.free_symbols)
        text = python_text(sym.node.expr, lambda symbol: f"\x01{wanted.index(symbol)}\x01")

        def read(symbol: Any) -> str:
            source = symbols.get(symbol)  # there is none for what depends on data: the graph tells it
            return self.source(source) if source is not None else self.graph_output(self.tr.graph.sizes[symbol])

        return f"({_PLACE.sub(lambda place: read(wanted[int(place[1])]), namespaced(text))})"

    def may_refer_back(self, value: Value) -> bool:
        """Whether an object may (through others) contain the one that is being made."""
        if isinstance(value, Lazy):
            value = value.value or value
        if value.source is not None or id(value) in self._names:
            return False
        return not isinstance(value, (ConstantValue, TensorValue, OpenValue))

    # ---- lines ----

    def line(self, text: str) -> None:
        self.lines.append(text)

    def fill(self, text: Callable[[], str]) -> None:
        """A line that fills an object which was made empty; it comes when the outermost object has been made."""
        self._fills.append(text)

    def late(self, text: str) -> None:
        """A line for behind the journal."""
        self._late.append(text)

    def assign(self, text: str, value: Value | None = None) -> str:
        """Put a text into a local variable; `value` is known under that name from here on."""
        name = f"__t{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        if value is not None:
            self._names[id(value)] = name
            self._alive.append(value)
        return name

    def effects(self) -> None:
        """The journal."""
        for effect in self.tr.journal:
            line = effect.line(self)
            self.replayed[len(self.lines)] = EffectRecord(effect.statement(), effect.place)
            self.lines.append(line)
        self.lines.extend(self._late)

