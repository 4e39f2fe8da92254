"""Scans as problems of a family, and its variants: sequential columns on the host, rows and columns in tiles on a GPU.

A GPU reads each element once and writes it once. Few long rows, and long columns, are split into tiles that are
scanned in parallel, with decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with decoupled
look-back", 2016). Sums are grouped by position, not by the order in which tiles finish, so every run gives the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import dtypes
from ..array.layout import Layout, fresh_layout
from ..device.interface import Properties
from ..dtypes import DType
from ..elementwise.print_cxx import compute_type
from ..kernel import Kernel
from ..kernel.sizes import divide_up, index_type, power_of_two
from ..launch import cost
from ..launch.variant import Launch, OfArrays, Variant

#: The fewest elements that a host thread scans, in one column or in several.
_PIECE = 1 << 16
#: Neighbouring columns that a host thread scans together if columns are not contiguous.
_TILE = 64
#: Threads that keep a GPU busy: 1024 in each of 128 multiprocessors, with four packs of 16 bytes in flight per thread.
_BUSY = 1 << 17
#: Rows from which one block per row fills the GPU; fewer rows are split into tiles.
_ROWS_BUSY = 264
#: Packs per thread in a row that one block walks, by elements per pack. Two steps are held in registers; 64 registers
#: per thread leave room for 1024 threads per multiprocessor.
_WALK_PACKS = {1: 4, 2: 4, 4: 4, 8: 4, 16: 2}
#: A block walks rows with fewer packs; few longer rows are split into tiles.
_TILED = 1 << 13
#: Threads per tile.
_TILE_BLOCK = 256
#: Bytes of shared memory per thread of a tile.
_TILE_BYTES = 128
#: Resident tiles per multiprocessor: 192 KiB in flight hide the latency of memory and of the look-back.
_RESIDENT = 6
#: Tiles below which each is half as large.
_FEW_TILES = 264
#: Nanoseconds between two polls of the look-back.
_PAUSE = 20


class Scan(NamedTuple):
    """How the prefix ``a`` and the next number ``b`` are combined, in C++; ``wide``: float32 accumulates in float64."""

    combine: str
    identity: str
    wide: bool = False


#: By the public name; the recurrence is of elements that are pairs, from two arrays.
_SCANS = {
    "cumsum": Scan("a + b", "T(0)", wide=True),
    "cumprod": Scan("a * b", "T(1)", wide=True),
    "cummax": Scan("maximum(a, b)", "limits<T>::lowest()"),
    "cummin": Scan("minimum(a, b)", "limits<T>::highest()"),
    "recurrence": Scan("", "", wide=True),
}


@dataclass(frozen=True)
class Scanning(OfArrays):
    """A scan of an array in C order, or of a pair of one shape; its other fields are the arguments of ``scanned``."""

    scan: str
    axis: int
    value: DType
    reverse: bool = False
    lead: bool = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The shape, with the axes before the scanned one merged into one, and those after it."""
        shape, axis = self.operands[0].shape, self.axis
        return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])

    @property
    def results(self) -> tuple[Layout]:
        """The layout of the result."""
        shape = [n + (self.lead and i == self.axis) for i, n in enumerate(self.operands[0].shape)]
        return (fresh_layout(self.device, self.value, tuple(shape)),)

    @property
    def accumulator(self) -> DType:
        """The dtype in which it is accumulated; integers wrap around, in unsigned arithmetic."""
        row, wide = dtypes.info(self.value), {dtypes.float32: "f8", dtypes.complex64: "c16"}
        if not _SCANS[self.scan].wide:
            return row.acc
        return dtypes.uint64 if row.kind in "iu" else dtypes.as_dtype(wide.get(self.value, row.acc))

    @property
    def width(self) -> int:
        """Elements per pack: 16 bytes of the wider type, but at least 4 bytes of the other."""
        source = self.dtype.itemsize
        return max(16 // max(source, self.value.itemsize), 4 // source)

    @property
    def packs(self) -> int:
        """Packs of a row of contiguous elements."""
        _, n, _ = self.sizes
        return divide_up(n, self.width) + (n % self.width > 0)

    @property
    def features(self) -> dict[str, Any]:
        """What its time depends on."""
        outer, n, inner = self.sizes
        words = {"scan": self.scan, "dtype": str(self.dtype), "result": str(self.value)}
        return {**words, "outer": outer, "n": n, "inner": inner}

    @property
    def summary(self) -> str:
        """The problem in a line."""
        how = f"axis {self.axis}{', from its end' if self.reverse else ''}{', with the start' if self.lead else ''}"
        return f"{self.scan} of {self.dtype} {self.operands[0].shape} in {self.value} along {how}"


class Kernels(Variant[Scanning]):
    """What all variants share: the template variables of a scan."""

    block: int

    def laid_out(self, problem: Scanning, grid: int, *params: int, states: int = 0, **more: Any) -> Launch:
        """A launch of so many blocks, which tell each other so many states, with these numbers and more variables."""
        scan, source, accumulator = _SCANS[problem.scan], problem.dtype, problem.accumulator
        pair = len(problem.operands) == 2
        # Two words for a ticket; those of a state have 32 bits of it each, and say that they are there.
        words = 2 + states * divide_up(accumulator.itemsize * len(problem.operands), 4) if states else 0
        absent = scan.identity.replace("T(", "S(").replace("<T>", "<S>")
        if source in dtypes.FLOATS:
            absent = f"cast<S>({scan.identity})"
        constants = {
            "name": f"{problem.scan}_{dtypes.info(source).name}_{self.block}",
            "scan": problem.scan,
            "pair": pair,
            "combine": scan.combine,
            "identity": scan.identity,
            "absent": "S(1)" if pair else absent,
            "reverse": problem.reverse,
            "source": dtypes.info(source).cxx,
            "compute": compute_type(problem.value),
            "result": dtypes.info(problem.value).cxx,
            "accumulator": dtypes.info(accumulator).cxx,
            **more,
        }
        return Launch((grid, 1, 1), self.block, constants=constants, params=params, zeros=8 * words)


@dataclass(frozen=True)
class Serial(Kernels):
    """Sequential columns, for the host, and for rows shorter than a pack.

    Attributes:
        block: threads per block.
        tile: neighbouring columns that one thread scans together.
        columns_piece: columns per thread.
    """

    name = "serial"
    kernel = Kernel("index/scan.cu")
    of_launch = frozenset(("columns_piece",))
    efficiency = 0.3

    block: int
    tile: int
    columns_piece: int

    @classmethod
    def fits(cls, problem: Scanning, limits: Properties) -> str:
        """On the host, and for rows shorter than a pack."""
        _, n, inner = problem.sizes
        few = cost.is_host(limits) or (inner == 1 and n < problem.width)
        return "" if few else "for the host, and for rows of less than 16 bytes"

    @classmethod
    def configs(cls, problem: Scanning, limits: Properties) -> Iterator[Serial]:
        """Tiles of columns and long loops on the host."""
        tile = _TILE if problem.sizes[2] > 1 else 1
        on_host = cls(1, tile, max(tile, _PIECE // max(1, problem.sizes[1])))
        yield on_host if cost.is_host(limits) else cls(256, 1, 1)

    def launch(self, problem: Scanning, limits: Properties) -> Launch:
        """See :class:`Variant`."""
        outer, n, inner = problem.sizes
        columns, piece = outer * inner, self.columns_piece
        params = columns, piece, n, inner, problem.lead
        return self.laid_out(problem, divide_up(columns, self.block * piece), *params)


@dataclass(frozen=True)
class Rows(Kernels):
    """Rows of contiguous elements: part of a warp, a warp or a block walks along each.

    Attributes:
        block: threads per block.
        lanes: threads that walk along a row together: a power of two up to 32, or the block.
        packs: packs of up to 16 bytes per thread and step.
    """

    name = "rows"
    kernel = Kernel("index/scan_rows.cu")
    needs = (5, 0)
    efficiency = 0.9

    block: int
    lanes: int
    packs: int

    @classmethod
    def fits(cls, problem: Scanning, limits: Properties) -> str:
        """For rows of at least a pack."""
        _, n, inner = problem.sizes
        return "" if inner == 1 and n >= problem.width else "for rows of at least 16 bytes"

    @classmethod
    def configs(cls, problem: Scanning, limits: Properties) -> Iterator[Rows]:
        """As many threads a row as keep the GPU busy."""
        rows, packs = problem.sizes[0], problem.packs
        held = _WALK_PACKS[problem.width] // len(problem.operands)
        lanes = min(32, power_of_two(packs))
        while 32 <= lanes < 512 and rows * lanes < _BUSY and lanes * held < packs:
            lanes *= 2
        yield cls(max(256, lanes) if lanes <= 32 else lanes, lanes, min(held, divide_up(packs, lanes)))

    def cost(self, problem: Scanning, limits: Properties) -> float:
        """See :class:`Variant`; a block for each of few long rows leaves most of a GPU idle."""
        seconds, rows = super().cost(problem, limits), problem.sizes[0]
        long = problem.packs > _TILED // len(problem.operands)
        return seconds * (1 + _ROWS_BUSY / max(1, rows)) if long and rows < _ROWS_BUSY else seconds

    def launch(self, problem: Scanning, limits: Properties) -> Launch:
        """See :class:`Variant`."""
        (rows, n, _), width = problem.sizes, problem.width
        # A row may begin anywhere within a pack.
        total, blocks = n + width - 1, divide_up(rows, self.block // self.lanes)
        single = total <= self.lanes * width * self.packs
        own: dict[str, Any] = {"width": width, "single": single, "index": index_type(n)}
        return self.laid_out(problem, blocks, rows, n, total, problem.lead, **own)


@dataclass(frozen=True)
class Tiles(Kernels):
    """Few long rows of contiguous elements, split into tiles in shared memory.

    Attributes:
        block: threads per block, whole warps; a block scans one tile.
        packs: packs of up to 16 bytes per thread.
        resident: blocks resident per multiprocessor, which limits their registers.
    """

    name = "tiles"
    kernel = Kernel("index/scan_tiles.cu")
    needs = (5, 0)
    efficiency = 0.8
    fits = Rows.fits

    block: int
    packs: int
    resident: int

    @classmethod
    def configs(cls, problem: Scanning, limits: Properties) -> Iterator[Tiles]:
        """Half as many packs a thread where there are few tiles."""
        source, result = problem.dtype.itemsize, problem.value.itemsize
        # Results overwrite elements of the same size.
        held = source * len(problem.operands) + (result if result != source else 0)
        each = _TILE_BYTES // (problem.width * held)
        if problem.packs * problem.sizes[0] < _FEW_TILES * _TILE_BLOCK * each:
            each //= 2
        yield cls(_TILE_BLOCK, 1 << max(each, 1).bit_length() - 1, _RESIDENT)

    def launch(self, problem: Scanning, limits: Properties) -> Launch:
        """See :class:`Variant`; the states are those of tiles, of sets of 32 and of 1024 tiles."""
        (rows, n, _), width = problem.sizes, problem.width
        tiles = divide_up(n + width - 1, self.block * self.packs * width)
        states = rows * (tiles + divide_up(tiles, 32) + tiles // 1024 + 1)
        in_place = problem.dtype.itemsize == problem.value.itemsize
        own = {"width": width, "in_place": in_place, "pause": _PAUSE, "index": index_type(n)}
        return self.laid_out(problem, rows * tiles, rows, n, problem.lead, tiles, states=states, **own)


@dataclass(frozen=True)
class Columns(Kernels):
    """Columns, whose elements are strided, in strips of neighbouring ones.

    Attributes:
        block: threads per block.
        lanes: threads along a row of the tile, a power of two up to 32.
        items: rows per thread.
        width: neighbouring columns per thread.
    """

    name = "columns"
    kernel = Kernel("index/scan_columns.cu")
    needs = (5, 0)
    efficiency = 0.8

    block: int
    lanes: int
    items: int
    width: int

    @classmethod
    def fits(cls, problem: Scanning, limits: Properties) -> str:
        """For several columns."""
        return "" if problem.sizes[2] != 1 else "for several neighbouring columns"

    @classmethod
    def configs(cls, problem: Scanning, limits: Properties) -> Iterator[Columns]:
        """Threads beside each other for the columns, then below each other."""
        _, n, inner = problem.sizes
        width = max(1, 4 // max(problem.dtype.itemsize, problem.value.itemsize))
        while width > 1 and (inner % width or not all(one.aligned for one in problem.operands)):
            width //= 2
        lanes = min(32, power_of_two(divide_up(inner, width)))
        items = min(32 // len(problem.operands), max(4, power_of_two(n)))
        groups = min(256 // lanes, power_of_two(divide_up(n, items)))
        yield cls(max(32, groups * lanes), lanes, items, width)

    def pieces(self, problem: Scanning) -> int:
        """Tiles of a column."""
        return max(1, divide_up(problem.sizes[1], self.block // self.lanes * self.items))

    def launch(self, problem: Scanning, limits: Properties) -> Launch:
        """See :class:`Variant`; each column of a tile has a state."""
        (outer, n, inner), columns, pieces = problem.sizes, self.lanes * self.width, self.pieces(problem)
        strips = outer * divide_up(inner, columns)
        states = pieces * strips * columns if pieces > 1 else 0
        own = {"chained": pieces > 1, "pause": _PAUSE}
        return self.laid_out(problem, strips * pieces, n, inner, strips, problem.lead, states=states, **own)
