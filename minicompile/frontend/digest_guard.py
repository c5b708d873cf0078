"""The guard on the code of a function that has no name: one made by a decorator, or anew in every process.

In: where the function is read, and the digest of the code that was traced. Out: a guard that takes the first code with
that digest for the traced one, and from then on compares identities.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import ClassVar

from ..guards.kinds import Frame, Guard, Scope, Stay
from .fingerprints import code_digest
from .sources import Source


class KnownCode:
    """Whether a code object is the one with this digest; the one that was met is remembered."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.code: CodeType | None = None

    def __call__(self, code: CodeType) -> bool:
        if code is not self.code and code_digest(code) == self.digest:
            self.code = code
        return code is self.code


@dataclass(frozen=True)
class FunctionDigestGuard(Guard):
    """A function runs code with this digest."""

    source: Source
    digest: str
    function: str
    rank: ClassVar[int] = 1
    structural: ClassVar[bool] = True

    def condition(self, scope: Scope) -> str:
        return f"{scope.make(KnownCode, self.digest)}({scope.read(self.source)}.__code__)"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("code", self.source),)

    def miss(self, frame: Frame) -> str | None:
        code = frame.value(self.source).__code__
        if code_digest(code) == self.digest:
            return None
        return f"{self.source.describe()} runs other code: {code.co_name} at {code.co_filename}:{code.co_firstlineno}"

    def __str__(self) -> str:
        return f"{self.source} runs {self.function}"
