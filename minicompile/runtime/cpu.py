"""What this processor can do, read from the kernel's own list of its features.

Out: the SIMD level that the C++ compiler will target with -march=native, who made the processor, the size of the last
cache, and a fingerprint that keeps a cache folder on a shared disk from handing one machine's instructions to another.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path

LEVELS = (  # the first whose features are all there is the one that the compiler vectorises for
    ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    ("avx2", {"avx2", "fma"}),
    ("avx", {"avx"}),
    ("sse2", {"sse2"}),
    ("sve", {"sve"}),
    ("neon", {"asimd"}),
)


@functools.cache
def features() -> frozenset[str]:
    """The feature names of the first processor ("flags" on x86, "Features" on ARM)."""
    return frozenset(cpuinfo("flags", "Features").split())


def cpuinfo(*keys: str) -> str:
    """What /proc/cpuinfo says of the first processor under one of the keys; "" where there is no such line."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:  # stops at the first processor: there may be hundreds
                if line.startswith(keys):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


@functools.cache
def vendor() -> str:
    """ "GenuineIntel", "AuthenticAMD", …; "" where the system does not tell."""
    return cpuinfo("vendor_id")


@functools.cache
def simd_name() -> str:
    """ "avx512", "avx2", "avx", "sse2", "sve", "neon", or "scalar" where none is known."""
    return next((name for name, needed in LEVELS if needed <= features()), "scalar")


@functools.cache
def last_cache_bytes() -> int:
    """The size of the last cache before memory, of the first processor; 0 where the system does not tell."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    try:
        return max((int(size.read_text().strip().removesuffix("K")) << 10 for size in sizes), default=0)
    except (OSError, ValueError):
        return 0


@functools.cache
def fingerprint() -> str:
    """A short hash of the architecture, its maker and its features."""
    text = " ".join([platform.machine(), vendor(), *sorted(features())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
