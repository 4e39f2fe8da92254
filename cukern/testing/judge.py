"""A judge of kernels that were written by others, machines above all: no candidate is trusted."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..device import Device, devices
from .judging.candidate import Refused, parts, screen
from .judging.process import Failed, Process
from .judging.task import Case, Task
from .judging.verdicts import LINES, REASONS, reason_of
from .judging.wants import Want, difference, wanted
from .judging.worker import POISON, timed
from .report import Line, Report
from .shapes import on

Values = npt.NDArray[Any]

__all__ = ["REASONS", "judge"]

#: The launches of the candidate and of the reference that are timed.
TURNS = 15


class _Rejected(Exception):
    def __init__(self, key: str, reason: str, message: str, place: str = "") -> None:
        self.key, self.reason, self.message, self.place = key, reason, message, place
        super().__init__(message)


def judge(
    task: Task,
    text: str,
    *,
    timeout: float = 60.0,
    memory: int = 4 << 30,
    seed: int | None = None,
    name: str = "candidate",
    device: Device | str | None = None,
) -> Report:
    """Judge a kernel that nobody has read: CUDA text alone, by a task.

    The text is searched for what no kernel needs, compiled and launched in a process of its own, which has neither the
    reference nor its results, and limits of time and memory. Its first lines say how it is launched::

        // grid: divide_up(n, 256)
        // block: 256

    Launches on the host are checked once, for accesses out of bounds, races and unset memory, and three times
    unchecked, on outputs full of poison, with other inputs at the same addresses. Results are compared in this process,
    with bounds that follow from the reference's formula. Nothing of Python in a text is executed.

    Args:
        task: what is asked.
        text: the candidate's text.
        timeout: the seconds that its process may take, compiling included; the time of the reference does not count.
        memory: the bytes of memory that its process and its compilers may hold together.
        seed: of hidden sizes and values; drawn, and told by the verdict, if None.
        name: what the verdict calls it.
        device: where it runs besides the host; the first GPU, if there is one, if None; the host for no GPU.

    Returns:
        The verdict: ``verdict.ok``, ``verdict.reason``, one of ``REASONS``, and ``verdict.place``.

    Raises:
        ValueError: the task's reference fails, or a limit is not above 0.

    >>> task = Task("twice(const float x[n], float y[n], int n)", lambda x: 2 * x, [{"n": 100}], values=["normal"])
    >>> text = '''// grid: divide_up(n, 64)
    ... // block: 64
    ... __global__ void twice(const float* x, float* y, int n) {
    ...     int i = blockIdx.x * 64 + threadIdx.x;
    ...     y[i] = 2 * x[i];
    ... }'''
    >>> verdict = judge(task, text)
    >>> verdict.ok, verdict.reason, verdict.place
    (False, 'bounds', 'candidate.cu:5')
    """
    if not (timeout > 0 and memory > 0):
        raise ValueError(f"timeout, memory: expected more than 0, got {timeout}, {memory}")
    chosen = secrets.randbelow(1 << 32) if seed is None else int(seed)
    run = _Judge(task, text, timeout, memory, chosen, name)
    run.run(None if device is None else Device(device))
    return run.report


@dataclass
class _Judge:
    """One judgement.

    Attributes:
        used: the seconds that the candidate's processes have taken.
        places: the first line that writes to each output.
        same: whether equal launches have given equal bits.
    """

    task: Task
    text: str
    timeout: float
    memory: int
    seed: int
    name: str
    found: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    used: float = 0.0
    worst: float = 0.0
    unknown: int = 0
    alone: bool = False
    filtered: bool = False
    same: bool = True

    def __post_init__(self) -> None:
        self.start, self.report = time.monotonic(), Report(f"{self.name} for {self.task.forward.name}")

    def run(self, device: Device | None) -> None:
        """Do all checks, up to the first that fails, and write the lines."""
        failed: _Rejected | None = None
        try:
            self.screened()
            self.on_host()
            self.on_gpu(device)
        except _Rejected as error:
            failed = error
        self.write(failed)

    def screened(self) -> None:
        try:
            screen(self.text)
            parts(self.text)
        except Refused as error:
            place = f"{self.name}.cu:{error.line}" if error.line else ""
            raise _Rejected("text", error.reason, str(error), place) from None
        self.count("text")

    def process(self, device: str) -> Process:
        header = {
            "text": self.text,
            "forward": self.task.signature,
            "backward": self.task.backward,
            "device": device,
        }
        try:
            return Process(header, max(0.1, self.timeout - self.used), self.memory)
        except Refused as error:
            raise _Rejected("build", error.reason, str(error)) from None

    def ask(self, key: str, process: Process, header: Mapping[str, Any], inputs: Mapping[str, Values]) -> Any:
        """What the candidate's process answers; its failure is the candidate's."""
        try:
            answer, results = process.ask(header, inputs)
            self.expected(header, answer, results)
            return answer, results
        except Failed as error:
            reason = error.reason or reason_of(error.kind, str(error))
            where = "build" if reason in ("compile", "signature", "launch") else key
            raise _Rejected(where, reason, self.clean(str(error)), self.clean(error.place)) from None
        except Refused as error:
            raise _Rejected(key, error.reason, str(error)) from None

    def expected(
        self, header: Mapping[str, Any], answer: Mapping[str, Any], results: Mapping[str, Values]
    ) -> None:
        """Reject an answer of another form than the message asks for: something else has written it.

        Raises:
            Refused: it is.
        """
        asks, dtype = header["what"], dtypes.from_cxx(header["cxx"])
        lists = {"plain": ("changed", "guards"), "gradient": ("findings",), "check": ()}.get(
            asks, ("reports",)
        )
        kind = dict if lists == ("reports",) else str
        good = all(
            isinstance(answer.get(name), list) and all(isinstance(one, kind) for one in answer[name])
            for name in lists
        )
        if asks in ("checked", "plain") and not answer.get("reports"):
            for one in self.task.forward.of("out", "inout"):
                got = results.get(one.name)
                wanted = one.sized(header["sizes"]), one.dtype(dtype) if dtype is not None else None
                good = good and got is not None and (got.shape, got.dtype) == wanted
        places = answer.get("places")
        good = good and (asks != "checked" or (isinstance(places, dict) and places.keys() >= results.keys()))
        good = good and (not header.get("timed") or isinstance(answer.get("time"), float))
        if not good:
            raise Refused("crash", "the candidate's process does not answer as it would by itself")

    def clean(self, message: str) -> str:
        """A message with the text's name in place of its label."""
        return re.sub(r"<candidate(?: \w+)?>", f"{self.name}.cu", message)

    def on_host(self) -> None:
        process = self.process("host")
        self.alone = process.alone
        try:
            for name in self.task.dtypes:
                check = {"what": "check", "cxx": self.cxx(dtypes.as_dtype(name))}
                self.filtered = bool(self.ask("build", process, check, {})[0].get("filtered"))
            self.count("build")
            for number, case in enumerate(self.task.cases(self.seed)):
                self.case(process, number, case, checked=True)
            for sizes in self.task.large:
                case = Case("large sizes", "bounds", dict(sizes), dtypes.as_dtype(self.task.dtypes[0]))
                answer, _ = self.ask("large", process, {**self.header(case), "what": "large"}, {})
                self.clear("large", case, answer)
                self.count("large")
            if self.task.backward:
                self.backward(process)
        finally:
            process.close()
            self.used += process.used

    def cxx(self, dtype: dtypes.DType) -> str:
        return dtypes.info(dtype).cxx

    def header(self, case: Case) -> dict[str, Any]:
        return {
            "cxx": self.cxx(case.dtype),
            "sizes": case.sizes,
            "scalars": {
                name: float(value) if isinstance(value, float) else value
                for name, value in self.task.scalars_of(case).items()
            },
            "misaligned": case.misaligned,
        }

    def case(self, process: Process, number: int, case: Case, checked: bool) -> None:
        """Launch a case: once checked, and three times on the same memory."""
        checked = checked and not case.once
        key = {"wrong": "values", "shape": "shapes", "layout": "layouts"}.get(case.reason, "special")
        first = self.task.inputs(case, [self.seed, number, 0])
        second = self.task.inputs(case, [self.seed, number, 1])
        want = self.wanted(first, case)
        wants = want, want if case.once else self.wanted(second, case)
        if checked:
            header = {**self.header(case), "what": "checked"}
            answer, results = self.ask("memory", process, header, first)
            self.clear("memory", case, answer)
            self.places = {name: self.clean(str(answer["places"][name])) for name in results}
            self.compare(key, case, results, wants[0])
            self.count("memory")
        _, before = self.launched(key, process, case, 0, first)
        self.all_written(case, before, wants[0], POISON[0])
        self.compare(key, case, before, wants[0])
        for turn, inputs, want in [] if case.once else [(1, second, wants[1]), (2, first, wants[0])]:
            _, results = self.launched(key, process, case, 1, inputs)
            try:
                self.again(case, results, want, before, turn)
            except _Rejected as error:
                if error.reason == "state" and turn == 1:  # unless it is wrong for these inputs by themselves
                    header = {**self.header(case), "what": "plain", "poison": 0}
                    _, again = self.ask(key, process, header, first)
                    if not any(difference(name, again[name], one).message for name, one in wants[0].items()):
                        self.compare(key, case, results, want)
                raise
        self.count(key)

    def launched(
        self, key: str, process: Process, case: Case, poison: int, inputs: Mapping[str, Values], **more: Any
    ) -> tuple[dict[str, Any], dict[str, Values]]:
        """The answer to an unchecked launch, which leaves its inputs as they were, and its results."""
        header = {**self.header(case), "what": "plain", "poison": poison, **more}
        answer, results = self.ask(key, process, header, inputs)
        self.untouched(case, answer)
        return answer, results

    def clear(self, key: str, case: Case, answer: Mapping[str, Any]) -> None:
        """Reject what a checked launch reports."""
        for one in answer["reports"]:
            report = {name: str(one.get(name, "")) for name in ("kind", "message", "place")}
            reason = reason_of(report["kind"], report["message"])
            where = {"unwritten": "written", "input written": "inputs"}.get(reason, key)
            message = f"{case}: {self.clean(report['message'])}"
            raise _Rejected(where, reason, message, self.clean(report["place"]))

    def untouched(self, case: Case, answer: Mapping[str, Any]) -> None:
        for name in answer["changed"]:
            raise _Rejected("inputs", "input written", f"{case}: {name} is not what it was before the launch")
        for name in answer["guards"]:
            raise _Rejected("memory", "bounds", f"{case}: bytes around {name} were written")
        self.count("inputs")

    def all_written(
        self, case: Case, results: Mapping[str, Values], want: Mapping[str, Want], poison: int
    ) -> None:
        """Reject wrong elements that are poison still."""
        for one in self.task.forward.of("out"):
            values = results[one.name]
            left = (_bits(values).reshape(values.size, -1) == poison).all(axis=1).reshape(values.shape)
            left &= difference(one.name, values, want[one.name]).wrong  # a right number may look like poison
            if left.any():
                index, more = _index(left), int(left.sum()) - 1
                message = f"{case}: {one.name}{index} and {more} more elements were not written"
                raise _Rejected("written", "unwritten", message, self.place(one.name))
        self.count("written")

    def again(
        self,
        case: Case,
        results: Mapping[str, Values],
        want: Mapping[str, Want],
        before: Mapping[str, Values],
        turn: int,
    ) -> None:
        """Compare a further launch: with its reference, and with the bits of the first one."""
        same = all(np.array_equal(_bits(results[name]), _bits(before[name])) for name in results)
        try:
            self.compare("repeated", case, results, want)
        except _Rejected as error:
            reason = "cached" if turn == 1 and same else "state"
            raise _Rejected(
                "repeated", reason, f"launch {turn + 1} of {error.message}", error.place
            ) from None
        self.count("repeated")
        if turn == 2:
            self.same = self.same and same
            if not same and self.task.deterministic:
                raise _Rejected("bits", "nondeterministic", f"{case}: bits differ between two launches")
            self.count("bits")

    def wanted(self, inputs: Mapping[str, Values], case: Case) -> dict[str, Want]:
        """What the reference gives, with bounds."""
        return wanted(self.task, inputs, case, self.seed)

    def compare(self, key: str, case: Case, results: Mapping[str, Values], want: Mapping[str, Want]) -> None:
        """Reject results that are farther from the reference than their bounds."""
        for name, one in want.items():
            found = difference(name, results[name], one)
            self.unknown += found.unknown
            self.worst = max(self.worst, found.worst)
            if found.message:
                reason = "precision" if found.near else case.reason
                raise _Rejected(key, reason, f"{case}: {found.message}", self.place(name))

    def place(self, name: str) -> str:
        """The first line that writes to an output, if the text shows one."""
        found = self.places.get(name, "")
        return found if re.search(r":\d+$", found) else ""

    # ---- the derivative, and the GPU

    def backward(self, process: Process) -> None:
        """kernelcheck of the candidate's derivative."""
        for case in self.task.derivatives(self.seed):
            header = {**self.header(case), "what": "gradient", "seed": self.seed}
            answer, _ = self.ask("backward", process, header, self.task.inputs(case, [self.seed, 99]))
            if answer["findings"]:
                text = self.clean(f"{case}: {answer['findings'][0]}")
                raise _Rejected("backward", "gradient", text, self.clean(str(answer.get("place", ""))))
            self.count("backward", int(answer.get("cases", 1)))
            notes = self.found.setdefault("backward", [])
            notes += [note for note in map(str, answer.get("notes", [])[:2]) if note not in notes]

    def on_gpu(self, device: Device | None) -> None:
        """The same launches on a GPU, if there is one, and their times beside the reference's."""
        gpus = [one for one in ([device] if device is not None else devices()) if not one.addressable]
        if not gpus:
            self.skipped["gpu"] = "there is no GPU"
            return
        process = self.process(str(gpus[0]))
        try:
            for number, case in enumerate(self.task.cases(self.seed)):
                self.case(process, number, case, checked=False)
            self.count("gpu")
            self.timed(process, gpus[0])
        except _Rejected as error:
            raise _Rejected("gpu", "device", f"{error.message} ({error.reason})", error.place) from None
        finally:
            process.close()
            self.used += process.used

    def timed(self, process: Process, device: Device) -> None:
        """Time the candidate and the reference by turns; results of each timed launch count too.

        Inputs and poison change with each, so that none can leave what an earlier one did.
        """
        case = next(self.task.cases(self.seed))
        pairs = [
            (one, self.wanted(one, case))
            for one in (self.task.inputs(case, [self.seed, 0, i]) for i in (2, 3))
        ]
        own: list[float] = []
        theirs: list[float] = []
        for turn in range(TURNS):
            poison = turn % 2
            inputs, want = pairs[poison]
            answer, results = self.launched("gpu", process, case, poison, inputs, timed=True)
            self.compare("gpu", case, results, want)
            own.append(answer["time"])
            theirs += _reference_time(self.task, inputs, case, device)
        said = f"{np.median(own):.4f} ms"
        if theirs:
            ratio = np.median(theirs) / np.median(own)
            said += f", the reference {np.median(theirs):.4f} ms: {ratio:.2f} times as fast"
        self.found.setdefault("gpu", []).append(f"{case}: {said}")

    # ---- the report

    def count(self, key: str, more: int = 1) -> None:
        self.counts[key] = self.counts.get(key, 0) + more

    def write(self, failed: _Rejected | None) -> None:
        """The lines, in order: what passed, what failed, what was not reached."""
        task = self.task
        left_out = {key for key in ("backward", "large") if not getattr(task, key)}
        left_out |= {"layouts"} if task.aligned else set()
        self.report.lines += (self.line(key, failed) for key in LINES if key not in left_out)
        self.report.facts = {
            "seed": self.seed,
            "text": hashlib.sha256(self.text.encode()).hexdigest()[:16],
            "network": "none" if self.alone or self.filtered else "not taken away",
            "system calls": "filtered" if self.filtered else "all",
            "seconds": round(time.monotonic() - self.start, 1),
        }

    def line(self, key: str, failed: _Rejected | None) -> Line:
        """What is said of one check."""
        what, how, left_out = LINES[key]
        values = ", ".join(one for one in self.task.values if one != "normal") or "none"
        how = how.format(device="the host", values=values)
        if failed is not None and failed.key == key:
            return Line(what, how, "failed", failed.message, "", failed.reason, failed.place)
        if not self.counts.get(key):
            why = "after the first failure" if failed else "nothing of it was asked"
            return Line(what, how, "not checked", "", self.skipped.get(key, why))
        said = [f"{self.counts[key]} {_UNITS.get(key, 'cases')}"] if _UNITS.get(key, "cases") else []
        if key == "values":
            said.append(f"the largest error is {self.worst:.2g} of its bound")
            if self.unknown:
                said.append(f"{self.unknown} elements may overflow, and were not compared")
        if key == "bits":
            said.append("all the same" if self.same else "some differ, within their bounds")
        said += self.found.get(key, [])
        if failed is not None and key not in ("text", "build"):
            left_out = "cases behind the first failure"
        return Line(what, how, "passed", "; ".join(said), left_out)


#: What is counted of each check, where it is no cases.
_UNITS = {
    **dict.fromkeys(("text", "build"), ""),
    **dict.fromkeys(("inputs", "written", "repeated", "bits"), "launches"),
    "memory": "checked launches",
    "backward": "cases of arguments",
}


def _reference_time(task: Task, inputs: Mapping[str, Any], case: Case, device: Device) -> list[float]:
    """Milliseconds of the reference in the case's dtype; none for NumPy's functions."""
    if task.library != "cukern":
        return []
    forward, held = task.forward, task.scalars_of(case)
    args: list[Any] = [
        on(inputs[one.name], one.dtype(case.dtype), device) for one in forward.of("in", "inout")
    ]
    args += [held[one.name] for one in forward.of("scalar") if one.name in held]
    with device.activate():
        task.reference(*args)  # compiles it
        return [timed(lambda: task.reference(*args))]


def _bits(values: Values) -> Values:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _index(mask: Values) -> str:
    return str([int(i) for i in np.argwhere(mask)[0]])
