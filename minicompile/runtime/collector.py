"""Python's cyclic garbage collector, paused while something is compiled.

Imports and tracing make hundreds of thousands of objects, nearly all of which stay: a full collection in the middle of
that walks over everything that torch has imported, a tenth of a second and more, and finds next to nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection in the block; after it, as before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
