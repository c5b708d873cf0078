"""Generated functions: their lines in tracebacks, and their code objects taken from the disk."""

from __future__ import annotations

import linecache
import traceback
from types import CodeType
from typing import Any

import pytest

from minicompile.runtime import written
from minicompile.runtime.written import store_code, written_function

TEXT = "def call(x):\n    double = lambda y: y * factor\n    return [double(i) for i in x]\n"


def compiled_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is compiled from its text from now on."""
    names: list[str] = []
    real = written.compiled_text

    def noted(text: str, filename: str) -> CodeType:
        names.append(filename)
        return real(text, filename)

    monkeypatch.setattr(written, "compiled_text", noted)
    return names


def test_a_stored_text_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first: Any = written_function(TEXT, "<first>", {"factor": 2})
    stored = store_code(TEXT, first.__code__)
    names = compiled_texts(monkeypatch)
    again = written_function(TEXT, "<again>", {"factor": 3}, stored)
    assert again([1, 2]) == [3, 6] and not names
    other = written_function(TEXT.replace("y *", "y +"), "<other>", {"factor": 3}, stored)
    assert other([1, 2]) == [4, 5] and names == ["<other>"]


def test_stored_code_has_the_lines_of_its_new_file() -> None:
    stored = store_code(TEXT, written_function(TEXT, "<first>", {}).__code__)
    with pytest.raises(NameError) as raised:
        written_function(TEXT, "<again>", {}, stored)([1])
    places = [(frame.filename, frame.line) for frame in traceback.extract_tb(raised.value.__traceback__)[1:]]
    lines = [line.strip() for line in linecache.getlines("<again>")]
    assert {name for name, _ in places} == {"<again>"}
    assert [line for _, line in places][-1] == lines[1] and places[0][1] == lines[2]
