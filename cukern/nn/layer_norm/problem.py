"""Layer norm and its gradient as problems of families: what a call asks for, as far as a launch depends on it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import dtypes
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel.sizes import ACCESS, index_type
from ...launch import cost


class Normalization(NamedTuple):
    """The normalization of dense rows, or if ``dy`` is given its gradient.

    Attributes:
        x: of any shape whose elements are whole rows.
        weight, bias: one number a column; one a channel if rows are groups of channels.
        columns: elements of a row.
        centered: whether the mean is subtracted, as RMS norm does not.
        groups: of channels, which rows take in turn; 0 if rows are not groups.
        inner: neighbouring elements of a channel.
        dy: the gradient of the result, of the shape of ``x``.
        wanted: whether the gradients of weight and of bias are.
        activation: of the normalized values, where rows are groups of channels.
        residual: what is added to ``x`` before, of its shape, in rows that are no groups; to the gradient of ``x``, if
            ``dy`` is given.
    """

    x: Layout
    weight: Layout | None
    bias: Layout | None
    columns: int
    centered: bool = True
    groups: int = 0
    inner: int = 1
    dy: Layout | None = None
    wanted: tuple[bool, bool] = (False, False)
    activation: Program | None = None
    residual: Layout | None = None

    @property
    def device(self) -> Device:
        return self.x.device

    @property
    def acc(self) -> dtypes.DType:
        """The dtype of statistics and sums."""
        return dtypes.info(self.x.dtype).acc

    @property
    def rows(self) -> int:
        """How many are normalized."""
        return self.x.size // self.columns

    @property
    def offsets(self) -> str:
        """The C++ type of offsets."""
        return index_type(self.x.size, 2 * self.rows)

    @property
    def packed(self) -> bool:
        """Whether rows, weight and bias allow vectorized access of 16 bytes; those of channels are read one by one."""
        arrays = (self.x,) if self.groups else (self.x, self.dy, self.weight, self.bias, self.residual)
        whole = self.columns * self.x.dtype.itemsize % ACCESS == 0
        return whole and all(one is None or one.aligned for one in arrays)

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of the result, of statistics, two a row or three a group, and of the sum with a residual.

        Those of a gradient are of the wanted gradients.
        """
        first = fresh_layout(self.device, self.x.dtype, self.x.shape)
        if self.dy is None:
            statistics = fresh_layout(self.device, self.acc, (self.rows, 3 if self.groups else 2))
            return (first, statistics) if self.residual is None else (first, statistics, first)
        return first, *[fresh_layout(self.device, self.x.dtype, (self.columns,))] * sum(self.wanted)

    @property
    def features(self) -> dict[str, Any]:
        return {
            "dtype": dtypes.info(self.x.dtype).name,
            "centered": self.centered,
            "weighted": self.weight is not None,
            "packed": self.packed,
            "grouped": self.groups > 0,
            "sums": any(self.wanted),
            "rows": self.rows,
            "columns": self.columns,
            **({} if self.residual is None else {"residual": True}),
        }

    @property
    def summary(self) -> str:
        name = "group norm" if self.groups else "layer norm" if self.centered else "RMS norm"
        of = "" if self.dy is None else "gradient of "
        name += "" if self.residual is None else " of a sum"
        return f"{of}{name} of {self.rows} x {self.columns} of {dtypes.info(self.x.dtype).name}"

    def least_seconds(self, limits: Properties) -> float:
        """The time in which rows are read and written once."""
        arrays = 3 - (self.dy is None) + (self.residual is not None) * (2 if self.dy is None else 1)
        return arrays * self.x.nbytes / cost.bandwidth(limits)
