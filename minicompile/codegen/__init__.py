"""Code generation: ir.Graph → kernels (C++ or Triton) and a flat Python wrapper around them. See compile.py."""

from .compile import compile_ir
from .compiled import CompiledGraph, FusionDecision, KernelInfo

__all__ = ["CompiledGraph", "FusionDecision", "KernelInfo", "compile_ir"]
