"""Kernels of other people's programs, compiled for the host, and launched checked on generated arguments.

``python tests/corpus.py CHECKOUT [--out FILE] [--launch] [--again] [--jobs N] [--only TEXT] [--include FOLDER]
[--suffix .cuh]`` takes each ``.cu`` file below CHECKOUT, such as one of github.com/zjin-lcf/HeCBench, and each of its
kernels that NVRTC compiles with what the file includes from its own folder. It counts those that the host compiles,
and, with --launch, what launches in checked mode end with: a result, a report, or a crash. With --again a kernel that
ends with a report is launched in other sizes, until one ends with a result: the reports before it were of the
arguments. Nothing of the checkout is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import cukern as ck
from cukern.device import nvrtc
from cukern.device.interface import CompilerFailure
from cukern.text import entry, render


class _Size(NamedTuple):
    """The threads and blocks of a launch, the value of integers, the elements of arrays, whether those rise, and the
    bytes of dynamic shared memory."""

    block: Any
    grid: int
    integer: int
    elements: int
    rising: bool = False
    shared: int = 16384


_SIZES = [
    _Size(64, 2, 64, 4096),
    _Size(1, 1, 64, 1 << 16),
    _Size(256, 1, 256, 1 << 17, shared=49152),
    _Size(256, 1, 256, 1 << 17, True),
    _Size(256, 1, 4, 1 << 16),
    _Size(128, 1, 1, 1 << 14),
    _Size(32, 1, 16, 1 << 16),
    _Size((16, 16), 1, 16, 1 << 16),
    _Size((32, 32), 1, 32, 1 << 17, shared=49152),
    _Size(64, 2, 64, 1 << 17, True),
    _Size(1024, 1, 1024, 1 << 21, shared=49152),
    _Size(1024, 1, 1024, 1 << 21, True),
]
#: The values of floats.
_FLOAT = 1.0
#: Of a file; and of a launch that is not checked, of which a checked one takes ten times as many.
_SECONDS, _LAUNCH_SECONDS = 900, 1
#: The state of a kernel that is being compiled or runs; and what a line with a row begins with, as kernels print too.
_BEGUN, _ROW = "begun", "corpus: "


def _instance(name: str, parameters: list[tuple[str, bool, str]]) -> str:
    """A kernel's name with arguments for its template: float for types, 32 for numbers."""
    values = [default or ("float" if is_type else "32") for _, is_type, default in parameters]
    return f"{name}<{', '.join(values)}>" if values else name


def _first_error(text: str) -> str:
    lines = [line for line in text.split("\n") if "error" in line] or text.split("\n")
    return lines[0].strip()[:200]


def one_file(
    path: Path, launch: bool, again: bool = False, include: tuple[Path, ...] = ()
) -> Iterator[dict[str, Any]]:
    """What became of each kernel of a file, and before it a row that says what is being done."""
    try:
        source = ck.Kernel(path, block=_SIZES[0].block, checked=True, plain=True, include=include)
        names = entry.kernels(render.render(source.template, {}, plain=True).text)
    except (ck.CukernError, OSError) as error:
        yield {"file": str(path), "kernel": "", "state": "not read", "why": str(error)[:200]}
        return
    for name, parameters in names.items():
        row: dict[str, Any] = {"file": str(path), "kernel": _instance(name, parameters)}
        yield {**row, "state": _BEGUN, "why": "while it was compiled"}
        try:
            kernel = source[row["kernel"]]
            nvrtc.compile(kernel.source(), "sm_90", options=["--Ofast-compile=max", nvrtc.PLAIN])
        except CompilerFailure as error:
            yield {**row, "state": "not for NVRTC", "why": _first_error(error.log)}
            continue
        except ck.TemplateError as error:
            yield {**row, "state": "not for NVRTC", "why": _first_error(str(error))}
            continue
        try:
            bound = _bound(kernel)
        except ck.CukernError as error:
            yield {**row, "state": "refused", "why": _first_error(str(error))}
            continue
        row["state"] = "compiled"
        if launch:
            yield {**row, "state": _BEGUN, "why": "while it ran"}
            row.update(_launched(kernel, bound, again))
        yield row


def _bound(kernel: ck.Kernel) -> Any:
    try:
        return kernel.bind("host")
    except ck.LaunchError:  # its launch bounds allow fewer threads
        return kernel.bind("host", block=32)


def _array(elements: int, dtype: Any, size: _Size) -> ck.Array:
    if size.rising and ck.dtypes.info(ck.dtypes.as_dtype(dtype)).kind in "iu":
        return ck.arange(elements).astype(dtype)
    return ck.ones(elements, dtype)


def _launched(kernel: ck.Kernel, bound: Any, again: bool) -> dict[str, str]:
    """What checked launches of generated arguments end with: the first, or one of the others with a result."""
    first = _once(bound, _SIZES[0])
    if again and first["launch"] == "report":
        for size in _SIZES[1:]:
            try:
                bound = kernel.bind("host", block=size.block)
            except ck.LaunchError:  # its launch bounds allow fewer threads
                continue
            if _once(bound, size)["launch"] == "result":
                return {"launch": "result in another size", "launch_why": first["launch_why"]}
    return first


def _once(bound: Any, size: _Size) -> dict[str, str]:
    """What a checked launch of generated arguments ends with."""
    arguments: list[Any] = []
    side = 64
    for param in bound.signature.params:
        if param.kind == "pointer":
            dtype = param.dtype or "uint8"
            arguments.append(_array(size.elements * (64 if param.dtype is None else 1), dtype, size))
        elif param.kind == "scalar":
            arguments.append(_FLOAT if param.dtype.kind == "f" else size.integer)
        elif param.kind == "table":
            arguments.append([_array(size.elements, param.dtype, size) for _ in range(size.integer)])
        elif param.cxx == "cudaTextureObject_t":
            arguments.append(ck.Texture(ck.ones((side, side))))
        elif param.cxx == "cudaSurfaceObject_t":
            arguments.append(ck.Surface(ck.ones((side, side))))
        elif param.kind == "struct":
            arguments.append(bytes(bound.function.param_sizes[len(arguments)]))
        else:
            return {"launch": "not launched", "launch_why": f"{param.kind} {param.type_text}"}
    try:
        with ck.testing.checked(seeds=1, collect=True) as reports:
            bound(arguments, size.grid, size.shared)
    except (ck.CukernError, ValueError, TypeError) as error:
        return {"launch": "error", "launch_why": f"{type(error).__name__}: {_first_error(str(error))}"}
    if not reports:
        return {"launch": "result"}
    return {"launch": "report", "launch_why": "; ".join(f"{r.kind} {r.place}" for r in reports[:4])}


def _apart(path: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """:func:`one_file` in a process of its own; of one that crashes or hangs, the kernels up to there."""
    command = [sys.executable, __file__, str(path), "--alone"]
    command += [option for option in ("--launch", "--again") if getattr(options, option[2:])]
    command += [f"--include={folder}" for folder in options.include]
    environment = {"CUKERN_KERNEL_TIMEOUT": str(_LAUNCH_SECONDS), **os.environ}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, env=environment)
        printed, end, why = done.stdout, "crashes", f"exit status {done.returncode}: {done.stderr[-300:]}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        printed, end, why = output.decode() if isinstance(output, bytes) else output, "hangs", ""
    rows = [json.loads(line[len(_ROW) :]) for line in printed.split("\n") if line.startswith(_ROW)]
    found = [row for row in rows if row["state"] != _BEGUN]
    if end == "hangs" or done.returncode:
        last = rows[-1] if rows else {"file": str(path), "kernel": "", "why": ""}
        found.append({**last, "state": end, "why": f"{last['why']} {why}"})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--out", type=Path, help="a JSON line for each kernel")
    parser.add_argument("--launch", action="store_true")
    parser.add_argument("--again", action="store_true", help="launch what ends with a report in other sizes")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--include", type=Path, action="append", default=[], help="a folder of headers of the build"
    )
    parser.add_argument("--only", default="", help="what paths contain")
    parser.add_argument("--suffix", default=".cu", help="how the names of the files end")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        with ck.device("host"):
            for row in one_file(options.checkout, options.launch, options.again, tuple(options.include)):
                print(f"\n{_ROW}{json.dumps(row)}", flush=True)
        return
    paths = [
        path for path in sorted(options.checkout.rglob(f"*{options.suffix}")) if options.only in str(path)
    ]
    paths = [path for path in paths if "__global__" in path.read_text(errors="replace")]
    rows: list[dict[str, Any]] = []
    if options.out:
        options.out.write_text("")
    with ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda path: _apart(path, options), paths):
            rows += found
            if options.out:
                with options.out.open("a") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in found))
    for what in ("state", "launch"):
        for state, count in Counter(row[what] for row in rows if what in row).most_common():
            print(f"{what} {state}: {count}")
    for row in rows:
        if row["state"] in ("refused", "crashes", "hangs"):
            print(f"{row['file']}: {row['kernel']}: {row['state']}: {row['why']}")


if __name__ == "__main__":
    main()
