"""How maps (of TMA, sm_90a) lead to images, weights and outputs, for the kernels that bring them by tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import dtypes
from ...array import Array
from ...array.layout import Layout, address
from ...device import Device
from ...device.interface import Tiles
from ...kernel.plan import remember
from ...kernel.sizes import divide_up
from .geometry import Place, Task, place_of

#: Elements in a line of 128 bytes, and bytes of a map.
LINE, MAP = 64, 128
#: Bytes of shared memory before the stages, for alignment, and for barriers.
ALIGNMENT, BARRIERS = 1024, 1024
#: The most lines of a copy along an axis, channels and filters from which on maps are used.
LONGEST, CHANNELS = 256, 64


def has_maps(device: Device) -> bool:
    """Whether kernels on a device bring tiles by maps."""
    return device.style != "serial" and device.properties.compute_capability[0] == 9


def is_mapped(task: Task, elem: dtypes.DType) -> bool:
    """Whether maps lead to image and output of two axes, of 16-bit floats whose channels lie innermost."""
    flat = task.image.size[0] == 1 and task.axes[0][:3] == (1, 1, 0) and task.output.size[0] == 1
    unique = all(map(apart, (task.image, task.output)))
    return elem.itemsize == 2 and task.groups == 1 and not task.wide and flat and unique


def is_dense(task: Task, strides: Sequence[int]) -> bool:
    """Whether a map leads to weights with these strides, and filters of the output begin at multiples of 16 bytes."""
    return (
        strides[1] == 1
        and min(strides[0], strides[4]) > 0
        and strides[3] % strides[4] == 0
        and task.filters % 8 == 0
    )


def apart(place: Place) -> bool:
    """Whether no two elements are one in memory, which maps cannot say."""
    sizes = (place.batch, place.channels, *place.size)
    return all(step > 0 or n == 1 for step, n in zip(place.steps, sizes, strict=True))


class Maps:
    """The maps of a launch's arrays, made once for an address.

    Args:
        device: of the arrays.
        tiles: how each is mapped, with the bytes from the array's address to the first element in place of an address.
    """

    def __init__(self, device: Device, tiles: Sequence[Tiles]) -> None:
        self._device, self._tiles = device, tuple(tiles)
        self._known: dict[tuple[int, int], bytes] = {}

    def __call__(self, arrays: Sequence[Array]) -> list[bytes]:
        """The maps of these arrays."""
        return [self._map(i, one) for i, one in enumerate(arrays)]

    def _map(self, which: int, one: Array) -> bytes:
        at = address(one._data) if self._device.addressable else one._operand
        found = self._known.get((which, at))
        if found is None:
            tiles = self._tiles[which]
            made = self._device.backend.tensor_map(tiles._replace(address=at + tiles.address))
            found = remember(self._known, (which, at), made)
        return found


def image_tiles(
    layout: Layout,
    box: tuple[int, int],
    every: Sequence[tuple[int, int]] = ((0, 1), (0, 1)),
    writes: bool = False,
) -> Tiles:
    """How kernels find a box of rows and columns of images, 64 channels of each.

    Args:
        layout: that of the images.
        box: rows and columns.
        every: which rows, and which columns: the first one, and the distance of two.
        writes: whether kernels store tiles.
    """
    place = place_of(layout)
    batch, _, _, y, x = (2 * step for step in place.steps)
    # An axis of size 1 has stride 0, which maps do not have.
    x = x or 2 * place.channels
    y = y or x * place.size[2]
    strides = (batch or y * place.size[1], y * every[0][1], x * every[1][1])
    sizes = [divide_up(n - first, step) for n, (first, step) in zip(place.size[1:], every, strict=True)]
    shape = (place.batch, *sizes, place.channels)
    first = every[0][0] * y + every[1][0] * x
    return Tiles(first, layout.dtype, shape, strides, (1, *box, LINE), 2 * LINE, writes)


def weight_tiles(layout: Layout, filters: int) -> Tiles:
    """How the kernel finds a tap's weights, 64 channels of so many filters."""
    place = place_of(layout)
    taps = math.prod(place.size)
    across = 2 * place.steps[4] or 2 * place.channels
    strides = (2 * place.steps[0] or taps * across, across)
    shape = (place.batch, taps, place.channels)
    return Tiles(0, layout.dtype, shape, strides, (filters, 1, LINE), 2 * LINE, False)
