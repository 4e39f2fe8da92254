"""``python -m cukern replay``: a launch that failed on a GPU, run again where there is none."""

from __future__ import annotations

import argparse
import os
import sys

DESCRIPTION = """Run a launch that a program has kept with CUKERN_RECORD=FOLDER again on the host, checked, and print
what is found by the template's line: of a folder the last launch that failed or never ended, or else the last one.
Where nothing is found, its results are compared with those of the GPU. The exit status is 1 if anything is found."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("file", metavar="FILE", help="a file of a launch, or the folder")
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="as of check (default: %(default)s)"
    )
    parser.add_argument("--strict", action="store_true", help="as of check")
    parser.add_argument(
        "--timeout",
        type=int,
        metavar="SECONDS",
        help="until a kernel counts as one that never ends (default: 60)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Replay the launch and print what was found; return the exit status."""
    from ..errors import LaunchError
    from ..testing import replay

    if options.timeout is not None:
        os.environ["CUKERN_KERNEL_TIMEOUT"] = str(options.timeout)
    try:
        result = replay(options.file, seeds=options.seeds, strict=options.strict)
    except (LaunchError, OSError, ValueError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    print(f"{result.path}\n{result}")
    return int(result.found)
