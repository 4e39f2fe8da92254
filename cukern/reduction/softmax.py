"""softmax and log_softmax along an axis, and their derivatives, in one launch each.

Rows that fit are held in registers and read once; others are read again for each pass: the largest element, the sum
of exponentials, the result.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..device.interface import Prepared, Style
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public, require_array
from ..elementwise.table import exp, multiply, negative, subtract
from ..kernel import Kernel
from ..kernel.plan import Plan, on
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up, power_of_two
from ..kernel.strides import Axes, broadcast_steps, collapse, contiguous_steps, needs_64_bits, step_kind
from .rows import normalizers, sum

__all__ = ["log_softmax", "softmax"]

Kind = Literal["softmax", "log_softmax", "softmax_vjp", "log_softmax_vjp"]
_KERNEL = Kernel("reduction/softmax.cu", block=256)
_REGISTERS = Kernel("reduction/softmax_registers.cu", block=256)
_COLUMNS = Kernel("reduction/softmax_columns.cu", block=1)
_ROWS = Kernel("reduction/softmax_rows.cu", block=256)
#: Elements that a host thread computes in sequence.
_HOST_PIECE = 65536
#: Neighbouring rows that a host thread computes together if the elements of a row are far apart.
_HOST_TILE = 64
#: Elements per row from which a few rows are computed by several launches.
_LONG = 1 << 20


class Geometry(NamedTuple):
    """How threads share the work.

    Attributes:
        block: threads per block.
        lanes: threads that share a row.
        tile: neighbouring rows per task.
        unroll: elements that a thread computes at once.
        keep: elements that a thread keeps in registers, 0 for none.
        rows_piece: tasks per group of ``lanes`` threads.
    """

    block: int
    lanes: int
    tile: int
    unroll: int
    keep: int
    rows_piece: int


def geometry(style: Style, rows: int, columns: int, n: int) -> Geometry:
    """The geometry for a style of device.

    Args:
        rows: the number of rows.
        columns: the number of neighbouring rows with neighbouring elements; 1 if the elements of a row are nearer.
        n: elements per row.
    """
    if style == "serial":
        tile = _HOST_TILE if columns >= 8 else 1
        unroll = 32 if n >= 64 else 8 if n >= 8 else 1
        return Geometry(1, 1, tile, unroll, 0, max(1, _HOST_PIECE // (n * tile)))
    lanes = 1 if n <= 4 or (columns > 1 and rows >= 4096) else 32 if n <= 256 else 256 if n <= 2048 else 1024
    keep = power_of_two(divide_up(n, lanes))
    return Geometry(max(lanes, 256), lanes, 1, 4, keep if keep <= 16 else 0, 1)


class Packs(NamedTuple):
    """How threads of a GPU share rows that they hold in registers.

    Attributes:
        block: threads per block.
        threads: threads per row.
        chunks: packs of each array that a thread holds.
        cluster: blocks that share a row.
        resident: the least number of blocks resident per multiprocessor, which limits their registers.
    """

    block: int
    threads: int
    chunks: int
    cluster: int = 1
    resident: int = 1


class Tuning(NamedTuple):
    """How rows are divided among threads.

    Attributes:
        chunks: packs of 16 bytes that a thread holds of each array.
        block: the most threads per block.
        most: the most packs per thread in a block that has one row, which is faster than a cluster.
        resident: the least number of threads resident per multiprocessor, which limits their registers.
    """

    chunks: int
    block: int
    most: int
    resident: int


#: By the bytes of an element, for a result and for a derivative, which has two arrays.
TUNING = {
    2: (Tuning(4, 512, 8, 1024), Tuning(4, 512, 8, 512)),
    4: (Tuning(8, 1024, 8, 1024), Tuning(4, 256, 4, 512)),
    8: (Tuning(8, 1024, 8, 512), Tuning(4, 256, 4, 512)),
}
#: Threads per block if a cluster shares a row: some small blocks read while others write.
CLUSTERED = 256


def packs(n: int, itemsize: int, arrays: int, clusters: int) -> Packs | None:
    """How threads share rows of ``n`` elements in C order, aligned to 16 bytes; None if registers cannot hold one."""
    width = ACCESS // itemsize
    if n % width:
        return None
    tuning = TUNING[itemsize][arrays - 1]
    threads = power_of_two(divide_up(n // width, tuning.chunks))
    if threads > tuning.block:
        threads = power_of_two(divide_up(n // width, tuning.most))
    cluster = 1
    if threads > tuning.block:
        # Without clusters, larger blocks are better than reading a row twice.
        largest = CLUSTERED if clusters > 1 else 1024
        cluster = divide_up(threads, largest)
    if cluster > clusters:
        return None
    block = 128 if threads <= 32 else threads // cluster
    return Packs(block, threads, divide_up(n // width, threads), cluster, max(1, tuning.resident // block))


def _style(device: Device) -> Style:
    return device.style


def make_plan(kind: Kind, layouts: Sequence[Layout], axis: int) -> Plan:
    """Choose and compile the launch for non-empty arrays of one shape and dtype."""
    first = layouts[0]
    device = first.device
    shape = None
    if (
        _style(device) != "serial"
        and axis == first.ndim - 1
        and all(layout.contiguous and layout.aligned for layout in layouts)
    ):
        clusters = device.properties.max_blocks_per_cluster
        shape = packs(first.shape[axis], first.dtype.itemsize, len(layouts), clusters)
    with on(device):
        launch = _general(kind, layouts, axis) if shape is None else _packed(kind, first, shape)
    return Plan(device, [fresh_layout(device, first.dtype, first.shape)], launch)


def _kind_variables(kind: Kind) -> dict[str, Any]:
    """The template variables of a kind."""
    return {"kind": kind, "forward": not kind.endswith("_vjp"), "logs": kind.startswith("log")}


def _packed(kind: Kind, layout: Layout, shape: Packs) -> Prepared:
    """The launch for rows in registers."""
    info, n = dtypes.info(layout.dtype), layout.shape[-1]
    width, rows = ACCESS // layout.dtype.itemsize, layout.size // n
    wide = layout.size > LARGEST_INDEX
    function = _ROWS.bind(
        layout.device,
        name=f"{kind}_{info.name}_{shape.block}",
        **_kind_variables(kind),
        elem=info.dtype,
        index="long long" if wide else "int",
        width=width,
        half=info.narrow,
        full=shape.threads * shape.chunks * width == n,
        **shape._asdict(),
    ).function
    groups = max(1, shape.block // shape.threads)
    grid = divide_up(rows, groups) * shape.cluster
    return function.prepare((grid, 1, 1), (shape.block, 1, 1), 0, (rows, n))


def _general(kind: Kind, layouts: Sequence[Layout], axis: int) -> Prepared:
    """The launch for any strides and axis."""
    device, shape = layouts[0].device, layouts[0].shape
    steps = [*(broadcast_steps(layout, shape) for layout in layouts), contiguous_steps(shape)]
    kept = collapse(
        [size for i, size in enumerate(shape) if i != axis],
        [[step[i] for i in range(len(shape)) if i != axis] for step in map(list, steps)],  # type: ignore[misc]
    )
    if not kept.shape:
        kept = Axes((1,), ((0,),) * len(steps))
    n, rows = shape[axis], math.prod(kept.shape)
    step = [step[axis] for step in steps]
    column = [step[-1] for step in kept.steps]
    columns = kept.shape[-1] if 0 < abs(column[0]) < abs(step[0]) else 1
    form = geometry(device.style, rows, columns, n)
    wide = needs_64_bits(Axes((*shape,), tuple(steps))) or needs_64_bits(Axes((rows, max(n, form.lanes)), ()))
    tasks, kernel = rows, _KERNEL
    tail: tuple[int, ...] = (n, rows, form.rows_piece)
    if form.tile > 1:
        tiles = divide_up(columns, form.tile)
        tasks = rows // columns * tiles
        kept = Axes(kept.shape[:-1] or (1,), tuple(step[:-1] or (0,) for step in kept.steps))
        kernel, tail = _COLUMNS, (n, columns, tiles, tasks, form.rows_piece)
    else:
        column = [0] * len(column)
        if form.keep:
            kernel, tail = _REGISTERS, (n, rows)
    bound = _variables(kind, layouts, form, kept, step, column, wide)
    numbers = [*kept.shape, *(s for step in kept.steps for s in step), *step, *column]
    layout = struct.pack(f"{len(numbers)}{'q' if wide else 'i'}", *numbers)
    grid = (divide_up(tasks, form.block // form.lanes * form.rows_piece), 1, 1)
    return kernel.bind(device, **bound).function.prepare(grid, (form.block, 1, 1), 0, (layout, *tail))


def _variables(
    kind: Kind,
    layouts: Sequence[Layout],
    form: Geometry,
    kept: Axes,
    step: Sequence[int],
    column: Sequence[int],
    wide: bool,
) -> dict[str, Any]:
    """The template variables of a kernel."""
    info = dtypes.info(layouts[0].dtype)
    host = layouts[0].on_host
    return {
        "name": f"{kind}_{info.name}_{form.block}",
        **_kind_variables(kind),
        "elem": info.dtype,
        "total": "double" if host else dtypes.info(info.acc).cxx,
        "index": "long long" if wide else "int",
        "arrays": len(layouts) + 1,
        "kept": len(kept.shape),
        "steps": [step_kind(stride) for stride in step],
        "columns": [step_kind(stride) for stride in column],
        # A half type would round values that are stored between two passes over a row.
        "stored": kind == "softmax" and not form.keep and not info.narrow,
        "threads": form.lanes,
        "cluster": 1,
        **form._asdict(),
    }


_plans: Cache[Any, Plan] = Cache()
_DERIVATIVES: dict[Kind, Kind] = {"softmax": "softmax_vjp", "log_softmax": "log_softmax_vjp"}


def _run(kind: Kind, axis: int, *arrays: Array) -> Array:
    layouts = [array._layout or array._planned() for array in arrays]
    key = (kind, axis, *layouts)
    plan = _plans.get(key)
    if plan is None:
        first = layouts[0]
        if not first.size:
            with on(first.device):
                return Array._made(fresh_layout(first.device, first.dtype, first.shape))
        plan = _plan_for(kind, axis, *layouts)
        derivative = _DERIVATIVES.get(kind)
        if derivative is not None and tape.recording(arrays):
            plan.device.backend.ahead(partial(_plan_for, derivative, axis, *plan.layouts, *plan.layouts))
    return plan(*arrays)


def _plan_for(kind: Kind, axis: int, *layouts: Layout) -> Plan:
    """Make and cache a plan."""
    return _plans.keep((kind, axis, *layouts), make_plan(kind, layouts, axis))


# ----- the second derivative, and rows too long for one block, by array functions -----


@fuse(static=("axis",))
def _dot(x: Array, y: Array, axis: int) -> Array:
    # In the accumulator's dtype: a half type would round or overflow.
    return sum(multiply(x, y), axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@fuse(static=("axis",))
def _dot_exp(x: Array, y: Array, axis: int) -> Array:
    return sum(multiply(x, exp(y)), axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@fuse
def _below(x: Array, total: Array) -> Array:
    return subtract(x, total).astype(x.dtype)


@fuse
def _log_share(x: Array, peak: Array, rest: Array) -> Array:
    return subtract(subtract(x, peak), rest).astype(x.dtype)


@fuse
def _share(x: Array, peak: Array, rest: Array) -> Array:
    return exp(subtract(subtract(x, peak), rest)).astype(x.dtype)


@fuse
def _centred(g: Array, y: Array, total: Array) -> Array:
    return multiply(y, subtract(g, total)).astype(y.dtype)


@fuse
def _log_centred(g: Array, y: Array, total: Array) -> Array:
    return subtract(g, multiply(exp(y), total)).astype(y.dtype)


@fuse
def _centred_by_y(h: Array, g: Array, gy: Array, hy: Array) -> Array:
    return subtract(multiply(h, subtract(g, gy)), multiply(g, hy)).astype(g.dtype)


@fuse
def _log_centred_by_y(h: Array, y: Array, total: Array) -> Array:
    return negative(multiply(multiply(h, exp(y)), total)).astype(y.dtype)


def _sum(x: Array, axis: int) -> Array:
    return sum(x, axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


def _is_long(x: Array, axis: int) -> bool:
    """Whether one block per row would leave most of the device idle."""
    n = x.shape[axis]
    return n >= _LONG and x.size // n < 64


def _derived(kind: Kind, g: Array, y: Array, axis: int) -> Array:
    """The cotangent of the argument from that of the result, and the result; recorded."""
    logs = kind == "log_softmax"
    if _is_long(y, axis):
        return _log_centred(g, y, _sum(g, axis)) if logs else _centred(g, y, _dot(g, y, axis))
    result = _run("log_softmax_vjp" if logs else "softmax_vjp", axis, g, y)
    if tape.recording((g, y)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            (h,), (g, y) = cotangents, saved
            if logs:
                return [
                    _below(h, _dot_exp(h, y, axis)) if needs[0] else None,
                    _log_centred_by_y(h, y, _sum(g, axis)) if needs[1] else None,
                ]
            return [
                _derived("softmax", h, y, axis) if needs[0] else None,
                _centred_by_y(h, g, _dot(g, y, axis), _dot(h, y, axis)) if needs[1] else None,
            ]

        tape.record(f"{kind}_vjp", (g, y), (result,), vjp, (g, y))
    return result


def _normalized(kind: Kind, x: Array, axis: int, end: Callable[[Array, Array, Array], Array]) -> Array:
    x = require_array(x, kind)
    axis = normalize_axis(axis, x.ndim, kind)
    if dtypes.info(x.dtype).kind != "f":
        x = astype(x, dtypes.get_default_dtype())
    if x.size and _is_long(x, axis):
        return end(x, *normalizers(x, axis))
    y = _run(kind, axis, x)
    if tape.recording((x,)):
        tape.record(
            kind,
            (x,),
            (y,),
            lambda gradients, saved, _: (_derived(kind, gradients[0], saved[0], axis),),
            (y,),
        )
    return y


@public
def softmax(x: Array, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along an axis; NaN where all elements along the axis are -inf, or one is inf.

    It is one kernel, and so is its derivative; a few rows of a million elements or more take several kernels.

    Args:
        x: any array; integers are computed in the default floating dtype.
        axis: the axis.

    Raises:
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> ck.softmax(ck.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _normalized("softmax", x, axis, _share)


@public
def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """The logarithm of :func:`softmax`, accurate where that is small; arguments and errors as there."""
    return _normalized("log_softmax", x, axis, _log_share)
