"""The launches of convolutions, and of the gradients of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.fuse import fuse
from ...elementwise.graph import cast, input_node
from ...elementwise.program import Program, program
from ...kernel.plan import on, one_device, remember
from ...linear.epilogue import of_sum
from .geometry import Task, Windows, forward_axes, place_of, three, turned_axes
from .tiles import launch_of, parts_for


class Call(NamedTuple):
    """A convolution of arrays of given layouts.

    Attributes:
        x: that of the image, or of the output if ``turned``.
        weights: that of the weights.
        windows: how the windows lie.
        size: of the result, along its one to three axes.
        turned: whether the image's gradient is computed, of that of the output.
        last: whether the channels of the result lie innermost in memory.
        made: the program that makes an element of one, rounded, and of operands, which are one number a channel.
    """

    x: Layout
    weights: Layout
    windows: Windows
    size: tuple[int, ...]
    turned: bool
    last: bool
    made: Program | None


class Plan:
    """Launches that write one new array, in turns.

    Attributes:
        out: the layout of the result.
        launches: those that write it.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: dtypes.DType, last: bool) -> None:
        memory = (shape[0], *shape[2:], shape[1]) if last else shape
        self.device, self._dtype, self._parts = device, dtype, 1
        self._axes = (0, len(shape) - 1, *range(1, len(shape) - 1)) if last else None
        self._fresh = self.out = fresh_layout(device, dtype, memory)
        if self._axes is not None:
            strides = tuple(self._fresh.strides[axis] for axis in self._axes)
            self.out = layout(device, dtype, shape, strides, True)
        self.launches: list[Prepared] = []

    def share(self, parts: int) -> None:
        """Have the launches write ``parts`` results behind one another, which are then added up in order."""
        self._parts, memory = parts, self._fresh.shape
        self._fresh = fresh_layout(self.device, dtypes.info(self._dtype).acc, (parts, *memory))

    def __call__(self, *arrays: Array) -> Array:
        """Launch with the arrays' memory and return the result."""
        with on(self.device):
            made = Array._made(self._fresh)
            operands = [one._operand for one in arrays]
            for launch in self.launches:
                launch(*operands, made._operand)
            if self._parts > 1:
                made = _total(made, self._dtype)
            if self._axes is None:
                return made
            return Array._wrap(made._data.transpose(self._axes), self.device, made._storage)


@fuse(static=["dtype"])
def _total(parts: Array, dtype: dtypes.DType) -> Array:
    return ops.sum(parts, 0, dtype=dtype)


_plans: dict[Call | tuple[Any, ...], Plan] = {}


def _of_sum(made: Program | None, dtype: dtypes.DType) -> Program:
    """The program that takes sums as they are, of one that takes them rounded to ``dtype``; by default it rounds them."""
    same = program("convolution", (input_node(0, dtype),), (dtype,))
    found = of_sum(made or same, 0)
    return program(found.name, (cast(found.outputs[0], dtype),), found.inputs)


def convolve(
    x: Array,
    weights: Array,
    operands: Sequence[Array],
    windows: Windows,
    size: tuple[int, ...],
    turned: bool,
    last: bool,
    made: Program | None = None,
) -> Array:
    """The convolution of an image, or if ``turned`` the gradient of a convolution's image: see :class:`Call`."""
    device = one_device("convolution", (x, weights, *operands))
    layouts = [one._layout or one._planned() for one in (x, weights)]
    key = Call(*layouts, windows, size, turned, last, made)
    plan = _plans.get(key)
    if plan is None:
        with on(device):
            plan = remember(_plans, key, _plan(key))
    dense = [one.contiguous() for one in operands]
    for one in dense:
        one._planned()
    return plan(x, weights, *dense)


def _plan(call: Call) -> Plan:
    x, weights, windows = call.x, call.weights, call.windows
    filters, channels = weights.shape[0] // windows.groups, weights.shape[1]
    kernel, size = three(weights.shape[2:], 1), three(call.size, 1)
    strides = place_of(weights).steps
    outputs = channels * windows.groups if call.turned else filters * windows.groups
    plan = Plan(x.device, (x.shape[0], outputs, *call.size), x.dtype, call.last)
    if call.turned:
        strides = (strides[1], strides[0], *strides[2:])
        grids = list(turned_axes(windows, kernel, size))
        filters, channels = channels, filters
    else:
        grids = [forward_axes(windows, kernel, size)]
    group = place_of(weights).steps[0] * weights.shape[0] // windows.groups
    for axes in grids:
        task = Task(
            *(place_of(x), place_of(plan.out), strides, filters, channels, windows.groups, axes, False, group)
        )
        if task.output.elements and task.pixels:
            plan.launches.append(launch_of(task, _of_sum(call.made, x.dtype), x.device, x.dtype, 1))
    return plan


def weights_gradient(
    output: Array, image: Array, windows: Windows, kernel: tuple[int, ...], last: bool
) -> Array:
    """The gradient of the weights of a convolution, of that of the output.

    Args:
        output: the output's gradient, shape (batch, filters, ...).
        image: shape (batch, channels, ...).
        windows: how the windows lie.
        kernel: the sizes of a window.
        last: whether the channels of the result lie innermost in memory.
    """
    device = one_device("convolution", (output, image))
    layouts = [one._layout or one._planned() for one in (output, image)]
    key = (*layouts, windows, kernel, last)
    plan = _plans.get(key)
    if plan is None:
        with on(device):
            plan = remember(_plans, key, _plan_weights(*layouts, windows, kernel, last))
    return plan(output, image)


def _plan_weights(
    output: Layout, image: Layout, windows: Windows, kernel: tuple[int, ...], last: bool
) -> Plan:
    filters, channels = output.shape[1], image.shape[1] // windows.groups
    shape, elem = (filters, channels, *kernel), output.dtype
    size, of_output, of_image = three(kernel, 1), place_of(output), place_of(image)
    plan = Plan(output.device, shape, elem, last)
    axes = forward_axes(windows, size, of_output.size)
    strides = place_of(plan.out).steps
    task = Task(
        *(of_image, of_output, strides, filters // windows.groups, channels, windows.groups, axes, True),
        filters // windows.groups * strides[0],
    )
    parts, made = parts_for(task, elem, output.device), _of_sum(None, elem)
    if parts > 1:
        plan.share(parts)
        acc = dtypes.info(elem).acc
        made = program("convolution_parts", (input_node(0, acc),), (acc,))
    if plan.out.size:
        plan.launches.append(launch_of(task, made, output.device, elem, parts))
    return plan
