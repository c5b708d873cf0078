"""Programs with annotations that run: without `from __future__ import annotations`, and as values."""
# ruff: noqa: UP006, UP007, UP035, UP045  (the older spellings are what is tested)

from typing import Any, Callable, ClassVar, Dict, List, Literal, Optional, Sequence, Tuple, Union, cast, get_origin

import torch
from torch import Tensor

from .programs import Programs

X = torch.randn(3)
PROGRAMS = Programs()


@PROGRAMS.program(X)
def annotated_function_inside(x: Tensor) -> Any:
    def inner(a: Optional[int], b: List[Tensor], c: Dict[str, int], *d: Union[int, float]) -> Tuple[Tensor, ...]:
        return (b[0] + 1,)

    return inner(1, [x], {})


@PROGRAMS.program(X)
def function_that_is_returned(x: Tensor) -> Any:
    def inner(a: Optional[int], b: Callable[..., int] | None = None, c: "Tensor" = x) -> list[int]:
        return []

    return inner, inner.__annotations__


@PROGRAMS.program(X)
def annotated_class_inside(x: Tensor) -> Any:
    class Holder:
        a: ClassVar[int] = 3
        b: Optional[Tensor] = None

        def run(self, mode: Literal["a", "b"]) -> "Holder":
            return self

    holder = Holder().run("a")
    holder.b = x + 1
    return holder.b, Holder.__annotations__, holder.a


@PROGRAMS.program(X)
def annotations_as_values(x: Tensor) -> Any:
    kind = Optional[Tensor]
    chosen: Any = {List[int]: 1, list[int]: 2}
    return (
        cast(Tensor, x) + 1, isinstance(x, kind), isinstance(None, kind), isinstance(1, int | Tensor),
        isinstance([x], Sequence), get_origin(List[int]) is list, chosen[list[int]], str(Dict[str, kind]),
        Optional[int] == Union[int, None], int | str == str | int, kind.__args__[0] is Tensor,
    )  # fmt: skip
