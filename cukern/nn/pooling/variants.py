"""The variants of pooling: each window by itself, tiles of windows, and images whose channels lie last in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ... import dtypes
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, index_type
from ...launch import cost
from ...launch.variant import Launch, Variant
from .problem import Pooling

#: Threads of a block.
BLOCK = 256


class Windowed(Variant[Pooling]):
    """What all variants share: the windows as template variables."""

    channels_last: ClassVar[bool] = False
    threads: int

    @classmethod
    def fits(cls, problem: Pooling, limits: Properties) -> str:
        """For arrays in one order of memory."""
        if problem.channels_last == cls.channels_last:
            return ""
        return f"for channels {'last' if cls.channels_last else 'first'}"

    def all_threads(self, problem: Pooling) -> int:
        """Those that have a part of what is computed, by default of so many rows and items."""
        (rows, columns), own = problem.result_plane, self.constants()
        return problem.planes * divide_up(rows, own.get("rows", 1)) * divide_up(columns, own.get("items", 1))

    def about(self, problem: Pooling) -> dict[str, Any]:
        """More template variables."""
        return {"channels_last": self.channels_last, "keep": problem.keep}

    def launch(self, problem: Pooling, limits: Properties) -> Launch:
        """See :class:`Variant`; of nothing it is one block, all of whose threads end at once."""
        windows, winner = problem.windows, problem.windows.winner_dtype
        channels = problem.shape[1:2] if problem.channels_last else ()
        return Launch(
            grid=(max(1, divide_up(self.all_threads(problem), self.threads)), 1, 1),
            block=self.threads,
            constants={
                **{"items": 1, "pack": 1, **self.constants()},
                "elem": problem.dtype,
                "index": index_type(*(problem.planes * a * b for a, b in (problem.plane, problem.outputs))),
                "kernel": windows.kernel,
                "stride": windows.stride,
                "padding": windows.padding,
                "dilation": windows.dilation,
                "count_padding": windows.count_padding,
                "kind": "maximum" if problem.maximum else "average",
                "winner": dtypes.info(winner).cxx,
                "no_winner": windows.no_winner,
                **self.about(problem),
            },
            params=(problem.planes // math.prod(channels), *problem.plane, *problem.outputs, *channels),
        )


@dataclass(frozen=True)
class Portable(Windowed):
    """Each window by itself: a thread reads those of ``items`` neighbouring outputs of a row.

    Attributes:
        items: outputs of a thread.
        threads: of a block.
    """

    name = "portable"
    kernel = Kernel("nn/pooling/forward.cu", name="pool2d")
    efficiency = 0.3

    items: int
    threads: int = BLOCK

    #: Outputs of a thread at most.
    most_items: ClassVar[int] = 4

    @classmethod
    def configs(cls, problem: Pooling, limits: Properties) -> Iterator[Portable]:
        """Several neighbours in rows that have as many."""
        yield cls(1 if problem.result_plane[1] < cls.most_items else cls.most_items)


@dataclass(frozen=True)
class PortableGradient(Portable):
    """Each element of the image by itself: a thread sums what reaches one from its windows."""

    kernel = Kernel("nn/pooling/backward.cu", name="pool2d_backward")
    most_items = 1


class Part(NamedTuple):
    """A thread's part at most.

    Attributes:
        run: contiguous bytes of a row of the image that it reads, or of a gradient writes.
        rows: of what is computed.
        stride: columns from one window to the next.
    """

    run: int
    rows: int
    stride: int = ACCESS


@dataclass(frozen=True)
class Tiles(Windowed):
    """Neighbours of several rows by a thread, which reads once what their windows share, in vectorized accesses.

    Attributes:
        rows, items: of what is computed, of a thread: ``items`` neighbours in each of ``rows`` rows.
        pack: elements of a read.
        store: elements of a write.
        threads: of a block.
    """

    name = "tiles"
    kernel = Kernel("nn/pooling/forward_tiles.cu", name="pool2d")
    efficiency = 0.8

    rows: int
    items: int
    pack: int
    store: int
    threads: int = BLOCK

    #: On the host, where windows that are far apart are as fast by themselves; on a GPU, with the widest access, and
    #: rows enough to hide the latency; there of 16-bit floats, of which 8 take longer to sum than that access saves.
    host: ClassVar[Part] = Part(32, 2, stride=4)
    gpu: ClassVar[Part] = Part(16, 4)
    gpu_narrow: ClassVar[Part] = Part(8, 4)
    #: Threads of a multiprocessor below which each has fewer rows.
    busy: ClassVar[int] = 1024
    #: Elements of a window, registers of a thread, and unrolled steps at most.
    most_places: ClassVar[int] = 64
    most_registers: ClassVar[int] = 160
    most_steps: ClassVar[int] = 2048

    @classmethod
    def part(cls, problem: Pooling, limits: Properties) -> Part:
        """A thread's at most."""
        if cost.is_host(limits):
            return cls.host
        return cls.gpu_narrow if problem.dtype.itemsize == 2 else cls.gpu

    @classmethod
    def fits(cls, problem: Pooling, limits: Properties) -> str:
        """For small windows that are near to each other, in a gradient also down."""
        windows, most = problem.windows, cls.part(problem, limits).stride
        if why := super().fits(problem, limits):
            return why
        if math.prod(windows.kernel) > cls.most_places:
            return f"for windows of at most {cls.most_places} elements"
        apart = max(windows.stride) if problem.gradient else windows.stride[1]
        return "" if apart <= most else f"for windows at most {most} apart"

    @classmethod
    def candidates(cls, problem: Pooling, part: Part) -> tuple[list[int], list[int]]:
        """The rows of a thread, and the items, in descending order."""
        down, across = problem.outputs
        items = max(1, part.run // problem.dtype.itemsize // problem.windows.stride[1])
        return _halves(part.rows, down), _halves(items, across)

    @classmethod
    def holds(cls, problem: Pooling, rows: int, items: int) -> bool:
        """Whether a thread's registers hold what it reads."""
        windows, words = problem.windows, divide_up(problem.dtype.itemsize, 4)
        columns = (items - 1) * windows.stride[1] + windows.span[1]
        return len(windows.touched(rows)) * columns * words <= cls.most_registers

    @classmethod
    def of(cls, problem: Pooling, rows: int, items: int) -> Tiles:
        """With the widest accesses that the sizes and the memory admit."""
        if not problem.aligned:
            return cls(rows, items, 1, 1)
        most, stride = ACCESS // problem.dtype.itemsize, problem.windows.stride[1]
        read = items // stride if problem.gradient else items * stride
        columns = problem.outputs[1] if problem.gradient else problem.plane[1]
        return cls(rows, items, math.gcd(most, read, columns), math.gcd(most, items, problem.result_plane[1]))

    @classmethod
    def configs(cls, problem: Pooling, limits: Properties) -> Iterator[Tiles]:
        """By preference, as their cost is the same: the most items, and of these the most rows of enough threads."""
        all_rows, all_items = cls.candidates(problem, cls.part(problem, limits))
        for items in all_items:
            configs = [cls.of(problem, rows, items) for rows in all_rows if cls.holds(problem, rows, items)]
            enough = cls.busy * limits.multiprocessors
            yield from (one for one in configs if one.all_threads(problem) >= enough)
            yield from (one for one in reversed(configs) if one.all_threads(problem) < enough)

    def about(self, problem: Pooling) -> dict[str, Any]:
        windows, plane = problem.windows, problem.plane
        own: dict[str, Any] = {"even": windows.are_inside(*plane, windows.count_padding)}
        if not problem.gradient:
            own |= {"full": windows.are_inside(*plane), "touched": windows.touched(self.rows)}
        return {**super().about(problem), **own}


@dataclass(frozen=True)
class TilesGradient(Tiles):
    """Neighbours of several rows of the image by a thread, which reads once all windows that reach one of them."""

    kernel = Kernel("nn/pooling/backward_tiles.cu", name="pool2d_backward")
    # A gradient reads little, and does not wait for its writes.
    host = Part(32, 2)
    gpu_narrow = Part(16, 8)
    # More are too many unrolled steps, of whichever tile.
    most_places = Tiles.most_steps

    @classmethod
    def candidates(cls, problem: Pooling, part: Part) -> tuple[list[int], list[int]]:
        """See :class:`Tiles`: multiples of the strides."""
        (height, width), (down, across) = problem.plane, problem.windows.stride
        rows = [down * n for n in _halves(max(1, part.rows // down), divide_up(height, down))]
        items = [math.lcm(n, across) for n in _halves(part.run // problem.dtype.itemsize, width)]
        return rows, list(dict.fromkeys(items))

    @classmethod
    def holds(cls, problem: Pooling, rows: int, items: int) -> bool:
        """See :class:`Tiles`; with sums and winners, in a loop that is unrolled."""
        held = math.prod(problem.windows.reaching(rows, items))
        words = divide_up(problem.dtype.itemsize, 4)
        fits = (rows * items + 2 * held) * words <= cls.most_registers
        return fits and held * math.prod(problem.windows.kernel) <= cls.most_steps


@dataclass(frozen=True)
class ChannelsLast(Windowed):
    """Neighbouring channels of a window by a thread, in vectorized accesses, where channels lie last (NHWC).

    Attributes:
        pack: channels of a thread.
        threads: of a block.
    """

    name = "channels last"
    kernel = Kernel("nn/pooling/forward.cu", name="pool2d_last")
    efficiency = 0.8
    channels_last = True

    pack: int
    threads: int = BLOCK

    @classmethod
    def configs(cls, problem: Pooling, limits: Properties) -> Iterator[ChannelsLast]:
        """As many channels as the memory admits."""
        widest = math.gcd(problem.shape[1], ACCESS // problem.dtype.itemsize)
        yield cls(widest if problem.aligned else 1)

    def all_threads(self, problem: Pooling) -> int:
        return super().all_threads(problem) // self.pack


@dataclass(frozen=True)
class ChannelsLastGradient(ChannelsLast):
    """Neighbouring channels of a pixel of the image by a thread."""

    kernel = Kernel("nn/pooling/backward.cu", name="pool2d_last_backward")


def _halves(n: int, most: int) -> list[int]:
    """``n``, ``n // 2`` and so on down to 1, those below twice ``most``."""
    return [one for one in (n >> k for k in range(n.bit_length())) if one < 2 * most] or [1]
