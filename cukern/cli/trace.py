"""``python -m cukern trace``: what the kernels of a program do in memory, a page a launch."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from . import program

DESCRIPTION = """Run a script or a module on the host, and write a page of HTML for each launch: which thread touched
which element, the sectors that each line moves, bank conflicts of shared memory, idle lanes, registers, spills,
occupancy, floating-point operations, the least time of memory and of arithmetic, barriers and asynchronous copies in
their order. Of launches of one kernel, grid and block the first is traced. Arguments of the program follow after --."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.usage = "%(prog)s PROGRAM [option ...] [-- ARGUMENT ...]"
    parser.add_argument("program", metavar="PROGRAM", help="a script, or the name of a module")
    parser.add_argument("--kernel", default="", metavar="TEXT", help="only kernels whose names contain it")
    parser.add_argument(
        "--blocks", type=int, default=2, metavar="N", help="of a launch (default: %(default)s)"
    )
    parser.add_argument("--most", type=int, default=20, metavar="N", help="launches (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("trace"), help="folder (default: %(default)s)")
    parser.add_argument(
        "--arch", default="sm_90", help="of a GPU, which need not be here (default: %(default)s)"
    )
    parser.add_argument("--gpu", default="H200", help="whose least time is given (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program and write the pages; return the exit status."""
    from ..device import device
    from ..testing import traced
    from ..testing.trace_page import summary

    try:
        with device("host"), traced(options.kernel, blocks=options.blocks, most=options.most) as traces:
            status = program.run(options.program, options.arguments)
        if traces:
            options.out.mkdir(parents=True, exist_ok=True)
        for number, trace in enumerate(traces, 1):
            path = options.out / f"{number:02}-{re.sub(r'[^A-Za-z0-9_.-]', '_', trace.kernel)}.html"
            trace.save(path, options.arch, options.gpu)
            print(f"{trace}\n{summary(trace, options.arch, options.gpu)}\n{path}\n")
    except ValueError as error:
        print(f"trace: {error}")
        return 2
    if not traces:
        why = f"failed (status {status})" if status else "launches no such kernel on the host"
        print(f"no launch was traced: the program {why}")
    return int(bool(status))
