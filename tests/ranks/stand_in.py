"""A GPU and NCCL that are not here: run by every rank of a test, with the program to run, and its arguments.

Kernels run on the host, as for ``python -m cukern build``. Collectives pass through files, at once and in the graphs of
captured steps alike. They wait in the call, as NCCL does at first, not in the background, until they are aborted.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import secrets
import sys
import tempfile
import time
import types
import weakref
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck
from cukern.device import stand_in
from cukern.device.cuda import architectures
from cukern.device.recording import Recording
from cukern.device.recording.gpu import RecordedGpu
from cukern.device.recording.library import do
from cukern.distributed import nccl

FOLDER = Path(tempfile.gettempdir()) / f"cukern-stand-in-{os.getuid()}"


class _Graph:
    """What keeps a communicator: a graph that has its collectives."""


class Communicator:
    """The calls that the library makes of ``cupy.cuda.nccl.NcclCommunicator``."""

    def __init__(self, size: int, unique: bytes, rank: int) -> None:
        assert len(unique) == 128
        self._size, self._rank, self._calls, self._aborted = size, rank, 0, False
        self._folder = FOLDER / unique.hex()[:32]
        self._folder.mkdir(parents=True, exist_ok=True)
        self._pairs: dict[tuple[str, int, int], int] = {}
        self._graphs: weakref.WeakSet[_Graph] = weakref.WeakSet()

    def _do(self, action: Callable[[], object]) -> None:
        graph = _Graph()
        self._graphs.add(graph)
        do(lambda: (graph, action()))

    def _write(self, name: str, data: bytes) -> None:
        path = self._folder / f".{name}"
        path.write_bytes(data)
        path.rename(self._folder / name)

    def _read(self, name: str) -> bytes:
        end = time.monotonic() + 60
        while not (self._folder / name).exists():
            assert time.monotonic() < end, f"nobody wrote {name}"
            if self._aborted:
                raise NcclError("aborted")
            time.sleep(1e-4)
        return (self._folder / name).read_bytes()

    def _all(self, source: int, nbytes: int) -> list[bytes]:
        """The bytes of all ranks."""
        self._calls += 1
        self._write(f"{self._calls}-{self._rank}", ctypes.string_at(source, nbytes))
        return [self._read(f"{self._calls}-{rank}") for rank in range(self._size)]

    def _reduced(self, source: int, count: int, kind: Any, op: str) -> Any:
        parts = [np.frombuffer(one, kind) for one in self._all(source, count * np.dtype(kind).itemsize)]
        wide = [one.astype("float32") if one.dtype.itemsize == 2 else one for one in parts]
        made = reduce({"prod": np.multiply, "max": np.maximum, "min": np.minimum}.get(op, np.add), wide)
        return (made / self._size if op == "mean" else made).astype(kind)

    def allReduce(self, source: int, to: int, count: int, kind: Any, op: str, stream: int) -> None:
        def call() -> None:
            made = self._reduced(source, count, kind, op)
            ctypes.memmove(to, made.ctypes.data, made.nbytes)

        self._do(call)

    def reduceScatter(self, source: int, to: int, count: int, kind: Any, op: str, stream: int) -> None:
        def call() -> None:
            made = self._reduced(source, count * self._size, kind, op).reshape(self._size, -1)[self._rank]
            ctypes.memmove(to, made.ctypes.data, made.nbytes)

        self._do(call)

    def allGather(self, source: int, to: int, count: int, kind: Any, stream: int) -> None:
        self._do(lambda: ctypes.memmove(to, b"".join(self._all(source, count)), count * self._size))

    def broadcast(self, source: int, to: int, count: int, kind: Any, root: int, stream: int) -> None:
        self._do(lambda: ctypes.memmove(to, self._all(source, count)[root], count))

    def _pair(self, call: str, source: int, to: int) -> str:
        number = self._pairs[call, source, to] = self._pairs.get((call, source, to), 0) + 1
        return f"{source}-to-{to}-{number}"

    def send(self, source: int, count: int, kind: Any, to: int, stream: int) -> None:
        self._do(lambda: self._write(self._pair("send", self._rank, to), ctypes.string_at(source, count)))

    def recv(self, to: int, count: int, kind: Any, source: int, stream: int) -> None:
        waiting.append(lambda: ctypes.memmove(to, self._read(self._pair("recv", source, self._rank)), count))
        if not grouped:
            end_group()

    def check_async_error(self) -> None:
        """There is none."""

    def destroy(self) -> None:
        """As NCCL, wait for the graphs that have this communicator's collectives."""
        end = time.monotonic() + 3
        while self._graphs and time.monotonic() < end:
            time.sleep(1e-3)
        print("graphs that outlived the communicator:", len(self._graphs))

    def abort(self) -> None:
        """End what waits, and the communicator."""
        self._aborted = True
        self.destroy()


class NcclError(RuntimeError):
    """The kind of CuPy's errors."""


#: What is received when the group of calls ends: all of it was sent by then.
waiting: list[Callable[[], object]] = []
grouped: list[bool] = []


def end_group() -> None:
    """Receive."""
    for action in waiting:
        do(action)
    waiting.clear()
    grouped.clear()


def library(info: Any = None) -> Any:
    """In the place of ``cupy.cuda.nccl``."""
    half = {"FLOAT16": "float16", "BFLOAT16": "bfloat16"}
    names = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
    kinds = {f"NCCL_{one.upper()}": np.dtype(one) for one in names}
    kinds |= {f"NCCL_{name}": ck.dtypes.as_dtype(one) for name, one in half.items()}
    ops = {"SUM": "sum", "PROD": "prod", "MAX": "max", "MIN": "min", "AVG": "mean"}
    return types.SimpleNamespace(
        get_unique_id=lambda: secrets.token_bytes(128),
        NcclCommunicator=Communicator,
        NcclError=NcclError,
        groupStart=lambda: grouped.append(True),
        groupEnd=end_group,
        **kinds,
        **{f"NCCL_{name}": one for name, one in ops.items()},
    )


def main() -> None:
    """Run the program as it would run by itself, on one rank's GPU."""
    limits = architectures.properties("sm_80")
    stand_in("cuda", RecordedGpu(limits, Recording(), lambda unit: None))
    os.environ["CUKERN_DEVICE"] = "cuda"
    nccl.library = library
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
