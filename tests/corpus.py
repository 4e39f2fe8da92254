"""Kernels of other people's programs, compiled for the host, and launched checked on generated arguments.

``python tests/corpus.py CHECKOUT [--out FILE] [--launch] [--jobs N] [--only TEXT]`` takes each ``.cu`` file below
CHECKOUT, such as one of github.com/zjin-lcf/HeCBench, and each of its kernels that NVRTC compiles with what the file
includes from its own folder. It counts those that the host compiles, and, with --launch, what launches in checked mode
end with: a result, a report, or a crash. Nothing of the checkout is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cukern as ck
from cukern.device import nvrtc
from cukern.device.interface import CompilerFailure
from cukern.text import entry, render

#: Elements of each array, and the values of integers and floats, in a launch.
_ELEMENTS, _INTEGER, _FLOAT = 4096, 64, 1.0
_BLOCK, _GRID, _SHARED = 64, 2, 16384
#: Of a file; and of a launch that is not checked, of which a checked one takes ten times as many.
_SECONDS, _LAUNCH_SECONDS = 900, 1


def _instance(name: str, parameters: list[tuple[str, bool, str]]) -> str:
    """A kernel's name with arguments for its template: float for types, 32 for numbers."""
    values = [default or ("float" if is_type else "32") for _, is_type, default in parameters]
    return f"{name}<{', '.join(values)}>" if values else name


def _first_error(text: str) -> str:
    lines = [line for line in text.split("\n") if "error" in line] or text.split("\n")
    return lines[0].strip()[:200]


def one_file(path: Path, launch: bool) -> list[dict[str, Any]]:
    """What became of each kernel of a file."""
    found = []
    try:
        source = ck.Kernel(path, block=_BLOCK, checked=True, plain=True)
        names = entry.kernels(render.render(source.template, {}, plain=True).text)
    except (ck.CukernError, OSError) as error:
        return [{"file": str(path), "kernel": "", "state": "not read", "why": str(error)[:200]}]
    for name, parameters in names.items():
        row: dict[str, Any] = {"file": str(path), "kernel": _instance(name, parameters)}
        found.append(row)
        try:
            kernel = source[row["kernel"]]
            text = kernel.source()
            nvrtc.compile(text, "sm_90", options=["--Ofast-compile=max", nvrtc.PLAIN])
        except CompilerFailure as error:
            row.update(state="not for NVRTC", why=_first_error(error.log))
            continue
        except ck.TemplateError as error:
            row.update(state="not for NVRTC", why=_first_error(str(error)))
            continue
        try:
            bound = kernel.bind("host")
        except ck.LaunchError:  # its launch bounds allow fewer threads
            try:
                bound = kernel.bind("host", block=32)
            except ck.CukernError as error:
                row.update(state="refused", why=_first_error(str(error)))
                continue
        except ck.CukernError as error:
            row.update(state="refused", why=_first_error(str(error)))
            continue
        row["state"] = "compiled"
        if launch:
            row.update(_launched(kernel, bound))
    return found


def _launched(kernel: ck.Kernel, bound: Any) -> dict[str, str]:
    """What a checked launch of generated arguments ends with."""
    arguments: list[Any] = []
    for param in bound.signature.params:
        if param.kind == "pointer":
            dtype = param.dtype or "uint8"
            arguments.append(ck.ones(_ELEMENTS * (64 if param.dtype is None else 1), dtype))
        elif param.kind == "scalar":
            arguments.append(_FLOAT if param.dtype.kind == "f" else _INTEGER)
        elif param.kind == "table":
            arguments.append([ck.ones(_ELEMENTS, param.dtype) for _ in range(_INTEGER)])
        elif param.kind == "struct":
            arguments.append(bytes(bound.function.param_sizes[len(arguments)]))
        else:
            return {"launch": "not launched", "launch_why": f"{param.kind} {param.type_text}"}
    try:
        with ck.testing.checked(seeds=1, collect=True) as reports:
            bound(arguments, _GRID, _SHARED)
    except (ck.CukernError, ValueError, TypeError) as error:
        return {"launch": "error", "launch_why": f"{type(error).__name__}: {_first_error(str(error))}"}
    if not reports:
        return {"launch": "result"}
    return {"launch": "report", "launch_why": "; ".join(f"{r.kind} {r.place}" for r in reports[:4])}


def _apart(path: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """:func:`one_file` in a process of its own."""
    command = [sys.executable, __file__, str(path), "--alone", *(["--launch"] if options.launch else [])]
    try:
        environment = {"CUKERN_KERNEL_TIMEOUT": str(_LAUNCH_SECONDS), **os.environ}
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return [{"file": str(path), "kernel": "", "state": "hangs", "why": ""}]
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return [{"file": str(path), "kernel": "", "state": "crashes", "why": done.stderr[-300:]}]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--out", type=Path, help="a JSON line for each kernel")
    parser.add_argument("--launch", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="what paths contain")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        with ck.device("host"):
            print(json.dumps(one_file(options.checkout, options.launch)))
        return
    paths = [path for path in sorted(options.checkout.rglob("*.cu")) if options.only in str(path)]
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
