"""Resampling as a family: a product with a banded matrix along each of the last three axes, in one pass."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import asarray
from ...array.layout import Layout, fresh_layout, is_aligned
from ...device import Device, device
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.plan import new, on
from ...kernel.sizes import ACCESS, divide_up, divisor_of, index_type, power_of_two
from ...launch import cost
from ...launch.family import Family
from ...launch.params import DIVISOR, Params
from ...launch.variant import Launch, Plan, Variant, prepared
from . import bands
from .bands import Band, Groups
from .regular import Regular, packs, regular

Axes = tuple[Band, Band, Band]


class Resampling(NamedTuple):
    """The last three axes of a dense array, each multiplied by a matrix.

    Attributes:
        x: that of the array.
        axes: the matrices.
        aligned: whether it begins at a multiple of 16 bytes.
    """

    x: Layout
    axes: Axes
    aligned: bool = True

    @property
    def device(self) -> Device:
        return self.x.device

    @property
    def results(self) -> tuple[Layout]:
        """The layout of the result."""
        sizes = [one.out for one in self.axes]
        return (fresh_layout(self.device, self.x.dtype, (*self.x.shape[:-3], *sizes)),)

    @property
    def planes(self) -> int:
        """Those of the last three axes."""
        return math.prod(self.x.shape[:-3])

    @property
    def offsets(self) -> str:
        """The C++ type of offsets."""
        return index_type(self.x.size, self.results[0].size)

    @property
    def features(self) -> dict[str, Any]:
        return {
            "dtype": dtypes.info(self.x.dtype).name,
            "flat": self.axes[0].n == self.axes[0].out == 1,
            "aligned": self.aligned,
            "elements": self.x.size,
            "results": self.results[0].size,
            "down": self.axes[1].taps,
            "across": self.axes[2].taps,
        }

    @property
    def summary(self) -> str:
        shapes = " to ".join(str(one.shape) for one in (self.x, *self.results))
        return f"resampling of {dtypes.info(self.x.dtype).name} {shapes}, {self.axes[2].taps} weights"

    def least_seconds(self, limits: Properties) -> float:
        """The time of its bytes."""
        return (self.x.nbytes + self.results[0].nbytes) / cost.bandwidth(limits)


_GROUPS = Params("Groups", across=DIVISOR, down=DIVISOR)


@dataclass(frozen=True)
class Regularly(Variant[Resampling]):
    """A thread makes a group of rows by a group of columns, where all groups have the same weights.

    Attributes:
        rows, columns: of a group.
        ahead: rows of x that are asked for before they are needed.
        resident: blocks of a multiprocessor at least.
    """

    name = "equal groups"
    kernel = Kernel("nn/resample_regular.cu", name="resample_regular")
    efficiency = 0.8

    rows: int
    columns: int
    ahead: int
    resident: int

    #: Threads of a block.
    block: ClassVar[int] = 128
    #: Rows of a group, of which those are taken that share at most such a part of the rows of x with the next ones, by
    #: whether the result is smaller.
    some_rows: ClassVar[tuple[int, ...]] = (1, 2, 4, 8)
    shared_part: ClassVar[dict[bool, float]] = {False: 1.0, True: 0.4}
    #: Columns of a smaller result, columns of x that a thread reads, and its products, at most.
    fewer: ClassVar[int] = 4
    widest: ClassVar[int] = 32
    products: ClassVar[int] = 1200
    #: By whether the result is smaller, :attr:`ahead`; and by whether it is so and of 16 bits, :attr:`resident`.
    rows_ahead: ClassVar[dict[bool, int]] = {False: 4, True: 1}
    blocks: ClassVar[dict[bool, int]] = {False: 4, True: 6}

    @classmethod
    def groups(cls, problem: Resampling) -> tuple[Regular, Regular] | None:
        """Those of rows and of columns; None where groups are not alike."""
        depth, down, across = problem.axes
        if depth.n != 1 or depth.out != 1 or not problem.aligned:
            return None
        items = ACCESS // problem.x.dtype.itemsize
        columns = regular(across, min(items, cls.fewer) if across.out < across.n else items)
        if columns is None or columns.reach > cls.widest:
            return None
        found = None
        for count in cls.some_rows:
            rows = regular(down, count)
            if rows is None or rows.reach * columns.products + rows.products * columns.items > cls.products:
                continue
            found = rows, columns
            if rows.reach - rows.apart <= cls.shared_part[rows.apart > rows.items] * rows.apart:
                break
        return found

    @classmethod
    def fits(cls, problem: Resampling, limits: Properties) -> str:
        """For planes whose groups are alike."""
        return (
            "" if cls.groups(problem) else "for planes of groups with the same weights, which begin aligned"
        )

    @classmethod
    def configs(cls, problem: Resampling, limits: Properties) -> Iterator[Regularly]:
        """One, by whether the result is smaller."""
        found = cls.groups(problem)
        assert found is not None
        smaller = found[0].apart > found[0].items
        narrow = smaller and problem.x.dtype.itemsize == 2
        yield cls(found[0].items, found[1].items, cls.rows_ahead[smaller], cls.blocks[narrow])

    def launch(self, problem: Resampling, limits: Properties) -> Launch:
        """A thread for each group."""
        (y,), (height, width) = problem.results, problem.x.shape[-2:]
        down, across = regular(problem.axes[1], self.rows), regular(problem.axes[2], self.columns)
        assert down is not None and across is not None
        groups = _GROUPS(
            across=divisor_of(y.shape[-1] // self.columns), down=divisor_of(y.shape[-2] // self.rows)
        )
        return Launch(
            grid=(divide_up(y.size // (self.rows * self.columns), self.block), 1, 1),
            block=self.block,
            constants={
                "elem": problem.x.dtype,
                "index": problem.offsets,
                "down": down,
                "across": across,
                "packs": packs(across, width, problem.x.dtype.itemsize),
            },
            params=(problem.planes, height, width, *y.shape[-2:], groups),
        )


@dataclass(frozen=True)
class ByWeights(Variant[Resampling]):
    """What variants share that read the weights: a thread makes neighbouring columns of a few rows.

    Attributes:
        items: columns.
        rows: at most.
    """

    kernel = Kernel("nn/resample.cu", name="resample")

    items: int = 1
    rows: int = 1

    walks: ClassVar[bool] = False
    block: ClassVar[int] = 256

    def groups(self, problem: Resampling) -> Groups | None:
        """The matrix of columns by groups, where a thread makes several."""
        return None

    def launch(self, problem: Resampling, limits: Properties) -> Launch:
        """A thread for each group of columns of a band of rows."""
        (y,), (depth, across, along) = problem.results, problem.axes
        groups = self.groups(problem)
        lines = problem.planes * depth.out * (along.out // self.items)
        return Launch(
            grid=(divide_up(lines * divide_up(across.out, self.rows), self.block), 1, 1),
            block=self.block,
            constants={
                "elem": problem.x.dtype,
                "index": problem.offsets,
                "walks": self.walks,
                "wide": groups.wide if groups and problem.aligned else 1,
                "inside": groups is None or groups.inside,
                "patterns": dict(zip(("used", "sure"), groups.patterns, strict=True)) if groups else {},
                "flat": depth.n == depth.out == 1,
                "taps": tuple(one.taps for one in self.tables(problem)),
            },
            params=(problem.planes, *problem.x.shape[-3:], *y.shape[-3:], self.rows),
        )

    def tables(self, problem: Resampling) -> Axes:
        """The matrices as the kernel reads them."""
        depth, across, along = problem.axes
        groups = self.groups(problem)
        return depth, across, groups.band if groups else along

    def plan(self, problem: Resampling, limits: Properties) -> Plan:
        """The launch, with the matrices."""
        where, results = problem.device, problem.results
        run = prepared(self, self.launch(problem, limits), where)
        tables = [array for one in self.tables(problem) for array in one.on(where, problem.x.dtype)]

        def compute(x: Array) -> Array:
            with on(where):
                (y,) = new(results)
                run((x, y, *tables))
            return y

        return compute


@dataclass(frozen=True)
class ByElements(ByWeights):
    """A thread makes one element."""

    name = "elements"
    efficiency = 0.2

    @classmethod
    def configs(cls, problem: Resampling, limits: Properties) -> Iterator[ByElements]:
        """One."""
        yield cls()


@dataclass(frozen=True)
class DownRows(ByWeights):
    """A thread goes down the rows of x, and keeps the sums along each that the rows of the result share."""

    name = "sums kept down the rows"
    efficiency = 0.5
    walks = True

    #: The most sums and weights along each axis that a thread keeps, and columns that it reads.
    held: ClassVar[int] = 64
    taps: ClassVar[tuple[int, int, int]] = (8, 16, 16)
    reach: ClassVar[int] = 32
    #: Rows of a thread, at most and at least, and threads of a multiprocessor below which it has fewer.
    most_rows: ClassVar[int] = 64
    fewest_rows: ClassVar[int] = 4
    busy: ClassVar[int] = 512

    @classmethod
    def columns(cls, problem: Resampling) -> int:
        """Those of a thread; 0 where it cannot keep their sums."""
        _, across, along = problem.axes
        itemsize = problem.x.dtype.itemsize
        items = ACCESS // itemsize
        while items > 1 and (
            along.out % items
            or items * (across.taps + along.taps) > cls.held
            or along.grouped(items, itemsize).band.taps > cls.reach
        ):
            items //= 2
        return items if all(one.taps <= most for one, most in zip(problem.axes, cls.taps, strict=True)) else 0

    @classmethod
    def rows_of(cls, out: int, threads: int, multiprocessors: int) -> int:
        """The rows of a thread, of which each makes so many threads."""
        rows = power_of_two(min(out, cls.most_rows))
        while rows > cls.fewest_rows and threads * divide_up(out, rows) < cls.busy * multiprocessors:
            rows //= 2
        return rows

    @classmethod
    def fits(cls, problem: Resampling, limits: Properties) -> str:
        """For matrices of few weights a row."""
        return "" if cls.columns(problem) else f"for at most {cls.taps} weights a row"

    @classmethod
    def configs(cls, problem: Resampling, limits: Properties) -> Iterator[DownRows]:
        """As many columns as fit, and rows that leave every multiprocessor enough threads."""
        depth, across, along = problem.axes
        items = cls.columns(problem)
        threads = problem.planes * depth.out * (along.out // items)
        yield cls(items, cls.rows_of(across.out, threads, limits.multiprocessors))

    def groups(self, problem: Resampling) -> Groups:
        """Of :attr:`items` columns."""
        return problem.axes[2].grouped(self.items, problem.x.dtype.itemsize)


def _reference(problem: Resampling) -> Callable[[Array], Array]:
    """A product with each matrix, in the dtype of sums."""
    acc = dtypes.info(problem.x.dtype).acc
    dense = [one.dense().astype(acc) for one in problem.axes]

    def compute(x: Array) -> Array:
        y = ops.astype(x, acc, copy=False)
        for axis, matrix in enumerate(dense, start=-3):
            y = ops.swapaxes(
                ops.matmul(ops.swapaxes(y, axis, -1), asarray(matrix.T, device=x.device)), axis, -1
            )
        return ops.astype(y, x.dtype, copy=False)

    return compute


#: Images of a diffusion UNet (nearest), of segmentation (linear), and position embeddings (cubic): mode, batch,
#: channels, size, and factor.
_MODELS = (
    ("nearest", 32, 256, 32, 2.0),
    ("linear", 8, 64, 128, 4.0),
    ("linear", 16, 256, 64, 2.0),
    ("cubic", 1, 768, 14, 2.0),
    ("linear", 64, 3, 512, 0.5),
)
#: Elements of an image and of a result at most, on a GPU and on the host.
_MOST, _MOST_ON_HOST = 2**26, 2**18


def _samples(where: Device, seed: int) -> Iterator[tuple[Resampling, tuple[Array]]]:
    """Problems of resampling and of its gradient, those of models first, without end."""
    draw, own, models = random.Random(seed), numbers.default_rng(seed), iter(_MODELS)
    most = _MOST_ON_HOST if where.addressable else _MOST
    while True:
        mode, batch, channels, size, factor = next(models, None) or (
            draw.choice(("nearest", "linear", "cubic")),
            draw.choice((1, 4, 16, 64)),
            draw.choice((3, 16, 64, 256)),
            draw.choice((14, 32, 48, 64, 100, 128, 256)),
            draw.choice((0.5, 0.75, 1.5, 2.0, 2.0, 3.0, 4.0)),
        )
        batch = min(batch, int(most / (channels * size**2 * max(1.0, factor**2))))
        axis = getattr(bands, mode)(size, int(size * factor), 1 / factor, False)
        dtype = draw.choice((dtypes.bfloat16, dtypes.float32))
        for one in (axis, axis.transposed) if batch else ():
            shape = batch, channels, 1, one.n, one.n
            with device(where):
                x = own.standard_normal(shape, dtype="float32").astype(dtype)
            yield Resampling(x._planned(), (bands.same(1), one, one)), (x,)


RESAMPLING: Family[Resampling] = Family(
    "resampling", Regularly, DownRows, ByElements, reference=_reference, samples=_samples
)

_problem = lru_cache(maxsize=4096)(Resampling)


def launch(x: Array, axes: Sequence[Band]) -> Array:
    """The last three axes of ``x`` multiplied by one matrix each."""
    x = x.contiguous()
    problem = _problem(x._layout or x._planned(), axes, is_aligned(x))
    if not x.size:
        with on(x.device):
            return new(problem.results)[0]
    return RESAMPLING(problem)(x)
