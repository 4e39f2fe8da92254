"""The library's kernels under NVIDIA's compute-sanitizer, on a GPU: each launched once or a few times, of small arrays.

    python tests/sanitize.py --out findings.md             # all four tools; some minutes on 16 cores
    python tests/sanitize.py --tools racecheck --only segments norms

The launches are those by which ``tests/render`` compiles every template, of random numbers; and the kernels of
``tests/device/test_both_devices.py``. They run unchecked first, so that no tool waits for a compiler.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.extend(str(Path(__file__).parent / folder) for folder in ("", "render", "device"))

import array_launches
import layer_launches
import test_both_devices
from array_launches import with_derivatives

import cukern as ck
from cukern import dtypes

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
#: What a tool is not given: initcheck does not see what tensor maps store.
LEFT_OUT = {"initcheck": ("matmul_add_relu-bfloat16",)}
#: How findings begin, and what names the kernel.
WORDS = "Invalid|Uninitialized|Barrier|Race|Potential|Misaligned|Program hit|Illegal|Memory|Unused"
FINDING = re.compile(rf"^========= (?:Error: |Warning: )?((?:{WORDS})\b.*)")
KERNEL = re.compile(r"\bat ([A-Za-z_]\w*)(?:\([^)]*\))?\+0x")
_random = np.random.default_rng(0)


def drawn(dtype: Any, *shapes: tuple[int, ...]) -> list[ck.Array]:
    """Random arrays in place of zeros: floats about 0, small integers."""
    info, made = dtypes.info(ck.empty(0, dtype).dtype), []
    for shape in shapes:
        values: Any = _random.standard_normal(shape)
        if info.kind in "iub":
            values = _random.integers(0, 2 if info.kind == "b" else 5, shape)
        made.append(ck.asarray(np.asarray(values, np.float32)).astype(dtype))
    return made


def launch_places(dtype: Any) -> None:
    """What depends on places, which are zeros in the other launches."""
    x, weights = drawn(dtype, (200, 8), (41, 8))
    places = ck.asarray(_random.integers(0, 7, 200))
    for method in (ck.segment_sum, ck.segment_max):
        method(x, places, 7)
        method(x, ck.sort(places), 7, indices_are_sorted=True)
        method(x, offsets=ck.asarray([0, 60, 60, 200]))
    for line in (x, x[:, 0]):
        ck.maximum.reduceat(line, [0, 5, 5, 60, 199])
        ck.add.reduceat(line, [3, 100])
    with_derivatives(lambda x: x[places], x)
    x.at[places].add(1)
    line = x.reshape((-1,))
    assert ck.nonzero(line > 0)[0].size == line[line > 0].size
    ck.unique(places)
    ck.topk(line, 5)
    ck.searchsorted(ck.sort(line), line)
    ck.histogram(line, 11)
    (long,) = drawn(dtype, (1 << 17,))
    ck.argsort(long)
    ck.median(long)
    with_derivatives(lambda x, w: ck.nn.linear_cross_entropy(x, w, 5 * places, chunks=3), x, weights)
    if dtype == ck.float32:
        whole = _random.random((60, 200)) * (_random.random((60, 200)) < 0.1)
        for a in (ck.sparse.csr_array(whole), ck.sparse.bsr_array(whole, blocksize=(4, 8))):
            with_derivatives(lambda v, x, a=a: a.with_data(v) @ x, a.data, x.astype(a.dtype))


def launch_headers(dtype: Any) -> None:
    """The functions of the prelude's headers."""
    for case in test_both_devices.EXACT.values():
        case(ck.zeros(1).device)


class Job(NamedTuple):
    """A function that launches kernels, and the dtype that it is given."""

    launch: Callable[[Any], None]
    dtype: Any

    @property
    def name(self) -> str:
        return f"{self.launch.__name__.removeprefix('launch_')}-{self.dtype}"


def jobs() -> list[Job]:
    """All that there is to do: layers first."""
    # The structure of launch_sparse is none: its launches are compiled alone.
    layers = [one for one in layer_launches.FLOATING if one is not array_launches.launch_sparse]
    own = [*layers, launch_places, *array_launches.EVERY]
    every = [Job(launch, dtype) for dtype in (ck.float32, ck.bfloat16) for launch in own]
    integers = (launch_places, array_launches.launch_sorting, array_launches.launch_scan)
    return [Job(launch_headers, ck.float32), *every, *(Job(launch, ck.int32) for launch in integers[1:])]


def child(numbers: list[int]) -> None:
    """Run some jobs, with a line before and after each, to the first that ends the CUDA context."""
    if ck.zeros(1).device.kind == "cuda":
        from cupy.cuda import Memory, MemoryPointer, set_allocator

        # Each array is an allocation of its own, whose end memcheck knows. It takes a copy by cp.async of fewer bytes,
        # as of the end of an array, for one of 16, and ends the context there.
        set_allocator(lambda size: MemoryPointer(Memory(size + -size % 16), 0))
    array_launches.arrays = layer_launches.arrays = drawn
    for number in numbers:
        job = jobs()[number]
        print(f"BEGIN {number}", flush=True)
        try:
            job.launch(job.dtype)
            ck.zeros(1).device.synchronize()
        except Exception as error:
            print(f"FAILED {job.name}: {type(error).__name__}: {error}"[:600], flush=True)
            ck.zeros(1).device.synchronize()
        print(f"END {number}", flush=True)


def launched(tool: str | None, numbers: list[int], deadline: float) -> tuple[set[int], str]:
    """Which jobs ended in time, and what was said; a process that a tool ends is followed by another."""
    ended: set[int] = set()
    said, rest = "", list(numbers)
    while rest and time.monotonic() < deadline:
        command = [sys.executable, __file__, "--child", ",".join(map(str, rest))]
        if tool:
            command = ["compute-sanitizer", "--tool", tool, "--print-limit", "2000", *command]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=deadline - time.monotonic()
            )
            now = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            now = (late.stdout or b"").decode()
        said += now
        ended |= {int(one) for one in re.findall(r"^END (\d+)$", now, re.MULTILINE)}
        begun = [int(one) for one in re.findall(r"^BEGIN (\d+)$", now, re.MULTILINE)]
        if not begun:
            return ended, f"{said}\nFAILED to start: {now[-600:]}"
        rest = rest[rest.index(begun[-1]) + 1 :]
    return ended, said


def findings(said: str) -> Counter[tuple[str, str]]:
    """How often each finding comes, by its words and its kernel."""
    found: Counter[tuple[str, str]] = Counter()
    lines = said.splitlines()
    for number, line in enumerate(lines):
        if match := FINDING.match(line):
            text = re.sub(r"0x[0-9a-f]+|\(\d+, ?\d+, ?\d+\)", "_", match[1])[:160]
            kernel = KERNEL.search(" ".join(lines[number : number + 4]))
            found[text, kernel[1] if kernel else "?"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=TOOLS)
    parser.add_argument("--only", nargs="*", default=[], help="jobs whose names have one of these words")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=480, help="for all")
    parser.add_argument(
        "--out", type=Path, help="a file for the table; what the tools say goes beside it, as .log"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child([int(one) for one in options.child.split(",")])
        return
    if ck.zeros(1).device.kind == "host":
        sys.exit("no GPU")
    every = jobs()
    chosen = [
        i for i, job in enumerate(every) if not options.only or any(w in job.name for w in options.only)
    ]
    deadline = time.monotonic() + options.seconds
    parts = [chosen[k :: options.processes] for k in range(min(options.processes, len(chosen)))]
    lines = ["| tool | launching functions | those that ended | findings |", "| --- | --- | --- | --- |"]
    notes, log = [], ""
    with ThreadPoolExecutor(options.processes) as pool:
        start = time.monotonic()
        plain = list(pool.map(lambda part: launched(None, part, deadline), parts))
        print(f"compiled and run in {time.monotonic() - start:.0f} s", flush=True)
        log += "".join(said for _, said in plain)
        waiting = []
        for tool in options.tools:
            given = [[i for i in part if every[i].name not in LEFT_OUT.get(tool, ())] for part in parts]
            waiting.append([pool.submit(launched, tool, part, deadline) for part in given])
        for tool, futures in zip(options.tools, waiting, strict=True):
            results = [one.result() for one in futures]
            said, ended = "".join(one for _, one in results), set().union(*(one for one, _ in results))
            found = findings(said)
            lines.append(f"| {tool} | {len(chosen)} | {len(ended)} | {found.total()} |")
            notes += [f"- {tool}: {n} x {text} ({kernel})" for (text, kernel), n in found.most_common(40)]
            late = [every[i].name for i in chosen if i not in ended]
            notes += [f"- {tool} did not end: {', '.join(late)}"] if late else []
            log += f"\n##### {tool}\n{said}"
            print(lines[-1], f"{time.monotonic() - start:.0f} s", flush=True)
    notes += sorted({f"- {one}" for one in re.findall(r"^FAILED .*$", log, re.MULTILINE)})
    text = "\n".join([ck.zeros(1).device.properties.name, "", *lines, "", *notes, ""])
    print(text)
    if options.out:
        options.out.write_text(text)
        options.out.with_suffix(".log").write_text(log[-12_000_000:])


if __name__ == "__main__":
    main()
