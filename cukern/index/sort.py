"""Sorting: a stable sort along any axis, of values, of indices, or of both."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, device_of
from ..array.mapping import mapped, over_axis
from ..autodiff import tape
from ..device import Device
from ..elementwise.complex_rows import imag, real
from ..elementwise.function import astype
from ..elementwise.operands import normalize_axis, public, recorded, require_array
from ..elementwise.table import isnan
from ..errors import DeviceError
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, compiled, launch, made, new, on, threads
from ..kernel.sizes import divide_up
from ..shape.views import moveaxis, reshape

__all__ = ["argpartition", "argsort", "lexsort", "msort", "partition", "sort"]

_PERMUTE = Kernel("shape/permute.cu", block=256)
#: Elements that a host thread permutes.
_HOST_PIECE = 16384
#: Elements from which NumPy partitions them on the host.
_MANY = 1 << 16
#: Floats from which several threads are faster than NumPy's one.
_FOR_THREADS = 1 << 21
_VECTORS = "it sorts in vectors"


def sorted_rows(x: Array, indexed: bool, descending: bool) -> list[Array]:
    """The sorted rows of ``x`` (..., n), in C order, and if ``indexed`` the indices of their elements, in int64."""
    if x.dtype == dtypes.complex128:
        return _complex_rows(x, descending)
    result: list[Array] = made("sort", _sorted_rows, x, indexed, descending)
    return result


def _sorted_rows(x: Array, indexed: bool, descending: bool) -> list[Array]:
    from .families import SORT  # many programs sort nothing
    from .sort_variants import Sorting

    x = x.contiguous()
    problem = Sorting((x._planned(),), indexed, descending)
    with on(x.device):
        return SORT(problem)(x) if x.size else new(problem.results)


def _complex_rows(x: Array, descending: bool) -> list[Array]:
    """:func:`sorted_rows` of complex numbers that are no keys of 64 bits, by real parts and then imaginary ones.

    As in NumPy, numbers without NaN come first, then those of which only the imaginary part is NaN, only the real part,
    and both.
    """
    with tape.stop_recording():
        of_real, of_imag = isnan(real(x)), isnan(imag(x))
        of_nan = astype(of_real, dtypes.int8) * 2 + astype(of_imag, dtypes.int8)
        order = _order((imag(x), real(x), of_nan), descending)
        return [permuted(x, order, "gather"), order]


def _order(keys: Sequence[Array], descending: bool) -> Array:
    """The indices that sort rows by several keys, the last key first."""
    order = sorted_rows(keys[0], True, descending)[1]
    for key in keys[1:]:
        indices = sorted_rows(permuted(key, order, "gather"), True, descending)[1]
        order = permuted(order, indices, "gather")
    return order


def permuted(x: Array, indices: Array, mode: Literal["gather", "scatter"]) -> Array:
    """Permute each row of ``x``; differentiable.

    Args:
        x: (..., n).
        indices: int64, of the shape of ``x``; each row is a permutation, as from :func:`argsort`.
        mode: ``"gather"`` for ``y = x[indices]``, ``"scatter"`` for the inverse, ``y[indices] = x``.
    """
    device = x.device
    result = allocate(device, x.shape, x.dtype)
    if x.size:
        block = threads(device, 256)
        name = f"{mode}_rows_{dtypes.info(x.dtype).name}_{block}"
        kernel = compiled(_PERMUTE, device, name=name, elem=x.dtype, block=block, mode=mode)
        piece = _HOST_PIECE if block == 1 else 1
        arrays = (x.contiguous()._data, indices.contiguous()._data, result)
        values = (*arrays, x.size, x.shape[-1], piece)
        launch(device, kernel, divide_up(x.size, block * piece), block, values)
    back: Literal["gather", "scatter"] = "scatter" if mode == "gather" else "gather"
    return recorded(
        "permuted",
        x,
        Array._wrap(result, device),
        lambda g: permuted(g, indices, back),
        lambda t: permuted(t, indices, mode),
    )


def along(x: Array, axis: int | None, name: str) -> tuple[Array, int]:
    """``x`` and the axis to sort along, counted from 0; if ``axis`` is None, ``x`` is flattened."""
    x = require_array(x, name)
    if axis is None:
        return reshape(x, (-1,)), 0
    if not x.ndim and axis in (0, -1):
        return reshape(x, (1,)), 0
    return x, normalize_axis(axis, x.ndim, name)


def sorted_along(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    """``x`` sorted along an axis, differentiable, and the indices of its elements."""
    rows = moveaxis(x, axis, -1)
    with tape.stop_recording():
        keys, indices = sorted_rows(rows, True, descending)
    result = recorded(
        "sort",
        rows,
        keys,
        lambda g: permuted(g, indices, "scatter"),
        lambda t: permuted(t, indices, "gather"),
    )
    return moveaxis(result, -1, axis), moveaxis(indices, -1, axis)


#: NumPy's names.
_ALGORITHMS = ("quicksort", "mergesort", "heapsort", "stable")


@public
@mapped(over_axis("axis"))
def argsort(
    x: Array,
    /,
    axis: int | None = -1,
    kind: Any = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> Array:
    """The indices that sort ``x`` along an axis; equal elements keep their order, in both directions.

    NaN counts as larger than any number, so it comes last, or first in descending order; -0.0 equals 0.0.

    Args:
        x: any array.
        axis: the axis; None sorts the flattened array.
        kind: NumPy's name of an algorithm, such as ``"stable"``; has no effect.
        order: must be None: arrays have no fields.
        descending: whether the largest comes first.
        stable: has no effect: the sort is always stable.

    Returns:
        int64, of the shape of ``x``; (1,) for a 0-d ``x``.

    Raises:
        AxisError: there is no such axis.
        ValueError: there is no such ``kind``.

    >>> import cukern as ck
    >>> ck.argsort(ck.asarray([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    x, axis = along(x, axis, "argsort")
    _no_algorithm(kind, _ALGORITHMS, "argsort", order)
    with tape.stop_recording():
        return sorted_along(x, axis, bool(descending))[1]


@public
@mapped(over_axis("axis"))
def sort(
    x: Array,
    /,
    axis: int | None = -1,
    kind: Any = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> Array:
    """Sort ``x`` along an axis; arguments and order as in :func:`argsort`; differentiable.

    Every NaN of the result has the same bits.

    >>> import cukern as ck
    >>> ck.sort(ck.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    x = require_array(x, "sort")
    shape = x.shape if not x.ndim else None
    x, dim = along(x, axis, "sort")
    _no_algorithm(kind, _ALGORITHMS, "sort", order)
    if (ordered := _sorted(x, dim, bool(descending), x.device)) is not None:
        result = ordered
    elif tape.recording((x,)):
        result = sorted_along(x, dim, bool(descending))[0]
    else:
        result = moveaxis(sorted_rows(moveaxis(x, dim, -1), False, bool(descending))[0], -1, dim)
    return result if shape is None or axis is None else reshape(result, shape)


@by_numpy("sort", least=0, most=None, why=_VECTORS)
def _sorted(data: Any, axis: int, descending: bool, device: Device) -> Any:
    """Sorted integers, and floats, if the order of equal ones does not show."""
    whole = (slice(None),) * axis
    if data.dtype.kind in "biu":
        ordered = np.sort(data, axis)
        return ordered[(*whole, slice(None, None, -1))] if descending else ordered
    if data.size >= _FOR_THREADS and device.properties.multiprocessors > 1:
        return "floats that are enough for several cores"
    if descending or data.dtype.char not in "fd":
        return "floats in descending order, or no float32 or float64"
    ordered = np.sort(data, axis)
    zeros = ordered == 0
    if zeros.any() and np.signbit(ordered[zeros]).any():
        return "the order of zeros of two signs shows"
    if np.isnan(ordered[(*whole, slice(-1, None))]).any():
        ordered[np.isnan(ordered)] = np.nan
    return ordered


def _no_algorithm(kind: Any, kinds: Sequence[str], name: str, order: object = None) -> None:
    if order is not None:
        raise ValueError(f"{name}: order: expected None, for an array without fields, got {order!r}")
    # As in NumPy, the first letters of a name stand for it.
    short = isinstance(kind, str) and kind != "" and any(name.startswith(kind.lower()) for name in kinds)
    if kind is not None and not short:
        raise ValueError(f"{name}: kind: expected None or one of {', '.join(kinds)}, got {kind!r}")


def _checked_kth(kth: Any, x: Array, axis: int, name: str) -> list[int]:
    """The indices, in the range of an axis; of no elements, all are in range, as in NumPy."""
    size = x.shape[axis] if x.size else sys.maxsize
    several = isinstance(kth, (Sequence, np.ndarray, Array)) and len(np.shape(kth)) > 0
    indices = [operator.index(k) for k in (kth if several else (kth,))]
    for k in indices:
        if not -size <= k < size:
            raise ValueError(f"{name}: kth: {k} is out of bounds for an axis of size {size}")
    return indices


@public
def msort(x: Array, /) -> Array:
    """:func:`sort` along the first axis."""
    return sort(x, 0)


def _of_fast(partition: Any) -> Any:
    """``partition`` of the dtypes of which NumPy has vectors."""
    return lambda data, *args: (
        partition(data, *args) if data.dtype.char in "bhilqBHILQfd" else "no vectors of them"
    )


_PARTITION = by_numpy("partition", least=_MANY, most=None, why=_VECTORS)(_of_fast(np.partition))
_ARGPARTITION = by_numpy("argpartition", least=_MANY, most=None, why=_VECTORS)(_of_fast(np.argpartition))


@public
@mapped(over_axis("axis"))
def partition(x: Array, /, kth: int | Sequence[int], axis: int | None = -1, kind: Any = None) -> Array:
    """Partition ``x`` around the ``kth`` smallest element: those before are no larger, those after no smaller.

    On a GPU, and of few elements, the result is fully sorted, as by :func:`sort`.

    Args:
        x: any array.
        kth: an index along the axis, or several.
        axis: the axis; None flattens the array.
        kind: NumPy's name of an algorithm, ``"introselect"``; has no effect.

    Raises:
        AxisError: there is no such axis.
        TypeError: ``kth`` is no integer.
        ValueError: ``kth`` is out of bounds, or there is no such ``kind``.
    """
    x, axis = along(x, axis, "partition")
    _no_algorithm(kind, ("introselect",), "partition")
    indices = _checked_kth(kth, x, axis, "partition")
    if (parted := _PARTITION(x, indices, axis)) is not None:
        return parted
    return sort(x, axis)


@public
@mapped(over_axis("axis"))
def argpartition(x: Array, /, kth: int | Sequence[int], axis: int | None = -1, kind: Any = None) -> Array:
    """The indices of the elements of :func:`partition` in ``x``, in int64; arguments as there."""
    x, axis = along(x, axis, "argpartition")
    _no_algorithm(kind, ("introselect",), "argpartition")
    indices = _checked_kth(kth, x, axis, "argpartition")
    if (parted := _ARGPARTITION(x, indices, axis)) is not None:
        return parted
    return argsort(x, axis)


@public
def lexsort(keys: Any, /, axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first, as ``numpy.lexsort``.

    Args:
        keys: arrays of one shape, or an array whose first axis numbers the keys.
        axis: the axis to sort along.

    Returns:
        int64, of the shape of a key.

    Raises:
        AxisError: there is no such axis.
        DeviceError: the arrays are on different devices.
        TypeError: there is no key.
        ValueError: the shapes differ.

    >>> import cukern as ck
    >>> ck.lexsort((ck.asarray([2, 1, 0]), ck.asarray([1, 0, 1]))).tolist()
    [1, 2, 0]
    """
    arrays = list(keys)
    home = device_of(arrays)
    columns = [key if isinstance(key, Array) else asarray(key, device=home) for key in arrays]
    if not columns:
        raise TypeError("lexsort: keys: expected at least one")
    if any(key.shape != columns[0].shape for key in columns):
        raise ValueError(f"lexsort: keys: expected one shape, got {[key.shape for key in columns]}")
    if any(key.device is not columns[0].device for key in columns):
        raise DeviceError(f"lexsort: keys: expected one device, got {[str(key.device) for key in columns]}")
    with tape.stop_recording():
        axis = along(columns[0], axis, "lexsort")[1]
        if not columns[0].ndim:
            return asarray(0, dtype=dtypes.int64, device=columns[0].device)
        return moveaxis(_order([moveaxis(key, axis, -1) for key in columns], False), -1, axis)
