"""Special functions for generated Triton kernels: libdevice's.

In: nothing; importing this imports triton, so only the Triton back end does.
Out: `@triton.jit` functions over float32 and float64, for rows of ir/special_ops.py. Triton's interpreter has none."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def mc_erfinv(x):
    return libdevice.erfinv(x)


@triton.jit
def mc_erfcx(x):
    return libdevice.erfcx(x)


@triton.jit
def mc_i0(x):
    return libdevice.cyl_bessel_i0(x)


@triton.jit
def mc_i1(x):
    return libdevice.cyl_bessel_i1(x)


@triton.jit
def mc_bessel_j0(x):
    return libdevice.j0(x)


@triton.jit
def mc_bessel_j1(x):
    return libdevice.j1(x)


@triton.jit
def mc_bessel_y0(x):
    return libdevice.y0(x)


@triton.jit
def mc_bessel_y1(x):
    return libdevice.y1(x)


@triton.jit
def mc_lgamma(x):
    return libdevice.lgamma(x)


@triton.jit
def mc_hypot(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.hypot(x, y)


@triton.jit
def mc_nextafter(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.nextafter(x, y)
