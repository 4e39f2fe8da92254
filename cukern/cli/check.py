"""``python -m cukern check``: a program whose launches on the host are checked."""

from __future__ import annotations

import argparse

from . import program

DESCRIPTION = """Run a script or a module with every launch on the host checked, as by ck.testing.checked, and print
what is found by the template's line: accesses out of bounds, races, unset memory, barriers that some threads miss, and
more. The exit status is 1 if anything is found, or if the program fails. Arguments of the program follow after --."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.usage = "%(prog)s PROGRAM [option ...] [-- ARGUMENT ...]"
    parser.add_argument("program", metavar="PROGRAM", help="a script, or the name of a module")
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="orders of threads in which a kernel runs whose result may depend on it (default: %(default)s)",
    )
    parser.add_argument("--strict", action="store_true", help="report also what right kernels do knowingly")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program and print what was found; return the exit status."""
    from ..device import device
    from ..testing import checked

    try:
        with device("host"), checked(options.seeds, options.strict, collect=True) as reports:
            status = program.run(options.program, options.arguments)
    except ValueError as error:
        print(f"check: {error}")
        return 2
    for report in reports:
        print(f"{report}\n")
    count = len(reports)
    ended = f" in what ran before the program failed (status {status})" if status else ""
    print(f"{count or 'no'} finding{'s' * (count != 1)}{ended}")
    return int(bool(count or status))
