"""Checked launches: a sanitizer of the memory accesses and barriers of kernels on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..device.host.checked import mode
from ..errors import KernelReport, require_int


@contextlib.contextmanager
def checked(seeds: int = 3, strict: bool = False, collect: bool = False) -> Iterator[list[KernelReport]]:
    """A with-block in which the host checks every launch, the library's own included, and reports mistakes by line.

    Reported are: accesses out of bounds of an array, of shared memory or of a local array; races between threads, of
    one block or of two; reads of what nothing has written; writes to ``const`` arguments; barriers that only some
    threads reach; shuffles from lanes that are not there; misaligned vectors; integers that overflow, bad shifts and
    divisions by zero. The memory beyond an array stays as it is, and the process goes on.

    Args:
        seeds: the number of thread orders in which a kernel runs whose result may depend on the order: one with
            atomics, ``volatile`` or asynchronous copies. The last order is the usual one, whose results stay.
        strict: whether to report also what right kernels do knowingly: a plain read beside an atomic write, two threads
            that write the same value, an atomic or ``volatile`` look with no fence after it.
        collect: whether the reports are only appended to the list that the block is given.

    Raises:
        KernelFault: at the end of a launch with findings, unless ``collect``; its ``reports`` are the
            findings.
        TypeError: ``seeds`` is not an integer.
        ValueError: ``seeds`` is not in 1 to 1000.

    The block applies to all threads of the process, and not to GPUs. ``CUKERN_CHECK=1`` does the same for a whole
    process, ``ck.Kernel(..., checked=True)`` for one kernel, ``pytest --cukern-checked`` for each test.

    >>> import cukern as ck
    >>> double = ck.Kernel('''
    ... extern "C" __global__ void << name >>(const float* x, float* y) {
    ...     int i = blockIdx.x * << block >> + threadIdx.x;
    ...     y[i] = 2 * x[i];
    ... }''', name="late", block=4)
    >>> with checked(collect=True) as reports:
    ...     double(ck.ones(6), ck.zeros(6))
    >>> print(reports[0])
    late_float32_4: out of bounds: block (1, 0, 0), thread (2, 0, 0) reads element 6 of argument x, ... <late>:4
         3 |     int i = blockIdx.x * << block >> + threadIdx.x;
    >    4 |     y[i] = 2 * x[i];
         5 | }
    """
    number = require_int("checked: seeds", seeds, 1, 1000)
    reports: list[KernelReport] = []
    chosen = mode.Mode(number, bool(strict), reports=reports if collect else None)
    with mode.checking(chosen):
        yield reports
        mode.finish(chosen)
