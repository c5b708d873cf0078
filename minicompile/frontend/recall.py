"""Entries of earlier processes: the first call of a program that has run before traces nothing.

In: a segment and the values of a call. Out: an entry that some process compiled for values like these (`remember`
stores them), or None. A recalled entry is the same text over the same guards, and its guards decide at its first call
as at any other: where one fails, the frame is traced.

What the guards cannot say is in the key: the versions and options (`runtime.identity`), torch's global state, the code,
and what kind of values the arguments are. What they say about objects of the program goes by name and fingerprint.

A new process waits for all that happens here. So the check comes as it was written, with its programs; what only people
or a miss ask for, the guards themselves among it, stays packed; and nothing that writes checks is imported.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd import forward_ad

from ..codegen.stored import StoredGraph, unpack
from ..config import config
from ..errors import CompileError, CompilerMissing
from ..guards.constants import is_constant
from ..guards.held import Held
from ..guards.marks import marked_dynamic
from ..guards.torch_state import function_modes
from ..runtime import cache
from ..runtime.identity import environment
from ..runtime.written import StoredCode
from ..timeline import record
from .directives import allowed_in_graph, constant_results
from .fingerprints import NotPortable, code_digest
from .generated import make_function
from .helpers import GLUE_HELPERS, HELPERS
from .portable import Here, loads
from .segments import Entry, GraphRecord
from .surroundings import innermost, surroundings

if TYPE_CHECKING:
    from ..guards import GuardSet
    from .fx_listing import FxListing
    from .segments import Segment
    from .side_effects import EffectRecord

_log = logging.getLogger("minicompile.cache")
_DIGEST = 32
_DEPTH = 4


class StoredEntry(NamedTuple):
    """An entry as it lies on disk.

    Attributes:
        text: its function, and `code` what Python made of it.
        namespace: what the text names: the objects of the check and of the glue.
        graph: None where nothing is computed.
        shared: objects that the details refer to; they have to be here, and the same, as well.
        details: the packed `StoredDetails`.
    """

    text: str
    code: StoredCode
    namespace: dict[str, Any]
    graph: StoredGraph | None
    shared: list[Any]
    details: bytes


class StoredDetails(NamedTuple):
    """What nobody needs who only calls the entry. `causes`: for each guard the user's line that made it one."""

    guards: list[Any]
    causes: list[str]
    listing: FxListing | None
    effects: list[EffectRecord]


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
    here = Here(segment.release)
    try:
        _, stored = loads(data[_DIGEST:], here)
        return _entry(stored, segment, here, start)
    except (NotPortable, CompileError, CompilerMissing, OSError) as why:
        _log.debug("the stored entry of %s does not fit: %s", segment.name, why)
        return None


def enclose(data: bytes) -> bytes:
    """The content of the file of an entry."""
    return hashlib.sha256(data).digest() + data


def _entry(stored: StoredEntry, segment: Segment, here: Here, start: float) -> Entry:
    details = Details(stored, here)
    namespace = {**HELPERS, **GLUE_HELPERS, **stored.namespace, **surroundings(segment)}
    graphs = []
    if stored.graph is not None:
        compiled = unpack(stored.graph, loads)
        namespace["__graph__"] = innermost(compiled)
        graphs.append(GraphRecord(details.module, compiled, []))
    run = make_function(f"{segment.code.co_name}:{segment.line}", stored.text, namespace, stored.code)
    span = record("recall", start, time.perf_counter())
    seconds = {"recall": span.end - span.start}
    return Entry(
        segment.name, run, details.guards, graphs, stored.text, [], seconds, None, here.has_lost, recalled=True,
        effects_or_packed=details.effects,
    )  # fmt: skip


class Details:
    """A recalled entry's details, unpacked when somebody asks. Keeps no object alive that guards would not."""

    def __init__(self, stored: StoredEntry, here: Here) -> None:
        here.shared = [Held(value) for value in stored.shared]
        self._here, self._data = here, stored.details

    @functools.cached_property
    def _unpacked(self) -> StoredDetails:
        return loads(self._data, self._here)

    def guards(self) -> GuardSet:
        """None where an object of theirs has died: the entry can never be used again."""
        from ..guards import GuardSet

        guards = GuardSet()
        with contextlib.suppress(NotPortable):
            for guard, cause in zip(self._unpacked.guards, self._unpacked.causes, strict=True):
                guards.add(guard, cause)
        return guards

    def effects(self) -> list[EffectRecord]:
        return self._unpacked.effects

    def module(self) -> torch.fx.GraphModule:
        listing = self._unpacked.listing
        assert listing is not None
        return listing.module()


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
