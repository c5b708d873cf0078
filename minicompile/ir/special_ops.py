"""The op table's special functions: gamma, error, Bessel, orthogonal polynomials, and a few of the C library.

In: nothing. Out: `SPECIAL`, rows of the pointwise table (see ops.py for its rules).

The C++ text calls the very functions that eager's own CPU kernels call, from a header that every torch wheel ships:
`row.aten` says so. On a GPU only those that libdevice has are in kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .scalar_op import ScalarOp

_COST = 64

_UNARY = (
    "digamma", "erfinv", "trigamma", "ndtri", "log_ndtr", "erfcx", "i0", "i0e", "i1", "i1e", "airy_ai", "bessel_j0",
    "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
)  # fmt: skip

_BINARY = (
    "igamma", "igammac", "zeta", "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
)  # fmt: skip

LIBDEVICE = frozenset({
    "erfinv", "erfcx", "i0", "i1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "lgamma", "hypot", "nextafter",
})  # fmt: skip
"""The rows that Triton has too (see codegen/triton_special.py)."""


def _polygamma(x: torch.Tensor, order: Any) -> torch.Tensor:
    """Of one order, a scalar."""
    return torch.polygamma(int(order.flatten()[0] if isinstance(order, torch.Tensor) else order), x)


_OTHER_NAMES: dict[str, Callable[..., Any]] = {"trigamma": lambda x: torch.polygamma(1, x), "polygamma": _polygamma}


def _torch(name: str) -> Callable[..., Any]:
    return _OTHER_NAMES.get(name) or getattr(torch.special, name, None) or getattr(torch, name)


def _row(name: str, arity: int, kinds: str = "f", aten: bool = True) -> ScalarOp:
    """All arguments are made of one C++ type, which a function template has to see."""
    places = ", ".join(f"({{t}}){{{i}}}" for i in range(arity))
    triton = f"mc_{name}({', '.join(f'{{{i}}}' for i in range(arity))})" if name in LIBDEVICE else None
    return ScalarOp(name, arity, _torch(name), f"mc_{name}({places})", triton, kinds, cost=_COST, aten=aten)


SPECIAL = (
    *(_row(name, 1) for name in _UNARY),
    *(_row(name, 2) for name in (*_BINARY, "polygamma")),
    _row("lgamma", 1, aten=False),
    _row("hypot", 2, aten=False),
    _row("nextafter", 2, aten=False),
    _row("gcd", 2, "i", aten=False),
)
