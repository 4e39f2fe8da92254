"""Softmax, its logarithm and their derivatives: rows in registers, or read again for each pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from .. import dtypes
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..device.interface import Properties
from ..kernel import Kernel
from ..kernel.plan import Plan
from ..kernel.sizes import ACCESS, divide_up, index_type, power_of_two
from ..kernel.strides import Axes, Strides, broadcast_steps, contiguous_steps, needs_64_bits, step_kind
from ..launch import cost
from ..launch.params import layout_params
from ..launch.variant import Launch, Variant, prepared
from .plan import along
from .variants import HOST_PIECE


@dataclass(frozen=True)
class Softmax:
    """Softmax along an axis, its logarithm, or the cotangent of its argument.

    Attributes:
        kind: which of them: ``softmax``, ``log_softmax``, or one of these with ``_vjp``.
        axis: counted from the first.
        operands: the layouts of the argument; for a derivative of the result's cotangent and of the result.
    """

    kind: str
    axis: int
    operands: tuple[Layout, ...]

    @property
    def x(self) -> Layout:
        """The layout of the first operand."""
        return self.operands[0]

    @property
    def device(self) -> Device:
        return self.x.device

    @property
    def results(self) -> tuple[Layout]:
        """The layout of the result."""
        return (fresh_layout(self.device, self.x.dtype, self.x.shape),)

    @property
    def n(self) -> int:
        """The elements of a row."""
        return self.x.shape[self.axis]

    @property
    def rows(self) -> int:
        """The number of rows, the positions of all axes but one."""
        return self.x.size // self.n

    @cached_property
    def steps(self) -> tuple[Strides, ...]:
        """The strides of the arrays, the result's last, in elements."""
        shape = self.x.shape
        return (*(broadcast_steps(one, shape) for one in self.operands), contiguous_steps(shape))

    @cached_property
    def kept(self) -> Axes:
        """The axes of rows, at least one, with adjacent ones merged."""
        kept = along([i for i in range(self.x.ndim) if i != self.axis], self.x.shape, self.steps)
        return kept if kept.shape else Axes((1,), ((0,),) * len(self.steps))

    @property
    def columns(self) -> int:
        """The number of neighbouring rows with neighbouring elements; 1 if the elements of a row are nearer."""
        nearer = 0 < abs(self.kept.steps[0][-1]) < abs(self.steps[0][self.axis])
        return self.kept.shape[-1] if nearer else 1

    @property
    def of_packs(self) -> bool:
        """Whether rows are packs of 16 bytes, in C order."""
        dense = all(one.contiguous and one.aligned for one in self.operands)
        return dense and self.axis == self.x.ndim - 1 and self.n * self.x.dtype.itemsize % ACCESS == 0

    @property
    def threads(self) -> int:
        """A GPU's threads of a row that is read element by element."""
        if self.n <= 4 or (self.columns > 1 and self.rows >= 4096):
            return 1
        return 32 if self.n <= 256 else 256 if self.n <= 2048 else 1024

    @property
    def features(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "dtype": dtypes.info(self.x.dtype).name,
            "dense": self.of_packs,
            "columns": self.columns,
            "rows": self.rows,
            "elements": self.n,
        }

    @property
    def summary(self) -> str:
        return f"{self.kind} of {dtypes.info(self.x.dtype).name} {self.x.shape} along axis {self.axis}"

    def least_seconds(self, limits: Properties) -> float:
        """The time in which the arrays are read and written once."""
        return len(self.steps) * self.results[0].nbytes / cost.bandwidth(limits)


class ByRows(Variant[Softmax]):
    """What all variants share: the template variables of a problem."""

    threads: int

    @staticmethod
    def about(problem: Softmax, block: int) -> dict[str, Any]:
        """The template variables of a problem."""
        info = dtypes.info(problem.x.dtype)
        return {
            "name": f"{problem.kind}_{info.name}_{block}",
            "kind": problem.kind,
            "forward": not problem.kind.endswith("_vjp"),
            "logs": problem.kind.startswith("log"),
            "elem": info.dtype,
        }

    def laid_out(
        self, problem: Softmax, limits: Properties, tasks: int, numbers: tuple[int, ...], tile: int = 1
    ) -> Launch:
        """A launch for arrays of any strides, with these parameters after the layout.

        Args:
            tasks: rows or tiles, of which a block has its share.
            tile: neighbouring rows that a thread has; their axis is none of the layout then.
        """
        info, kept, on_host = dtypes.info(problem.x.dtype), problem.kept, cost.is_host(limits)
        step = [steps[problem.axis] for steps in problem.steps]
        column: Strides = (0,) * len(step)
        if tile > 1:
            column = tuple(steps[-1] for steps in kept.steps)
            kept = Axes(kept.shape[:-1] or (1,), tuple(steps[:-1] or (0,) for steps in kept.steps))
        flat = Axes((problem.rows, max(problem.n, self.threads)), ())
        wide = needs_64_bits(flat) or needs_64_bits(Axes(problem.x.shape, problem.steps))
        block = 1 if on_host else max(self.threads, 256)
        walked = layout_params(kept_shape=kept.shape, kept_step=kept.steps, step=step, column=column)
        constants = {
            **self.about(problem, block),
            "total": "double" if on_host else dtypes.info(info.acc).cxx,
            "index": "long long" if wide else "int",
            "arrays": len(step),
            "kept": len(kept.shape),
            "steps": [step_kind(one) for one in step],
            "columns": [step_kind(one) for one in column],
            # A half type would round values that are stored between two passes over a row.
            "stored": problem.kind == "softmax" and not info.narrow,
            "cluster": 1,
        }
        return Launch(
            (divide_up(tasks, block // self.threads), 1, 1), block, 0, constants, (walked, *numbers)
        )

    def plan(self, problem: Softmax, limits: Properties) -> Plan:
        """The launch; a call of it has no Python of its own but the result's allocation."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        return Plan(problem.device, problem.results, run.launch)


class Tuning(NamedTuple):
    """How rows are divided among threads.

    Attributes:
        chunks: packs of 16 bytes that a thread holds of each array.
        block: the most threads per block.
        most: the most packs per thread in a block that has one row, which is faster than a cluster.
        resident: the least number of threads resident per multiprocessor, which limits their registers.
    """

    chunks: int
    block: int
    most: int
    resident: int


@dataclass(frozen=True)
class Packs(ByRows):
    """Rows in registers, in vectorized accesses: part of a warp, a warp, a block or a cluster of blocks has a row.

    Attributes:
        threads: of a row.
        chunks: packs of each array that a thread holds.
        cluster: blocks that share a row.
        resident: the least number of blocks resident per multiprocessor, which limits their registers.
    """

    name = "packs"
    kernel = Kernel("reduction/softmax_rows.cu")
    needs = (5, 0)
    efficiency = 0.9

    threads: int
    chunks: int
    cluster: int = 1
    resident: int = 1

    #: By the bytes of an element, for a result and for a derivative, which has two arrays.
    tuning: ClassVar[dict[int, tuple[Tuning, Tuning]]] = {
        2: (Tuning(4, 512, 8, 1024), Tuning(4, 512, 8, 512)),
        4: (Tuning(8, 1024, 8, 1024), Tuning(4, 256, 4, 512)),
        8: (Tuning(8, 1024, 8, 512), Tuning(4, 256, 4, 512)),
    }
    #: Threads per block if a cluster shares a row: some small blocks read while others write.
    clustered: ClassVar[int] = 256

    @property
    def block(self) -> int:
        """Threads of a block."""
        return 128 if self.threads <= 32 else self.threads // self.cluster

    @classmethod
    def fits(cls, problem: Softmax, limits: Properties) -> str:
        """For whole packs."""
        return "" if problem.of_packs else "for rows in C order, of packs of 16 bytes"

    @classmethod
    def configs(cls, problem: Softmax, limits: Properties) -> Iterator[Packs]:
        """The fewest threads that hold a row; none of rows that are too long."""
        itemsize, clusters = problem.x.dtype.itemsize, limits.max_blocks_per_cluster
        all_packs, tuning = problem.n * itemsize // ACCESS, cls.tuning[itemsize][len(problem.operands) - 1]
        threads = power_of_two(divide_up(all_packs, tuning.chunks))
        if threads > tuning.block:
            threads = power_of_two(divide_up(all_packs, tuning.most))
        cluster = 1
        if threads > tuning.block:
            # Without clusters, larger blocks are better than reading a row twice.
            cluster = divide_up(threads, cls.clustered if clusters > 1 else 1024)
        if cluster <= clusters:
            own = cls(threads, divide_up(all_packs, threads), cluster)
            yield cls(threads, own.chunks, cluster, max(1, tuning.resident // own.block))

    def launch(self, problem: Softmax, limits: Properties) -> Launch:
        """A row a cluster, or as many rows a block as it has threads for."""
        width, n = ACCESS // problem.x.dtype.itemsize, problem.n
        return Launch(
            grid=(divide_up(problem.rows, max(1, self.block // self.threads)) * self.cluster, 1, 1),
            block=self.block,
            constants={
                **self.about(problem, self.block),
                "index": index_type(problem.x.size),
                "width": width,
                "half": dtypes.info(problem.x.dtype).narrow,
                "full": self.threads * self.chunks * width == n,
            },
            params=(problem.rows, n),
        )


@dataclass(frozen=True)
class Registers(ByRows):
    """Rows in registers, element by element: a thread, a warp or a block has a row.

    Attributes:
        threads: of a row.
        keep: elements of a thread.
    """

    name = "registers"
    kernel = Kernel("reduction/softmax_registers.cu")
    needs = (5, 0)
    efficiency = 0.7

    threads: int
    keep: int

    #: Elements of a thread at most.
    most: ClassVar[int] = 16

    @classmethod
    def fits(cls, problem: Softmax, limits: Properties) -> str:
        """For rows that are not too long."""
        most = cls.most * problem.threads
        return "" if problem.n <= most else f"for rows of at most {most} elements, as many as there are"

    @classmethod
    def configs(cls, problem: Softmax, limits: Properties) -> Iterator[Registers]:
        """As few elements a thread as hold a row."""
        yield cls(problem.threads, power_of_two(divide_up(problem.n, problem.threads)))

    def launch(self, problem: Softmax, limits: Properties) -> Launch:
        return self.laid_out(problem, limits, problem.rows, (problem.n, problem.rows))


@dataclass(frozen=True)
class Passes(ByRows):
    """Rows that are read again for each pass: for the largest element, the sum of exponentials, the result.

    Attributes:
        threads: of a row.
        unroll: elements that a thread computes at once.
        tile: neighbouring rows that a host thread computes together, in loops that its compiler vectorizes.
    """

    name = "passes"
    kernel = Kernel("reduction/softmax.cu")
    kernel_of_tiles: ClassVar[Kernel] = Kernel("reduction/softmax_columns.cu")
    efficiency = 0.4

    threads: int
    unroll: int
    tile: int = 1

    def template(self) -> Kernel:
        """That of rows, or of tiles."""
        return self.kernel_of_tiles if self.tile > 1 else self.kernel

    @classmethod
    def configs(cls, problem: Softmax, limits: Properties) -> Iterator[Passes]:
        """On the host a row a thread, or a tile where neighbouring elements are of different rows."""
        n = problem.n
        if cost.is_host(limits):
            yield cls(1, 64 if n >= 64 else 8 if n >= 8 else 1, 64 if problem.columns >= 8 else 1)
        else:
            yield cls(problem.threads, 4)

    def launch(self, problem: Softmax, limits: Properties) -> Launch:
        """See :class:`Variant`; a host thread has several rows or tiles, if rows are short."""
        n, columns = problem.n, problem.columns
        tiles = divide_up(columns, self.tile)
        tasks = problem.rows // columns * tiles
        each = max(1, HOST_PIECE // (n * self.tile)) if cost.is_host(limits) else 1
        of_tiles = (columns, tiles) if self.tile > 1 else ()
        return self.laid_out(problem, limits, divide_up(tasks, each), (n, *of_tiles, tasks, each), self.tile)
