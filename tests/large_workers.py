"""``tests/large.py --workers N``: N processes share the cases; what found no memory runs again, alone."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path


class _Worker:
    """A process with some of the cases; each line that it prints is printed at once, and kept."""

    def __init__(self, arguments: Sequence[str]) -> None:
        script = Path(__file__).with_name("large.py")
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            print(self.lines[-1], flush=True)

    def wait(self) -> list[str]:
        """What it printed, when it has ended."""
        self.process.wait()
        self._reader.join()
        return self.lines


def run(elements: int, workers: int, seconds: float, only: Sequence[str]) -> int:
    """Run all cases, or those named, print them as they end, and their number; the exit status."""
    start = time.monotonic()
    given = ["--elements", str(elements), *(["--only", *only] if only else [])]
    # The last part of the time is for those that find no memory.
    each = ["--seconds", str(0.75 * seconds)]
    running: list[_Worker] = []

    def end(number: int, frame: object) -> None:
        for one in running:
            one.process.kill()
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    running += [_Worker([*given, *each, "--slice", f"{k}/{workers}"]) for k in range(workers)]
    lines = [line for one in running for line in one.wait()]
    short = [found[1] for line in lines if (found := re.match(r"(\S.*?): .*OutOfMemory", line))]
    if short:
        left = str(seconds - (time.monotonic() - start))
        running.append(_Worker(["--elements", str(elements), "--seconds", left, "--only", *short]))
        lines = [line for line in lines if "OutOfMemory" not in line] + running[-1].wait()
    right = [line for line in lines if ": right, " in line]
    late = [
        name
        for line in lines
        if line.startswith("out of time before: ")
        for name in line.split(": ")[1].split("  ")
    ]
    ends = [line for line in lines if re.match(r"\d+ elements, slice|without a case|out of time", line)]
    wrong = [line for line in lines if line not in right and line not in ends]
    print("longest:", "; ".join(sorted(right, key=lambda line: -float(line.split()[-2]))[:10]))
    print("not right:", *wrong, sep="\n  ")
    print(
        f"{elements} elements: {len(right)} right, {len(wrong)} not, alone after the others: {short}, "
        f"without time: {len(late)}; {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return int(bool(wrong or late))
