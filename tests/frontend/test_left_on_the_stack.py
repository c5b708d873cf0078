"""What a break leaves on the stack for the code behind it is made anew at every call: bound methods of C's objects, and
texts with numbers in them. No call after the first few compiles for them again."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import threading
from typing import Any

import numpy
import pytest
import torch

import minicompile

from ..support import assert_same
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(1.0, 4.0)
PROGRAMS = Programs()
program = PROGRAMS.program
LOCK = threading.Lock()
SIGNS = numpy.array([1, -1])


@program()
def exit_of_a_lock(x):
    with LOCK:
        y = x * 2
    return y + 1, LOCK.locked()


@program()
def method_of_an_array(x):
    return x * numpy.repeat(SIGNS, len(x)).tolist()[0]


@program()
def number_in_an_f_string(x):
    y = x * 2
    text = f"{y.sum():.3f} of {x.shape}"
    return y + 1, text


@program()
def text_of_a_number(x):
    text = "sum: " + str(x.sum()) + "."
    return x + 1, text, f"{text}!"


@program()
def text_that_is_only_looked_at(x):
    text = f"{x.sum() * 0:.1f}"
    return x * len(text), text[0], "." in text, [*text]


@program()
def method_of_a_slice(x):
    start, stop, step = slice(1, -1).indices(len(x))
    return x[start:] * stop, slice(None).indices(3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_entry_for_every_call(name: str) -> None:
    fn: Any = PROGRAMS[name][0]
    compiled = minicompile.compile(fn)
    for step in range(6):
        assert_same(compiled(X + step), fn(X + step))
        if step == 2:
            count = len(compiled.entries)
    assert len(compiled.entries) == count
