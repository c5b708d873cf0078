"""The command line: `minicompile demo | doctor | explain | cache`.

In: arguments. Out: rich tables on the terminal, files where asked. argparse does the reading; each command is one
function.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


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
    demo.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    demo.add_argument("--out", default="demo-output", metavar="DIR", help="where the stages' files go")
    demo.add_argument("--only", default="", metavar="NAME", help="one program by name")
    demo.set_defaults(run=_demo)

    doctor = commands.add_parser("doctor", help="what was found on this machine, and what to do about the rest")
    doctor.set_defaults(run=_doctor)

    explain = commands.add_parser("explain", help="graphs, breaks, kernels and guards of one example program")
    explain.add_argument("program", help="a name of the demo's table, such as InformationScorer")
    explain.set_defaults(run=_explain)

    cache = commands.add_parser("cache", help="the folder of compiled kernels")
    cache.add_argument("action", choices=("info", "clear"))
    cache.set_defaults(run=_cache)
    return parser


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

    from .examples.programs import PROGRAMS

    if args.program not in PROGRAMS:
        print(f"unknown program {args.program!r}; known: {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    fn, inputs = PROGRAMS[args.program].make("cpu")
    print(minicompile.explain(fn)(*inputs))
    return 0


def _cache(args: argparse.Namespace) -> int:
    from .runtime import cache

    if args.action == "clear":
        print(f"removed {cache.clear()} entries from {cache.cache_dir()}")
    else:
        print(cache.info())
    return 0
