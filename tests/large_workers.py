"""``tests/large.py --workers N``: N processes share the cases; what found no memory runs again, alone."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def _started(arguments: Sequence[str]) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("large.py")
    return subprocess.Popen(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run(elements: int, workers: int, seconds: float, only: Sequence[str]) -> int:
    """Run all cases, or those named, and print those that were not right; the exit status."""
    start = time.monotonic()
    given = ["--elements", str(elements), *(["--only", *only] if only else [])]
    # The last part of the time is for those that find no memory.
    each = ["--seconds", str(0.75 * seconds)]
    running = [_started([*given, *each, "--slice", f"{k}/{workers}"]) for k in range(workers)]
    lines = [line for one in running for line in one.communicate()[0].splitlines()]
    short = [found[1] for line in lines if (found := re.match(r"(\S.*?): .*OutOfMemory", line))]
    if short:
        left = str(seconds - (time.monotonic() - start))
        (alone, _) = _started(
            ["--elements", str(elements), "--seconds", left, "--only", *short]
        ).communicate()
        lines = [line for line in lines if "OutOfMemory" not in line] + alone.splitlines()
    right = [line for line in lines if ": right, " in line]
    late = [
        name
        for line in lines
        if line.startswith("out of time before: ")
        for name in line.split(": ")[1].split("  ")
    ]
    summaries = [line for line in lines if re.match(r"\d+ elements, slice|without a case", line)]
    for line in lines:
        if line not in right and line not in summaries:
            print(line)
    slow = sorted(right, key=lambda line: -float(line.split()[-2]))[:10]
    print("longest:", "; ".join(slow))
    print(
        f"{elements} elements: {len(right)} right, alone after the others: {short}, "
        f"without time: {len(late)}; {time.monotonic() - start:.0f} s"
    )
    return int(any(": right, " not in line and line not in summaries for line in lines))
