"""Background compilation: a second thread compiles kernels that will soon be launched.

The derivatives of recorded operations are launched soon, and the forward pass leaves a core idle. The host's backend
has it compile all of them, a GPU's those that take seconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache

_jobs: list[Callable[[], object]] = []
_worker: threading.Thread | None = None
_starting = threading.Lock()
#: Held while a job runs and while the process forks: no thread of a child could release a running job's locks.
_busy = threading.Lock()
#: Seconds that a fork waits for the running job, which may itself wait for a lock that the forking thread holds.
_PATIENCE = 5.0
_waited = False


def ahead(job: Callable[[], object]) -> bool:
    """Run ``job`` on another thread, the latest job first, unless Python ends before.

    Errors of a job are ignored: the thread that needs its result does the same and raises them.

    Returns:
        Whether it is run: a process that may use only one core, or that cannot start a thread, runs no jobs.
    """
    global _worker
    if len(os.sched_getaffinity(0)) < 2 or threading.current_thread() is _worker:
        return False
    _register()
    with _starting:
        _jobs.append(job)
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_work, name="cukern compiler")
            try:
                _worker.start()
            except RuntimeError:  # no thread can be started, or Python is ending
                _worker = None
                _jobs.clear()
                return False
    return True


def settle() -> None:
    """Wait until all jobs are done."""
    while (worker := _worker) is not None and worker.is_alive():
        worker.join()


def _work() -> None:
    global _worker
    while True:
        with _starting:
            if not (_jobs and threading.main_thread().is_alive()):
                _worker = None
                return
            job = _jobs.pop()
        with _busy, suppress(Exception):
            job()


@cache
def _register() -> None:
    # Fork hooks run in reverse order of registration: this one must run before that of filelock, which jobs use.
    import filelock  # noqa: F401

    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)


def _before_fork() -> None:
    global _waited
    _starting.acquire()
    _waited = _busy.acquire(timeout=_PATIENCE)


def _after_fork() -> None:
    if _waited:
        _busy.release()
    _starting.release()


def _forked() -> None:
    global _worker, _starting, _busy
    _worker = None
    _jobs.clear()
    _starting, _busy = threading.Lock(), threading.Lock()
