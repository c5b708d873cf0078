"""What graphs call to run the functions within them (see bodies.py): torch's own transforms, in flat form.

In: the modules of bodies, options, tensors. The first `n` of them are what the transform is about, the others what the
body reads from around it. Out: a flat tuple. Torch-level code: graphs that call it run on tensors of any kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

Body = Callable[..., tuple[Any, ...]]


def vmapped(
    body: Body, in_dims: tuple[int | None, ...], out_dims: tuple[int, ...], options: dict[str, Any], *inputs: Any
) -> tuple[Any, ...]:
    """`torch.func.vmap`: the body's results."""
    dims = in_dims + (None,) * (len(inputs) - len(in_dims))
    return torch.func.vmap(body, in_dims=dims, out_dims=out_dims, **options)(*inputs)


def gradients(body: Body, n: int, *inputs: Any) -> tuple[Any, ...]:
    """`torch.func.grad_and_value` of the body's first result: the body's results, then the `n` gradients."""
    function = torch.func.grad_and_value(_first_of(body, inputs[n:]), argnums=tuple(range(n)), has_aux=True)
    found, (value, rest) = function(*inputs[:n])
    return (value, *rest, *found)


def pulled_back(body: Body, n: int, n_outputs: int, *inputs: Any) -> tuple[Any, ...]:
    """`torch.func.vjp`: the body's results, then the function from cotangents to gradients."""
    outputs, function, rest = torch.func.vjp(_several_of(body, n_outputs, inputs[n:]), *inputs[:n], has_aux=True)
    return (*outputs, *rest, function)


def pull_back(function: Callable[..., Any], *cotangents: Any) -> tuple[Any, ...]:
    """What `torch.func.vjp` has returned, applied."""
    return tuple(function(cotangents))


def pushed_forward(body: Body, n: int, n_outputs: int, strict: bool, *inputs: Any) -> tuple[Any, ...]:
    """`torch.func.jvp` with `n` primals and `n` tangents: the body's results, then the outputs' tangents."""
    function = _several_of(body, n_outputs, inputs[2 * n :])
    outputs, tangents, rest = torch.func.jvp(function, inputs[:n], inputs[n : 2 * n], strict=strict, has_aux=True)
    return (*outputs, *rest, *tangents)


def reverse_jacobians(body: Body, n: int, n_outputs: int, options: dict[str, Any], *inputs: Any) -> tuple[Any, ...]:
    """`torch.func.jacrev`: for each output the `n` jacobians, then the body's other results."""
    return _jacobians(torch.func.jacrev, body, n, n_outputs, options, inputs)


def forward_jacobians(body: Body, n: int, n_outputs: int, options: dict[str, Any], *inputs: Any) -> tuple[Any, ...]:
    """The same by `torch.func.jacfwd`."""
    return _jacobians(torch.func.jacfwd, body, n, n_outputs, options, inputs)


def _jacobians(transform: Any, body: Body, n: int, n_outputs: int, options: Any, inputs: Any) -> tuple[Any, ...]:
    function = _several_of(body, n_outputs, inputs[n:])
    rows, rest = transform(function, argnums=tuple(range(n)), has_aux=True, **options)(*inputs[:n])
    return (*(jacobian for row in rows for jacobian in row), *rest)


def checkpointed(body: Body, options: dict[str, Any], *inputs: Any) -> tuple[Any, ...]:
    """`torch.utils.checkpoint.checkpoint`: the body's results, of which backward keeps the inputs alone."""
    from torch.utils.checkpoint import checkpoint

    return tuple(checkpoint(body, *inputs, **options))


def hooked(body: Body, tensor: torch.Tensor, *others: Any) -> tuple[Any, ...]:
    """`tensor.register_hook`, with a body from the gradient and `others` to the new gradient."""
    tensor.register_hook(lambda gradient: body(gradient, *others)[0])
    return ()


def inner_gradients(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], seeds: Any, **options: Any
) -> tuple[Any, ...]:
    """`torch.autograd.grad` of what the graph has computed; in this thread, where modes that listen are on."""
    with torch.autograd.set_multithreading_enabled(False):
        return torch.autograd.grad(outputs, inputs, seeds, **options)


def branched(
    true: Body, false: Body, places: tuple[tuple[int, ...], tuple[int, ...]], condition: torch.Tensor, *inputs: Any
) -> tuple[Any, ...]:
    """`torch.cond`: the results of one of the bodies, which read the inputs at these `places`. As in torch, results
    have memory of their own, and gradients if any input has; inputs that the branch does not read have zeros."""
    if _is_fake(condition):
        both = (body(*(inputs[place] for place in read)) for body, read in zip((true, false), places, strict=True))
        return tuple(_reached(_either(*pair), inputs) for pair in zip(*both, strict=True))
    if _is_traced(condition):
        return _torchs_cond(true, false, places, condition, inputs)
    body, read = (true, places[0]) if condition else (false, places[1])
    entered = _entered(inputs)
    results = body(*(entered[place] for place in read))
    return tuple(_reached(result, inputs) for result in _own(results, inputs))


def looped(
    goes_on: Body, step: Body, n: int, places: tuple[tuple[int, ...], tuple[int, ...]], *inputs: Any
) -> tuple[Any, ...]:
    """`torch.while_loop` over the first `n` inputs; of the others the bodies read those at these `places`."""
    carried, others = inputs[:n], inputs[n:]
    read, read_by_step = ([others[place] for place in read] for read in places)
    if _is_fake(carried[0]):
        carried = step(*carried, *read_by_step)
    else:
        while goes_on(*carried, *read)[0]:
            carried = step(*carried, *read_by_step)
    return tuple(_reached(result, inputs) for result in _own(carried, inputs))


def _is_fake(value: Any) -> bool:
    return hasattr(value, "fake_mode")


def _is_traced(value: Any) -> bool:
    return type(value).__name__ == "FunctionalTensor" or torch._is_functional_tensor(value)


def _torchs_cond(true: Body, false: Body, places: Any, condition: torch.Tensor, inputs: Sequence[Any]) -> Any:
    """For other backends, which trace it: torch's own operator."""

    def reading(body: Body, read: tuple[int, ...]) -> Callable[..., Any]:
        return lambda *given: tuple(body(*(given[place] for place in read)))

    one, other = map(reading, (true, false), places)
    return torch.ops.higher_order.cond(condition, one, other, tuple(inputs))


def _either(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A fake tensor with the history of both."""
    result = torch.empty_like(one, requires_grad=False)
    return _History.apply(result, one, other) if one.requires_grad or other.requires_grad else result


def _own(results: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Results with memory that is neither an input's nor another result's."""
    seen = {_memory(value) for value in inputs}
    found = []
    for result in results:
        is_shared = isinstance(result, torch.Tensor) and _memory(result) in seen
        found.append(result.clone() if is_shared else result)
        seen.add(_memory(found[-1]))
    return found


def _memory(value: Any) -> Any:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _with_gradients(values: Sequence[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]


def _entered(inputs: Sequence[Any]) -> list[Any]:
    """The inputs, so that the gradient of one that is not read is zeros."""
    if not torch.is_grad_enabled():
        return list(inputs)
    entered = iter(_Entered.apply(*_with_gradients(inputs)) if _with_gradients(inputs) else ())
    return [next(entered) if isinstance(value, torch.Tensor) and value.requires_grad else value for value in inputs]


def _reached(result: Any, inputs: Sequence[Any]) -> Any:
    """A result, which has gradients if any input has."""
    wants = isinstance(result, torch.Tensor) and not result.requires_grad and torch.is_grad_enabled()
    if not wants or not (result.dtype.is_floating_point or result.dtype.is_complex) or not _with_gradients(inputs):
        return result
    return _History.apply(result, *_with_gradients(inputs))


class _Entered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(value.view_as(value) for value in inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return gradients


class _History(torch.autograd.Function):
    """A copy of the first tensor with a history that leads to the others, whose gradients are zeros."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return result.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return (None, *(torch.zeros_like(value) if value.requires_grad else None for value in ctx.saved_tensors))


def _first_of(body: Body, others: Sequence[Any]) -> Callable[..., Any]:
    def function(*chosen: Any) -> tuple[Any, tuple[Any, ...]]:
        value, *rest = body(*chosen, *others)
        return value, tuple(rest)

    return function


def _several_of(body: Body, count: int, others: Sequence[Any]) -> Callable[..., Any]:
    def function(*chosen: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        results = body(*chosen, *others)
        return results[:count], results[count:]

    return function


def custom_gradient(forward: Body, *given: Any) -> tuple[Any, ...]:
    """`apply` of a `torch.autograd.Function`: the results of forward. Given: backward's bodies, `counts`, the inputs.

    `counts`: how many of the inputs are for `forward`, its arguments first (the rest are for backward); how many
    `results` it returns, before what it keeps for backward; which results are `constant`, which of what is kept is
    `checked` for changes; whether a gradient that is not there `fills` with zeros. For each body of backward: the
    results of which gradients are `given` to it; in what `order` it takes, after the cotangents, what is kept and the
    other inputs; and which of its results, added, are the gradient of each argument (`gradients`). `name`: the class's.
    """
    place = next(place for place, value in enumerate(given) if isinstance(value, dict))
    return _named(given[place]["name"]).apply(forward, given[:place], *given[place:])


@functools.cache
def _named(name: str) -> type[_CustomGradient]:
    """The function under the user's name: `grad_fn` and autograd's messages tell it."""
    return type(name, (_CustomGradient,), {})


def _total(gradients: Sequence[torch.Tensor]) -> torch.Tensor | None:
    return functools.reduce(torch.add, gradients) if gradients else None


class _CustomGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Body, backwards: Sequence[Body], counts: dict[str, Any], *inputs: Any) -> Any:
        made = forward(*inputs[: counts["forward"]])
        results, kept = made[: counts["results"]], made[counts["results"] :]
        ctx.run, ctx.counts, ctx.around = backwards, counts, inputs[counts["forward"] :]
        ctx.save_for_backward(*(kept[place] for place in counts["checked"]))
        ctx.kept = [None if place in counts["checked"] else value for place, value in enumerate(kept)]
        ctx.mark_non_differentiable(*(results[place] for place in counts["constant"]))
        ctx.set_materialize_grads(counts["fills"])
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        counts = ctx.counts
        given = tuple(cotangent is not None for cotangent in cotangents)
        if not any(given):
            return (None,) * len(ctx.needs_input_grad)
        case = 0 if counts["fills"] else counts["given"].index(given)
        checked = dict(zip(counts["checked"], ctx.saved_tensors, strict=True))
        held = [*(checked.get(place, value) for place, value in enumerate(ctx.kept)), *ctx.around]
        found = ctx.run[case](*cotangents, *(held[place] for place in counts["order"][case]))
        gradients = [_total([found[place] for place in places]) for places in counts["gradients"][case]]
        return (None, None, None, *gradients, *[None] * (len(ctx.needs_input_grad) - 3 - len(gradients)))
