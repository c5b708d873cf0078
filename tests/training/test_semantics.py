"""What autograd promises holds for compiled graphs: which outputs are differentiable, aliases, undefined gradients,
layouts of tangents, retained graphs."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef

import minicompile
from minicompile import errors
from minicompile.config import config

from ..support import assert_same
from .support import assert_gradients, check, compiled_graph, differentiable, fresh, leaf, run_backward, tangents_for


def entropy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x @ w, -1)
    return -(p * torch.log(p + 1e-9)).sum(-1)


def test_entropy_scorer_is_kernels_around_products() -> None:
    compiled = check(entropy, leaf(5, 8), leaf(8, 7))
    graph = compiled_graph(compiled)
    assert graph.forward.externs == ["aten.mm.default"] and len(graph.forward.kernels) == 1
    assert graph.externs == ["aten.mm.default"] * 3 and len(graph.kernels) == 2


@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_subsets_of_inputs_require_gradients(which: tuple[bool, bool]) -> None:
    check(entropy, leaf(5, 8).detach().requires_grad_(which[0]), leaf(8, 7).detach().requires_grad_(which[1]))


def test_backward_is_compiled_when_it_is_needed() -> None:
    compiled = minicompile.compile(entropy)
    result = compiled(leaf(5, 8), leaf(8, 7))
    graph = compiled_graph(compiled)
    assert not graph.backward.compiled
    result.sum().backward()
    assert list(graph.backward.compiled) == [()]


# --- outputs ---------------------------------------------------------------------------------------------------------


def integer_output(x):
    y = torch.sigmoid(x)
    return y * x, y.argmax(-1), (y > 0.5).sum()


def detached_outputs(x):
    y = torch.exp(x)
    return y.sin(), y.cos().detach(), x.detach(), x


def output_twice(x):
    y = x.tanh()
    return y, y * 2, y


def constants_and_numbers(x):
    return x.exp(), 3, None, torch.ones(2), x.shape[0], "text"


def view_of_input(x):
    return x.view(-1), x.exp(), x[1:], x.t()


def detached_view_of_input(x):
    return x.detach().view(-1), x.exp()


def views_of_each_other(x):
    y = x.exp()
    return y, y.view(-1), y[0], y.t().sin()


def views_of_one_base(x):
    y = torch.stack([x, x * 2])
    return y[0], y[1], y.transpose(0, 1)


def detached_view_of_an_output(x):
    y = x.exp()
    return y, y.detach(), y.detach()[0]


def expanded_output(x):
    return x.sum(0, keepdim=True).expand(3, 4), x.sum(0).expand(5, 4)


def chunks(x):
    a, b = (x * 2).chunk(2, dim=-1)
    return a, b.sin()


OUTPUTS = [
    integer_output, detached_outputs, output_twice, constants_and_numbers, view_of_input, detached_view_of_input,
    views_of_each_other, views_of_one_base, detached_view_of_an_output, expanded_output, chunks,
]  # fmt: skip


@pytest.mark.parametrize("function", OUTPUTS, ids=lambda f: f.__name__)
def test_outputs(function) -> None:
    check(function, leaf(3, 4))


@pytest.mark.parametrize("function", OUTPUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", range(4))
def test_every_output_alone(function, number: int) -> None:
    """A backward through one output only: the others get no gradient."""

    def backward(outputs) -> None:
        found = differentiable(outputs)
        run_backward(found[number % len(found)])

    check(function, leaf(3, 4), backward=backward)


@pytest.mark.parametrize("function", [views_of_each_other, views_of_one_base, view_of_input, output_twice, chunks],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_mutation_of_an_output_is_seen_by_autograd(function) -> None:
    """In-place changes of one output change its aliases and their gradients, or are refused, exactly as in eager."""
    compiled = minicompile.compile(function, fullgraph=True)
    for number in range(3):
        seen = []
        for run in (compiled, function):
            x = leaf(3, 4) * 1
            source = leaf(3, 4)
            x = source * 1
            outputs = run(x)
            try:
                differentiable(outputs)[number % len(differentiable(outputs))].mul_(3)
                run_backward(outputs)
                seen.append([source.grad, *(out.detach() for out in differentiable(outputs))])
            except RuntimeError as error:
                seen.append(str(error)[:40])
        if isinstance(seen[1], str):
            continue  # eager refuses; a compiled result of its own memory may allow it
        assert_same(seen[0], seen[1])


def test_an_output_changed_in_place_that_backward_needs_is_refused() -> None:
    def function(x):
        return (x @ x).exp()

    compiled = minicompile.compile(function, fullgraph=True)
    result = compiled(leaf(4, 4))
    with torch.no_grad():
        result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("function", [lambda x: x.t(), lambda x: x[0], lambda x: (x * 2, x.view(2, 2, 3))[1]])
def test_views_of_an_expanded_leaf_have_gradients_of_their_own(function) -> None:
    x = torch.randn(3).expand(4, 3).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in eager, which is said once
        result = minicompile.compile(function)(x)
    weight = torch.arange(1.0, 1.0 + result.numel()).view(result.shape)
    (gradient,) = torch.autograd.grad((result * weight).sum(), x)
    (wanted,) = torch.autograd.grad((function(x) * weight).sum(), x)
    assert torch.equal(gradient, wanted)


# --- gradients that are missing --------------------------------------------------------------------------------------


def test_gradients_are_none_where_nothing_depends_on_an_input() -> None:
    def function(x, y, z):
        return x * 2, y.exp(), z.detach() * 3

    def first_only(outputs) -> None:
        outputs[0].sum().backward()

    check(function, leaf(3), leaf(3), leaf(3), backward=first_only)
    check(function, leaf(3), leaf(3), leaf(3))


def test_an_unused_output_puts_no_nan_into_gradients() -> None:
    """sqrt's derivative at 0 is infinite, and 0 * inf would be NaN."""

    def function(x):
        return x * 2, x.sqrt()

    x = torch.zeros(4, requires_grad=True)
    check(function, x, backward=lambda outputs: outputs[0].sum().backward())


def test_a_sum_of_gradients_with_one_missing() -> None:
    def function(x, w):
        h = torch.tanh(x @ w)
        return h.sum(), (h * h).sum(), torch.cat([h, x], -1)

    for number in range(3):
        check(function, leaf(3, 4), leaf(4, 4), backward=lambda outputs, n=number: run_backward(outputs[n]))


def complex_results(x):
    h = x.t() * 2
    total = h.sum(0)
    return (h * total).sin(), total.abs(), torch.view_as_real(h).cos()


@pytest.mark.parametrize("number", range(3))
def test_missing_gradients_of_complex_results(number: int) -> None:
    x = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    check(complex_results, x, backward=lambda outputs: run_backward(outputs[number]))


def test_missing_gradients_of_a_complex_result_that_is_written() -> None:
    def function(x):
        h = x / 3
        total = h.sum(0)
        h.zero_()
        return h * total, total

    x = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    with config.patch(strict=True):
        check(function, x)


def test_missing_gradients_where_backward_runs_one_operation_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x):
        return x.sin(), x.cos()

    def fails(*args, **kwargs):
        raise errors.CompilerMissing("none here")

    x = leaf(4)
    first, _ = minicompile.compile(function)(x)
    monkeypatch.setattr("minicompile.codegen.compile_ir", fails)
    with pytest.warns(RuntimeWarning, match="one operation at a time"):
        (gradient,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(gradient, x.detach().cos())


def test_each_set_of_missing_gradients_is_compiled_once() -> None:
    def function(x):
        return x.sin(), x.cos()

    compiled = check(function, leaf(4), backward=lambda outputs: outputs[0].sum().backward())
    assert list(compiled_graph(compiled).backward.compiled) == [(1,)]


# --- tangents --------------------------------------------------------------------------------------------------------


LAYOUTS = {
    "expanded": lambda t: t[:1, :1].expand(t.shape),
    "transposed": lambda t: t.t().contiguous().t(),
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "negated view": lambda t: torch._neg_view(t),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_tangents_of_any_layout(layout) -> None:
    def function(x, w):
        return torch.nn.functional.gelu(x @ w)

    def backward(outputs) -> None:
        outputs.backward(layout(tangents_for([outputs])[0]))

    check(function, leaf(5, 4), leaf(4, 6), backward=backward)


def test_complex_results() -> None:
    def function(x):
        return torch.fft.rfft(x.sin()).abs(), torch.complex(x, x.cos())

    check(function, leaf(4, 8))


# --- islands ---------------------------------------------------------------------------------------------------------


def test_no_grad_and_detach_islands() -> None:
    def function(x, w):
        with torch.no_grad():
            scale = (x @ w).abs().max()
        y = (x @ w) / scale
        return y * y.detach(), scale

    check(function, leaf(3, 4), leaf(4, 5))


def test_enable_grad_inside_no_grad() -> None:
    def function(x):
        with torch.enable_grad():
            y = x.exp()
        z = x.sin()
        return y, z

    compiled = minicompile.compile(function, fullgraph=True)
    x, expected_x = leaf(4), leaf(4)
    with torch.no_grad():
        y, z = compiled(x)
    assert y.requires_grad and not z.requires_grad
    y.sum().backward()
    function(expected_x)[0].sum().backward()
    assert_gradients([x.grad], [expected_x.grad])


def test_inference_of_a_model_that_requires_gradients() -> None:
    compiled = minicompile.compile(entropy, fullgraph=True)
    x, w = leaf(5, 8), leaf(8, 7)
    with torch.no_grad():
        result = compiled(x, w)
    assert not result.requires_grad
    assert_same(result, entropy(x, w).detach())
    assert compiled(x, w).requires_grad


def test_a_graph_with_nothing_differentiable() -> None:
    def function(x):
        return x.detach() * 2, x.argmax(), x.detach()

    compiled = minicompile.compile(function, fullgraph=True)
    x = leaf(3, 4)
    for one, other in zip(compiled(x), function(x), strict=True):
        assert_same(one, other)


# --- backward, again -------------------------------------------------------------------------------------------------


def test_retained_graph_and_accumulation() -> None:
    def backward(outputs) -> None:
        outputs.sum().backward(retain_graph=True)
        outputs.sum().backward(retain_graph=True)
        outputs.sum().backward()

    check(entropy, leaf(5, 8), leaf(8, 7), backward=backward)


def test_a_freed_graph_says_so() -> None:
    result = minicompile.compile(entropy)(leaf(5, 8), leaf(8, 7)).sum()
    result.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.backward()


def test_double_backward_is_right() -> None:
    def function(x, w):
        return torch.tanh(x @ w).sum(-1), x.exp()

    def backward(outputs) -> None:
        pass

    results = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        source, w = leaf(3, 4), leaf(4, 5)
        x = source * 2
        outputs = run(x, w)
        first = torch.autograd.grad(outputs[0].pow(2).sum() + outputs[1].sum(), [source, w], create_graph=True)
        penalty = sum(gradient.pow(2).sum() for gradient in first)
        results.append([*first, *torch.autograd.grad(penalty, [source, w])])
    assert_gradients(*results)


def test_double_backward_where_one_input_is_computed_from_another() -> None:
    """Each gradient of the graph is a partial one: what lies between its inputs is for autograd to follow, once."""
    def function(x, y):
        return (x * y).sin().sum()

    results = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        x = leaf(3, 4)
        first = torch.autograd.grad(run(x, x * 2), x, create_graph=True)[0]
        results.append([first, torch.autograd.grad(first.pow(2).sum(), x)[0]])
    assert_gradients(*results)


@pytest.mark.parametrize("function", [
    lambda a, b: (a + b).sin(), lambda a, b: a.exp().sin() + b, lambda a, b: (a.t().reshape(-1) * b.mean()).square(),
    lambda a, b: torch.nn.functional.layer_norm(a - b, (4,)),
])  # fmt: skip
def test_double_backward_after_inputs_have_died(function) -> None:
    results = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        x = leaf(4, 4)
        result = run(x * 1, torch.as_strided(x * 2, (4, 4), (1, 4)))  # nobody holds these
        gc.collect()
        (first,) = torch.autograd.grad(result.cos().sum(), x, create_graph=True)
        second = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)[0]
        results.append([first, second, torch.autograd.grad(second.pow(2).sum(), x)[0]])
    assert_gradients(*results)


def test_inputs_needed_twice_die_with_the_graph() -> None:
    compiled = minicompile.compile(lambda a, b: (a + b).sin(), fullgraph=True)

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = compiled(x, y)
        y.add_(result)  # y's node leads to the graph's now, which holds y's numbers
        return result + y.sum()

    x, y = leaf(4), leaf(4) * 1
    held = StorageWeakRef(y.untyped_storage())
    result = run(x, y)
    with pytest.raises(RuntimeError, match="modified in place"):
        torch.autograd.grad(result.sum(), x, create_graph=True)
    del y, result
    gc.collect()
    assert held.expired()


def test_inputs_needed_twice_are_let_go_by_backward() -> None:
    compiled = minicompile.compile(lambda a, b: (a + b).sin(), fullgraph=True)
    y = leaf(4).detach()
    held = StorageWeakRef(y.untyped_storage())
    result = compiled(leaf(4), y)
    del y
    assert not held.expired()
    result.sum().backward()
    assert held.expired()


def test_double_backward_that_cannot_be_right_names_the_way_out() -> None:
    def function(x):
        return torch.nn.functional.dropout(x.exp())

    x = leaf(8)
    result = minicompile.compile(function)(x)
    with pytest.raises(RuntimeError, match="random numbers.*minicompile.disable"):
        torch.autograd.grad(result.sum(), x, create_graph=True)


def test_inputs_only_needed_twice_are_not_kept_alive() -> None:
    def function(x, y):
        return x.exp() + y

    compiled = minicompile.compile(function, fullgraph=True)
    y = leaf(4) * 1
    result = compiled(leaf(4), y)
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None
    result.sum().backward()


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    sizes = []

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    compiled = minicompile.compile(entropy, fullgraph=True)
    compiled(leaf(5, 8), leaf(8, 7))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compiled(leaf(5, 8), leaf(8, 7)).sum().backward()
    assert len(sizes) == len(compiled_graph(compiled).split.saved)


def test_tensor_hooks_run() -> None:
    seen = []

    def run(function):
        x, w = leaf(5, 8), leaf(8, 7)
        x.register_hook(lambda g: g * 2)
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        result = function(x, w)
        result.register_hook(lambda g: g + 1)
        result.sum().backward()
        return x.grad, w.grad

    assert_gradients(run(minicompile.compile(entropy)), run(entropy))
    assert len(seen) == 2 and torch.allclose(seen[0], seen[1])


def test_dynamic_sizes() -> None:
    def function(x, w):
        y = torch.softmax(x @ w, -1)
        return y.sum(-1) * x.shape[0], y.transpose(0, 1), x[1:].exp(), x.view(-1)

    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    with config.patch(strict=True):
        for n in (3, 5, 9, 4):
            results = []
            for run in (compiled, function):
                x, w = fresh((leaf(n, 4), leaf(4, 6)))
                outputs = run(x, w)
                run_backward(outputs)
                results.append((x.grad, w.grad, *(out.detach() for out in outputs)))
            assert_gradients(*results)
    assert len(compiled.entries) == 1


def test_gradients_of_results_whose_sizes_are_rounded() -> None:
    def function(x):
        return F.interpolate(x, scale_factor=1.7, mode="bilinear"), x[:, :, : int(x.shape[2] * 0.7)] * 2

    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    for n in (5, 8):
        results = []
        for run in (compiled, function):
            (x,) = fresh((leaf(1, 2, n, 6),))
            run_backward(run(x))
            results.append([x.grad])
        assert_gradients(*results)


@pytest.mark.parametrize("gradients", [True, False])
def test_a_result_that_lies_otherwise_than_its_memory_is_no_view(gradients: bool) -> None:
    """A product whose result is turned round: it can be written to, as in eager, and backward knows that it was."""
    linear = torch.nn.Linear(6, 6)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return linear(x.transpose(0, 1)).transpose(0, 1).sigmoid()

    compiled, x = minicompile.compile(fn, fullgraph=True), torch.randn(2, 3, 6, requires_grad=gradients)
    for run in (compiled, fn):
        with torch.set_grad_enabled(gradients):
            result = run(x)
            assert (result.stride(), result._is_view(), result._base) == ((6, 12, 1), False, None)
            result += 1
        if gradients:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()
