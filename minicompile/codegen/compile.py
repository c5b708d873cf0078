"""ir.Graph → CompiledGraph: the back end's own main line.

In: an optimised Graph and the name of a back end. Out: a `CompiledGraph`, built and ready to call.

    plan (plan.py) → print (C++ or Triton) → build → wrapper
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import CREATION
from ..ir.types import Dim, TensorType
from ..timeline import stage
from .compiled import CompiledGraph, KernelInfo
from .fusion import Unit
from .kernel_ir import Kernel
from .lower_kernel import Lowered
from .matmul_kernel import Product
from .plan import plan_kernels
from .triton_compat import INTERPRETED
from .wrapper import Launch, Wrapper, write_wrapper

BACKENDS = ("auto", "cpp", "triton")


def compile_ir(
    graph: Graph, *, backend: str = "auto", options: Mapping[str, Any] | None = None, boxed: bool = False
) -> CompiledGraph:
    """Compile a graph.

    Args:
        backend: "cpp", "triton", or "auto": C++ for a graph on the CPU, Triton for one on a GPU.
        options: `exact_rounding` (default: `config.exact_rounding`): half types are rounded after every operation;
            `cuda_graphs`, `tune`: see `backends.MODES`.
        boxed: the result takes one list of the inputs, and empties it: each input can die after its last use.
    Raises:
        ValueError: an unknown back end, or one that cannot run on the graph's device.
        CompilerMissing, CompileError: from the native build.
    """
    backend, device, options = choose_backend(graph, backend), _device(graph), options or {}
    seconds: dict[str, float] = {}
    planned = plan_kernels(graph, backend, options, device, seconds)
    prepared, lowered = planned.graph, planned.lowered
    with stage("kernels", seconds):
        built = _build(lowered, backend, device, bool(options.get("tune")), seconds)
    with stage("wrapper", seconds):
        launches = {unit: Launch(low.kernel, low.nodes, built.calls[unit]) for unit, low in lowered.items()}
        records = bool(options.get("cuda_graphs")) and device is not None
        wrapper = write_wrapper(prepared, planned.units, launches, planned.views, boxed, records)
    positions = {node: number for number, node in enumerate(prepared.nodes)}
    return CompiledGraph(
        call=_recorded(wrapper, graph, boxed) if wrapper.records else wrapper.call,
        name=graph.name,
        ir=graph,
        kernels=[
            describe(unit, low, built.texts[unit], built.languages[unit], positions)
            for unit, low in lowered.items()
            if any(node.tensor.numel != 0 for node in unit.stored)
        ],
        externs=[str(unit.members[0].attrs["target"]) for unit in planned.units if unit.is_extern],
        wrapper_source=wrapper.source,
        native_source=built.source,
        objects=wrapper.objects,
        decisions=planned.decisions,
        seconds=seconds,
        prepared=prepared,
    )


@dataclass
class _Built:
    """Native code: all of it; and for each unit its text, its language and what to call."""

    source: str = ""
    texts: dict[Unit, str] = field(default_factory=dict)
    languages: dict[Unit, str] = field(default_factory=dict)
    calls: dict[Unit, Callable[..., None]] = field(default_factory=dict)


def _build(
    lowered: dict[Unit, Lowered], backend: str, device: torch.device | None, tune: bool, seconds: dict[str, float]
) -> _Built:
    """Print and build all kernels. Beside a GPU's there may be some on the CPU, over a step count, say."""
    result = _Built()
    for unit in lowered:
        is_cpus = device is not None and unit.stored[0].tensor.device.type == "cpu"
        result.languages[unit] = "cpp" if is_cpus else backend
    for language in dict.fromkeys(result.languages.values()):
        units = [unit for unit in lowered if result.languages[unit] == language]
        source, texts, calls = _printer(language).build([lowered[u].kernel for u in units], seconds, device, tune)
        result.source += source
        result.texts.update(zip(units, texts, strict=True))
        result.calls.update(zip(units, calls, strict=True))
    return result


def _recorded(wrapper: Wrapper, graph: Graph, boxed: bool) -> Callable[..., Any]:
    """The call, recorded as CUDA graphs."""
    from ..runtime.cuda_graphs import GraphedCall
    from .graph_facts import facts_of

    return GraphedCall(wrapper.call, facts_of(graph), boxed, wrapper.kept)


def _device(graph: Graph) -> torch.device | None:
    """The GPU that the graph's kernels run on, if they do."""
    types = [node.type for node in (*graph.nodes, *graph.inputs) if isinstance(node.type, TensorType)]
    return next((type.device for type in types if type.device.type != "cpu"), None)


def _printer(backend: str) -> Any:
    """The module that prints and builds kernels; Triton is imported only where it is used."""
    return importlib.import_module(f".{backend}_build", __package__)


def choose_backend(graph: Graph, backend: str) -> str:
    """Resolve "auto", and refuse what cannot work. Raises ValueError."""
    if backend not in BACKENDS:
        raise ValueError(f"unknown code generation back end {backend!r}; known: {', '.join(BACKENDS)}")
    nodes = (*graph.inputs, *graph.nodes)
    devices = {node.type.device.type for node in nodes if isinstance(node.type, TensorType)}
    on_gpu = bool(devices - {"cpu"})
    if backend == "auto":
        return "triton" if on_gpu else "cpp"
    if backend == "triton" and not on_gpu and not INTERPRETED:
        raise ValueError(
            "backend 'triton' needs CUDA tensors; this graph is on the CPU: use backend='cpp' or 'auto', or set "
            "TRITON_INTERPRET=1 before the program starts, to run the kernels in Triton's interpreter"
        )
    if backend == "cpp" and on_gpu:
        raise ValueError(f"backend 'cpp' needs CPU tensors; this graph is on {', '.join(sorted(devices))}")
    return backend


def describe(unit: Unit, low: Lowered, source: str, backend: str, positions: dict[Node, int]) -> KernelInfo:
    """The record of one kernel."""
    origins = dict.fromkeys(node.origin for node in unit.members if node.origin is not None)
    return KernelInfo(
        name=low.kernel.name,
        language=backend,
        source=source,
        ops=[_op_name(node) for node in unit.members],
        origins=list(origins),
        bytes_moved=bytes_moved(low.nodes),
        kind=_kind(low.kernel),
        ir=str(low.kernel),
        nodes=tuple(positions[node] for node in unit.members),
    )


def _op_name(node: Node) -> str:
    """What is computed: a product in a kernel of ours is called what ATen calls it."""
    return node.op if node.op != "extern" else node.attrs["target"]._schema.name.removeprefix("aten::")


def _kind(kernel: Kernel) -> str:
    if isinstance(kernel, Product):
        return "product"
    return "reduction" if kernel.is_reduction else "pointwise"


def bytes_moved(nodes: tuple[Node, ...]) -> Dim:
    """Each buffer once."""
    total: Dim = 0
    for node in nodes:
        if node.op not in CREATION:
            total = total + node.tensor.numel * node.tensor.dtype.itemsize
    return total
