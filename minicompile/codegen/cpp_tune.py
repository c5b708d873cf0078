"""mode="max-autotune" on the CPU: choose how a kernel is compiled by timing it on what it is called with.

In: a kernel's translation unit and the kernel as it is compiled ever. Out: a `TunedKernel` to call in its place. Its
first call builds the other `VARIANTS` of the unit side by side, times each on copies of that call's tensors, and puts
the fastest where it stood itself: in the wrapper's namespace. The winner is kept on disk, by the text, the compiler,
the processor and the number of threads.

Variants are flags: how far loops are unrolled, how wide vectors are, and whether threads share the work. What is
computed is the same; a reduction over wider or narrower vectors may add in another order.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..errors import CompileError, KernelError
from ..ir.laid_out import strided
from ..logs import Log
from ..runtime import cache, cpu
from ..runtime.compiler import compiler
from ..runtime.cpp_build import build_shared_object
from ..runtime.launch import load_kernel
from .native_text import without_origins
from .native_units import NEXT, Wanted

_log = Log("kernels")

AS_EVER = "as ever"
VARIANTS: dict[str, tuple[str, ...]] = {
    AS_EVER: (),
    "unrolled": ("-funroll-loops",),
    "half vectors": ("-mprefer-vector-width=256",),
    "half vectors, unrolled": ("-mprefer-vector-width=256", "-funroll-loops"),
    "one thread": ("-fno-openmp", "-fopenmp-simd"),
    "one thread, unrolled": ("-fno-openmp", "-fopenmp-simd", "-funroll-loops"),
}
"""Name → further flags. A compiler that does not know a flag has one variant less."""

ROUNDS = 12
"""Timed turns of each variant; the fastest counts: whatever disturbs a turn makes it slower."""
TURN = 2e-4
"""Seconds that a turn is to take at least: short kernels run several times."""
WORTHWHILE = 0.97
"""A variant must take less than this part of the usual time to be chosen."""


class TunedKernel:
    """A kernel before its first call. `bind` tells where it stands, so that its successor can stand there."""

    def __init__(self, source: str, wanted: Wanted, plain: Callable[..., None]) -> None:
        self.name, self.n_tensors, self.n_ints = wanted
        self.unit = next(unit for unit in source.split(NEXT) if f'extern "C" int {self.name}(' in unit)
        self.plain = plain
        self.chosen: Callable[..., None] | None = None
        self._places: list[tuple[dict[str, Any], str]] = []
        self._lock = threading.Lock()

    def bind(self, namespace: dict[str, Any], name: str) -> None:
        self._places.append((namespace, name))

    def __call__(self, *args: Any) -> None:
        (self.chosen or self._choose(args))(*args)

    def _choose(self, args: Sequence[Any]) -> Callable[..., None]:
        with self._lock:
            if self.chosen is None:
                self.chosen = self._best(args)
                for namespace, name in self._places:
                    if namespace.get(name) is self:
                        namespace[name] = self.chosen
        return self.chosen

    def _best(self, args: Sequence[Any]) -> Callable[..., None]:
        """The kernel for these arguments: the variant known from earlier, or the fastest now."""
        text = without_origins(self.unit)
        key = self._key(text, args)
        known = (cache.get(key) or b"").decode()
        if known == AS_EVER:
            return self.plain
        if known in VARIANTS:
            return self._load(build_shared_object(text, VARIANTS[known]))
        found = self._measured(text, args)
        if found is None:
            return self.plain
        best = min(found, key=lambda name: found[name][0])
        if found[best][0] > WORTHWHILE * found[AS_EVER][0]:
            best = AS_EVER
        cache.put(key, best.encode())
        _log("%s: %s", self.name, ", ".join(f"{name} {spent * 1e6:.1f} µs" for name, (spent, _) in found.items()))
        return found[best][1]

    def _key(self, text: str, args: Sequence[Any]) -> str:
        found = compiler()
        said = [text, self.name, str(VARIANTS), found.identity() if found else "", cpu.fingerprint()]
        said += [str(torch.get_num_threads()), str(args[self.n_tensors :])]
        return "tune-cpp-" + hashlib.sha256("\0".join(said).encode()).hexdigest()

    def _load(self, library: Path) -> Callable[..., None]:
        return load_kernel(library, self.name, self.n_tensors, self.n_ints)

    def _measured(self, text: str, args: Sequence[Any]) -> dict[str, tuple[float, Callable[..., None]]] | None:
        """Variant → (seconds, kernel); None where this call's arguments can't be copied, or the kernel refuses them."""
        try:
            copies = [*_copied(args[: self.n_tensors]), *args[self.n_tensors :]]
            kernels = {AS_EVER: self.plain, **self._variants(text)}
            times = fastest_turns(list(kernels.values()), copies)
        except (RuntimeError, KernelError):
            return None
        return dict(zip(kernels, zip(times, kernels.values(), strict=True), strict=True))

    def _variants(self, text: str) -> dict[str, Callable[..., None]]:
        def build(name: str) -> Path | None:
            try:
                return build_shared_object(text, VARIANTS[name])
            except CompileError:
                return None

        names = [name for name in VARIANTS if name != AS_EVER]
        with ThreadPoolExecutor() as pool:
            built = dict(zip(names, pool.map(build, names), strict=True))
        return {name: self._load(library) for name, library in built.items() if library is not None}


def tuned(source: str, wanted: Sequence[Wanted], kernels: Sequence[Callable[..., None]]) -> list[Callable[..., None]]:
    """The kernels of a text, each to be tuned at its first call."""
    return [TunedKernel(source, each, kernel) for each, kernel in zip(wanted, kernels, strict=True)]


def fastest_turns(kernels: Sequence[Callable[..., None]], args: Sequence[Any]) -> list[float]:
    """Seconds of each kernel's fastest turn, taking turns."""
    for kernel in kernels:  # the first run reads the code and touches the memory
        kernel(*args)
    counts = [max(1, int(TURN / max(_turn(kernel, args, 1), 1e-9))) for kernel in kernels]
    spent = [float("inf")] * len(kernels)
    for _ in range(ROUNDS):
        for number, kernel in enumerate(kernels):
            spent[number] = min(spent[number], _turn(kernel, args, counts[number]))
    return spent


def _turn(kernel: Callable[..., None], args: Sequence[Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        kernel(*args)
    return (time.perf_counter() - start) / count


def _copied(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies that lie as the tensors do; what is one memory stays one. Raises RuntimeError where that can't be."""
    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # address → what was there, and its copy
    for tensor in tensors:
        with torch.no_grad():
            first, _ = copies.setdefault(tensor.data_ptr(), (tensor, strided(tensor.detach(), tensor.stride())))
        if (first.shape, first.stride(), first.dtype) != (tensor.shape, tensor.stride(), tensor.dtype):
            raise RuntimeError("two arguments share memory")
    return [copies[tensor.data_ptr()][1] for tensor in tensors]
