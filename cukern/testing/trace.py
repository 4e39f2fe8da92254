"""Traces of a kernel's memory accesses, as a GPU's warps would execute them: sectors, bank conflicts, idle lanes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device.host.checked import mode
from ..device.host.checked.tracing import ATOMIC, BESIDE, SHARED, WARP, Launch, Tracer, requests_of, sorted_by
from ..errors import TemplateError, require_int
from ..files import write_text
from ..text import Dim3, render
from ..text.line_directives import lines_from
from .pictures import Drawing, png, ticks
from .timeline import Timeline

if TYPE_CHECKING:
    from .occupancy import Cost, Occupancy, Roofline

__all__ = ["Access", "Trace", "traced"]

#: Bytes of a sector of global memory.
_SECTOR = 32
#: Banks of shared memory.
_BANKS = 32
#: Bytes of a bank's word.
_WORD = 4
#: The most rows of a picture, which stand for threads.
_ROWS = 256
#: The pixels that the plot of a picture is high at least, if its rows can be as large.
_LEAST_HEIGHT = 192
#: The most columns of a picture, which stand for pieces of an array.
_COLUMNS = 512


@dataclass(frozen=True)
class Access:
    """The accesses of one line of a kernel to one array, in all traced blocks.

    A request is what the threads of a warp do together; it is taken to be their first access at the line, their second
    one, and so on.

    Attributes:
        place: the template and its line; empty if it is not known.
        array: the argument, or the variable in shared memory.
        what: ``"reads"``, ``"writes"``, ``"atomic"`` or, for what is copied beside the threads, ``"copies"``.
        shared: whether the array is in shared memory.
        size: bytes per thread and access.
        requests: the number of requests.
        lanes: the mean share of a warp's threads that take part.
        moved: for global memory, the sectors of 32 bytes that the requests touch; for shared memory, the turns in which
            its 32 banks serve them.
        least: the sectors or turns that as many bytes need at least.
    """

    place: str
    array: str
    what: str
    shared: bool
    size: int
    requests: int
    lanes: float
    moved: int
    least: int

    @property
    def efficiency(self) -> float:
        """``least / moved``: 1 for coalesced accesses, or accesses without bank conflicts."""
        return self.least / self.moved if self.moved else 1.0


class Trace:
    """A launch, seen access by access.

    Attributes:
        kernel: its name.
        grid, block: the launch's shape.
        shared: bytes of dynamic shared memory.
        blocks: how many blocks were traced, from the first.
        missed: accesses, and steps at barriers, that were left out, because there were too many.
        left_out: the same in words; empty if there were none.
        flops: floating-point operations of all blocks: additions, subtractions, multiplications and divisions of the
            text and of what it includes, a fused multiply-add for two, and 2 M N K of each product of tensor cores;
            what is known at compile time is left out. None if the compiler does not take the text that counts them.
        operations: the same by kind: ``"float32"``, ``"float64"``, ``"float16"`` (of bfloat16 too), for tensor cores
            ``"tensor float16"``, ``"tensor tf32"``, ``"tensor float8"`` and ``"tensor float64"``; and ``"calls"`` of
            functions such as ``exp``, which ``flops`` leaves out.
        flops_at: operations and calls by line, but for those of tensor cores.
        accesses: the accesses of each line to each array, in the order in which the lines first ran.
        events: all accesses of single threads, in the order in which the host ran them, a NumPy array with the fields
            ``offset`` (bytes from the array's start), ``block``, ``thread``, ``size`` (bytes), ``writes``, ``how``,
            ``region`` and ``place`` (in the compiled code).
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.kernel = launch.unit.signature.name
        self.grid: Dim3 = launch.grid
        self.block: Dim3 = launch.block
        self.shared = launch.shared
        self.blocks = launch.blocks
        self.missed, self.left_out = launch.missed, launch.left_out
        self.events = launch.events
        self.operations = launch.operations
        counted = None if self.operations is None else {**self.operations, "calls": 0}
        self.flops = None if counted is None else sum(counted.values())
        self.flops_at: dict[str, int] = {}
        for at, count in launch.operations_at.items():
            line = launch.lines[at]
            self.flops_at[line] = self.flops_at.get(line, 0) + count
        threads = self.block[0] * self.block[1] * self.block[2]
        self._groups = list(_groups(launch))
        self.accesses = tuple(self._access(group, threads) for group in self._groups)

    def __repr__(self) -> str:
        return f"<Trace of {self.kernel}, grid {self.grid}, block {self.block}, {len(self.events)} accesses>"

    def __str__(self) -> str:
        head = f"{self.kernel}: grid {self.grid}, block {self.block}; traced: {self.blocks} of its blocks"
        head += f"; {self.left_out}" if self.left_out else ""
        rows = [("where", "array", "what", "bytes", "requests", "lanes", "moved", "least")]
        for one in self.accesses:
            unit = "turns" if one.shared else "sectors"
            numbers = f"{one.requests}", f"{one.lanes:.0%}", f"{one.moved} {unit}", f"{one.least}"
            rows.append((one.place or "?", one.array, one.what, f"{one.size}", *numbers))
        return f"{head}\n{render.table(rows)}"

    def occupancy(self, arch: str = "sm_90") -> Occupancy:
        """How many warps of the kernel a multiprocessor holds at a time, and its registers and spills.

        Args:
            arch: the architecture of a GPU, which need not be here; ``"sm_90"`` is that of an H200.

        Raises:
            DeviceError: the architecture is not known.
        """
        from .occupancy import occupancy

        return occupancy(self._launch.unit, self.block, self.shared, arch)

    def cost(self, gpu: str = "H200") -> Cost:
        """The bytes that the launch moves, bank conflicts, and the time that a GPU's memory takes at least.

        Args:
            gpu: the name of a GPU, such as ``"A100"`` or ``"RTX 4090"``.

        Raises:
            ValueError: it is not known.
        """
        from .occupancy import Cost, gpu_named

        bandwidth = gpu_named(gpu, "cost").bandwidth
        share = self.grid[0] * self.grid[1] * self.grid[2] / self.blocks
        apart = [[one for one in self.accesses if one.shared is shared] for shared in (False, True)]
        moved, least = (
            round(_SECTOR * share * sum(getattr(one, name) for one in apart[0]))
            for name in ("moved", "least")
        )
        conflicts = round(share * sum(one.moved - one.least for one in apart[1]))
        return Cost(moved, least, conflicts, least / bandwidth, self.missed)

    def roofline(self, gpu: str = "H200") -> Roofline:
        """The least time that the launch takes of a GPU's memory and of its arithmetic, and which takes longer.

        Args:
            gpu: as of :meth:`cost`.

        Raises:
            ValueError: it is not known, or has no tensor cores for what the launch multiplies.

        A product of two square matrices, each thread of which makes one element:

        >>> import cukern as ck
        >>> product = ck.Kernel('''
        ... extern "C" __global__ void << name >>(const float* a, const float* b, float* c, int n) {
        ...     float sum = 0;
        ...     for (int k = 0; k < n; ++k) sum += a[blockIdx.x * n + k] * b[k * n + threadIdx.x];
        ...     c[blockIdx.x * n + threadIdx.x] = sum;
        ... }''', name="product", block=32)
        >>> with traced() as traces:
        ...     product(ck.ones((32, 32)), ck.ones((32, 32)), ck.zeros((32, 32)), 32, grid=32)
        >>> roof = traces[0].roofline("A100")
        >>> roof.flops == 2 * 32**3, roof.bytes == 3 * 4 * 32**2, roof.bound
        (True, True, 'memory')
        """
        from .occupancy import Roofline, arithmetic_seconds, gpu_named

        bandwidth, moved = gpu_named(gpu, "roofline").bandwidth, self._bytes_once()
        operations = self.operations
        calls, time = 0, None
        if operations is not None:
            calls, time = operations["calls"], arithmetic_seconds(operations, gpu, "roofline")
        exact = not self.missed and self.blocks == math.prod(self.grid)
        return Roofline(self.flops, calls, moved, exact, moved / bandwidth, time, self.missed)

    def _bytes_once(self) -> int:
        """The bytes of sectors that the launch reads and of those that it writes, if all blocks are like the traced."""
        share, total = math.prod(self.grid) / self.blocks, 0.0
        sectors: dict[tuple[int, bool], list[np.ndarray[Any, Any]]] = {}
        for access, events in zip(self.accesses, self._groups, strict=True):
            if access.shared:
                continue
            region = int(events["region"][0])
            at = events["offset"].astype(np.int64) + self._launch.arrays[region].start
            ends = at + events["size"] - 1
            for writes in {True, False} if access.what == "atomic" else {access.what == "writes"}:
                sectors.setdefault((region, writes), []).extend([at // _SECTOR, ends // _SECTOR])
        for (region, _), touched in sectors.items():
            _, start, size = self._launch.arrays[region]
            most = (start + size - 1) // _SECTOR - start // _SECTOR + 1 if size else math.inf
            total += min(len(np.unique(np.concatenate(touched))) * share, most)
        return round(total) * _SECTOR

    def picture(self, access: int) -> bytes:
        """A PNG of an access in the first traced block: threads from top to bottom, the array from left to right.

        Args:
            access: the index in :attr:`accesses`.

        The later an access, the darker its point. Rows and columns stand for several threads and elements where there
        are more than fit.
        """
        events, low, step, fold, shape = self._shown(access)
        image = np.full((*shape, 3), 255, np.uint8)
        rows = events["thread"].astype(np.int64) // fold
        shade = np.linspace(0.0, 1.0, len(events))[:, None]
        light, dark = np.array([[158, 202, 225]]), np.array([[8, 48, 107]])
        colors = (light + (dark - light) * shade).astype(np.uint8)
        first = (events["offset"].astype(np.int64) - low) // step
        last = (events["offset"].astype(np.int64) + events["size"] - 1 - low) // step
        for beyond in range(int((last - first).max()) + 1):
            columns = np.minimum(first + beyond, last)
            image[rows, columns] = colors
        return png(image, _scale(*shape))

    def svg(self, access: int) -> str:
        """The picture of an access with its axes, as an SVG: threads, and elements of the array or bytes of it."""
        _, low, step, fold, (rows, columns) = self._shown(access)
        one = self.accesses[access]
        image, scale = self.picture(access), _scale(rows, columns)
        high = max(scale, min(8, _LEAST_HEIGHT // rows))
        title = f"{one.array}: {one.what} at {one.place or 'a line that is not known'}"
        drawing = Drawing(columns * scale, rows * high, title)
        drawing.image(image, title)
        params = {param.name: param for param in self._launch.unit.signature.params}
        dtype = params[one.array].dtype if one.array in params and not one.shared else None
        size = 1 if dtype is None else dtype.itemsize
        first, end = -(-low // size), -(-(low + columns * step) // size)
        for at in ticks(first, end, columns * scale // 60):
            drawing.tick_x((at * size - low) * scale / step, f"{at}")
        for thread in _threads(rows * fold, rows * high // 24):
            drawing.tick_y((thread / fold + 0.5) * high, f"{thread}")
        unit = "bytes" if dtype is None else f"elements ({dtype.name})"
        drawing.label_x(
            f"{one.array}, {unit} from its start" + (f", {step} bytes a column" if step > 1 else "")
        )
        drawing.label_y("thread")
        return drawing.svg()

    def timeline(self) -> Timeline:
        """The first traced block's barriers and asynchronous copies, in the order of causes.

        Copies, products and stores of groups are in flight from their issue until their thread has waited for their
        group; copies that an mbarrier counts until a warp has passed it. Syncs of a warp alone are left out.

        >>> import cukern as ck
        >>> copied = ck.Kernel('''
        ... <% include "prelude/copy_async.cuh" %>
        ... extern "C" __global__ void << name >>(const float4* x, float4* y) {
        ...     __shared__ float4 tile[64];
        ...     copy_async(&tile[threadIdx.x], &x[threadIdx.x]);
        ...     commit_copies();
        ...     wait_copies<0>();
        ...     __syncthreads();
        ...     y[threadIdx.x] = tile[threadIdx.x ^ 1];
        ... }''', name="copied", block=64)
        >>> with traced() as traces:
        ...     copied(ck.ones(256), ck.zeros(256), grid=1)
        >>> print(traces[0].timeline())
        block (0, 0, 0): barriers and asynchronous copies, in steps that follow their causes
        step  warps  what                           where
        1     0-1    sends copies, 512 bytes        <copied>:5
        2     0-1    commits a group of copies      <copied>:6
        3     0-1    waits for copies, all          <copied>:7
        4     0-1    comes to __syncthreads()       <copied>:8
        5     0-1    goes on after __syncthreads()  <copied>:8
        """
        return Timeline(self._launch)

    def _shown(self, access: int) -> tuple[np.ndarray[Any, Any], int, int, int, tuple[int, int]]:
        """The events in a picture, its first byte, bytes a column, threads a row, and rows and columns."""
        events = self._groups[access]
        events = events[events["block"] == events["block"].min()]
        low, end = int(events["offset"].min()), int((events["offset"] + events["size"]).max())
        step, threads = -(-(end - low) // _COLUMNS), int(events["thread"].max()) + 1
        fold = -(-threads // _ROWS)
        return events, low, step, fold, (-(-threads // fold), -(-(end - low) // step))

    def source(self, place: str) -> str:
        """The line of a template, or of a file of the kernel, at ``template:line``; empty if it is not known."""
        name, _, number = place.rpartition(":")
        if not number.isdigit():
            return ""
        try:
            return render.source_of(name).split("\n")[int(number) - 1].strip()
        except (IndexError, TemplateError):
            return lines_from(self._launch.unit.text, name).get(int(number), "").strip()

    def save(self, path: str | Path, arch: str = "sm_90", gpu: str = "H200") -> None:
        """Write a page of HTML with the table and the pictures, which needs no other file.

        Args:
            path: the file.
            arch, gpu: as of :meth:`occupancy` and :meth:`cost`.

        Raises:
            DeviceError: the architecture is not known.
            ValueError: the path's name says that it is to be a picture; the GPU is not known.
        """
        from .trace_page import page

        if Path(path).suffix.lower() in (".png", ".jpg", ".jpeg", ".svg", ".gif", ".pdf"):
            raise ValueError(
                f"{path}: save writes a page of HTML; picture(access) returns the PNG of one access"
            )
        write_text(path, page(self, arch, gpu))

    def _access(self, events: np.ndarray[Any, Any], threads: int) -> Access:
        first = events[0]
        shared = bool(first["region"] >= SHARED)
        what = {ATOMIC: "atomic", BESIDE: "copies"}.get(
            int(first["how"]), "writes" if first["writes"] else "reads"
        )
        requests = requests_of(events)
        count = int(requests.max()) + 1
        warps, lanes = np.zeros(count, np.int64), np.bincount(requests, minlength=count)
        warps[requests] = events["thread"] // WARP
        full = np.minimum(WARP, threads - WARP * warps)
        name, start, _ = self._launch.arrays[int(first["region"])]
        moved, least = (_turns if shared else _sectors)(
            events, events["offset"].astype(np.int64) + start, requests
        )
        share = float(np.mean(np.minimum(1.0, lanes / full)))
        place = self._launch.lines[int(first["place"])]
        return Access(place, name, what, shared, int(events["size"].max()), count, share, moved, least)


def _threads(count: int, most: int) -> range:
    """Numbers of threads for an axis: of the first of so many, or of all; a power of two apart."""
    step = 1
    while count > step * max(1, most):
        step *= 2
    return range(0, count, step)


def _scale(rows: int, columns: int) -> int:
    """Pixels of a picture's point."""
    return max(1, min(8, 512 // max(rows, columns)))


def _groups(launch: Launch) -> Iterator[np.ndarray[Any, Any]]:
    """The events of each line, array and direction, in their order; lines as the first of them ran."""
    events = launch.events
    known, first, which = np.unique(events["place"], return_index=True, return_inverse=True)
    ran = dict.fromkeys(launch.lines[int(place)] for place in known[np.argsort(first)])
    numbers = {line: number for number, line in enumerate(ran)}
    line = np.array([numbers[launch.lines[int(place)]] for place in known], np.int64)[which]
    order, begins = sorted_by(line, events["region"], events["writes"], events["how"])
    if len(order):
        for part in np.split(order, np.flatnonzero(begins)[1:]):
            yield events[part]


def _distinct(*keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Indices of the first of all that are equal in every key."""
    order, begins = sorted_by(*keys)
    first: np.ndarray[Any, Any] = order[begins]
    return first


def _sectors(
    events: np.ndarray[Any, Any], at: np.ndarray[Any, Any], requests: np.ndarray[Any, Any]
) -> tuple[int, int]:
    """The sectors of global memory that requests touch, and the number that their bytes would fill."""
    size = events["size"].astype(np.int64)
    first, last = at // _SECTOR, (at + size - 1) // _SECTOR
    moved = len(_distinct(np.tile(requests, 2), np.concatenate([first, last])))
    own = _distinct(requests, at)
    filled = np.bincount(requests[own], size[own])
    return moved, int(np.ceil(filled / _SECTOR).sum())


def _turns(
    events: np.ndarray[Any, Any], at: np.ndarray[Any, Any], requests: np.ndarray[Any, Any]
) -> tuple[int, int]:
    """The turns in which the banks of shared memory serve requests, and their number without conflicts.

    A bank serves one word of 4 bytes in a turn, to any number of threads. Wider accesses are served by half or quarter
    warps; atomic operations on one word one after another.
    """
    size = int(events["size"].max())
    words = max(1, size // _WORD)
    lanes = WARP // words
    phase = requests * words + events["thread"].astype(np.int64) % WARP // lanes
    word = np.concatenate([at // _WORD + i for i in range(words)])
    phases = np.tile(phase, words)
    if int(events["how"][0]) != ATOMIC:
        own = _distinct(phases, word)
        phases, word = phases[own], word[own]
    order, begins = sorted_by(phases, word % _BANKS)
    counts = np.diff(np.append(np.flatnonzero(begins), len(order)))
    turns = np.zeros(int(phases.max()) + 1, np.int64)
    np.maximum.at(turns, phases[order][begins], counts)
    return int(turns.sum()), len(np.unique(phase))


@contextlib.contextmanager
def traced(
    kernel: str = "", *, blocks: int = 2, most: int = 20, accesses: int = 1_000_000
) -> Iterator[list[Trace]]:
    """A with-block in which the host records what kernels read and write; at its end the list has a trace a launch.

    Launches run as in :func:`checked`, whose findings are left out. Of launches of one kernel, grid and block the first
    is traced.

    Args:
        kernel: a part of the names of traced kernels.
        blocks: how many blocks of a launch are traced, from the first.
        most: the most launches.
        accesses: the most accesses of a launch, of 32 bytes each.

    Raises:
        TypeError: a number is not an integer, or ``kernel`` not a string.
        ValueError: a number is less than 1.

    Arrays that begin where their memory was allocated are taken to begin at a sector, as on a GPU. Sectors, banks and
    warps are counted as on NVIDIA's GPUs since Volta (CUDA C++ Best Practices Guide, "Coalesced Access to Global
    Memory" and "Shared Memory"). The accesses are those of the host's compiler, which may keep in a register what nvcc
    loads twice.

    >>> import cukern as ck
    >>> column = ck.Kernel('''
    ... extern "C" __global__ void << name >>(const float* x, float* y) {
    ...     y[threadIdx.x] = x[32 * threadIdx.x];
    ... }''', name="column", block=32)
    >>> with traced() as traces:
    ...     column(ck.ones(1024), ck.zeros(32), grid=1)
    >>> for access in traces[0].accesses:
    ...     print(access.array, access.what, access.moved, "sectors, at least", access.least)
    x reads 32 sectors, at least 4
    y writes 4 sectors, at least 4
    """
    if not isinstance(kernel, str):
        raise TypeError(f"traced: kernel: expected a string, got {type(kernel).__name__}")
    given = {"blocks": blocks, "accesses": accesses, "most": most}
    blocks, accesses, most = (require_int(f"traced: {name}", one, 1) for name, one in given.items())
    tracer = Tracer(blocks, accesses, kernel, most)
    chosen = mode.Mode(1, False, [], tracer)
    traces: list[Trace] = []
    try:
        with mode.checking(chosen):
            yield traces
    finally:
        traces.extend(map(Trace, tracer.launches))
