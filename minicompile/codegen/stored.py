"""A compiled graph as data for the disk, and back without any stage of the compiler.

In: a `CompiledGraph` of C++ kernels. Out: a `StoredGraph`; from it, in another process, a graph to call: the library is
found in the kernel cache by its source (and built anew if it is gone), the wrapper's text is executed.

The IR and what is known of the kernels are only looked at by people; they stay bytes until somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..runtime.written import StoredCode, store_code
from .compiled import CompiledGraph
from .cpp_tune import TunedKernel
from .native_units import load_kernels
from .wrapper_text import compile_wrapper

_DETAILS = ("ir", "ir_before", "decisions", "prepared", "kernels")


class StoredKernel(NamedTuple):
    """In the wrapper's namespace, the place of a kernel of the library."""

    symbol: str
    n_tensors: int
    n_ints: int
    is_tuned: bool = False


@dataclass
class StoredGraph:
    """A compiled graph as it lies on disk. `objects` names what the wrapper reads, `details` what `RecalledGraph`
    unpacks when it is asked for."""

    name: str
    wrapper_source: str
    objects: dict[str, Any]
    native_source: str
    kernel_count: int
    externs: list[str]
    seconds: dict[str, float]
    details: bytes
    code: StoredCode


class RecalledGraph(CompiledGraph):
    """A compiled graph whose IR and kernels are unpacked when they are first looked at."""

    def __init__(self, stored: StoredGraph, call: Callable[..., Any], loads: Callable[[bytes], Any]) -> None:
        self.call = call
        self.name = stored.name
        self._kernel_count = stored.kernel_count
        self.externs = stored.externs
        self.wrapper_source = stored.wrapper_source
        self.native_source = stored.native_source
        self.objects = stored.objects
        self.seconds = stored.seconds
        self._details: Callable[[], tuple[Any, ...]] = lambda: loads(stored.details)
        self.__post_init__()

    @property
    def kernel_count(self) -> int:
        return self._kernel_count

    def __getattr__(self, name: str) -> Any:
        if name not in _DETAILS:
            raise AttributeError(name)
        self.__dict__.update(zip(_DETAILS, self._details(), strict=True))
        return self.__dict__[name]


def pack(compiled: Any, dumps: Callable[[Any], bytes]) -> StoredGraph:
    """Raises ValueError for what is no CompiledGraph of C++ kernels alone."""
    if not isinstance(compiled, CompiledGraph) or any(kernel.language != "cpp" for kernel in compiled.kernels):
        raise ValueError("only graphs of C++ kernels are stored")
    from ..runtime.cuda_graphs import GraphedCall

    if isinstance(compiled.call, GraphedCall):
        raise ValueError("what is recorded as CUDA graphs belongs to its process")
    objects = {name: _packed(value) for name, value in compiled.objects.items()}
    details = dumps(tuple(getattr(compiled, name) for name in _DETAILS))
    return StoredGraph(
        compiled.name, compiled.wrapper_source, objects, compiled.native_source, len(compiled.kernels),
        compiled.externs, {}, details, store_code(compiled.wrapper_source, compiled.call.__code__),
    )  # fmt: skip


def unpack(stored: StoredGraph, loads: Callable[[bytes], Any]) -> CompiledGraph:
    """Raises CompilerMissing or CompileError where the library is not in the cache and cannot be built."""
    kernels = {name: value for name, value in stored.objects.items() if isinstance(value, StoredKernel)}
    if kernels:
        wanted = [(kernel.symbol, kernel.n_tensors, kernel.n_ints) for kernel in kernels.values()]
        loaded = load_kernels(stored.native_source, wanted)
        for number, kernel in enumerate(kernels.values()):
            if kernel.is_tuned:
                loaded[number] = TunedKernel(stored.native_source, wanted[number], loaded[number])
        stored.objects = {**stored.objects, **dict(zip(kernels, loaded, strict=True))}
    objects = stored.objects
    call = compile_wrapper(stored.name, stored.wrapper_source, objects, stored.code)
    return RecalledGraph(stored, call, loads)


def _packed(value: Any) -> Any:
    """A kernel of either kind of launcher as a StoredKernel; anything else as it is."""
    if isinstance(value, TunedKernel):
        return StoredKernel(value.name, value.n_tensors, value.n_ints, is_tuned=True)
    if type(value).__module__.startswith("minicompile.runtime") and hasattr(value, "n_tensors"):
        return StoredKernel(value.name, value.n_tensors, value.n_ints)
    return value
