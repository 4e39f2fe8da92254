"""Gradients of the weights of windows that move by one pixel or two, by bands brought once for all taps (sm_90a)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared, Tiles
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .epilogue import steps, variables
from .geometry import Task
from .maps import ALIGNMENT, BARRIERS, CHANNELS, LINE, LONGEST, MAP, Maps, has_maps, image_tiles
from .shifted import around_of, fits

_KERNEL = Kernel("nn/convolution/shifted_weights.cu")
#: Threads of a block, taps that three warpgroups have, pixels of a product, and stages.
_THREADS, _TAPS, _DEPTH, _STAGES, _MOST = 512, 9, 16, 2, 4
#: Blocks of a cluster: not more, as each has a multiprocessor, and more may not find enough of them side by side.
_CLUSTERS = (2,)


class Form(NamedTuple):
    """What a block makes at a time.

    Attributes:
        band: rows of an image.
        pitch: pixels of such a row with its padding.
        brought: lines of a band's image.
        lines: those of the output in shared memory, and of all phases of the image.
        stages: bands in shared memory.
    """

    band: int
    pitch: int
    brought: int
    lines: tuple[int, int]
    stages: int = 0

    @property
    def stage(self) -> int:
        """Bytes of a stage."""
        return 2 * LINE * sum(self.lines)

    def bands(self, task: Task) -> tuple[int, int]:
        """The bands of all images, and of one."""
        each = divide_up(task.axes[1].pixels, self.band)
        return task.image.batch * each, each

    def cost(self, task: Task) -> float:
        """Lines that are multiplied, or brought if these take longer."""
        return self.bands(task)[0] * (self.lines[0] + sum(self.lines) / 8)


def _forms(task: Task, memory: int) -> list[Form]:
    """The forms that compute a gradient with so much shared memory a block."""
    _, y, x = task.axes
    around, phases = [around_of(one) for one in (y, x)], len(_phases(task))
    pitch, found = x.pixels + around[1], []
    for band in range(1, y.pixels + 1):
        if max(pitch, band + around[0]) > LONGEST:
            break
        lines = divide_up(band * pitch, _DEPTH) * _DEPTH
        brought = (band + around[0]) * pitch
        reach = lines + around[0] * pitch + around[1]
        form = Form(band, pitch, brought, (lines, phases * divide_up(max(brought, reach), 8) * 8))
        stages = min(_MOST, (memory - BARRIERS - ALIGNMENT) // form.stage)
        if stages >= _STAGES:
            found.append(form._replace(stages=stages))
    return found


def form_for(task: Task, elem: dtypes.DType, device: Device) -> Form | None:
    """The form of a gradient of arrays whose channels lie innermost; None if there is none."""
    return form_of(task, elem, device.properties.max_shared_memory_per_block) if has_maps(device) else None


def form_of(task: Task, elem: dtypes.DType, memory: int) -> Form | None:
    """The same for a device with so much shared memory a block."""
    if not fits(task, elem) or task.taps > _TAPS or min(task.filters, task.channels) < CHANNELS:
        return None
    if not task.pixels:  # no band begins the sums
        return None
    return min(_forms(task, memory), key=lambda one: one.cost(task), default=None)


def parts_of(task: Task, form: Form, multiprocessors: int) -> int:
    """Into how many parts the bands are cut."""
    tiles = divide_up(task.filters, LINE) * divide_up(task.channels, LINE)
    bands = form.bands(task)[0]
    parts = max(1, min(multiprocessors // tiles, bands // 2))
    return divide_up(bands, divide_up(bands, parts))


def cluster_of(task: Task, form: Form, parts: int, device: Device) -> int:
    """How many blocks, each with a part of the bands, add up their sums in shared memory."""
    limits = device.properties
    for cluster in _CLUSTERS:
        memory = _sums(task, cluster) + ALIGNMENT + BARRIERS
        fits_device = (
            cluster <= limits.max_blocks_per_cluster and memory <= limits.max_shared_memory_per_block
        )
        if parts % cluster == 0 and fits_device:
            return cluster
    return 1


def _sums(task: Task, cluster: int) -> int:
    """Bytes of the sums that a block has from the others of its cluster."""
    return divide_up(task.taps, 3) * 32 // cluster * (cluster - 1) * 384 * 4


class Launch:
    """A launch for output and image, to which maps lead, and the weights or sums of clusters."""

    def __init__(
        self,
        task: Task,
        form: Form,
        made: Program,
        device: Device,
        layouts: Sequence[Layout],
        parts: int,
        cluster: int,
    ) -> None:
        elem = layouts[0].dtype
        output, image = layouts
        tiles = (
            image_tiles(output, (form.band, form.pitch)),
            *_phase_tiles(image, task, (form.brought // form.pitch, form.pitch)),
        )
        self._phases = len(tiles) - 1
        self._maps = Maps(device, tiles)
        bound = _KERNEL.bind(device, **_variables(task, form, made, elem), cluster=cluster)
        bands, of_image = form.bands(task)
        across = divide_up(task.channels, LINE)
        _, y, x = task.axes
        numbers = (
            bands,
            of_image,
            divide_up(bands, parts),
            across,
            task.filters,
            task.channels,
            y.base,
            x.base,
        )
        grid = (divide_up(task.filters, LINE) * across, parts, 1)
        tail = (struct.pack("8i", *numbers), steps(task, made))
        shared = max(form.stages * form.stage, _sums(task, cluster)) + ALIGNMENT
        self._launch: Prepared = bound.function.prepare(
            grid, (_THREADS, 1, 1), shared, tail, [MAP] * len(tiles)
        )

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch for output and image."""
        output, image = arrays
        self._launch(*self._maps((output, *[image] * self._phases)), out._operand)


def _phases(task: Task) -> list[tuple[int, int]]:
    """The first taps, along rows and columns, of the phases of an image: see shifted_weights.cu."""
    _, y, x = task.axes
    return list(itertools.product(range(min(y.step, y.taps)), range(min(x.step, x.taps))))


def _phase_tiles(layout: Layout, task: Task, box: tuple[int, int]) -> list[Tiles]:
    """How kernels find rows and columns of an image's phases, 64 channels of each."""
    axes = task.axes[1:]
    return [
        image_tiles(
            layout,
            box,
            [((axis.base + tap) % axis.step, axis.step) for axis, tap in zip(axes, taps, strict=True)],
        )
        for taps in _phases(task)
    ]


def _variables(task: Task, form: Form, made: Program, elem: dtypes.DType) -> dict[str, Any]:
    """The template variables."""
    _, y, x = task.axes
    phases = len(_phases(task))
    return {
        **variables(task, made, elem),
        "name": f"{made.name}_shifted_weights_{dtypes.info(elem).name}",
        "block": _THREADS,
        "pitch": form.pitch,
        "band": form.band,
        "brought_image": form.brought,
        "lines": form.lines[0],
        "lines_image": form.lines[1] // phases,
        "by": y.step,
        "phases": phases,
        "taps_y": y.taps,
        "taps_x": x.taps,
        "step_y": y.tap_step,
        "step_x": x.tap_step,
        "stages": form.stages,
    }
