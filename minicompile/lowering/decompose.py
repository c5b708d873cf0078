"""Torch's own decompositions, where they lead to operators that have rules.

In: a recorded call whose operator has no rule here.
Out: the IR nodes of its decomposition, if all of them have rules; otherwise nothing, and the call becomes extern.

A decomposition is taken whole or not at all, down to calls that have rules: one extern call of a hand-written ATen
kernel beats several externs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from ..config import config
from ..nests import leaves, tensors_in
from ..torch_compat import quiet_fake_tensors
from .emit import KERNEL_DTYPES
from .errors import NotConvertible
from .extern import has_effect, is_view
from .rules import RULES

if TYPE_CHECKING:
    from .convert import Converter
    from .trace import Call, Trace

_HOPELESS: set[Any] = set()
"""(operator, dtypes) whose decomposition has once led to an operator without a rule: not tried again."""


_KEPT = frozenset({
    "aten::linspace", "aten::logspace", "aten::_safe_softmax", "aten::binary_cross_entropy",
    "aten::multilabel_margin_loss_forward",
})  # fmt: skip
"""Operators whose decomposition rounds in other places than ATen does, or lets pass numbers that ATen refuses (binary
cross entropy), or counts what is behind the end of a list of labels (the margin loss). (PyTorch's operator database
compares `_safe_softmax` bit for bit where its dtype is said to be an integer; it only stands in attention that is not
fused.)"""


@lru_cache(maxsize=1)
def _table() -> dict[Any, Any]:
    return {**torch._decomp.decomposition_table, **torch._decomp.core_aten_decompositions()}


_ROUNDED = frozenset(
    f"aten::{name}" for name in (
        "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    )
)  # fmt: skip
"""Operators that compute on integers with weights that are integers, too, in some layouts: ATen does those then."""


def decompose(c: Converter, call: Call) -> bool:
    """Convert the call through its decomposition and bind its results. False: nothing was changed."""
    if config.exact or call.func in RULES or has_effect(call.func) or is_view(call.func):
        return False
    if not _kernel_dtypes(call) or call.func not in _table() or call.func._schema.name in _KEPT:
        return False
    dtypes = _dtypes(call)
    if (call.func, dtypes) in _HOPELESS or _is_float_of_integers(dtypes):
        return False
    if call.func._schema.name in _ROUNDED and not any(d.is_floating_point for d in dtypes[0]):
        return False
    saved, known = len(c.builder.nodes), dict(c.values)
    try:
        with quiet_fake_tensors():  # what a decomposition refuses is no news
            recorded = _record(call)
        _place_all(c, call, recorded)
        return True
    except NotConvertible:
        _HOPELESS.add((call.func, dtypes))
    except (TypeError, RuntimeError, NotImplementedError, ArithmeticError):
        pass  # the decomposition refused these arguments, or divides by a size of 0; ATen takes them
    del c.builder.nodes[saved:]
    c.values = known
    return False


def _dtypes(call: Call) -> tuple[tuple[torch.dtype, ...], ...]:
    """The dtypes of arguments and results."""
    return tuple(tuple(fake.dtype for fake in tensors_in(part)) for part in (call.args, call.results))


def _is_float_of_integers(dtypes: tuple[tuple[torch.dtype, ...], ...]) -> bool:
    """Floating results of integer arguments alone: compared for equality now and then, so ATen's last bit is kept."""
    arguments, results = dtypes
    return bool(arguments) and any(d.is_floating_point for d in results) and not any(
        d.is_floating_point for d in arguments
    )


def _kernel_dtypes(call: Call) -> bool:
    return all(fake.dtype in KERNEL_DTYPES for fake in (*tensors_in(call.args), *tensors_in(call.results)))


def _record(call: Call) -> Trace:
    """Run the decomposition on the recorded fake tensors, once more under a recorder."""
    from .trace import Recorder, Trace, fake_mode_of

    mode = fake_mode_of(tensors_in(call.args))
    recorded = Trace([])
    with torch.no_grad(), mode, Recorder(recorded) as recorder:
        recorder.origin = call.origin
        result = _table()[call.func](*_own_lists(call.args), **_own_lists(call.kwargs))
    if result is NotImplemented:
        raise NotImplementedError(f"the decomposition of {call.func} refuses these arguments")
    recorded.outputs = leaves(result)
    return recorded


def _own_lists(value: Any) -> Any:
    """The arguments with copied lists: some decompositions write into the lists that they are given."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_own_lists, value))
    return {name: _own_lists(item) for name, item in value.items()} if isinstance(value, dict) else value


def _place_all(c: Converter, call: Call, recorded: Trace) -> None:
    """Convert the recorded calls by rules, and by decompositions in turn. Raises NotConvertible."""
    from .convert import live_calls, type_of

    c.trace.alive.append(recorded)
    for inner in live_calls(recorded, c.needed):
        if inner.func._schema.is_mutable:
            raise NotConvertible(f"the decomposition of {call.func} writes in place")
        _place_inner(c, inner)
    for fake, result in zip(call.results, recorded.outputs, strict=True):
        if not isinstance(fake, torch.Tensor):
            continue
        node, type = c.value(result), type_of(fake)
        if node.tensor.dtype is not type.dtype:
            raise NotConvertible(f"the decomposition of {call.func} has another dtype")
        c.values[id(fake)] = node if node.tensor.strides == type.strides else c.copy(node, type)


def _place_inner(c: Converter, inner: Call) -> None:
    """One call of a decomposition. Raises NotConvertible if it would be an extern."""
    saved = len(c.builder.nodes)
    try:
        nodes = c.by_rule(inner)
    except NotConvertible:
        del c.builder.nodes[saved:]
        if not decompose(c, inner):
            raise
        return
    for fake, node in zip(inner.results, nodes, strict=True):
        if isinstance(fake, torch.Tensor) and node is not None:
            c.values[id(fake)] = node
