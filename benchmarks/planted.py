"""The planted mistakes of the tests, as checked launches find them, unchecked ones, and NVIDIA's compute-sanitizer.

    python benchmarks/planted.py --out host.jsonl                      # checked launches, on the host
    python benchmarks/planted.py --unchecked --out usual.jsonl         # unchecked launches, on the host
    python benchmarks/planted.py --sanitizer --out gpu.jsonl           # compute-sanitizer, with a GPU
    python benchmarks/planted.py --set public --out public.jsonl       # another set of mistakes
    python benchmarks/planted.py --set unseen --out unseen.jsonl       # and a third, unseen2 or unseen3
    python benchmarks/planted.py --table host.jsonl gpu.jsonl ...      # the Markdown table of all

The mistakes are those of ``tests/device/planted.py``, ``planted_more.py`` and ``planted_memory.py``; with
``--set public`` those of ``benchmarks/planted_set``, and with ``--set unseen``, ``unseen2`` or ``unseen3`` those
of ``benchmarks/unseen_set``, ``unseen_set_2`` or ``unseen_set_3``, where a report counts as one with a line if it
names a line marked ``//!``. Each tool of compute-sanitizer runs the wrong kernels, and the right ones for false
alarms. After a launch that ends the CUDA context, a new process goes on with the next one.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "device"))

import numpy as np

import cukern as ck
from cukern.testing import checked

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
#: Seconds for a process under a tool.
PATIENCE = 30.0
#: What the tools write for something that they found.
_FOUND = re.compile(
    r"^=+ (?:Error:|Warning:|Invalid|Uninitialized|Barrier error|Race|Potential|Misaligned|Illegal)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Public:
    """A kernel of a folder, as right and, where it has ``⟦right|||wrong⟧``, as wrong text.

    One that is called ``planted`` is a template; others are CUDA C++ as it stands.

    Attributes:
        kinds: the class of the mistake.
        name: what it is.
        launch: ``grid``, ``block`` and ``shared``.
        arguments: a Python expression, in which ``f``, ``z``, ``k``, ``a``, ``r`` and ``i`` make arrays.
        body: the text.
    """

    kinds: str
    name: str
    launch: dict[str, Any]
    arguments: str
    body: str

    @property
    def pair(self) -> bool:
        return "⟦" in self.body

    def text(self, wrong: bool) -> str:
        chosen = re.sub("⟦(.*?)⟧", lambda choice: choice[1].split("|||")[wrong], self.body, flags=re.DOTALL)
        return chosen.replace("__global__ void planted(", 'extern "C" __global__ void << name >>(')

    def named(self, places: Sequence[str]) -> bool:
        """Whether one of the places in reports, as ``<planted 3eb543ce>:7``, is a line where the mistake is."""
        rows = self.text(wrong=True).split("\n")
        lines = {str(number) for number, row in enumerate(rows, 1) if "//!" in row}
        return any(place.startswith("<planted") and place.rpartition(":")[2] in lines for place in places)

    def run(self, wrong: bool, **more: Any) -> list[Any]:
        options = dict(self.launch)
        block, plain = options.pop("block", 64), "__global__ void planted(" not in self.body
        kernel = ck.Kernel(self.text(wrong), block=block, name="planted", plain=plain, **more)
        random = np.random.default_rng(7)
        makers = {
            "ck": ck,
            "f": lambda n: ck.linspace(1, 2, n, dtype=ck.float32),
            "z": lambda n, dtype="float32": ck.zeros(n, dtype),
            "k": lambda n, below: (ck.arange(n, dtype="int32") * 7) % below,
            "a": lambda n: ck.arange(n, dtype="int32"),
            "r": lambda n: ck.asarray(random.random(n, np.float32)),
            "i": lambda n, below: ck.asarray(random.integers(0, below, n, np.int32)),
        }
        args = list(eval(f"({self.arguments},)", makers))
        kernel(*args, **options)
        return args


def public(folder: str = "planted_set") -> list[Public]:
    """The kernels of a folder: a header ``## class: name | launch | arguments``, then the text."""
    found = []
    for path in sorted((Path(__file__).parent / folder).glob("*.cu")):
        for entry in path.read_text().split("## ")[1:]:
            header, _, body = entry.partition("\n")
            title, launch, arguments = (part.strip() for part in header.split("|"))
            kind, _, name = title.partition(": ")
            words = re.findall(r"(\w+)=(\([^)]*\)|\d+)", launch)
            options = {word: ast.literal_eval(value) for word, value in words}
            found.append(Public(kind, name, options, arguments, body))
    return found


#: The folders of the other sets.
FOLDERS = {
    "public": "planted_set",
    "unseen": "unseen_set",
    "unseen2": "unseen_set_2",
    "unseen3": "unseen_set_3",
}
#: The set in use: ``tests`` or one of ``FOLDERS``.
CHOSEN = ["tests"]


@cache
def pairs() -> list[Any]:
    """The planted mistakes."""
    if CHOSEN[0] != "tests":
        return public(FOLDERS[CHOSEN[0]])
    from planted import PAIRS
    from planted_memory import MEMORY
    from planted_more import MORE

    return [*PAIRS, *MORE, *MEMORY]


def on_host(out: Any) -> None:
    """Each wrong and each right kernel, launched checked."""
    with ck.device("host"):
        for number, pair in enumerate(pairs()):
            for wrong in (True, False) if getattr(pair, "pair", True) else (False,):
                with checked(collect=True) as reports:
                    kept = pair.run(wrong=wrong)
                del kept
                if isinstance(pair, Public):
                    line = pair.named([place for one in reports for place in (one.place, one.other_place)])
                    said = [f"{one.place} {one.message}" for one in reports]
                    _tell(out, number, wrong, "checked", bool(reports), line, said)
                    continue
                found = [one for one in reports if one.kind in pair.expected.split(",")] if wrong else reports
                line = any(one.place.startswith("<planted") for one in found)
                _tell(out, number, wrong, "checked", bool(found), line)


def _tell(
    out: Any, number: int, wrong: bool, tool: str, found: bool, line: bool, said: Sequence[str] = ()
) -> None:
    pair = pairs()[number]
    row = {"class": pair.kinds, "name": pair.name, "wrong": wrong, "tool": tool, "found": found, "line": line}
    if said:
        row["said"] = said
    print(json.dumps(row), file=out, flush=True)


def child_on_host(wrong: bool, numbers: list[int]) -> None:
    """Launch some kernels unchecked on the host, between marks on the standard output."""
    for number in numbers:
        print(f"BEGIN {number}", flush=True)
        try:
            with ck.device("host"):
                pairs()[number].run(wrong=wrong)
        except ck.KernelFault as fault:
            print(f"= Error: {fault}", flush=True)


def child(wrong: bool, numbers: list[int]) -> None:
    """Launch some kernels on the GPU, between marks on the standard output; end at the first error."""
    import cupy

    cupy.cuda.set_allocator(None)  # each array an allocation of its own, whose end memcheck knows
    for number in numbers:
        print(f"BEGIN {number}", flush=True)
        try:
            kept = pairs()[number].run(wrong=wrong)
        except (ck.CompileError, ck.DeviceError, ck.LaunchError) as refusal:
            print(f"REFUSED {refusal}", flush=True)
            continue
        cupy.cuda.Device().synchronize()
        del kept
        time.sleep(0.2)  # the tool writes by itself


def launched(tool: str, wrong: bool, numbers: list[int], deadline: float, out: Any) -> None:
    """Run some kernels under one tool, or unchecked on the host."""
    rest = list(numbers)
    while rest and time.monotonic() < deadline:
        words = ",".join(map(str, rest))
        command = [sys.executable, __file__, "--set", CHOSEN[0], "--child", words]
        command = (
            ["compute-sanitizer", "--tool", tool, *command] if tool in TOOLS else [*command, "--unchecked"]
        )
        left = max(1.0, min(PATIENCE, deadline - time.monotonic()))
        try:
            done = subprocess.run(
                [*command, *(["--right"] if not wrong else [])], capture_output=True, text=True, timeout=left
            )
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:  # a kernel that never ends: go on after it
            said = (late.stdout or b"").decode()
        pieces = re.split(r"^BEGIN (\d+)$", said, flags=re.MULTILINE)
        if len(pieces) < 3:
            print(json.dumps({"failed": said[-400:]}), file=sys.stderr)
            return
        for number, text in zip(pieces[1::2], pieces[2::2], strict=True):
            own = text.partition("SUMMARY")[0]
            if "REFUSED" in own:
                print(json.dumps({"refused": pairs()[int(number)].name, "why": own[-400:]}), file=sys.stderr)
                continue
            pair, places = pairs()[int(number)], re.findall(r"<planted[^>]*>:\d+", own)
            line = pair.named(places) if isinstance(pair, Public) else bool(places)
            _tell(out, int(number), wrong, tool, _FOUND.search(own) is not None, line)
        rest = [number for number in rest if str(number) not in pieces[1::2]]


def by_processes(
    tools: Sequence[str], out: Any, seconds: float, processes: int, done: Path | None = None
) -> None:
    """All kernels under all tools but those with results in ``done``, the wrong ones first."""
    deadline = time.monotonic() + seconds
    rows = [json.loads(line) for line in done.read_text().splitlines()] if done else []
    known = {(row["tool"], row["wrong"], row["class"], row["name"]) for row in rows}
    jobs = []
    for wrong in (True, False):
        for tool in tools:
            names = ((number, pair.kinds, pair.name) for number, pair in enumerate(pairs()))
            left = [number for number, *name in names if (tool, wrong, *name) not in known]
            left = [number for number in left if not wrong or getattr(pairs()[number], "pair", True)]
            ends = wrong and tool == "memcheck"  # most launches of the tests' mistakes end the context there
            step = (1 if ends else 8) if CHOSEN[0] == "tests" else (4 if ends else 16)
            jobs += [(tool, wrong, left[at : at + step]) for at in range(0, len(left), step)]
    with ThreadPoolExecutor(processes) as pool:
        for job in [pool.submit(launched, *job, deadline, out) for job in jobs]:
            job.result()


def table(paths: list[Path]) -> str:
    """A row for each class: how many mistakes each tool finds (with the line) of those that it ran."""
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines() if line[:1] == "{"]
    found = list({(row["tool"], row["wrong"], row["class"], row["name"]): row for row in rows}.values())
    tools = [tool for tool in ("unchecked", "checked", *TOOLS) if any(one["tool"] == tool for one in found)]
    classes = list(dict.fromkeys(one["class"] for one in found))
    lines = ["| class | mistakes | " + " | ".join([*tools, "any tool of NVIDIA's"]) + " |"]
    lines.append("| --- " * (len(tools) + 3) + "|")
    for kind in [*classes, "all"]:
        own = [one for one in found if one["wrong"] and kind in (one["class"], "all")]
        names = {(one["class"], one["name"]) for one in own}
        cells = []
        for tool in tools:
            mine = [one for one in own if one["tool"] == tool]
            found_with = [
                sum(one["found"] and (one["line"] or not lined) for one in mine) for lined in (False, True)
            ]
            cells.append(f"{found_with[0]} ({found_with[1]}) of {len(mine)}" if mine else "")
        by_tools = [one for one in own if one["tool"] in TOOLS]
        either = {(one["class"], one["name"]) for one in by_tools if one["found"]}
        cells.append(str(len(either)) if by_tools else "")
        lines.append(f"| {kind} | {len(names)} | " + " | ".join(cells) + " |")
    alarms = {
        tool: sum(one["found"] for one in found if not one["wrong"] and one["tool"] == tool) for tool in tools
    }
    runs = {tool: sum(not one["wrong"] and one["tool"] == tool for one in found) for tool in tools}
    lines += [
        "",
        "False alarms: " + ", ".join(f"{tool} {alarms[tool]} of {runs[tool]}" for tool in tools) + ".",
    ]
    return "\n".join(lines)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sanitizer", action="store_true", help="run compute-sanitizer instead of checked launches"
    )
    parser.add_argument("--unchecked", action="store_true", help="launch unchecked, on the host")
    parser.add_argument("--set", choices=("tests", *FOLDERS), default="tests", help="which mistakes")
    parser.add_argument("--seconds", type=float, default=80, help="for compute-sanitizer")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--done", type=Path, help="results of compute-sanitizer that are not run again")
    parser.add_argument("--out", type=Path, help="a file for the results, one JSON object a line")
    parser.add_argument("--table", type=Path, nargs="+", help="files of results to show as a table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--right", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    CHOSEN[0] = options.set
    out = sys.stdout if options.out is None else options.out.open("w")
    if options.child:
        run = child_on_host if options.unchecked else child
        run(not options.right, [int(word) for word in options.child.split(",")])
    elif options.table:
        print(table(options.table))
    elif options.unchecked:
        by_processes(["unchecked"], out, 3600, 1)
    elif options.sanitizer:
        by_processes(TOOLS, out, options.seconds, options.processes, options.done)
    else:
        on_host(out)


if __name__ == "__main__":
    main()
