"""``python -m cukern judge``: kernels that were written by others, by a task's hidden cases."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

DESCRIPTION = """Judge kernels of CUDA text by a task: a Python file whose variable `task` is a ck.testing.Task. A
candidate is compiled and launched in a process of its own, with limits of time and memory; nothing of Python in it is
executed. The verdict of each is printed, and written as JSON and as a page. The exit status is 1 if any is rejected."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("task", type=Path, metavar="TASK.py", help="the file of the task")
    parser.add_argument("candidates", type=Path, nargs="+", metavar="CANDIDATE.cu", help="the texts to judge")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds each (default: %(default)s)"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=4.0,
        metavar="GIB",
        help="GiB that each may hold (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, help="of hidden sizes and values, as a verdict says; drawn by default"
    )
    parser.add_argument("--device", help="besides the host; the first GPU by default, host for none")
    parser.add_argument("--out", type=Path, default=Path("judged"), help="folder (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Judge the candidates and write the verdicts; return the exit status."""
    from ..testing import Task, judge

    try:
        task = runpy.run_path(str(options.task))["task"]
        if not isinstance(task, Task):
            raise TypeError(f"task is {type(task).__name__}")
        texts = [(path, path.read_bytes().decode(errors="replace")) for path in options.candidates]
    except OSError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        print(f"judge: {options.task}: expected a variable task, a ck.testing.Task: {said}", file=sys.stderr)
        return 2
    rejected = 0
    for (path, text), page_name in zip(texts, pages(options.candidates), strict=True):
        report = judge(
            task,
            text,
            timeout=options.timeout,
            memory=int(options.memory * 2**30),
            seed=options.seed,
            name=path.stem,
            device=options.device,
        )
        options.out.mkdir(parents=True, exist_ok=True)
        page = options.out / page_name
        report.save(page)
        print(f"{report}\n{page}\n")
        rejected += not report.ok
    print(f"{rejected} of {len(texts)} rejected")
    return int(rejected > 0)


def pages(candidates: Sequence[Path]) -> list[str]:
    """The names of pages: those of the texts, with a number where several have one name."""
    names = [path.stem for path in candidates]
    return [
        f"{name}.html" if names.count(name) == 1 else f"{name}-{i}.html" for i, name in enumerate(names, 1)
    ]
