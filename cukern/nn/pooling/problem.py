"""Pooling as a problem of a family: windows on planes, and what one call asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Properties
from ...kernel.sizes import divide_up
from ...launch import cost
from ...pytree import declare_leaf
from ..fused import CHANNELS_LAST, lies_channels_last

Pair = tuple[int, int]


@declare_leaf
@dataclass(frozen=True)
class Windows:
    """The windows on a plane; each pair is (rows, columns).

    Attributes:
        kernel: elements of a window.
        stride: from one window to the next.
        padding: positions added on each side, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up.
        count_padding: whether an average also counts the padding.
    """

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    count_padding: bool = True

    @classmethod
    def along(cls, kernel: int, stride: int, padding: int, dilation: int, *options: bool) -> Windows:
        """Those along one axis: of lines that are planes of a column."""
        return cls((kernel, 1), (stride, 1), (padding, 0), (dilation, 1), *options)

    def beside(self, columns: Windows) -> Windows:
        """The windows on planes of these along rows, and of others along columns."""
        names = ("kernel", "stride", "padding", "dilation")
        pairs: Any = {name: (getattr(self, name)[0], getattr(columns, name)[0]) for name in names}
        return replace(columns, **pairs)

    @property
    def span(self) -> Pair:
        """The number of positions from a window's first element to its last."""
        (a, b), (c, d) = self.kernel, self.dilation
        return c * (a - 1) + 1, d * (b - 1) + 1

    def output_shape(self, height: int, width: int) -> Pair:
        """The number of windows down and across: with ``span = dilation * (kernel - 1) + 1``,
        ``(size + 2 * padding - span) / stride + 1`` rounded down, or up with ``ceil_mode``, where a window
        that would start beyond the plane and its leading padding is dropped again.
        """
        counts = []
        for axis, size in enumerate((height, width)):
            stride, padding = self.stride[axis], self.padding[axis]
            room = size + 2 * padding - self.span[axis]
            count = (divide_up(room, stride) if self.ceil_mode else room // stride) + 1
            if self.ceil_mode and (count - 1) * stride >= size + padding:
                count -= 1
            counts.append(count)
        return counts[0], counts[1]

    def are_inside(self, height: int, width: int, padded: bool = False) -> bool:
        """Whether every window lies inside the plane, or inside the padded plane."""
        counts = self.output_shape(height, width)
        return (padded or self.padding == (0, 0)) and all(
            (counts[axis] - 1) * self.stride[axis] + self.span[axis] <= size + 2 * self.padding[axis]
            for axis, size in enumerate((height, width))
        )

    def positions(self, height: int, width: int) -> npt.NDArray[np.int64]:
        """For each window and each of its elements, the flat position in the plane, or -1 outside of it."""
        rows, columns = (
            (np.arange(count) * self.stride[axis] - self.padding[axis])[:, None]
            + np.arange(self.kernel[axis]) * self.dilation[axis]
            for axis, count in enumerate(self.output_shape(height, width))
        )
        row, column = rows[:, None, :, None], columns[None, :, None, :]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        flat = np.where(inside, row * width + column, -1)
        return flat.reshape(len(rows) * len(columns), -1).astype(np.int64)

    def divisors(self, height: int, width: int) -> npt.NDArray[np.int64]:
        """For each window, the divisor of its average."""
        counts = []
        for axis, (size, number) in enumerate(
            zip((height, width), self.output_shape(height, width), strict=True)
        ):
            first = np.arange(number) * self.stride[axis] - self.padding[axis]
            last = first + self.kernel[axis]
            if self.count_padding:
                counts.append(np.minimum(last, size + self.padding[axis]) - first)
            else:
                counts.append(np.minimum(last, size) - np.maximum(first, 0))
        return (counts[0][:, None] * counts[1]).reshape(-1).astype(np.int64)

    def touched(self, rows: int) -> tuple[int, ...]:
        """The rows that ``rows`` windows down read, counted from the first row of the first window."""
        (kernel, _), (stride, _), (dilation, _) = self.kernel, self.stride, self.dilation
        return tuple(
            sorted({window * stride + a * dilation for window in range(rows) for a in range(kernel)})
        )

    def reaching(self, rows: int, items: int) -> Pair:
        """The number of windows down and across that overlap a tile of ``rows`` rows and ``items`` neighbours."""
        counts = []
        for axis, size in enumerate((rows, items)):
            stride, padding, reach = self.stride[axis], self.padding[axis], self.span[axis] - 1
            counts.append((size - 1 + padding) // stride + (reach - padding) // stride + 1)
        return counts[0], counts[1]

    @property
    def winner_dtype(self) -> dtypes.DType:
        """The dtype for the index of a window's largest element."""
        return dtypes.uint8 if math.prod(self.kernel) < 256 else dtypes.int32

    @property
    def no_winner(self) -> int:
        """The index of a window without an element in the plane."""
        return 255 if self.winner_dtype == dtypes.uint8 else -1


def channels_last(x: Array) -> Array:
    """The images, or a copy of them that lies so."""
    if lies_channels_last(x):
        return x
    return ops.moveaxis(ops.permute_dims(x, CHANNELS_LAST).contiguous(), -1, 1)


@dataclass(frozen=True)
class Pooling:
    """Pooling of an image, or the gradient of the image.

    Attributes:
        device, dtype: those of all arrays.
        shape: of the image, (..., rows, columns); (batch, channels, rows, columns) if channels lie last.
        channels_last: whether channels lie innermost in the memory of all arrays, which else are in C order.
        windows: how windows lie on the last two axes.
        maximum: whether windows give their largest element, rather than their average.
        keep: whether a second result says which place of its window each of these elements has: the winners.
        aligned: whether the arrays begin at multiples of 16 bytes.
        gradient: whether the image's gradient is computed, of the result's and, for a maximum, of the winners.
    """

    device: Device
    dtype: dtypes.DType
    shape: tuple[int, ...]
    channels_last: bool
    windows: Windows
    maximum: bool
    keep: bool
    aligned: bool
    gradient: bool = False

    @property
    def plane(self) -> Pair:
        """Rows and columns of the image."""
        return self.shape[-2], self.shape[-1]

    @property
    def outputs(self) -> Pair:
        """Rows and columns of windows."""
        return self.windows.output_shape(*self.plane)

    @property
    def planes(self) -> int:
        """The images and their channels."""
        return math.prod(self.shape[:-2])

    @property
    def result_plane(self) -> Pair:
        """Rows and columns of what is computed."""
        return self.plane if self.gradient else self.outputs

    @property
    def layouts(self) -> tuple[Layout, Layout, Layout]:
        """Those of the image, of what it is pooled to, and of the winners."""
        order, pooled = CHANNELS_LAST if self.channels_last else None, (*self.shape[:-2], *self.outputs)
        arrays = (self.dtype, self.shape), (self.dtype, pooled), (self.windows.winner_dtype, pooled)
        x, y, winners = (fresh_layout(self.device, *one, order) for one in arrays)
        return x, y, winners

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of what is computed."""
        x, y, winners = self.layouts
        return (x,) if self.gradient else (y, winners) if self.keep else (y,)

    @property
    def features(self) -> dict[str, Any]:
        return {
            "dtype": dtypes.info(self.dtype).name,
            "maximum": self.maximum,
            "channels_last": self.channels_last,
            "planes": self.planes,
            "channels": self.shape[-3] if len(self.shape) > 2 else 1,
            "rows": self.result_plane[0],
            "columns": self.result_plane[1],
            "places": math.prod(self.windows.kernel),
            "stride": math.prod(self.windows.stride),
        }

    @property
    def summary(self) -> str:
        what = f"{'gradient of ' if self.gradient else ''}{'max' if self.maximum else 'average'} pooling"
        order = "channels last" if self.channels_last else "channels first"
        kernel, stride = (" x ".join(map(str, pair)) for pair in (self.windows.kernel, self.windows.stride))
        return f"{what} of {dtypes.info(self.dtype).name} {self.shape}, {order}; windows of {kernel}, stride {stride}"

    def least_seconds(self, limits: Properties) -> float:
        """The time of its bytes, or of its additions or comparisons."""
        x, y, winners = self.layouts
        moved = x.nbytes + y.nbytes + winners.nbytes * (self.keep or (self.gradient and self.maximum))
        operations = y.size * math.prod(self.windows.kernel)
        return cost.least_seconds(operations, moved, self.dtype.itemsize, False, limits)
