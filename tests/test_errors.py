"""Errors: one family, messages that say place, reason and what to do."""

from pathlib import Path

import pytest

from minicompile import errors


def test_one_family():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) >= 9 and all(issubclass(kind, errors.MinicompileError) for kind in kinds)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.GraphBreakError("print is not captured", file="a.py", line=3, function="f", hint="log outside"),
            "a.py:3 in f: print is not captured\n  hint: log outside",
        ),
        (errors.GraphBreakError("print is not captured"), "print is not captured"),
        (errors.BackendError("lowering", KeyError("x")), "lowering failed: KeyError: 'x'"),
        (
            errors.StageError("codegen", ValueError("no"), Path("r.py")),
            "codegen failed: ValueError: no\n  reproducer: r.py",
        ),
        (errors.CompileError("k.cpp", "error: 1\n"), "compiling k.cpp failed:\nerror: 1"),
        (errors.KernelError(3, "k0"), "kernel k0 returned error code 3"),
    ],
)
def test_messages(error, text):
    assert str(error) == text


def test_attributes():
    original = KeyError("x")
    error = errors.BackendError("lowering", original)
    assert error.stage == "lowering" and error.original is original and isinstance(error, errors.StageError)
    assert errors.KernelError(7).code == 7
