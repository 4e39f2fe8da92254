"""What both parts of :mod:`mutation` share: a test run with limits, and the table of what became of the mutants."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OUTCOMES = ("noticed", "survived", "equivalent", "not reached", "timeout")


class Limit(NamedTuple):
    """How long a mutant may take.

    Attributes:
        cpu: seconds of each process, which other work on the machine does not use up.
        wall: seconds in all, for mutants that wait for what never comes.
    """

    cpu: int
    wall: int


class Ended(NamedTuple):
    """How a run ended: the exit status, negative for a signal's number, and whether a limit was the reason."""

    status: int
    late: bool


def limited(limit: Limit) -> None:
    """Put this process into a group of its own, which may use so much CPU time."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (limit.cpu, limit.cpu + 5))


def ended(child: int, limit: Limit) -> Ended:
    """Wait for a child process that called :func:`limited`; end its group when its time is over."""
    late = False

    def kill(*_: object) -> None:
        nonlocal late
        late = True
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.alarm(limit.wall)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, late or code == -signal.SIGXCPU)


def run(command: Sequence[str], folder: Path, environment: dict[str, str], limit: Limit, log: Path) -> Ended:
    """Run a command, and all that it starts, within limits; its output goes to a file."""
    with log.open("wb") as file:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: limited(limit),
        )
        found = ended(child.pid, limit)
        child.returncode = found.status
    return found


def outcome(found: Ended) -> str:
    """What became of a mutant whose tests ended so: no failure is a survivor, and no end is not counted."""
    return "timeout" if found.late else "survived" if found.status == 0 else "noticed"


def results(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """What files of results hold; of two outcomes of one mutant the later."""
    lines_of = (json.loads(line) for path in paths for line in path.read_text().splitlines())
    return list({(one["file"], one["diff"]): one for one in lines_of}.values())


def survivors(paths: Sequence[Path]) -> set[tuple[str, str]]:
    """File and change of each survivor."""
    return {(one["file"], one["diff"]) for one in results(paths) if one["outcome"] in ("survived", "timeout")}


def table(paths: Sequence[Path], as_read: Callable[[dict[str, Any]], tuple[str, str]]) -> str:
    """The score of each room, the survivors, and those that were read and do not count, with the reasons."""
    found, reasons = results(paths), []
    for one in found:
        if one["outcome"] == "survived":
            one["outcome"], why = as_read(one)
            if why:
                head = one["diff"].partition("\n")[0]
                reasons.append(f"- {one['outcome']}: `{one['file']}`, {head}: {why}")
    rooms: dict[str, list[str]] = {}
    for one in found:
        rooms.setdefault(one["file"].rpartition("/")[0], []).append(one["outcome"])
    lines = [f"| room | mutants | {' | '.join(OUTCOMES)} | score |", "| --- " * 8 + "|"]
    for room, outcomes in [*sorted(rooms.items()), ("all", [one["outcome"] for one in found])]:
        counts = [outcomes.count(word) for word in OUTCOMES]
        tried = counts[0] + counts[1]
        score = f"{counts[0] / tried:.0%}" if tried else ""
        lines.append(f"| {room} | {len(outcomes)} | " + " | ".join(map(str, counts)) + f" | {score} |")
    for one in found:
        if one["outcome"] == "survived":
            head, *change = one["diff"].split("\n")
            lines += ["", f"`{one['file']}`, {head}", "", "```diff", *change, "```"]
    return "\n".join([*lines, "", *sorted(reasons)])
