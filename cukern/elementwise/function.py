"""Elementwise functions of arrays: evaluate and record a row of the table, or any program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.batched import is_logical, level_of
from ..array.creation import asarray
from ..array.deferred import about_to_write, trace, traced_threads
from ..array.operators import CALLS, FUNCTIONS
from ..autodiff import recompute, tape
from ..cache import Cache
from ..kernel.plan import serial
from ..kernel.strides import broadcast_shapes
from . import summed
from .graph import COMPARISONS, SYMBOLS, Expr, Node, call, cast, input_node, scalar_node, substitute, symbolic
from .operands import first_array, public, require_array
from .plan import Places, Plan, plan_for, planned, run_into
from .program import Derivative, Program, onto, program
from .row import Scalar, is_scalar
from .summed import Totals, totals_of
from .ufunc import Casting, Ufunc, can_cast, written

ArrayLike = Array | npt.NDArray[Any] | np.generic | bool | int | float | complex


def evaluate(
    forward: Program, arrays: Sequence[Array], scalars: Sequence[Scalar] = (), placed: Places = ()
) -> list[Array]:
    """The outputs of a program on arrays of one device, recorded if a tape tracks an input.

    Args:
        placed: where the arrays are, see :func:`.plan.places`.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: their shapes do not broadcast.
    """
    plan = planned(forward, arrays, placed)
    outs = plan.run(arrays, scalars)
    tracking = tape.tracked(arrays) if tape.opened else None
    if tracking is not None:
        _record(plan, arrays, scalars, outs, tracking)
    return outs


FUNCTIONS["evaluate"] = evaluate


def _launched(plan: Plan, arrays: Sequence[Array], scalars: Sequence[Scalar]) -> list[Array]:
    outs = plan.run(arrays, scalars)
    tracking = tape.tracked(arrays) if tape.opened else None
    if tracking is not None:
        _record(plan, arrays, scalars, outs, tracking)
    return outs


def note(
    forward: Program,
    arrays: Sequence[Array],
    scalars: Sequence[Scalar],
    outs: Sequence[Array],
    known: Plan | None = None,
) -> Plan | None:
    """Record what another kernel has computed as the outputs of a program of arrays.

    Args:
        known: what this function has returned for the same program and layouts.
    """
    tracking = tape.tracked(arrays) if tape.opened else None
    if tracking is None:
        return known
    if tracking[2][0].recompute:  # the tape may launch it
        _record(planned(forward, arrays), arrays, scalars, outs, tracking)
        return known
    plan = known or Plan(forward, arrays[0].device, [one._layout or one._planned() for one in arrays])
    _record(plan, arrays, scalars, outs, tracking)
    return plan


def _record(
    plan: Plan,
    arrays: Sequence[Array],
    scalars: Sequence[Scalar],
    outs: Sequence[Array],
    tracking: tape.Tracking,
) -> None:
    needs, keys, tapes = tracking
    if len(arrays) == 2 and arrays[0] is arrays[1]:
        arrays, keys, needs = arrays[:1], keys[:1], _TWICE
    cached = plan.backwards.get(needs)
    if cached is None:
        shape = outs[0].shape
        forward = _of_one(plan.program) if needs is _TWICE else plan.program
        backward = forward.backward(needs[: len(arrays)], tuple([array.shape != shape for array in arrays]))
        operation = None
        if any(backward.results):
            forms = plan.operands[: len(arrays)]
            mapped = is_logical(forms)
            totals = None if mapped else totals_of(backward, forms, shape)
            pull = partial(pulled, backward, totals)
            adds = backward.program is not None and totals is None and not mapped
            push = None if mapped else partial(pushed, forward, needs[: len(arrays)], backward)
            operation = tape.Operation(plan.program.name, forms, plan.layouts, pull, adds=adds, jvp=push)
            if backward.program is not None and not (traced_threads or mapped):
                _expect(plan, backward, backward.program)
        inputs, outputs = backward.saved("input"), backward.saved("output")
        repeats = needs is not _TWICE and not outputs and len(outs) == 1 and len(set(inputs)) == len(arrays)
        cached = plan.backwards[needs] = (operation, inputs, outputs, repeats)
    operation, inputs, outputs, repeats = cached
    if operation is None:
        return
    saved = []
    for k in inputs:
        saved.append(arrays[k])
    for k in outputs:
        saved.append(outs[k])
    tape.record_tracked(operation, keys, outs, saved, tapes, (scalars,) if scalars else ())
    if repeats and tapes[0].recompute:
        recompute.note(operation.name, partial(_again, plan, scalars), arrays, outs[0], tapes)


def _again(plan: Plan, scalars: Sequence[Scalar], *arrays: Array) -> Array:
    return plan.run(arrays, scalars)[0]


def _expect(plan: Plan, backward: Derivative, derivative: Program) -> None:
    """Compile ahead of need a derivative that will soon be launched, for cotangents in C order."""
    layouts = [plan.operands[k] if kind == "input" else plan.layouts[k] for kind, k in backward.sources]
    plan.device.backend.ahead(partial(plan_for, derivative, plan.device, layouts))


#: The key in ``Plan.backwards`` if one tracked array is both operands and gets one cotangent.
_TWICE = (True, True, True)


def _of_one(both: Program) -> Program:
    """A program of two arrays as the program of one array that is both."""
    first, second = (input_node(k, dtype) for k, dtype in enumerate(both.inputs))
    return program(both.name, substitute(both.outputs, {second: first}), both.inputs[:1], both.scalars)


def pulled(
    backward: Derivative,
    totals: Totals | None,
    cotangents: Sequence[Array],
    saved: Sequence[Array],
    needs: Sequence[bool] | None,
    scalars: Sequence[Scalar] = (),
    before: dict[int, Array] | None = None,
) -> list[Array | None]:
    """The inputs' cotangents, computed by at most one kernel.

    Args:
        needs: which of them are needed; only read where there are ``totals``.
        totals: the cotangents that are sums, which the kernel may make too; else they are left to be summed.
        before: cotangents of inputs that were there before. The kernel adds to them, and they are taken out.
    """
    added: list[Array] = []
    if before and (which := _sums(backward, before, cotangents[0])):
        backward = onto(backward, which)
        added = [before.pop(i) for i in which]
    gradients: Sequence[Array] | dict[int, Array] = ()
    sums: dict[int, Array] = {}
    if backward.program is not None:
        kept, inputs = iter(saved), []  # loops, because a comprehension is a function call before Python 3.12
        for kind, k in backward.sources:
            inputs.append(cotangents[k] if kind == "cotangent" else next(kept))
        inputs += added
        numbers = [scalars[k] for k in backward.scalars] if scalars else ()
        both = None
        summing = totals and needs and all(needs[one.result] for one in totals.sums)
        if totals and summing and not traced_threads and not tape.recording(inputs):
            both = summed.evaluate(backward, totals, inputs, numbers)
        gradients, sums = (evaluate(backward.program, inputs, numbers), {}) if both is None else both
    cotangents_of: list[Array | None] = []
    for i, result in enumerate(backward.results):
        if result is None or i in sums:
            cotangents_of.append(sums.get(i))
        else:
            cotangents_of.append((cotangents if result[0] == "cotangent" else gradients)[result[1]])
    return cotangents_of


def pushed(
    forward: Program,
    needs: tuple[bool, ...],
    backward: Derivative,
    tangents: Sequence[Array | None],
    saved: Sequence[Array],
    scalars: Sequence[Scalar] = (),
) -> list[Array | None]:
    """The outputs' tangents, computed by at most one kernel.

    Args:
        forward: the program that was recorded.
        needs, backward: for which of its inputs, and the derivative that reads ``saved``.
    """
    ahead = forward.ahead(needs, tuple([one is not None for one in tangents]))
    made: Sequence[Array] = ()
    if ahead.program is not None:
        read = dict(zip([one for one in backward.sources if one[0] != "cotangent"], saved, strict=True))
        inputs: list[Any] = [tangents[one[1]] if one[0] == "tangent" else read[one] for one in ahead.sources]
        made = evaluate(ahead.program, inputs, [scalars[k] for k in ahead.scalars] if scalars else ())
    return [
        None if one is None else tangents[one[1]] if one[0] == "tangent" else made[one[1]]
        for one in ahead.results
    ]


#: Elements from which a kernel of the host adds to a cotangent: for fewer, compiling another one takes longer.
_MANY_ON_HOST = 1 << 18


def _sums(backward: Derivative, before: dict[int, Array], g: Array) -> tuple[int, ...]:
    """The inputs whose cotangents a kernel adds to those before."""
    if serial(g.device) and g.size < _MANY_ON_HOST:
        return ()
    made = backward.results
    return tuple(
        [
            i
            for i, one in before.items()
            if one.shape == g.shape
            and (at := made[i]) is not None
            and at[0] == "output"
            and made.count(at) == 1
        ]
    )


#: (row, default dtype, dtype or Python type of each operand) -> program
_programs: Cache[tuple[Any, ...], Program] = Cache()
_SCALARS = (float, int, bool, complex)


class _ByDefault(NamedTuple):
    """The second item of a quick call for a plan that depends on the default dtype: that dtype and the flags."""

    dtype: dtypes.DType
    which: tuple[bool, ...] | None


#: Layout or Python type of each operand, or what both of two share -> plan, and flags of the operands that are arrays,
#: or None if all are.
_Quick: TypeAlias = "Cache[Any, tuple[Plan, tuple[bool, ...] | _ByDefault | None]]"


def _shared(key: list[Any]) -> Any:
    """The key of a quick call: one object where that says all, as a dict finds it sooner than a tuple."""
    return key[0] if len(key) == 1 or (len(key) == 2 and key[0] is key[1]) else tuple(key)


class Elementwise(Ufunc):
    """A row of the table as a function of arrays."""

    def __init__(
        self, *args: Any, defaults: tuple[Scalar, ...] = (), public: bool = True, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.defaults = defaults
        self.quick: _Quick = Cache()
        if public:
            FUNCTIONS[self.name] = self
            CALLS[self.name] = self.__call__  # type: ignore[operator]

    def apply(self, operands: tuple[Any, ...]) -> Any:
        """Apply the function to arrays, numbers, or the symbols of a fused function."""
        if self.defaults and len(operands) < len(self.operands):
            operands += self.defaults[len(operands) - len(self.operands) :]
        if traced_threads and trace() is not None:
            return self._apply(operands)
        key: list[Any] = []
        for one in operands:
            key.append(one._layout or one._planned() if isinstance(one, Array) else type(one))
        quick = self.quick.get(_shared(key))
        if quick is None:
            return self._apply(operands)
        plan, which = quick
        if which is None:
            outs = plan.run(operands)
            tracking = tape.tracked(operands) if tape.opened else None
            if tracking is not None:
                _record(plan, operands, (), outs, tracking)
            return outs[0]
        if isinstance(which, _ByDefault):
            if which.dtype is not dtypes.get_default_dtype():
                return self._apply(operands)
            if which.which is None:
                return _launched(plan, operands, ())[0]
            which = which.which
        arrays: list[Array] = []
        scalars: list[Scalar] = []
        for one, is_array in zip(operands, which, strict=True):
            if is_array:
                arrays.append(one)
            else:
                scalars.append(one)
        try:
            return _launched(plan, arrays, scalars)[0]
        except OverflowError:
            return self._apply(operands)

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        """:meth:`apply` for operands whose plan is not cached."""
        row, simpler = self._simplified(operands)
        if row is not self:
            return row(*simpler)
        kinds: list[Any] = []
        arrays: list[Array] = []
        scalars: list[Scalar] = []
        for operand in operands:
            if isinstance(operand, Array):
                arrays.append(operand)
                kinds.append(operand.dtype)
            elif type(operand) in _SCALARS:
                scalars.append(operand)
                kinds.append(type(operand))
            else:
                return self._apply_other(operands)
        if not arrays:
            return self.apply((asarray(operands[0]), *operands[1:]))
        forward = self._program(tuple(kinds))
        plan = planned(forward, arrays)
        if self._is_repeated(operands) and not traced_threads:
            layouts = [one._layout if isinstance(one, Array) else type(one) for one in operands]
            which: Any = tuple(isinstance(one, Array) for one in operands) if scalars else None
            if _of_default(forward):
                which = _ByDefault(dtypes.get_default_dtype(), which)
            self.quick.keep(_shared(layouts), (plan, which))
        try:
            return _launched(plan, arrays, scalars)[0]
        except OverflowError:
            if self.name in COMPARISONS:
                return self._beyond(operands)
            raise

    def apply_to(self, operands: tuple[Any, ...], out: Array, casting: Casting = "same_kind") -> Array:
        """:meth:`apply` with the result in ``out``: by the kernel that computes it, where memory and tapes allow it."""
        row, simpler = self._simplified(operands)
        if row.launched_to(simpler, out, casting):
            return out
        result: Array = self.apply(operands)
        return written(self.name, result, out, casting, broadcast=True)

    def launched_to(self, operands: Sequence[Any], out: Array, casting: Casting) -> bool:
        """Launch the kernel of :meth:`apply` with ``out`` as its output.

        Returns False, with nothing written, if a tape has to know of it, ``out`` shares memory with an operand in
        another layout, or the result cannot be written to ``out``.
        """
        arrays = [one for one in operands if isinstance(one, Array)]
        scalars = [one for one in operands if not isinstance(one, Array)]
        if not arrays or len(operands) != len(self.operands) or not {*map(type, scalars)}.issubset(_SCALARS):
            return False
        if any(one.device is not out.device for one in arrays) or tape.recording((out, *arrays)):
            return False
        if level_of((out, *arrays)) is not None:
            return False
        if out._planned().repeated or out._storage.constant or not _fits(arrays, out.shape):
            return False
        forward = self._program(tuple([o.dtype if isinstance(o, Array) else type(o) for o in operands]))
        result = forward.outputs[0].dtype
        if not can_cast(result, out.dtype, casting) or (
            result in dtypes.COMPLEX and out.dtype not in dtypes.COMPLEX
        ):
            return False
        if result != out.dtype:
            outputs = (cast(forward.outputs[0], out.dtype),)
            forward = program(self.name, outputs, forward.inputs, forward.scalars)
        about_to_write(out)
        datas = [out._data if _same(one, out) else one._data for one in arrays]
        shared = out.device.xp.may_share_memory
        if any(data is not out._data and shared(data, out._data) for data in datas):
            return False
        try:
            run_into(forward, out.device, datas, scalars, (out._data,))
        except OverflowError:  # of a Python integer, before the launch
            return False
        out._bump(self.name)
        return True

    def _operands(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        arrays = as_operands(self.name, operands, self.names)
        return arrays if first_array(arrays) is not None else (asarray(arrays[0]), *arrays[1:])

    def _simplified(self, operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """A cheaper row and operands with the same value, or these."""
        return (None if self.simplify is None else self.simplify(operands)) or (self, operands)

    def _is_repeated(self, operands: tuple[Any, ...]) -> bool:
        """Whether other calls for arrays of these layouts, and numbers of these types, are this row's plan as well."""
        return self.simplify is None or all(isinstance(operand, Array) for operand in operands)

    def _apply_other(self, operands: tuple[Any, ...]) -> Any:
        """:meth:`apply` for symbols, and for operands that have to be converted."""
        if any(isinstance(operand, SYMBOLS) for operand in operands):
            return symbolic(self, operands)
        return self.apply(as_operands(self.name, operands, self.names))

    def _beyond(self, operands: tuple[Any, ...]) -> Any:
        """A comparison with a Python integer out of the range of the array's dtype, as an infinity."""
        wide = [
            operand.astype(dtypes.float64)
            if isinstance(operand, Array)
            else np.inf
            if operand > 0
            else -np.inf
            for operand in operands
        ]
        return self.apply(tuple(wide))

    def _program(self, kinds: tuple[Any, ...]) -> Program:
        """The program for operands of these dtypes or Python types."""
        key = (self, dtypes.get_default_dtype(), *kinds)
        cached = _programs.get(key)
        return _programs.keep(key, self._made(kinds)) if cached is None else cached

    def _made(self, kinds: tuple[Any, ...]) -> Program:
        wanted, _ = self.resolve([kind() if isinstance(kind, type) else kind for kind in kinds])
        nodes: list[Node] = []
        inputs: list[dtypes.DType] = []
        scalars: list[dtypes.DType] = []
        for kind, dtype in zip(kinds, wanted, strict=True):
            if isinstance(kind, type):
                nodes.append(scalar_node(len(scalars), dtype))
                scalars.append(dtype)
            else:
                nodes.append(input_node(len(inputs), kind))
                inputs.append(kind)
        return program(self.name, (call(self, nodes),), inputs, scalars)


def _fits(arrays: Sequence[Array], shape: tuple[int, ...]) -> bool:
    """Whether the arrays broadcast to a shape."""
    try:
        return broadcast_shapes("", [*(one.shape for one in arrays), shape]) == shape
    except ValueError:
        return False


def _same(x: Array, y: Array) -> bool:
    """Whether two arrays have the same elements in memory."""
    if x is y:
        return True
    if x._storage is not y._storage or x._planned() is not y._planned():
        return False
    if x.device.addressable:
        return bool(x._data.__array_interface__["data"] == y._data.__array_interface__["data"])
    return bool(x._operand == y._operand)


def _of_default(forward: Program) -> bool:
    """Whether a program turns integers into floats, whose dtype is then the default one."""
    made_floats = forward.outputs[0].dtype in dtypes.INEXACT
    return made_floats and not any(dtype in dtypes.INEXACT for dtype in forward.inputs)


def as_operands(name: str, operands: Sequence[Any], names: Sequence[str] = "xyz") -> tuple[Any, ...]:
    """Operands as arrays and Python numbers; others are converted to arrays on the first array's device.

    Raises:
        TypeError: an operand is not an array, a number or a nested list of them.
    """
    arrays: list[Any] = []
    for i, operand in enumerate(operands):
        if isinstance(operand, Array):
            arrays.append(operand)
        elif is_scalar(operand):
            kinds: tuple[Any, ...] = (bool, int, float, complex)
            arrays.append(next(kind(operand) for kind in kinds if isinstance(operand, kind)))
        else:
            arrays.append(
                require_array(
                    operand,
                    name,
                    names[i] if len(operands) <= len(names) else f"operands[{i}]",
                    first_array(operands),
                )
            )
    return tuple(arrays)


@public
def cast_to(x: Array, dtype: Any, casting: Casting, copy: bool, /) -> Array:
    """``x.astype(dtype, casting=casting, copy=copy)``."""
    wanted = dtypes.as_dtype(dtype)
    if casting != "unsafe" and not can_cast(x.dtype, wanted, casting):
        raise TypeError(f"astype: cannot cast {x.dtype} to {wanted}, casting={casting!r}")
    return astype(x, wanted, copy=copy)


#: (layout, type of what names a dtype, that) -> plan of the cast to it.
_casts: Cache[tuple[Any, ...], Plan] = Cache()


@public
def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """The elements of ``x`` as another dtype; differentiable between floating and complex dtypes.

    Args:
        x: any array.
        dtype: the dtype of the result. Conversion to a floating dtype rounds to nearest, to an integer dtype towards 0,
            and to bool makes all numbers except 0 True.
        copy: whether to copy an array that already has that dtype.
        device: the device of the result; that of ``x`` by default.

    Raises:
        TypeError: ``dtype`` is not a dtype of cukern, or ``x`` is complex and ``dtype`` is not, nor bool.
    """
    if dtypes.stand_ins:
        dtype = dtypes.as_named(dtype)
    if type(x) is Array and device is None and not traced_threads:
        if not copy and x.dtype is dtype:
            return x
        key = (x._layout or x._planned(), type(dtype), dtype)
        try:
            plan = _casts.get(key)
        except TypeError:  # what cannot be hashed names no dtype, which the lines below say
            plan = None
        if plan is not None and (copy or plan.layouts[0].dtype != x.dtype):
            result = plan.single(x) if plan.make is None else plan.make(x)
            if tape.opened and (tracking := tape.tracked((x,))) is not None:
                _record(plan, (x,), (), (result,), tracking)
            return result
    if isinstance(x, Expr):
        return x.astype(dtype)
    x = require_array(x, "astype")
    if device is not None and x.device != device:
        x = x.to_device(device)
    wanted = dtypes.as_dtype(dtype)
    if wanted == x.dtype and not copy:
        return x
    dtypes.refuse_real("astype", x.dtype, wanted)
    plan = planned(program("astype", (cast(input_node(0, x.dtype), wanted),), (x.dtype,)), (x,))
    if (
        type(dtype) not in (type, str) and not traced_threads
    ):  # float and complex name other dtypes after the default one was set
        _casts.keep((x._planned(), type(dtype), dtype), plan)
    return _launched(plan, (x,), ())[0]
