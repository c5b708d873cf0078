"""`Tensor.data`: the memory of a tensor, without its gradients and without its count of writes.

In: reads of it, and assignments to it. Out: `detach()`, as long as nobody writes to the memory. A write through `data`
is one that autograd does not notice, so the graph must not count it: what `data` gives of a tensor from outside is then
an input of its own, read from the tensor on entry, whose memory is guarded to be that of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..breaks import DataWritten, Restart, unsupported
from ..sources import AttrSource, Source
from .base import Value

if TYPE_CHECKING:
    from ..tracer import Tracer
    from .tensor import TensorValue


@dataclass(frozen=True)
class DataRead:
    """What `data` has given, its version then, the root instruction that asked, and of which tensor from outside."""

    fake: torch.Tensor
    version: int
    step: int
    source: Source | None


def read_data(tr: Tracer, owner: TensorValue) -> Value:
    """`owner.data`."""
    from .tensor import TensorValue

    if len(tr.graph.bodies) > 1 or owner.fake.is_inference():
        raise owner.cannot("reading attribute 'data'")
    if owner.source in tr.shown:
        return _as_input(tr, owner)
    found = tr.torch_call("detach", [owner], {})
    assert isinstance(found, TensorValue)
    tr.data_reads.append(DataRead(found.fake, found.fake._version, tr.root_step, owner.source))
    return found


def _as_input(tr: Tracer, owner: TensorValue) -> Value:
    if owner.data is None:
        assert owner.source is not None and owner.real is not None
        with _disable_current_modes():
            real = owner.real.data
        owner.data = tr.wrap(real, AttrSource(owner.source, "data"))
    return owner.data


def set_data(tr: Tracer, owner: TensorValue, value: Value) -> None:
    """`owner.data = value`: done behind the graph. Until then the frame may ask for `data`, and for nothing else."""
    from .tensor import TensorValue

    if owner.source is None or len(tr.graph.bodies) > 1 or not isinstance(value, TensorValue):
        raise owner.cannot("setting attribute 'data'")
    if not _lies_alike(owner.fake, value.fake) or value.fake.requires_grad:
        raise owner.cannot("setting 'data' to a tensor of another kind")
    owner.attributes["data"] = value
    tr.mutated(owner, "{0}.data = {1}", value)


def _lies_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    facts = ((t.dtype, t.device, t.layout, t.shape, t.stride(), t.is_inference()) for t in (one, other))
    return next(facts) == next(facts)


def check_data(tr: Tracer) -> None:
    """At the end of a piece: nothing that `data` has shown was written. Raises DataWritten; for a tensor that the frame
    has made, Restart."""
    written = [read for read in tr.data_reads if read.fake._version != read.version]
    sources = frozenset(read.source for read in written if read.source is not None)
    if sources:
        raise DataWritten(sources)
    if written:
        raise Restart(written[0].step, unsupported("Memory that Tensor.data shows is written to later."))
