"""Memory of large results that have died, for the results of later calls.

In: the bytes that a result needs. Out: a storage of just as many bytes that nobody else can reach any more, or None.

A large block that is freed goes back to the kernel (glibc gives away 32 MiB and more at once, and the end of its heap
when it can), and comes back as zeroed pages: for a function that is bound by memory that is half of its time. On a GPU
torch's caching allocator keeps such memory; on the CPU nobody does. Here the last `config.kept_memory` bytes of results
are remembered by their storages; one that nobody else uses, neither from C++ nor from Python, is handed out again.

What a user may have done to a storage meanwhile (shared it with another process, resized it, made lazy clones of it)
shows in its address, its size, or its kind; such a storage is forgotten.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from ..config import config
from ..torch_compat import forget_writes, storage_use_count


@dataclass(eq=False)
class _Block:
    storage: Any
    address: int
    size: int
    used: int
    """When it was handed out last."""

    def references(self) -> int:
        """To the Python object: a user may hold that alone."""
        return sys.getrefcount(self.storage)

    def is_unused(self) -> bool:
        return self.references() == _ALONE and storage_use_count(self.storage) == 1

    def is_as_made(self) -> bool:
        return bool(self.storage.data_ptr() == self.address and self.storage.nbytes() == self.size)


_ALONE = _Block(object(), 0, 0, 0).references()
"""What `references` gives for an object that only the block holds."""


class Recycler:
    """The blocks of one process. Without a lock, so that a fork is safe at any time: a block is in hand of one thread
    while it is in no queue."""

    def __init__(self) -> None:
        self.blocks: dict[int, deque[_Block]] = {}
        self.clock = itertools.count()

    def take(self, size: int) -> _Block | None:
        """A block of just so many bytes that is used by nobody; the caller gives it back by `put`."""
        queue = self.blocks.get(size)
        if queue is None or size > config.kept_memory:
            return None
        for _ in range(len(queue)):
            try:
                block = queue.popleft()
            except IndexError:  # other threads have them all in hand
                return None
            if not block.is_unused():
                queue.append(block)
            elif block.is_as_made():  # asked of the unused alone: for the address a lazy clone is made a real one
                return block
        return None

    def put(self, block: _Block) -> None:
        block.used = next(self.clock)
        self.blocks.setdefault(block.size, deque()).append(block)

    def remember(self, storage: Any) -> None:
        """A new result's storage, in place of those that were used longest ago."""
        size = storage.nbytes()
        self.shrink(max(config.kept_memory - size, 0))
        if size <= config.kept_memory:
            self.put(_Block(storage, storage.data_ptr(), size, 0))

    def shrink(self, size: int) -> None:
        """Forget blocks until no more than `size` bytes are left. What somebody uses is counted, and loses nothing."""
        blocks = sorted((block for queue in list(self.blocks.values()) for block in list(queue)), key=lambda b: b.used)
        total = sum(block.size for block in blocks)
        for block in blocks:
            if total <= size:
                return
            total -= block.size
            try:
                self.blocks[block.size].remove(block)
            except ValueError:  # another thread has it in hand
                continue


RECYCLER = Recycler()


def empty_recycled(
    size: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor | None:
    """An empty CPU tensor over recycled memory, or None where there is none of that size. `size`: in bytes."""
    block = RECYCLER.take(size)
    if block is None:
        return None
    result = torch.empty(0, dtype=dtype, device="cpu").set_(block.storage, 0, sizes, strides)
    RECYCLER.put(block)
    forget_writes(result)
    return result
