"""Plans of reductions: the compiled launches for operands of one layout, generated from a row of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout, layout_of
from ..cache import Cache
from ..device import Device
from ..device.interface import Prepared, Style
from ..dtypes import DType
from ..elementwise.plan import converter
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program
from ..kernel import plan as kernel_plan
from ..kernel.by_numpy import ByNumPy, by_numpy
from ..kernel.plan import on, one_device
from ..kernel.strides import Axes, broadcast_shapes, broadcast_steps, collapse, needs_64_bits
from .geometry import PARTS, Source, Task, Work, joined, on_gpu, serial

#: The fewest values that NumPy reduces.
_NUMPY_VALUES = 1 << 16
#: The fewest values per result that NumPy reduces.
_NUMPY_COUNT = 512
#: The same where the result is an index.
_NUMPY_SEARCH_COUNT = 128
#: Values from which on several threads are faster than NumPy's one.
_THREADED_VALUES = 1 << 21


@dataclass(frozen=True, eq=False)
class Reduction:
    """How a reduction combines values: C++ expressions over a state.

    ``T`` is the type of values, ``A`` of the accumulator, ``State`` of the state, ``Place`` of indices.

    Attributes:
        name: the public name.
        push: the state ``a`` updated with the value ``x`` at index ``i``.
        combine: the states ``a`` and ``b`` combined.
        identity: the state of no values.
        finish: the result, from the state ``a`` of ``n`` values, and the parameter ``p`` if there is one.
        state: the type of the state.
        wide: whether float32 accumulates in float64, and integers modulo 2**64.
        parameter: whether there is a parameter ``p``.
        ordered: whether the indices of values matter.
        empty: whether the reduction of no values has a result.
        batch: the state ``a`` updated with the values of the array ``v``, whose indices are ``i``, ``i + step``
            and so on; by default each value is pushed to a separate state.
        custom: whether it is a user's, whose C++ may call all that elementwise expressions may.
    """

    name: str
    push: str
    combine: str
    identity: str
    finish: str = "a"
    state: str = "A"
    wide: bool = False
    parameter: bool = False
    ordered: bool = False
    empty: bool = True
    batch: str = ""
    custom: bool = False


class Plan(kernel_plan.Plan):
    """The launches of a reduction for arrays of one layout.

    Attributes:
        shape: the shape of the values.
        kept: that shape with size 1 for the reduced axes.
        count: values per result.
        direct: NumPy's function on the host, where it is taken, with the axis and whether it stays.
        prepare: compiles the launch, which waits for a call that ``direct`` does not take.
        parts: the memory for the states of pieces, if there are several.
        final: the kernel that combines them.
        converters: functions that convert each Python number to the dtype in which it is computed.
        parameter: whether the result takes a parameter.
        program: the program that computes the values.
        operands: the inputs' layouts.
        axes: the reduced axes.
        pulls: the derivatives of calls without numbers, by the inputs that are tracked.
        rendered: the template and variables of each kernel.
    """

    __slots__ = (
        "axes",
        "converters",
        "count",
        "direct",
        "final",
        "kept",
        "operands",
        "parameter",
        "parts",
        "prepare",
        "program",
        "pulls",
        "rendered",
        "shape",
    )

    def __init__(
        self,
        reduction: Reduction,
        program: Program,
        operands: Sequence[Layout],
        axes: frozenset[int],
        keepdims: bool,
        result: DType,
    ) -> None:
        self.shape = shape = broadcast_shapes(program.name, [operand.shape for operand in operands])
        self.kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        self.count = math.prod(shape[i] for i in axes)
        left = self.kept if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)
        super().__init__(operands[0].device, [fresh_layout(operands[0].device, result, left)])
        self.program, self.operands, self.parameter = program, tuple(operands), reduction.parameter
        self.converters = tuple(map(converter, program.scalars))
        self.parts: Layout | None = None
        self.final: Prepared | None = None
        self.direct: tuple[ByNumPy, int | None, bool] | None = None
        self.prepare: Callable[[], None] | None = None
        self.axes = tuple(sorted(axes))
        self.pulls: dict[tuple[bool, ...], Any] = {}
        self.rendered: list[tuple[Any, dict[str, Any]]] = []

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any], parameter: float = 0.0) -> Array:
        """Launch and return the result, a new array."""
        if self.which is not None and self.which() != self.device.index:
            with self.device.activate():
                return self.run(arrays, scalars, parameter)
        result = Array._made(self.layouts[0])
        if self.direct is not None:
            compute, axis, keepdims = self.direct
            if compute(self.device, arrays[0]._data, result._data, axis, keepdims):
                return result
            if self.prepare is not None:
                self.prepare()
        if self.launch is None:
            return result
        values: list[Any] = [array._operand for array in arrays]
        if scalars:
            values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        end = (parameter, result._operand) if self.parameter else (result._operand,)
        if self.parts is None:
            self.launch(*values, *end)
        else:
            parts = Array._made(self.parts)
            self.launch(*values, parts._operand)
            assert self.final is not None
            self.final(parts._operand, *end)
        return result


def accumulator(reduction: Reduction, value: DType) -> str:
    """The C++ type of the accumulator for values of a dtype."""
    if reduction.wide:
        kind = dtypes.info(value).kind
        if kind in "iu":
            return "unsigned long long"
        if value == dtypes.float32:
            return "double"
        if value == dtypes.complex64:
            return "complex<double>"
    return compute_type(value)


_BYTES = {
    "bool": 1,
    "float": 4,
    "double": 8,
    "unsigned long long": 8,
    "complex<float>": 8,
    "complex<double>": 16,
}


def _state_bytes(reduction: Reduction, value: DType, wide: bool) -> int:
    """The bytes of a state."""
    sum_of = accumulator(reduction, value)
    number = _BYTES.get(sum_of, value.itemsize)
    index = 8 if wide else max(4, value.itemsize)
    sizes = {"T": value.itemsize, "int": 4, "Moments<A>": 3 * number, "LogSum<A>": 2 * number}
    if value in dtypes.NARROW:
        sizes["T"], index = 4, max(4, index)
    sizes["Indexed<T, Place>"] = 2 * max(index, sizes["T"])
    return sizes.get(reduction.state, number)


def _style(device: Device) -> Style:
    return device.style


def _task(
    reduction: Reduction,
    program: Program,
    operands: Sequence[Layout],
    shape: tuple[int, ...],
    axes: frozenset[int],
) -> Task:
    """The reduction with adjacent axes merged, so that kernels walk as few as possible."""
    steps = [broadcast_steps(operand, shape) for operand in operands]
    kept_axes, over_axes = [i for i in range(len(shape)) if i not in axes], sorted(axes)
    kept = collapse([shape[i] for i in kept_axes], [tuple(step[i] for i in kept_axes) for step in steps])
    over_steps = [tuple(step[i] for i in over_axes) for step in steps]
    if any(shape[i] == 0 for i in over_axes):
        # With strides of 0 the kernel would read an element, but there is none.
        over = Axes((0,), ((1,),) * len(operands))
    else:
        by = None if reduction.ordered else over_steps[0]
        over = collapse([shape[i] for i in over_axes], over_steps, by)
    if not over.shape:
        over = Axes((1,), ((0,),) * len(operands))
    size, inner = math.prod(over.shape), over.shape[-1]
    reach = [abs(step[-1]) * inner for step in over.steps]
    reach += [abs(step[-1]) * kept.shape[-1] for step in kept.steps if step]
    flat = Axes((math.prod(kept.shape), max(size, 1024)), ())
    wide = any(needs_64_bits(axes) for axes in (flat, kept, over))
    wide = wide or max(reach) > 2**30
    value = program.outputs[0].dtype
    sources = tuple(
        Source(operand.dtype.itemsize, kept_steps, reduced[:-1], reduced[-1], operand.aligned)
        for operand, kept_steps, reduced in zip(operands, kept.steps, over.steps, strict=True)
    )
    return Task(
        kept.shape,
        over.shape[:-1],
        inner,
        sources,
        len(statements(program.outputs)[0]),
        max(4, value.itemsize),
        _state_bytes(reduction, value, wide),
        bool(reduction.batch),
        reduction.ordered,
        wide,
    )


def make_plan(
    reduction: Reduction,
    program: Program,
    operands: Sequence[Layout],
    axes: frozenset[int],
    keepdims: bool,
    result: DType,
) -> Plan:
    """The plan of ``reduction`` over ``axes`` of ``program``'s value."""
    plan = Plan(reduction, program, operands, axes, keepdims, result)
    device, shape = plan.device, plan.shape
    if 0 in plan.layouts[0].shape:
        return plan
    on_host = _style(device) == "serial"
    prepare = partial(_launches, plan, reduction, _task(reduction, program, operands, shape, axes), result)
    if on_host and device.addressable and _is_for_numpy(plan, reduction):
        axis = plan.axes[0] if len(plan.axes) == 1 else None
        plan.direct, plan.prepare = (_BY_NUMPY[reduction.name][0], axis, keepdims), prepare
    else:
        prepare()
    return plan


def _launches(plan: Plan, reduction: Reduction, task: Task, result: DType) -> None:
    """Choose and compile the launches of a plan."""
    device, program, on_host = plan.device, plan.program, _style(plan.device) == "serial"
    work = serial(task, device.properties.multiprocessors) if on_host else on_gpu(task)
    bound = _variables(reduction, program, result, work)
    tail = (work.layout, plan.count, *work.tail)
    plan.launch = _prepare(plan, work, bound, tail)
    if work.pieces > 1:
        bytes_of_parts = task.rows * work.pieces * task.state
        plan.parts = fresh_layout(device, dtypes.uint8, (bytes_of_parts,))
        block, lanes, blocks = joined(task.rows, work.pieces, on_host)
        final = {**bound, "name": bound["name"] + "_final", "stage": "final", "block": block, "lanes": lanes}
        final["state_bytes"] = task.state
        last = Work(PARTS, {}, (blocks, 1, 1), block, b"", ())
        plan.final = _prepare(plan, last, final, (plan.count, task.rows, work.pieces))
    plan.prepare = None


def _is_for_numpy(plan: Plan, reduction: Reduction) -> bool:
    """Whether one operand in C order is reduced, along its last axis or all of them, by what NumPy does faster."""
    size, (operand, *others), program = math.prod(plan.shape), plan.operands, plan.program
    if reduction.custom or program.name != "load" or others or not operand.contiguous:
        return False
    least = _NUMPY_SEARCH_COUNT if reduction.ordered else _NUMPY_COUNT
    if (
        operand.dtype not in _BY_NUMPY.get(reduction.name, (None, ()))[1]
        or size < _NUMPY_VALUES
        or plan.count < least
    ):
        return False
    if reduction.name.startswith("nanarg") and plan.count != size:
        return False
    one_core, last_axis = plan.device.properties.multiprocessors == 1, len(plan.shape) - 1
    return (one_core or size < _THREADED_VALUES) and (plan.count == size or plan.axes == (last_axis,))


def _reducing(ufunc: Any) -> Callable[..., None]:
    def compute(data: Any, to: Any, axis: int | None, keepdims: bool) -> None:
        ufunc.reduce(data, axis, None, to, keepdims)

    return compute


def _searching(search: Callable[..., Any], best: np.ufunc | None = None) -> Callable[..., None]:
    """The first index of the best number; with ``best``, of all that are not NaN, and -1 of NaN alone."""

    def compute(data: Any, to: Any, axis: int | None, keepdims: bool) -> None:
        if best is None:
            search(data, axis, to, keepdims=keepdims)
            return
        data = data.reshape(-1)
        index = int(search(data))
        if data[index] != data[index]:  # NaN, which is the best
            value = best.reduce(data)
            index = int((data == value).argmax()) if value == value else -1
        to.fill(index)

    return compute


_FLOATS = frozenset((dtypes.float32, dtypes.float64))
_ARGMAX, _ARGMIN = np.ndarray.argmax, np.ndarray.argmin
#: What NumPy reduces, with the dtypes for which it has vector instructions.
_BY_NUMPY: dict[str, tuple[ByNumPy, frozenset[DType]]] = {
    name: (by_numpy(name, warns=True, why=why)(compute), known)
    for why, known, functions in (
        ("it stops early", frozenset((dtypes.bool_, dtypes.int8, dtypes.uint8)),
         {"all": _reducing(np.logical_and), "any": _reducing(np.logical_or)}),
        ("it takes fewer instructions", _FLOATS.union((dtypes.bool_, *dtypes.INTS)),
         {"max": _reducing(np.maximum), "min": _reducing(np.minimum),
          "argmax": _searching(_ARGMAX), "argmin": _searching(_ARGMIN)}),
        ("it takes fewer instructions", _FLOATS,
         {"nanmax": _reducing(np.fmax), "nanmin": _reducing(np.fmin),
          "nanargmax": _searching(_ARGMAX, np.fmax), "nanargmin": _searching(_ARGMIN, np.fmin)}),
    )
    for name, compute in functions.items()
}  # fmt: skip


def _prepare(plan: Plan, work: Work, bound: dict[str, Any], tail: Sequence[Any]) -> Prepared:
    """The compiled launch."""
    plan.rendered.append((work.kernel, bound))
    with on(plan.device):
        function = work.kernel.bind(plan.device, **bound).function
        return function.prepare(work.grid, (work.block, 1, 1), 0, tail)


def _variables(reduction: Reduction, program: Program, result: DType, work: Work) -> dict[str, Any]:
    """The template variables of a reduction's kernel."""
    body, (value,) = statements(program.outputs)
    dtype = program.outputs[0].dtype
    name = reduction.name if program.name in ("load", reduction.name) else f"{reduction.name}_{program.name}"
    inputs = [
        {"k": k, "type": dtypes.info(d).cxx, "compute": compute_type(d), **strides}
        for k, (d, strides) in enumerate(zip(program.inputs, work.variables["strides"], strict=True))
    ]
    return {
        **work.variables,
        "name": f"{name}_{dtypes.info(program.inputs[0]).name}_{work.block}",
        "stage": "single" if work.pieces == 1 else "partial",
        "inputs": inputs,
        "scalars": [compute_type(d) for d in program.scalars],
        "body": body,
        "value": value,
        "value_type": compute_type(dtype),
        "accumulator": accumulator(reduction, dtype),
        "result": dtypes.info(result).cxx,
        "reduction": reduction,
        "half": all(d in dtypes.NARROW for d in program.inputs),
    }


_plans: Cache[Any, Plan] = Cache()


def cached(*key: Any) -> Plan | None:
    """The plan that :func:`keep` stored under a key, or None."""
    return _plans.get(key)


def keep(plan: Plan, *key: Any) -> None:
    """Store a plan under a key that is cheaper to make than that of :func:`planned`."""
    _plans.keep(key, plan)


def source(
    reduction: Reduction,
    program: Program,
    device: Device,
    datas: Sequence[Any],
    reduced: frozenset[int],
    result: DType,
) -> str:
    """The text of the one or two kernels that a plan launches."""
    operands = [layout_of(device, data) for data in datas]
    plan = make_plan(reduction, program, operands, reduced, False, result)
    if plan.prepare is not None:
        plan.prepare()
    return "\n".join(kernel.source(**bound) for kernel, bound in plan.rendered)


def planned(
    reduction: Reduction,
    program: Program,
    arrays: Sequence[Array],
    axes: tuple[int, ...],
    keepdims: bool,
    result: DType,
) -> Plan:
    """The plan of ``reduction`` over ``axes`` of ``program``'s value for the layouts of ``arrays``.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: their shapes do not broadcast.
    """
    layouts = [array._layout or array._planned() for array in arrays]
    key = (reduction, program, axes, keepdims, result, *layouts)
    plan = _plans.get(key)
    if plan is None:
        one_device(reduction.name, arrays)
        plan = make_plan(reduction, program, layouts, frozenset(axes), keepdims, result)
        _plans.keep(key, plan)
    return plan
