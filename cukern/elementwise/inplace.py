"""In-place operators: overwrite an array with the result of a row, recorded if a tape tracks an operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..array import Array
from ..array.array import has_others
from ..array.batched import level_of, levels
from ..array.deferred import about_to_write, trace, traced_threads
from ..array.operators import FUNCTIONS
from ..autodiff import tape, writes
from ..autodiff.cotangents import form_of
from ..errors import DeviceError, GradientError
from ..kernel.plan import apart
from .function import Elementwise, as_operands, pulled, pushed
from .graph import Expr, cast
from .operands import public
from .pending import Pending
from .plan import launch_into, run_into
from .program import Program, program
from .ufunc import can_cast


@public
def inplace(x: Array, name: str, other: Any, /) -> Array:
    """Overwrite ``x`` with the row ``name`` of ``x`` and ``other``, and return ``x``.

    If a tape tracks one of them, it records the operation, and ``x`` is the result from then on. If an earlier
    operation saved ``x`` for its backward, a gradient through that operation becomes an error.

    Raises:
        GradientError: a tape tracks an operand, and ``x`` is watched, a parameter, or shares its memory with another
            array.
        TypeError: the result's dtype cannot be cast to that of ``x``.
        ValueError: the result's shape is not that of ``x``, or ``x`` is a repeated view.
    """
    row: Elementwise = FUNCTIONS[name]
    if isinstance(x, Expr):
        x.require_own(name)
        return row.apply((x, other))
    row, (x_, *rest) = row._simplified(as_operands(name, (x, other)))
    arrays = [x, *(o for o in rest if isinstance(o, Array))]
    if levels and (level := level_of(arrays)) is not None:
        raise next(one for one in arrays if level.holds(one))._written(f"in-place {name}")
    recording = tape.recording(arrays)
    check_writable(x, name, recording)
    forward = _program(row, x, (x_, *rest))
    for array in arrays[1:]:
        if array.device is not x.device:
            raise DeviceError(f"{row.name}: expected arrays on one device, got {x.device} and {array.device}")
    scalars = [o for o in rest if not isinstance(o, Array)]
    tracking = tape.tracked(arrays) if recording else None
    if tracking is None:
        _write(forward, arrays, scalars)
    else:
        _recorded(forward, arrays, scalars, tracking)
    return x


def _program(row: Elementwise, x: Array, operands: Sequence[Any]) -> Program:
    """The program of a row whose result has the dtype of ``x``."""
    forward = row._program(tuple([o.dtype if isinstance(o, Array) else type(o) for o in operands]))
    dtype = forward.outputs[0].dtype
    if dtype == x.dtype:
        return forward
    if not can_cast(dtype, x.dtype, "same_kind"):
        raise TypeError(f"{row.name}: a result of {dtype} cannot be written to an array of {x.dtype}")
    return program(row.name, (cast(forward.outputs[0], x.dtype),), forward.inputs, forward.scalars)


def _write(forward: Program, arrays: Sequence[Array], scalars: Sequence[Any]) -> None:
    """Overwrite the first of ``arrays``."""
    x = arrays[0]
    active = trace() if traced_threads else None
    if active and (active.rewritten(forward, arrays, scalars) or active.updated(forward, arrays, scalars)):
        x._bump(forward.name)
        return
    about_to_write(x)
    if len(arrays) == 1:
        own = x._layout or x._planned()
        launch_into(forward, x.device, (own, own), (0,), (), scalars, (x._operand,))
        x._bump(forward.name)
        return
    run_into(forward, x.device, [_apart(array, x) for array in arrays], scalars, (x._data,))
    x._bump(forward.name)


def _apart(array: Array, written: Array) -> Any:
    """The ndarray of ``array``, copied if it may overlap ``written`` with a different layout."""
    return array._data if array is written else apart(array.device, array._data, written._data)


def check_writable(x: Array, name: str, recording: bool) -> None:
    """Refuse a write that would be lost, or if it is recorded, to a gradient's source or to memory that others share.

    Raises:
        GradientError: it is recorded, and ``x`` is watched or a parameter, or shares its memory.
        ValueError: ``x`` is a repeated view.
    """
    if recording:
        _check_recordable(x, name)
    if (x._layout or x._planned()).repeated or x._storage.constant:
        raise ValueError(
            f"in-place {name} on a repeated view, such as broadcast_to's, or a constant: write to a copy"
        )


def _check_recordable(x: Array, name: str) -> None:
    message = f"in-place {name} on an array that a tape tracks: write x = cukern.{name}(x, y)"
    if type(x) not in (Array, Pending) or writes.is_leaf(x):
        raise GradientError(message)
    if has_others(x):
        raise GradientError(f"{message}, or x.at[key] for a part of one: other arrays share its memory")


def _recorded(
    forward: Program, arrays: Sequence[Array], scalars: Sequence[Any], tracking: tape.Tracking
) -> None:
    """:func:`_write`, recorded by the tapes that track one of ``arrays``."""
    needs, keys, tapes = tracking
    x = arrays[0]
    backward = forward.backward(needs, tuple([array.shape != x.shape for array in arrays]))
    # The backward reads copies of x, which may be overwritten again.
    before = [kept(one) if one is x else one for one in (arrays[k] for k in backward.saved("input"))]
    _write(forward, arrays, scalars)
    differentiable = any(backward.results)
    writes.overwritten(x, tapes, differentiable)
    if differentiable:
        after = [kept(x) for _ in backward.saved("output")]
        forms = [form_of(array) for array in arrays]
        rule = partial(pulled, backward, None, scalars=scalars)
        push = partial(pushed, forward, needs, backward, scalars=scalars)
        operation = tape.Operation(f"in-place {forward.name}", forms, forms[:1], rule, jvp=push)
        tape.append(operation, keys, (x._key,), [*before, *after], tapes)


def kept(x: Array) -> Array:
    """A copy of ``x`` that tapes treat as the current ``x``."""
    with x.device.activate():
        result = Array._wrap(x._data.copy(), x.device)
    result._key = x._key
    result._storage.version = x._storage.version
    return result
