"""Entries of earlier processes: the first call of a program that has run before traces nothing.

In: a segment and the values of a call. Out: an entry that some process compiled for values like these, or None; and,
the other way, a new entry for later processes. A recalled entry is the same text over the same guards, and its guards
decide at its first call as at any other: where one fails, the frame is traced.

What the guards cannot say is in the key: the versions and options (`runtime.identity`), torch's global state, the code,
and what kind of values the arguments are. What they say about objects of the program goes by name and fingerprint.
Not stored: entries that took the user's word about a function (`directives`), or with symbolic sizes, with a graph
break, with gradients, of other backends, or with anything that `portable` has no name for.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ..codegen.stored import StoredGraph, pack, unpack
from ..config import config
from ..errors import CompileError, CompilerMissing
from ..guards import GuardSet, kinds, tensors
from ..guards.constants import is_constant
from ..guards.held import Held
from ..guards.marks import marked_dynamic
from ..guards.state import GlobalStateGuard, function_modes
from ..runtime import cache
from ..runtime.identity import environment
from ..runtime.written import StoredCode, store_code
from ..timeline import record
from .digest_guard import FunctionDigestGuard
from .directives import allowed_in_graph, constant_results
from .entry_text import EntryText, assemble, innermost, surroundings
from .fingerprints import NotPortable, code_digest
from .fx_listing import FxListing, list_graph
from .generated import make_function
from .portable import dumps, loads
from .side_effects import EffectRecord
from .sources import ConstSource

if TYPE_CHECKING:
    from .segments import Entry, Segment

_log = logging.getLogger("minicompile.cache")
_DIGEST = 32
_DEPTH = 4

_PORTABLE_GUARDS = (
    GlobalStateGuard, kinds.IdentityGuard, kinds.SameObjectGuard, kinds.DistinctObjectsGuard, kinds.TypeGuard,
    kinds.ClassNamesGuard, kinds.ConstantGuard, kinds.LengthGuard, kinds.KeysGuard, kinds.KeyPresenceGuard,
    kinds.AttrPresenceGuard, kinds.InstanceAttrAbsentGuard, kinds.GlobalAbsentGuard, kinds.FunctionCodeGuard,
    kinds.ModuleTrainingGuard, kinds.NoModuleHooksGuard, tensors.TensorGuard, tensors.StorageOffsetGuard,
    tensors.OverlapGuard, tensors.DisjointGuard, tensors.NoInnerOverlapGuard, FunctionDigestGuard,
)  # fmt: skip
"""Guards that hold nothing but sources, data, and objects that `portable` knows. A new kind is looked at first."""


@dataclass
class StoredEntry:
    """An entry as it lies on disk: what tracing found out and wrote. `graph` is None where nothing is computed."""

    guards: list[kinds.Guard]
    causes: list[str]
    text: EntryText
    graph: StoredGraph | None
    listing: FxListing | None
    effects: list[EffectRecord]
    code: StoredCode


def place_of(segment: Segment, func: FunctionType, slots: tuple[Any, ...]) -> str | None:
    """The name under which an entry for this call is stored; None for a call whose entries are not."""
    identity = getattr(segment.ctx.backend, "identity", None)
    if not config.entry_cache or identity is None or segment.ctx.dynamic or segment.open:
        return None
    if function_modes() or forward_ad._current_level >= 0 or config.debug_dir or config.verify:
        return None
    if any(marked_dynamic(value) for value in slots if isinstance(value, torch.Tensor)):
        return None
    try:
        parts = [
            environment(), repr(identity), _options(), _torch_state(), _directives(), code_digest(segment.code),
            repr((segment.index, segment.layout, segment.takes_data)), *map(_facts, slots),
            *map(_cell_facts, func.__closure__ or ()),
        ]  # fmt: skip
    except Exception as error:  # an argument that does not like to be looked at
        _log.debug("no key for %s: %s", segment.name, error)
        return None
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40] + ".entry"


def recall(place: str, segment: Segment) -> Entry | None:
    """The stored entry, if there is one and all that it refers to is here and the same."""
    start = time.perf_counter()
    data = cache.get(place)
    if data is None or hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    try:
        _, stored = loads(data[_DIGEST:], GlobalStateGuard())
        return _entry(stored, segment, start)
    except (NotPortable, CompileError, CompilerMissing, OSError, ReferenceError) as why:
        _log.debug("the stored entry of %s does not fit: %s", segment.name, why)
        return None


def _entry(stored: StoredEntry, segment: Segment, start: float) -> Entry:
    from .segments import Entry, GraphRecord

    guards = GuardSet()
    for guard, cause in zip(stored.guards, stored.causes, strict=True):
        guards.add(guard, cause)
    text, namespace, check = assemble(segment, guards, stored.text)
    namespace.update(surroundings(segment))
    graphs = []
    if stored.graph is not None and stored.listing is not None:
        compiled = unpack(stored.graph, loads)
        namespace["__graph__"] = innermost(compiled)
        graphs.append(GraphRecord(stored.listing.module, compiled, []))
    run = make_function(f"{segment.code.co_name}:{segment.line}", text, namespace, stored.code)
    span = record("recall", start, time.perf_counter())
    seconds = {"recall": span.end - span.start}
    entry = Entry(segment.name, run, guards, graphs, text, [], seconds, None, check.is_dead, recalled=True)
    entry.effects = stored.effects
    return entry


def remember(place: str, entry: Entry) -> None:
    """Store an entry, if everything about it can be."""
    if entry.parts is None or entry.eager is not None:
        return
    try:
        stored = _stored(entry, entry.parts)
        data = dumps((_functions(stored.guards), stored))
        cache.put(place, hashlib.sha256(data).digest() + data)
    except (NotPortable, ValueError, OSError) as why:
        _log.debug("%s is not stored: %s", entry.name, why)


def _functions(guards: list[kinds.Guard]) -> list[FunctionType]:
    """What has to be named before a code object can be said to be theirs."""
    held = [guard.held() for guard in guards if isinstance(guard, kinds.IdentityGuard)]
    return [value for value in held if isinstance(value, FunctionType)]


def _stored(entry: Entry, text: EntryText) -> StoredEntry:
    owners = {id(code) for guard in entry.guards for code in _codes_of(guard)}
    kept = _without_twins(entry.guards)
    guards, causes = [_portable(guard, owners) for guard in kept], [entry.guards.cause(guard) for guard in kept]
    code = store_code(entry.code, entry.run)
    if not entry.graphs:
        return StoredEntry(guards, causes, text, None, None, entry.effects, code)
    (record,) = entry.graphs
    return StoredEntry(guards, causes, text, pack(record.compiled, dumps), list_graph(record.gm), entry.effects, code)


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


def _codes_of(guard: kinds.Guard) -> Iterator[CodeType]:
    """The codes of functions that the guard knows by identity, and that therefore have names."""
    held = [guard.held()] if isinstance(guard, kinds.IdentityGuard) else []
    for source in guard.sources():
        held += [step.value for step in (source, *source.ancestors()) if isinstance(step, ConstSource)]
    yield from (value.__code__ for value in held if isinstance(value, FunctionType))


def _portable(guard: kinds.Guard, owners: set[int]) -> kinds.Guard:
    if isinstance(guard, kinds.FunctionCodeGuard) and id(guard.code) not in owners:
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


# ---- the key ----


def _options() -> str:
    options = config.as_dict()
    options.pop("cache_dir")
    return repr(sorted(options.items()))


def _directives() -> str:
    """Names of the functions that the program has a word to say about; entries that follow it are not stored."""
    named = (sorted(f"{fn.__module__}.{fn.__qualname__}" for fn in fns) for fns in (allowed_in_graph, constant_results))
    return repr(list(named))


def _torch_state() -> str:
    """Torch's global state, without the number of threads; and what chooses between implementations while tracing."""
    snapshot = json.loads(torch._C._dynamo.guards.GlobalStateGuard().__getstate__())
    snapshot.pop("num_threads", None)
    flags = [
        torch.is_inference_mode_enabled(), torch._C._len_torch_dispatch_stack(), torch.backends.mkldnn.enabled,
        torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled(), torch._C._get_mem_efficient_sdp_enabled(),
        torch.get_float32_matmul_precision(), torch.is_anomaly_enabled(),
    ]  # fmt: skip
    return json.dumps(snapshot, sort_keys=True) + repr(flags)


def _facts(value: Any, depth: int = _DEPTH) -> str:
    """What kind of value it is: enough that different kinds have different keys, no more; the guards decide."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in (torch.Tensor, torch.nn.Parameter):
        layout = (tuple(value.shape), value.stride()) if value.layout is torch.strided and not value.is_nested else ()
        return f"{name} {value.dtype} {value.device} {layout} {value.requires_grad}"
    if isinstance(value, torch.nn.Module):
        return f"{name} {_module_facts(value)}"
    if kind in (list, tuple) and depth:
        return f"{name} [{', '.join(_facts(item, depth - 1) for item in value)}]"
    if kind is dict and depth:
        items = [f"{key!r}: {_facts(item, depth - 1)}" for key, item in value.items() if is_constant(key)]
        return f"{name} {{{', '.join(items)}}}"
    return f"{name} {value!r}" if is_constant(value) else name


def _cell_facts(cell: Any) -> str:
    try:
        return _facts(cell.cell_contents)
    except ValueError:
        return "empty"


def _module_facts(module: torch.nn.Module) -> str:
    """Kinds, modes and tensors of a module and its parts. Reads attributes alone: a module may override methods."""
    lines: list[str] = []
    todo, seen = [module], set()
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, torch.nn.Module):
            continue
        seen.add(id(part))
        own = part.__dict__
        lines.append(f"{type(part).__qualname__} {own.get('training')}")
        lines += map(_facts, (*own.get("_parameters", {}).values(), *own.get("_buffers", {}).values()))
        todo.extend(own.get("_modules", {}).values())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
