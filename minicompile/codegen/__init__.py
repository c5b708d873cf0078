"""Code generation: ir.Graph → kernels (C++ or Triton) and a flat Python wrapper around them. See compile.py.

`compile_ir` is imported when it is first used: a program whose entries are all recalled generates no code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compiled import CompiledGraph, FusionDecision, KernelInfo

if TYPE_CHECKING:
    from .compile import compile_ir

__all__ = ["CompiledGraph", "FusionDecision", "KernelInfo", "compile_ir"]


def __getattr__(name: str) -> Any:
    if name != "compile_ir":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .compile import compile_ir

    return compile_ir
