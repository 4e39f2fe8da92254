"""Launches that were kept in files, and run again, checked, on the host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..device import device
from ..errors import CukernError, KernelReport
from ..kernel import Kernel
from ..kernel.kernel import Call
from ..kernel.recorder import KEEP, WHOLE, Recorded, Recorder, read
from .checked import checked
from .locate import writer_line
from .shapes import index_of, near
from .stand_ins import launching

#: The difference between devices that rounding makes, relative to the largest element, by dtype.
_ROUNDING = {"float16": 2e-2, "bfloat16": 2e-2, "float64": 1e-10, "complex128": 1e-10}


@contextlib.contextmanager
def recorded(folder: str | os.PathLike[str], *, keep: int = KEEP, whole: int = WHOLE) -> Iterator[Path]:
    """A with-block in which the last launches of users' kernels by this thread are kept in files, for :func:`replay`.

    The text, the variables, grid, block, shared memory and the arguments are written before a launch, and what it has
    written after it. So they are there also if the launch ends the process, never ends, or breaks the GPU's context.
    ``CUKERN_RECORD=folder`` does the same for all threads of a process.

    Each launch waits for the GPU and copies its arguments from it and to the disk: it takes about as long as writing
    them takes.

    Args:
        folder: where; it is made.
        keep: how many launches stay; older ones are removed.
        whole: bytes up to which an array is kept whole. Of a larger one the least and the largest element are kept, and
            a replay draws others between them.

    >>> import cukern as ck, tempfile
    >>> double = ck.Kernel('''
    ... extern "C" __global__ void << name >>(const float* x, float* y, int n) {
    ...     int i = blockIdx.x * << block >> + threadIdx.x;
    ...     y[i] = 2 * x[i];
    ... }''', name="replayed", block=4)
    >>> with recorded(tempfile.mkdtemp()) as folder:
    ...     try:
    ...         double(ck.ones(6), ck.zeros(6), 6)
    ...     except ck.KernelFault:
    ...         pass
    >>> print(replay(folder).reports[0])
    replayed_float32_4: out of bounds: block (1, 0, 0), thread (2, 0, 0) reads element 6 of argument x, ... <replayed>:4
         3 |     int i = blockIdx.x * << block >> + threadIdx.x;
    >    4 |     y[i] = 2 * x[i];
         5 | }
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    recorder = Recorder(folder, keep, whole)
    with launching(recorder) as before:
        recorder.launches = before
        yield recorder.folder


class Replay(NamedTuple):
    """What a replay has shown.

    Attributes:
        path: the file of the launch.
        kernel: the kernel's name.
        reports: the mistakes that the checked launch found.
        difference: how its results differ from those where it was recorded; empty if they do not, or are not known.
        error: how it was refused, or failed in another way; empty if it was not.
        told: what is known of the launch there.
    """

    path: Path
    kernel: str
    reports: list[KernelReport]
    difference: str
    error: str
    told: str

    @property
    def found(self) -> bool:
        """Whether anything was found."""
        return bool(self.reports or self.difference or self.error)

    def __str__(self) -> str:
        parts = [self.told, *map(str, self.reports)]
        parts += [one for one in (self.error, self.difference) if one]
        if not self.found:
            parts.append("no finding: checked on the host, the launch is right as far as can be seen")
        return "\n\n".join(parts)


def replay(path: str | os.PathLike[str], *, seeds: int = 3, strict: bool = False) -> Replay:
    """Run a launch that :func:`recorded` or ``CUKERN_RECORD`` has kept again: checked, on the host.

    The kernel's text in the file is compiled and runs in this process: replay files of people whom you trust alone.

    Args:
        path: the file of a launch; or the folder, for the last launch that failed or never ended, else the last one.
        seeds, strict: as of :func:`checked`.

    Raises:
        LaunchError: an argument is of a kind that is not kept.
        ValueError: there is no launch.
    """
    launch = read(path, Kernel)
    error = ""
    with device("host"), checked(seeds, strict, collect=True) as reports:
        try:
            launch.kernel(*launch.args, grid=launch.grid, shared=launch.shared, **launch.overrides)
        except CukernError as refused:
            error = f"{type(refused).__name__}: {refused}"
    return Replay(
        launch.path,
        launch.kernel.name,
        list(reports),
        "" if error else _difference(launch),
        error,
        _told(launch),
    )


def _told(launch: Recorded) -> str:
    name = launch.kernel.name
    if launch.failed is not None:
        how = f"failed: {launch.failed.splitlines()[0]}"
    else:
        how = "did not end" if launch.written is None else "ended"
    told = [f"{name} on {launch.device} {how}"]
    names = [f"argument {i}" for i in launch.drawn]
    if names:
        told.append(
            f"{', '.join(names)}: too large to be kept, drawn between the least and the largest number there"
        )
    return "\n".join(told)


def _difference(launch: Recorded) -> str:
    """Where the results differ from those that were recorded, beyond rounding."""
    if launch.drawn:
        return ""
    said = []
    call = Call(launch.kernel, launch.args, launch.grid, launch.shared, launch.overrides)
    names = [one.name for one in call.bound().signature.params]
    for position, there in sorted((launch.written or {}).items()):
        here = launch.args[position].numpy()
        a, b = here.reshape(-1), there.numpy().reshape(-1)
        wide = (
            (np.complex128 if a.dtype.kind == "c" else np.float64) if a.dtype.kind not in "iub" else a.dtype
        )
        x, y = a.astype(wide), b.astype(wide)
        if a.dtype.kind in "iub":
            wrong = x != y
        else:
            finite = np.abs(x[np.isfinite(x)])
            limit = _ROUNDING.get(a.dtype.name, 1e-4) * max(1e-30, float(finite.max(initial=0)))
            wrong = ~near(x, y, limit)
        if wrong.any():
            first = int(np.argmax(wrong))
            where = index_of(first, here.shape) if here.ndim > 1 else first
            said.append(
                f"argument {names[position]} differs from what {launch.device} wrote, from element {where} on: "
                f"{a[first]} here, {b[first]} there; {int(wrong.sum())} of {a.size} elements differ; written by "
                f"{writer_line(launch.kernel, names[position])}"
            )
    return "\n".join(said)
