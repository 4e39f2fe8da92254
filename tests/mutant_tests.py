"""A plugin for pytest that runs tests with mutants of Python, each in a fork of a process that has collected the tests.

``MUTANTS`` names a JSON file with the mutants, as ``python_mutants.Copy.run`` makes it; what became of them is written
to the same name with ``.out`` behind. A first fork runs the tests without a mutant, and notes which lines of the
mutants' functions each of them runs. A mutant's fork gives its functions the changed code and runs the tests that run
its line, up to the first failure. What a signature holds, or ran already when modules were imported, is no more to be
changed then: such a mutant has a process of its own.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import mutation_runner as runner
import pytest

JOB = Path(os.environ["MUTANTS"])
GIVEN = json.loads(JOB.read_text())
WANTED = {(one["path"], one["function"]) for one in GIVEN["mutants"]}
FILES = {path for path, _ in WANTED}
#: Code that belongs to the function around it.
WITHIN = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_ran: set[tuple[str, int]] = set()


class Usual(NamedTuple):
    """A test as it ran without a mutant: its place among all, seconds of CPU time, those of processes, its lines."""

    place: int
    seconds: float
    started: float
    lines: frozenset[tuple[str, int]]


def _of_function(frame: FrameType, event: str, _: Any) -> Any:
    code = frame.f_code
    within = code.co_name in WITHIN and code.co_filename in FILES
    if not within and (code.co_filename, code.co_firstlineno) not in WANTED:
        return None
    _ran.add((code.co_filename, code.co_firstlineno))
    return _of_line


def _of_line(frame: FrameType, event: str, _: Any) -> Any:
    _ran.add((frame.f_code.co_filename, frame.f_lineno))
    return _of_line


def _traced(function: Any) -> None:
    sys.settrace(function)
    threading.settrace(function)


def _cpu() -> tuple[float, float]:
    """Seconds of CPU time of this process, and of those that it started."""
    return time.process_time(), sum(os.times()[2:4])


def _forked(work: Callable[[], object], result: Path, limit: runner.Limit) -> runner.Ended:
    """Do some work in a fork, within limits, and write what it returns to a file; its status is 1 if that is true."""
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 2
        try:
            runner.limited(limit)
            made = work()
            result.write_text(json.dumps(made))
            status = int(bool(made))
        finally:
            os._exit(status)
    return runner.ended(child, limit)


def _usual(session: pytest.Session) -> list[tuple[int, float, float, list[tuple[str, int]]]]:
    """Run the tests without a mutant, of each file as many as begin within its time; those that pass."""
    made, spent = [], {}
    for place, item in enumerate(session.items):
        file = item.nodeid.partition("::")[0]
        if spent.get(file, 0) > GIVEN["seconds_of_file"]:
            continue
        failed, began = session.testsfailed, _cpu()
        _ran.clear()
        _traced(_of_function)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        _traced(None)
        own, started = (now - before for now, before in zip(_cpu(), began, strict=True))
        seconds = own + started
        spent[file] = spent.get(file, 0) + seconds
        if session.testsfailed == failed:
            made.append((place, seconds, started, sorted(_ran)))
    return made


def _first_failure(session: pytest.Session, places: list[int]) -> str:
    """Run some tests; the name of the first that fails."""
    items = [session.items[place] for place in places]
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return item.nodeid
    return ""


def _name(code: CodeType) -> tuple[object, ...]:
    """What tells a function's code from others of its file: code that has run is not equal to what is compiled anew."""
    return code.co_qualname, code.co_firstlineno, *list(code.co_positions())[:4]


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of functions in the one and in the other, where they differ."""
    if old != new:
        yield old, new
    inner, others = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    if len(inner) != len(others):
        raise ValueError("a function is missing")
    for one, other in zip(inner, others, strict=True):
        yield from _changed(one, other)


def _replaced(path: str, old: str, new: str) -> bool:
    """Give the functions of a module the code of its new text; whether they have it, and none has run already."""
    texts = [compile(text, path, "exec", dont_inherit=True) for text in (old, new)]
    try:
        codes = {_name(one): (one, other) for one, other in _changed(*texts)}
    except ValueError:
        return False
    if any(one.co_freevars != other.co_freevars for one, other in codes.values()):
        return False
    count = 0
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            pair = codes.get(_name(function.__code__))
            if pair is not None:
                function.__code__ = pair[1]
                count += 1
    return count > 0


def _tested(session: pytest.Session, one: dict[str, Any], places: list[int], early: bool) -> str:
    """The name of the first test that fails with a mutant."""
    path, names = Path(one["path"]), JOB.with_name("names")
    old = path.read_text()
    path.write_text(one["text"])
    os.utime(path, (one["time"], one["time"]))  # by which Python knows that its bytecode is another's
    if not early and _replaced(one["path"], old, one["text"]):
        return _first_failure(session, places)
    names.write_text("".join(f"{session.items[place].nodeid}\n" for place in places))
    options = session.config.invocation_params.args[: GIVEN["options"]]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, "-x", f"@{names}"])


def _attempt(
    session: pytest.Session, one: dict[str, Any], known: list[Usual], early: set[Any]
) -> dict[str, Any]:
    """What became of a mutant."""
    in_signature = one["line"] < one["body"]
    place = (one["path"], one["function"] if in_signature else one["line"])
    run = {test.place for test in known if place in test.lines or place in early}
    # What no test runs itself may run in processes that it starts.
    run = run or {test.place for test in known if test.started > 0.3}
    seconds, mine = 0.0, []
    # The others after them: what the line has made may be kept, and tell on a test that does not run it any more.
    for test in sorted(known, key=lambda test: (test.place not in run, test.seconds)) if run else ():
        seconds += test.seconds
        if mine and seconds > GIVEN["seconds"]:
            break
        mine.append(test.place)
    if not mine:
        return {"outcome": "survived", "tests": 0}
    began, path, result = time.monotonic(), Path(one["path"]), JOB.with_name("first")
    text = path.read_text()
    limit = runner.Limit(int(5 * seconds) + 60, int(30 * seconds) + 300)
    ended = _forked(lambda: _tested(session, one, mine, in_signature or place in early), result, limit)
    path.write_text(text)
    return {
        "outcome": runner.outcome(ended),
        "status": ended.status,
        "tests": len(run),
        "by": json.loads(result.read_text()) if result.exists() else "",
        "seconds": round(time.monotonic() - began, 1),
    }


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Takes the place of a run of the tests."""
    _traced(None)
    early, result = set(_ran), Path(f"{JOB}.usual")
    _forked(lambda: _usual(session), result, runner.Limit(3600, 3600))
    known = [
        Usual(place, seconds, started, frozenset((path, line) for path, line in lines))
        for place, seconds, started, lines in json.loads(result.read_text())
    ]
    with Path(f"{JOB}.out").open("w") as file:
        for one in GIVEN["mutants"]:
            print(json.dumps(_attempt(session, one, known, early)), file=file, flush=True)
    return True


_traced(_of_function)
