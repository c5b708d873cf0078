"""The time of each way to compute a product, on the device.

In: candidates (see matmul_choice.py), cuBLAS first. Out: the number of the fastest, and a sentence with the times.
Times are kept on disk, by the candidates' texts and the device's name.

Candidates work on the same memory, filled with random numbers. One that cannot be compiled or loaded, because its tiles
do not fit into shared memory, say, is left out."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch

from ..ir.graph import Node
from ..ir.types import TensorType
from ..runtime import cache
from ..runtime.products import matrix_product
from .lower_kernel import Lowered
from .prepare import Views, storage_strides
from .triton import TritonText, print_triton
from .triton_launch import Launcher
from .triton_tune import device_times, launcher_of

if TYPE_CHECKING:
    from .matmul_choice import Candidate

log = logging.getLogger(__name__)

Texts = dict[Lowered, TritonText]
Memory = dict[Node, torch.Tensor]


def fastest(candidates: Sequence[Candidate], views: Views, device: torch.device | None) -> tuple[int, str]:
    """See the module's docstring. Where there is no device, the first that is not cuBLAS."""
    if device is None or device.type != "cuda" or not torch.cuda.is_available():
        return 1, f"matmul template {_config(candidates[1])}; no GPU to time it on"
    lows = dict.fromkeys(step for candidate in candidates for step in candidate.steps if isinstance(step, Lowered))
    texts = {low: print_triton(low.kernel) for low in lows}
    key = _key(candidates, texts, device)
    known = cache.get(key)
    times = json.loads(known) if known is not None else measured(candidates, texts, views, device)
    if known is None:
        cache.put(key, json.dumps(times).encode())
    best = min(range(len(times)), key=times.__getitem__)
    ours = min(range(1, len(times)), key=times.__getitem__)
    said = f"matmul template {_config(candidates[ours])}: {_microseconds(times[ours])}"
    return best, f"{said}; cuBLAS and the kernels beside it: {_microseconds(times[0])}"


def _config(candidate: Candidate) -> str:
    return str(candidate.low.kernel.config)  # type: ignore[attr-defined]


def _microseconds(milliseconds: float) -> str:
    return f"{1e3 * milliseconds:.1f} µs" if math.isfinite(milliseconds) else "not built"


def _key(candidates: Sequence[Candidate], texts: Texts, device: torch.device) -> str:
    import triton

    said = [torch.cuda.get_device_name(device), triton.__version__, torch.__version__]
    for candidate in candidates:
        for step in candidate.steps:
            if isinstance(step, Lowered):
                text = texts[step]
                said.append(f"{text.source} {text.shape}".replace(step.kernel.name, "kernel"))
            else:
                types = [node.type for node in (step, *step.args) if isinstance(node, Node)]
                said.append(f"{step.attrs['target']} {types}")
    return "products-" + hashlib.sha256("\n".join(said).encode()).hexdigest()


def measured(
    candidates: Sequence[Candidate], texts: Texts, views: Views, device: torch.device
) -> list[float]:
    """Median milliseconds of each candidate; infinite for one that cannot be built."""
    with torch.cuda.device(device), ThreadPoolExecutor(max_workers=8) as pool:
        launchers = {low: launcher_of(text) for low, text in texts.items()}
        for launcher in launchers.values():
            pool.submit(_compiles, launcher, device)
        pool.shutdown(wait=True)
        memory = _memory(candidates, device)
        calls = [_call(candidate, launchers, memory, views, device) for candidate in candidates]
        times = iter(device_times([call for call in calls if call is not None], device))
        return [math.inf if call is None else next(times) for call in calls]


def _compiles(launcher: Launcher, device: torch.device) -> None:
    try:
        launcher.compile(device)
    except Exception as error:  # the compiler's own, of whatever kind: the candidate is left out
        log.info("%s is not tried: %s", launcher.text.kernel.name, error)


def _call(
    candidate: Candidate, launchers: dict[Lowered, Launcher], memory: Memory, views: Views, device: torch.device
) -> Callable[[], None] | None:
    """What runs a candidate's steps; None if one of them cannot be run."""
    try:
        steps = [_step(step, launchers, memory, views, device) for step in candidate.steps]
        for step, tensors in steps:
            step(*tensors)
        torch.cuda.synchronize(device)
    except Exception as error:  # the driver's or the compiler's own: the candidate is left out
        log.info("a candidate is not tried: %s", error)
        return None

    def call() -> None:
        for step, tensors in steps:
            step(*tensors)

    return call


def _step(
    step: Lowered | Node, launchers: dict[Lowered, Launcher], memory: Memory, views: Views, device: torch.device
) -> tuple[Callable[..., None], list[torch.Tensor]]:
    if isinstance(step, Lowered):
        return launchers[step].loaded(device), [memory[node] for node in step.nodes]
    operands = [step, *(arg for arg in step.args if isinstance(arg, Node))]
    seen = [views.of(node) for node in operands]
    meant = tuple(
        (tuple(node.tensor.shape), tuple(view.strides or ()), view.offset)
        for node, (_, view) in zip(operands, seen, strict=True)
    )
    return matrix_product(step.attrs["target"], device.type, meant), [memory[base] for base, _ in seen]  # type: ignore[arg-type]


def _memory(candidates: Sequence[Candidate], device: torch.device) -> Memory:
    """Memory for all that the first candidate, cuBLAS with everything around it, reads and writes."""
    nodes: dict[Node, None] = {}
    for step in candidates[0].steps:
        nodes.update(dict.fromkeys(step.nodes if isinstance(step, Lowered) else (step, *step.args)))
    bases = {_base(node): None for node in nodes}
    return {node: _filled(node, device) for node in bases if isinstance(node.type, TensorType)}


def _base(node: Any) -> Node:
    while node.op in ("reshape", "permute", "expand", "slice"):
        node = node.args[0]
    return node


def _filled(node: Node, device: torch.device) -> torch.Tensor:
    type, strides = node.tensor, storage_strides(node)
    extent = 1 + sum((int(size) - 1) * int(stride) for size, stride in zip(type.shape, strides, strict=True))
    if type.dtype.is_floating_point:
        return torch.randn(extent, device=device).to(type.dtype)
    return torch.randint(0, 2, (extent,), device=device).to(type.dtype)
