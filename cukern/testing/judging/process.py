"""The judge's end of the process in which a candidate runs, and what its end says."""

from __future__ import annotations

import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .candidate import Refused
from .worker import Values, receive, send

#: Variables of the environment that a candidate's process is given; beside those of CUDA's and CuPy's.
_KEPT = tuple("PATH HOME LANG LC_ALL LD_LIBRARY_PATH CXX CUKERN_CACHE_DIR CUKERN_NUM_THREADS".split())


class Process:
    """A candidate in a process of its own, which has so many seconds to answer in, all messages together.

    Its end, by a crash or by a limit, is a :class:`Refused` of the message that it was asked.

    Attributes:
        used: the seconds that it has taken so far.
        alone: whether it has left the network.
    """

    def __init__(self, header: Mapping[str, Any], seconds: float, memory: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="cukern-judge-")
        self.errors = open(os.path.join(self.folder.name, "stderr"), "w+b")  # noqa: SIM115 - closed with the process
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT or name.startswith(("CUDA_", "CUPY_", "NVIDIA_"))
        }
        environment = {
            **kept,
            "TMPDIR": self.folder.name,  # what killed compilers leave goes with it
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "CUKERN_KERNEL_TIMEOUT": str(max(2, int(seconds / 6))),
            "CUKERN_QUICK_BUILDS": "0",
        }
        self.seconds, self.memory = seconds, memory
        self.late = self.large = self.killed = False
        self.used, self.asked = 0.0, time.monotonic()
        self.busy = True
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from cukern.testing.judging.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            cwd=self.folder.name,
            start_new_session=True,
        )
        self.over, self.ending = threading.Event(), threading.Lock()
        threading.Thread(target=self._watch, name="cukern judge", daemon=True).start()
        try:
            answer, _ = self._exchange({**header, "seconds": seconds, "memory": memory}, {})
        except Refused:
            self.close()
            raise
        self.alone = bool(answer.get("alone"))

    def _watch(self) -> None:
        """End the process when its time is over, or if it and its compilers hold too much memory."""
        while not self.over.wait(0.05):
            self.late = self.busy and self.used + time.monotonic() - self.asked > self.seconds
            self.large = _resident(self.process.pid) > self.memory
            if self.late or self.large:
                return self._kill()

    def _kill(self) -> None:
        """End the process and those that it has started: once, as their numbers may be others' later."""
        with self.ending, suppress(ProcessLookupError):
            if not self.killed:
                self.killed = True
                os.killpg(self.process.pid, signal.SIGKILL)

    def ask(
        self, header: Mapping[str, Any], arrays: Mapping[str, Values]
    ) -> tuple[dict[str, Any], dict[str, Values]]:
        """Its answer.

        Raises:
            Refused: it has refused or failed, or has ended.
        """
        answer, results = self._exchange(header, arrays)
        failed = answer.get("failed")
        if failed is not None:
            raise Failed(failed)
        return answer, results

    def _exchange(
        self, header: Mapping[str, Any], arrays: Mapping[str, Values]
    ) -> tuple[dict[str, Any], dict[str, Values]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.asked, self.busy = time.monotonic(), True
        try:
            send(self.process.stdin, header, arrays)
            return receive(self.process.stdout)
        except (
            EOFError,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            struct.error,
        ):
            raise self._ended() from None
        finally:
            self.busy = False
            self.used += time.monotonic() - self.asked

    def _ended(self) -> Refused:
        """Why the process has ended."""
        self._kill()
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-4000:].decode(errors="replace").strip()
        last = said.splitlines()[-1] if said else ""
        if self.late or status == -signal.SIGXCPU:
            return Refused("timeout", f"the candidate did not end within {self.seconds:g} seconds")
        if (
            self.large
            or "MemoryError" in said
            or "bad_alloc" in said
            or "annot allocate memory" in said
            or "out of memory" in said
        ):
            return Refused("memory", f"the candidate needs more than {self.memory / 2**30:.1f} GiB of memory")
        if status < 0:
            return Refused(
                "crash", f"the candidate's process ended by {signal.Signals(-status).name} {last}".strip()
            )
        return Refused("crash", f"the candidate's process ended with status {status} {last}".strip())

    def close(self) -> None:
        """End the process and what it has started."""
        self.over.set()
        self._kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self.folder.cleanup()


def _resident(pid: int) -> int:
    """The bytes of memory that a process and those that it has started hold."""
    held, queue = 0, [pid]
    while queue:
        one = queue.pop()
        try:
            with open(f"/proc/{one}/statm") as file:
                held += int(file.read().split()[1]) * resource.getpagesize()
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    queue += map(int, file.read().split())
        except (OSError, IndexError):
            continue
    return held


class Failed(Refused):
    """What a candidate's process tells of an error: with its place."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(str(told.get("reason", "crash")), str(told.get("message", "")))
        self.kind, self.place = str(told.get("kind", "")), str(told.get("place", ""))
