"""The frame hook and what lives around it: references, memory, threads, other evaluators."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from minicompile.frontend import hook

from .hook_support import Context, asks, describe, keep, plain  # noqa: F401

pytestmark = pytest.mark.skipif(not hook.available(), reason=f"no hook: {hook.unavailable_reason()}")


# ---- nothing leaks, nothing dangles ----


def references(action, *objects, times=100_000):
    """By how much the reference counts of `objects` grew while `action` ran `times` times."""
    action()
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(times):
        action()
    return [sys.getrefcount(o) - b for o, b in zip(objects, before, strict=True)]


@pytest.mark.parametrize("result", ["value", "eager", "left alone", "exception"])
def test_no_reference_leaks(result):
    thing, marker = object(), object()

    def target(a, *args, k, **kw):
        return a

    def raising(function, *raw):
        raise ValueError

    dispatchers = {"value": lambda f, *raw: marker, "eager": lambda f, *raw: hook.EAGER, "exception": raising}
    ctx = Context(**({"target": dispatchers[result]} if result in dispatchers else {}))
    kwargs = {"k": thing, "z": thing}

    def action():
        try:
            hook.run(ctx, target, (thing, thing), kwargs)
        except ValueError:
            pass

    watched = (thing, marker, ctx, target, target.__code__, kwargs, hook.EAGER, None)
    assert all(abs(growth) < 50 for growth in references(action, *watched))


def test_no_memory_is_lost_over_many_frames():
    def deep(n):
        return keep(n) if n == 0 else deep(n - 1)

    ctx = Context(keep=describe)
    hook.run(ctx, deep, (50,))
    before = sys.getallocatedblocks()
    for _ in range(2000):
        hook.run(ctx, deep, (50,))
    assert sys.getallocatedblocks() - before < 500


def test_frames_at_the_edge_of_a_stack_chunk():
    """Big frames in deep recursion, so that dispatched leaves are the first frame of a chunk at some depth."""
    lines = "".join(f"  v{i} = n\n" for i in range(200))
    scope = {"keep": keep}
    exec(f"def big(n):\n{lines}  return keep(n) if n == 0 else big(n - 1)", scope)
    exec(f"def odd(n):\n{lines[:600]}  return keep(n) if n == 0 else big(n - 1)", scope)
    ctx = Context(keep=describe)
    for depth in range(200):
        assert hook.run(ctx, scope["odd"], (depth,)) == ("keep", (0,))


def test_recursion_deeper_than_the_c_stack_is_an_exception():
    program = textwrap.dedent("""
        import sys, threading
        from minicompile.frontend import hook

        def deep(n):
            return n if n == 0 else deep(n - 1)

        class Context: pass
        hook.set_callback(lambda ctx, function: (lambda function, n: hook.EAGER) if ctx.eager else None)
        sys.setrecursionlimit(10**6)

        def go():
            for eager in (True, False):
                ctx = Context()
                ctx.eager = eager
                try:
                    hook.run(ctx, deep, (300_000,))
                except RecursionError:
                    print("RecursionError", hook.run(ctx, deep, (50,)), hook.current())

        go()
        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
    """)
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (seen.returncode, seen.stdout) == (0, "RecursionError 0 None\n" * 4), seen.stderr[-500:]


def test_a_context_dies_with_what_was_compiled_for_it():
    def target(v):
        return v

    ctx = Context()
    ctx.dispatchers["target"] = lambda function, v, own=ctx: v  # a cycle: context -> dispatcher -> context
    assert hook.run(ctx, target, (1,)) == 1
    dispatcher, alive = weakref.ref(ctx.dispatchers["target"]), weakref.ref(ctx)
    del ctx
    gc.collect()
    assert alive() is None and dispatcher() is None
    fresh = [Context(target=lambda function, v, i=i: i) for i in range(100)]
    assert [hook.run(ctx, target, (1,)) for ctx in fresh] == list(range(100))


def test_a_dispatcher_nobody_else_holds_lives_with_its_context():
    def target(v):
        return v

    def ask(ctx, function):
        calls.append(function)
        return lambda function, v: "hooked"

    calls = []
    hook.set_callback(ask)
    ctx = Context()
    for _ in range(3):
        gc.collect()
        assert hook.run(ctx, target, (1,)) == "hooked"
    assert len(calls) == 1


def test_contexts_that_cannot_own_are_kept_until_forgotten():
    class Slotted:
        __slots__ = ("dispatchers", "asked")

    def target(v):
        return v

    marker = Context()
    alive = weakref.ref(marker)
    ctx = Slotted()
    ctx.asked, ctx.dispatchers = [], {"target": lambda function, v, held=marker: "hooked"}
    del marker
    assert hook.run(ctx, target, (1,)) == "hooked"
    del ctx
    gc.collect()
    assert alive() is not None
    hook.forget(target.__code__)
    gc.collect()
    assert alive() is None


def test_a_dying_code_object_releases_its_entries():
    class Slotted:
        __slots__ = ("dispatchers", "asked")

    marker = Context()
    alive = weakref.ref(marker)
    scope = {}
    exec("def target(v): return v", scope)
    ctx = Slotted()
    ctx.asked, ctx.dispatchers = [], {"target": lambda function, v, held=marker: "hooked"}
    assert hook.run(ctx, scope["target"], (1,)) == "hooked"
    del ctx, marker
    scope.clear()
    gc.collect()
    assert alive() is None


# ---- threads, other evaluators ----


def test_the_hook_is_on_in_its_own_thread_only():
    started, finish = threading.Event(), threading.Event()
    seen = []

    def other():
        started.wait(10)
        seen.append((hook.current(), keep("other")))
        finish.set()

    def body():
        started.set()
        finish.wait(10)
        return keep("mine")

    thread = threading.Thread(target=other)
    thread.start()
    assert hook.run(Context(keep=lambda f, v: ("hooked", v)), body, ()) == ("hooked", "mine")
    thread.join(10)
    assert seen == [(None, "other")]


def test_runs_that_overlap_in_two_threads():
    """The first to begin ends first; the second still has its hook."""
    second_began, first_ended = threading.Event(), threading.Event()
    results = {}

    def first():
        def body():
            second_began.wait(10)
            return keep(1)

        results["first"] = hook.run(Context(keep=lambda f, v: "a"), body, ())
        first_ended.set()

    def second():
        def body():
            second_began.set()
            first_ended.wait(10)
            return keep(2)

        results["second"] = hook.run(Context(keep=lambda f, v: "b"), body, ())

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    [thread.start() for thread in threads]
    [thread.join(20) for thread in threads]
    assert results == {"first": "a", "second": "b"}


def test_many_threads_hammering():
    ctx = Context(keep=lambda f, v: v + 1)
    wrong = []

    def work(own):
        for i in range(3000):
            if hook.run(own, keep, (i,)) != i + 1 or hook.run(ctx, keep, (i,)) != i + 1 or keep(i) != i:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(Context(keep=lambda f, v: v + 1),)) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not wrong


def test_the_evaluator_that_was_found_comes_back():
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
    api._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]

    def evaluator():
        return api._PyInterpreterState_GetEvalFrameFunc(api.PyInterpreterState_Get())

    before, ctx = evaluator(), Context()

    def body():
        inside.append(evaluator())
        if len(inside) == 1:
            hook.run(ctx, body, ())
            inside.append(evaluator())
            with pytest.raises(ZeroDivisionError):
                hook.run(ctx, divmod, (1, 0))
            inside.append(evaluator())

    inside = []
    hook.run(ctx, body, ())
    assert len(set(inside)) == 1 and inside[0] != before and len(inside) == 4
    assert evaluator() == before
    assert hook.run(ctx, generator_of_frames, ()).__next__() == 1  # a frame made in a run, started after it
    assert evaluator() == before


def generator_of_frames():
    yield keep(1)


def test_tracing_and_profiling_go_on():
    events = []

    def body():
        return keep(1), plain(2)

    sys.setprofile(lambda frame, event, arg: events.append((event, frame.f_code.co_name)))
    try:
        result = hook.run(Context(keep=lambda function, v: "hooked"), body, ())
    finally:
        sys.setprofile(None)
    assert result == ("hooked", "untouched")
    assert ("call", "plain") in events and ("call", "keep") not in events


def test_beside_torch_compile():
    torch = pytest.importorskip("torch")
    graphs = []

    def count(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    def inner(x):
        return x * 2

    compiled = torch.compile(inner, backend=count)
    ctx = Context(keep=lambda function, v: ("hooked", v))
    x = torch.ones(3)

    def body(x):
        before = keep(1)
        y = hook.run_off(compiled, x)
        return before, y, keep(2)

    def check():
        before, y, after = hook.run(ctx, body, (x,))
        assert (before, after) == (("hooked", 1), ("hooked", 2))
        assert torch.equal(y, x * 2)

    check()  # ours outside, torch.compile's first use inside
    assert len(graphs) == 1
    assert torch.equal(compiled(x), x * 2)  # torch.compile on its own afterwards
    check()

    @torch._dynamo.disable
    def ours(x):
        return hook.run(ctx, body, (x,))

    @torch.compile(backend=count)
    def outside(x):
        return ours(x + 1)[1] + 1

    for _ in range(2):
        assert torch.equal(outside(x), (x + 1) * 2 + 1)  # torch.compile outside, ours inside, torch.compile within that
    check()
    assert keep(5) == 5
    torch._dynamo.reset()


def test_torch_compile_reached_with_the_hook_on():
    """torch.compile called by a frame that is merely hooked: its evaluator is on top, ours stands back."""
    torch = pytest.importorskip("torch")

    def helper(x):
        return keep(x) + 1

    compiled = torch.compile(helper, backend="eager")
    ctx = Context(keep=lambda function, v: ("hooked", v))

    def body(x):
        return compiled(x), keep(1)

    for _ in range(2):
        y, after = hook.run(ctx, body, (torch.ones(2),))
        assert torch.equal(y, torch.full((2,), 2.0)) and after == ("hooked", 1)
    torch._dynamo.reset()
