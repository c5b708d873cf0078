"""The command line: `minicompile demo | doctor | explain | compare | explore | trace | compile-only | cache`.

In: arguments. Out: rich tables on the terminal, files where asked. argparse does the reading; each command is one
function.
"""

from __future__ import annotations

import argparse
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

    demo = commands.add_parser("demo", help="compile real functions, compare with eager and torch.compile, draw them")
    demo.add_argument("--no-inductor", action="store_true", help="leave torch.compile out (it takes half a minute)")
    demo.add_argument("--device", type=_device, default="cpu", help="cpu or cuda (default: cpu)")
    demo.add_argument("--out", default="demo-output", metavar="DIR", help="where files go (default: demo-output)")
    demo.add_argument("--only", default="", metavar="NAME", help="one program by name")
    demo.set_defaults(run=_demo)

    doctor = commands.add_parser("doctor", help="what was found on this machine, and what to do about the rest")
    doctor.set_defaults(run=_doctor)

    explain = commands.add_parser("explain", help="what became of a function: graphs, breaks, kernels, guards")
    _add_target(explain)
    explain.set_defaults(run=_explain)

    compare = commands.add_parser("compare", help="eager, minicompile and torch.compile side by side")
    _add_target(compare)
    compare.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    compare.add_argument("--rounds", type=_count, default=9, help="turns that each candidate gets (default: 9)")
    compare.add_argument("--html", type=_file, metavar="FILE", help="write a page that shows every stage side by side")
    compare.add_argument("--json", type=_file, metavar="FILE", help="write everything as data")
    compare.set_defaults(run=_compare)

    explore = commands.add_parser("explore", help="every stage of a function on one page, linked line by line")
    _add_target(explore, repeated=True)
    explore.add_argument("--out", type=_file, metavar="FILE", help="the page (default: the function's name with .html)")
    explore.set_defaults(run=_explore)

    trace = commands.add_parser("trace", help="compilation and kernels for chrome://tracing or ui.perfetto.dev")
    _add_target(trace)
    trace.add_argument("--out", type=_file, default="trace.json", metavar="FILE", help="default: trace.json")
    trace.set_defaults(run=_trace)

    only = commands.add_parser("compile-only", help="the kernels for a GPU that is not there, as machine code")
    _add_target(only)
    only.add_argument("--arch", type=_count, default=90, help="NVIDIA architecture: 80, 90, 100… (default: 90, Hopper)")
    only.add_argument("--tune", action="store_true", help="matrix products too, as mode='max-autotune' would try them")
    only.add_argument("--out", metavar="DIR", help="write each kernel's cubin and Triton text")
    only.set_defaults(run=_compile_only)

    cache = commands.add_parser("cache", help="the folder of compiled kernels")
    cache.add_argument("action", choices=("info", "clear"))
    cache.set_defaults(run=_cache)
    return parser


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


def _file(text: str) -> str:
    """A file to write: that its folder is missing is said now, not when all is done."""
    folder = Path(text).absolute().parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    return text


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
        from .codegen.cubins import cubins_of_call, write
        from .errors import BackendError

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
