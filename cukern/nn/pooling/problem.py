"""Pooling as a problem of a family: what one call asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Properties
from ...launch import cost
from ..fused import CHANNELS_LAST, lies_channels_last
from .geometry import Pair, Windows


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
