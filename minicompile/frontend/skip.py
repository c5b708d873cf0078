"""Code that is not for tracing, and why.

In: code objects. Out: None, or the reason in plain words. Two questions: whether a function may be inlined where it is
called (`why_not_inlined`), and whether a frame may be compiled on its own (`why_not_compiled`).
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType

import torch

_TORCH = str(Path(torch.__file__).parent) + "/"
_SUSPENDED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_OWN = str(Path(__file__).parent.parent) + "/"
_TRACED = (
    "examples/", "lessons/", "frontend/polyfills.py", "frontend/torch_polyfills.py", "frontend/scan_polyfills.py",
)  # fmt: skip
_OWN_TRACED = tuple(_OWN + name for name in _TRACED)
_STANDARD = str(Path(sysconfig.get_path("stdlib"))) + "/"
_SITE = tuple(str(Path(sysconfig.get_path(name))) + "/" for name in ("purelib", "platlib"))

_TORCH_INLINED = (
    "nn/modules/", "nn/functional.py", "nn/parameter.py", "nn/attention/__init__.py", "utils/_contextlib.py",
    "autograd/grad_mode.py", "functional.py", "_jit_internal.py", "overrides.py", "distributions/", "nn/init.py",
    "nn/utils/parametrize.py", "nn/utils/spectral_norm.py", "nn/utils/weight_norm.py", "nn/utils/parametrizations.py",
    "backends/", "testing/_internal/", "masked/", "signal/", "_lowrank.py", "_linalg_utils.py", "nn/utils/clip_grad.py",
    "utils/_foreach_utils.py", "nn/utils/stateless.py", "nn/utils/_named_member_accessor.py",
    "_functorch/functional_call.py", "amp/autocast_mode.py", "nn/utils/rnn.py", "nn/utils/convert_parameters.py",
    "utils/_pytree.py",
)  # fmt: skip
_TORCH_COMPILED = ("nn/modules/",)
_TORCH_NEVER_COMPILED = ("nn/modules/module.py", "nn/modules/_functions.py")
_OPTIMIZER_STEPS = ("_single_tensor_",)
"""The functions in which torch's optimizers compute; around them is bookkeeping with hooks, hashing and profiling."""
_OPTIMIZER_HELPERS = ("_get_value", "_to_scalar", "_dispatch_sqrt", "_stack_if_compiling")
_STANDARD_INLINED = (
    "collections/__init__.py", "functools.py", "operator.py", "typing.py", "dataclasses.py", "enum.py", "abc.py",
    "_collections_abc.py", "types.py", "numbers.py", "contextlib.py", "bisect.py", "heapq.py", "copy.py",
    "statistics.py", "fractions.py", "reprlib.py",
)  # fmt: skip
_OS_FILES = ("<frozen os>", _STANDARD + "os.py")
_ENVIRONMENT = ("_Environ.", "_createenviron.", "getenv")
"""The functions of `os` that only look at a dict of the process's environment."""
_PREDICATES = (
    "isfunction", "ismethod", "isclass", "ismodule", "isbuiltin", "isroutine", "isgenerator", "isgeneratorfunction",
    "iscoroutinefunction", "isasyncgenfunction", "_has_code_flag", "getmro",
)  # fmt: skip
"""The functions of `inspect` that only ask what an object is."""
_INFRASTRUCTURE = frozenset(
    {
        "pytest", "_pytest", "pluggy", "hypothesis", "numpy", "sympy", "triton", "rich", "tqdm", "networkx", "bytecode",
        "pip", "setuptools", "IPython", "ipykernel", "debugpy", "coverage",
    }
)  # fmt: skip


def why_not_inlined(code: CodeType) -> str | None:
    """None if a call of this code may be traced into."""
    if _is_in_optimizer(code, _OPTIMIZER_STEPS + _OPTIMIZER_HELPERS):
        return None
    if code.co_filename in _OS_FILES and code.co_qualname.startswith(_ENVIRONMENT):
        return None
    if code.co_filename == _STANDARD + "inspect.py" and code.co_qualname in _PREDICATES:
        return None
    return _why_not(code.co_filename, _TORCH_INLINED, (), _STANDARD_INLINED)


def is_optimizer_step(code: CodeType) -> bool:
    """Whether a function is one in which an optimizer of torch computes."""
    return _is_in_optimizer(code, _OPTIMIZER_STEPS)


def _is_in_optimizer(code: CodeType, names: tuple[str, ...]) -> bool:
    return code.co_qualname.startswith(names) and code.co_filename.startswith(_TORCH + "optim/")


def why_not_compiled(code: CodeType) -> str | None:
    """None if a frame of this code may be compiled on its own."""
    if code.co_name in ("<module>", "<genexpr>"):
        return "it runs once, or is a generator"
    if code.co_flags & _SUSPENDED:
        return "it is a generator or a coroutine"
    if not code.co_flags & CO_OPTIMIZED:
        return "it is a class body"
    if is_optimizer_step(code):
        return None
    return _why_not(code.co_filename, _TORCH_COMPILED, _TORCH_NEVER_COMPILED, ())


def why_not_function(func: FunctionType) -> str | None:
    """`why_not_compiled`, and for code without a file (a dataclass's `__init__`) what its module is."""
    why = why_not_compiled(func.__code__)
    if why is None and func.__code__.co_filename.startswith("<"):
        package = str(func.__globals__.get("__name__", "")).split(".")[0]
        if package in _INFRASTRUCTURE or package in sys.stdlib_module_names or package in ("torch", "minicompile"):
            return f"it was generated for {package}"
    return why


def needs_eager_below(code: CodeType) -> bool:
    """Whether nothing that this code calls may be compiled on its own: activation checkpointing runs a function twice,
    the second time from backward, and what the two runs keep for backward has to be the same; a lazy module finds its
    sizes once. What a mode or a subclass
    does about a call of torch stands in the middle of that call, which is on its way through torch's dispatcher."""
    if code.co_name in ("__torch_function__", "__torch_dispatch__"):
        return True
    return code.co_filename in (_TORCH + "utils/checkpoint.py", _TORCH + "nn/modules/lazy.py")


@functools.cache
def _why_not(
    filename: str, torch_allowed: tuple[str, ...], torch_refused: tuple[str, ...], standard_allowed: tuple[str, ...]
) -> str | None:
    if filename.startswith((_OWN, "<minicompile ")) and not filename.startswith(_OWN_TRACED):
        return "it is minicompile itself"
    if filename.startswith(_TORCH):
        rest = filename[len(_TORCH) :]
        allowed = rest.startswith(torch_allowed) and not rest.startswith(torch_refused)
        return None if allowed else "it is part of torch"
    for site in _SITE:
        if filename.startswith(site):
            package = filename[len(site) :].split("/")[0].removesuffix(".py")
            return "it is infrastructure" if package in _INFRASTRUCTURE else None
    if filename.startswith(_STANDARD):
        return None if filename[len(_STANDARD) :] in standard_allowed else "it is part of the standard library"
    if filename.startswith("<frozen"):  # `<frozen _collections_abc>`: a file that the interpreter brings along compiled
        is_allowed = filename[len("<frozen ") : -1] + ".py" in standard_allowed
        return None if is_allowed else "it is part of the interpreter"
    return None


def is_made_by_transform(code: CodeType) -> bool:
    """Whether it is the code of what `torch.vmap`, `torch.func.grad` and their like return."""
    return code.co_filename.startswith(_TORCH + "_functorch/") and "<locals>" in code.co_qualname


def is_torch_file(filename: str) -> bool:
    """Whether a file is part of torch."""
    return filename.startswith(_TORCH)


__all__ = [
    "is_made_by_transform", "is_optimizer_step", "is_torch_file", "needs_eager_below", "why_not_compiled",
    "why_not_function", "why_not_inlined",
]  # fmt: skip
