"""The variants of layer norm and of its gradient: rows in registers, in shared memory, or read in two passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import fresh_layout
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.plan import new, on
from ...kernel.sizes import ACCESS, divide_up, power_of_two
from ...launch import cost
from ...launch.variant import Launch, Plan, Variant, prepared
from ...reduction.plan import load
from ...shape.known_views import items
from ..fused import activation_variables
from .problem import Normalization

#: The most threads per block.
_BLOCK = 1024
#: Blocks per cluster.
_CLUSTERS = (2, 4, 8)
#: Partial sums of a column of weight and bias on the host.
HOST_SLOTS = 32


@dataclass(frozen=True)
class ByRows(Variant[Normalization]):
    """What variants share: the threads of a row are part of a warp, a warp, a block or a cluster of blocks.

    Attributes:
        threads: of a row.
        groups: rows that a block, or a cluster, has at a time.
        width: elements of an access.
        cluster: blocks that share a row.
    """

    threads: int
    groups: int
    width: int
    cluster: int = 1

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.threads * self.groups // self.cluster

    def launch(self, problem: Normalization, limits: Properties) -> Launch:
        """As many blocks as have each a row, or take rows in turn."""
        return Launch(
            grid=(self.teams(problem, limits) * self.cluster, 1, 1),
            block=self.block,
            constants={
                "elem": problem.x.dtype,
                "index": problem.offsets,
                "half": dtypes.info(problem.x.dtype).narrow,
                "weighted": problem.weight is not None,
                "biased": problem.bias is not None,
                "centered": problem.centered,
                "residual": problem.residual is not None,
            },
            params=(problem.rows, problem.columns),
        )

    def teams(self, problem: Normalization, limits: Properties) -> int:
        """Blocks, or clusters, that are launched."""
        return divide_up(problem.rows, self.groups)


@dataclass(frozen=True)
class TwoPasses(ByRows):
    """Rows of any length: a pass for mean and variance (Welford, tile by tile, as Chan joins them), and one for y.

    Attributes:
        tile: elements that a thread takes together.
    """

    name = "two passes"
    kernel = Kernel("nn/layer_norm/forward.cu", name="layer_norm")
    efficiency = 0.5

    tile: int = 8

    @classmethod
    def fits(cls, problem: Normalization, limits: Properties) -> str:
        """For rows that have a weight for each column."""
        return "for rows that are not groups of channels" if problem.groups else ""

    @classmethod
    def configs(cls, problem: Normalization, limits: Properties) -> Iterator[TwoPasses]:
        """On the host a row a thread, in a loop of sixteen sums, which the compiler vectorizes."""
        yield cls(1, 1, 16, tile=256) if cost.is_host(limits) else cls(512, 1, 1)


@dataclass(frozen=True)
class Held(ByRows):
    """What variants share whose threads hold a row.

    Attributes:
        chunks: accesses of a thread.
    """

    chunks: int = 1

    needs = (5, 0)

    @classmethod
    def fewest(cls, columns: int, width: int, registers: int, clusters: int) -> Iterator[Self]:
        """The fewest threads that hold a row with so many registers for elements each."""
        packs = divide_up(columns, width)
        for threads in (8, 16, 32, 128, 256, 512, _BLOCK, *_of_clusters(clusters)):
            chunks = power_of_two(divide_up(packs, threads))
            if chunks * width <= max(registers, width):
                block = min(max(threads, 128), _BLOCK)
                yield cls(threads, max(1, block // threads), width, divide_up(threads, block), chunks)
                return

    def launch(self, problem: Normalization, limits: Properties) -> Launch:
        """See :class:`ByRows`; whether threads have elements alone."""
        base = super().launch(problem, limits)
        exact = self.threads * self.chunks * self.width == problem.columns
        return replace(base, constants={**base.constants, "exact": exact})


def _of_clusters(clusters: int) -> list[int]:
    return [_BLOCK * cluster for cluster in _CLUSTERS if cluster <= clusters]


@dataclass(frozen=True)
class Registers(Held):
    """Rows in registers, which are read once: mean, then squared differences from it.

    Attributes:
        resident: blocks that a multiprocessor has at a time at least, which limits their registers.
        ahead: whether weight and bias are read together with the row, before its statistics are known.
    """

    name = "registers"
    kernel = Kernel("nn/layer_norm/forward_rows.cu", name="layer_norm")
    efficiency = 0.9

    resident: int = 1
    ahead: bool = False

    #: Threads of a row and packs of a thread at most, by the bytes of an element: a row takes the first pair that holds
    #: it. Half types have as many elements a thread as registers allow, because a reduction across threads costs as
    #: much as several elements, but two packs a thread if all rows of a wave can then start at once.
    table: ClassVar[dict[int, tuple[tuple[int, int], ...]]] = {
        2: ((8, 4), (16, 4), (32, 3), (64, 2), (128, 4), (256, 8), (512, 8), (1024, 4)),
        4: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (512, 2), (512, 4), (512, 8), (1024, 8)),
        8: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (256, 4), (512, 4), (1024, 4), (1024, 16)),
    }
    #: Resident threads of a multiprocessor: in general, and of at most two packs of float32, which take few registers.
    busy: ClassVar[int] = 1024
    busy_of_few: ClassVar[int] = 2048
    #: Threads of the rows for which weight and bias are read ahead, by the bytes of an element, and resident threads
    #: then, which leave registers for them. Rows of more threads gain nothing or spill.
    threads_ahead: ClassVar[dict[int, int]] = {2: 64, 4: 64}
    busy_ahead: ClassVar[int] = 896
    #: Elements of a thread at most where rows are not packs of 16 bytes.
    most_elements: ClassVar[int] = 32

    @classmethod
    def configs(cls, problem: Normalization, limits: Properties) -> Iterator[Registers]:
        """Those of packs, or of single elements; none of rows that are too long."""
        clusters = limits.max_blocks_per_cluster
        if problem.packed:
            for one in cls.of_packs(problem.columns, problem.x.dtype.itemsize, clusters):
                yield replace(one, ahead=False) if problem.groups else one
        elif not problem.groups:
            yield from cls.fewest(problem.columns, 1, cls.most_elements, clusters)

    @classmethod
    def of_packs(cls, columns: int, itemsize: int, clusters: int) -> Iterator[Registers]:
        """The threads of the table, or those of as many of at most ``clusters`` blocks as hold a row of packs."""
        width, table = ACCESS // itemsize, cls.table[itemsize]
        packs = columns // width
        for threads, most in (*table, *((n, table[-1][1]) for n in _of_clusters(clusters))):
            if packs > threads * most:
                continue
            block = min(max(threads, 64 if threads > 32 else 128), _BLOCK)
            chunks, ahead = divide_up(packs, threads), threads == cls.threads_ahead.get(itemsize)
            busy = cls.busy_of_few if itemsize == 4 and chunks <= 2 else cls.busy
            resident = max(1, (cls.busy_ahead if ahead else busy) // block)
            groups, cluster = max(1, block // threads), divide_up(threads, block)
            yield cls(threads, groups, width, cluster, chunks, resident, ahead)
            return

    def launch(self, problem: Normalization, limits: Properties) -> Launch:
        """See :class:`Held`; of groups of channels, how their weights are indexed."""
        base, grouped = super().launch(problem, limits), problem.groups > 0
        own = {"grouped": grouped, "even": problem.inner % self.width == 0}
        own |= activation_variables(problem.activation)
        more = (problem.groups, problem.inner) if grouped else ()
        return replace(base, constants={**base.constants, **own}, params=(*base.params, *more))


class Gradient(ByRows):
    """What variants of the gradient share: partial sums for weight and bias, which are added up afterwards."""

    def summed(self, problem: Normalization) -> tuple[bool, ...]:
        """Whether the kernel has sums for weight and for bias; () if it takes none."""
        return problem.wanted

    def slots(self, teams: int) -> int:
        """Partial sums of a column."""
        return teams * self.groups

    def teams(self, problem: Normalization, limits: Properties) -> int:
        """As many as take rows in turn, so that there are few partial sums."""
        most = HOST_SLOTS if cost.is_host(limits) else 4 * limits.multiprocessors // self.cluster
        return min(super().teams(problem, limits), most)

    def plan(self, problem: Normalization, limits: Properties) -> Plan:
        """The launch, and the sum of its partial sums: makes the gradients of x, and of weight and bias or None."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        acc, wanted, summed = problem.acc, problem.wanted, self.summed(problem)
        sums = sum(summed), self.slots(self.teams(problem, limits)), problem.columns
        layouts = [problem.results[0], *([fresh_layout(problem.device, acc, sums)] if summed else [])]

        both, read = all(summed), load(acc, acc)

        def each(sums: Array) -> list[Array | None]:
            found = items(sums)
            if both:
                return found  # type: ignore[return-value]
            iterator = iter(found)
            return [next(iterator) if one else None for one in summed]

        def compute(
            x: Array, dy: Array, weight: Array | None, statistics: Array, *plus: Array
        ) -> list[Array | None]:
            with on(problem.device):
                dx, *sums = new(layouts)
                run((x, dy, weight, statistics, *plus, dx, *(each(sums[0]) if sums else ())))
            if not any(wanted):
                return [dx, None, None]
            found = each(ops.sum.evaluate(read, sums, (), (1,), False, x.dtype))
            return [
                dx,
                *(
                    found
                    if all(wanted)
                    else [one if want else None for one, want in zip(found, wanted, strict=True)]
                ),
            ]

        return compute


@dataclass(frozen=True)
class GradientTwoPasses(Gradient, ByRows):
    """Rows of any length: a pass for the row's sums, and one for the result."""

    name = "two passes"
    kernel = Kernel("nn/layer_norm/backward.cu", name="layer_norm_backward")
    efficiency = 0.5

    @classmethod
    def configs(cls, problem: Normalization, limits: Properties) -> Iterator[GradientTwoPasses]:
        yield cls(1, 1, 16) if cost.is_host(limits) else cls(512, 1, 1)

    def summed(self, problem: Normalization) -> tuple[bool, ...]:
        """Both, wanted or not."""
        return True, True


_WITHOUT_SUMS = Kernel("nn/layer_norm/backward_rows.cu", name="layer_norm_backward")
_WITH_SUMS = Kernel("nn/layer_norm/backward_sums.cu", name="layer_norm_backward")


@dataclass(frozen=True)
class GradientPacks(Gradient, Held):
    """Rows of packs of 16 bytes: in registers, or with sums for weight and bias by persistent blocks, in shared memory.

    Attributes:
        resident: blocks that a multiprocessor has at a time, which limits their registers.
        stages: turns of a group that are in shared memory or in flight; 0 for one row, in registers.
        turn: rows that a group computes together, between two barriers.
    """

    name = "packs"
    efficiency = 0.9

    resident: int = 1
    stages: int = 0
    turn: int = 1

    #: Threads of a block at most.
    most_threads: ClassVar[int] = 512
    #: Without sums: packs of a thread, and threads of a multiprocessor that hold x and dy, without and with a weight.
    packs_without: ClassVar[int] = 4
    busy_without: ClassVar[tuple[int, int]] = (1024, 768)
    #: With sums, which take two registers an element, where a warp holds a row and needs no barrier: packs of a row at
    #: most and threads of a block, one a multiprocessor, because fewer blocks write fewer partial sums.
    alone: ClassVar[dict[int, tuple[tuple[int, int], ...]]] = {
        2: ((64, 512), (96, 384)),
        4: ((192, 384),),
        8: ((256, 256),),
    }
    #: The fewest threads of such a block, and the step by which it shrinks where shared memory is short.
    alone_step: ClassVar[int] = 128
    #: With sums, of longer rows: packs of a thread if the block has enough threads, and at most; rows of a turn at
    #: most, and of a cluster's. The rows of a turn share barriers, so that more work lies between two of them.
    together: ClassVar[dict[int, tuple[int, int, int, int]]] = {
        2: (1, 2, 4, 2),
        4: (1, 4, 4, 1),
        8: (4, 4, 1, 1),
    }
    #: Packs in a turn of several rows at most, and the threads of a multiprocessor then.
    packs_of_turn: ClassVar[int] = 1024
    busy_of_turn: ClassVar[int] = 256
    #: Bytes of shared memory for rows at most, which leave the rest to the cache, and those for reductions.
    memory: ClassVar[int] = 192 * 1024
    states: ClassVar[int] = 1024
    #: Turns in flight, of a block and of a cluster.
    in_flight: ClassVar[tuple[int, int]] = (2, 3)
    #: The fewest turns of a group that sums, if all multiprocessors work.
    fewest_turns: ClassVar[int] = 8
    #: Registers of a thread at most, of a multiprocessor, and of a thread besides those for rows.
    registers: ClassVar[tuple[int, int, int]] = (255, 65536, 32)

    @classmethod
    def fits(cls, problem: Normalization, limits: Properties) -> str:
        """For rows of aligned packs."""
        return "" if problem.packed else f"for rows that begin at multiples of {ACCESS} bytes"

    @classmethod
    def configs(cls, problem: Normalization, limits: Properties) -> Iterator[GradientPacks]:
        """Those of :meth:`of`."""
        sizes = problem.columns, problem.x.dtype.itemsize
        return cls.of(*sizes, limits, any(problem.wanted), problem.weight is not None)

    @classmethod
    def of(
        cls, columns: int, itemsize: int, limits: Properties, sums: bool, weighted: bool = False
    ) -> Iterator[GradientPacks]:
        """The one for rows of so many elements; none if no block or cluster can hold one."""
        packs, rest = divmod(columns, ACCESS // itemsize)
        if packs and not rest:
            configs = (
                cls._with_sums(packs, itemsize, limits) if sums else cls._without(packs, itemsize, weighted)
            )
            if configs is not None and configs.cluster <= limits.max_blocks_per_cluster:
                yield configs

    @classmethod
    def _without(cls, packs: int, itemsize: int, weighted: bool) -> GradientPacks:
        threads = power_of_two(divide_up(packs, cls.packs_without))
        cluster = divide_up(threads, cls.most_threads)
        block = 128 if threads <= 32 else threads // cluster
        resident = max(1, cls.busy_without[weighted] // block)
        groups, chunks = max(1, block // threads), divide_up(packs, threads)
        return cls(threads, groups, ACCESS // itemsize, cluster, chunks, resident)

    @classmethod
    def _with_sums(cls, packs: int, itemsize: int, limits: Properties) -> GradientPacks | None:
        memory = min(cls.memory, limits.max_shared_memory_per_block - cls.states)
        alone = next((block for most, block in cls.alone[itemsize] if packs <= most), None)
        cluster = turn = resident = 1
        if alone is not None:
            block, threads = alone, min(32, power_of_two(packs))
        else:
            chunks, most, turn, turn_of_cluster = cls.together[itemsize]
            threads = power_of_two(divide_up(packs, chunks))
            if threads > cls.most_threads:
                threads = max(cls.most_threads, power_of_two(divide_up(packs, most)))
            cluster = divide_up(threads, cls.most_threads)
            block = threads // cluster
            several = min(turn, max(1, cls.packs_of_turn // power_of_two(packs)))
            turn = turn_of_cluster if cluster > 1 else several
            resident = max(1, (cls.busy_of_turn if turn > 1 else cls.most_threads) // block)
        groups, chunks = max(1, block // threads), divide_up(packs, threads)
        one = cls(threads, groups, ACCESS // itemsize, cluster, chunks, resident, 1, turn)
        stages = cls.in_flight[cluster > 1]
        while one.resident > 1 and one.shared * one.resident * stages > memory:
            one = replace(one, resident=one.resident - 1)
        while alone is not None and one.block > cls.alone_step and one.shared * stages > memory:
            one = replace(one, groups=one.groups - cls.alone_step // threads)
        stages = min(stages, memory // one.shared)
        return replace(one, stages=stages) if stages >= cls.in_flight[0] else None

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, for the rows of both arrays."""
        return 2 * ACCESS * self.stages * self.turn * self.chunks * self.block

    @property
    def keeps_row(self) -> bool:
        """Whether a thread has registers for its elements of a turn, beside those for weight and sums of columns."""
        most, all_, others = self.registers
        each = self.chunks * self.width * (2 * self.turn + 3) * (2 if self.width == 2 else 1)
        return self.stages > 0 and each + others <= min(most, all_ // (self.block * self.resident))

    def template(self) -> Kernel:
        """That of registers, or of shared memory."""
        return _WITH_SUMS if self.stages else _WITHOUT_SUMS

    def teams(self, problem: Normalization, limits: Properties) -> int:
        """One for each group's row or, with sums, as many as are resident, of turns enough."""
        if not self.stages:
            return divide_up(problem.rows, self.groups)
        busy, teams = (
            max(1, limits.multiprocessors // self.cluster),
            divide_up(problem.rows, self.groups * self.turn),
        )
        return min(teams, self.resident * busy, max(busy, divide_up(teams, self.fewest_turns)))

    def slots(self, teams: int) -> int:
        """One of a block or cluster, whose groups add up theirs."""
        return teams

    def summed(self, problem: Normalization) -> tuple[bool, ...]:
        """Those that are wanted, if any is."""
        return problem.wanted if self.stages else ()

    def launch(self, problem: Normalization, limits: Properties) -> Launch:
        base = super().launch(problem, limits)
        return replace(base, shared=self.shared, constants={**base.constants, "keeps_row": self.keeps_row})
