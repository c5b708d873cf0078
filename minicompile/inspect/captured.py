"""Whether an entry does what its function does: the check of the capture, under `verify=True`.

In: a new entry, the function, the call's arguments. Out: the entry's result; a difference raises VerificationError,
which names the first value of the graph that the function does not compute at that line.

The function itself runs first, in eager. What it writes to tensors is undone, so it has left no trace when the entry
runs. Where that cannot be promised there is no check: if the entry ends in a graph break (the rest would run twice),
has side effects other than on tensors, draws random numbers, or if the function raises.

After a difference the function runs once more, and the result of every torch call is kept with the lines of the frames
that it was called from. The graph's nodes know their lines: a node whose value no call from its line had is where the
capture went wrong.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import VerificationError
from ..nests import tensors_in
from .bisect import Fault, node_values_of
from .outcome import RandomState, copied, difference

if TYPE_CHECKING:
    from ..frontend.segments import Entry, Segment

Place = tuple[str, int]


def first_run(segment: Segment, entry: Entry, func: FunctionType, slots: tuple[Any, ...], *, warn: bool) -> Any:
    """Run a new entry, checked. With `warn` a difference warns, and the piece of code runs in eager from then on."""
    seen = _in_eager(segment, func, slots) if _can_be_checked(segment, entry) else None
    result = entry.run(func, *slots)
    inputs = _taken_inputs(entry)
    if seen is None or not _is_result(result):
        return result
    problem = seen.problem(result)
    if not problem:
        return result
    seen.writes.restore()
    text = f"{segment.name}: {problem}\n{_fault(entry, inputs, partial(segment.uncompiled, func, slots))}"
    if not warn:
        raise VerificationError(text)
    warnings.warn(f"minicompile: {text}\nThe function runs in eager mode.", RuntimeWarning, stacklevel=2)
    segment.entries.discard(entry)
    segment.ctx.release(entry)
    segment.is_exhausted = True
    return segment.eager(func, slots)


def _can_be_checked(segment: Segment, entry: Entry) -> bool:
    """Whether the rest of the function may run twice; variables in cells that lie in the middle would change."""
    may_write_cells = not segment.is_first and bool(segment.code.co_cellvars)
    return entry.eager is None and not entry.breaks and not (entry.effects or entry.draws or may_write_cells)


def _is_result(result: Any) -> bool:
    from ..frontend import hook
    from ..frontend.segments import Tail
    from ..guards import MISS

    return result is not hook.EAGER and result is not MISS and type(result) is not Tail


def _taken_inputs(entry: Entry) -> list[Any] | None:
    """What the entry's graph was called with."""
    inputs = None
    for graph in entry.graphs:
        inputs = getattr(graph.compiled, "inputs", None)
        if inputs is not None:
            graph.compiled.inputs = None  # type: ignore[attr-defined]
    return inputs


# ---- the function in eager ----


@dataclass
class Seen:
    """What the function returned and wrote."""

    result: Any
    writes: Writes

    def problem(self, result: Any) -> str:
        """The first difference between the function and its entry, in words."""
        from torch.utils._pytree import tree_flatten

        (one, found), (other, expected) = tree_flatten(result), tree_flatten(self.result)
        if found != expected:
            return f"the captured function returns {_kind(result)}, eager {_kind(self.result)}"
        for number, pair in enumerate(zip(one, other, strict=True)):
            error = _unlike(*pair)
            if error:
                return f"result {number} of the captured function differs from eager: {error}"
        return self.writes.problem()


def _kind(result: Any) -> str:
    from torch.utils._pytree import tree_structure

    return str(tree_structure(result)) if isinstance(result, (tuple, list, dict)) else type(result).__name__


def _unlike(one: Any, other: Any) -> str:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            return difference(one.detach(), other.detach())
        return f"{type(one).__name__}, eager has {type(other).__name__}"
    if isinstance(other, (bool, int, float, complex, str, bytes, type(None))):
        is_same = type(one) is type(other) and (one == other or (one != one and other != other))
        return "" if is_same else f"{one!r}, eager has {other!r}"
    return "" if type(one) is type(other) else f"{type(one).__name__}, eager has {type(other).__name__}"


def _in_eager(segment: Segment, func: FunctionType, slots: tuple[Any, ...]) -> Seen | None:
    """None where the function raises, draws random numbers, or does what cannot be undone."""
    random, writes = RandomState(), Writes()
    try:
        with writes:
            result = _kept(segment.uncompiled(func, slots))
    except (Exception, CannotUndo):  # the user's function may raise anything; the entry is to raise it as well
        return None
    finally:
        writes.finish()
        is_random = random.has_moved()
        random.restore()
    return None if is_random else Seen(result, writes)


def _kept(result: Any) -> Any:
    """A copy: a result may be, or show, a tensor whose contents are about to be put back."""
    from torch.utils._pytree import tree_map

    return tree_map(lambda value: copied([value])[0] if isinstance(value, torch.Tensor) else value, result)


class CannotUndo(BaseException):
    """Ends the function: what it is about to do would become part of a tensor's history."""


@dataclass
class _Written:
    tensor: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor | None = None


class Writes(TorchDispatchMode):
    """Keeps what tensors from outside held before they were written to, and puts it back."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, _Written] = {}
        self._own: set[int] = set()  # memory that the function has made itself

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for tensor in _written_arguments(func, args, kwargs):
            key = tensor.untyped_storage().data_ptr()
            if key not in self._own and key not in self.written:
                if func._schema.name.endswith("_") and _is_recorded([*args, *kwargs.values()]):
                    raise CannotUndo
                whole = _whole(tensor)
                self.written[key] = _Written(whole, whole.clone())
        result = func(*args, **kwargs)
        given = () if func in _FRESH else map(_address, _tensors([*args, *kwargs.values()]))
        self._own.update(set(map(_address, _tensors(result))) - set(given))
        return result

    def finish(self) -> None:
        """Remember what was written, and put back what was there."""
        with torch.no_grad():
            for each in self.written.values():
                each.after = each.tensor.clone()
        self.restore()

    def restore(self) -> None:
        with torch.no_grad():
            for each in self.written.values():
                each.tensor.copy_(each.before)

    def problem(self) -> str:
        """What the entry has written otherwise."""
        for each in self.written.values():
            error = difference(each.tensor, each.after)
            if error:
                return f"memory that the captured function writes differs from eager's: {error}"
        return ""


_FRESH = (torch.ops.aten.lift_fresh.default,)
"""What a tensor that was made from Python numbers goes through."""

_UNDECLARED = {
    torch.ops.aten.native_batch_norm.default: (3, 4),
    torch.ops.aten.cudnn_batch_norm.default: (3, 4),
    torch.ops.aten.miopen_batch_norm.default: (3, 4),
}
"""Operators whose schemas do not say that they write running averages, and which arguments those are."""


def _written_arguments(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    undeclared = _UNDECLARED.get(func, ())
    for number, argument in enumerate(func._schema.arguments):
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written or number in undeclared:
            value = kwargs.get(argument.name, args[number] if number < len(args) else None)
            yield from _tensors(value)


def _is_recorded(values: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in _tensors(values))


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(value: Any) -> list[torch.Tensor]:
    """The strided tensors in a nest."""
    return [tensor for tensor in tensors_in(value) if tensor.layout is torch.strided]


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory behind a tensor, in the tensor's dtype, unknown to autograd."""
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return whole.set_(storage, 0, (storage.nbytes() // tensor.dtype.itemsize,), (1,))


# ---- where ----


def _fault(entry: Entry, inputs: list[Any] | None, again: Callable[[], Any]) -> Fault:
    """The first node whose value the function has not computed at its line; the glue, if there is none."""
    seen = Calls()
    writes = Writes()
    with seen, writes:
        again()
    writes.finish()
    for graph in entry.graphs if inputs is not None else ():
        found = _first_wrong(graph.gm, inputs, seen.values)
        if found is not None:
            return found
    return Fault("capture", "what is around the graph")


class Calls(TorchFunctionMode):
    """Results of torch calls, by the places that they were called from."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Place, list[torch.Tensor]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        values = copied(_tensors(result))
        for place in _places() if values else ():
            self.values.setdefault(place, []).extend(values)
        return result


def _places() -> Iterator[Place]:
    """File and line of every frame, innermost first, up to the function's caller in this package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "") != "minicompile.frontend.segments":
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _first_wrong(gm: torch.fx.GraphModule, inputs: Any, seen: dict[Place, list[torch.Tensor]]) -> Fault | None:
    from ..ir.origins import call_name, origin_of

    with torch.no_grad():
        values = node_values_of(gm, inputs)
    for node, value in values.items():
        origin = origin_of(node)
        known = seen.get((origin.file, origin.line)) if origin is not None else None
        if node.op.startswith("call") and isinstance(value, torch.Tensor) and known:
            if all(difference(value.detach(), each) for each in known):
                return Fault("capture", call_name(node), origin)
    return None
