"""What a candidate's process may ask of the system: a filter of system calls, and a process beside it that compiles.

With the filter the process opens no file to write and no socket, and starts no other process. What it needs compiled it
asks a process for that was there before, by the text: that one runs no code of candidates, and names the files itself.
There is a filter on Linux, on x86-64 and aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ...device.host import backend, compiler
from ...device.host.checked import function
from ...device.interface import CompilerFailure
from ...errors import DeviceError

#: System calls by number, of x86-64 and of aarch64 (-1: it has none).
_NUMBERS = {
    "read": (0, 63), "write": (1, 64), "open": (2, -1), "close": (3, 57), "stat": (4, -1), "fstat": (5, 80),
    "lstat": (6, -1), "poll": (7, -1), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215),
    "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "ioctl": (16, 29), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "access": (21, -1),
    "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "nanosleep": (35, 101),
    "getpid": (39, 172), "clone": (56, 220), "exit": (60, 93), "uname": (63, 160), "fcntl": (72, 25),
    "getcwd": (79, 17), "readlink": (89, -1), "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153),
    "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177),
    "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "getdents64": (217, 61), "set_tid_address": (218, 96),
    "fadvise64": (221, 223), "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "tgkill": (234, 131), "openat": (257, 56), "newfstatat": (262, 79),
    "readlinkat": (267, 78), "faccessat": (269, 48), "ppoll": (271, 73), "set_robust_list": (273, 99),
    "prlimit64": (302, 261), "getcpu": (309, 168), "getrandom": (318, 278), "membarrier": (324, 283),
    "statx": (332, 291), "rseq": (334, 293), "clone3": (435, 435), "faccessat2": (439, 439),
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD = 0x10000
_FIONCLEX, _FIOCLEX, _TCGETS = 0x5450, 0x5451, 0x5401
_SECCOMP = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
#: The least number of a system call of x32.
_X32 = 0x40000000
# Instructions of BPF, each with a value, and how many to pass over if it is so and if it is not: load a word; whether
# it is equal to the value, has any bit of it, is at least as large; return.
_LOAD, _EQUAL, _ANY, _LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
Instruction = tuple[int, int, int, int]


def _argument(number: int, upper: bool = False) -> Instruction:
    return _LOAD, 16 + 8 * number + 4 * upper, 0, 0


def _conditions() -> dict[str, list[Instruction]]:
    """For system calls that are not always allowed, whether they are: by one instruction too many, if not."""
    return {
        "open": [_argument(1), (_ANY, _WRITES, 1, 0)],
        "openat": [_argument(2), (_ANY, _WRITES, 1, 0)],
        "clone": [_argument(0), (_ANY, _CLONE_THREAD, 0, 1)],
        "tgkill": [_argument(0), (_EQUAL, os.getpid(), 0, 1)],
        "prlimit64": [_argument(2), (_EQUAL, 0, 0, 3), _argument(2, True), (_EQUAL, 0, 0, 1)],
        "ioctl": [_argument(1), (_EQUAL, _FIONCLEX, 2, 0), (_EQUAL, _FIOCLEX, 1, 0), (_EQUAL, _TCGETS, 0, 1)],
    }


def _program(column: int, machine: int) -> bytes:
    """The filter, as instructions of BPF."""
    made: list[Instruction] = [
        (_LOAD, _MACHINE_AT, 0, 0),
        (_EQUAL, machine, 1, 0),
        (_RETURN, _KILL, 0, 0),
        (_LOAD, _NUMBER_AT, 0, 0),
        (_LEAST, _X32, 0, 1),
        (_RETURN, _KILL, 0, 0),
    ]
    conditions = _conditions()
    for name, numbers in _NUMBERS.items():
        allowed: list[Instruction] = [*conditions.get(name, []), (_RETURN, _ALLOW, 0, 0)]
        if name in conditions:
            allowed.append((_RETURN, _REFUSE | errno.EPERM, 0, 0))
        if name == "clone3":  # whose flags lie in memory: the C library goes on to clone
            allowed = [(_RETURN, _REFUSE | errno.ENOSYS, 0, 0)]
        if numbers[column] >= 0:
            made += [(_EQUAL, numbers[column], 0, len(allowed)), *allowed]
    made.append((_RETURN, _REFUSE | errno.EPERM, 0, 0))
    return b"".join(struct.pack("=HBBI", code, if_so, if_not, value) for code, value, if_so, if_not in made)


def can_filter() -> bool:
    """Whether a filter is known for this system."""
    return sys.platform.startswith("linux") and platform.machine() in _SECCOMP


def filter_system_calls() -> bool:
    """Leave all threads of this process with the system calls of a launch; return whether the system does so."""
    column, machine, seccomp = _SECCOMP[platform.machine()]
    program = _program(column, machine)
    held = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter, all_threads = 38, 1, 1
    if libc.prctl(no_new_privileges, 1, 0, 0, 0):
        return False
    return bool(libc.syscall(seccomp, set_filter, all_threads, ctypes.c_char_p(header)) == 0)


def _made(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a request of :func:`begin_builder` makes."""
    if asked["what"] == "kernel":
        return {"path": str(compiler.build(asked["source"], asked["level"], asked["lines"], asked["march"]))}
    if asked["what"] == "checked":
        runtime = function._library()[1]
        path, said = compiler.build_checked(asked["source"], runtime, asked["trusted"], asked["paths"])
        return {"path": str(path), "said": said}
    return {"frames": compiler.frames(Path(asked["path"]), asked["places"])}


def _say(to: IO[bytes], message: Mapping[str, Any]) -> None:
    to.write(json.dumps(message).encode() + b"\n")
    to.flush()


def _serve(source: IO[bytes], to: IO[bytes]) -> None:
    for line in source:
        try:
            answer = _made(json.loads(line))
        except CompilerFailure as failure:
            answer = {"refused": failure.log}
        except Exception as error:
            answer = {"failed": f"{error}"}
        _say(to, answer)


def begin_builder(others: Sequence[int]) -> None:
    """Fork a process that compiles what this one needs from now on.

    Args:
        others: descriptors of files that the new process closes.
    """
    backend._runtime()
    function._library()
    (source_fd, asks), (answers, to_fd) = os.pipe(), os.pipe()
    if os.fork() == 0:
        try:
            for one in (*others, asks, answers):
                os.close(one)
            _serve(os.fdopen(source_fd, "rb"), os.fdopen(to_fd, "wb"))
        finally:
            os._exit(0)
    os.close(source_fd)
    os.close(to_fd)
    source, to, lock = os.fdopen(answers, "rb"), os.fdopen(asks, "wb"), threading.Lock()

    def ask(**asked: Any) -> dict[str, Any]:
        with lock:
            _say(to, asked)
            answer: dict[str, Any] = json.loads(source.readline())
        if "refused" in answer:
            raise CompilerFailure(answer["refused"])
        if "failed" in answer:
            raise DeviceError(answer["failed"])
        return answer

    compiler.elsewhere = ask
