"""Products of a few rows with a large matrix, which is read once: limited by the memory's bandwidth."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from ..device import Device
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..text import Dim3
from .task import Task, parts_of, structs, variables

_KERNEL = Kernel("linear/few_rows.cu")
#: Rows at most, by the bytes of an element: twice those of the tensor cores' instruction, or as many as one lane's
#: multiply-adds keep up with.
MOST_ROWS = {2: 16, 4: 4}
#: Bytes of a slab along the depth.
_SLAB = 64
#: Columns of a block, and those where so many leave multiprocessors idle, of which each then has two blocks. More make
#: fewer blocks read the few rows.
_COLUMNS, _FEWER_COLUMNS = 32, 16
#: Warps of a block at most, each of which has a slab at least, and slabs that it asks for at once: of up to eight rows,
#: and of more, which take more registers.
_WARPS, _AHEAD = 16, (3, 2)
#: Blocks that share what they bring of the few rows, and the most pieces of those, of a slab for each warp, for each of
#: which a text has its own lines.
_CLUSTER, _PIECES = 2, 16
#: Bytes of the large factor that a block reads at least where several share the depth, which takes another launch, and
#: how many share it at most.
_FEWEST_BYTES, _MOST_PARTS = 2**17, 16
#: Bytes of the large factor that a block asks for early, by itself and in a cluster: measured on an H200.
_ASKED, _CLUSTER_ASKED = 2**16, 3 * 2**14
#: Blocks that begin at one place of the depth, and how many such places there are: measured on an H200. Where rows of
#: the large factor are contiguous and the few are at most eight, all blocks begin at one.
_GROUP, _GROUPS = 8, 16


class FewRows(NamedTuple):
    """How the work is divided.

    Attributes:
        turned: whether the result has few columns, so that its transpose is computed.
        rows: the few, rounded up.
        columns: of a block.
        warps: of a block, which share the depth.
        parts: blocks that share the depth, whose sums another kernel adds up.
        ahead: slabs that a warp asks for before it multiplies the first of them.
        resident: blocks that a multiprocessor must have room for.
        asked: bytes of the large factor that a block asks for while the kernel before it ends.
        groups: places of the depth where blocks begin.
        cluster: blocks that bring the few rows to the shared memory of all, if they are more than one.
        held: bytes of the few rows there.
    """

    turned: bool
    rows: int
    columns: int
    warps: int
    parts: int = 1
    ahead: int = 1
    resident: int = 1
    asked: int = 0
    groups: int = 1
    cluster: int = 1
    held: int = 0

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return _KERNEL

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return self.held

    def variables(self, program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
        """The template variables."""
        few = task.turned if self.turned else task
        return {
            **variables(program, elem, task),
            "name": f"{program.name}_{dtypes.info(elem).name}_{self.rows}x{self.columns}",
            "block": self.threads,
            "rows": self.rows,
            "columns": self.columns,
            "warps": self.warps,
            "ahead": self.ahead,
            "resident": self.resident,
            "asked": self.asked,
            "group": _GROUP,
            "groups": self.groups,
            "cluster": self.cluster,
            "pieces": few.k * task.itemsize // (_SLAB * self.warps),
            "turned": self.turned,
            "x_by_depth": few.a.by_depth,
            "w_by_depth": few.b.by_depth,
        }

    def grid(self, task: Task) -> Dim3:
        """Blocks along each axis."""
        few = task.turned if self.turned else task
        return (
            self.cluster * divide_up(few.n, self.columns * self.cluster),
            task.batches,
            parts_of(task, self.parts, self.warps * _SLAB // task.itemsize),
        )

    def tail(self, task: Task) -> tuple[bytes, bytes]:
        """The kernel's structs."""
        few = task.turned if self.turned else task
        of_d = (1, task.n) if self.turned else (task.n, 1)
        steps = (few.a.batch, few.b.batch, few.a.row, few.b.row, task.m * task.n, *of_d)
        return structs(task, steps, (few.m, few.n, few.k))


def few_rows_for(task: Task, device: Device) -> FewRows | None:
    """How to divide the work of a product; None if neither its rows nor its columns are few."""
    turned = task.n < task.m
    few = task.turned if turned else task
    if few.m > MOST_ROWS[task.itemsize]:
        return None
    rows = few.m if task.itemsize == 4 else 8 * divide_up(few.m, 8)
    columns, parts = _COLUMNS, 1
    multiprocessors = device.properties.multiprocessors
    if 8 * task.batches * divide_up(few.n, columns) < 7 * multiprocessors:
        columns = _FEWER_COLUMNS
    blocks = task.batches * divide_up(few.n, columns)
    read = columns * task.k * task.itemsize  # bytes of the large factor, by a block
    while 2 * parts * blocks <= multiprocessors and read >= 2 * parts * _FEWEST_BYTES and parts < _MOST_PARTS:
        parts *= 2
    warps = min(_WARPS, power_of_two(divide_up(task.k * task.itemsize, _SLAB)))
    resident = 2 if columns == _FEWER_COLUMNS and blocks > multiprocessors else 1
    ahead = _AHEAD[resident > 1 or rows > 8]
    groups = _GROUPS if task.itemsize == 2 and (rows > 8 or few.b.by_depth) else 1
    form = FewRows(turned, rows, columns, warps, parts, ahead, resident, _ASKED, groups)
    at_once = columns == _COLUMNS and parts == 1 and blocks <= multiprocessors
    return sharing(form, few, device) if at_once else form


def sharing(form: FewRows, few: Task, device: Device) -> FewRows:
    """The form with clusters that share the few rows, if the device, the layout and the size allow it.

    Args:
        form: has one part of the depth.
        few: the product, or the transpose that is computed.
        device: where it runs.
    """
    limits, slab = device.properties, _SLAB // few.itemsize
    pieces, left = divmod(few.k, slab * form.warps)
    held = pieces * form.rows * (_SLAB * form.warps + _SLAB)
    sums = 4 * form.warps * form.rows * (form.columns + 4)
    fits = pieces <= _PIECES and held + sums + 8 * _PIECES <= limits.max_shared_memory_per_block
    if limits.compute_capability[0] != 9 or few.itemsize == 4 or not few.a.by_depth or left or not fits:
        return form
    return form._replace(ahead=_AHEAD[0], asked=_CLUSTER_ASKED, groups=1, cluster=_CLUSTER, held=held)
