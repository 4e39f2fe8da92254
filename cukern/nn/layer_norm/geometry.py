"""How the threads of layer normalization share rows: the launch shapes for the host and for GPUs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...kernel.sizes import divide_up, power_of_two


class Shape(NamedTuple):
    """How a launch deals out a row.

    Attributes:
        block: threads of a block.
        threads: threads of a row.
        chunks: accesses of a thread, whose elements it keeps; 0 where the row is read a second time instead.
        width: elements of an access.
        tile: elements that a thread takes together where it keeps none.
        cluster: blocks that share a row.
        resident: blocks of a multiprocessor at least, which have no more registers than it has.
        ahead: whether weight and bias are read together with the row, and kept until its statistics are known.
    """

    block: int
    threads: int
    chunks: int
    width: int
    tile: int = 8
    cluster: int = 1
    resident: int = 1
    ahead: bool = False

    @property
    def groups(self) -> int:
        """Rows that a block, or a cluster, has at a time."""
        return max(1, self.block // self.threads)


class Rows(NamedTuple):
    """How a GPU's launch deals out rows of packs of 16 bytes.

    Attributes:
        block, threads, chunks, cluster: as in :class:`Shape`.
        width: elements of a pack.
        resident: blocks of a multiprocessor, as many as the registers are for.
        stages: how many times a group's rows are in shared memory or on their way there; 0 where threads read one
            row into registers.
        turn: rows of a group that are worked on together where there are stages.
    """

    block: int
    threads: int
    chunks: int
    width: int
    cluster: int = 1
    resident: int = 1
    stages: int = 0
    turn: int = 1

    @property
    def groups(self) -> int:
        """Rows that a block, or a cluster, has at a time."""
        return max(1, self.block // self.threads)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block for the rows of both arrays."""
        return 32 * self.stages * self.turn * self.chunks * self.block

    @property
    def keeps_row(self) -> bool:
        """Whether a thread has registers for its elements of a row until their sums are there.

        Beside them it has the weight, two sums a column, and some 32 for all else.
        """
        registers = self.chunks * self.width * (2 * self.turn + 3) * (2 if self.width == 2 else 1)
        return self.stages > 0 and registers + 32 <= min(255, 65536 // (self.block * self.resident))


class Limits(NamedTuple):
    """What a GPU allows: blocks that share a row, and bytes of shared memory of a block."""

    clusters: int
    memory: int


#: Pairs (threads of a row, packs of 16 bytes a thread at most) by the bytes of an element; a row takes the first
#: pair with threads x packs >= packs of the row. Half types have as many elements a thread as registers allow,
#: since a reduction across threads costs as much as several elements; two packs a thread where that lets all rows
#: of a wave start at once.
_FORWARD = {
    2: ((8, 4), (16, 4), (32, 3), (64, 2), (128, 4), (256, 8), (512, 8), (1024, 4)),
    4: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (512, 2), (512, 4), (512, 8), (1024, 8)),
    8: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (256, 4), (512, 4), (1024, 4), (1024, 16)),
}
#: Resident threads a multiprocessor in the forward pass, and where each holds at most two packs of float32, which need
#: fewer registers.
_THREADS, _THREADS_OF_FEW = 1024, 2048
#: Threads of a row for which weight and bias are loaded together with the row, by the bytes of an element, and
#: resident threads a multiprocessor then, which have registers for them. Rows shared by more threads gain nothing
#: from it, or spill.
_AHEAD, _THREADS_AHEAD = {2: 64, 4: 64}, 896
#: Threads of a multiprocessor that have rows in registers, without and with those for a weight beside x and dy.
_RESIDENT = {False: 1024, True: 768}
#: For derivatives without sums for weight and bias: packs of a thread, and threads of a block at most.
_PACKS_WITHOUT, _LARGEST_BLOCK = 4, 512
#: With sums, which take two registers an element, where a warp has a row alone, and so waits for no other: packs of a
#: row at most, and threads of a block. A multiprocessor has one: few blocks leave few sums.
_ALONE = {
    2: ((64, 512), (96, 384)),
    4: ((192, 384),),
    8: ((256, 256),),
}
#: Threads that such a block has at least, and fewer at a time where memory is short.
_LEAST_ALONE = 128
#: Likewise of longer rows: packs of a thread if a block has as many threads, and at most; rows at a time at most, and
#: of a cluster. The rows of a turn wait together, so that there is more to do between two barriers.
_TOGETHER = {2: (1, 2, 4, 2), 4: (1, 4, 4, 1), 8: (4, 4, 1, 1)}
#: Packs of the rows of a turn if it has more than one, and threads of a multiprocessor then, if a row needs no more.
_TURN, _BUSY = 1024, 256
#: Bytes of shared memory that rows take: the cache keeps the rest. Turns of rows on their way, also those of a cluster.
_MEMORY, _STAGES, _CLUSTER_STAGES = 192 * 1024, 2, 3
#: Bytes beside them at most for what warps tell each other.
_STATES = 1024


@cache
def forward_shape(columns: int, itemsize: int, clusters: int) -> Shape:
    """The shape for a GPU and rows of packs of 16 bytes.

    Args:
        columns: elements of a row, whole packs.
        clusters: the most blocks that may share a row.
    """
    width = 16 // itemsize
    packs = columns // width
    table = _FORWARD[itemsize]
    shared = [(1024 * cluster, table[-1][1]) for cluster in (2, 4, 8) if cluster <= clusters]
    for threads, most in (*table, *shared):
        if packs <= threads * most:
            block = min(max(threads, 64 if threads > 32 else 128), 1024)
            chunks, cluster = divide_up(packs, threads), divide_up(threads, block)
            ahead = threads == _AHEAD.get(itemsize)
            few = itemsize == 4 and chunks <= 2
            busy = _THREADS_AHEAD if ahead else _THREADS_OF_FEW if few else _THREADS
            resident = max(1, busy // block)
            return Shape(block, threads, chunks, width, cluster=cluster, resident=resident, ahead=ahead)
    return Shape(block=512, threads=512, chunks=0, width=1)


def gpu_shape(columns: int, width: int, registers: int, clusters: int = 1) -> Shape:
    """The shape for a GPU and other rows: as few threads a row as hold it in ``registers`` elements each.

    Args:
        columns: elements of a row.
        width: elements of one access, which ``columns`` is a multiple of.
        registers: elements of a row that a thread may keep.
        clusters: the most blocks that may share a row.
    """
    packs = divide_up(columns, width)
    shared = [1024 * cluster for cluster in (2, 4, 8) if cluster <= clusters]
    for threads in (8, 16, 32, 128, 256, 512, 1024, *shared):
        chunks = 1 << (divide_up(packs, threads) - 1).bit_length()
        if chunks * width <= max(registers, width):
            block = min(max(threads, 128), 1024)
            return Shape(block, threads, chunks, width, cluster=divide_up(threads, block))
    return Shape(block=512, threads=512, chunks=0, width=1)


@cache
def backward_rows(
    columns: int, itemsize: int, limits: Limits, sums: bool, weighted: bool = False
) -> Rows | None:
    """The shape for the derivative of rows of ``columns`` elements; None where no threads have room for one.

    Args:
        sums: whether the gradients of weight and bias are wanted.
        weighted: whether there is a weight.
    """
    width = 16 // itemsize
    packs = columns // width
    if columns % width or not packs:
        return None
    shape = _rows_with_sums(packs, itemsize, limits) if sums else _rows_without(packs, width, weighted)
    return shape if shape is not None and shape.cluster <= limits.clusters else None


def _rows_without(packs: int, width: int, weighted: bool) -> Rows:
    threads = power_of_two(divide_up(packs, _PACKS_WITHOUT))
    cluster = divide_up(threads, _LARGEST_BLOCK)
    block = 128 if threads <= 32 else threads // cluster
    resident = max(1, _RESIDENT[weighted] // block)
    return Rows(block, threads, divide_up(packs, threads), width, cluster, resident)


def _rows_with_sums(packs: int, itemsize: int, limits: Limits) -> Rows | None:
    width, memory = 16 // itemsize, min(_MEMORY, limits.memory - _STATES)
    alone = next((block for most, block in _ALONE[itemsize] if packs <= most), None)
    cluster = turn = resident = 1
    if alone is not None:
        block, threads = alone, min(32, power_of_two(packs))
    else:
        chunks, most, turn, turn_of_cluster = _TOGETHER[itemsize]
        threads = power_of_two(divide_up(packs, chunks))
        if threads > _LARGEST_BLOCK:
            threads = max(_LARGEST_BLOCK, power_of_two(divide_up(packs, most)))
        cluster = divide_up(threads, _LARGEST_BLOCK)
        block = threads // cluster
        turn = turn_of_cluster if cluster > 1 else min(turn, max(1, _TURN // power_of_two(packs)))
        resident = max(1, (_BUSY if turn > 1 else _LARGEST_BLOCK) // block)
    shape = Rows(block, threads, divide_up(packs, threads), width, cluster, resident, 1, turn)
    stages = _STAGES if cluster == 1 else _CLUSTER_STAGES
    while shape.resident > 1 and shape.shared * shape.resident * stages > memory:
        shape = shape._replace(resident=shape.resident - 1)
    while alone is not None and shape.block > _LEAST_ALONE and shape.shared * stages > memory:
        shape = shape._replace(block=shape.block - _LEAST_ALONE)
    stages = min(stages, memory // shape.shared)
    return shape._replace(stages=stages) if stages >= _STAGES else None


def host_shape() -> Shape:
    """One thread a row: a plain loop with sixteen sums, of which the compiler makes vectors."""
    return Shape(block=1, threads=1, chunks=0, width=16, tile=256)
