"""A sample of PyTorch's operator database, compiled. `python -m tests.compare.operator_database`: all of it."""

from __future__ import annotations

import pytest
import torch

from .operator_database import check_operator, dtypes_of, operators

OPERATORS = operators()
SAMPLE = sorted(OPERATORS)[::7]
KINDS = (torch.bfloat16, torch.int64, torch.bool, torch.float16, torch.float64)


def cases() -> list[tuple[str, torch.dtype]]:
    """Each operator of the sample in float32, or what it has, and in one other dtype in turn."""
    pairs: dict[tuple[str, torch.dtype], None] = {}
    for number, name in enumerate(SAMPLE):
        for wanted in (torch.float32, KINDS[number % len(KINDS)]):
            pairs.update(((name, dtype), None) for dtype in dtypes_of(OPERATORS[name], (wanted,)))
    return list(pairs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name,dtype", cases(), ids=str)
def test_as_in_eager(name: str, dtype: torch.dtype) -> None:
    check_operator(OPERATORS[name], dtype)


def test_the_check_sees_a_difference() -> None:
    class Wrong:
        """An operator that gives something else when it is called a third time."""

        name, decorators = "wrong", ()
        calls = 0

        def get_op(self):
            def function(x: torch.Tensor) -> torch.Tensor:
                Wrong.calls += 1
                return x + (Wrong.calls > 2)

            return function

        def sample_inputs(self, *_, **__):
            return [torch.testing._internal.opinfo.core.SampleInput(torch.zeros(3))]

    with pytest.raises(AssertionError):
        check_operator(Wrong(), torch.float32)
