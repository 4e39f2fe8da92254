"""A supervisor process between the launcher and one rank, which ends all that comes of the rank.

Its child is the rank. Processes that the rank starts become its children when their own parents end, whatever sessions
and groups they have made, as it is their subreaper (prctl(2)). It ends them all when the rank ends, and the rank too
when the launcher is gone, even killed: then the pipe closes whose other end the launcher alone holds.

The launcher runs this file by its path, so that it starts within milliseconds: it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Signals that the launcher sends to the whole process group, and that are meant for the rank.
_PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: Signals that Python ignores, and that programs do not expect to be ignored.
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
#: Seconds to wait for processes that may not be killed, such as another user's.
_SECONDS_TO_END = 5.0
#: Seconds between looks for children that are left.
_LOOK_SECONDS = 0.005
#: The exit status of a command that cannot be run, as of shells.
_NOT_FOUND = 127


def keep(alive: int, events: int, rank: int, command: list[str]) -> int:
    """Run a command until it ends, or the launcher does.

    Args:
        alive: the end for reading of a pipe that closes with the launcher.
        events: where the launcher reads that the rank has ended.
        rank: which of the ranks it is.
        command: the program and its arguments.

    Returns:
        The status of the command, as :func:`os.waitpid` returns it.
    """
    os.set_inheritable(alive, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (*_PASSED, signal.SIGCHLD):
        signal.signal(number, _nothing)
    child = _start(command)
    status = None
    while status is None:
        ready, _, _ = select.select([alive, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        status = _reap().get(child)
        if alive in ready:
            break
    if status is not None:
        with contextlib.suppress(OSError):  # the launcher may be gone too
            os.write(events, b"ended %d\n" % rank)
        _end_all()
        return status
    os.kill(child, signal.SIGKILL)
    left = _end_all()
    return left[child] if child in left else os.waitpid(child, 0)[1]


def _nothing(number: int, frame: object) -> None:
    """Handle a signal, so that ``select`` returns. A command that is started does not inherit this."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(command: list[str]) -> int:
    keeper = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED)  # none is lost before the command runs
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return child
    try:
        for number in (*_PASSED, *_IGNORED, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # should the keeper itself be killed
        if os.getppid() == keeper:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvp(command[0], command)
    except OSError as error:
        print(f"[launch] {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(_NOT_FOUND)


def _reap() -> dict[int, int]:
    """The status of each child that has ended."""
    statuses: dict[int, int] = {}
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses
        if not child:
            return statuses
        statuses[child] = status


def _end_all() -> dict[int, int]:
    """Kill all children, and the orphans that become children by that; their statuses."""
    statuses: dict[int, int] = {}
    end = time.monotonic() + _SECONDS_TO_END
    while (children := _children()) and time.monotonic() < end:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(_LOOK_SECONDS)
        statuses |= _reap()
    return statuses


def _children() -> list[int]:
    """The processes whose parent this one is, ended ones too."""
    children: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return children
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == os.getpid():
                children.append(int(name))
    return children


def _end_as(status: int) -> None:
    """End as the rank did, so that the launcher sees how."""
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank has left its own
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    _alive, _events, _rank = map(int, sys.argv[1:4])
    _end_as(keep(_alive, _events, _rank, sys.argv[4:]))
