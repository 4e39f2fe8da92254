"""Data moved by kernels: copied and cast to parts of other arrays, shifted, extended beyond the ends of axes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..device import Device
from ..dtypes import DType
from ..elementwise.geometry import geometry
from ..elementwise.graph import cast, input_node
from ..elementwise.plan import run_into
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel.plan import Plan, allocate, on, remember
from ..kernel.sizes import LARGEST_INDEX
from ..kernel.strides import Axes, needs_64_bits

_REMAP = Kernel("shape/remap.cu", block=256)


@cache
def _copy(source: DType, target: DType) -> Program:
    return program("astype", (cast(input_node(0, source), target),), (source,))


def write(device: Device, target: Any, source: Any) -> None:
    """Copy the ndarray ``source``, cast, to ``target``, a part of the same shape of an array, in one launch."""
    run_into(_copy(source.dtype, target.dtype), device, (source,), (), target)


class _Axis(NamedTuple):
    """An axis of the kernel: its size in the result and in the array, the places before, the array's step."""

    shape: int
    size: int
    before: int
    step: int

    @property
    def same(self) -> bool:
        return self.shape == self.size and not self.before


def _collapsed(data: Any, shape: Sequence[int], before: Sequence[int], beyond: str) -> list[_Axis]:
    """As few axes as do: an unchanged axis joins the one outside of it that steps over the whole of it."""
    axes: list[_Axis] = []
    for m, n, stride, start in zip(shape, data.shape, data.strides, before, strict=True):
        axis = _Axis(m, n, start, stride // data.itemsize)
        if axis.same and n == 1:
            continue
        if axes and axis.same and (axes[-1].same or beyond in ("wrap", "constant")):
            outer = axes[-1]
            if outer.step == axis.step * n:
                axes[-1] = _Axis(outer.shape * n, outer.size * n, outer.before * n, axis.step)
                continue
        axes.append(axis)
    return axes or [_Axis(1, 1, 0, 1)]


def _make_plan(device: Device, data: Any, axes: Sequence[_Axis], beyond: str) -> Plan:
    shape = [axis.shape for axis in axes]
    rows, columns, outer = math.prod(shape[:-1]), shape[-1], len(axes) - 1
    # Columns lie along blockIdx.y beside outer axes: then one row is spread as several are.
    spread = geometry(device.style, max(rows, 2) if outer else 1, columns)
    spans = Axes(tuple(axis.size for axis in axes), (tuple(axis.step for axis in axes),))
    wide = needs_64_bits(spans) or max(rows * spread.lanes, 2 * rows * columns) > LARGEST_INDEX
    bits = dtypes.info(data.dtype).bits
    bound = _REMAP.bind(
        device,
        elem=bits,
        block=spread.block,
        index="long long" if wide else "int",
        lanes=spread.lanes,
        beyond=beyond,
        outer=outer,
        unit=axes[-1].step == 1,
        name=f"remap_{beyond}_{bits.name}_{spread.block}",
    )
    numbers = [number for numbers in zip(*axes, strict=True) for number in numbers]
    layout = struct.pack(f"{len(numbers)}{'q' if wide else 'i'}", *numbers)
    groups, pieces = spread.block // spread.lanes, -(-columns // spread.piece)
    grid = (-(-rows // (groups * spread.rows_piece)), pieces, 1) if outer else (-(-pieces // groups), 1, 1)
    tail = (layout, rows, spread.rows_piece, spread.piece)
    return Plan(device, (), bound.function.prepare(grid, (spread.block, 1, 1), 0, tail))


_plans: dict[Any, Plan] = {}


def remap(
    device: Device,
    data: Any,
    shape: Sequence[int],
    before: Sequence[int],
    beyond: str,
    ends: tuple[Any, Any] = (0, 0),
) -> Any:
    """A new ndarray of ``shape`` with the elements of ``data`` from the place ``before`` on, in one launch.

    Args:
        device: where ``data`` is.
        data: an ndarray of any strides.
        shape: the sizes of the result's axes.
        before: for each axis, how many places of the result stand before the first of ``data``; at least 0.
        beyond: what stands outside of ``data``: ``"constant"``, ``"edge"``, ``"wrap"``, ``"reflect"`` or
            ``"symmetric"``; beyond an axis of size 0 only constants can.
        ends: the constants in front of ``data`` and behind it; the same where several axes change.
    """
    made = allocate(device, tuple(shape), data.dtype)
    if not made.size:
        return made
    key = (device, data.itemsize, data.shape, data.strides, tuple(shape), tuple(before), beyond)
    plan = _plans.get(key)
    with on(device):
        if plan is None:
            axes = _collapsed(data, shape, before, beyond)
            plan = remember(_plans, key, _make_plan(device, data, axes, beyond))
        values = [_as_bits(value, data.dtype) for value in ends] if beyond == "constant" else (0, 0)
        operand = device.backend.operand
        assert plan.launch is not None
        plan.launch(operand(data), operand(made), *values)
    return made


def _as_bits(value: Any, dtype: DType) -> int:
    """The bits of a number of a dtype, as an integer.

    Raises:
        OverflowError: the dtype does not hold an integer.
    """
    with np.errstate(over="ignore"):
        return int(np.asarray(value, dtype).view(dtypes.info(dtype).bits))
