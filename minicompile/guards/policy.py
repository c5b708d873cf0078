"""Whether a guard miss compiles once more, and the record of it.

In: from a segment, on every miss: how many entries it has, what was called, why each entry missed.
Out: a `Decision` (compile, or run eagerly from now on), `RecompileRecord`s for `compiled.recompiles`, one warning at
the limit that says in plain words what kept changing.

Why a limit: a value that is new on every call (a step counter, a learning rate) would otherwise compile for ever, and
each entry makes every later miss slower. Why eager for good: by then compiling has cost more than it gave.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..config import config
from ..logs import Log
from .kinds import ConstantGuard, IdentityGuard, KeysGuard, LengthGuard, TypeGuard
from .miss_reasons import Reason
from .sizes import SizeGuard
from .tensors import TensorGuard

_log = Log("recompiles")


@dataclass(frozen=True)
class RecompileRecord:
    """One compilation that a miss caused, or (`compiled` False) that the limit refused.

    Attributes:
        call: what was called and with what, in the user's terms.
        reasons: one per failed guard; of the entry that was nearest to a hit.
        opened: what is an input from now on because it was seen to vary, as the user writes it: `lr`, `x.shape[0]`.
        time: seconds since the epoch.
    """

    call: str
    reasons: tuple[str, ...]
    compiled: bool
    opened: tuple[str, ...] = ()
    time: float = field(default_factory=time.time, compare=False)

    def __str__(self) -> str:
        why = "; ".join(self.reasons) or "no entry fitted"
        return f"{self.call} {'compiled again' if self.compiled else 'runs eagerly'}: {why}{self._from_now_on()}"

    def _from_now_on(self) -> str:
        if not self.opened:
            return ""
        several = len(self.opened) > 1
        names = f"{', '.join(self.opened[:-1])} and {self.opened[-1]}" if several else self.opened[0]
        return f"; {names} {'are inputs' if several else 'is an input'} from now on"


@dataclass(frozen=True)
class Decision:
    """What to do after a miss: `"compile"` or `"eager"`, and why in one sentence."""

    action: Literal["compile", "eager"]
    reason: str


class RecompilePolicy:
    """One per segment.

    `name` is how the user knows the piece (`forward (model.py:12)`); `limit` None means `config.recompile_limit`, read
    at each miss. Without `warns`, whoever asks says what the limit means.
    """

    def __init__(self, name: str, limit: int | None = None, *, warns: bool = True) -> None:
        self.name = name
        self.warns = warns
        self.records: list[RecompileRecord] = []
        self._limit = limit
        self._warned = False

    @property
    def limit(self) -> int:
        return self._limit if self._limit is not None else config.recompile_limit

    def decide(self, call: str, misses: Sequence[Sequence[str]], opened: Sequence[str] = ()) -> Decision:
        """Decide after a miss, and record it.

        Args:
            call: what was called, for the record.
            misses: for each existing entry, why it did not fit; empty on the first call, which is no recompile.
            opened: what will be an input from now on, if this compiles again.
        """
        if not misses:
            return Decision("compile", "first call")
        closest = min(misses, key=_distance)
        nearest = tuple(closest)
        compile_again = len(misses) < self.limit
        record = RecompileRecord(call, nearest, compile_again, tuple(opened) if compile_again else ())
        if compile_again or not self._warned:
            self.records.append(record)
        if compile_again:
            _log("%s", record)
            return Decision("compile", "; ".join(nearest))
        return self._refuse(nearest)

    def renounce(self, call: str, reason: str) -> None:
        """Record that an entry was given up, so that the next call compiles again."""
        self.records.append(RecompileRecord(call, (reason,), True))
        _log("%s", self.records[-1])

    def _refuse(self, nearest: tuple[str, ...]) -> Decision:
        """The reason is the warning's text: whoever may not run eagerly raises with it."""
        message = self._warning(nearest)
        if not self._warned and self.warns:
            self._warned = True
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return Decision("eager", message)

    def _warning(self, nearest: tuple[str, ...]) -> str:
        counts = Counter(_subject(reason) for record in self.records for reason in record.reasons)
        often = ", ".join(f"{subject} ({count} times)" for subject, count in counts.most_common(3))
        return (
            f"minicompile compiled {self.name} {self.limit} times, which is the limit; calls that fit none of these "
            f"run eagerly from now on. What kept changing: {often or 'unknown'}. "
            f"Last: {'; '.join(nearest) or 'unknown'}. "
            f"What to do: {_advice(nearest)}; or raise minicompile.config.recompile_limit."
        )


def _distance(reasons: Sequence[str]) -> int:
    """How far an entry was from a hit; one without reasons (all guards hold now) tells least."""
    return len(reasons) or sys.maxsize


_ADVICE: dict[type, str] = {
    ConstantGuard: "a number that decides about branches or sizes has an entry for each value: pass it as a tensor",
    TensorGuard: "let sizes vary (dynamic=None or True, mark_dynamic), or pad them with minicompile.bucket",
    SizeGuard: "the sizes decide about branches or shapes: pad them with minicompile.bucket",
    IdentityGuard: "make the object once, outside of the compiled function",
    TypeGuard: "call with values of one type",
    KeysGuard: "keep the keys of the dict the same from call to call",
    LengthGuard: "keep the number of items the same from call to call, or stack them in a tensor",
}


def _advice(reasons: Sequence[str]) -> str:
    """What the user can do about the facts that changed last, by their kind."""
    kinds = [type(reason.guard) for reason in reasons if isinstance(reason, Reason)]
    found = list(dict.fromkeys(_ADVICE[kind] for kind in kinds if kind in _ADVICE))
    return "; ".join(found) or "for a size try dynamic=True, for a number pass a tensor"


def _subject(reason: str) -> str:
    """What a reason is about: its text without the values (`argument x: size of dimension 0`)."""
    for end in (" is ", ", compiled for", " has ", " changed"):
        reason = reason.split(end)[0]
    return reason


