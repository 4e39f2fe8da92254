"""Plans of elementwise launches: axes merged, strides computed and a geometry chosen once per layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from .. import dtypes
from ..array import Array
from ..array.batched import innermost, is_logical, level_of
from ..array.deferred import trace, traced_threads
from ..array.layout import Layout, address, axes_in_memory, fresh_layout, layout_of
from ..array.making import Maker, maker
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..device.interface import Style
from ..dtypes import DType
from ..kernel import plan as kernel_plan
from ..kernel.plan import BoundLaunch, on, one_device
from ..kernel.sizes import LARGEST_INDEX, divide_up, power_of_two
from ..kernel.strides import (
    Axes,
    broadcast_shapes,
    broadcast_steps,
    collapse,
    needs_64_bits,
    step_kind,
)
from ..launch.params import layout_params
from .geometry import (
    FEWEST_PATCHED,
    FEWEST_VIEWS,
    HOST_PIECE,
    HOST_TILE,
    HOST_TURNS,
    LEAST_COLUMNS,
    LINES,
    SHORT_LINES,
    Geometry,
    Operand,
    Place,
    Task,
    Work,
    geometry,
    spread,
    tiled,
)
from .graph import Node, order
from .print_cxx import Statement, argument_types, compute_type, statements
from .program import Program
from .row import convert_scalar

#: Elements that the host makes at once by a quick expression, or of which it packs the masks.
_TILE = 128
#: The most elements of a line where the host computes several together; and where it copies each line of an input.
_SHORT_LINE, _SHORT_COPIED = 31, 8
#: The most elements of these lines that are copied to the stack, of all inputs: a host's thread has 512 KB of it.
_STAGED = 16384
#: Functions of which no result is a number where an operand is none, in both parts if it is complex.
_KEEPS_NAN = frozenset(("abs", "add", "multiply", "negative", "square", "subtract"))

#: Where each input of a launch is in an array; empty where that makes no difference.
Places = tuple[Place, ...]


class Plan(kernel_plan.Plan):
    """A launch of a program for arrays of given layouts.

    Attributes:
        program: the program, whose launch takes inputs, numbers and outputs.
        operands: the layouts of the inputs.
        converters: functions that convert each Python number to the dtype in which it is computed.
        backwards: by which inputs are tracked, the backward that a tape records of a call without numbers (None if
            there is no derivative), the inputs and outputs that it reads, and whether it reads all inputs and no
            output, so that a tape can compute the only output again.
        make: a faster launch of the inputs and numbers, which makes the only output too; None if there is none.
    """

    __slots__ = ("backwards", "converters", "make", "operands", "program")

    def __init__(self, program: Program, device: Device, operands: Sequence[Layout]) -> None:
        shape = broadcast_shapes(program.name, [one.shape for one in operands] or [()])
        order = _kept_order(operands, shape)
        super().__init__(device, [fresh_layout(device, node.dtype, shape, order) for node in program.outputs])
        self.program, self.operands = program, tuple(operands)
        self.converters = tuple(map(converter, program.scalars))
        self.make: Maker | None = None
        self.backwards: dict[
            tuple[bool, ...], tuple[tape.Operation | None, tuple[int, ...], tuple[int, ...], bool]
        ] = {}

    def by(self, ready: BoundLaunch) -> Self:
        """See :class:`.kernel.plan.Plan`."""
        made = super().by(ready)
        made.make = None if self.make is None else maker(made.launch, made.layouts[0])
        return made

    @property
    def counts(self) -> tuple[int, ...]:
        """How many arrays there are of each input."""
        return (1,) * (len(self.operands) + len(self.program.tables))

    def into(self, inplace: tuple[int | None, ...]) -> Plan:
        """The plan that writes to arrays that are there, among them inputs: see :func:`plan_into`."""
        own = inplace[: len(self.operands)]
        return plan_into(self.program, self.device, self.operands, self.layouts, own)

    def single(self, x: Array) -> Array:
        """A faster :meth:`run` for one input and one output."""
        if self.launch is None or (self.which is not None and self.which() != self.device.index):
            return self.run((x,))[0]
        result = Array._made(self.layouts[0])
        self.launch(x._operand, result._operand)
        return result

    def pair(self, x: Array, y: Array) -> Array:
        """A faster :meth:`run` for two inputs and one output."""
        if self.launch is None or (self.which is not None and self.which() != self.device.index):
            return self.run((x, y))[0]
        result = Array._made(self.layouts[0])
        self.launch(x._operand, y._operand, result._operand)
        return result

    def beside_number(self, x: Array, number: Any) -> Array:
        """A faster :meth:`run` for one input, one number and one output."""
        if self.launch is None or (self.which is not None and self.which() != self.device.index):
            return self.run((x,), (number,))[0]
        number = self.converters[0](number)
        result = Array._made(self.layouts[0])
        self.launch(x._operand, number, result._operand)
        return result

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """Launch and return the outputs, which are new arrays."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self.run(arrays, scalars)
        make = self.make
        results: list[Array] = []  # loops, because a comprehension is a function call before Python 3.12
        if make is None:
            for layout in self.layouts:
                results.append(Array._made(layout))
        if self.launch is None:
            return results
        values = []
        for one in arrays:
            values.append(one._operand)
        if scalars:
            values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        if make is not None:
            return [make(*values)]
        for one in results:
            values.append(one._operand)
        self.launch(*values)
        return results

    def write(self, inputs: Sequence[Any], scalars: Sequence[Any], outs: Sequence[Any]) -> None:
        """Launch with operands of inputs that are no outputs and of outputs, whose memory the caller keeps."""
        if self.launch is not None:
            numbers = [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
            with on(self.device):
                self.launch(*inputs, *numbers, *outs)


class Mapped(Plan):
    """The plan of a program for examples of a batch, which computes all of them."""

    __slots__ = ()

    def single(self, x: Array) -> Array:
        """See :class:`Plan`."""
        return self.run((x,))[0]

    def pair(self, x: Array, y: Array) -> Array:
        """See :class:`Plan`."""
        return self.run((x, y))[0]

    def beside_number(self, x: Array, number: Any) -> Array:
        """See :class:`Plan`."""
        return self.run((x,), (number,))[0]

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
        """See :class:`Plan`."""
        level, ndim = innermost(arrays), self.layouts[0].ndim
        outs = level.run(lambda: self._of_all([level.value(one, ndim) for one in arrays], scalars))
        return [level.batched(one) for one in outs]

    def _of_all(self, wholes: Sequence[Array], scalars: Sequence[Any]) -> list[Array]:
        outs: list[Array] = FUNCTIONS["evaluate"](self.program, wholes, scalars)
        return outs


def _kept_order(operands: Sequence[Layout], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order in memory of the outputs' axes: that of the first input of their shape; None for C order.

    Inputs that were broadcast have no order.
    """
    for one in operands:
        if one.shape == shape and not one.repeated:
            order = axes_in_memory(shape, one.strides)
            wide = [axis for axis in order if shape[axis] > 1]
            return None if wide == sorted(wide) else order
    return None


def converter(dtype: DType) -> Callable[[Any], Any]:
    """What converts a Python number to the value of a launch for a scalar of ``dtype``."""
    if dtype in (dtypes.float32, dtypes.float64):
        return float
    if dtype in dtypes.COMPLEX:
        return dtypes.info(dtype).as_bytes
    return partial(convert_scalar, dtype=dtype)


def _wide(axes: Axes, shape: Geometry) -> bool:
    """Whether an index, an offset or a thread number may exceed 32 bits."""
    return needs_64_bits(axes) or math.prod(axes.shape[:-1]) * shape.lanes > LARGEST_INDEX


def variables(
    program: Program,
    work: Work,
    inplace: Sequence[int | None],
    stored: Sequence[int] | None = None,
    totals: Sequence[tuple[int, DType]] = (),
    along: bool = False,
) -> dict[str, Any]:
    """The template variables of a program's kernel.

    Args:
        inplace: for each input the number of the output whose memory it is, or None.
        stored: the outputs that are stored; all by default.
        totals: the outputs that are summed, and the dtype in which their sums are stored.
        along: whether they are summed along rows, and ``work`` has their places behind those of what is stored.
    """
    loops = work.kernel in (LINES, SHORT_LINES) and work.block == 1 and work.accesses[-1]["step"] == "unit"
    body, values = statements(program.outputs if loops or totals else list(map(_unrounded, program.outputs)))
    first = (*program.inputs, *(node.dtype for node in program.outputs))[0]
    k = len(program.inputs)
    written = ["" if one is None else f"y{one}" for one in inplace]
    inputs = [
        {"k": i, "type": dtypes.info(d).cxx, "compute": compute_type(d), "inplace": written[i], **pattern}
        for i, (d, pattern) in enumerate(zip(program.inputs, work.accesses, strict=False))
    ]
    kept = range(len(values)) if stored is None else stored
    outputs = [
        {"k": k + i, "type": dtypes.info(program.outputs[j].dtype).cxx, "value": values[j], **pattern}
        for i, (j, pattern) in enumerate(zip(kept, work.accesses[k : k + len(kept)], strict=True))
    ]
    places = work.accesses[k + len(kept) :] if along else [{}] * len(totals)
    sums = [
        {
            "type": dtypes.info(d).cxx,
            "compute": compute_type(program.outputs[j].dtype),
            "value": values[j],
            **place,
        }
        for (j, d), place in zip(totals, places, strict=True)
    ]
    quick = loops and _is_quick(program, body)
    masks = loops and _is_masks(program, body)
    alike = {*program.inputs, *(node.dtype for node in program.outputs)}
    vectors = (
        quick and len(body) == len(alike) == 1 and alike.issubset(dtypes.COMPLEX) and not program.scalars
    )
    return {
        "name": f"{program.name}{'_sum' if totals else ''}_{dtypes.info(first).name}_{work.block}",
        "inputs": inputs,
        "outputs": outputs,
        "totals": sums,
        "along": along,
        "scalars": argument_types(program),
        "body": body,
        "tile": _TILE if stored is None and (quick or masks) and not any(written) else 0,
        "masks": masks,
        "vectors": vectors and all(pattern["step"] == "unit" for pattern in work.accesses),
        **work.variables,
        "Layout": "" if work.layout is None else work.layout.source(work.variables),
    }


def _unrounded(node: Node) -> Node:
    """What is stored for a node: a store to a half type rounds what it is the cast of."""
    row = dtypes.info(node.dtype)
    return node.args[0] if node.kind == "cast" and row.narrow and node.args[0].dtype == row.acc else node


def _is_quick(program: Program, body: Sequence[Statement]) -> bool:
    """Whether the host makes many elements of a program at once, by quick expressions whose NaNs reach its result."""
    quick = [line for line in body if line.quick]
    if len(program.outputs) != 1 or len({line.type for line in quick}) != 1:
        return False
    rows = [node.row.name for node in order(program.outputs) if node.row is not None]
    return quick == [*body[-1:]] or _KEEPS_NAN.issuperset(rows)


def _is_masks(program: Program, body: Sequence[Statement]) -> bool:
    """Whether a program is one condition on numbers of 32 bits, whose results the host packs to bytes."""
    return (
        len(program.outputs) == len(body) == 1
        and program.outputs[0].dtype == dtypes.bool_
        and {dtype.itemsize for dtype in program.inputs} == {4}
    )


def row_axes(operands: Sequence[Any], shape: tuple[int, ...]) -> Axes:
    """The axes of ``shape``, all but the last merged where they can be, and the strides along them."""
    steps = [broadcast_steps(one, shape) for one in operands]
    outer = collapse(shape[:-1], [one[:-1] for one in steps], steps[-1][:-1])
    along = [(*merged, one[-1]) for merged, one in zip(outer.steps, steps, strict=True)]
    return Axes((*outer.shape, shape[-1]), tuple(along))


def _axes(datas: Sequence[Any], outs: Sequence[Layout], shape: tuple[int, ...], rows: bool = False) -> Axes:
    """The merged axes of ``shape`` and the strides of inputs and outputs along them.

    Args:
        rows: whether inputs may be views of one array that are shifted by whole rows, which stay apart then.
    """
    in_rows = rows and len(shape) > 1 and shape[-1] >= LEAST_COLUMNS
    if in_rows and all(one.strides[-1] == one.dtype.itemsize for one in outs):
        return row_axes((*datas, *outs), shape)
    steps = [broadcast_steps(data, shape) for data in (*datas, *outs)]
    axes = collapse(shape, steps, steps[-1])
    return axes if axes.shape else Axes((1,), ((1,),) * len(steps))


def _lines(axes: Axes, style: Style) -> Work:
    """The launch by plain loops, for the host and for long programs."""
    outer, columns = axes.shape[:-1], axes.shape[-1]
    rows = math.prod(outer)
    shape = geometry(style, rows, columns)
    wide = _wide(axes, shape)
    patterns = [{"step": step_kind(step[-1])} for step in axes.steps]
    bound: dict[str, Any] = {"block": shape.block, "lanes": shape.lanes, "outer": len(outer)}
    pieces, groups = divide_up(columns, shape.piece), shape.block // shape.lanes
    grid = (divide_up(pieces, groups), 1, 1)
    tail: tuple[Any, ...] = (columns, shape.piece)
    if outer:
        grid, tail = (divide_up(rows, groups * shape.rows_piece), pieces, 1), (rows, shape.rows_piece, *tail)
    walked = None
    if outer or any(pattern["step"] == "any" for pattern in patterns):
        steps = axes.steps
        walked = layout_params(
            shape=outer, stride=[one[:-1] for one in steps], step=[one[-1] for one in steps]
        )
    bound["index"] = "long long" if wide else "int"
    outers = [one[:-1] for one in axes.steps]
    bound["offset_of"] = [outers.index(one) for one in outers]
    return Work(LINES, bound, patterns, grid, shape.block, walked, tail)


def _short_lines(program: Program, axes: Axes) -> Work | None:
    """The launch by a host's loops over several short lines; None where lines are long or few, or do not gain by it."""
    if len(axes.shape) != 2 or math.prod(axes.shape) < HOST_PIECE:
        return None
    (lines, length), count = axes.shape, len(program.inputs)
    inputs, outputs, dense = axes.steps[:count], axes.steps[count:], (length, 1)
    is_copied = any(one != dense and all(one) for one in inputs)
    if not 1 < length <= (_SHORT_COPIED if is_copied else _SHORT_LINE):
        return None
    if any(one != dense for one in outputs) or any(one in dtypes.COMPLEX for one in program.inputs):
        return None
    together = power_of_two(2 * _TILE // length)
    patterns = [
        {"step": step_kind(one[1]), "staged": "" if one == dense else "each" if one[0] else "once"}
        for one in axes.steps
    ]
    if sum(bool(one["staged"]) for one in patterns[: len(inputs)]) * together * length > _STAGED:
        return None
    piece = divide_up(HOST_PIECE // length, together) * together
    index = "long long" if needs_64_bits(axes) else "int"
    bound = {"block": 1, "length": length, "together": together, "index": index}
    walked = layout_params(stride=[one[0] for one in axes.steps], step=[one[1] for one in axes.steps])
    return Work(SHORT_LINES, bound, patterns, (divide_up(lines, piece), 1, 1), 1, walked, (lines, piece))


def _style(device: Device) -> Style:
    return device.style


def places(wholes: Sequence[Array], views: Sequence[Array]) -> Places:
    """Where the inputs of a launch are in the arrays of which they are views, or which they are."""
    if len(views) < FEWEST_VIEWS or _style(views[0].device) == "serial":
        return ()
    ids = [id(one) for one in wholes]
    views_of_one = max([ids.count(one) for one in set(ids)])
    if views_of_one < FEWEST_VIEWS or max([one.size for one in views]) < FEWEST_PATCHED:
        return ()
    return tuple(
        [
            Place(
                ids.index(id(whole)),
                _address(one) - _address(whole),
                (whole._layout or whole._planned()).aligned,
            )
            for whole, one in zip(wholes, views, strict=True)
        ]
    )


def _address(x: Array) -> int:
    if x._layout is None:
        x._planned()
    return address(x._data) if x.device.addressable else int(x._operand)


def _work(program: Program, device: Device, axes: Axes, aligned: Sequence[bool], placed: Places = ()) -> Work:
    """How the threads of a launch share the elements."""
    dtype_of = [*program.inputs, *(node.dtype for node in program.outputs)]
    known = (*placed, *[None] * (len(dtype_of) - len(placed)))
    operands = tuple(
        Operand(dtype.itemsize, steps, one, place)
        for dtype, steps, one, place in zip(dtype_of, axes.steps, aligned, known, strict=True)
    )
    length = len(statements(program.outputs)[0])
    task = Task(axes.shape, operands, len(program.inputs), length, needs_64_bits(axes))
    if _style(device) != "serial":
        return spread(task) or _lines(axes, "simt")
    transposed = tiled(task, HOST_TILE) if task.size >= HOST_TURNS else None
    return transposed or _short_lines(program, axes) or _lines(axes, "serial")


def source(program: Program, device: Device, datas: Sequence[Any], placed: Places = ()) -> str:
    """The text of the kernel that runs ``program`` on such ndarrays; empty if there are no elements."""
    operands = [layout_of(device, data) for data in datas]
    return source_of(program, device, operands, Plan(program, device, operands).layouts, placed)


def source_of(
    program: Program,
    device: Device,
    operands: Sequence[Layout],
    outs: Sequence[Layout],
    placed: Places = (),
) -> str:
    """:func:`source` for arrays of these layouts, and such results."""
    shape = outs[0].shape
    if 0 in shape:
        return ""
    axes = _axes(operands, outs, shape, bool(placed))
    work = _work(program, device, axes, _aligned([*operands, *outs]), placed)
    return work.kernel.source(device=device, **variables(program, work, [None] * len(operands)))


def _aligned(layouts: Sequence[Layout]) -> list[bool]:
    return [one.aligned for one in layouts]


def make_plan(
    program: Program,
    device: Device,
    operands: Sequence[Layout],
    outs: Sequence[Layout] = (),
    inplace: Sequence[int | None] = (),
    placed: Places = (),
) -> Plan:
    """Choose and compile the launch of ``program`` for arrays of given layouts.

    Args:
        operands: the inputs' layouts, on ``device``.
        outs: the layouts of existing outputs, of one shape; without them outputs are new, in the memory order of an
            input.
        inplace: see :func:`variables`; no input is an output by default.
        placed: see :func:`places`.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if is_logical(operands):
        return Mapped(program, device, operands)
    plan = Plan(program, device, operands)
    shape = plan.layouts[0].shape
    if outs:
        if broadcast_shapes(program.name, [shape, outs[0].shape]) != outs[0].shape:
            raise ValueError(
                f"{program.name}: a result of shape {shape} does not fit an array of shape {outs[0].shape}"
            )
        shape, plan.layouts = outs[0].shape, tuple(outs)
    if 0 not in shape:
        known = placed if inplace.count(None) == len(inplace) else ()
        axes = _axes(operands, plan.layouts, shape, bool(known))
        work = _work(program, device, axes, _aligned([*operands, *plan.layouts]), known)
        plan.prepared(_ready(device, work, variables(program, work, inplace or [None] * len(operands))))
        if not outs and len(plan.layouts) == 1:
            plan.make = maker(plan.launch, plan.layouts[0])
    return plan


def _ready(device: Device, work: Work, bound: dict[str, Any]) -> BoundLaunch:
    """The compiled launch."""
    with on(device):
        walked = () if work.layout is None else (work.layout.packed(work.variables),)
        return BoundLaunch(work.kernel.bind(device, **bound), work.grid, work.block, (*walked, *work.tail))


_plans: Cache[Any, Plan] = Cache()


def planned(program: Program, arrays: Sequence[Array], placed: Places = ()) -> Plan:
    """The plan of ``program`` for the layouts of ``arrays``, and where they are, see :func:`places`.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: their shapes do not broadcast.
    """
    if traced_threads and (active := trace()) is not None and level_of(arrays) is None:
        waiting: Plan = active.plan(program, arrays)
        return waiting
    layouts = []
    for one in arrays:
        layouts.append(one._layout or one._planned())
    plan = _plans.get((program, *layouts, *placed))
    if plan is None:
        plan = plan_for(program, one_device(program.name, arrays), layouts, placed)
    return plan


def plan_for(program: Program, device: Device, layouts: Sequence[Layout], placed: Places = ()) -> Plan:
    """Make and cache the plan of ``program`` for these layouts; raises as :func:`make_plan`."""
    return _plans.keep(
        (program, *layouts, *placed),
        make_plan(program, device, layouts, placed=placed),
    )


def run_into(
    program: Program,
    device: Device,
    datas: Sequence[Any],
    scalars: Sequence[Any],
    outs: Sequence[Any],
    placed: Places = (),
) -> None:
    """Launch ``program`` on ndarrays of ``device`` and write its outputs to ``outs``.

    Args:
        outs: one of ``datas``, or ndarrays of one shape that share no memory with any.
        placed: see :func:`places`.
    """
    layouts = [layout_of(device, data) for data in (*datas, *outs)]
    same = [0 if data is outs[0] else None for data in datas]
    operand = device.backend.operand
    inputs = [operand(data) for data in datas if data is not outs[0]]
    launch_into(program, device, layouts, same, inputs, scalars, [operand(out) for out in outs], placed)


def launch_into(
    program: Program,
    device: Device,
    layouts: Sequence[Layout],
    same: Sequence[int | None],
    inputs: Sequence[Any],
    scalars: Sequence[Any],
    outs: Sequence[Any],
    placed: Places = (),
) -> None:
    """:func:`run_into` for arrays of these layouts, the last those of the outputs, given by operands.

    Args:
        same: 0 for each input that is the output, None for others.
        inputs: the operands of the others.
        outs: those of the outputs.
    """
    given, made = layouts[: len(same)], layouts[len(same) :]
    plan_into(program, device, given, made, same, placed).write(inputs, scalars, outs)


def plan_into(
    program: Program,
    device: Device,
    operands: Sequence[Layout],
    outs: Sequence[Layout],
    inplace: Sequence[int | None],
    placed: Places = (),
) -> Plan:
    """The plan of a launch that writes to arrays that are there, see :func:`make_plan`."""
    key = (program, *operands, *outs, *inplace, *placed)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.keep(key, make_plan(program, device, operands, outs, inplace, placed))
    return plan
