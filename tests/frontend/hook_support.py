"""What the tests of the frame hook share: a context, the question, dispatchers and functions."""

from __future__ import annotations

import pytest

from minicompile.frontend import hook


class Context:
    """A compile context: dispatchers by function name; frames of other functions are left alone."""

    def __init__(self, **dispatchers):
        self.dispatchers = dispatchers
        self.asked = []


@pytest.fixture(autouse=True, name="callback")
def asks():
    def ask(ctx, function):
        ctx.asked.append(function.__name__)
        return ctx.dispatchers.get(function.__name__)

    hook.set_callback(ask)
    yield ask
    hook.set_callback(None)
    assert hook.current() is None


def describe(function, *raw):
    return function.__name__, raw


def plain(a, b=2, *args, k=5, **kw):
    return "untouched"


def keep(value):
    return value
