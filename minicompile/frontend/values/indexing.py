"""Indexing a tensor with symbolic ints, `x[n - 1]`, `x[:, n, None]`, and where a tensor says, `x[pos]`, `x[pos] = k`.

In: a tensor and a key. Out: the same elements by `select`, which takes a symbolic index; `x[…]` itself asks for the
number, and the trace would be for that number alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ...guards.constants import is_numpy_number
from ..breaks import Break, BreakKind, Restart
from ..shared_elements import same_memory
from .base import Value
from .constant import ConstantValue, SymIntValue
from .containers import SequenceValue, SliceValue

if TYPE_CHECKING:
    from ..tracer import Tracer
    from .tensor import TensorValue


def torch_key(tr: Tracer, key: Value) -> Value:
    """The key with tensors in the place of arrays, and ints in that of NumPy's."""
    key = key.realize(tr)
    parts = _parts(tr, key)
    plain = list(map(_without_numpy, parts))
    if all(map(operator.is_, plain, parts)):
        return key
    return SequenceValue(tuple, plain) if isinstance(key, SequenceValue) else plain[0]


def _without_numpy(part: Value) -> Value:
    from .arrays import ArrayValue

    if isinstance(part, ArrayValue) and not part.is_scalar:
        return part.tensor
    if isinstance(part, ConstantValue) and is_numpy_number(part.value) and hasattr(part.value, "__index__"):
        return ConstantValue(part.value.item())
    return part


def select_symbolic(tr: Tracer, tensor: TensorValue, key: Value) -> Value | None:
    """The result of `tensor[key]`, or None if no symbolic int is in the key or not all of it is basic indexing."""
    parts = _parts(tr, key)
    if not any(isinstance(part, SymIntValue) for part in parts) or not all(map(_is_basic, parts)):
        return None
    consumed = sum(map(_uses_one, parts))
    if consumed > tensor.fake.dim():
        return None
    selected: Value = tensor
    for position in range(len(parts) - 1, -1, -1):
        if isinstance(parts[position], SymIntValue):
            dim = _dimension(parts, position, tensor.fake.dim(), _uses_one)
            selected = tr.torch_call("select", [selected, ConstantValue(dim), parts[position]], {})
    rest = [part for part in parts if not isinstance(part, SymIntValue)]
    return tr.torch_call(operator.getitem, [selected, SequenceValue(tuple, rest)], {}) if rest else selected


def _is_basic(part: Value) -> bool:
    if isinstance(part, (SymIntValue, SliceValue)):
        return True
    return isinstance(part, ConstantValue) and (part.value in (None, ...) or type(part.value) in (int, slice))


def _parts(tr: Tracer, key: Value) -> list[Value]:
    parts = key.items(tr) if isinstance(key, SequenceValue) and key.kind is tuple else [key]
    return [part.realize(tr) for part in parts]


def _uses_one(part: Value) -> bool:
    """Whether this part of a key is for a dimension of the tensor."""
    return not (isinstance(part, ConstantValue) and (part.value is None or part.value is ...))


def _leaves_one(part: Value) -> bool:
    """Whether the result has a dimension for this part of a key."""
    return not (isinstance(part, SymIntValue) or isinstance(part, ConstantValue) and type(part.value) is int)


def _dimension(parts: list[Value], position: int, rank: int, counts: Callable[[Value], bool]) -> int:
    """Which of `rank` dimensions the part at `position` is about, where `counts` says which parts are about one each.
    Counted from the end behind an ellipsis."""
    before = parts[:position]
    if any(isinstance(part, ConstantValue) and part.value is ... for part in before):
        return rank - sum(map(counts, parts[position:]))
    return sum(map(counts, before))


# ---- reading and writing where a tensor says ----

_PLACES = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})


def take_at(tr: Tracer, tensor: TensorValue, key: Value) -> Value | None:
    """`tensor[key]` where one part of the key is a tensor of one integer, and the rest is basic indexing; None for any
    other key. In eager that is a view, for which the number is read. Here the elements are copied, which nobody can
    tell as long as neither is written to, the result stays in the graph, and a view would be contiguous as well."""
    parts = _parts(tr, key)
    places = [position for position, part in enumerate(parts) if _is_place(part)]
    others = parts[: places[0]] + parts[places[0] + 1 :] if len(places) == 1 else []
    if len(places) != 1 or not all(map(_is_basic, others)) or tensor.fake.is_inference():
        return None
    whole = SliceValue((ConstantValue(None),) * 3)
    around: list[Value] = [whole if part is parts[places[0]] else part for part in parts]
    if len(parts) > 1:
        tensor = tr.torch_call(operator.getitem, [tensor, SequenceValue(tuple, around)], {})  # type: ignore[assignment]
    dim = _dimension(parts, places[0], tensor.fake.dim(), _leaves_one)
    if dim >= tensor.fake.dim() or not _is_contiguous_at(tensor.fake, dim):
        return None
    index = tr.torch_call("reshape", [parts[places[0]], ConstantValue(1)], {})
    made: Any = tr.torch_call(operator.getitem, [tensor, SequenceValue(tuple, [*[whole] * dim, index])], {})
    result: Any = tr.torch_call("squeeze", [made, ConstantValue(dim)], {})
    tr.taken.append(Taken(tensor.fake, tensor.fake._version, made.fake, made.fake._version, tr.root_step))
    return result


def _is_contiguous_at(fake: torch.Tensor, dim: int) -> bool:
    with torch.no_grad():
        return all(type(size) is int and size > 0 for size in fake.shape) and fake.select(dim, 0).is_contiguous()


@dataclass(frozen=True)
class Taken:
    """Elements that were copied where eager has a view: from which tensor, to which, in which versions of both; at the
    root instruction `step`."""

    source: torch.Tensor
    version: int
    made: torch.Tensor
    made_version: int
    step: int


def check_taken(tr: Tracer, outputs: Iterable[fx.Node]) -> None:
    """At the end of a piece: nobody can tell the copies from views. Raises Restart."""
    leaving = [node.meta["example_value"] for node in outputs]
    for taken in tr.taken:
        is_written = (taken.source._version, taken.made._version) != (taken.version, taken.made_version)
        if is_written or any(same_memory(taken.made, value) for value in leaving if isinstance(value, torch.Tensor)):
            reason = Break(BreakKind.VALUE, "A view at a place that a tensor says is written to, or leaves the graph.")
            raise Restart(taken.step, reason)


def put_at(tr: Tracer, tensor: TensorValue, key: Value, value: Value) -> bool:
    """`tensor[key] = value` where one part of the key is a tensor of one integer, the position of a cache say, and the
    rest is basic indexing: eager reads the number; a tensor of one element that has a dimension need not be read.
    Whether it was done."""
    parts = _parts(tr, key)
    places = [position for position, part in enumerate(parts) if _is_place(part)]
    if len(places) != 1 or not all(map(_is_basic, parts[: places[0]] + parts[places[0] + 1 :])):
        return False
    none, place = ConstantValue(None), parts[places[0]]
    whole = SliceValue((none, none, none))
    around: list[Value] = [whole if part is place else part for part in parts]
    view = tr.torch_call(operator.getitem, [tensor, SequenceValue(tuple, around)], {})
    dim = _dimension(parts, places[0], view.fake.dim(), _leaves_one)  # type: ignore[attr-defined]
    fitted = _fitted(tr, value.realize(tr), view, view.fake.dim() - 1 - dim)  # type: ignore[attr-defined]
    if fitted is None:
        return False
    index = tr.torch_call("reshape", [place, ConstantValue(1)], {})
    tr.torch_call(operator.setitem, [view, SequenceValue(tuple, [*[whole] * dim, index]), fitted], {})
    return True


def _is_place(part: Value) -> bool:
    fake = getattr(part, "fake", None)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and fake.dtype in _PLACES


def _fitted(tr: Tracer, value: Value, view: Any, behind: int) -> Value | None:
    """What is put, with a dimension of size 1 before the last `behind`, in the view's type. None if it does not fit."""
    fake = getattr(value, "fake", None)
    if not isinstance(fake, torch.Tensor):
        return value if isinstance(value, ConstantValue) else None
    extra = fake.dim() - (view.fake.dim() - 1)
    if fake.device != view.fake.device or any(size != 1 for size in fake.shape[: max(extra, 0)]):
        return None
    if extra > 0:
        value = tr.torch_call("squeeze", [value, tr.constant(tuple(range(extra)))], {})
    if same_memory(fake, view.fake):
        value = tr.torch_call("clone", [value], {})
    if fake.dtype != view.fake.dtype:
        value = tr.torch_call("to", [value, ConstantValue(view.fake.dtype)], {})
    rank = fake.dim() - max(extra, 0)
    return tr.torch_call("unsqueeze", [value, ConstantValue(rank - behind)], {}) if rank > behind else value
