"""The launches of layer normalization and of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import empty, zeros
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...kernel import Kernel
from ...kernel.bound import BoundKernel
from ...kernel.plan import Plan, launch, new, on, operands, remember
from ...kernel.sizes import divide_up, index_type
from ...reduction.function import load
from ...shape.known_views import items
from .geometry import Limits, Rows, Shape, backward_rows, forward_shape, gpu_shape, host_shape

_forward = Kernel("nn/layer_norm/forward.cu", name="layer_norm")
_forward_rows = Kernel("nn/layer_norm/forward_rows.cu", name="layer_norm")
_backward = Kernel("nn/layer_norm/backward.cu", name="layer_norm_backward")
_backward_registers = Kernel("nn/layer_norm/backward_registers.cu", name="layer_norm_backward")
_backward_rows = Kernel("nn/layer_norm/backward_rows.cu", name="layer_norm_backward")
_backward_sums = Kernel("nn/layer_norm/backward_sums.cu", name="layer_norm_backward")

#: Rows of partial sums for the gradients of weight and bias on the host.
HOST_SLOTS = 32
#: The most elements on which the host's derivative is run to compile it ahead of need.
_REHEARSED = 1 << 17
#: The fewest turns of a group that sums gradients of weight and bias, if all multiprocessors work.
_ROWS_EACH = 8


def _shape(layouts: Sequence[Layout | None], columns: int, registers: int) -> Shape:
    x = layouts[0]
    assert x is not None
    if x.device.style == "serial":
        return host_shape()
    width = 16 // x.dtype.itemsize if _packed(layouts, columns) else 1
    return gpu_shape(columns, width, registers, x.device.properties.max_blocks_per_cluster)


def _packed(layouts: Sequence[Layout | None], columns: int) -> bool:
    """Whether all rows consist of aligned packs of 16 bytes."""
    return all(one is None or (one.aligned and columns * one.dtype.itemsize % 16 == 0) for one in layouts)


def _limits(device: Device) -> Limits:
    limits = device.properties
    return Limits(limits.max_blocks_per_cluster, limits.max_shared_memory_per_block)


@cache
def _bound(
    kernel: Kernel,
    device: Device,
    elem: dtypes.DType,
    index: str,
    columns: int,
    shape: Shape | Rows,
    **variables: bool,
) -> BoundKernel:
    return kernel.bind(
        device,
        elem=elem,
        index=index,
        half=dtypes.info(elem).narrow,
        exact=shape.threads * shape.chunks * shape.width == columns,
        **shape._asdict(),
        **variables,
    )


def expect_backward(x: Array, columns: int, weighted: bool, centered: bool = True) -> None:
    """Compile the host's derivative for rows of ``x`` ahead of need."""
    rows = min(x.size // columns, HOST_SLOTS)
    if x.device.style == "serial" and rows * columns <= _REHEARSED:
        _rehearse(x.device, x.dtype, rows, columns, weighted, centered)


@cache
def _rehearse(
    device: Device, elem: dtypes.DType, rows: int, columns: int, weighted: bool, centered: bool
) -> None:
    """Have the kernels of a derivative run on a few rows."""

    def run() -> None:
        x = zeros((rows, columns), elem, device)
        weight = zeros((columns,), elem, device) if weighted else None
        statistics = zeros((rows, 2), dtypes.info(elem).acc, device)
        wanted = (True, weighted, weighted and centered)
        launch_backward(x, x, weight, statistics, columns, wanted, centered=centered)

    device.backend.ahead(run)


#: By the arguments of a launch, and the layouts of its arrays.
_plans: dict[tuple[Any, ...], Plan] = {}


def _prepared(bound: BoundKernel, grid: int, made: Sequence[Layout], shared: int = 0) -> Plan:
    """A launch on arrays that are contiguous and aligned as the kernel's shape needs, and what it makes."""
    launch = bound.function.prepare((grid, 1, 1), bound.block, shared, ())
    return Plan(bound.device, made, launch)


def _layout(x: Array | None) -> Any:
    return None if x is None else x._layout or x._planned()


def _dense(x: Array | None) -> Array | None:
    return None if x is None else x.contiguous()


def launch_forward(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    columns: int,
    shape: Shape | None = None,
    centered: bool = True,
) -> tuple[Array, Array]:
    """The normalized ``x`` and its statistics (rows, 2); all arrays have one dtype.

    Rows that are not ``centered`` are divided by the root of their mean square.
    """
    given = x.contiguous(), _dense(weight), _dense(bias)
    key: tuple[Any, ...] = (columns, shape, centered, *map(_layout, given))
    plan = _plans.get(key) or remember(_plans, key, _forward_plan(*key))
    y, statistics = plan.results(given, x.size // columns, columns, eps)
    return y, statistics


def _forward_plan(
    columns: int,
    shape: Shape | None,
    centered: bool,
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
) -> Plan:
    device, rows, given = x.device, x.size // columns, (x, weight, bias)
    if shape is None and device.style != "serial" and _packed(given, columns):
        shape = forward_shape(columns, x.dtype.itemsize, device.properties.max_blocks_per_cluster)
    shape = shape or _shape(given, columns, registers=32)
    variables = {"weighted": weight is not None, "biased": bias is not None, "centered": centered}
    elements = index_type(x.size, 2 * rows)
    if shape.chunks:
        bound = _bound(_forward_rows, device, x.dtype, elements, columns, shape, grouped=False, **variables)
    else:
        bound = _bound(_forward, device, x.dtype, elements, columns, shape, **variables)
    statistics = fresh_layout(device, dtypes.info(x.dtype).acc, (rows, 2))
    grid = divide_up(rows, shape.groups) * shape.cluster
    return _prepared(bound, grid, (fresh_layout(device, x.dtype, x.shape), statistics))


def launch_groups(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    groups: int,
    columns: int,
    inner: int,
    shape: Shape | None = None,
) -> tuple[Array, Array] | None:
    """:func:`launch_forward` of rows that are groups of channels; None where no registers hold a row.

    Args:
        x: contiguous, rows of ``columns`` elements, which take the groups in turn.
        weight, bias: one number per channel of all groups.
        inner: neighbouring elements of a channel.
    """
    if shape is None:
        if x.device.style == "serial" or not _packed((x._planned(),), columns):
            return None
        shape = forward_shape(columns, x.itemsize, x.device.properties.max_blocks_per_cluster)
    if not shape.chunks:
        return None
    rows = x.size // columns
    y = empty(x.shape, x.dtype, x.device)
    statistics = empty((rows, 2), dtypes.info(x.dtype).acc, x.device)
    bound = _bound(
        _forward_rows,
        x.device,
        x.dtype,
        index_type(x.size, 2 * rows),
        columns,
        shape._replace(ahead=False),
        weighted=weight is not None,
        biased=bias is not None,
        centered=True,
        grouped=True,
        even=inner % shape.width == 0,
    )
    values = (x, _dense(weight), _dense(bias), y, statistics, rows, columns, eps, groups, inner)
    launch(
        bound.device, bound.function, divide_up(rows, shape.groups) * shape.cluster, bound.block[0], values
    )
    return y, statistics


def launch_backward(
    x: Array,
    dy: Array,
    weight: Array | None,
    statistics: Array,
    columns: int,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    shape: Shape | Rows | None = None,
    centered: bool = True,
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of x, weight and bias; the last two have shape (columns,), or are None if not needed."""
    given = x.contiguous(), dy.contiguous(), _dense(weight)
    key: tuple[Any, ...] = (columns, wanted, shape, centered, *map(_layout, given))
    plan = _plans.get(key) or remember(_plans, key, _backward_plan(*key))
    with on(x.device):
        dx, *sums = new(plan.layouts)
        parts = _of_each(sums[0], wanted) if sums else ()
        assert plan.launch is not None
        plan.launch(*operands(x.device, (*given, statistics, dx, *parts)), x.size // columns, columns)
    if not any(wanted[1:]):
        return dx, None, None
    acc = sums[0].dtype
    found = _of_each(ops.sum.evaluate(load(acc, acc), sums, (), (1,), False, x.dtype), wanted)
    dweight, dbias = (one if want else None for one, want in zip(found, wanted[1:], strict=True))
    return dx, dweight, dbias


def _of_each(sums: Array, wanted: Sequence[bool]) -> list[Array | None]:
    """What ``sums`` has for the weight and for the bias: for both, or for the one that is wanted."""
    each: list[Array | None] = list(items(sums))
    return each if len(each) == 2 else [each[0] if want else None for want in wanted[1:]]


def _backward_plan(
    columns: int,
    wanted: tuple[bool, bool, bool],
    shape: Shape | Rows | None,
    centered: bool,
    x: Layout,
    dy: Layout,
    weight: Layout | None,
) -> Plan:
    """The launch that makes dx, and the partial sums (gradients, slots, columns) of those of weight and bias."""
    device, rows, acc, given = x.device, x.size // columns, dtypes.info(x.dtype).acc, (x, dy, weight)
    dx, elements = fresh_layout(device, x.dtype, x.shape), index_type(x.size, 2 * rows)
    if shape is None and device.style != "serial" and _packed(given, columns):
        shape = backward_rows(columns, x.dtype.itemsize, _limits(device), any(wanted[1:]), weight is not None)
    if isinstance(shape, Rows):
        kernel, variables = (
            _backward_sums if shape.stages else _backward_rows,
            {"weighted": weight is not None},
        )
        variables |= {"keeps_row": shape.keeps_row, "centered": centered}
        bound = _bound(kernel, device, x.dtype, elements, columns, shape, groups=shape.groups, **variables)
        if not shape.stages:
            return _prepared(bound, divide_up(rows, shape.groups) * shape.cluster, [dx])
        groups = shape.groups * shape.turn
        busy = max(1, device.properties.multiprocessors // shape.cluster)
        teams = divide_up(rows, groups)
        teams = slots = min(teams, shape.resident * busy, max(busy, divide_up(teams, _ROWS_EACH)))
        shared, count = shape.shared, sum(wanted[1:])
    else:
        shape = shape or _shape(given, columns, registers=64 // acc.itemsize)
        most = (
            HOST_SLOTS if device.style == "serial" else 4 * device.properties.multiprocessors // shape.cluster
        )
        teams = min(divide_up(rows, shape.groups), most)
        slots, shared, count = teams * shape.groups, 0, sum(wanted[1:]) if shape.chunks else 2
        kernel, variables = _backward_registers, {"centered": centered}
        if not shape.chunks:
            kernel, variables = _backward, {**variables, "weighted": weight is not None}
        bound = _bound(kernel, device, x.dtype, elements, columns, shape, **variables)
    return _prepared(
        bound, teams * shape.cluster, [dx, fresh_layout(device, acc, (count, slots, columns))], shared
    )
