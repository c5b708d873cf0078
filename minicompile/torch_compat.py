"""Differences between torch versions, and torch's private names that we rely on, in one place.

In: torch >= 2.11. Out: functions with one meaning on every version. What concerns symbolic sizes is in shape_env.py,
which only tracing imports; how Inductor is watched in inspect/inductor_watch.py.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch


def quiet_fake_tensors() -> AbstractContextManager[None]:
    """No log of every operation that a fake tensor refused: that is how tracing finds the user's mistakes."""
    return _quiet("torch._subclasses.fake_tensor")


def quiet_size_arithmetic() -> AbstractContextManager[None]:
    """No log of sizes that an expression has no value for, where trying some is the point."""
    return _quiet("torch.utils._sympy.interp")


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    log = logging.getLogger(logger)
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def hide_from_dynamo(code: CodeType) -> None:
    """Have torch.compile's frame evaluator leave frames of this code alone, and every frame below them."""
    module = torch._C._dynamo.eval_frame
    skip = module._FrameAction.SKIP
    module.set_code_exec_strategy(code, module._FrameExecStrategy(skip, skip))


def when_profiling(start: Callable[[], None], stop: Callable[[], None]) -> None:
    """Have functions called just before any profiler of torch's starts, and when it has stopped."""
    from torch.autograd import profiler

    def chained(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            first()
            second()

        return both

    if hasattr(profiler, "_run_on_profiler_start"):
        profiler._run_on_profiler_start = chained(profiler._run_on_profiler_start, start)
        profiler._run_on_profiler_stop = chained(profiler._run_on_profiler_stop, stop)


@contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """What autograd saves in the block meets no hooks: they are the running program's (checkpointing, offloading)."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)


def stops_recomputation(error: BaseException) -> bool:
    """Whether this is how activation checkpointing leaves a function of which it has seen enough: no failure."""
    return type(error).__module__ == "torch.utils.checkpoint" and type(error).__name__ == "_StopRecomputationError"


def rng_state_operators() -> tuple[Any, Any]:
    """What AOTAutograd puts around a random operator that backward runs again: `save(op, ...)` gives the state of the
    generator and the result, `start(state, op, ...)` the result from that state."""
    from torch._prims import rng_prims

    return rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state


@functools.cache
def header_folder() -> Path | None:
    """Where torch's C++ headers are; None for a torch that came without (a distribution may cut them off)."""
    folder = Path(torch.__file__).parent / "include"
    return folder if (folder / "ATen/native/Math.h").is_file() else None


def math_library() -> Path:
    """The library that has `vector_libraries` in it."""
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@functools.cache
def vector_libraries() -> frozenset[str]:
    """Which libraries of vector mathematics torch brings and exports: "vml" (MKL's) and "sleef" (its AVX-512 part)."""
    try:
        library = ctypes.CDLL(str(math_library()))
    except OSError:  # a torch that is built in another way
        return frozenset()
    probes = {"vml": "MKL_Set_Num_Threads_Local", "sleef": "Sleef_expm1f16_u10"}
    return frozenset(name for name, function in probes.items() if hasattr(library, function))


def torch_release() -> str:
    """The version, in letters, digits and underscores."""
    return "".join(c if c.isalnum() else "_" for c in str(torch.__version__))


def allows_tf32() -> bool:
    """Whether products of float32 may be computed with tf32's ten bits. torch has two interfaces for it, and refuses to
    tell once both have been used: then they may not."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:
        return False


def storage_id(tensor: torch.Tensor) -> int:
    """A number that living tensors have in common if they share memory. The tensor has to have strides."""
    return tensor.untyped_storage()._cdata


def storage_use_count(storage: torch.UntypedStorage) -> int:
    """How many hold the storage, in C++; all Python references together count as one."""
    return torch._C._storage_Use_Count(storage._cdata)


def forget_writes(tensor: torch.Tensor) -> None:
    """Make a new tensor's version 0, whatever was done to make it; an inference tensor has none."""
    if not tensor.is_inference():
        torch._C._autograd._unsafe_set_version_counter((tensor,), (0,))  # type: ignore[attr-defined]


def elementwise_strides(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """The strides that TensorIterator gives the result of an elementwise operator over tensors of one shape."""
    from torch._prims_common import compute_elementwise_output_strides

    return tuple(compute_elementwise_output_strides(*tensors))


def lies_channels_last(tensor: torch.Tensor) -> bool:
    """Whether ATen takes a tensor of four or five dimensions for one whose channels lie last."""
    from torch._prims_common import suggest_memory_format

    return suggest_memory_format(tensor) is not torch.contiguous_format


def dense_strides(shape: tuple[Any, ...], channels_last: bool) -> tuple[Any, ...]:
    """Of sizes that may be torch's symbolic ones; with the channels last only for four or five dimensions."""
    from torch._prims_common import make_channels_last_strides_for, make_contiguous_strides_for

    return tuple((make_channels_last_strides_for if channels_last else make_contiguous_strides_for)(shape))


def enter_attention_kernels(backends: tuple[int, ...], set_priority: bool) -> Any:
    """What entering `torch.nn.attention.sdpa_kernel` does. Returns what was before, for `leave_attention_kernels`."""
    from torch.nn import attention

    before = _attention_kernels(set_priority)
    attention._sdpa_kernel([attention.SDPBackend(backend) for backend in backends], set_priority)
    return before


def leave_attention_kernels(before: Any) -> None:
    """What leaving `torch.nn.attention.sdpa_kernel` does."""
    from torch.nn import attention

    attention._sdpa_kernel(*before)


def _attention_kernels(with_priority: bool) -> tuple[Any, bool]:
    from torch.nn import attention

    return attention._cur_sdpa_kernel_backends(with_priority=with_priority), with_priority


Modes = tuple[Any, ...]
"""Grad mode, autocast's settings, cache and depth of nesting, and the kernels that attention may use."""
_AUTOCAST_DEVICES = ("cpu", "cuda")


def save_modes() -> Modes:
    """The modes that a graph may change while it runs."""
    devices = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _AUTOCAST_DEVICES]
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return torch.is_grad_enabled(), devices, torch.is_autocast_cache_enabled(), depth, _attention_kernels(True)


def restore_modes(saved: Modes) -> None:
    """Put the modes back, after a graph that raised half-way."""
    grad_mode, devices, is_cached, depth, kernels = saved
    leave_attention_kernels(kernels)
    torch._C._set_grad_enabled(grad_mode)
    for name, enabled, dtype in devices:
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)
    torch.set_autocast_cache_enabled(is_cached)
    now = torch.autocast_increment_nesting()
    while now > depth:
        now = torch.autocast_decrement_nesting()
    if now == 0:
        torch.clear_autocast_cache()


def without_generation_tag(fn: FunctionType) -> Any:
    """What torch.compile has replaced on `nn.Module` by a function that also keeps a note of new modules, for itself;
    None for any other function."""
    is_patched = fn.__code__.co_qualname.startswith("install_generation_tagging_init.<locals>.patched_")
    return fn.__closure__[0].cell_contents if is_patched and fn.__closure__ else None


def script_original(fn: Any) -> FunctionType | None:
    """The Python function that torch.jit.script made `fn` from; None for one from torch.jit.trace, which has forgotten
    what Python decided."""
    original = getattr(fn, "_torchdynamo_inline", None)
    if not isinstance(original, FunctionType):
        return None
    scripted = torch.jit._state._try_get_jit_cached_function(original)
    return original if scripted is not None and scripted.qualified_name == fn.qualified_name else None


def infer_size(shape: Any, numel: Any) -> list[Any]:
    """A shape with its -1 filled in, for so many elements. Raises RuntimeError where they do not fit."""
    from torch._prims_common import infer_size as theirs

    return list(theirs(shape, numel))


# ---- tensors as C sees them ----

_GETTERS = ("data_ptr", "dtype", "device_type", "device_index", "dim", "sizes", "strides")
_MODES = ("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv")
_REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"
_LOCAL_KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"
_IMPL_BYTES = 192  # no TensorImpl is smaller


class TensorLayout(NamedTuple):
    """Where C finds what it wants to know about a tensor, and about the modes that are active: the fields that
    `use_layout` of torch_tensor.h takes."""

    tensor: type
    parameter: type
    handle: int
    keys: int
    functions: tuple[int, ...]
    library: int
    local_keys: str


@functools.cache
def tensor_layout() -> TensorLayout | None:
    """Found by looking at tensors whose facts are known; None where that is not conclusive."""
    try:
        c10, stable = _torch_library("c10"), _torch_library("torch_cpu")
        functions = [getattr(stable, f"aoti_torch_get_{name}") for name in _GETTERS] + [getattr(c10, _REQUIRES_GRAD)]
        functions += [getattr(library, name) for library, name in zip((stable, c10), _MODES, strict=True)]
        functions.append(stable.aoti_torch_dtype_element_size)
        addresses = tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
        if not _local_keys_are_there(c10):
            return None
    except (OSError, AttributeError, ValueError):
        return None
    samples = _samples()
    handle = _common_offset([(id(t), type(t).__basicsize__, t._cdata) for t in samples])
    keys = _common_offset([(t._cdata, _IMPL_BYTES, torch._C._dispatch_keys(t).raw_repr()) for t in samples])
    if handle is None or keys is None:
        return None
    return TensorLayout(torch.Tensor, torch.nn.Parameter, handle, keys, addresses, c10._handle, _LOCAL_KEYS)


@functools.cache
def can_read_tensors(extension: Any) -> bool:
    """Tell an extension that includes torch_tensor.h how tensors are read; False where that is not known."""
    layout = tensor_layout()
    if layout is None:
        return False
    try:
        extension.use_layout(layout)
    except (AttributeError, TypeError):  # there is none, or it was built from an earlier release's source
        return False
    return True


def tensor_numbers(dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
    """The numbers that C has for these: dtype, type and index of the device. Raises LookupError for a rare one."""
    stable, name = _torch_library("torch_cpu"), str(dtype).removeprefix("torch.")
    try:
        codes = [getattr(stable, f"aoti_torch_{what}")() for what in (f"dtype_{name}", f"device_type_{device.type}")]
    except AttributeError:
        raise LookupError(f"{dtype} on {device.type} has no number in torch's stable interface") from None
    return codes[0], codes[1], -1 if device.index is None else device.index


@functools.cache
def stable_function(name: str, device: str = "cpu") -> int:
    """The address of a function of torch's stable C interface, of a device's or common to all; 0 for an unknown one."""
    try:
        library = _torch_library(f"torch_{device}")
        found = getattr(library, name, None) or getattr(_torch_library("torch_cpu"), name)
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0


@functools.cache
def plain_keys(device: str) -> tuple[int, int]:
    """The dispatch keys of a strided tensor without any bits or wrappers: an ordinary one, and an inference tensor."""
    with _unseen_by_modes():
        ordinary = torch.empty(0, device=device)
        with torch.inference_mode():
            inference = torch.empty(0, device=device)
    return torch._C._dispatch_keys(ordinary).raw_repr(), torch._C._dispatch_keys(inference).raw_repr()


@functools.cache
def _torch_library(name: str) -> ctypes.CDLL:
    """One of torch's own libraries, which are loaded already."""
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"lib{name}.so"))


@contextmanager
def _unseen_by_modes() -> Iterator[None]:
    """Tensors made in the block are plain, whatever modes of the user's or ours are active, who do not see it."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad():
        yield


def _samples() -> list[torch.Tensor]:
    """Tensors with different dispatch keys and classes."""
    with _unseen_by_modes():
        plain = torch.empty(1)
        samples = [plain, torch.nn.Parameter(torch.empty(2)), torch.empty(2, 2, device="meta"), torch._neg_view(plain)]
        samples += [torch.empty(2, dtype=torch.complex64).conj(), torch.empty(2, layout=torch.sparse_coo)]
        with torch.inference_mode():
            return [*samples, torch.empty(3)]


def _common_offset(objects: list[tuple[int, int, int]]) -> int | None:
    """The one multiple of 8 at which each object (address, bytes, number) has its number; None for none or several."""
    found = [_offsets(*each) for each in objects]
    common = set.intersection(*found)
    return common.pop() if len(common) == 1 else None


def _offsets(address: int, size: int, number: int) -> set[int]:
    words = (ctypes.c_uint64 * (size // 8)).from_address(address)
    return {8 * index for index, word in enumerate(words) if word == number}


def _local_keys_are_there(c10: ctypes.CDLL) -> bool:
    """Whether the variable changes as the thread's dispatch keys do. (It holds their difference from the defaults.)"""
    kept = (ctypes.c_uint64 * 2).in_dll(c10, _LOCAL_KEYS)

    def seen() -> tuple[int, ...]:
        included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        return (kept[0] ^ included.raw_repr(), kept[1] ^ excluded.raw_repr())

    outside, before = seen(), tuple(kept)
    with torch.inference_mode(not torch.is_inference_mode_enabled()):
        return seen() == outside and tuple(kept) != before


@contextmanager
def without_function_modes() -> Iterator[None]:
    """What we compute while compiling is not for the program's modes, that of `torch.set_default_device` among them."""
    from torch.overrides import _pop_mode, _push_mode

    modes = [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def kept_graph() -> Any:
    """A CUDA graph to capture, which `finish_graph` can change before it is instantiated, where this torch lets us."""
    try:
        return torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:  # before torch 2.8
        return torch.cuda.CUDAGraph()


def finish_graph(graph: Any, change: Callable[[int], None]) -> None:
    """Instantiate a captured graph, after `change` has had its cudaGraph_t; what it raises is raised."""
    if hasattr(graph, "instantiate"):
        change(graph.raw_cuda_graph())
        graph.instantiate()
