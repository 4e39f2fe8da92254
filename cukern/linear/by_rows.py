"""Products of any floating dtype whose rows are reduced to a number each, in one launch without tensor cores."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..text import Dim3
from .task import Factor, Task, ending_name, ending_variables, structs

_KERNEL = Kernel("linear/product_rows.cu")
_THREADS = 256
#: Columns at most: a lane of a warp has eight; and at least, for slabs that threads share evenly.
WIDEST, _NARROWEST = 256, 32
#: Rows and columns of a thread.
_ROWS, _COLUMNS = 4, 8
#: Bytes of a slab along the depth.
_SLAB = 64


class Lanes(NamedTuple):
    """What a block makes of the product.

    Attributes:
        n: columns of a tile: a power of two, all that there are.
        depth: elements of a slab along the depth.
        parts: blocks that share the depth: one.
    """

    n: int
    depth: int
    parts: int = 1

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return _KERNEL

    @property
    def m(self) -> int:
        """Rows of a tile."""
        return _THREADS * _COLUMNS // self.n * _ROWS

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return _THREADS

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return 0

    def variables(self, program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
        """The template variables."""
        return {
            **ending_variables(program, elem, task),
            "name": f"{ending_name(program, elem, task)}_{self.m}x{self.n}",
            "block": _THREADS,
            "tile_m": self.m,
            "tile_n": self.n,
            "depth": self.depth,
            "a_by_depth": task.a.by_depth,
            "b_by_depth": task.b.by_depth,
            "unit_a": _unit(task.a),
            "unit_b": _unit(task.b),
        }

    def grid(self, task: Task) -> Dim3:
        """Blocks along each axis."""
        return divide_up(task.m, self.m), task.batches, 1

    def tail(self, task: Task) -> tuple[bytes, bytes]:
        """The kernel's structs."""
        steps = [
            (one.row, one.unit) if one.by_depth else (one.unit, one.row) for one in (task.a, task.b)
        ]  # along the own axis, and along the depth
        own, depth = zip(*steps, strict=True)
        return structs(task, (task.a.batch, task.b.batch, *own, *depth), (task.m, task.n, task.k))


def _unit(factor: Factor) -> str:
    """The axis along which a factor is known to be contiguous."""
    return "" if factor.unit != 1 else "depth" if factor.by_depth else "own"


def lanes_for(task: Task, acc: dtypes.DType) -> Lanes | None:
    """How to divide the work of a product; None if a row does not fit a tile."""
    if task.rows is None or task.n > WIDEST:
        return None
    return Lanes(max(_NARROWEST, power_of_two(task.n)), _SLAB // acc.itemsize)
