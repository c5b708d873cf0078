"""Exceptions come out as in eager: type, text, the user's line, and no effect lost or doubled."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.config import config
from minicompile.errors import BackendError

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)


def outcome(fn: Any, *args: Any) -> tuple[type, str, list[str]]:
    """Type, text and the lines of this file that the traceback shows."""
    with pytest.raises(Exception) as caught:
        fn(*args)
    lines = [
        frame.line or "" for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == __file__
    ]
    return caught.type, str(caught.value), lines[2:] if len(lines) > 2 else lines


def assert_same_exception(fn: Any, make_args: Any) -> None:
    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        expected_args, actual_args = make_args(), make_args()
        expected, actual = outcome(fn, *expected_args), outcome(compiled, *actual_args)
        assert actual[:2] == expected[:2]
        assert expected[2][-1] in actual[2]
        assert str(actual_args) == str(expected_args)


def test_shape_mismatch() -> None:
    def fn(x: Tensor, log: list[int]) -> Tensor:
        log.append(1)
        return x @ x

    assert_same_exception(fn, lambda: (X, []))


@pytest.mark.parametrize("dim", [-2, 1])
@pytest.mark.parametrize("fn", [torch.softmax, torch.log_softmax, torch.cumsum, torch.amax, torch.argmax, torch.sum])
def test_a_dimension_that_does_not_exist(fn: Any, dim: int) -> None:
    compiled = minicompile.compile(lambda x: fn(x, dim))
    for _ in range(2):
        with pytest.raises(IndexError, match="Dimension out of range"):
            compiled(torch.ones(6))


def test_index_out_of_range_in_the_graph() -> None:
    def fn(x: Tensor, index: Tensor, log: list[int]) -> Tensor:
        log.append(1)
        y = x[index]
        log.append(2)
        return y

    assert_same_exception(fn, lambda: (X, torch.tensor([9]), []))


def test_a_later_call_raises_where_the_first_did_not() -> None:
    def fn(x: Tensor, index: Tensor, log: list[int]) -> Tensor:
        log.append(1)
        return x[index]

    compiled = minicompile.compile(fn, backend="eager")
    log: list[int] = []
    assert torch.equal(compiled(X, torch.tensor([1]), log), X[[1]])
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        compiled(X, torch.tensor([9]), log)
    assert log == [1, 1]


def test_in_place_before_the_error_happens_once() -> None:
    def fn(x: Tensor, index: Tensor) -> Tensor:
        x.add_(1)
        return x[index]

    compiled = minicompile.compile(fn, backend="eager")
    x = torch.zeros(3)
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert torch.equal(x, torch.ones(3))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + undefined_name,  # type: ignore[name-defined]  # noqa: F821
        lambda x: [1, 2][5],
        lambda x: {"a": 1}["b"],
        lambda x: x.no_such_attribute,
        lambda x: len(5),  # type: ignore[arg-type]
        lambda x: (lambda a, b: a)(x),  # type: ignore[call-arg]
        lambda x: 1 / 0,
        lambda x: int("z"),
        lambda x: next(iter([])),
        lambda x: torch.add(x),  # type: ignore[call-overload]
        lambda x: x.reshape(3, 3),
    ],
)
def test_errors_of_the_program(fn: Any) -> None:
    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        with pytest.raises(Exception) as expected:
            fn(X)
        with pytest.raises(expected.type) as actual:
            compiled(X)
        assert str(actual.value) == str(expected.value)


def test_raise_in_the_function_and_in_a_callee() -> None:
    def check(x: Tensor) -> None:
        if x.shape[0] == 2:
            raise ValueError("two rows")

    def fn(x: Tensor, log: list[int]) -> Tensor:
        y = x + 1
        log.append(1)
        check(y)
        return y

    assert_same_exception(fn, lambda: (X, []))


def test_raise_between_graphs_keeps_effects_before_it() -> None:
    def fn(x: Tensor, log: list[Any]) -> Tensor:
        log.append(x.sum().item())
        print("go on")
        log.append(2)
        raise RuntimeError("stop")

    assert_same_exception(fn, lambda: (X, []))


def test_the_operation_behind_a_break_shows_the_users_line() -> None:
    def fn(x: Tensor) -> int:
        text = "z" + str(x.sum().item())
        return int(text)

    assert_same_exception(fn, lambda: (X,))


def test_assertion() -> None:
    def fn(x: Tensor) -> Tensor:
        assert x.shape[0] == 3, "three rows"
        return x

    assert_same_exception(fn, lambda: (X,))


def test_wrong_arguments_of_the_compiled_function() -> None:
    def fn(x: Tensor, *, k: int) -> Tensor:
        return x * k

    compiled = minicompile.compile(fn, backend="eager")
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'k'"):
        compiled(X)
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        compiled(X, k=1, q=2)


def test_a_failing_backend_falls_back_with_one_warning() -> None:
    def broken(gm: Any, example_inputs: Any) -> Any:
        raise RuntimeError("no kernel today")

    compiled = minicompile.compile(lambda x: x + 1, backend=broken)
    with config.patch(strict=False), pytest.warns(RuntimeWarning, match="backend broken failed.*no kernel today"):
        assert torch.equal(compiled(X), X + 1)
    strict = minicompile.compile(lambda x: x + 1, backend=broken, fullgraph=True)
    with pytest.raises(BackendError, match="no kernel today"):
        strict(X)


def test_a_backend_that_gives_nothing_to_call_has_failed() -> None:
    compiled = minicompile.compile(lambda x: x + 1, backend=lambda gm, inputs: 5)
    with config.patch(strict=False), pytest.warns(RuntimeWarning, match="returns what is called .*, not 5"):
        assert torch.equal(compiled(X), X + 1)
    with pytest.raises(BackendError, match="not None"):
        minicompile.compile(lambda x: x + 1, backend=lambda gm, inputs: None, fullgraph=True)(X)


EXTREMA_OF_NOTHING = {
    "max": lambda x: x.max(),
    "min of a row": lambda x: x.min(-1),
    "amax": lambda x: x.amax(),
    "argmax": lambda x: x.argmax(),
    "argmin of a row": lambda x: x.argmin(-1),
    "aminmax": lambda x: torch.aminmax(x),
}


@pytest.mark.parametrize("name", EXTREMA_OF_NOTHING)
def test_extrema_of_no_elements_raise_as_in_eager(name):
    fn, empty = EXTREMA_OF_NOTHING[name], torch.ones(2, 0)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        fn(empty)
    with pytest.raises(eager.type) as ours:
        minicompile.compile(fn)(empty)
    assert str(ours.value) == str(eager.value)


@pytest.mark.parametrize("raised", [BackendError("codegen", KeyError("x")), KeyError("x")], ids=["ours", "any"])
def test_no_failure_is_its_own_cause(raised: Exception) -> None:
    """Whoever follows the causes of an error comes to an end."""
    original = ValueError("why")

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        raise raised from original

    with pytest.raises(BackendError) as caught:
        minicompile.compile(lambda x: x + 1, backend=backend, fullgraph=True)(torch.ones(2))
    chain: list[BaseException | None] = [caught.value]
    while chain[-1] is not None and len(chain) < 10:
        chain.append(chain[-1].__cause__)
    assert chain[-2:] == [original, None]
