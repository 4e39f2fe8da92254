"""The command line: ``python -m cukern info | render | build | check | trace | demo | bench | ...``."""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import __version__
from ..device import Device, current, device, devices
from ..errors import CukernError, DeviceError
from . import check, export, judge, launch, prove, replay, trace, tune, variables

#: The commands that run a program.
_PROGRAMS = ("build", "check", "trace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m cukern", description="GPU arrays from CUDA C++ templates."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="list devices, compilers, versions and caches").set_defaults(run=_info)
    _add_render(commands.add_parser("render", help="print the text of a kernel"))
    _add_build(commands.add_parser("build", help="compile a program's kernels ahead of time"))
    check.add_arguments(commands.add_parser("check", help="run a program with its launches checked"))
    trace.add_arguments(commands.add_parser("trace", help="draw what a program's kernels do in memory"))
    replay.add_arguments(
        commands.add_parser("replay", help="run a launch again that failed on a GPU, checked")
    )
    export.add_arguments(commands.add_parser("export", help="write an operator that needs no cukern"))
    judge.add_arguments(commands.add_parser("judge", help="judge kernels of others by a task's hidden cases"))
    prove.add_arguments(commands.add_parser("prove", help="check a function in all ways, and report on each"))
    _add_demo(commands.add_parser("demo", help="check the fused kernels, then train a character model"))
    _add_bench(commands.add_parser("bench", help="time every kernel family and other libraries"))
    _add_generate(
        commands.add_parser("generate", help="continue a text by the language model of a GGUF file")
    )
    launch.add_arguments(
        commands.add_parser("launch", help="run a script as several processes that work together")
    )
    tune.add_arguments(commands.add_parser("tune", help="measure the variants of kernels on this machine"))
    commands.add_parser("functions", help="list every function, as Markdown").set_defaults(run=_functions)
    own, program = _divided(list(sys.argv[1:] if argv is None else argv))
    options, unknown = parser.parse_known_args(own)
    if unknown:
        hint = "; arguments of the program follow after --" if own[0] in _PROGRAMS else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    options.arguments = program
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status: int = options.run(options)
    except (CukernError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return status


def _divided(argv: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of this program, and those after ``--`` of the program that it runs."""
    if "--" not in argv or argv[0] not in _PROGRAMS:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _functions(options: argparse.Namespace) -> int:
    from .catalog import markdown

    print(markdown(), end="")
    return 0


def _add_render(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("template", help="a template's name, such as nn/layer_norm/forward.cu, or a file")
    parser.add_argument("variables", nargs="*", metavar="var=value", help="such as elem=float32 block=128")
    parser.set_defaults(run=_render)


def _add_build(parser: argparse.ArgumentParser) -> None:
    from .build import add_arguments

    add_arguments(parser)
    parser.set_defaults(run=_build)


def _add_generate(parser: argparse.ArgumentParser) -> None:
    from . import generate

    generate.add_arguments(parser)
    parser.set_defaults(run=generate.run)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="host or cuda:0; the GPU by default where there is one")
    parser.add_argument("--steps", type=_positive, help="training steps (default: %(default)s)", default=800)
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder (default: %(default)s)")
    parser.set_defaults(run=_demo)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="host or cuda:0; the GPU by default where there is one")
    parser.add_argument("--families", nargs="+", metavar="FAMILY", default=[], help="all by default")
    parser.add_argument("--out", type=Path, help="a folder for the table, the numbers and the picture")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    from ..bench.cases import CASES
    from ..bench.report import measured

    known = dict.fromkeys(case.family for case in CASES)
    for family in options.families:
        if family not in known:
            print(f"--families: expected some of {', '.join(known)}, got {family}", file=sys.stderr)
            return 2
    where = current() if options.device is None else Device(options.device)
    os.environ["CUKERN_QUICK_BUILDS"] = "0"
    with device(where):
        return measured(where, options.families, options.out)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _demo(options: argparse.Namespace) -> int:
    from ..demo.run import run

    return run(current() if options.device is None else Device(options.device), options.steps, options.out)


def _render(options: argparse.Namespace) -> int:
    try:
        text = variables.kernel(options.template).source(**variables.parsed(options.variables))
    except (TypeError, ValueError) as error:
        print(f"render: {options.template}: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(text)
    return 0


def _build(options: argparse.Namespace) -> int:
    from . import build

    return build.run(options)


def _info(options: argparse.Namespace) -> int:
    for title, rows in (
        ("versions", _versions()),
        ("devices", _devices()),
        ("compilers", _compilers()),
        ("cache", _cache()),
    ):
        print(title)
        for name, text in rows:
            print(f"  {name:<12}{text}")
    return 0


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", sys.version.split()[0]
    yield "cukern", __version__
    for name in ("numpy", "ml_dtypes", "jinja2", "tree-sitter", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if not name.startswith("cupy"):
                yield name, "not installed"


def _devices() -> Iterator[tuple[str, str]]:
    default = current()
    for one in devices():
        limits = one.properties
        unit = "cores" if one.style == "serial" else "multiprocessors"
        mark = " (default)" if one is default else ""
        yield str(one), f"{limits.name}, {limits.multiprocessors} {unit}{mark}"


def _compilers() -> Iterator[tuple[str, str]]:
    from ..device import nvrtc
    from ..device.host import compiler as host_compiler

    try:
        compiler = host_compiler.compiler()
        yield "host", f"{' '.join(compiler.command)}: {compiler.version.splitlines()[0]}"
    except DeviceError as error:
        yield "host", f"none: {error}"
    try:
        yield "cuda", f"NVRTC {'.'.join(map(str, nvrtc.version()))}, {nvrtc.toolkit().library}"
    except DeviceError as error:
        yield "cuda", f"none: {error}"


def _cache() -> Iterator[tuple[str, str]]:
    from ..device import bundles, disk_cache

    folder = disk_cache.default_folder()
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    yield "folder", str(folder)
    yield "holds", f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    try:
        for bundle in bundles.loaded():
            yield "bundle", f"{bundle.path}, {len(bundle)} kernels for {', '.join(bundle.targets)}"
    except DeviceError as error:
        yield "bundle", f"none: {error}"
