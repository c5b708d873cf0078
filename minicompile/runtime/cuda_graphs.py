"""mode="reduce-overhead": record a compiled graph's kernels once, and replay them with one call of the driver.

In: the function that runs a compiled graph, and the facts about its inputs and outputs. Out: `GraphedCall`, a function
that does the same.

A recording is tied to addresses. The rules, which make that invisible:

* The first call runs plainly; it compiles, loads and initialises what must not happen during a recording.
* An input is read and written where it lies: a recording fits a call if every such input has the address that it had.
  After `RECORDINGS` of them, inputs whose address varied are copied to a place of their own before each replay.
* An output lies in the recording's own memory, and the caller gets an alias. A recording is replayed only when nobody
  holds an output of its last replay (nor a view of one, nor autograd a saved one): otherwise another recording is
  made, and when all are in use, the call runs plainly. So no result is ever overwritten under its owner.
* A recording is replayed only on the stream that it was made for: on two, runs of it might overlap.
* What cannot be recorded runs plainly, and `reason` says why. (A graph that is one native call as it is, of a kernel
  or of a run, never comes here: that mostly is a launch of a CUDA graph, and costs less than a replay.)

Where the memory of recordings lies, and what of it they share: cuda_graph_memory.py."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..ir.retyped import lazy_bit, offset_between, view_as
from .cuda_graph_memory import Asked, Kept, capture
from .launch_cuda import address_comparison

log = logging.getLogger(__name__)

RECORDINGS = 4
"""Recordings for one set of sizes."""

Call = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class InputPlace:
    """An output that is input number `index`, or (`whole` false) a view of it; `detached`: see `ir.graph.InputView`."""

    index: int
    whole: bool
    detached: bool = False


@dataclass(frozen=True)
class Facts:
    """What a recording must know of a compiled graph.

    Attributes:
        tensors: positions of the inputs that are tensors.
        written: positions of the inputs that are written.
        views: output number → the input that it is, or is a view of.
        dynamic: whether sizes are symbolic: then recordings belong to the shapes of a call.
        reason: why nothing can be recorded, or None.
        device: number of the GPU; None where nothing is recorded, and in tests without one.
    """

    tensors: tuple[int, ...]
    written: frozenset[int] = frozenset()
    views: dict[int, InputPlace] = field(default_factory=dict)
    dynamic: bool = False
    reason: str | None = None
    device: int | None = None


class Recording:
    """One recorded graph with the memory that it reads and writes."""

    def __init__(
        self, facts: Facts, call: Call, args: Sequence[Any], copied: frozenset[int], record: Any,
        memory: Sequence[torch.Tensor] = (),
    ) -> None:
        self.facts, self.memory = facts, memory
        self.copies: list[tuple[int, torch.Tensor]] = []
        actual = list(args)
        for i in sorted(copied):
            actual[i], memory = _like(args[i])
            self.copies.append((i, memory))
        self.in_place = [i for i in facts.tensors if i not in copied]
        self.addresses = [arg.data_ptr() if isinstance(arg, torch.Tensor) else None for arg in args]
        self.graph, results = record(call, actual)
        self.outputs = [self._output(k, result, results, args) for k, result in enumerate(results)]
        self.owned = [k for k, out in enumerate(self.outputs) if out is None]
        self.results, self.replay = results, self.graph.replay
        storages = {results[k].untyped_storage()._cdata for k in self.owned}
        self.uses = [(storage, torch._C._storage_Use_Count(storage)) for storage in storages]
        self.only_new = len(self.owned) == len(results)

    def _output(self, k: int, result: Any, results: tuple[Any, ...], args: Sequence[Any]) -> Any:
        """How output k is made: None: an alias of our result; else a function of the arguments and the outputs made."""
        place = self.facts.views.get(k)
        if place is not None:
            return _view_of(place, result, args)
        first = next(j for j, other in enumerate(results) if other is result)
        if isinstance(result, torch.Tensor):
            return None if first == k else lambda args, made: made[first]
        return lambda args, made: result

    def is_free(self) -> bool:
        """Whether nobody holds an output of the last replay."""
        for storage, uses in self.uses:
            if _use_count(storage) != uses:
                return False
        return True

    def run(self, args: Sequence[Any]) -> tuple[Any, ...]:
        for i, memory in self.copies:
            memory.copy_(_distinct(args[i]))
        self.replay()
        if self.facts.written:
            torch.autograd.graph.increment_version([args[i] for i in self.facts.written])
        if self.only_new:
            return tuple([result.detach() for result in self.results])
        made: list[Any] = []
        for make, result in zip(self.outputs, self.results, strict=True):
            made.append(result.detach() if make is None else make(args, made))
        return tuple(made)


def _view_of(place: InputPlace, result: torch.Tensor, args: Sequence[Any]) -> Callable[..., Any]:
    index = place.index
    if place.whole:
        return lambda args, made: args[index]
    shape, strides, dtype = tuple(result.shape), result.stride(), result.dtype
    offset, lazy = offset_between(result, args[index]), lazy_bit(result, args[index]) or ""
    if place.detached:
        return lambda args, made: view_as(args[index].detach(), dtype, shape, strides, offset, lazy)
    return lambda args, made: view_as(args[index], dtype, shape, strides, offset, lazy)


def _like(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of the same shape and strides in new memory; and the part of it whose elements are distinct."""
    part = _distinct(tensor)
    memory = torch.empty_strided(part.shape, part.stride(), dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.shape, tensor.stride()), memory


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Without the repetitions of expanded dimensions."""
    strides = tensor.stride()
    if 0 not in strides:
        return tensor
    shape = [min(size, 1) if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True)]
    return tensor.as_strided(shape, strides)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may share memory."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


_is_recording = getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)
_use_count = torch._C._storage_Use_Count


def _stream_of(device: int | None, stream: Callable[[int], int] | None) -> Callable[[], int | None]:
    """The number of the device's current stream."""
    stream = stream or getattr(torch._C, "_cuda_getCurrentRawStream", None)  # not there in a build for the CPU
    return _no_stream if stream is None or device is None else partial(stream, device)


def _no_stream() -> None:
    return None


class GraphedCall:
    """See the module's docstring.

    `boxed`: the function takes one list of its arguments, and empties it. `kept`: allocates all results of its own that
    the function returns; None where something else allocates some.
    """

    def __init__(
        self, call: Call, facts: Facts, boxed: bool = False, kept: Kept | None = None, record: Any = capture,
        is_recording: Callable[[], bool] = _is_recording,
        stream: Callable[[int], int] | None = None,
    ) -> None:
        self.plain, self.facts, self.boxed, self.record, self.is_recording = call, facts, boxed, record, is_recording
        self.kept, self.asked = kept, dict[Any, Asked]()
        self.stream = _stream_of(facts.device, stream)
        self.same_addresses = address_comparison()
        self.call: Call = (lambda *args: call(list(args))) if boxed else call
        self.reason = facts.reason
        self.recordings: dict[Any, list[Recording]] = {}
        self.copied: frozenset[int] = frozenset()
        self.lock = threading.Lock()

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        if self.reason is not None or not self.lock.acquire(False):
            return self.plain(*given)
        try:
            args = list(given[0]) if self.boxed else list(given)
            key = self._key(args)
            if self.is_recording():  # by somebody else: our kernels become a part of that
                recording = None
            elif (known := self.recordings.get(key)) is not None:
                recording = self._recording(key, known, args)
            else:
                return self._first(key, given)
            if recording is not None:
                if self.boxed:
                    given[0].clear()
                return recording.run(args)
        finally:
            self.lock.release()
        return self.plain(*given)

    def _first(self, key: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The first call of its kind runs plainly, and tells what memory its results take."""
        if self.kept is None:
            results = self.plain(*given)
        else:
            with self.kept.noting() as asked:
                results = self.plain(*given)
            self.asked[key] = asked
        self.recordings[key] = []
        return results

    def _recording(self, key: Any, known: list[Recording], args: list[Any]) -> Recording | None:
        """The recording to replay; None: run plainly."""
        fitting = False
        for recording in known:
            if self.same_addresses(args, recording.addresses, recording.in_place):
                fitting = True
                if recording.is_free():
                    return recording
        if len(known) >= RECORDINGS:
            if fitting or not self._copy_what_varies(known, args):
                return None
            known.clear()
        return self._record(key, known, args)

    def _key(self, args: Sequence[Any]) -> Any:
        """What recordings belong to: a stream, and the sizes if they vary."""
        if not self.facts.dynamic:
            return self.stream()
        return self.stream(), tuple((a.shape, a.stride()) if isinstance(a, torch.Tensor) else a for a in args)

    def _copy_what_varies(self, known: Sequence[Recording], args: Sequence[Any]) -> bool:
        """Copy the inputs that lay at different addresses from now on; False where that cannot be done."""
        varying = {
            i for i in self.facts.tensors for recording in known
            if i not in self.copied and recording.addresses[i] != args[i].data_ptr()
        }
        if varying & self.facts.written:
            return self._give_up("an input that is written comes with ever other addresses")
        if any(_overlaps(_distinct(args[i])) for i in varying):
            return self._give_up("an input that overlaps itself comes with ever other addresses")
        self.copied |= varying
        return True

    def _give_up(self, reason: str) -> bool:
        self.reason = reason
        self.recordings.clear()
        log.warning("CUDA graphs are not used: %s", reason)
        return False

    def _record(self, key: Any, known: list[Recording], args: Sequence[Any]) -> Recording | None:
        try:
            recording = self._recorded(key, args)
        except Exception as error:  # whatever the reason: the graph runs without being recorded
            self._give_up(f"recording failed: {type(error).__name__}: {error}")
            return None
        known.append(recording)
        return recording

    def _recorded(self, key: Any, args: Sequence[Any]) -> Recording:
        """In the stream's shared pool, if results lie elsewhere."""
        if self.kept is None:
            return Recording(self.facts, self.call, args, self.copied, self.record)
        device = self.facts.device
        stream = key[0] if self.facts.dynamic else key
        record = self.record if device is None else partial(self.record, place=(device, stream))
        with self.kept.ready(self.asked[key]) as memory:
            return Recording(self.facts, self.call, args, self.copied, record, memory)
