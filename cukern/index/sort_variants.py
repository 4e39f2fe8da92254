"""Sorts of rows as problems of a family, and its variants: merges of sorted tiles (merge path), and radix sorts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device.interface import Properties
from ..dtypes import DType
from ..elementwise.function import astype
from ..kernel import Kernel
from ..kernel.plan import new, zeroed
from ..kernel.sizes import divide_up, power_of_two
from ..launch import cost
from ..launch.variant import Launch, OfArrays, Plan, Variant, prepared
from .sort_keys import UNSIGNED, index_of, key_variables

#: The templates by stage, and whether a block has one thread.
_KERNELS = {
    ("tile", False): Kernel("index/sort_tile.cu"),
    ("tile", True): Kernel("index/sort_tile_serial.cu"),
    ("merge", False): Kernel("index/sort_merge.cu"),
    ("merge", True): Kernel("index/sort_merge_serial.cu"),
    ("runs", True): Kernel("index/radix_serial.cu"),
    ("counts", False): Kernel("index/radix_counts.cu"),
    ("pass", False): Kernel("index/radix_pass.cu"),
    ("last", False): Kernel("index/radix_pass.cu"),
}
#: Elements of a row from which there are fewer passes over it than merges.
_LONG = 1 << 18
#: The same on the host, per byte of a key.
_HOST_LONG = 32
#: Tiles that a host thread sorts.
_TILES = 1024
#: Stretches that a host thread merges at once, interleaved, so that their loads overlap.
_CHAINS = 4
#: Elements per stretch.
_STRETCH = 4096
#: The most elements that a host thread sorts by digits.
_RUN = 1 << 20
#: Values of a digit.
_DIGITS = 256
#: Threads per block of the histogram kernel.
_COUNT_BLOCK = 512
#: Elements in flight per thread of the histogram kernel.
_COUNT_ITEMS = 8
#: The fewest elements per thread of the histogram kernel.
_COUNT_PIECE = 64
#: Blocks of the histogram kernel: four in each of 132 multiprocessors.
_COUNTERS = 528


@dataclass(frozen=True)
class Sorting(OfArrays):
    """The sort of the rows of an array (..., n) in C order; its other fields are the arguments of ``sorted_rows``."""

    indexed: bool
    descending: bool

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of rows, and of the elements of each."""
        *rows, n = self.operands[0].shape
        return math.prod(rows), n

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of the sorted rows, and of their indices in int64."""
        return self.layouts(dtypes.int64)

    def layouts(self, index: DType) -> tuple[Layout, ...]:
        """The layouts of rows, and if they are wanted of their indices in this dtype."""
        of = (self.dtype, index) if self.indexed else (self.dtype,)
        return tuple([fresh_layout(self.device, one, self.operands[0].shape) for one in of])

    @property
    def features(self) -> dict[str, Any]:
        """What its time depends on."""
        rows, n = self.sizes
        return {"dtype": str(self.dtype), "indexed": self.indexed, "rows": rows, "n": n}

    @property
    def summary(self) -> str:
        """The problem in a line."""
        how = f"{', descending' if self.descending else ''}{', with indices' if self.indexed else ''}"
        return f"rows of {self.dtype} {self.operands[0].shape}{how}"


class Kernels(Variant[Sorting]):
    """What all variants share: the template variables, which differ by stage, and the cost of a pass for each byte."""

    efficiency = 0.5

    def cost(self, problem: Sorting, limits: Properties) -> float:
        """See :class:`Variant`."""
        return super().cost(problem, limits) * problem.dtype.itemsize

    def keyed(
        self, problem: Sorting, stage: str, blocks: int, block: int, *params: int, **more: Any
    ) -> Launch:
        """The launch of a stage, of so many blocks, with these numbers and further template variables."""
        index, indexed = index_of(problem.sizes[1])[0], problem.indexed and stage != "counts"
        named = key_variables(problem.dtype, f"{stage}_{block}", index, indexed, problem.descending)
        if stage not in ("tile", "merge"):
            named["unsigned"] = UNSIGNED[problem.dtype.itemsize]
            named["word"] = "unsigned" if index == "int" else "unsigned long long"
        kernel = _KERNELS[stage, block == 1]
        return Launch((blocks, 1, 1), block, constants={**named, **more}, params=params, kernel=kernel)


@dataclass(frozen=True)
class Merge(Kernels):
    """Tiles are sorted in shared memory, on the host by single threads, and merged in pairs.

    Attributes:
        block: threads per block, 1 or a multiple of 32.
        lanes: threads that sort a tile together, a power of two; the whole block if a row has several tiles.
        items: elements per thread of a tile, a power of two.
    """

    name = "merge"
    of_launch = frozenset(("block", "lanes", "items", "run"))
    #: Whether the first launch needs memory for two results.
    needs_both: ClassVar[bool] = False

    block: int
    lanes: int
    items: int

    @classmethod
    def configs(cls, problem: Sorting, limits: Properties) -> Iterator[Merge]:
        """On a GPU 8 elements a thread, in tiles of as many threads as a row has, up to a block."""
        on_gpu = cls(256, min(256, power_of_two(divide_up(problem.sizes[1], 8))), 8)
        yield cls(1, 1, 16) if cost.is_host(limits) else on_gpu

    def cost(self, problem: Sorting, limits: Properties) -> float:
        """See :class:`Variant`; passes as the logarithm of the row's length."""
        long = _HOST_LONG * problem.dtype.itemsize if cost.is_host(limits) else _LONG
        return super().cost(problem, limits) * math.log2(max(2, problem.sizes[1])) / math.log2(long)

    @property
    def run(self) -> int:
        """Elements that the first launch sorts together."""
        return self.lanes * self.items

    def staged(self, problem: Sorting, stage: str, blocks: int, *params: int) -> Launch:
        """The launch of a stage, with the constants."""
        own = {"lanes": self.lanes, "items": self.items, "chains": _CHAINS}
        return self.keyed(problem, stage, blocks, self.block, *params, **own)

    def launch(self, problem: Sorting, limits: Properties) -> Launch:
        """The launch that sorts tiles."""
        (rows, n), piece = problem.sizes, (_TILES,) if self.block == 1 else ()
        tiles = divide_up(n, self.run)
        blocks = divide_up(rows * tiles, self.block // self.lanes * math.prod(piece))
        return self.staged(problem, "tile", blocks, rows, n, tiles, *piece)

    def plan(self, problem: Sorting, limits: Properties) -> Plan:
        """The launches, from one of two buffers to the other."""
        (rows, n), device, piece = problem.sizes, problem.device, _CHAINS * _STRETCH
        serial, several = self.block == 1, n > self.run
        tiles = divide_up(n, piece if serial else self.run)
        first = prepared(self, self.launch(problem, limits), device)
        merge = prepared(self, self.staged(problem, "merge", rows * tiles), device) if several else first
        layouts = problem.layouts(index_of(n)[1])

        def compute(x: Array) -> list[Array]:
            made, others = new(layouts), new(layouts) if several or self.needs_both else []
            first((x, *made, *others) if self.needs_both else (x, *made))
            run = self.run
            while run < n:
                own = (rows, n, run, min(2 * run, _STRETCH), tiles, piece) if serial else (n, tiles, run)
                merge((*made, *others, *own))
                made, others, run = others, made, 2 * run
            return [made[0], *(astype(one, dtypes.int64, copy=False) for one in made[1:])]

        return compute


@dataclass(frozen=True)
class RadixRuns(Merge):
    """Runs are sorted by digits of 8 bits, each by a thread of the host, and merged in pairs.

    Attributes:
        run: elements that a thread sorts.
    """

    name = "radix runs"
    needs_both = True
    cost = Kernels.cost

    run: int = _RUN

    @classmethod
    def fits(cls, problem: Sorting, limits: Properties) -> str:
        """For a host."""
        return "" if cost.is_host(limits) else "for a host, whose threads have long loops"

    def launch(self, problem: Sorting, limits: Properties) -> Launch:
        """The launch that sorts runs."""
        rows, n = problem.sizes
        runs = divide_up(n, self.run)
        return self.keyed(problem, "runs", rows * runs, 1, rows, n, runs, self.run, items=1)


@dataclass(frozen=True)
class Radix(Kernels):
    """Least-significant-digit radix sort of long rows, with digits of 8 bits: one read and write per digit.

    One kernel computes the digit histograms of all passes; then each pass scatters the elements, with the offsets
    of its tiles from a decoupled look-back (Adinets and Merrill, "Onesweep: a faster least significant digit radix
    sort for GPUs", 2022).

    Attributes:
        block: threads per block, a multiple of 32, at least 256.
        items: elements per thread of a tile.
        resident: blocks resident per multiprocessor.
    """

    name = "radix"
    of_launch = frozenset(("block", "items", "resident"))
    needs = (5, 0)

    block: int
    items: int
    resident: int

    @classmethod
    def configs(cls, problem: Sorting, limits: Properties) -> Iterator[Radix]:
        """By the registers that an element and its index take."""
        index = index_of(problem.sizes[1])[1].itemsize * problem.indexed
        narrow = cls(256, 16, 4) if index else cls(384, 16, 3)
        yield cls(256, 12, 3 if index else 4) if max(problem.dtype.itemsize, index) == 8 else narrow

    def launch(self, problem: Sorting, limits: Properties) -> Launch:
        """The launch that counts the digits of each row."""
        rows, n = problem.sizes
        piece = divide_up(n, max(1, min(divide_up(_COUNTERS, rows), n // (_COUNT_BLOCK * _COUNT_PIECE))))
        own = divide_up(n, piece), piece
        return self.keyed(problem, "counts", rows * own[0], _COUNT_BLOCK, n, *own, items=_COUNT_ITEMS)

    def scatter(self, problem: Sorting, blocks: int, last: bool) -> Launch:
        """The launch that scatters the elements by a digit; the last one writes indices of 64 bits."""
        index = index_of(problem.sizes[1])[0]
        index_out = "long long" if problem.indexed and last else index
        own = {"items": self.items, "resident": self.resident, "index_out": index_out}
        return self.keyed(problem, "pass" if index_out == index else "last", blocks, self.block, **own)

    def plan(self, problem: Sorting, limits: Properties) -> Plan:
        """The launches, with the counts and the words of each look-back in one array."""
        (rows, n), device, passes = problem.sizes, problem.device, problem.dtype.itemsize
        tiles, index = divide_up(n, self.block * self.items), index_of(n)[1]
        count = prepared(self, self.launch(problem, limits), device)
        stages = [(last, self.scatter(problem, rows * tiles, last)) for last in {passes == 1, True}]
        scatters = {last: prepared(self, launch, device) for last, launch in stages}
        counts, each = rows * passes * _DIGITS, 1 + rows * tiles * _DIGITS
        words = fresh_layout(device, np.dtype(f"u{index.itemsize}"), (counts + passes * each,))

        def compute(x: Array) -> list[Array]:
            results, zeros = new(problem.results), zeroed(words)
            # Two arrays alternate, and the last pass writes the results; those may hold narrower indices before.
            both = results, new(problem.layouts(index)) if passes > 1 else []
            count((x, zeros))
            source: list[Array | None] = [x, None][: len(results)]
            for k in range(passes):
                made, status = both[(passes - 1 - k) % 2], zeros[counts + k * each :]
                scatters[k == passes - 1]((*source, *made, zeros, status, rows, n, tiles, k))
                source = [*made]
            return results

        return compute
