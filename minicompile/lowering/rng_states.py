"""Random operators that backward is to run again, as AOTAutograd's partitioner writes them.

In: an FX node that calls `run_and_save_rng_state(op, ...)` or `run_with_rng_state(state, op, ...)`. Out: its results.
What is recorded is a call that stays ATen's whole, so that both runs draw from one stream.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from ..ir.called_operators import FromState, SavingState
from ..torch_compat import rng_state_operators
from .errors import LoweringError

Change = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
"""From function, arguments and result of a call to what shall be recorded."""


def is_about_state(target: Any) -> bool:
    """Whether an FX node's function is one of the two."""
    return isinstance(target, torch._ops.HigherOrderOperator) and target in rng_state_operators()


def evaluate(node: torch.fx.Node, args: Any, kwargs: Any, recorder: Any) -> Any:
    """The results, on functional tensors. Raises LoweringError if the operator is not one call of ATen's."""
    if node.target is rng_state_operators()[0]:
        op, *rest = args
        state = _state_of(node)
        result = _recorded(recorder, lambda f, a, r: (SavingState(f), a, (state, *_several(r))), op, rest, kwargs)
        return torch._to_functional_tensor(state), result
    wrapper, op, *rest = args
    torch._sync(wrapper)
    state = torch._from_functional_tensor(wrapper)
    return _recorded(recorder, lambda f, a, r: (FromState(f), (state, *a), r), op, rest, kwargs)


def _state_of(node: torch.fx.Node) -> torch.Tensor:
    """The fake tensor that stands for the state: the partitioner leaves one where it is taken from the results."""
    for user in node.users:
        if user.target is operator.getitem and user.args[1] == 0 and isinstance(user.meta.get("val"), torch.Tensor):
            return user.meta["val"]
    raise LoweringError(f"the state that {node.format_node()} saves is of no known size")


def _several(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _recorded(recorder: Any, change: Change, op: Any, args: Any, kwargs: Any) -> Any:
    calls = recorder.trace.calls
    before = len(calls)
    result = op(*args, **kwargs)
    if len(calls) != before + 1 or calls[-1].func is not op:
        raise LoweringError(f"{op} is several operators, of which the state of the generator is wanted")
    call = calls[-1]
    call.func, call.args, call.result = change(call.func, call.args, call.result)
    return result
