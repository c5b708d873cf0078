"""Entries for later processes: the other side of `recall`.

In: an entry that was traced. Out: a file of the cache, if everything about the entry can be stored.

Not stored: entries that took the user's word about a function (`directives`), or with symbolic sizes, with a graph
break, with gradients, of other backends, or with anything that `portable` has no name for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from ..codegen.stored import pack
from ..guards import GuardSet, kinds, tensors
from ..guards.held import Held
from ..guards.state import GlobalStateGuard
from ..runtime import cache
from ..runtime.written import compiled_text, store_code
from .digest_guard import FunctionDigestGuard
from .entry_text import Written, assemble
from .fingerprints import NotPortable, code_digest
from .fx_listing import list_graph
from .helpers import GLUE_HELPERS, HELPERS
from .portable import dumps
from .recall import StoredDetails, StoredEntry, enclose
from .sources import ConstSource

if TYPE_CHECKING:
    from .segments import Entry, Segment

_log = logging.getLogger("minicompile.cache")

_PORTABLE_GUARDS = (
    GlobalStateGuard, kinds.IdentityGuard, kinds.SameObjectGuard, kinds.DistinctObjectsGuard, kinds.TypeGuard,
    kinds.ClassNamesGuard, kinds.ConstantGuard, kinds.LengthGuard, kinds.KeysGuard, kinds.KeyPresenceGuard,
    kinds.AttrPresenceGuard, kinds.InstanceAttrAbsentGuard, kinds.GlobalAbsentGuard, kinds.FunctionCodeGuard,
    kinds.ModuleTrainingGuard, kinds.NoModuleHooksGuard, tensors.TensorGuard, tensors.StorageOffsetGuard,
    tensors.OverlapGuard, tensors.DisjointGuard, tensors.NoInnerOverlapGuard, FunctionDigestGuard,
)  # fmt: skip
"""Guards that hold nothing but sources, data, and objects that `portable` knows. A new kind is looked at first."""


def remember(place: str, entry: Entry, segment: Segment) -> None:
    """Store an entry, if everything about it can be."""
    if entry.written is None or entry.eager is not None:
        return
    try:
        cache.put(place, enclose(_packed(entry, entry.written, segment)))
    except (NotPortable, ValueError, OSError) as why:
        _log.debug("%s is not stored: %s", entry.name, why)


def _packed(entry: Entry, written: Written, segment: Segment) -> bytes:
    owners = [function for guard in entry.guards for function in _owners(guard)]
    kept = _without_twins(entry.guards)
    named = {id(owner.__code__) for owner in owners}
    guards, causes = [_portable(guard, named) for guard in kept], [entry.guards.cause(guard) for guard in kept]
    graph, listing = None, None
    if entry.graphs:
        (record,) = entry.graphs
        graph, listing = pack(record.compiled, dumps), list_graph(record.gm)
    shared: list[Any] = []
    details = dumps(StoredDetails(guards, causes, listing, entry.effects), shared)
    written, code = _stored_text(entry, written, guards, segment)
    namespace, stored_code = _namespace(written, code), store_code(written.text, code)
    return dumps((owners, StoredEntry(written.text, stored_code, namespace, graph, shared, details)))


def _stored_text(
    entry: Entry, written: Written, guards: list[kinds.Guard], segment: Segment
) -> tuple[Written, CodeType]:
    """The entry's text and code; written anew where guards are stored as others than it has."""
    if not any(isinstance(guard, FunctionDigestGuard) for guard in guards):
        return written, entry.run.__code__
    again = assemble(segment, GuardSet(guards), written.parts)
    return again, compiled_text(again.text, "<minicompile>")


def _namespace(written: Written, code: CodeType) -> dict[str, Any]:
    """What the code names, but for what every entry has."""
    common = {**HELPERS, **GLUE_HELPERS}
    found = {name: written.namespace[name] for name in sorted(_names(code)) if name in written.namespace}
    return {
        name: written.check.made.get(name, value)
        for name, value in found.items()
        if common.get(name) is not value
    }


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _without_twins(guards: GuardSet) -> list[kinds.Guard]:
    """The guards, where a tensor that stands in two places is guarded in one of them, and as the same object."""
    first: dict[int, tensors.TensorGuard] = {}
    result: list[kinds.Guard] = []
    for guard in guards:
        if isinstance(guard, tensors.TensorGuard) and guard.tensor is not None:
            earlier = first.setdefault(id(guard.tensor()), guard)
            if earlier is not guard:
                guard = kinds.SameObjectGuard(earlier.source, guard.source)
        result.append(guard)
    return result


def _owners(guard: kinds.Guard) -> Iterator[FunctionType]:
    """The functions that the guard knows by identity, and that therefore have names. A code object is named by one."""
    held = [guard.held()] if isinstance(guard, kinds.IdentityGuard) else []
    for source in guard.sources():
        held += [step.value for step in (source, *source.ancestors()) if isinstance(step, ConstSource)]
    yield from (value for value in held if isinstance(value, FunctionType))


def _portable(guard: kinds.Guard, named: set[int]) -> kinds.Guard:
    if isinstance(guard, kinds.FunctionCodeGuard) and id(guard.code) not in named:
        return FunctionDigestGuard(
            guard.source, code_digest(guard.code), f"{guard.code.co_name} of line {guard.code.co_firstlineno}"
        )
    if type(guard) not in _PORTABLE_GUARDS:
        raise NotPortable(f"a {type(guard).__name__} cannot be stored")
    if isinstance(guard, kinds.KeysGuard) and not all(map(_is_portable_key, guard.keys)):
        raise NotPortable("a container has keys that only this process knows")
    return replace(guard, tensor=None) if isinstance(guard, tensors.TensorGuard) else guard


def _is_portable_key(key: Any) -> bool:
    """Keys of `constants.constant_key` that hold values, and no ids."""
    if isinstance(key, (str, Held)):
        return True
    kind, value = key
    if kind in (tuple, frozenset, torch.Size, slice):
        return all(map(_is_portable_key, value))
    return kind in (float, complex, range, int, bool, str, bytes, type(None), torch.dtype, torch.device)
