"""`minicompile.explore(fn, *args)`: every stage of a function, linked line by line, on one page.

In: a function and the calls to watch. Out: an `Exploration`: plain data, and the page that shows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..config import config
from ..frontend.observer import watching
from .compare import machine_text, title_of
from .explain import Explanation, explanation_of
from .recorder import Recorder


@dataclass(frozen=True)
class CallRecord:
    """One watched call: `outcome` is "compiled", "hit", "compiled again", "eager" or an error; `failed`: the guards
    that did not hold, of the entry that was nearest."""

    number: int
    arguments: str
    outcome: str
    failed: list[str]
    seconds: float
    entries: list[int]


@dataclass(frozen=True)
class Exploration:
    """What was seen.

    Attributes:
        data: everything on the page, as plain data; see `explore_data`.
        explanation: the same as values.
        calls: what became of each call.
    """

    data: dict[str, Any] = field(repr=False)
    explanation: Explanation = field(repr=False)
    calls: list[CallRecord]

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader wants to know first: breaks, kernels, calls, effects."""
        return self.data["facts"]

    def to_html(self, path: str | Path | None = None) -> str:
        """The page, and into a file if one is named. It opens from disk and fetches nothing."""
        from .pages import render_page

        text = render_page("explore.html.j2", title=self.data["title"], data=embedded(self.data))
        if path is not None:
            Path(path).write_text(text)
        return text

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:45rem;border:0"></iframe>'


def explore(
    fn: Callable[..., Any], *args: Any, more_calls: Iterable[tuple[Any, ...]] = (), **options: Any
) -> Exploration:
    """Compile a function while watching, and call it.

    Args:
        args: of the first call.
        more_calls: argument tuples of further calls, in order: to see guards fail, and code compiled again.
        options: of `minicompile.compile`.
    """
    from .explore_data import collect
    from .uncompiled import compiled_for_looking

    recorder = Recorder()
    with config.patch(entry_cache=False), watching(recorder):
        compiled = compiled_for_looking(fn, **options)
        calls = [_watched(number, compiled, given) for number, given in enumerate([args, *more_calls], start=1)]
    explanation = explanation_of(compiled)
    data = collect(title_of(fn), machine_text(args), explanation, recorder.recordings, calls)
    return Exploration(data, explanation, calls)


def _watched(number: int, compiled: Any, args: tuple[Any, ...]) -> CallRecord:
    """Call, and see what the call has added."""
    entries, recompiles = len(compiled.entries), len(compiled.recompiles)
    start = time.perf_counter()
    error = _error_of(partial(compiled, *args))
    spent = time.perf_counter() - start
    failed = [reason for record in compiled.recompiles[recompiles:] for reason in record.reasons]
    made = list(range(entries, len(compiled.entries)))
    if error:
        outcome = error
    elif made:
        outcome = "compiled again" if failed else "compiled"
    else:
        outcome = "eager" if failed or not compiled.entries else "hit"
    return CallRecord(number, ", ".join(map(_argument_text, args)), outcome, failed, spent, made)


def _error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:  # the user's function may raise anything; the page tells
        return f"raised {type(error).__name__}: {error}"
    return ""


def _argument_text(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def embedded(data: Any) -> Any:
    """JSON that may stand in a script element."""
    from markupsafe import Markup

    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
