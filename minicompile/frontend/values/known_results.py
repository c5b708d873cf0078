"""Library functions whose result is known while tracing: texts and patterns, paths, the machine, the process.

In: constants. Out: constants. Three kinds: what hangs on its arguments alone is folded; what a machine is does not
change while a process lives (but another process may run on another one); what a process may change (whether
torch.distributed runs, a number of threads) is asked again before the entry is used, which a guard does.
"""

from __future__ import annotations

import functools
import json
import os.path
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from ...guards.constants import is_constant
from ...guards.kinds import ConstantGuard
from ..breaks import unsupported_call
from ..computed_sources import CallSource
from .base import Args, NotConstant, Value
from .callables import RULES, function_name
from .constant import ConstantValue
from .iterators import IteratorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

OF_ARGUMENTS: tuple[Callable[..., Any], ...] = (
    re.compile, re.match, re.search, re.fullmatch, re.split, re.sub, re.subn, re.findall, re.escape, json.dumps,
    json.loads, os.fspath, os.path.join, os.path.basename, os.path.dirname, os.path.split, os.path.splitext,
    os.path.splitdrive, os.path.normpath, os.path.normcase, os.path.isabs, os.path.commonprefix, os.path.commonpath,
    torch.distributed.is_available,
)  # fmt: skip

OF_THE_MACHINE: tuple[Callable[..., Any], ...] = (
    torch.cuda.is_available, torch.cuda.device_count, torch.cuda.get_device_capability, torch.cuda.get_device_name,
    torch.cuda.is_bf16_supported, torch.xpu.is_available, torch.xpu.device_count, torch.accelerator.is_available,
    torch.accelerator.device_count, torch.accelerator.current_accelerator,
)  # fmt: skip

_DISTRIBUTED = ("is_initialized", "get_rank", "get_world_size", "get_backend")
OF_THE_PROCESS: tuple[Callable[..., Any], ...] = (
    torch.cuda.is_initialized, torch.cuda.current_device, torch.get_num_threads, torch.get_num_interop_threads,
    torch.get_float32_matmul_precision, torch.get_deterministic_debug_mode, torch.is_warn_always_enabled,
    torch.is_anomaly_enabled, torch.is_deterministic_algorithms_warn_only_enabled, os.getcwd, os.getpid,
    *(getattr(torch.distributed, name) for name in _DISTRIBUTED if hasattr(torch.distributed, name)),
)  # fmt: skip


def _of_arguments(fn: Any, tr: Tracer, *args: Value, **kwargs: Value) -> Value:
    try:
        return tr.fold(fn, *args, **kwargs)
    except NotConstant:
        raise unsupported_call(f"{function_name(fn)}()", "gets something else than constants") from None


def _of_the_machine(fn: Any, tr: Tracer, *args: Value, **kwargs: Value) -> Value:
    tr.is_portable = False
    return _of_arguments(fn, tr, *args, **kwargs)


def _of_the_process(fn: Any, tr: Tracer, *args: Value, **kwargs: Value) -> Value:
    given = [arg.realize(tr).const(tr) for arg in args]
    named = {name: value.realize(tr).const(tr) for name, value in kwargs.items()}
    call = functools.partial(fn, *given, **named) if args or kwargs else fn
    try:
        result = call()
    except Exception:  # the program's; the call in its place raises it again
        raise unsupported_call(f"{function_name(fn)}()", "fails") from None
    if not is_constant(result):
        raise unsupported_call(f"{function_name(fn)}()", f"gives a {type(result).__name__}")
    tr.guard(ConstantGuard(CallSource(tr.anchor(call)), result))
    return ConstantValue(result)


def _found_one_by_one(tr: Tracer, pattern: Value, *args: Value, **kwargs: Value) -> Value:
    """`re.finditer`: texts never change, so all matches may be looked for at once."""
    try:
        matches = tr.fold(lambda *a, **k: list(re.finditer(*a, **k)), pattern, *args, **kwargs)
    except NotConstant:
        raise unsupported_call("re.finditer()", "gets something else than constants") from None
    return IteratorValue(None, matches.items(tr))


def call_pattern(tr: Tracer, fn: Any, args: Args) -> Value | None:
    """`pattern.finditer(text)`; None for anything else."""
    pattern = getattr(fn, "__self__", None)
    if not isinstance(pattern, re.Pattern) or fn.__name__ != "finditer" or len(args) != 1:
        return None
    return _found_one_by_one(tr, ConstantValue(pattern), *args)


for _trace, _functions in (
    (_of_arguments, OF_ARGUMENTS), (_of_the_machine, OF_THE_MACHINE), (_of_the_process, OF_THE_PROCESS)
):  # fmt: skip
    RULES.update({fn: functools.partial(_trace, fn) for fn in _functions})
RULES[re.finditer] = _found_one_by_one
