"""``python -m cukern export``: an operator as a folder that needs no cukern."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = """Write a Function, an operator made by to_torch or to_jax, or a function of arrays that launches kernels
as a folder that needs no cukern: the rendered kernels, what launches them, a binding and a test with stored values.
Where all kernels are those of the file, the operator takes arrays of any sizes; with kernels of the library, those of
the examples."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("operator", metavar="FILE.py::NAME", help="a file, and the name of what it defines")
    parser.add_argument(
        "--to", required=True, choices=["torch", "jax", "cuda"], help="what the folder is for"
    )
    parser.add_argument(
        "--args",
        default="",
        metavar="EXPRESSIONS",
        help="example arguments, evaluated in the file: 'ck.ones((8, 64)), 0.5'; an operator has those of to_torch",
    )
    parser.add_argument("--out", type=Path, help="folder (default: the operator's name)")
    parser.add_argument("--arch", default="sm_80", help="the oldest GPU that runs it (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the folder; return the exit status."""
    from ..device import stand_in
    from ..device.cuda import architectures
    from ..export.record import ExportGpu

    path, _, name = options.operator.partition("::")
    if not Path(path).is_file() or not name.isidentifier():
        print(
            f"export: expected FILE.py::NAME of a file that is there, got {options.operator}", file=sys.stderr
        )
        return 2
    gpu = ExportGpu(architectures.properties(options.arch))
    stand_in("cuda", gpu)
    sys.path.insert(0, str(Path(path).parent.resolve()))
    defined = runpy.run_path(path, run_name=Path(path).stem)
    if name not in defined:
        print(f"export: {path} defines no {name}", file=sys.stderr)
        return 2
    try:
        examples = _examples(options.args, defined)
        operator = _operator(gpu, name, defined[name], examples)
    except (TypeError, ValueError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    from ..export.program import programs
    from ..export.write import tupled, write

    out = options.out or Path(operator.name)
    for written in write(operator, options.to, out):
        print(written)
    for direction, program in programs(operator).items():
        sizes = "any sizes" if program.general else "the sizes of the examples"
        taken = ", ".join(f"{one.name} {tupled(one.shape)}" for one in program.buffers[: program.arguments])
        print(f"{direction}: {len(program.launches)} launches, for {sizes}: {taken}")
    return 0


def _examples(text: str, defined: dict[str, Any]) -> tuple[Any, ...] | None:
    if not text:
        return None
    found = eval(f"({text},)", {**defined})
    return tuple(found)


def _operator(gpu: Any, name: str, found: Any, examples: tuple[Any, ...] | None) -> Any:
    from ..export.operator import operator

    word = re.sub(r"\W", "_", name).lower()
    return operator(gpu, word, found, examples)
