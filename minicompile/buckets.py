"""Buckets: a few sizes instead of many, for code that must not be symbolic or that is fastest for sizes it knows.

In: a dimension and the sizes that it may have. Out: `Bucket`, a callable that pads tensors to the next of these sizes,
and says on request which places are real.

    pad = minicompile.bucket(1, (64, 128, 256), mask=True)
    tokens, real = pad(tokens)               # (8, 100) → (8, 128), and a mask of 128 bools
    scores = pad.crop(compiled(tokens, real), 100)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import torch


class Bucket:
    """Pads dimension `dim`; see `bucket`. Attributes: `dim`, `sizes` (ascending), `value`, `mask`."""

    def __init__(self, dim: int, sizes: tuple[int, ...], value: float, mask: bool) -> None:
        self.dim, self.sizes, self.value, self.mask = dim, sizes, value, mask

    def size(self, count: int) -> int:
        """The smallest bucket that holds `count`. Raises ValueError if none does."""
        place = bisect_left(self.sizes, count)
        if place == len(self.sizes):
            raise ValueError(f"size {count} does not fit into the largest bucket, {self.sizes[-1]}")
        return self.sizes[place]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """The tensors with `value` behind their end, all of which have one size there; with `mask`, and last, a bool
        tensor of the padded size that is true where they are real. One result comes as it is, several as a tuple.

        Raises ValueError for tensors of different sizes, or of a size that no bucket holds; IndexError for a tensor
        without the dimension.
        """
        for tensor in tensors:
            if not -tensor.dim() <= self.dim < tensor.dim():
                raise IndexError(f"there is no dimension {self.dim} to pad: a tensor has {tensor.dim()}")
        counts = {tensor.shape[self.dim] for tensor in tensors}
        if len(counts) != 1:
            raise ValueError(f"the tensors have different sizes in dimension {self.dim}: {sorted(counts) or 'none'}")
        (count,) = counts
        results = [self._padded(tensor, self.size(count) - count) for tensor in tensors]
        if self.mask:
            results.append(torch.arange(self.size(count), device=tensors[0].device) < count)
        return results[0] if len(results) == 1 else tuple(results)

    def _padded(self, tensor: torch.Tensor, more: int) -> torch.Tensor:
        if not more:
            return tensor
        behind = tensor.dim() - 1 - self.dim % tensor.dim()
        return torch.nn.functional.pad(tensor, (0, 0) * behind + (0, more), value=self.value)

    def crop(self, tensor: torch.Tensor, count: int) -> torch.Tensor:
        """The first `count` places of the dimension: a result without the padding."""
        return tensor.narrow(self.dim, 0, count)

    def __repr__(self) -> str:
        return f"minicompile.bucket({self.dim}, {self.sizes})"


def bucket(dim: int, sizes: Iterable[int], *, value: float = 0.0, mask: bool = False) -> Bucket:
    """A callable that pads dimension `dim` of tensors to the next of `sizes`: compiled code then meets few shapes.

    Args:
        dim: counted from the end if negative.
        sizes: what the dimension may have, in any order.
        value: what stands behind the end.
        mask: also return which places are real. Whatever sums, averages or normalises over the dimension needs it.
    Raises:
        ValueError: no sizes, or one that is not positive.
    """
    ordered = tuple(sorted(set(sizes)))
    if not ordered or ordered[0] <= 0:
        raise ValueError(f"buckets need positive sizes, got {ordered}")
    return Bucket(dim, ordered, value, mask)


__all__ = ["Bucket", "bucket"]
