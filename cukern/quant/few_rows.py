"""Products of a few rows with quantised weights, which are read once: by integer dot products."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from .array import QuantArray
from .kinds import Kind

_ROWS = Kernel("quant/rows.cu")
_SERIAL = Kernel("quant/rows_serial.cu", block=1)
_ACTIVATIONS = Kernel("quant/activations.cu", block=256)
_ACTIVATIONS_SERIAL = Kernel("quant/activations_serial.cu", block=1)
#: Rows of activations that a launch takes at most.
MOST_ROWS = 8
#: Elements of activations at most that each block quantises itself; of more a kernel makes planes.
_DIRECT = 1 << 15
#: Activations in a block of Q8_1, and the bytes of its scale and sums.
_BLOCK, _SCALE = 32, 8
#: Bytes on their way to a multiprocessor at most.
_IN_FLIGHT = 144 * 1024
#: Rows that a thread of the host multiplies.
_HOST_ROWS = 16


class Shape(NamedTuple):
    """How the work is divided.

    Attributes:
        rows: of weights that a warp multiplies at a time.
        warps: of a block.
        stages: slices of its rows that a warp holds, all but one on their way.
        direct: whether each block quantises the activations.
    """

    rows: int
    warps: int
    stages: int
    direct: bool

    def shared(self, kind: Kind, columns: int, inputs: int) -> int:
        """Bytes of shared memory of a block."""
        return _of_activations(kind, columns, inputs) + self.warps * self.stages * self.rows * _chunks(
            kind, inputs
        )


def _of_activations(kind: Kind, columns: int, inputs: int) -> int:
    """Bytes of the activations in shared memory: of whole slices."""
    slices = divide_up(inputs, kind.slice)
    return columns * slices * (kind.slice + 8 * kind.slice // kind.scaled)


def _chunks(kind: Kind, inputs: int) -> int:
    """Bytes of a slice of a row in shared memory."""
    return kind.row_bytes(kind.slice) + (0 if _is_aligned(kind, inputs) else ACCESS)


def _is_aligned(kind: Kind, inputs: int) -> bool:
    return kind.row_bytes(inputs) % ACCESS == 0


def shape_for(kind: Kind, columns: int, outputs: int, inputs: int, device: Device) -> Shape | None:
    """The division of the work; None if the activations do not fit the shared memory.

    As many rows at a time as leave each warp some, and stages up to the bytes in flight that hide the memory's latency.
    """
    limits = device.properties
    room = limits.max_shared_memory_per_block - _of_activations(kind, columns, inputs)
    direct, warps = columns * inputs <= _DIRECT, 8
    rows = next(
        n for n in (4, 2, 1) if n == 1 or divide_up(outputs, n) >= limits.multiprocessors * warps // 2
    )
    stage = warps * rows * _chunks(kind, inputs)
    stages = min(8, min(room, _IN_FLIGHT) // stage)
    while stages < 2 and rows > 1:
        rows //= 2
        stages = min(8, room // (warps * rows * _chunks(kind, inputs)))
    return Shape(rows, warps, stages, direct) if stages >= 2 else None


def _is_serial(device: Device) -> bool:
    """Whether a thread works alone, as on the host."""
    return device.style == "serial"


@cache
def _bound(kernel: Kernel, device: Device, **variables: Any) -> CompiledFunction:
    return kernel.bind(device, **variables).function


class Planes(NamedTuple):
    """Activations in 8 bits, as ``activations.cuh`` has them.

    Attributes:
        numbers: an ndarray of int8, shape (rows, inputs).
        scales: an ndarray of uint8: of each 32 numbers the scale and the sums of halves.
        shape: (rows, inputs).
    """

    numbers: Any
    scales: Any
    shape: tuple[int, int]


def planes_like(rows: int, inputs: int, device: Device) -> Planes:
    """Memory for activations in 8 bits; its device must be the current one."""
    numbers = allocate(device, (rows, inputs), dtypes.int8)
    return Planes(numbers, allocate(device, (rows * inputs // _BLOCK, _SCALE), dtypes.uint8), (rows, inputs))


def takes_planes(w: object, rows: int) -> bool:
    """Whether :func:`product_of_planes` multiplies so many rows with ``w``."""
    if not isinstance(w, QuantArray) or w._row.dtype is not None or not 0 < rows <= MOST_ROWS:
        return False
    outputs, inputs = w.shape
    return shape_for(w._row, rows, outputs, inputs, w.device) is not None


def product_of_planes(planes: Planes, w: QuantArray, settled: bool = False) -> Array:
    """``x @ W.T`` in float32 of activations that are in 8 bits.

    Args:
        planes: on the device of ``w``.
        w: as :func:`takes_planes` demands.
        settled: whether the weights were written before the kernel launched last could begin, so that they may be
            read before it has ended.
    """
    (columns, inputs), device = planes.shape, w.device
    shape = shape_for(w._row, columns, w.shape[0], inputs, device)
    assert shape is not None
    with on(device):
        made = allocate(device, (columns, w.shape[0]), dtypes.float32)
        shape = shape._replace(direct=False)
        _launch(None, planes, w, None, made, shape, settled)
    return Array._wrap(made, device)


def product(x: Array, w: QuantArray, bias: Array | None, shape: Shape | None = None) -> Array:
    """``x @ W.T + bias`` for checked arguments: ``x`` (rows, inputs), of at most :data:`MOST_ROWS` rows.

    Args:
        x: contiguous and aligned, float16, bfloat16 or float32.
        w: its kind is one of blocks.
        bias: of the dtype of ``x``.
        shape: how to divide the work on a GPU.
    """
    columns, inputs = x.shape
    device, kind = x.device, w._row
    with on(device):
        made = allocate(device, (columns, w.shape[0]), x.dtype)
        if shape is None and _is_serial(device):
            _serial(x, w, bias, made)
            return Array._wrap(made, device)
        shape = shape or shape_for(kind, columns, w.shape[0], inputs, device)
        if shape is None:
            half = divide_up(columns, 2)
            for part in (slice(None, half), slice(half, None)):
                made[part] = product(x[part], w, bias)._data
            return Array._wrap(made, device)
        _launch(x, None if shape.direct else activations(x), w, bias, made, shape)
    return Array._wrap(made, device)


def _launch(
    x: Array | None,
    planes: Planes | None,
    w: QuantArray,
    bias: Array | None,
    made: Any,
    shape: Shape,
    settled: bool = False,
) -> None:
    """Multiply what is in the planes, or ``x``."""
    device, kind, (outputs, inputs), columns = w.device, w._row, w.shape, made.shape[0]
    row = dtypes.info(dtypes.as_dtype(made.dtype))
    name = f"{kind.header}_{row.name}_{columns}"
    with on(device):
        function = _bound(
            _ROWS,
            device,
            name=f"quantised_rows_{name}_{shape.rows}_{shape.warps}_{shape.stages}",
            elem=row.dtype,
            kind=kind.header,
            columns=columns,
            block=32 * shape.warps,
            **shape._asdict(),
            aligned=_is_aligned(kind, inputs),
            biased=bias is not None,
            settled=settled,
        )
        grid = min(device.properties.multiprocessors, divide_up(outputs, shape.rows))
        numbers, scales = (None, None) if planes is None else planes[:2]
        given = (None if x is None else x._data, numbers, scales, None if bias is None else bias._data, made)
        launch(
            device, function, grid, 32 * shape.warps, (w.blocks._data, *given, outputs, inputs),
            shape.shared(kind, columns, inputs),
        )  # fmt: skip


def activations(x: Array) -> Planes:
    """``x``, of two axes, in 8 bits."""
    device, count = x.device, x.size
    assert count <= LARGEST_INDEX
    with on(device):
        made = planes_like(x.shape[0], x.shape[1], device)
    numbers, scales, _ = made
    name = f"activations_{dtypes.info(x.dtype).name}"
    if _is_serial(device):
        function = _bound(_ACTIVATIONS_SERIAL, device, name=name, elem=x.dtype)
        launch(device, function, 1, 1, (x._data, numbers, scales, count // _BLOCK))
    else:
        function = _bound(_ACTIVATIONS, device, name=name, elem=x.dtype)
        launch(device, function, divide_up(count // 4, 256), 256, (x._data, numbers, scales, count // 4))
    return made


def _serial(x: Array, w: QuantArray, bias: Array | None, made: Any) -> None:
    device, kind, (outputs, inputs) = x.device, w._row, w.shape
    numbers, scales, _ = activations(x)
    function = _bound(
        _SERIAL,
        device,
        name=f"quantised_rows_{kind.header}_{dtypes.info(x.dtype).name}",
        elem=x.dtype,
        kind=kind.header,
        biased=bias is not None,
    )
    values = (w.blocks._data, numbers, scales, None if bias is None else bias._data, made)
    grid = divide_up(outputs, _HOST_ROWS)
    launch(device, function, grid, 1, (*values, outputs, x.shape[0], inputs, _HOST_ROWS))
