"""Everything that differs between Triton's versions, and how a kernel is compiled without a device.

In: a `@triton.jit` function with the types of its arguments. Out: a compiled kernel, or its cubin.
Supported: Triton 3.6 (torch 2.11) to 3.9 (torch 2.13).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
"""Whether Triton runs kernels in Python on the CPU. Triton reads the variable when it is imported."""


def compile_for(
    function: Any,
    signature: dict[str, str],
    constants: dict[str, int],
    aligned: tuple[int, ...],
    options: dict[str, Any],
    arch: int,
) -> Any:
    """Compile for an NVIDIA architecture (90: Hopper); no GPU is needed.

    Args:
        signature: argument name → type (`"*fp32"`, `"i64"`, `"constexpr"`), in order.
        constants: values of the constexpr arguments.
        aligned: positions of the arguments that are divisible by 16.
        options: num_warps and the like.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(signature)
    source = ASTSource(
        fn=function,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(position,): [["tt.divisibility", 16]] for position in aligned},
    )
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@dataclass(frozen=True)
class Handle:
    """A kernel loaded on a device. `hidden`: parameters that Triton adds at the end, null for kernels like ours.
    `module` keeps it loaded."""

    function: int
    threads: int
    shared: int
    hidden: int
    module: Any


def load(compiled: Any, device: int, n_params: int) -> Handle:
    """Load a compiled kernel on the current device, whose number is `device`.

    Args:
        n_params: the parameters that the kernel's own arguments make.
    Raises NotImplementedError for a kernel that needs scratch memory.
    """
    import triton

    metadata = compiled.metadata
    if getattr(metadata, "global_scratch_size", 0) or getattr(metadata, "profile_scratch_size", 0):
        raise NotImplementedError(f"{metadata.name} needs scratch memory")
    utils = triton.runtime.driver.active.utils
    module, function, *_ = utils.load_binary(metadata.name, compiled.kernel, metadata.shared, device)
    header = compiled.asm["ptx"].split(".entry", 1)[1].split(")", 1)[0]
    hidden = header.count(".param") - n_params
    return Handle(function, 32 * metadata.num_warps, metadata.shared, hidden, module)
