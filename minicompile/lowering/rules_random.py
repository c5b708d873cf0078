"""Rules for random numbers: a counter-based generator inside kernels.

Each operator draws a key from torch's generator of its device (an extern call, merged with the others by
passes/keys.py), and element i of its result is computed from `philox(key, i)`. So `torch.manual_seed` makes a run
repeatable, calls differ, and backward gets the very numbers of forward, saved or computed again from the key. They are
not eager's numbers, and as many digits as eager's: `config.fallback_random` and `config.exact` keep ATen's stream.

ATen's stay: whatever is given a generator of its own, permutations, multinomials, probabilities that are tensors.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..config import config
from ..ir.graph import Node
from ..ir.random_keys import draw_keys
from ..ir.types import TensorType
from .emit import numel, opmath
from .errors import NotConvertible
from .rules import rule

_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""As many as a dtype's significand has: more would be rounded, some of them to 1."""


def _bits(c: Any, generator: Any = None) -> Node:
    """64 random bits for each element of the current result. Raises NotConvertible where they must be ATen's."""
    if config.fallback_random or generator is not None:
        raise NotConvertible("random numbers of ATen's own")
    type: TensorType = c.out
    count = numel(type.shape)
    key = draw_keys(1, type.device, c.builder.origin)
    c.builder.nodes.append(key)
    counter = c.positions((count,), 0, type.device)
    return c.reshape(c.philox(key, counter), type.shape)


def _digits(c: Any, bits: Node, digits: int) -> Node:
    """The uppermost bits as a number below 2**digits."""
    number = c.bitwise_and(c.shift_right(bits, 64 - digits), (1 << digits) - 1)
    return c.cast(number, torch.int32) if digits < 32 else number


def _uniform(c: Any, bits: Node, dtype: torch.dtype) -> Node:
    """In [0, 1), in the dtype's opmath."""
    digits = _DIGITS[dtype]
    return c.mul(c.cast(_digits(c, bits, digits), opmath(dtype)), 2.0**-digits)


def _open_uniform(c: Any, bits: Node, dtype: torch.dtype) -> Node:
    """In (0, 1), and never either, in a dtype that is its own opmath."""
    digits = _DIGITS[dtype] - 1
    number = c.cast(_digits(c, bits, digits), dtype)
    return c.mul(c.add(number, 0.5), 2.0**-digits)


def _floating(c: Any) -> torch.dtype:
    dtype: torch.dtype = c.out.dtype
    if dtype not in _DIGITS:
        raise NotConvertible(f"random numbers in {dtype}")
    return dtype


@rule("rand.default", "rand_like.default")
def rand(c: Any, *_: Any, generator: Any = None, **__: Any) -> Node:
    dtype = _floating(c)
    return c.cast(_uniform(c, _bits(c, generator), dtype), dtype)


@rule("uniform.default")
def uniform(c: Any, x: Node, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Node:
    dtype = _floating(c)
    number = _uniform(c, _bits(c, generator), dtype)
    return c.cast(c.add(c.mul(number, high - low), low), dtype)


def _normal(c: Any, generator: Any) -> Node:
    """Standard normal, in the result's opmath: Box and Muller's cosine."""
    wide = opmath(_floating(c))
    bits = _bits(c, generator)
    other = _bits(c) if wide is torch.float64 else c.shift_left(bits, 32)
    radius = c.sqrt(c.mul(c.log(_open_uniform(c, bits, wide)), -2.0))
    return c.mul(radius, c.cos(c.mul(_uniform(c, other, wide), 2 * math.pi)))


@rule("randn.default", "randn_like.default")
def randn(c: Any, *_: Any, generator: Any = None, **__: Any) -> Node:
    return c.cast(_normal(c, generator), c.out.dtype)


@rule("normal_functional.default")
def normal(c: Any, x: Node, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Node:
    return c.cast(c.add(c.mul(_normal(c, generator), std), mean), c.out.dtype)


@rule("log_normal.default")
def log_normal(c: Any, x: Node, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Node:
    return c.cast(c.exp(c.add(c.mul(_normal(c, generator), std), mean)), c.out.dtype)


@rule("exponential.default")
def exponential(c: Any, x: Node, rate: float = 1.0, generator: Any = None) -> Node:
    """Never 0, so that its logarithm is finite (torch's gumbel_softmax takes it)."""
    wide = opmath(_floating(c))
    number = c.log(_open_uniform(c, _bits(c, generator), wide))
    return c.cast(c.div(number, -float(rate)), c.out.dtype)


@rule("cauchy.default")
def cauchy(c: Any, x: Node, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Node:
    wide = opmath(_floating(c))
    angle = c.mul(c.sub(_open_uniform(c, _bits(c, generator), wide), 0.5), math.pi)
    return c.cast(c.add(c.mul(c.tan(angle), sigma), median), c.out.dtype)


@rule("bernoulli.p")
def bernoulli(c: Any, x: Node, p: float = 0.5, generator: Any = None) -> Node:
    return c.cast(_true_with(c, p, generator), c.out.dtype)


def _true_with(c: Any, p: Any, generator: Any = None) -> Node:
    """bool, of the result's shape, true with probability p."""
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise NotConvertible(f"a probability of {p}")
    return c.lt(_uniform(c, _bits(c, generator), torch.float32), float(p))


@rule("native_dropout.default")
def native_dropout(c: Any, x: Node, p: float, train: bool | None = None) -> list[Node]:
    """The result and its mask; of a 0-dim p of 1, zeros (or NaN, of what times 0 is NaN)."""
    if train is False:
        return [c.copy(x, c.out), c.full(True, c.out.like(shape=c.out.shape, dtype=torch.bool))]
    mask = _true_with(c, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    wide = c.upcast(x)
    return [c.cast(c.mul(c.mul(wide, c.cast(mask, wide.tensor.dtype)), scale), c.out.dtype), mask]


@rule("randint.default")
def randint(c: Any, high: int, size: Any, generator: Any = None, **_: Any) -> Node:
    return _integers(c, 0, high, generator)


@rule("randint.low")
def randint_low(c: Any, low: int, high: int, size: Any, generator: Any = None, **_: Any) -> Node:
    return _integers(c, low, high, generator)


@rule("randint_like.default")
def randint_like(c: Any, x: Node, high: int, generator: Any = None, **_: Any) -> Node:
    return _integers(c, 0, high, generator)


@rule("randint_like.low_dtype")
def randint_like_low(c: Any, x: Node, low: int, high: int, generator: Any = None, **_: Any) -> Node:
    return _integers(c, low, high, generator)


def _integers(c: Any, low: Any, high: Any, generator: Any) -> Node:
    """Below 2**32, a range is multiplied by 32 bits and the upper half taken; a wider one takes a remainder."""
    if not (isinstance(low, int) and isinstance(high, int) and 0 < high - low < 2**63) or c.out.dtype is torch.bool:
        raise NotConvertible(f"random integers from {low} to {high}")
    count, bits = high - low, _bits(c, generator)
    if count <= 2**31:
        number = c.shift_right(c.mul(_digits(c, bits, 32), count), 32)
    else:
        number = c.remainder(_digits(c, bits, 63), count)
    return c.cast(c.add(number, low), c.out.dtype)
