"""torch.func's transforms: vmap, grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian.

In: calls of them, and functions that they have made, here or before. Out: one node each, which applies torch's own
transform to the function it was given, traced as a body of the graph.

The function is traced on what it sees: for vmap tensors without the mapped dimension. What the transform makes of it is
found by running torch's on the fake tensors, so shapes, types and errors are its own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ... import body_calls
from ..breaks import UserError, unsupported, unsupported_call
from ..sources import Source
from . import trees
from .base import Args, Kwargs, NotConstant, Value
from .callables import rule
from .containers import SequenceValue
from .functions import FunctionValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

func = torch.func
Options = dict[str, Any]


class TransformValue(Value):
    """What a transform makes of a function. `maker` is the transform, `options` what else it was given."""

    def __init__(self, maker: Any, function: Value, options: Options, source: Source | None = None) -> None:
        self.maker = maker
        self.function = function
        self.options = options
        self.source = source

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"torch.func.{self.maker.__name__}()"

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return _CALLS[self.maker](tr, self, [arg.realize(tr) for arg in args], kwargs)

    def build(self, glue: Glue) -> str:
        options = "".join(f", {name}={glue.keep(value)}" for name, value in self.options.items())
        return f"{glue.keep(self.maker)}({glue.ref(self.function)}{options})"


# ---- making ----


_OPTIONS: dict[Any, Options] = {}
"""Transform → its options, with their defaults."""


def _maker(maker: Any, **defaults: Any) -> None:
    _OPTIONS[maker] = defaults

    @rule(maker)
    def make(tr: Tracer, func: Value, *args: Value, **kwargs: Value) -> Value:
        given = dict(zip(defaults, args, strict=False)) | kwargs
        try:
            options = {name: value.realize(tr).const(tr) for name, value in given.items()}
        except NotConstant:
            raise unsupported_call(f"torch.func.{maker.__name__}()", "has options that are not constants") from None
        try:
            maker(_nothing, **options)
        except Exception as error:  # torch's answer to these options
            raise UserError(error, is_torch=True) from error
        return TransformValue(maker, func, defaults | options)


def _nothing() -> None:
    """A function to try options on."""


_maker(func.vmap, in_dims=0, out_dims=0, randomness="error", chunk_size=None)
_maker(func.grad, argnums=0, has_aux=False)
_maker(func.grad_and_value, argnums=0, has_aux=False)
_maker(func.jacrev, argnums=0, has_aux=False, chunk_size=None)
_maker(func.jacfwd, argnums=0, has_aux=False, randomness="error")


@rule(func.hessian)
def _hessian(tr: Tracer, func: Value, argnums: Value | None = None) -> Value:
    argument = [argnums] if argnums is not None else []
    inner = tr.constant(torch.func.jacrev).call(tr, [func, *argument], {})
    return tr.constant(torch.func.jacfwd).call(tr, [inner, *argument], {})


@functools.cache
def _made_elsewhere() -> dict[types.CodeType, Any]:
    """The code of the functions that transforms return → the transform."""
    makers = (func.vmap, func.grad, func.grad_and_value, func.jacrev, func.jacfwd)
    return {maker(_nothing).__code__: maker for maker in makers}


def outside_transform(tr: Tracer, fn: types.FunctionType, value: FunctionValue) -> Value | None:
    """A function that a transform returned before the frame; `value` is it as a function. None for any other."""
    maker = _made_elsewhere().get(fn.__code__)
    if maker is None:
        return None
    parts = {name: cell.contents for name, cell in zip(fn.__code__.co_freevars, value.closure, strict=True)}
    given = parts["func"]
    options = dict(_OPTIONS[maker])
    try:
        for name in options.keys() & parts.keys():
            part = parts[name]
            assert part is not None
            options[name] = part.realize(tr).const(tr)
    except NotConstant:
        return None
    assert given is not None
    return TransformValue(maker, given, options, value.source)


# ---- calling ----


class _Function:
    """The function of a transform, while it is traced: what it is given, and what comes out."""

    def __init__(self, tr: Tracer, transform: Value, function: Value) -> None:
        self.tr = tr
        self.transform = transform
        self.function = function
        self.what = f"the function of {transform.describe()}"

    def refuse(self, why: str) -> Exception:
        return unsupported_call(self.transform.describe(), why)

    def tensors(self, leaves: Sequence[Value]) -> list[TensorValue]:
        """The leaves, which have to be tensors."""
        if not leaves or not all(isinstance(leaf, TensorValue) for leaf in leaves):
            raise self.refuse("deals with something that is not a tensor")
        return trees.tensors(leaves)

    def body(self) -> Any:
        return self.tr.graph.body(self.what, self.tr.root_step, is_transform=True)

    def run(self, args: Args, kwargs: Kwargs) -> Value:
        return self.function.realize(self.tr).call(self.tr, args, kwargs).realize(self.tr)

    def close(self, body: Any, results: Sequence[TensorValue]) -> fx.GraphModule:
        return body.close([self.tr.graph.local(result.node) for result in results])

    def apply(
        self, target: Callable[..., Any], module: fx.GraphModule, options: tuple[Any, ...], inputs: list[Any], body: Any
    ) -> list[Value]:
        """The node that runs the transform, and its results."""
        graph = self.tr.graph
        name = self.transform.describe().removesuffix("()")
        node, result = graph.call_bodies(self.tr, target, [module], options, [*inputs, *body.lifted], name)
        return graph.results(self.tr, node, result)


def _seen_by_vmap(outer: torch.Tensor, dim: int) -> torch.Tensor:
    """One element of a batch, as the mapped function sees it."""
    with torch.no_grad():
        return outer.select(dim, 0).detach().requires_grad_(outer.requires_grad)


def _call_vmap(tr: Tracer, transform: TransformValue, args: Args, kwargs: Kwargs) -> Value:
    made = _Function(tr, transform, transform.function)
    leaves, spec = trees.flatten(tr, tuple(args))
    in_dims = trees.spread(transform.options["in_dims"], spec)
    if in_dims is None:
        raise made.refuse("has in_dims that do not fit its arguments")
    mapped = made.tensors([leaf for leaf, dim in zip(leaves, in_dims, strict=True) if dim is not None])
    dims = [dim for dim in in_dims if dim is not None]
    if any(
        type(dim) is not int or not -t.fake.dim() <= dim < t.fake.dim() for t, dim in zip(mapped, dims, strict=True)
    ):
        raise made.refuse("has in_dims that do not fit its arguments")
    with made.body() as body:
        inner = iter(_inputs(body, [(t, _seen_by_vmap(t.fake, dim)) for t, dim in zip(mapped, dims, strict=True)]))
        given = [leaf if dim is None else next(inner) for leaf, dim in zip(leaves, in_dims, strict=True)]
        result = made.run(trees.unflatten(given, spec).items(tr), kwargs)
        outs, out_spec = trees.flatten(tr, result)
        out_dims = trees.spread(transform.options["out_dims"], out_spec)
        module = made.close(body, made.tensors(outs))
    if out_dims is None:
        raise made.refuse("has out_dims that do not fit its results")
    others = {name: transform.options[name] for name in ("randomness", "chunk_size")}
    options = (tuple(dims), tuple(out_dims), others)
    results = made.apply(body_calls.vmapped, module, options, [t.node for t in mapped], body)
    return trees.unflatten(results, out_spec)


def _inputs(body: Any, pairs: list[tuple[TensorValue, torch.Tensor]]) -> list[Value]:
    return [TensorValue(body.input(outer.node, fake), fake) for outer, fake in pairs]


def _differentiable(outer: TensorValue) -> torch.Tensor:
    with torch.no_grad():
        return outer.fake.detach().requires_grad_(True)


class _Derivative(_Function):
    """A function of which some arguments, those of `argnums`, are differentiated."""

    def __init__(self, tr: Tracer, transform: Value, function: Value, args: Args, argnums: Any) -> None:
        super().__init__(tr, transform, function)
        picked = argnums if isinstance(argnums, tuple) else (argnums,)
        places = [place + len(args) if place < 0 else place for place in picked]
        if not places or any(not 0 <= place < len(args) for place in places) or len(set(places)) < len(places):
            raise self.refuse("has argnums that do not fit its arguments")
        self.args = args
        self.places = places
        chosen = tuple(args[place] for place in places)
        leaves, self.spec = trees.flatten(tr, chosen if isinstance(argnums, tuple) else chosen[0])
        self.chosen = self.tensors(leaves)
        self.is_single = not isinstance(argnums, tuple)
        if not all(t.fake.dtype.is_floating_point or t.fake.dtype.is_complex for t in self.chosen):
            raise self.refuse("differentiates something without gradients")

    @property
    def nodes(self) -> list[fx.Node]:
        return [tensor.node for tensor in self.chosen]

    def run_on_chosen(self, body: Any, kwargs: Kwargs) -> Value:
        """Trace the function on stand-ins for the tensors that it is differentiated by."""
        inner = _inputs(body, [(tensor, _differentiable(tensor)) for tensor in self.chosen])
        made = trees.unflatten(inner, self.spec)
        values = [made] if self.is_single else made.items(self.tr)
        args = list(self.args)
        for place, value in zip(self.places, values, strict=True):
            args[place] = value
        with torch.enable_grad():  # torch.func's derivatives record whatever the mode outside is, when it runs too
            return self.run(args, kwargs)

    def split(self, result: Value, has_aux: bool) -> tuple[Value, list[TensorValue], Any]:
        """The function's output; the tensors and structure of what else it returns."""
        if not has_aux:
            return result, [], None
        if not isinstance(result, SequenceValue) or len(result.elements) != 2:
            raise self.refuse("needs a function that returns two things")
        output, aux = (item.realize(self.tr) for item in result.elements)
        leaves, spec = trees.flatten(self.tr, aux)
        return output, self.tensors(leaves), spec


def _call_grad(tr: Tracer, transform: TransformValue, args: Args, kwargs: Kwargs) -> Value:
    options = transform.options
    made = _Derivative(tr, transform, transform.function, args, options["argnums"])
    with made.body() as body:
        result = made.run_on_chosen(body, kwargs)
        value, aux, aux_spec = made.split(result, options["has_aux"])
        module = made.close(body, [*made.tensors([value]), *aux])
    results = made.apply(body_calls.gradients, module, (len(made.chosen),), made.nodes, body)
    count = 1 + len(aux)
    found: list[Value] = [trees.unflatten(results[count:], made.spec)]
    if transform.maker is func.grad_and_value:
        others = [trees.unflatten(results[1:count], aux_spec)] if options["has_aux"] else []
        second = SequenceValue(tuple, [results[0], *others]) if others else results[0]
        return SequenceValue(tuple, [*found, second])
    if options["has_aux"]:
        found.append(trees.unflatten(results[1:count], aux_spec))
    return found[0] if len(found) == 1 else SequenceValue(tuple, found)


def _call_jacobian(tr: Tracer, transform: TransformValue, args: Args, kwargs: Kwargs) -> Value:
    options = dict(transform.options)
    argnums, has_aux = options.pop("argnums"), options.pop("has_aux")
    made = _Derivative(tr, transform, transform.function, args, argnums)
    with made.body() as body:
        output, aux, aux_spec = made.split(made.run_on_chosen(body, kwargs), has_aux)
        outs, out_spec = trees.flatten(tr, output)
        module = made.close(body, [*made.tensors(outs), *aux])
    n, count = len(made.chosen), len(outs)
    target = body_calls.reverse_jacobians if transform.maker is func.jacrev else body_calls.forward_jacobians
    results = made.apply(target, module, (n, count, options), made.nodes, body)
    rows = [trees.unflatten(results[i * n : (i + 1) * n], made.spec) for i in range(count)]
    jacobian = trees.unflatten(rows, out_spec)
    if not has_aux:
        return jacobian
    rest = trees.unflatten(results[count * n :], aux_spec)
    return SequenceValue(tuple, [jacobian, rest])


@rule(func.jvp)
def _jvp(
    tr: Tracer,
    func: Value,
    primals: Value,
    tangents: Value,
    *,
    strict: Value | None = None,
    has_aux: Value | None = None,
) -> Value:
    made, aux_wanted = _along(tr, torch.func.jvp, func, primals.realize(tr).items(tr), has_aux)
    leaves, spec = trees.flatten(tr, tuple(tangents.realize(tr).items(tr)))
    if spec != made.spec:
        raise made.refuse("has tangents that are not like its primals")
    along = made.tensors(leaves)
    is_strict = strict is not None and strict.realize(tr).truth(tr)
    with made.body() as body:
        output, aux, aux_spec = made.split(made.run_on_chosen(body, {}), aux_wanted)
        outs, out_spec = trees.flatten(tr, output)
        module = made.close(body, [*made.tensors(outs), *aux])
    nodes = [*made.nodes, *(tensor.node for tensor in along)]
    options = (len(made.chosen), len(outs), is_strict)
    results = made.apply(body_calls.pushed_forward, module, options, nodes, body)
    rest = results[len(outs) : len(results) - len(outs)]
    parts = [trees.unflatten(results[: len(outs)], out_spec), trees.unflatten(results[-len(outs) :], out_spec)]
    if aux_wanted:
        parts.append(trees.unflatten(rest, aux_spec))
    return SequenceValue(tuple, parts)


def _along(tr: Tracer, maker: Any, function: Value, primals: Args, has_aux: Value | None) -> tuple[_Derivative, bool]:
    """The function of vjp or jvp, which differentiate by all arguments."""
    aux_wanted = has_aux is not None and has_aux.realize(tr).truth(tr)
    primals = [primal.realize(tr) for primal in primals]
    return _Derivative(
        tr, TransformValue(maker, function, {}), function, primals, tuple(range(len(primals)))
    ), aux_wanted


@rule(func.vjp)
def _vjp(tr: Tracer, func: Value, *primals: Value, has_aux: Value | None = None) -> Value:
    made, aux_wanted = _along(tr, torch.func.vjp, func, list(primals), has_aux)
    with made.body() as body:
        output, aux, aux_spec = made.split(made.run_on_chosen(body, {}), aux_wanted)
        outs, out_spec = trees.flatten(tr, output)
        module = made.close(body, [*made.tensors(outs), *aux])
    options = (len(made.chosen), len(outs))
    inputs = [*made.nodes, *body.lifted]
    node, result = tr.graph.call_bodies(tr, body_calls.pulled_back, [module], options, inputs, "torch.func.vjp")
    results = tr.graph.results(tr, node, result[:-1])
    pull = PullBackValue(
        tr.graph.item(tr, node, len(result) - 1, result[-1]), result[-1], out_spec, made.spec, tr.root_step
    )
    parts = [trees.unflatten(results[: len(outs)], out_spec), pull]
    if aux_wanted:
        parts.append(trees.unflatten(results[len(outs) :], aux_spec))
    return SequenceValue(tuple, parts)


class PullBackValue(Value):
    """The function that `torch.func.vjp` returns. `node` gives it; `example` is the one for the fake tensors."""

    def __init__(self, node: fx.Node, example: Any, out_spec: Any, in_spec: Any, step: int) -> None:
        self.node = node
        self.example = example
        self.out_spec = out_spec
        self.in_spec = in_spec
        self.step = step

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return "the function of torch.func.vjp()"

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if len(args) != 1 or kwargs:
            raise self.cannot("calling in this form")
        leaves, spec = trees.flatten(tr, args[0])
        if spec != self.out_spec or not all(isinstance(leaf, TensorValue) for leaf in leaves):
            raise self.cannot("calling with something else than its results")
        nodes = [self.node, *(tensor.node for tensor in trees.tensors(leaves))]
        node, result = tr.graph.call_bodies(tr, body_calls.pull_back, [], (), nodes, "torch.func.vjp")
        return trees.unflatten(tr.graph.results(tr, node, result), self.in_spec)

    def build(self, glue: Glue) -> str:
        from ..breaks import Restart

        raise Restart(self.step, unsupported("The function of torch.func.vjp() is used outside of the graph."))


_CALLS: dict[Any, Callable[[Any, TransformValue, Args, Kwargs], Value]] = {
    func.vmap: _call_vmap,
    func.grad: _call_grad,
    func.grad_and_value: _call_grad,
    func.jacrev: _call_jacobian,
    func.jacfwd: _call_jacobian,
}

__all__ = ["TransformValue", "outside_transform"]
