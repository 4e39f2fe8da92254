"""``python -m cukern launch``."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="the number of processes")
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds that the others have to report an error after one has failed (default: %(default)s)",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file")
    parser.add_argument("script_arguments", nargs=argparse.REMAINDER, help="of the script")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Start the ranks and wait for them."""
    if options.ranks < 1 or options.grace < 0:
        print("launch: expected -n of at least 1 and --grace of at least 0", file=sys.stderr)
        return 2
    from ..distributed.launch import launch

    command = [sys.executable, *(["-m"] if options.module else []), options.script, *options.script_arguments]
    return launch(command, options.ranks, options.grace)
