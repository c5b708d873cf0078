"""What a row of the op table's pointwise part says.

In: nothing. Out: `ScalarOp`; the rows are in ops.py and special_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Text = str | dict[str, str]


@dataclass(frozen=True)
class ScalarOp:
    """One pointwise row.

    Attributes:
        arity: number of arguments.
        torch: the reference; called with tensors (and Python scalars) of the table's rules.
        cpp, triton: the texts; None where Triton has none: the op then stays ATen's on a GPU.
        kinds: which dtype kinds of arguments the row is for.
        result: "same" as the arguments, or "bool".
        cost: rough number of simple instructions; recomputing anything above 4 is not free.
        aten: whether the C++ text calls a function of ATen's own header (see torch_compat.header_folder).
    """

    name: str
    arity: int
    torch: Callable[..., Any]
    cpp: Text
    triton: Text | None
    kinds: str = "fi"
    result: str = "same"
    cost: int = 1
    aten: bool = False

    def text(self, target: str, kind: str) -> str:
        """The C++ or Triton text for arguments of a dtype kind. Raises KeyError if the row is not for that kind."""
        text: Text | None = getattr(self, target)
        if kind not in self.kinds or text is None:
            raise KeyError(f"{self.name} has no {target} text for dtype kind {kind!r}; its kinds are {self.kinds!r}")
        return text if isinstance(text, str) else text[kind]
