"""What an IR value is: dtype, shape, strides, device.

In: nothing but torch's dtype and device objects, and dimensions (ints, or sympy expressions over size symbols).
Out: `TensorType`, the type that every `Node` of the IR carries and that the verifier checks.

Strides are part of the type because eager's output strides are a promise to the user: code that calls `.view()` on a
result must work compiled as it did in eager.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from .symbols import dims_product, dims_text, is_static, same_dim

if TYPE_CHECKING:
    import sympy

    Dim: TypeAlias = int | sympy.Expr
else:
    Dim = Any

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class TensorType:
    """The type of a strided tensor.

    Attributes:
        dtype: element type.
        shape: one `Dim` per dimension, outermost first.
        strides: in elements, one `Dim` per dimension.
        device: where the data lies.
    """

    dtype: torch.dtype
    shape: Shape
    strides: Shape
    device: torch.device

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Dim:
        """Number of elements; a sympy expression if any size is symbolic."""
        return dims_product(self.shape)

    @property
    def is_static(self) -> bool:
        return all(map(is_static, (*self.shape, *self.strides)))

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps, judged as torch does: strides of size-1 dimensions do not count."""
        expected: Dim = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if same_dim(size, 1):
                continue
            if not same_dim(stride, expected):
                return False
            expected = expected * size
        return True

    def like(self, **changes: Any) -> TensorType:
        """A copy with some fields replaced; a new shape without new strides becomes contiguous."""
        if "shape" in changes and "strides" not in changes:
            changes["strides"] = contiguous_strides(changes["shape"])
        return replace(self, **changes)

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}[{dims_text(self.shape)}]"


@dataclass(frozen=True)
class SizeType:
    """The type of a symbolic int that enters a graph as an argument of its own: the expression it stands for."""

    expr: Dim

    def __str__(self) -> str:
        return f"size({dims_text((self.expr,))})"


ValueType = TensorType | SizeType | tuple


_SHORT_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b1",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def dtype_name(dtype: torch.dtype) -> str:
    """`f32` for torch.float32, and so on; dtypes without a short name keep torch's."""
    return _SHORT_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides, as `torch.empty(shape)` has them (size-0 and size-1 dimensions count as 1)."""
    strides: list[Dim] = []
    step: Dim = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (size if not is_static(size) else max(int(size), 1))
    return tuple(reversed(strides))


def is_dense(type: TensorType) -> bool:
    """Whether the strides are a permutation of contiguous ones: every element has one place, without gaps."""
    step: Dim = 1
    left = [(size, stride) for size, stride in zip(type.shape, type.strides, strict=True) if size != 1]
    while left:
        found = next((item for item in reversed(left) if item[1] == step), None)
        if found is None:
            return type.numel == 0
        left.remove(found)
        step = step * found[0]
    return True


def view_strides(shape: Shape, strides: Shape, new_shape: Shape) -> Shape | None:
    """Strides of the view of a tensor in another shape, or None if only a copy has that shape.

    Sizes and strides are compared structurally, so a symbolic view may be missed, never invented. The algorithm is
    that of at::detail::computeStride (aten/src/ATen/TensorUtils.cpp): neighbouring dimensions that one stride
    describes form a chunk, and each chunk is cut into the new dimensions from the inside out.
    """
    result: list[Dim] = []
    left = list(new_shape)
    for size, stride in reversed(_chunks(shape, strides)):
        filled: Dim = 1
        while left and not same_dim(filled, size):
            result.append(stride * filled)
            filled = filled * left.pop()
        if not same_dim(filled, size):
            return None
    while left and same_dim(left[-1], 1):
        left.pop()
        result.append(result[-1] if result else 1)
    return None if left else tuple(reversed(result))


def _chunks(shape: Shape, strides: Shape) -> list[tuple[Dim, Dim]]:
    """(number of elements, innermost stride) of each run of dimensions that one stride describes."""
    chunks: list[tuple[Dim, Dim]] = []
    for size, stride in zip(shape, strides, strict=True):
        if same_dim(size, 1):
            continue
        if chunks and same_dim(chunks[-1][1], stride * size):
            size = chunks.pop()[0] * size
        chunks.append((size, stride))
    return chunks


def dtype_kind(dtype: torch.dtype) -> str:
    """`"f"` floating, `"i"` integer, `"b"` bool, `"c"` complex: the letters the op table speaks in."""
    if dtype is torch.bool:
        return "b"
    if dtype.is_complex:
        return "c"
    return "f" if dtype.is_floating_point else "i"
