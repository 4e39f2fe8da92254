"""``python -m cukern build``: the kernels of a program in one file, compiled for machines that are not here."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..device.bundle_file import TEMPLATES, BundleFile, Code, Target, write
from ..device.cuda import architectures
from ..device.host import processors

DESCRIPTION = """Run a program once for each architecture, and write every kernel that it launches, compiled, to a file.

No GPU is needed: for a GPU's architecture kernels are planned as on that GPU and run on the host, so that the program
computes what it computes elsewhere. A kernel that this run does not launch is not in the file, such as one of another
shape, dtype or branch. Arguments of the program follow after --."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.usage = "%(prog)s [PROGRAM] --arch ARCH[,ARCH ...] --out BUNDLE [option ...] [-- ARGUMENT ...]"
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help="a script, or the name of a module")
    parser.add_argument(
        "--arch",
        required=True,
        help="what to compile for, separated by commas: sm_80, sm_90 (sm_90a is the same), ...; host, for processors "
        "like this one; host:x86-64-v3, for all of a level of x86-64",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="BUNDLE", help="the file to write")
    parser.add_argument(
        "--list",
        type=Path,
        metavar="FILE",
        help="kernels, each line as render takes it: template var=value ...",
    )
    parser.add_argument(
        "--multiprocessors",
        type=int,
        metavar="N",
        help="of the GPU, where they are not those of most of its kind",
    )
    parser.add_argument(
        "--shared-memory", type=int, metavar="BYTES", help="the most that a block of the GPU takes, likewise"
    )


def run(options: argparse.Namespace) -> int:
    """Write the bundle; return the exit status."""
    names = list(dict.fromkeys(_canonical(name.strip()) for name in options.arch.split(",")))
    names.sort(key=processors.preference)  # a process takes the first that it can run
    gpus = [name for name in names if name.startswith("sm_")]
    if options.program is None and options.list is None:
        print("build: expected a program, or kernels by --list", file=sys.stderr)
        return 2
    if not options.out.absolute().parent.is_dir() or options.out.is_dir():
        print(f"--out: expected a file in a folder that exists, got '{options.out}'", file=sys.stderr)
        return 2
    limits = {"--multiprocessors": options.multiprocessors, "--shared-memory": options.shared_memory}
    for option, value in limits.items():
        if value is not None and (value < 1 or len(gpus) != 1):
            print(
                f"{option}: expected a positive number, with one GPU in --arch, got {value}", file=sys.stderr
            )
            return 2
    parts: list[tuple[Target, Sequence[Code]]] = []
    templates: dict[str, Code] = {}
    with tempfile.TemporaryDirectory(prefix="cukern-") as folder:
        for name in names:
            path = Path(folder) / "part"
            if status := _record(name, path, options):
                return status
            part = BundleFile(path)
            kernels, python = (part.codes(number) for number in range(2))
            parts.append((part.targets[0], kernels))
            templates |= {code.key: code for code in python}
    write(options.out, __version__, [*parts, (Target(TEMPLATES, {}), list(templates.values()))])
    return 0


def _canonical(name: str) -> str:
    """The name of a target in a bundle."""
    if name.partition(":")[0] == "host":
        processors.march(name)
        return name
    return "sm_{}{}".format(*architectures.capability(name))


def _record(name: str, path: Path, options: argparse.Namespace) -> int:
    """Run the program for one target in a process of its own, which writes a bundle; return its exit status."""
    on_host = name.startswith("host")
    given = {"--program": options.program, "--list": options.list}
    if not on_host:
        given |= {"--multiprocessors": options.multiprocessors, "--shared-memory": options.shared_memory}
    command = [sys.executable, "-m", "cukern.cli.record", f"--target={name}", f"--out={path}"]
    command += [f"{option}={value}" for option, value in given.items() if value is not None]
    environment = {**os.environ, "CUKERN_DEVICE": "host" if on_host else "cuda:0", "CUKERN_BUNDLE": ""}
    if name == "host":  # what the program runs is what the bundle takes
        environment["CUKERN_QUICK_BUILDS"] = "0"
    return subprocess.run([*command, "--", *options.arguments], env=environment).returncode
