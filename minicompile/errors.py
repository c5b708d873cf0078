"""What minicompile raises, and nothing else: every error of ours is a `MinicompileError`.

User code's own exceptions always come out as they are. An error here means that the user asked for something that
can't be had (`fullgraph=True` over a break, an unknown option), that the machine lacks something (a compiler), or that
a stage failed and `config.strict` or `fullgraph=True` forbids falling back to eager.
"""

from __future__ import annotations

from pathlib import Path


class MinicompileError(Exception):
    """Base class."""


class UnsupportedError(MinicompileError):
    """The frontend cannot express this in a graph; caught inside, and turned into a break or an eager frame."""


class GraphBreakError(MinicompileError):
    """A break under `fullgraph=True`.

    Attributes:
        reason: one plain sentence.
        hint: how to remove the break, or "".
        file, line, function: the user's place.
    """

    def __init__(self, reason: str, *, file: str = "", line: int = 0, function: str = "", hint: str = "") -> None:
        self.reason, self.hint, self.file, self.line, self.function = reason, hint, file, line, function
        place = f"{file}:{line}{f' in {function}' if function else ''}: " if file else ""
        super().__init__(f"{place}{reason}{f'{chr(10)}  hint: {hint}' if hint else ''}")


class RecompileLimitError(MinicompileError):
    """The recompile limit was reached and `fullgraph=True` or `config.strict` forbids running eagerly."""


class StageError(MinicompileError):
    """A stage of the compiler failed.

    Attributes:
        stage: `"frontend"`, `"lowering"`, `"passes"`, `"codegen"`, `"runtime"` or a backend's name.
        original: the exception that it raised.
        reproducer: a self-contained script that shows it, if one was written.
    """

    def __init__(self, stage: str, original: BaseException, reproducer: Path | None = None) -> None:
        self.stage, self.original, self.reproducer = stage, original, reproducer
        where = f"\n  reproducer: {reproducer}" if reproducer else ""
        super().__init__(f"{stage} failed: {type(original).__name__}: {original}{where}")


class BackendError(StageError):
    """The backend that was given the FX graph failed; `stage` is the backend's name."""


class DrawingUnavailable(MinicompileError):
    """No graphviz layout engine was found; the message says what to install."""


class VerificationError(MinicompileError):
    """A compiled graph's results differ from eager's, under `verify=True` or `config.verify`."""


class CompilerMissing(MinicompileError):
    """No C++ compiler was found. The message says what to install."""


class CompileError(MinicompileError):
    """The C++ compiler refused generated source, which is a bug of ours.

    Attributes:
        source_path: the file that was compiled.
        output: what the compiler wrote.
    """

    def __init__(self, source_path: Path | str, output: str) -> None:
        self.source_path, self.output = Path(source_path), output
        super().__init__(f"compiling {source_path} failed:\n{output.strip()}")


class KernelError(MinicompileError):
    """A kernel refused its inputs (index out of range, division by zero): eager would have raised. Nothing was written.

    Attributes:
        code: the kernel's return value, never 0.
        kernel: the kernel's name, or "".
    """

    def __init__(self, code: int, kernel: str = "") -> None:
        self.code, self.kernel = code, kernel
        super().__init__(f"kernel {kernel} returned error code {code}".replace("  ", " "))
