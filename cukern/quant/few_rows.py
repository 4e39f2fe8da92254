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
        name = f"{kind.header}_{dtypes.info(x.dtype).name}_{columns}"
        numbers = scales = None
        if not shape.direct:
            numbers, scales = activations(x)
        function = _bound(
            _ROWS,
            device,
            name=f"quantised_rows_{name}_{shape.rows}_{shape.warps}_{shape.stages}",
            elem=x.dtype,
            kind=kind.header,
            columns=columns,
            block=32 * shape.warps,
            **shape._asdict(),
            aligned=_is_aligned(kind, inputs),
            biased=bias is not None,
        )
        outputs = w.shape[0]
        grid = min(device.properties.multiprocessors, divide_up(outputs, shape.rows))
        values = (w.blocks._data, x._data, numbers, scales, None if bias is None else bias._data, made)
        launch(
            device, function, grid, 32 * shape.warps, (*values, outputs, inputs),
            shape.shared(kind, columns, inputs),
        )  # fmt: skip
    return Array._wrap(made, device)


def activations(x: Array) -> tuple[Any, Any]:
    """``x`` in 8 bits: ndarrays of the numbers, int8, and of each 32 numbers the scale and the sums of halves."""
    device, count = x.device, x.size
    assert count <= LARGEST_INDEX
    numbers = allocate(device, x.shape, dtypes.int8)
    scales = allocate(device, (count // _BLOCK, _SCALE), dtypes.uint8)
    name = f"activations_{dtypes.info(x.dtype).name}"
    if _is_serial(device):
        function = _bound(_ACTIVATIONS_SERIAL, device, name=name, elem=x.dtype)
        launch(device, function, 1, 1, (x._data, numbers, scales, count // _BLOCK))
    else:
        function = _bound(_ACTIVATIONS, device, name=name, elem=x.dtype)
        launch(device, function, divide_up(count // 4, 256), 256, (x._data, numbers, scales, count // 4))
    return numbers, scales


def _serial(x: Array, w: QuantArray, bias: Array | None, made: Any) -> None:
    device, kind, (outputs, inputs) = x.device, w._row, w.shape
    numbers, scales = activations(x)
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
