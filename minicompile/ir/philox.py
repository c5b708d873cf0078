"""Philox 4x32-10, the counter-based generator of random numbers, on tensors.

In: a key and a counter, int64 each. Out: 64 random bits as an int64, the same for the same arguments, always.

The algorithm is of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The key is its
key, the counter the lower half of its counter, of which the upper half is 0; the bits are the first two of its four
words. This is the reference; the C++ and Triton texts of the op `philox` give the same bits.
"""

from __future__ import annotations

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_ROUNDS = 10


def philox(key: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
    """The bits, in the dtype of the arguments: integers narrower than int64 get the lowest of them."""
    dtype = counter.dtype
    key, counter = key.to(torch.int64), counter.to(torch.int64)
    keys = [key & _LOW, (key >> 32) & _LOW]
    zero = torch.zeros_like(counter)
    words = [counter & _LOW, (counter >> 32) & _LOW, zero, zero]
    for _ in range(_ROUNDS):
        words = _round(words, keys)
        keys = [(k + weyl) & _LOW for k, weyl in zip(keys, _WEYL, strict=True)]
    return (words[0] | (words[1] << 32)).to(dtype)


def _round(words: list[torch.Tensor], keys: list[torch.Tensor]) -> list[torch.Tensor]:
    first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]  # unsigned, in 64 bits: they wrap
    return [
        (second >> 32) & _LOW ^ words[1] ^ keys[0],
        second & _LOW,
        (first >> 32) & _LOW ^ words[3] ^ keys[1],
        first & _LOW,
    ]
