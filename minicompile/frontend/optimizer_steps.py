"""The functions in which torch's optimizers compute: `_single_tensor_adam` and its like.

In: the frame of such a function. Out: the same frame, with the learning rate in a tensor.

Around these functions is bookkeeping (hooks, profiling, dicts keyed by parameters) that runs in eager. They get lists
of tensors and numbers; the learning rate is the number that a program changes, so it becomes an input of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

from .layout import argument_names
from .skip import is_optimizer_step


def step_dispatcher(code: CodeType, dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """The dispatcher of a frame of `code`; other functions' are `dispatch` itself."""
    names = argument_names(code)
    if not is_optimizer_step(code) or "lr" not in names:
        return dispatch
    place = names.index("lr")

    def dispatch_step(func: FunctionType, *slots: Any) -> Any:
        rate = slots[place]
        if type(rate) is float and _on_cpu(slots[0]):
            slots = (*slots[:place], torch.tensor(rate, dtype=torch.float64, device="cpu"), *slots[place + 1 :])
        return dispatch(func, *slots)

    return dispatch_step


def _on_cpu(parameters: Any) -> bool:
    return isinstance(parameters, list) and all(isinstance(p, torch.Tensor) and p.is_cpu for p in parameters)
