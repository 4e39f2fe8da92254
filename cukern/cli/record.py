"""The process that ``python -m cukern build`` starts for each target: runs the program, compiles what it launched.

The program runs as it would by itself: as ``__main__``, with its own arguments.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from .. import __version__
from ..device import stand_in
from ..device.bundle_file import TEMPLATES, Code, Target, hash_of, write
from ..device.interface import CompilerFailure
from ..device.recording import Recording
from ..errors import CukernError, TemplateError
from ..text import render, signature
from ..text.signature import Unit, stored
from . import program, variables

#: Compiles a unit.
Compile = Callable[[Unit], Code]


def main() -> int:
    """Record a program for one target, and write a bundle of that target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--program")
    parser.add_argument("--list", type=Path)
    parser.add_argument("--multiprocessors", type=int)
    parser.add_argument("--shared-memory", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    recording, render.bytecode.compiled = Recording(), {}
    try:
        target, compiled, first = (_host if options.target.startswith("host") else _gpu)(options, recording)
        for unit in _listed(options.list) if options.list else ():
            recording.note(unit)
        began = time.monotonic()
        if options.program and (status := program.run(options.program, options.arguments)):
            print(f"the program ended with status {status}: no bundle is written", file=sys.stderr)
            return 1
        ran = time.monotonic()
        units = _settled(recording)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            codes = [*first(), *pool.map(compiled, units)]
        templates = [Code(name, key, code) for key, (name, code) in (render.bytecode.compiled or {}).items()]
        write(options.out, __version__, [(target, codes), (Target(TEMPLATES, {}), templates)])
    except (CukernError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    size = sum(len(code.payload) for code in codes)
    print(
        f"{target.name}: {len(units)} kernels, {size / 1e6:.1f} MB; the program took {ran - began:.1f} s, "
        f"compiling {time.monotonic() - ran:.1f} s"
    )
    return 0


def _gpu(
    options: argparse.Namespace, recording: Recording
) -> tuple[Target, Compile, Callable[[], Iterator[Code]]]:
    """Let a GPU that is not here be this process's; how to compile for it."""
    from ..device.cuda import architectures
    from ..device.recording.gpu import RecordedGpu

    target = architectures.target(options.target)
    limits = architectures.properties(target.name, options.multiprocessors, options.shared_memory)
    compiled = partial(architectures.compiled, name=target.name)
    stand_in("cuda", RecordedGpu(limits, recording, compiled))

    def code(unit: Unit) -> Code:
        try:
            payload = compiled(unit)
        except CompilerFailure as failure:
            raise _refused(unit, target, failure) from None
        return Code(unit.signature.name, hash_of(unit.text, unit.trusted), payload, stored(unit))

    return target, code, lambda: iter(())


def _host(
    options: argparse.Namespace, recording: Recording
) -> tuple[Target, Compile, Callable[[], Iterator[Code]]]:
    """Note what this process's host compiles; how to compile it for its target, and the runtime."""
    from ..device import disk_cache
    from ..device.host import compiler, processors
    from ..device.host.translate import source
    from ..device.recording.host import RecordedHost

    target, march = processors.target(options.target), processors.march(options.target)
    stand_in("host", RecordedHost(recording))

    def code(unit: Unit) -> Code:
        try:
            payload = disk_cache.payload(compiler.build_kernel(source(unit), march=march))
        except CompilerFailure as failure:
            raise _refused(unit, target, failure) from None
        return Code(unit.signature.name, hash_of(unit.text, unit.trusted), payload, stored(unit))

    def runtime() -> Iterator[Code]:
        built = compiler.build_runtime(march=march)
        yield Code("runtime", hash_of(compiler.runtime_text()), disk_cache.payload(built))

    return target, code, runtime


def _refused(unit: Unit, target: Target, failure: CompilerFailure) -> CukernError:
    return CukernError(f"kernel {unit.signature.name} does not compile for {target.name}\n{failure.log}")


def _settled(recording: Recording) -> list[Unit]:
    """What was compiled, also by the thread that compiles kernels ahead of need."""
    from ..device import ahead

    ahead.settle()
    return recording.units()


def _listed(path: Path) -> Iterator[Unit]:
    """The kernels that a file lists, a template and its variables a line."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = shlex.split(line, comments=True)
        if words:
            try:
                kernel = variables.kernel(words[0])
                yield signature.parse(
                    kernel.source(**variables.parsed(words[1:])), render.is_own(kernel.template)
                )
            except (TemplateError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
