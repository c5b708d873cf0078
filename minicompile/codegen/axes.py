"""Iteration atoms: which dimensions of which tensors run together.

In: the dimensions of the nodes of one fusion group, as lists of atoms.
Out: after `unify`, the same atom wherever two dimensions are walked in step, and finer atoms where one tensor's
dimension is the product of another's (a reshape in between).

A dimension is a list of atoms, outermost first, in mixed radix: dimension 6272 read as (32, 196) is [a32, a196].
Unifying a list with another is the common refinement of the two factorisations, found from the innermost factor
outwards. Atoms are ints; `AxisSpace` maps each to what it has become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..ir.types import Dim

Atoms = tuple[int, ...]
Dims = tuple[Atoms, ...]
Factor = TypeVar("Factor")


class NoCommonRefinement(Exception):
    """Two shapes have no common factorisation (6 against 4), so no loop nest walks both."""


def exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """left / right if that is a whole number for every value of the symbols, else None."""
    if left == right:
        return 1
    if isinstance(left, int) and isinstance(right, int):
        return left // right if right and left % right == 0 else None
    import sympy

    quotient = sympy.cancel(sympy.sympify(left) / right)
    if quotient.as_numer_denom()[1] != 1:
        return None
    return int(quotient) if quotient.is_number else quotient


def regroup(
    factors: Sequence[Factor],
    sizes: Sequence[Dim],
    size_of: Callable[[Factor], Dim],
    split: Callable[[Factor, Dim, Dim], tuple[Factor, Factor]],
) -> list[tuple[Factor, ...]]:
    """Deal factors (outermost first, none of size 1) out to dimensions of the given sizes: what reshape does.

    `split(factor, outer, inner)` cuts one where a dimension ends inside it. Raises NoCommonRefinement.
    """
    rest = list(factors)
    result: list[tuple[Factor, ...]] = []
    for size in reversed(sizes):
        dim: list[Factor] = []
        while size != 1:
            if not rest:
                raise NoCommonRefinement(f"{size} elements are left over")
            factor = rest.pop()
            outer = exact_quotient(size, size_of(factor))
            if outer is None:
                over = exact_quotient(size_of(factor), size)
                if over is None:
                    raise NoCommonRefinement(f"{size_of(factor)} and {size} do not divide each other")
                left, factor = split(factor, over, size)
                rest.append(left)
                outer = 1
            dim.append(factor)
            size = outer
        result.append(tuple(reversed(dim)))
    if rest:
        raise NoCommonRefinement("the shapes hold different numbers of elements")
    return result[::-1]


class AxisSpace:
    """Atoms, and the union and splitting of atoms."""

    def __init__(self) -> None:
        self.sizes: list[Dim] = []
        self._became: dict[int, Atoms] = {}

    def new(self, size: Dim) -> Atoms:
        """A fresh atom, as a list; no atom at all for size 1."""
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def resolve(self, atoms: Iterable[int]) -> Atoms:
        """What atoms have become, finest pieces, outermost first."""
        result: list[int] = []
        stack = list(atoms)[::-1]
        while stack:
            atom = stack.pop()
            became = self._became.get(atom)
            if became is None:
                result.append(atom)
            else:
                stack.extend(reversed(became))
        return tuple(result)

    def split(self, atom: int, outer: Dim, inner: Dim) -> tuple[int, int]:
        """Cut an atom in two."""
        (left,), (right,) = self.new(outer), self.new(inner)
        self._became[atom] = (left, right)
        return left, right

    def reshape(self, dims: Dims, sizes: Sequence[Dim]) -> Dims:
        """Deal the atoms of `dims` out to a new shape. Raises NoCommonRefinement."""
        flat = self.resolve(atom for dim in dims for atom in dim)
        return tuple(regroup(flat, sizes, self.sizes.__getitem__, self.split))

    def unify(self, left: Dims, right: Dims) -> None:
        """Make two shapes' dimensions, one by one, the same atoms. Raises NoCommonRefinement."""
        for one, other in zip(left, right, strict=True):
            self._unify(list(self.resolve(one)), list(self.resolve(other)))

    def _unify(self, left: list[int], right: list[int]) -> None:
        while left and right:
            one, other = left.pop(), right.pop()
            if one == other:
                continue
            small, large, rest = (one, other, right) if self._divides(one, other) else (other, one, left)
            outer = exact_quotient(self.sizes[large], self.sizes[small])
            if outer is None or outer == 0:  # 0 is a multiple of everything, as often as one likes
                raise NoCommonRefinement(f"{self.sizes[one]} and {self.sizes[other]} do not divide each other")
            if outer == 1:
                self._became[large] = (small,)
            else:
                piece, inner = self.split(large, outer, self.sizes[small])
                self._became[inner] = (small,)
                rest.append(piece)
            left[:], right[:] = self.resolve(left), self.resolve(right)
        if left or right:
            raise NoCommonRefinement("a dimension has more elements than the other")

    def _divides(self, one: int, other: int) -> bool:
        return exact_quotient(self.sizes[other], self.sizes[one]) is not None

    def coefficients(self, atoms: Iterable[int], stride: Dim) -> list[tuple[int, Dim]]:
        """(finest atom, stride) of a factor that once was `atoms` with one stride."""
        result: list[tuple[int, Any]] = []
        for atom in reversed(self.resolve(atoms)):
            result.append((atom, stride))
            stride = stride * self.sizes[atom]
        return result
