"""The frame hook: what a dispatcher is given, what its answer does to the frame, and what is left as it was."""

from __future__ import annotations

import gc

import pytest

from minicompile.frontend import hook

from .hook_support import Context, asks, describe, keep, plain  # noqa: F401

pytestmark = pytest.mark.skipif(not hook.available(), reason=f"no hook: {hook.unavailable_reason()}")


# ---- what a dispatcher is given ----


def test_raw_arguments_come_in_the_order_of_varnames():
    ctx = Context(plain=describe)
    assert hook.run(ctx, plain, (1,), {"k": 7, "z": 8}) == ("plain", (1, 2, 7, (), {"z": 8}))
    assert hook.run(ctx, plain, (1, 3, 4, 5)) == ("plain", (1, 3, 5, (4, 5), {}))
    assert ctx.asked == ["plain"]


def test_callees_at_any_depth_are_dispatched():
    def outer(x):
        return [keep(x), sorted([3, 1], key=lambda v: keep(v))]

    ctx = Context(keep=lambda function, v: -v)
    assert hook.run(ctx, outer, (4,)) == [-4, [3, 1]]


def test_closures_arguments_in_cells_and_methods():
    def make(z):
        def inner(a):
            return a + z

        return inner

    def celled(a, b):
        return lambda: a

    class Thing:
        def method(self, x):
            return x

    def contents(function, a):
        return function.__closure__[0].cell_contents, a

    ctx = Context(inner=contents, celled=describe, method=lambda function, self, x: (type(self).__name__, x))
    assert hook.run(ctx, make(7), (1,)) == (7, 1)
    assert hook.run(ctx, celled, (1, 2)) == ("celled", (1, 2))
    assert hook.run(ctx, Thing().method, (3,)) == ("Thing", 3)


def test_eager_runs_the_untouched_frame_and_hooks_its_callees():
    def outer(x):
        x = x + 1
        return lambda: keep(x)

    def caller(x):
        return outer(x)()

    ctx = Context(outer=lambda function, x: hook.EAGER, keep=lambda function, v: ("hooked", v))
    assert hook.run(ctx, caller, (1,)) == ("hooked", 2)


def test_dispatcher_and_callback_run_with_the_hook_off(callback):
    seen = []

    def ask(ctx, function):
        seen.append(hook.current())
        return callback(ctx, keep) and callback(ctx, function)

    def dispatcher(function, v):
        seen.append(hook.current())
        return keep(v)

    hook.set_callback(ask)
    ctx = Context(keep=dispatcher)
    assert hook.run(ctx, keep, (1,)) == 1
    assert seen == [None, None]


def test_many_arguments_are_left_alone():
    names = ", ".join(f"a{i}" for i in range(300))
    scope = {}
    exec(f"def wide({names}): return a299", scope)
    ctx = Context(wide=lambda *args: "hooked")
    assert hook.run(ctx, scope["wide"], tuple(range(300))) == 299
    scope = {}
    exec(f"def wide({', '.join(f'a{i}' for i in range(255))}): return a254", scope)
    assert hook.run(ctx, scope["wide"], tuple(range(255))) == "hooked"


def test_generators_coroutines_and_class_bodies_are_left_alone():
    def generator():
        yield keep(1)

    async def coroutine():
        return keep(2)

    async def asynchronous():
        yield keep(3)

    def outer():
        class Body:
            value = keep(4)

        first = list(generator())
        try:
            coroutine().send(None)
        except StopIteration as stop:
            second = stop.value
        try:
            asynchronous().__anext__().send(None)
        except StopIteration as stop:
            third = stop.value
        return [*first, second, third, Body.value]

    everything = Context(keep=lambda function, v: v * 10)
    for name in ("generator", "coroutine", "asynchronous", "Body"):
        everything.dispatchers[name] = describe
    assert hook.run(everything, outer, ()) == [10, 20, 30, 40]
    assert set(everything.asked) == {"outer", "keep"}


def test_a_generator_may_be_thrown_into():
    def generator():
        try:
            yield 1
        except KeyError:
            yield keep(2)

    def outer():
        g = generator()
        return next(g), g.throw(KeyError)

    assert hook.run(Context(keep=lambda function, v: v * 10), outer, ()) == (1, 20)


# ---- contexts ----


def test_each_context_has_its_own_dispatcher():
    contexts = [Context(keep=lambda function, v, i=i: (i, v)) for i in range(5)]
    for _ in range(3):
        for i, ctx in enumerate(contexts):
            assert hook.run(ctx, keep, ("x",)) == (i, "x")
    assert all(ctx.asked == ["keep"] for ctx in contexts)


def test_nested_runs_restore_the_context():
    inner, outer = Context(keep=lambda f, v: ("inner", v)), Context(keep=lambda f, v: ("outer", v))

    def body():
        assert hook.current() is outer
        first = hook.run(inner, keep, (1,))
        assert hook.current() is outer
        return first, keep(2), hook.run_off(keep, 3), hook.run(None, keep, (4,))

    assert hook.run(outer, body, ()) == (("inner", 1), ("outer", 2), 3, 4)


def test_run_inside_a_dispatcher():
    def dispatcher(function, v):
        return ("dispatched", hook.run(ctx, keep, (v,)))

    ctx = Context(keep=lambda function, v: v + 1, entry=dispatcher)

    def entry(v):
        raise AssertionError("never runs")

    assert hook.run(ctx, entry, (1,)) == ("dispatched", 2)


def test_none_is_asked_for_once():
    ctx = Context()
    for _ in range(3):
        assert hook.run(ctx, keep, (1,)) == 1
    assert ctx.asked == ["keep"]


def test_run_off_passes_arguments_on():
    assert hook.run_off(plain, 1, k=2) == "untouched"
    assert hook.run_off(dict, a=1) == {"a": 1}
    with pytest.raises(TypeError):
        hook.run_off()


# ---- skip and forget ----


def test_skip_then_forget():
    def target(v):
        return v

    ctx = Context(target=lambda function, v: "hooked")
    assert hook.run(ctx, target, (1,)) == "hooked"
    hook.skip(target.__code__)
    assert hook.run(ctx, target, (1,)) == 1
    hook.forget(target.__code__)
    assert hook.run(ctx, target, (1,)) == "hooked"
    assert ctx.asked == ["target", "target"]


def test_forget_for_one_context_only():
    def target(v):
        return v

    first, second = Context(target=lambda f, v: 1), Context(target=lambda f, v: 2)
    hook.run(first, target, (0,)), hook.run(second, target, (0,))
    hook.forget(target.__code__, first)
    first.dispatchers["target"] = lambda f, v: 3
    assert (hook.run(first, target, (0,)), hook.run(second, target, (0,))) == (3, 2)
    assert (len(first.asked), len(second.asked)) == (2, 1)


def test_forget_and_replace_while_running():
    def target(v):
        return v

    def dispatcher(function, v):
        ctx.dispatchers.clear()
        hook.forget(target.__code__)
        gc.collect()
        ctx.dispatchers["target"] = lambda function, v: "second"
        nested = hook.run(ctx, target, (v,))
        return "first", marker[0], nested

    marker = ["still here"]
    ctx = Context(target=dispatcher)
    del dispatcher
    assert hook.run(ctx, target, (1,)) == ("first", "still here", "second")
    assert hook.run(ctx, target, (1,)) == "second"


def test_a_skip_during_the_question_wins():
    def target(v):
        return v

    def ask(ctx, function):
        hook.skip(target.__code__)
        return lambda function, v: "once"

    hook.set_callback(ask)
    ctx = Context()
    assert [hook.run(ctx, target, (1,)) for _ in range(2)] == ["once", 1]


def test_wrong_arguments_are_refused():
    for wrong in [(1, keep), (1, keep, [1]), (1, keep, (1,), [2])]:
        with pytest.raises(TypeError):
            hook.run(*wrong)
    with pytest.raises(TypeError):
        hook.skip(keep)
    with pytest.raises(TypeError):
        hook.forget("code")
    with pytest.raises(TypeError):
        hook.set_callback(3)


# ---- exceptions ----


def test_a_dispatchers_exception_is_the_calls():
    def boom(v):
        return v

    def dispatcher(function, v):
        raise ValueError(v)

    def caller(v):
        try:
            boom(v)
        except ValueError as error:
            names = []
            at = error.__traceback__
            while at:
                names.append(at.tb_frame.f_code.co_name)
                at = at.tb_next
            return error.args, names

    assert hook.run(Context(boom=dispatcher), caller, ("v",)) == (("v",), ["caller", "dispatcher"])


def test_state_is_restored_after_an_exception():
    def boom():
        raise KeyError

    for call in (lambda: hook.run(Context(), boom, ()), lambda: hook.run_off(boom)):
        with pytest.raises(KeyError):
            call()
        assert hook.current() is None


def test_the_callbacks_exception_comes_out():
    def ask(ctx, function):
        raise LookupError(function.__name__)

    hook.set_callback(ask)
    with pytest.raises(LookupError, match="keep"):
        hook.run(Context(), keep, (1,))


def test_recursion_error_comes_out_and_leaves_the_hook_sane():
    def endless(n):
        return endless(n + 1)

    ctx = Context(endless=lambda function, n: hook.EAGER, keep=lambda function, v: "hooked")
    with pytest.raises(RecursionError):
        hook.run(ctx, endless, (0,))
    ctx.dispatchers["forever"] = lambda function: hook.run(ctx, forever, ())

    def forever():
        return None

    with pytest.raises(RecursionError):
        hook.run(ctx, forever, ())
    assert hook.run(ctx, keep, (1,)) == "hooked"
