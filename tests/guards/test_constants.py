"""ConstantGuard: no two values that a program can tell apart pass for each other."""

import enum
import itertools
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minicompile.guards.constants import constant_key, is_constant
from minicompile.guards.kinds import ConstantGuard

from .support import Checked, X, assert_hit, assert_miss


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    ONE = 1


NAN = float("nan")
NEGATIVE_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8000000000000))[0]

DISTINCT = [
    0, 1, -1, 2**70, True, False, 1.0, 0.0, -0.0, NAN, NEGATIVE_NAN, float("inf"), float("-inf"), 0.1,
    0j, complex(0.0, -0.0), 1 + 0j, None, ..., NotImplemented, "", "a", "1", b"", b"a",
    (), (1,), (True,), (1.0,), (0.0,), (-0.0,), (NAN,), ((1,), 2), frozenset(), frozenset({1}), frozenset({True}),
    torch.Size([1]), torch.Size([]), slice(1), slice(0, 1), slice(True), range(0), range(1), range(1, 1),
    torch.float32, torch.float64, torch.strided, torch.sparse_coo, torch.contiguous_format, torch.channels_last,
    torch.device("cpu"), torch.device("cuda"), torch.device("cuda", 0), Colour.RED, Colour.BLUE, Level.ONE,
]  # fmt: skip


@pytest.mark.parametrize("value", DISTINCT, ids=repr)
def test_a_constant_hits_itself_and_no_other(value):
    checked = Checked(ConstantGuard(X, value))
    assert_hit(checked, value)
    others = [other for other in DISTINCT if other is not value]
    assert [other for other in others if checked.hit(other)] == []
    assert all(checked.why(other) for other in others)


def test_equal_values_that_are_different_objects_hit():
    assert_hit(Checked(ConstantGuard(X, 10**20)), int("1" + "0" * 20))
    assert_hit(Checked(ConstantGuard(X, ("ab", (1.5, None)))), ("".join(["a", "b"]), (float("1.5"), None)))
    assert_hit(Checked(ConstantGuard(X, NAN)), float("nan"))
    assert_hit(Checked(ConstantGuard(X, torch.device("cpu"))), torch.device("cpu"))


@pytest.mark.parametrize(
    ("compiled", "called", "reason"),
    [
        (3, 4, "argument x is 4, compiled for 3"),
        (1, True, "argument x is the bool True, compiled for the int 1"),
        (1.0, 1, "argument x is the int 1, compiled for the float 1.0"),
        (0.0, -0.0, "argument x is -0.0, compiled for 0.0"),
        ("relu", "gelu", "argument x is 'gelu', compiled for 'relu'"),
        (None, 3, "argument x is the int 3, compiled for None"),
        ((1,), [1], "argument x is a list, compiled for (1,)"),
        (torch.float32, torch.float16, "argument x is torch.float16, compiled for torch.float32"),
    ],
)
def test_reasons(compiled, called, reason):
    checked = Checked(ConstantGuard(X, compiled))
    assert not checked.hit(called)
    assert checked.why(called) == [reason]


@pytest.mark.parametrize("value", [[], {}, set(), object(), torch.zeros(1), ([],), type("Int", (int,), {})(3)])
def test_what_is_no_constant_is_refused(value):
    assert not is_constant(value)
    with pytest.raises(TypeError, match="cannot be guarded by value"):
        ConstantGuard(X, value)


def test_a_subclass_of_int_is_not_its_value():
    number = type("Int", (int,), {})(3)
    assert_miss(Checked(ConstantGuard(X, 3)), (number,), "an Int")


def test_an_object_whose_eq_always_agrees_does_not_hit():
    class Agreeable:
        __hash__ = None

        def __eq__(self, other):
            return True

    for value in (3, "a", 1.5, NAN, (1, 2), torch.float32):
        assert not Checked(ConstantGuard(X, value)).hit(Agreeable())


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.binary())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def told_apart(left, right) -> bool:
    """An independent definition: types differ, or bits do, anywhere inside."""
    if type(left) is not type(right):
        return True
    if isinstance(left, tuple):
        return len(left) != len(right) or any(map(told_apart, left, right))
    if isinstance(left, complex):
        return told_apart(left.real, right.real) or told_apart(left.imag, right.imag)
    if isinstance(left, float):
        return left.hex() != right.hex() or is_negative(left) != is_negative(right)
    return left != right


def is_negative(value: float) -> bool:
    return struct.pack(">d", value)[0] >= 128


@given(st.lists(VALUES, min_size=2, max_size=4))
def test_keys_agree_exactly_for_interchangeable_values(values):
    for left, right in itertools.product(values, values):
        if left is not right and not _nan_inside(left):
            assert (constant_key(left) == constant_key(right)) == (not told_apart(left, right))


def _nan_inside(value) -> bool:
    if isinstance(value, tuple):
        return any(map(_nan_inside, value))
    return isinstance(value, (float, complex)) and value != value


@given(VALUES)
def test_generated_check_agrees_with_the_key(value):
    assert_hit(Checked(ConstantGuard(X, value)), value)
