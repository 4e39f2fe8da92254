"""What a trace computes again wherever it is read, and what it stores once: the times of both, in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..array.layout import Layout
from ..device import Device
from ..device.interface import Properties
from ..launch.cost import bandwidth, flops, is_host, launch
from .graph import Node, order
from .row import Row

#: By the style of a device, bytes of an array from which parts of it that are computed differently are written by
#: kernels of their own: fewer bytes are moved, by more launches.
MANY_BYTES = {"simt": 1 << 20, "serial": 1 << 16}
#: Bytes of an array of the host up to which what is shifted cyclically is read of a copy with wider borders.
MOST_COPIED = 1 << 20
#: Operations of an expression that is computed at each place where it is read.
_MOST_AGAIN = 32
#: Operations of a statement that calls a function, of those that are not below.
_CALL = 16
#: Operations in whose time an H200 computes a function of floats, by rows: see benchmarks/results/row_costs.md.
_OF_ROWS = {
    name: operations
    for operations, names in (
        (
            1,
            "abs ceil clip copysign elu fabs floor fmax fmin heaviside isfinite isinf isnan leaky_relu maximum",
        ),
        (1, "minimum relu rint round sign signbit trunc"),
        (6, "divide exp exp2 reciprocal root_of_squares softsign sqrt"),
        (12, "atan cbrt tanh"),
        (18, "acos asin cosh erfcinv erfinv expm1 hypot sigmoid silu sinh"),
        (22, "cos erf fmod gelu_tanh log log10 log1p log2 rsqrt sin tan xlogy"),
        (29, "atan2 atanh erfc gelu logaddexp2 logistic_density remainder"),
        (37, "acosh asinh log_sigmoid logaddexp nextafter polygamma softplus spacing"),
        (50, "binary_entropy direction mish sinc"),
        (77, "lgamma phase pow size_to_power"),
        (127, "floor_divide"),
        (259, "digamma"),
    )
    for name in names.split()
}
#: The host's vectors make so many operations in the time of one in plain C++, as functions are.
_VECTOR = 8
#: A GPU's rate counts a multiplication and the addition of its product, one instruction, as two operations.
_FUSED = 2


def in_parts(device: Device, nbytes: int) -> bool:
    """Whether an array of so many bytes is written by parts."""
    return nbytes >= MANY_BYTES[device.style]


def operations(nodes: Sequence[Node]) -> int:
    """About how many operations make an element of some expressions: loads, statements, and more for a function."""
    found = 0
    for node in order(nodes):
        if node.kind in ("input", "view", "picked"):
            found += 1
        elif node.row is not None:
            found += _of_row(node.row)
    return found


def _of_row(row: Row) -> int:
    return _OF_ROWS.get(row.name, _CALL if row.calls else 1)


def shifts_reads(layout: Layout, node: Node, again: bool) -> bool:
    """Whether an expression that is shifted cyclically is one of shifted reads, of copies with wider borders.

    Args:
        layout: that of the array.
        again: whether it has such reads already. If not, and it takes long, it is computed once and written elsewhere.
    """
    small = layout.on_host and 0 < layout.nbytes <= MOST_COPIED
    return small and (again or operations((node,)) <= _MOST_AGAIN)


def _seconds(limits: Properties, nodes: Sequence[Node]) -> float:
    """The time that an element of some expressions takes to compute."""
    if not is_host(limits):
        return operations(nodes) * _FUSED / flops(limits)
    called = sum(_of_row(one.row) for one in order(nodes) if one.row is not None and one.row.calls)
    return (called + (operations(nodes) - called) / _VECTOR) / flops(limits)


def computing(
    device: Device, nodes: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]], size: int
) -> float:
    """The time by which a kernel of ``size`` elements would be faster if computing took none.

    Args:
        shapes: of all nodes.
    """
    limits = device.properties
    if is_host(limits):
        return math.inf  # it does not compute while it waits for memory
    moved = [*nodes, *[node for node in order(nodes) if node.kind in ("input", "view")]]
    moving = sum(math.prod(shapes[node]) * node.dtype.itemsize for node in moved) / bandwidth(limits)
    return math.hypot(size * _seconds(limits, nodes), moving) - moving  # they overlap, but not all


def stores(layout: Layout, node: Node, times: float, most: float = math.inf) -> bool:
    """Whether an expression, each of whose elements is read ``times`` times, is stored before, by a launch more.

    Args:
        layout: that of the array.
        most: the time that what reads it can save.
    """
    limits = layout.device.properties
    again = (times - 1) * layout.size * _seconds(limits, (node,))
    return min(again, most) > 2 * layout.nbytes / bandwidth(limits) + launch(limits)
