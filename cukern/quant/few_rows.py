"""Products of a few rows with quantised weights, which are read once: by integer dot products."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on, raw, remember
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from .array import QuantArray
from .kinds import Kind

_ROWS = Kernel("quant/rows.cu")
_SERIAL = Kernel("quant/rows_serial.cu", block=1)
_ACTIVATIONS = Kernel("quant/activations.cu", block=256)
_ACTIVATIONS_SERIAL = Kernel("quant/activations_serial.cu", block=1)
#: Rows of activations that a launch takes at most.
MOST_ROWS = 8
#: Dtypes of activations that are rounded to 8 bits.
_DTYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
#: The most packs of activations that a thread quantises; of more a kernel computes planes first.
_MOST_PACKS = 4
#: Activations of a pack.
_PACK = 8
#: Activations in a block of Q8_1.
_BLOCK = 32
#: Bytes of the factors of a scale.
_FACTOR = 8
#: Warps of a block for one row of activations and for several, which take more registers.
_WARPS = (24, 16)
#: Warps at most of a block of which each has one row.
_MOST_WARPS = 32
#: The fewest stages of a warp if it takes several rows of weights, for one row of activations and for several.
_FEWEST_STAGES = (2, 3)
#: The most stages of a warp.
_MOST_STAGES = 4
#: The most bytes of all stages of a multiprocessor: more of them delay the first ones.
_IN_FLIGHT = 212 * 1024
#: Bytes of shared memory that a kernel has besides.
_KEPT = 1024
#: Bytes of each of a warp's first rows that are prefetched while the kernel before ends: measured on an H200.
_ASKED = 1024
#: Slices of a row of weights up to which it counts as short, for settled weights and one row of activations.
_SHORT = 2
#: Warps per block for short rows and for longer ones, if each warp then has all stages. Measured on an H200.
_FEWER_WARPS = (16, 20)
#: Slices of weights that are loaded before activations. Measured on an H200.
_LEAD = 1
#: Rows that a thread of the host multiplies.
_HOST_ROWS = 16


class Shape(NamedTuple):
    """How the work is divided.

    Attributes:
        rows: of weights that a warp multiplies at a time.
        warps: of a block.
        stages: slices of its rows that a warp holds, all but one on their way.
        packs: of eight activations that a thread quantises; if 0, they are given as planes.
        lead: slices that a warp asks for before the activations that it quantises; if 0, all that it may hold.
    """

    rows: int
    warps: int
    stages: int
    packs: int
    lead: int = 0

    def shared(self, kind: Kind, columns: int, inputs: int) -> int:
        """Bytes of shared memory of a block."""
        return _of_activations(kind, columns, inputs) + self.warps * self.stages * self.rows * _chunks(
            kind, inputs
        )


def _of_activations(kind: Kind, columns: int, inputs: int) -> int:
    """Bytes of the activations in shared memory: of whole slices."""
    slices = divide_up(inputs, kind.slice)
    return columns * slices * (kind.slice + _FACTOR * kind.slice // kind.scaled)


def _chunks(kind: Kind, inputs: int) -> int:
    """Bytes of a slice of a row in shared memory."""
    return kind.row_bytes(kind.slice) + (0 if _is_aligned(kind, inputs) else ACCESS)


def _is_aligned(kind: Kind, inputs: int) -> bool:
    return kind.row_bytes(inputs) % ACCESS == 0


def shape_for(kind: Kind, columns: int, outputs: int, inputs: int, device: Device) -> Shape | None:
    """The division of the work; None if the activations do not fit the shared memory.

    As many rows at a time as leave half of the warps some or more, and stages up to the bytes in flight that hide the
    memory's latency.
    """
    limits = device.properties
    room = limits.max_shared_memory_per_block - _of_activations(kind, columns, inputs) - _KEPT
    warps, stages = 2 * _WARPS[columns > 1], 0
    while stages < 2:
        warps //= 2
        if not warps:
            return None
        for rows in (4, 2, 1):
            stages = min(_MOST_STAGES, min(room, _IN_FLIGHT) // (warps * rows * _chunks(kind, inputs)))
            enough = stages >= _FEWEST_STAGES[columns > 1]
            if rows == 1 or (enough and 2 * outputs >= limits.multiprocessors * warps * rows):
                break
    if (
        columns == 1
        and rows > 1
        and stages == _FEWEST_STAGES[0]
        and outputs <= _MOST_WARPS * limits.multiprocessors
    ):
        # A row for each of more warps, of which more slices are on their way.
        alone = min(_MOST_STAGES, min(room, _IN_FLIGHT) // (_MOST_WARPS * _chunks(kind, inputs)))
        if alone > stages:
            rows, warps, stages = 1, _MOST_WARPS, alone
    packs = divide_up(columns * inputs, _PACK * 32 * warps)
    return Shape(rows, warps, stages, packs if packs <= _MOST_PACKS else 0)


def settled_shape_for(kind: Kind, columns: int, outputs: int, inputs: int, device: Device) -> Shape | None:
    """As :func:`shape_for`, for weights that are read while the kernel before ends: see :class:`Form`.

    Blocks have fewer warps if each then holds more slices: these are on their way before there are activations to
    multiply. The activations are asked for before most of them, as memory answers in the order of requests.
    """
    shape = shape_for(kind, columns, outputs, inputs, device)
    if shape is None or columns > 1:
        return shape
    warps = _FEWER_WARPS[inputs > _SHORT * kind.slice]
    fewer = Shape(shape.rows, warps, _MOST_STAGES, divide_up(inputs, _PACK * 32 * warps))
    fits = fewer.shared(kind, columns, inputs) <= device.properties.max_shared_memory_per_block - _KEPT
    more = shape.rows > 1 and warps < shape.warps and fewer.stages > shape.stages
    if more and fits and fewer.packs <= _MOST_PACKS:
        shape = fewer
    return shape._replace(lead=_LEAD if shape.packs else 0)


def _copies_rows(device: Device) -> bool:
    """Whether a row's slice is one copy, where rows are aligned."""
    return device.properties.compute_capability >= (9, 0)


def _is_serial(device: Device) -> bool:
    """Whether a thread works alone, as on the host."""
    return device.style == "serial"


def takes(x: Array, w: QuantArray) -> bool:
    """Whether :func:`product` takes these rows; not many, and no rows of which one does not fit the shared memory."""
    if not 0 < x.shape[0] <= MOST_ROWS or x.dtype not in _DTYPES or w._row.dtype is not None or not w.size:
        return False
    outputs, inputs = w.shape
    return _is_serial(x.device) or shape_for(w._row, 1, outputs, inputs, x.device) is not None


@cache
def _bound(kernel: Kernel, device: Device, **variables: Any) -> CompiledFunction:
    return kernel.bind(device, **variables).function


class _Plan(NamedTuple):
    """The launch for sizes and dtypes.

    Attributes:
        function: the kernel.
        shape: how the work is divided.
        grid: blocks.
        shared: bytes of shared memory of a block.
    """

    function: CompiledFunction
    shape: Shape
    grid: int
    shared: int


class Form(NamedTuple):
    """What a launch is for, beside its sizes.

    Attributes:
        dtype: of the activations and the result.
        biased: whether a vector is added to each row of the result.
        settled: whether the weights were written before the kernel before this one began.
        normed: whether the only row of activations is normalised first.
        gate: the function of one half of the products, by which the other half is multiplied; ``""`` for none.
    """

    dtype: dtypes.DType
    biased: bool = False
    settled: bool = False
    normed: bool = False
    gate: str = ""


_plans: dict[Any, _Plan] = {}


def planned(device: Device, kind: Kind, form: Form, sizes: tuple[int, int, int], shape: Shape) -> _Plan:
    """The launch for ``sizes``, which are rows of activations, results of one, and inputs."""
    key = (device, kind, form, sizes, shape)
    plan = _plans.get(key)
    return remember(_plans, key, _plan(*key)) if plan is None else plan


def _plan(device: Device, kind: Kind, form: Form, sizes: tuple[int, int, int], shape: Shape) -> _Plan:
    columns, outputs, inputs = sizes
    words = [
        kind.header,
        dtypes.info(form.dtype).name,
        *(word for word in ("normed", "settled") if getattr(form, word)),
        *([form.gate] if form.gate else []),
        *(columns, shape.rows, shape.warps, shape.stages),
        *([shape.lead] if shape.lead else []),
    ]
    function = _bound(
        _ROWS,
        device,
        name="_".join(map(str, ("quantised_rows", *words))),
        elem=form.dtype,
        kind=kind.header,
        columns=columns,
        block=32 * shape.warps,
        **shape._replace(lead=shape.lead or shape.stages - 1)._asdict(),
        asked=_ASKED,
        aligned=_is_aligned(kind, inputs),
        bulk=_is_aligned(kind, inputs) and _copies_rows(device),
        **{name: value for name, value in form._asdict().items() if name != "dtype"},
    )
    result = shape.rows // 2 if form.gate else shape.rows
    grid = min(device.properties.multiprocessors, divide_up(outputs, result))
    return _Plan(function, shape, grid, shape.shared(kind, columns, inputs))


def run(
    plan: _Plan, w: QuantArray, x: tuple[Any, Any, Any], bias: Any, result: Any, norm: tuple[Any, float]
) -> None:
    """Launch.

    Args:
        plan: the launch.
        w: the weights.
        x: ndarrays: the activations, or their numbers and factors; None for what is not there.
        bias: an ndarray, or None.
        result: the result, an ndarray (rows, results).
        norm: the weights of a norm, an ndarray or None, and what is added to mean squares.
    """
    threads = 32 * plan.shape.warps
    values = (w.blocks._data, *x, bias, result, norm[0], result.shape[1], w.shape[1], norm[1])
    launch(w.device, plan.function, plan.grid, threads, values, plan.shared)


def product(x: Array, w: QuantArray, bias: Array | None, shape: Shape | None = None) -> Array:
    """``x @ W.T + bias`` for arguments that :func:`takes` takes.

    Args:
        x: shape (rows, inputs), contiguous and aligned.
        w: shape (outputs, inputs).
        bias: contiguous, of the dtype of ``x``.
        shape: how to divide the work on a GPU.
    """
    (columns, inputs), outputs = x.shape, w.shape[0]
    device, kind = x.device, w._row
    with on(device):
        result = allocate(device, (columns, outputs), x.dtype)
        if shape is None and _is_serial(device):
            _serial(x, w, bias, result)
            return Array._wrap(result, device)
        shape = shape or shape_for(kind, columns, outputs, inputs, device)
        if shape is None:
            half = divide_up(columns, 2)
            for part in (slice(None, half), slice(half, None)):
                raw(result)[part] = raw(product(x[part], w, bias)._data)
            return Array._wrap(result, device)
        plan = planned(device, kind, Form(x.dtype, bias is not None), (columns, outputs, inputs), shape)
        planes = (None, None) if shape.packs else activations(x, kind)
        run(plan, w, (x._data, *planes), None if bias is None else bias._data, result, (None, 0.0))
    return Array._wrap(result, device)


def activations(x: Array, kind: Kind) -> tuple[Any, Any]:
    """``x`` in 8 bits: ndarrays of the numbers, int8, and of what products with a kind take of the scales."""
    device, count = x.device, x.size
    assert count <= LARGEST_INDEX
    numbers = allocate(device, x.shape, dtypes.int8)
    factors = allocate(device, (count // kind.scaled, _FACTOR), dtypes.uint8)
    variables = {
        "name": f"activations_{kind.header}_{dtypes.info(x.dtype).name}",
        "elem": x.dtype,
        "kind": kind.header,
    }
    if _is_serial(device):
        function = _bound(_ACTIVATIONS_SERIAL, device, **variables)
        launch(device, function, 1, 1, (x._data, numbers, factors, count // _BLOCK))
    else:
        function = _bound(_ACTIVATIONS, device, **variables)
        lanes = count // _PACK
        launch(device, function, divide_up(lanes, 256), 256, (x._data, numbers, factors, lanes))
    return numbers, factors


def _serial(x: Array, w: QuantArray, bias: Array | None, result: Any) -> None:
    device, kind, (outputs, inputs) = x.device, w._row, w.shape
    numbers, factors = activations(x, kind)
    function = _bound(
        _SERIAL,
        device,
        name=f"quantised_rows_{kind.header}_{dtypes.info(x.dtype).name}",
        elem=x.dtype,
        kind=kind.header,
        biased=bias is not None,
    )
    values = (w.blocks._data, numbers, factors, None if bias is None else bias._data, result)
    grid = divide_up(outputs, _HOST_ROWS)
    launch(device, function, grid, 1, (*values, outputs, x.shape[0], inputs, _HOST_ROWS))
