"""The launches of convolutions, and of the gradients of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import ALIGNMENT, Layout, address, fresh_layout, layout
from ...device import Device
from ...device.interface import Prepared
from ...device.precision import get_matmul_precision
from ...elementwise.graph import cast, input_node
from ...elementwise.program import Program, program
from ...kernel.plan import on, one_device, remember
from ...kernel.sizes import divide_up
from ...linear.epilogue import of_sum
from . import (
    depthwise,
    depthwise_column_weights,
    depthwise_plane_weights,
    depthwise_planes,
    depthwise_ring,
    depthwise_ring_weights,
    depthwise_weights,
    direct,
    exact,
    few,
    few_channels,
    grids,
    halves,
    pointwise,
    shifted,
    shifted_weights,
    strided,
    tensor,
    tiles,
    winograd,
)
from .epilogue import added
from .geometry import Task, Windows, forward_axes, place_of, three, turned_axes
from .tensor import Arranged, arranged, last_layout, takes


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
        precision: how floats are multiplied.
    """

    x: Layout
    weights: Layout
    windows: Windows
    size: tuple[int, ...]
    turned: bool
    last: bool
    made: Program | None
    precision: str


class Mapped(Protocol):
    """A launch, or several, for arrays and the array that they write."""

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch."""


class Plan:
    """Launches that write one new array, in turns.

    Attributes:
        out: the layout of what is written, without copies after that.
        launches: those that write it, of the arrays that ``arrange`` gives.
        arrange: for each array, how it has to lie.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: dtypes.DType, last: bool) -> None:
        memory = (shape[0], *shape[2:], shape[1]) if last else shape
        self.device, self._dtype, self._parts = device, dtype, 1
        self._axes = (0, len(shape) - 1, *range(1, len(shape) - 1)) if last else None
        self._fresh = fresh_layout(device, dtype, memory)
        self.out = last_layout(device, dtype, shape) if last else self._fresh
        self.launches: list[Prepared] = []
        #: Those that take the arrays themselves.
        self.mapped: list[Mapped] = []
        self.arrange: tuple[Arranged | exact.Ordered, ...] = ()
        #: The channels of the result, and whether it is to be copied to C order.
        self._wanted: tuple[tuple[int, int] | None, bool] = (None, False)

    def share(self, parts: int) -> None:
        """Have the launches write ``parts`` results behind one another, which are then added up in order."""
        self._parts, memory = parts, self._fresh.shape
        if parts > 1:
            self._fresh = fresh_layout(self.device, dtypes.info(self._dtype).acc, (parts, *memory))

    def then(self, sizes: tuple[int, int], ordered: bool) -> None:
        """Have the result cut to so many elements along its first two axes, and copied to C order if ``ordered``."""
        self._wanted = (None if sizes == self.out.shape[:2] else sizes), ordered

    def __call__(self, *arrays: Array) -> Array:
        """Launch with the arrays' memory and return the result."""
        with on(self.device):
            if self.arrange:
                given = zip(self.arrange, arrays, strict=False)
                arrays = (*(arrange(one) for arrange, one in given), *arrays[len(self.arrange) :])
            made = Array._made(self._fresh)
            operands = [one._operand for one in arrays]
            for launch in self.launches:
                launch(*operands, made._operand)
            for mapped in self.mapped:
                mapped(arrays, made)
            if self._parts > 1:
                made = added(made, self._dtype)
            if self._axes is not None:
                made = Array._wrap(made._data.transpose(self._axes), self.device, made._storage)
            sizes, ordered = self._wanted
            if sizes is not None:
                made = made[: sizes[0], : sizes[1]]
            return made.contiguous() if ordered else made


_plans: dict[Call | tuple[Any, ...], Plan] = {}


def _layout_of(x: Array) -> Layout:
    """The layout of an array, of which plans ask on the host too whether its memory is aligned."""
    own = x._layout or x._planned()
    if not own.on_host or address(x._data) % ALIGNMENT == 0:
        return own
    return layout(own.device, own.dtype, own.shape, own.strides, False)


def _of_sum(made: Program | None, dtype: dtypes.DType) -> Program:
    """The program of sums, of one that takes them rounded to ``dtype``; by default it rounds them."""
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
    made_shape = (x.shape[0], 1, *size)
    if halves.are_needed(*((made_shape, x.shape) if turned else (x.shape, made_shape)), turned):

        def of_half(part: Array, own: Windows, its_size: tuple[int, ...]) -> Array:
            return convolve(part, weights, operands, own, its_size, turned, last, made)

        return halves.convolution(x, windows, weights.shape[2:], size, turned, last, of_half)
    if pointwise.takes(windows, weights.shape[2:], x.shape[2:], size):
        return pointwise.convolve(x, weights, operands, turned, last, made)
    if turned and made is None and grids.takes(x, weights, windows):
        return _of_grids(x, weights, windows, size, last)
    image, filters = (_layout_of(one) for one in (x, weights))
    key = Call(image, filters, windows, size, turned, last, made, get_matmul_precision())
    plan = _plans.get(key)
    if plan is None:
        with on(device):
            plan = remember(_plans, key, _plan(key))
    dense = [one.contiguous() for one in operands]
    for one in dense:
        one._planned()
    return plan(x, weights, *dense)


def _of_grids(x: Array, weights: Array, windows: Windows, size: tuple[int, ...], last: bool) -> Array:
    """The gradient of an image of few channels: see grids.py."""
    filters, sides = grids.arranged(weights, windows)
    of_grid = tuple(divide_up(n, step) for n, step in zip(size, windows.stride, strict=True))
    by_one = Windows((1, 1), tuple(side.padding for side in sides), (1, 1))
    made = convolve(x, filters, (), by_one, of_grid, False, True)
    return grids.placed(made, windows.stride, weights.shape[1], size, last)


class _Ways(NamedTuple):
    """By which kernels a convolution may be computed.

    Attributes:
        by_threads: threads sum up outputs of a few channels by themselves.
        by_rows: they walk down rows.
        of_few: they sum up few filters.
        of_channels: blocks sum up few channels.
        on_tensor_cores: of products.
        width: channels of a thread.
    """

    by_threads: bool
    by_rows: bool
    of_few: bool
    of_channels: bool
    on_tensor_cores: bool
    width: int


def _ways(call: Call, filters: int, channels: int) -> _Ways:
    """The same for so many filters and channels of a group of the weights."""
    x, kernel, groups = call.x, call.weights.shape[2:], call.windows.groups
    by_threads = direct.takes(groups, filters, channels, kernel)
    stride = call.windows.stride if call.turned else (1,) * len(kernel)
    of_task = (channels, filters) if call.turned else (filters, channels)
    of_few = not by_threads and few.takes(x, *of_task, kernel, stride)
    of_channels = not (by_threads or of_few or call.turned) and few_channels.takes(
        x.dtype, x.device, call.windows, filters, channels, kernel
    )
    by_themselves = by_threads or of_few or of_channels
    on_tensor_cores = not by_themselves and takes(x.dtype, x.device, groups, filters, channels)
    by_rows = depthwise.takes(groups, filters, channels, call.windows, kernel)
    width = direct.width_for(x, filters, channels, call.last) if by_threads and not by_rows else 1
    return _Ways(by_threads, by_rows, of_few, of_channels, on_tensor_cores, width)


def _plan(call: Call) -> Plan:
    x, weights, windows, turned = call.x, call.weights, call.windows, call.turned
    groups, device = windows.groups, x.device
    filters, channels = weights.shape[0] // groups, weights.shape[1]
    ways = _ways(call, filters, channels)
    of_task = (channels, filters) if turned else (filters, channels)
    shape = (x.shape[0], of_task[0] * groups, *call.size)
    plan = Plan(device, shape, x.dtype, call.last or ways.on_tensor_cores)
    transformed = winograd.task_of(x, weights, plan.out, windows, turned)
    if transformed is not None and winograd.takes(transformed, x.dtype, device):
        plan.mapped.append(winograd.Convolution(transformed, _of_sum(call.made, x.dtype), device, x))
        return plan
    if ways.on_tensor_cores:
        plan.arrange = arranged(x), arranged(weights, turned)
        plan.then((shape[0], shape[1]), not call.last)
    elif ways.width > 1:
        plan.arrange = arranged(x), arranged(weights, True)
    elif not (ways.by_threads or ways.of_few or ways.of_channels) and exact.takes(
        x.dtype, device, groups, *of_task
    ):
        plan.arrange = Arranged(x, False), exact.ordered(weights, turned)
    if plan.arrange:
        x, weights = (one.layout for one in plan.arrange)
    strides = place_of(weights).steps
    if turned and not (ways.on_tensor_cores or ways.width > 1):
        strides = (strides[1], strides[0], *strides[2:])
    channels, filters = x.shape[1] // groups, of_task[0]
    group = strides[1] * channels if turned or ways.width > 1 else strides[0] * filters
    kernel, size = three(weights.shape[2:], 1), three(call.size, 1)
    of_grids = list(turned_axes(windows, kernel, size)) if turned else [forward_axes(windows, kernel, size)]
    made = _of_sum(call.made, x.dtype)

    def tasks_of(out: Layout) -> list[Task]:
        places = place_of(x), place_of(out)
        tasks = [Task(*places, strides, filters, channels, groups, axes, False, group) for axes in of_grids]
        return [task for task in tasks if task.output.elements and task.pixels]

    if ways.on_tensor_cores and not call.last and len(of_grids) == 1:  # pixels may lie innermost at once
        ordered = Plan(device, shape, x.dtype, False)
        ordered.arrange, tasks = plan.arrange, tasks_of(ordered.out)
        if tasks and not _add_mapped(ordered, tasks, made, (x, weights)):
            return ordered
    tasks = tasks_of(plan.out)
    for task in _add_mapped(plan, tasks, made, (x, weights)) if ways.on_tensor_cores else tasks:
        _add_launch(plan, task, made, x, ways)
    return plan


def _add_mapped(
    plan: Plan, tasks: Sequence[Task], made: Program, arrays: tuple[Layout, Layout]
) -> list[Task]:
    """Add the launches of tensor cores to which maps lead; returns the tasks of all grids that have none.

    Args:
        plan: of the launches.
        tasks: of each grid.
        made: makes an element of a sum, and of operands.
        arrays: image and weights, as they are arranged.
    """
    device, (x, weights) = plan.device, arrays
    own = made, device, (*arrays, plan.out), device.properties.multiprocessors
    for task in tasks:
        task.check()
    given = x.dtype, device, place_of(weights).steps
    at_once = strided.form_for(tasks, *given) if tasks else None
    if at_once is not None:
        plan.mapped.append(strided.Launch(tasks, at_once, *own))
        return []
    forms = [(task, shifted.form_for(task, *given)) for task in tasks]
    plan.mapped += [shifted.Launch(task, form, *own) for task, form in forms if form is not None]
    return [task for task, form in forms if form is None]


def _add_launch(plan: Plan, task: Task, made: Program, x: Layout, ways: _Ways) -> None:
    """Add the launch of a grid of an image of a layout."""
    task.check()
    given = made, plan.device, x.dtype
    ring = depthwise_ring.form_for(task, x, plan.device) if ways.by_rows else None
    if ring is not None:
        plan.mapped.append(depthwise_ring.Launch(task, ring, made, plan.device, x))
        return
    planes = depthwise_planes.form_for(task, x, plan.device) if ways.by_rows else None
    walk = depthwise.form_for(task, x, plan.out, plan.device) if ways.by_rows else None
    if planes is not None:
        plan.launches.append(depthwise_planes.launch_of(task, *given, planes))
    elif walk is not None:
        plan.launches.append(depthwise.launch_of(task, *given, walk))
    elif ways.by_threads:
        plan.launches.append(direct.launch_of(task, *given, ways.width))
    elif ways.of_few:
        plan.launches.append(few.launch_of(task, *given))
    elif ways.of_channels:
        plan.launches.append(few_channels.launch_of(task, *given))
    else:
        plan.launches.append(_product(plan, task, made, x))


def _product(plan: Plan, task: Task, made: Program, x: Layout) -> Prepared:
    """The launch of a product of an image of a layout."""
    if any(isinstance(one, exact.Ordered) for one in plan.arrange):
        copies = exact.form_for(task, (x.aligned, True))
        if copies is not None:
            return exact.launch_of(task, copies, made, plan.device, 1)
        return tiles.launch_of(task, made, plan.device, x.dtype, 1)
    form: Any = tensor if plan.arrange else tiles
    launch: Prepared = form.launch_of(task, made, plan.device, x.dtype, 1)
    return launch


def weights_gradient(
    output: Array,
    image: Array,
    windows: Windows,
    kernel: tuple[int, ...],
    last: bool,
    wanted: dtypes.DType | None = None,
) -> Array:
    """The gradient of the weights of a convolution, of that of the output.

    Args:
        output: the output's gradient, shape (batch, filters, ...).
        image: shape (batch, channels, ...).
        windows: how the windows lie.
        kernel: the sizes of a window.
        last: whether the channels of the result lie innermost in memory.
        wanted: the dtype of the result, that of the arrays or of their sums; by default the first.
    """
    device = one_device("convolution", (output, image))
    wanted = wanted or output.dtype
    if halves.are_needed(image.shape, output.shape, False):

        def of_half(outputs: Array, images: Array, own: Windows) -> Array:
            return weights_gradient(outputs, images, own, kernel, last, dtypes.info(output.dtype).acc)

        return ops.astype(halves.weights(output, image, windows, kernel, of_half), wanted)
    by_pixels = wanted == output.dtype and pointwise.takes(windows, kernel, image.shape[2:], output.shape[2:])
    if by_pixels and place_of(image._planned()).last and place_of(output._planned()).last:
        return pointwise.weights_gradient(output, image)
    of_output, of_image = (_layout_of(one) for one in (output, image))
    if by_pixels and pointwise.has_batches(of_output, of_image):
        return pointwise.weights_gradient_of_batches(output, image)
    key = (of_output, of_image, windows, kernel, last, wanted, get_matmul_precision())
    plan = _plans.get(key)
    if plan is None:
        with on(device):
            plan = remember(_plans, key, _plan_weights(of_output, of_image, windows, kernel, last, wanted))
    return plan(output, image)


def _plan_weights(
    output: Layout,
    image: Layout,
    windows: Windows,
    kernel: tuple[int, ...],
    last: bool,
    wanted: dtypes.DType,
) -> Plan:
    groups, elem, device = windows.groups, output.dtype, output.device
    sizes = output.shape[1], image.shape[1] // groups
    by_threads = direct.takes(groups, sizes[0] // groups, sizes[1], kernel)
    on_tensor_cores = not by_threads and takes(elem, device, groups, sizes[0] // groups, sizes[1])
    arrange: tuple[Arranged, ...] = ()
    if on_tensor_cores:
        arrange = arranged(output), arranged(image)
        output, image = (one.layout for one in arrange)
    filters, channels, own = output.shape[1], image.shape[1] // groups, output.shape[1] // groups
    axes = forward_axes(windows, three(kernel, 1), place_of(output).size)
    places = place_of(image), place_of(output)

    def task_of(out: Layout) -> Task:
        to = place_of(out).steps
        return Task(*places, to, own, channels, groups, axes, True, own * to[0])

    plan = Plan(device, (filters, channels, *kernel), wanted, last)
    if winograd.takes(task_of(plan.out), elem, device):
        transforms = winograd.Weights(task_of(plan.out), device, output, image)
        plan.share(transforms.shares)
        plan.mapped.append(transforms)
        return plan
    is_exact = not (by_threads or on_tensor_cores) and exact.takes_weights(elem, device, own, channels)
    plan = Plan(device, (filters, channels, *kernel), wanted, last or on_tensor_cores or is_exact)
    plan.arrange = arrange
    plan.then(sizes, (on_tensor_cores or is_exact) and not last)
    task = task_of(plan.out)
    if not plan.out.size:
        return plan
    task.check()
    if by_threads:
        by_rows = depthwise.takes(groups, own, channels, windows, kernel)
        _weights_by_threads(plan, task, by_rows, output, image)
        return plan
    _weights_by_products(plan, task, on_tensor_cores, is_exact, (output, image))
    return plan


def _weights_by_products(
    plan: Plan, task: Task, on_tensor_cores: bool, is_exact: bool, arrays: tuple[Layout, Layout]
) -> None:
    """Add the launch of a gradient of weights, of output and image, that is a product."""
    device, elem, (output, image) = plan.device, arrays[0].dtype, arrays
    acc, made = dtypes.info(elem).acc, _of_sum(None, elem)
    form: Any = tensor if on_tensor_cores else tiles
    shift = shifted_weights.form_for(task, elem, device) if on_tensor_cores else None
    copies = exact.form_for(task, (image.aligned, output.aligned)) if is_exact else None
    cluster = 1
    if copies is not None:
        parts = exact.parts_for(task, device)
    elif shift is None:
        parts = form.parts_for(task, elem, device)
    else:
        parts = shifted_weights.parts_of(task, shift, device.properties.multiprocessors)
        cluster = shifted_weights.cluster_of(task, shift, parts, device)
    if parts > cluster:
        plan.share(parts // cluster)
    if parts > cluster or plan.out.dtype != elem:
        made = program("convolution_parts", (input_node(0, acc),), (acc,))
    if copies is not None:
        plan.launches.append(exact.launch_of(task, copies, made, device, parts))
    elif shift is None:
        plan.launches.append(form.launch_of(task, made, device, elem, parts))
    else:
        plan.mapped.append(shifted_weights.Launch(task, shift, made, device, arrays, parts, cluster))


def _weights_by_threads(plan: Plan, task: Task, by_rows: bool, output: Layout, image: Layout) -> None:
    """Add the launch of a gradient of weights that threads sum up by themselves, down rows if they can."""
    device, elem, acc = plan.device, output.dtype, dtypes.info(output.dtype).acc
    ring = depthwise_ring_weights.form_for(task, image, output, device) if by_rows else None
    if ring is not None:
        plan.share(ring.parts(task))
        out = acc if ring.parts(task) > 1 else plan.out.dtype
        plan.mapped.append(depthwise_ring_weights.Launch(task, ring, out, device, output, image))
        return
    kinds = depthwise_weights, depthwise_plane_weights, depthwise_column_weights
    for kind in kinds if by_rows else ():
        walk = kind.form_for(task, image, output, device)
        if walk is None:
            continue
        if walk.parts(task) > 1:
            plan.share(walk.parts(task))
        out = acc if walk.parts(task) > 1 else plan.out.dtype
        plan.launches.append(kind.launch_of(task, out, device, elem, walk))
        return
    widths = (
        direct.width_for(one, task.filters, task.channels, place.last)
        for one, place in ((output, task.output), (image, task.image))
    )
    share = direct.share_of(task, device, min(widths))
    if share.parts > 1:
        plan.share(share.parts)
    out = acc if share.parts > 1 else plan.out.dtype
    plan.launches.append(direct.launch_of_weights(task, out, device, elem, share))
