"""The command line: `minicompile demo | doctor | explain | compare | explore | trace | compile-only | cache`.

In: arguments. Out: rich tables on the terminal, files where asked. argparse does the reading. A command is a row of
`_commands`: a function that says what it takes, and one that runs it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = _parser().parse_args(argv)
    return int(args.run(args) or 0)


def _parser() -> argparse.ArgumentParser:
    from .version import __version__

    parser = argparse.ArgumentParser(prog="minicompile", description="A compiler for PyTorch that you can read.")
    parser.add_argument("--version", action="version", version=f"minicompile {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, (what, add_arguments, run) in _commands().items():
        command = commands.add_parser(name, help=what)
        add_arguments(command)
        command.set_defaults(run=run)
    return parser


_Command = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]


def _commands() -> dict[str, _Command]:
    """Name → what it does in a line, what it takes, and the function that runs it."""
    return {
        "demo": ("compile real functions, compare with eager and torch.compile, draw them", _demo_takes, _demo),
        "doctor": ("what was found on this machine, and what to do about the rest", _nothing, _doctor),
        "explain": ("what became of a function: graphs, breaks, kernels, guards", _add_target, _explain),
        "compare": ("eager, minicompile and torch.compile side by side", _compare_takes, _compare),
        "explore": ("every stage of a function on one page, linked line by line", _explore_takes, _explore),
        "trace": ("compilation and kernels for chrome://tracing or ui.perfetto.dev", _trace_takes, _trace),
        "compile-only": ("the kernels for a GPU that is not there, as machine code", _only_takes, _compile_only),
        "cache": ("the folder of compiled kernels", _cache_takes, _cache),
    }


# ---- what the commands take ----


def _nothing(command: argparse.ArgumentParser) -> None:
    pass


def _demo_takes(command: argparse.ArgumentParser) -> None:
    command.add_argument("--no-inductor", action="store_true", help="leave torch.compile out (it takes half a minute)")
    command.add_argument("--device", type=_device, default="cpu", help="cpu or cuda (default: cpu)")
    command.add_argument(
        "--out", type=_folder, default="demo-output", metavar="DIR", help="where files go (default: demo-output)"
    )
    command.add_argument("--only", default="", metavar="NAME", help="one program by name")


def _compare_takes(command: argparse.ArgumentParser) -> None:
    _add_target(command)
    command.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    command.add_argument("--rounds", type=_count, default=9, help="turns that each candidate gets (default: 9)")
    command.add_argument("--html", type=_file, metavar="FILE", help="write a page that shows every stage side by side")
    command.add_argument("--json", type=_file, metavar="FILE", help="write everything as data")


def _explore_takes(command: argparse.ArgumentParser) -> None:
    _add_target(command, repeated=True)
    command.add_argument("--out", type=_file, metavar="FILE", help="the page (default: the function's name with .html)")


def _trace_takes(command: argparse.ArgumentParser) -> None:
    _add_target(command)
    command.add_argument("--out", type=_file, default="trace.json", metavar="FILE", help="default: trace.json")


def _only_takes(command: argparse.ArgumentParser) -> None:
    _add_target(command)
    command.add_argument(
        "--arch", type=_architecture, default=90, help="NVIDIA architecture: 80, 90, 100… (default: 90, Hopper)"
    )
    command.add_argument("--tune", action="store_true", help="matrix products too, as mode='max-autotune' tries them")
    command.add_argument("--out", type=_folder, metavar="DIR", help="write each kernel's cubin and Triton text")


def _cache_takes(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("info", "clear"))


def _add_target(command: argparse.ArgumentParser, *, repeated: bool = False) -> None:
    command.add_argument("target", help="path.py:function, or a name of the demo's table, such as InformationScorer")
    command.add_argument(
        "--args",
        metavar="EXPRESSION",
        action="append" if repeated else "store",
        help="what to call it with: 'torch.ones(8), 3' (default: the file's fn_args)"
        + ("; again for each further call" if repeated else ""),
    )
    command.add_argument(
        "--device", type=_device, default="cpu", help="for the demo's programs: cpu or cuda (default: cpu)"
    )
    command.add_argument("--grad", action="store_true", help="with gradients recorded (default: torch.no_grad)")


# ---- values of arguments; each raises ArgumentTypeError, which argparse prints ----


def _device(text: str) -> str:
    if text == "cpu":  # without torch, which takes a second to import
        return text
    import torch

    try:
        device = torch.device(text)
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no device: cpu, cuda, cuda:1, …") from None
    if device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a CPU nor a GPU of CUDA's")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise argparse.ArgumentTypeError(f"torch finds {torch.cuda.device_count() or 'no'} GPU here")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _architecture(text: str) -> int:
    """LLVM ends the process for one that has no shuffles between lanes, so it is not asked."""
    if _count(text) < _OLDEST:
        raise argparse.ArgumentTypeError(f"{text!r} is older than what Triton compiles for: {_OLDEST}, 80, 90, 100, …")
    return int(text)


_OLDEST = 70


def _file(text: str) -> str:
    """A file to write: that it cannot be is said now, not when all is done."""
    path = Path(text).absolute()
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; name a file in it")
    return text


def _folder(text: str) -> str:
    """A folder to write to, which is made if it is not there."""
    path = Path(text).absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written: {there} is no folder, or closed to you")
    return text


# ---- the commands ----


def _demo(args: argparse.Namespace) -> int:
    from .demo import run_demo

    return run_demo(args.device, args.out, inductor=not args.no_inductor, only=args.only)


def _doctor(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from .doctor import rows

    table = Table(title="minicompile doctor", title_justify="left")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    found = rows()
    for row in found:
        table.add_row("[green]ok[/]" if row.ok else "[yellow]![/]", row.name, row.found, row.advice)
    Console().print(table)
    return 0 if all(row.ok or not row.required for row in found) else 1


def _explain(args: argparse.Namespace) -> int:
    import minicompile

    return _with_target(args, lambda fn, given: print(minicompile.explain(fn)(*given)))


def _compare(args: argparse.Namespace) -> int:
    def run(fn: Callable[..., Any], given: tuple[Any, ...]) -> None:
        from rich.console import Console

        import minicompile

        from .inspect.compare_text import renderables

        result = minicompile.compare(fn, *given, inductor=not args.no_inductor, rounds=args.rounds)
        console = Console(width=None if sys.stdout.isatty() else 120)
        for part in renderables(result):
            console.print(part, highlight=False)
        for path, write in ((args.html, result.to_html), (args.json, result.to_json)):
            if path:
                write(path)
                print(f"wrote {path}")

    return _with_target(args, run)


def _explore(args: argparse.Namespace) -> int:
    def run(fn: Callable[..., Any], given: tuple[Any, ...]) -> None:
        from .inspect.explore import explore
        from .inspect.target import load

        more = [load(args.target, text, args.device)[1] for text in further]
        path = args.out or f"{args.target.rpartition(':')[2]}.html"
        explore(fn, *given, more_calls=more).to_html(path)
        print(f"wrote {path}")

    first, *further = args.args or [None]
    args.args = first
    return _with_target(args, run)


def _trace(args: argparse.Namespace) -> int:
    def run(fn: Callable[..., Any], given: tuple[Any, ...]) -> None:
        import minicompile

        from .inspect.trace import write_trace

        print(f"wrote {write_trace(minicompile.compile(fn), given, args.out)}")

    return _with_target(args, run)


def _compile_only(args: argparse.Namespace) -> int:
    def run(fn: Callable[..., Any], given: tuple[Any, ...]) -> None:
        from .errors import BackendError
        from .inspect.cubins import cubins_of_call, write

        try:
            graphs = cubins_of_call(fn, given, args.arch, args.tune)
        except BackendError as error:
            raise SystemExit(str(error)) from error
        for number, found in enumerate(graphs):
            print(f"graph {number}: {len(found)} kernel(s) for sm_{args.arch}")
            for cubin in found:
                print(f"  {cubin}")
        if args.out:
            write(graphs, Path(args.out))

    return _with_target(args, run)


def _with_target(args: argparse.Namespace, run: Callable[[Callable[..., Any], tuple[Any, ...]], None]) -> int:
    """Load what the command names, and do something with it; 2 if it is not there."""
    import torch

    from .inspect.target import TargetError, load

    try:
        fn, given = load(args.target, args.args, args.device)
    except TargetError as error:
        print(error, file=sys.stderr)
        return 2
    with torch.set_grad_enabled(args.grad):
        run(fn, given)
    return 0


def _cache(args: argparse.Namespace) -> int:
    from .runtime import cache

    if args.action == "clear":
        print(f"removed {cache.clear()} entries from {cache.cache_dir()}")
    else:
        print(cache.info())
    return 0
