"""Whether other threads run while a native call does: it must have let go of the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable


def ticks_during(call: Callable[[], object]) -> int:
    """How often another thread, which sleeps a millisecond each time, has its turn during the call."""
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    call()
    during = len(ticks) - before
    done.set()
    thread.join(10)
    return during
