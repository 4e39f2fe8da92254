"""Products with quantised weights as problems of families: what a call asks for, as far as a launch depends on it."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..device.interface import Properties
from ..kernel.sizes import ACCESS, divide_up
from ..launch import cost
from .kinds import Kind

#: Rows of activations that are rounded to 8 bits at most.
MOST_ROWS = 8
#: Dtypes of activations that are rounded to 8 bits.
_ROUNDED = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
#: Bytes of the factors of a scale.
FACTOR = 8
#: Bytes of shared memory that kernels of few rows have besides.
KEPT = 1024


class Quantised(NamedTuple):
    """``x @ W.T``, or ``x @ W``, of quantised weights.

    Attributes:
        x: the activations, shape (rows, depth).
        kind: that of the weights' blocks.
        weights: (outputs, inputs): the shape of W.
        biased: whether a vector is added to each row of the result.
        exact: whether the activations are not rounded to 8 bits.
        transposed: whether the rows of W are summed over, and not its columns.
        given: how a decoder's step has the activations, whose weights were written before the kernel launched last
            could begin: "rounded" to 8 bits before, "normed" by this product, or "plain"; "" for a call of its own.
        gate: the function of one half of the products, by which the other half is multiplied; "" for none.
    """

    x: Layout
    kind: Kind
    weights: tuple[int, ...]
    biased: bool = False
    exact: bool = False
    transposed: bool = False
    given: str = ""
    gate: str = ""

    @property
    def device(self) -> Device:
        """Where it is computed."""
        return self.x.device

    @property
    def dtype(self) -> dtypes.DType:
        """That of the activations and the result."""
        return self.x.dtype

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows and columns of the result, and the depth."""
        outputs = self.weights[int(self.transposed)]
        return self.x.shape[0], outputs // 2 if self.gate else outputs, self.x.shape[1]

    @property
    def results(self) -> tuple[Layout]:
        """The layout of the product."""
        return (fresh_layout(self.device, self.dtype, self.sizes[:2]),)

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return self.weights[0] * self.kind.row_bytes(self.weights[1])

    @property
    def row_aligned(self) -> bool:
        """Whether all rows of the weights begin at multiples of 16 bytes."""
        return self.kind.row_bytes(self.weights[1]) % ACCESS == 0

    @property
    def slice_bytes(self) -> int:
        """Bytes of a slice of a row of weights in shared memory."""
        return self.kind.row_bytes(self.kind.slice) + (0 if self.row_aligned else ACCESS)

    def rounded_bytes(self, rows: int) -> int:
        """Bytes of rows of activations in 8 bits in shared memory: of whole slices."""
        kind = self.kind
        return (
            rows * divide_up(self.weights[1], kind.slice) * (kind.slice + FACTOR * kind.slice // kind.scaled)
        )

    def holds(self, rows: int, limits: Properties) -> bool:
        """Whether shared memory holds rows of activations, and two slices of weights."""
        room = limits.max_shared_memory_per_block - KEPT
        return self.rounded_bytes(rows) + 2 * self.slice_bytes <= room

    @property
    def few(self) -> bool:
        """Whether the activations are as few as are rounded to 8 bits."""
        few = 0 < self.x.shape[0] <= MOST_ROWS and self.dtype in _ROUNDED
        return few and not self.exact and not self.transposed and self.kind.dtype is None and self.nbytes > 0

    def rounds(self, limits: Properties) -> bool:
        """Whether they are rounded, whatever is faster: on a GPU if its shared memory holds a row."""
        return self.few and (cost.is_host(limits) or self.holds(1, limits))

    @property
    def features(self) -> dict[str, Any]:
        """What its time depends on."""
        rows, columns, depth = self.sizes
        return {
            "dtype": dtypes.info(self.dtype).name,
            "kind": self.kind.name,
            "few": self.few,
            "transposed": self.transposed,
            "given": self.given,
            "gate": self.gate,
            "rows": rows,
            "columns": columns,
            "depth": depth,
        }

    @property
    def summary(self) -> str:
        """The problem in a line."""
        rows, columns, depth = self.sizes
        by = f"{depth} x {columns}" + (" twice" if self.gate else "")
        return f"{rows} x {depth} of {dtypes.info(self.dtype).name} by {by} of {self.kind.name}"

    def least_seconds(self, limits: Properties) -> float:
        """The time in which the blocks are read once, or the product is made."""
        rows, columns, depth = self.sizes
        moved = self.nbytes + (rows * depth + rows * columns) * self.dtype.itemsize
        operations = 2.0 * rows * self.weights[0] * self.weights[1]
        return cost.least_seconds(
            operations, moved, self.dtype.itemsize, self.dtype.itemsize == 2 or self.few, limits
        )
