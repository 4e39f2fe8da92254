"""linspace, logspace and geomspace, between ends that may be arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, device_of
from ..array.host_data import holds_array
from ..device import Device, current
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public
from ..elementwise.table import equal, exp2, floor, where
from ..elementwise.table import pow as power
from ..errors import require_int
from ..reduction.rows import any as any_of
from ..shape.views import moveaxis, reshape

__all__ = ["geomspace", "linspace", "logspace"]

#: The numbers from which a GPU computes them itself, and those that lie in a row.
_MANY = _ROW = 4096


def _is_complex(end: Any) -> bool:
    return getattr(end, "dtype", None) in dtypes.COMPLEX or np.iscomplexobj(end)


def _target(
    name: str, ends: Sequence[Any], dtype: npt.DTypeLike | None, device: Device | str | None
) -> tuple[dtypes.DType, Device]:
    """The dtype and device of the result: by default those of the arrays among the ends."""
    beside = device_of(ends)
    where = Device(device) if device is not None else beside or current()
    is_complex = any(map(_is_complex, ends))
    if dtype is not None:
        asked = dtypes.as_dtype(dtype)
        if is_complex and asked not in dtypes.COMPLEX:
            raise TypeError(f"{name}: dtype: expected a complex one for complex ends, got {asked}")
        return asked, where
    # NumPy's own numbers are as Python's.
    arrays = [
        end.dtype for end in ends if isinstance(end, Array) or (isinstance(end, np.ndarray) and end.ndim)
    ]
    common = dtypes.result_type(*arrays) if arrays else dtypes.get_default_dtype()
    common = common if common in dtypes.INEXACT else dtypes.get_default_dtype()
    return dtypes.complex_of(common) if is_complex else common, where


def _checked(name: str, num: int, axis: int, **given: Any) -> tuple[list[Any], int, int]:
    """The ends, of which a list that contains arrays is stacked to one array, ``num``, and the axis of the result."""
    ends = []
    for argument, end in given.items():
        stacked = asarray(end) if isinstance(end, (list, tuple)) and holds_array(end) else end
        plain = not _is_number(stacked) and not hasattr(stacked, "__dlpack__")
        if plain and np.asarray(stacked).dtype.kind not in "biufc":
            raise TypeError(f"{name}: {argument}: expected a number or an array, got {end!r:.60}")
        ends.append(stacked)
    shapes = list(map(np.shape, ends))
    try:
        ndim = 1 + len(np.broadcast_shapes(*shapes))
    except ValueError:
        raise ValueError(f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast") from None
    return ends, require_int(f"{name}: num", num, 0), normalize_axis(axis, ndim, name)


def _is_number(end: Any) -> bool:
    return isinstance(end, (bool, int, float, complex, np.generic))


def _spaced(
    ends: Sequence[Any],
    num: int,
    endpoint: bool,
    wanted: dtypes.DType,
    where: Device,
    axis: int,
    between: Callable[..., Array],
) -> Array:
    """The result of ``between`` for ends in float64, the numbers 0, 1, ... along an axis, and the last number.

    Where the result is complex, so are the ends: in complex128.
    """
    number, dtype = (complex, dtypes.complex128) if wanted in dtypes.COMPLEX else (float, dtypes.float64)
    wide = [number(end) if _is_number(end) else asarray(end, dtype, where) for end in ends]
    last = float(max(num - endpoint, 1))
    ndim = max((end.ndim for end in wide if isinstance(end, Array)), default=0)
    counted = reshape(arange(num, dtype=dtypes.float64, device=where), (num,) + (1,) * ndim)
    result = between(*wide, counted, last, wanted)
    return moveaxis(result, 0, axis) if axis else result


def _made_there(ends: Sequence[Any], count: int, wanted: dtypes.DType, where: Device) -> bool:
    """Whether numbers between plain ends are computed on a GPU: those that take longer to compute and copy."""
    return count >= _MANY and not where.addressable and wanted in dtypes.FLOATS and all(map(_is_number, ends))


def _many(
    shape: Callable[..., Array],
    numbers: Sequence[float],
    num: int,
    endpoint: bool,
    wanted: dtypes.DType,
    where: Device,
) -> Array:
    """The result of ``shape`` for the numbers 0, 1, ..., and the last one that may be there.

    Each is the sum of that of its row and that of its column, so that no array of all is read.
    """
    last = max(num - endpoint, 1)
    rows = arange(0, num, _ROW, dtype=dtypes.float64, device=where)
    columns = arange(_ROW, dtype=dtypes.float64, device=where)
    result = shape(*map(float, numbers), reshape(rows, (-1, 1)), columns, float(last), wanted)
    return reshape(result, (-1,))[:num]


@fuse(static=("wanted",))
def _line_of_many(
    low: float, high: float, step: float, row: Any, column: Any, last: float, wanted: dtypes.DType
) -> Any:
    k = row + column
    return astype(where(equal(k, last), high, low + k * step), wanted)


@fuse(static=("wanted",))
def _powers_of_two(
    factor: float,
    low: float,
    high: float,
    step: float,
    row: Any,
    column: Any,
    last: float,
    wanted: dtypes.DType,
) -> Any:
    k = row + column
    return astype(where(equal(k, last), high, factor * exp2(low + k * step)), wanted)


def _as(wanted: dtypes.DType, result: Any) -> Any:
    """Numbers in a dtype; integers are rounded down."""
    return astype(floor(result) if wanted in dtypes.INTS else result, wanted)


@fuse(static=("wanted",))
def _line(low: Any, high: Any, k: Any, last: float, wanted: dtypes.DType) -> Any:
    return _as(wanted, where(equal(k, last), high, low + k * ((high - low) / last)))


@fuse(static=("wanted",))
def _powers(low: Any, high: Any, base: Any, k: Any, last: float, wanted: dtypes.DType) -> Any:
    return _as(wanted, power(base, where(equal(k, last), high, low + (high - low) * (k / last))))


@fuse(static=("wanted",))
def _ratios(low: Any, high: Any, k: Any, last: float, wanted: dtypes.DType) -> Any:
    return _as(wanted, where(equal(k, last), high, low * power(high / low, k / last)))


@public
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    *,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
    retstep: bool = False,
    axis: int = 0,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``; differentiable with respect to both.

    Args:
        start: a number or an array.
        stop: a number or an array, which broadcasts with ``start``.
        num: the number of numbers.
        dtype: that of the result; by default the floating dtype of arrays among the ends, else the default one.
            Integers are rounded down. Of complex ends it is complex: that of the precision, by default.
        device: that of the result; by default that of arrays among the ends, else the current one.
        endpoint: whether ``stop`` is the last number.
        retstep: whether to return the spacing as well: a float, or an array if an end is one.
        axis: the position of the numbers' axis in the result; the other axes are those of the ends.

    Raises:
        AxisError: the result has no such axis.
        TypeError: an end is no number or array, or complex and ``dtype`` is not; ``num`` is no integer.
        ValueError: ``num`` is negative, or the ends do not broadcast.

    >>> import cukern as ck
    >>> ck.linspace(ck.asarray([0.0, 1.0]), 2.0, 3).tolist()
    [[0.0, 1.0], [1.0, 1.5], [2.0, 2.0]]
    """
    ends, count, axis = _checked("linspace", num, axis, start=start, stop=stop)
    wanted, there = _target("linspace", ends, dtype, device)
    if device_of(ends) is None and not _made_there(ends, count, wanted, there):
        kind = wanted if wanted in dtypes.INTS else None  # NumPy rounds integers down
        of_numbers: Any = np.linspace  # its overloads lack these arguments
        result, step = of_numbers(*ends, count, endpoint, True, kind, axis)
        result = result.astype(wanted, copy=False)
        samples = Array._wrap(result, there) if there.addressable else asarray(result, device=there)
        return (samples, step if np.ndim(step) == 0 else asarray(step, device=there)) if retstep else samples
    if _made_there(ends, count, wanted, there):
        of_line = *map(float, ends), (float(ends[1]) - float(ends[0])) / (count - bool(endpoint))
        samples = _many(_line_of_many, of_line, count, bool(endpoint), wanted, there)
    else:
        samples = _spaced(ends, count, bool(endpoint), wanted, there, axis, _line)
    if not retstep:
        return samples
    low, high = (end if _is_number(end) else asarray(end, device=there) for end in ends)
    steps = count - bool(endpoint)
    return samples, (high - low) / (steps if steps > 0 else float("nan"))


@public
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    *,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    axis: int = 0,
) -> Array:
    """``num`` numbers from ``base**start`` to ``base**stop``, with evenly spaced exponents.

    The ends and ``base`` are numbers or arrays, which broadcast; differentiable with respect to them. The other
    arguments and the errors are those of :func:`linspace`.

    >>> import cukern as ck
    >>> ck.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    given, count, axis = _checked("logspace", num, axis, start=start, stop=stop, base=base)
    wanted, there = _target("logspace", given, dtype, device)
    if device_of(given) is None and not _made_there(given, count, wanted, there):
        result = np.logspace(given[0], given[1], count, endpoint, given[2], axis=axis)
        return asarray(result.astype(wanted), device=there)
    if _made_there(given, count, wanted, there) and wanted != dtypes.float64 and given[2] > 0:
        # float64 has enough digits beyond those of the others that the power of 2 is exact in them.
        exponents = [float(end) * math.log2(given[2]) for end in given[:2]]
        step = (exponents[1] - exponents[0]) / (count - bool(endpoint))
        numbers = (1, exponents[0], np.power(float(given[2]), float(given[1])), step)
        return _many(_powers_of_two, numbers, count, bool(endpoint), wanted, there)
    return _spaced(given, count, bool(endpoint), wanted, there, axis, _powers)


@public
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    axis: int = 0,
) -> Array:
    """``num`` numbers from ``start`` to ``stop`` with a constant ratio.

    The arguments and errors are those of :func:`linspace`. Real ends must have the same sign, and give NaN otherwise;
    complex numbers lie on a logarithmic spiral around 0. Whether arrays on a GPU are 0 is not checked.

    Raises:
        ValueError: an end is 0.

    >>> import cukern as ck
    >>> ck.geomspace(1, 1000, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    ends, count, axis = _checked("geomspace", num, axis, start=start, stop=stop)
    wanted, there = _target("geomspace", ends, dtype, device)
    alike = _made_there(ends, count, wanted, there) and ends[0] * ends[1] > 0
    if device_of(ends) is None and not alike:
        # Between numbers of opposite signs there are complex ones alone.
        kind = np.complex128 if wanted in dtypes.COMPLEX else None
        result = np.geomspace(ends[0], ends[1], count, endpoint, kind, axis)
        return asarray(result.astype(wanted), device=there)
    if alike and wanted != dtypes.float64 and 0 < float(ends[1]) / float(ends[0]) < math.inf:
        low, high = map(float, ends)
        numbers = (low, 0, high, math.log2(high / low) / (count - bool(endpoint)))
        return _many(_powers_of_two, numbers, count, bool(endpoint), wanted, there)
    if there.addressable and any(bool(any_of(equal(asarray(end, device=there), 0))) for end in ends):
        raise ValueError("geomspace: start, stop: expected numbers other than 0")
    return _spaced(ends, count, bool(endpoint), wanted, there, axis, _ratios)
