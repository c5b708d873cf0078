"""`torch.func.functional_call`: a module called with other tensors in the place of its parameters and buffers.

In: a call of it. Out: the module's own call, while reading one of its members gives the tensor that stands in for it.
Where weights are tied or left out, what torch's own function does is traced: it puts the tensors into the module, and
takes them out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..breaks import unsupported_call
from .base import Value
from .callables import rule
from .containers import DictValue, SequenceValue
from .functions import outside_function
from .nn_module import ModuleValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_NAME = "torch.func.functional_call()"


@rule(torch.func.functional_call)
def _functional_call(
    tr: Tracer,
    module: Value,
    parameter_and_buffer_dicts: Value,
    args: Value | None = None,
    kwargs: Value | None = None,
    *,
    tie_weights: Value | None = None,
    strict: Value | None = None,
) -> Value:
    owner = module.realize(tr)
    if not isinstance(owner, ModuleValue):
        raise unsupported_call(_NAME, "is in a form that cannot be traced")
    given = _given(tr, parameter_and_buffer_dicts.realize(tr))
    members = _members(owner.obj, given)
    if members is None or strict is not None or tie_weights is not None:
        options = {"args": args, "kwargs": kwargs, "tie_weights": tie_weights, "strict": strict}
        present = {name: value for name, value in options.items() if value is not None}
        original = outside_function(tr, torch.func.functional_call, tr.anchor(torch.func.functional_call))
        return original.call(tr, [module, parameter_and_buffer_dicts], present)
    positional = args.realize(tr) if args is not None else SequenceValue(tuple, [])
    is_tuple = isinstance(positional, SequenceValue) and positional.kind is tuple
    values = list(positional.items(tr)) if is_tuple else [positional]
    named = kwargs.realize(tr) if kwargs is not None else None
    keywords = dict(named.entries) if isinstance(named, DictValue) else {}
    with _in_place_of(tr, members):
        return owner.call(tr, values, keywords)


def _given(tr: Tracer, value: Value) -> dict[str, Value]:
    """Name → tensor, of one dict or several."""
    dicts = [item.realize(tr) for item in value.elements] if isinstance(value, SequenceValue) else [value]
    given: dict[str, Value] = {}
    for part in dicts:
        entries = part.entries if isinstance(part, DictValue) else None
        if entries is None or any(not isinstance(name, str) or name in given for name in entries):
            raise unsupported_call(_NAME, "is in a form that cannot be traced")
        given.update((name, item.realize(tr)) for name, item in entries.items())
    if not all(isinstance(item, TensorValue) for item in given.values()):
        raise unsupported_call(_NAME, "gets something that is not a tensor")
    return given


def _members(module: torch.nn.Module, given: dict[str, Value]) -> dict[tuple[int, str], Value] | None:
    """(id of a submodule, name in it) → the tensor for it; None where weights are tied or left out."""
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    if len(set(map(id, own.values()))) < len(own) or not set(names) <= set(given) <= set(own):
        return None
    result = {}
    for name, value in given.items():
        path, _, member = name.rpartition(".")
        result[id(module.get_submodule(path)), member] = value
    return result


@contextmanager
def _in_place_of(tr: Tracer, members: dict[tuple[int, str], Value]) -> Iterator[None]:
    before = tr.stand_ins
    tr.stand_ins = before | members
    try:
        yield
    finally:
        tr.stand_ins = before
