"""How the threads of layer normalization share rows: geometries for the host and for GPUs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...kernel.sizes import divide_up, power_of_two


class Shape(NamedTuple):
    """How threads share a row.

    Attributes:
        block: threads per block.
        threads: threads per row.
        chunks: accesses per thread, whose elements it keeps in registers; 0 if the row is read twice instead.
        width: elements per access.
        tile: elements that a thread computes together if it keeps none.
        cluster: blocks that share a row.
        resident: the least number of blocks resident per multiprocessor, which limits their registers.
        ahead: whether to read weight and bias together with the row, before its statistics are known.
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
    """How threads of a GPU share rows of packs of 16 bytes.

    Attributes:
        block, threads, chunks, cluster: as in :class:`Shape`.
        width: elements per pack.
        resident: blocks resident per multiprocessor, which limits their registers.
        stages: turns of a group that are in shared memory or in flight; 0 if threads read one row into registers.
        turn: rows that a group computes together if there are stages.
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
        """Bytes of shared memory per block for the rows of both arrays."""
        return 32 * self.stages * self.turn * self.chunks * self.block

    @property
    def keeps_row(self) -> bool:
        """Whether a thread has registers to keep its elements of a row until their sums are known.

        It also needs registers for the weight, two sums per column, and some 32 others.
        """
        registers = self.chunks * self.width * (2 * self.turn + 3) * (2 if self.width == 2 else 1)
        return self.stages > 0 and registers + 32 <= min(255, 65536 // (self.block * self.resident))


class Limits(NamedTuple):
    """The limits of a GPU: blocks that share a row, and bytes of shared memory per block."""

    clusters: int
    memory: int


#: Pairs (threads per row, the most packs of 16 bytes per thread) by the bytes of an element; a row takes the first
#: pair with threads x packs >= packs of the row. Half types have as many elements per thread as registers allow,
#: because a reduction across threads costs as much as several elements, but two packs per thread if all rows of a wave
#: can then start at once.
_FORWARD = {
    2: ((8, 4), (16, 4), (32, 3), (64, 2), (128, 4), (256, 8), (512, 8), (1024, 4)),
    4: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (512, 2), (512, 4), (512, 8), (1024, 8)),
    8: ((8, 4), (16, 4), (32, 4), (64, 4), (128, 4), (256, 4), (512, 4), (1024, 4), (1024, 16)),
}
#: Resident threads per multiprocessor in the forward pass: in general, and if each holds at most two packs of float32,
#: which need fewer registers.
_THREADS, _THREADS_OF_FEW = 1024, 2048
#: The most threads per row for which weight and bias are loaded together with the row, by the bytes of an element, and
#: the resident threads per multiprocessor then, which leave registers for them. Rows shared by more threads gain
#: nothing or spill.
_AHEAD, _THREADS_AHEAD = {2: 64, 4: 64}, 896
#: Threads per multiprocessor that hold x and dy in registers, without and with a weight.
_RESIDENT = {False: 1024, True: 768}
#: For derivatives without sums for weight and bias: packs per thread, and the most threads per block.
_PACKS_WITHOUT, _LARGEST_BLOCK = 4, 512
#: With sums, which take two registers per element, if one warp holds a row and so needs no barrier: the most packs per
#: row, and threads per block. Each multiprocessor has one block, because fewer blocks write fewer partial sums.
_ALONE = {
    2: ((64, 512), (96, 384)),
    4: ((192, 384),),
    8: ((256, 256),),
}
#: The fewest threads of such a block, and the step by which it shrinks if shared memory is short.
_LEAST_ALONE = 128
#: With sums, for longer rows: packs per thread if the block has enough threads, the most packs per thread, the most
#: rows per turn, and those of a cluster. The rows of a turn share barriers, so more work lies between two barriers.
_TOGETHER = {2: (1, 2, 4, 2), 4: (1, 4, 4, 1), 8: (4, 4, 1, 1)}
#: The most packs in a turn of several rows, and the threads per multiprocessor then, unless a row needs more.
_TURN, _BUSY = 1024, 256
#: Bytes of shared memory for rows, which leave the rest to the cache; turns in flight, and those of a cluster.
_MEMORY, _STAGES, _CLUSTER_STAGES = 192 * 1024, 2, 3
#: The most additional bytes of shared memory for reductions across warps.
_STATES = 1024


@cache
def forward_shape(columns: int, itemsize: int, clusters: int) -> Shape:
    """The geometry for a GPU and rows of packs of 16 bytes.

    Args:
        columns: elements per row, a multiple of a pack.
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
    """The geometry for a GPU and other rows: the fewest threads that hold a row with ``registers`` elements each.

    Args:
        columns: elements per row, a multiple of ``width``.
        width: elements per access.
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
    """The geometry for the derivative of rows of ``columns`` elements; None if no block or cluster can hold one.

    Args:
        sums: whether the gradients of weight and bias are needed.
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
    """One thread per row: a plain loop with sixteen sums, which the compiler vectorises."""
    return Shape(block=1, threads=1, chunks=0, width=16, tile=256)
