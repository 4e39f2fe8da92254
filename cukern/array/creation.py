"""Functions that make arrays."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..autodiff import tape
from ..cache import Cache
from ..device import Device, capture_hooks, current, dlpack
from ..device.kernels_only import allows_numpy, asked
from .array import Array, copied
from .deferred import trace, traced_threads
from .host_data import holds_array, host_data
from .layout import Layout, Shape, fresh_layout, known_layout, renewed, shape_of
from .making import cleared
from .operators import FUNCTIONS

__all__ = [
    "arange",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
]

Scalar = bool | int | float


def _device(device: Device | str | None) -> Device:
    if device is None:
        return current()
    return device if type(device) is Device else Device(device)


def asarray(
    obj: Any,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Array:
    """Convert ``obj`` to an array.

    Args:
        obj: an Array, a NumPy or CuPy array, numbers or nested lists of them. Arrays in lists are stacked. Stacking,
            copying and casting are differentiable.
        dtype: the dtype; by default that of ``obj``, the default one (float32) for Python floats, the complex one of
            its precision for Python complex numbers, int64 for Python ints. Integers in lists keep every bit.
        device: the device; by default that of ``obj`` or of the first Array in it, else the current one.
        copy: True copies always; False raises where a copy is needed; None copies where needed.
            An aligned NumPy array on the host is shared, not copied.

    Raises:
        TypeError: ``obj`` is not numeric, or is complex and ``dtype`` is not.
        ValueError: ``copy`` is False and a copy is needed.

    >>> asarray([1.5, 2.5]).dtype.name
    'float32'
    """
    wanted = None if dtype is None else dtypes.as_named(dtype)
    if isinstance(obj, Array):
        return _of_array(obj, wanted, device, copy)
    if isinstance(obj, (list, tuple)):
        if holds_array(obj):
            if copy is False:
                raise ValueError("copy: a copy is needed to make an array of a list of arrays")
            result: Array = FUNCTIONS["assembled"](obj, wanted, None if device is None else Device(device))
            return result
    elif hasattr(obj, "__cuda_array_interface__") and not isinstance(obj, np.ndarray):
        return _of_cuda(obj, wanted, device, copy)
    elif hasattr(obj, "__dlpack__") and str(getattr(obj, "dtype", "")) == "torch.bfloat16":
        return _of_array(from_dlpack(obj), wanted, _device(device), copy)  # NumPy has no bfloat16
    where = current() if device is None else _device(device)
    if not where.addressable:
        warn_of_constant(obj)
    data, shares = host_data(obj, wanted)
    if shares and (not where.addressable or not (data.flags.aligned and data.flags.writeable) or copy):
        if copy is False:
            raise ValueError(f"copy: a copy is needed to put this array on {where}")
        # The copy on another device is one already.
        data = data.copy(order="C") if where.addressable else np.asarray(data, order="C")
    elif copy is False and not shares:
        raise ValueError(f"copy: a copy is needed to make an array of this {type(obj).__name__}")
    return _on(where, data)


#: Modules whose NumPy arrays are operands that a caller gave, not tables of the library's own.
_OF_CALLERS = ("cukern.elementwise.", "cukern.index.take", "cukern.index.subscript")


def warn_of_constant(obj: Any) -> None:
    """Warn of a caller's NumPy array in a step that is recorded, as replays keep its values; name the caller's line."""
    if capture_hooks.recorder() is None or not isinstance(obj, np.ndarray):
        return
    frame: FrameType | None = sys._getframe(1)
    level, maker = 2, ""
    while frame is not None and (name := str(frame.f_globals.get("__name__"))).startswith("cukern."):
        if not maker and frame.f_globals is not globals():
            maker = name
        frame, level = frame.f_back, level + 1
    if maker and not maker.startswith(_OF_CALLERS):
        return
    warnings.warn(
        "capture: an array made of a NumPy array keeps, in all replays, the values that it had when the step was "
        "recorded; pass it as an argument if they change",
        stacklevel=level,
    )


def beside(values: Any, x: Array) -> Array:
    """``values`` as an array to combine with ``x``, on its device; Python floats get the precision of ``x``."""
    given = isinstance(values, Array)
    if isinstance(values, (int, float, complex)) and not isinstance(values, (bool, np.generic)):
        known = dtypes.result_type(x.dtype, values) if x.dtype in dtypes.INEXACT else None
        return asarray(values, known, x.device)
    result = asarray(values, device=None if given else x.device)
    if isinstance(values, (list, tuple)) and result.dtype in dtypes.INEXACT and x.dtype in dtypes.INEXACT:
        return asarray(values, dtypes.promote(result.dtype, x.dtype), x.device)
    return result


def device_of(values: Iterable[Any]) -> Device | None:
    """The device of the first Array among ``values``, to which the others are moved; None if there is none."""
    return next((value.device for value in values if isinstance(value, Array)), None)


def _of_array(
    obj: Array, dtype: dtypes.DType | None, device: Device | str | None, copy: bool | None
) -> Array:
    where = obj.device if device is None else Device(device)
    # Not `dtype in (None, obj.dtype)`: NumPy's float64 equals None.
    cast = dtype is not None and dtype != obj.dtype
    same = where is obj.device and not cast
    if copy is False and not same:
        raise ValueError(f"copy: a copy is needed to make this array {dtype or obj.dtype} on {where}")
    if same and not copy:
        return obj
    result = obj.astype(dtype) if cast else obj
    if where is not result.device:
        return result.to_device(where)
    return copied(result) if result is obj else result


def _filled(shape: Shape, value: Any, dtype: npt.DTypeLike | None, device: Device | str | None) -> Array:
    """:func:`full` with an array ``value``, which is broadcast."""
    return copied(FUNCTIONS["broadcast_to"](asarray(value, dtype, device), shape_of(shape)))


def _of_cuda(obj: Any, dtype: dtypes.DType | None, device: Device | str | None, copy: bool | None) -> Array:
    import cupy

    if isinstance(obj, cupy.ndarray):
        index = obj.device.id
    elif hasattr(obj, "__dlpack_device__"):
        index = obj.__dlpack_device__()[1]
    else:
        pointer = obj.__cuda_array_interface__["data"][0]  # 0 where there are no elements
        index = cupy.cuda.UnownedMemory(pointer, 0, obj).device_id if pointer else cupy.cuda.Device().id
    home = Device(f"cuda:{index}")
    with home.activate():  # CuPy would copy to another
        data = cupy.asarray(obj)
    dtypes.as_dtype(data.dtype, "obj")
    return _of_array(_shared(data, home), dtype, device, copy)


def _shared(data: Any, device: Device) -> Array:
    """The memory of another library's array."""
    result = Array._wrap(data, device)
    result._storage.shared = True
    return result


def array(
    obj: Any,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
) -> Array:
    """Copy ``obj`` to a new array, with at least ``ndmin`` axes; the other arguments are those of :func:`asarray`."""
    result = asarray(obj, dtype, device, copy=copy)
    return result.reshape((1,) * (ndmin - result.ndim) + result.shape) if result.ndim < ndmin else result


#: :func:`asarray`: there is one class of arrays.
asanyarray = asarray


def ascontiguousarray(
    obj: Any, dtype: npt.DTypeLike | None = None, *, device: Device | str | None = None
) -> Array:
    """``obj`` as an array in C order with at least one axis, copied only if needed."""
    result = asarray(obj, dtype, device).contiguous()
    return result if result.ndim else result.reshape((1,))


def from_dlpack(x: Any, device: Device | str | None = None, copy: bool | None = None) -> Array:
    """Make an array that shares the memory of another library's array, through DLPack.

    Raises:
        TypeError: ``x`` does not support DLPack, or has a dtype that cukern lacks.
        ValueError: ``copy`` is False and a copy is needed, as of read-only memory.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"x: expected an object with __dlpack__, got {type(x).__name__}")
    if isinstance(x, Array):
        shared = Array._wrap(x._data, x.device, x._storage)
        tape.record_copy("from_dlpack", x, shared)
        return _of_array(shared, None, device, copy)
    kind, index = x.__dlpack_device__()
    where = Device("host") if int(kind) == 1 else Device(f"cuda:{int(index)}")
    with where.activate():
        data = dlpack.imported(x) if where.addressable else where.xp.from_dlpack(x)
    dtypes.as_dtype(data.dtype, "x")
    if where.addressable and not (data.flags.writeable and data.flags.aligned):
        if copy is False:
            raise ValueError("copy: a copy is needed, as the memory is read-only or misaligned")
        data = data.copy()
    return _of_array(_shared(data, where), None, device, copy)


def empty(shape: Shape, dtype: npt.DTypeLike | None = None, device: Device | str | None = None) -> Array:
    """Make an array of uninitialized elements.

    Args:
        shape: the sizes of the axes.
        dtype: the default floating dtype if None.
        device: the current one by default.
    """
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_named(dtype)
    where, sizes = _device(device), shape_of(shape)
    if traced_threads and (active := trace()) is not None:
        return active.call(empty, (sizes, wanted, where), {})
    return _empty(fresh_layout(where, wanted, sizes))


def _empty(layout: Layout) -> Array:
    where = layout.device
    if where.which is None or (where.which() == where.index and not capture_hooks.capturing):
        result = Array._made(layout)
    else:
        with where.activate():
            result = Array._made(layout)
    result._storage.empty = weakref.ref(result)
    if capture_hooks.new_empty is not None:
        capture_hooks.new_empty(result)
    return result


def full(
    shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, device: Device | str | None = None
) -> Array:
    """Make an array filled with ``fill_value``.

    Args:
        shape: the sizes of the axes.
        fill_value: a number; or an array or list, which is broadcast; differentiable.
        dtype: that of ``fill_value`` by default.
        device: that of an Array ``fill_value`` by default, else the current one.

    Raises:
        ValueError: an array does not broadcast to ``shape``.
    """
    plain = type(fill_value) in (float, int)
    if not plain and isinstance(fill_value, (Array, np.ndarray, list, tuple)):
        return _filled(shape, fill_value, dtype, device)
    where = _device(device)
    wanted = dtypes.result_type(fill_value) if dtype is None else dtypes.as_named(dtype)
    if not plain and isinstance(fill_value, complex):
        dtypes.refuse_real("full", dtypes.result_type(fill_value), wanted)
    if traced_threads and (active := trace()) is not None:
        return active.call(full, (shape_of(shape), fill_value, wanted, where), {})
    if where.addressable and not asked():  # a trace shows what is done with the array alone
        result = where.backend.empty(shape_of(shape), wanted)
        with np.errstate(over="ignore"):
            if plain and wanted.kind == "f":
                result.fill(fill_value)
            else:
                np.copyto(result, fill_value, casting="unsafe")
        return Array._wrap(result, where)
    return Array._wrap(FUNCTIONS["filled"](where, shape_of(shape), fill_value, wanted), where)


#: What zeros were made of: layouts are made for those that occur again.
_once: Cache[tuple[Device, dtypes.DType, tuple[int, ...]], None] = Cache()


def zeros(shape: Shape, dtype: npt.DTypeLike | None = None, device: Device | str | None = None) -> Array:
    """Make an array of zeros, by default of the default floating dtype."""
    where = current() if device is None else _device(device)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_named(dtype)
    sizes = (shape,) if type(shape) is int and shape >= 0 else shape_of(shape)
    if traced_threads and (active := trace()) is not None:
        return active.call(zeros, (sizes, wanted, where), {})
    if where.which is not None:
        with where.activate():
            return Array._wrap(where.backend.zeros(sizes, wanted), where)
    layout = known_layout(where, wanted, sizes)
    if layout is None:
        key = where, wanted, sizes
        if key not in _once:
            _once.keep(key, None)
            return Array._wrap(where.backend.zeros(sizes, wanted), where)
        layout = fresh_layout(where, wanted, sizes)
    result: Array = (layout.cleared or cleared(layout))()
    return result


def ones(shape: Shape, dtype: npt.DTypeLike | None = None, device: Device | str | None = None) -> Array:
    """Make an array of ones, by default of the default floating dtype."""
    return full(shape, 1, dtypes.get_default_dtype() if dtype is None else dtypes.as_named(dtype), device)


def _like(
    name: str, x: Array, dtype: npt.DTypeLike | None, device: Device | str | None, shape: Shape | None
) -> tuple[tuple[int, ...], npt.DTypeLike, Device]:
    if not isinstance(x, Array):
        x = FUNCTIONS["require_array"](x, name)
    sizes = x.shape if shape is None else shape_of(shape)
    return sizes, x.dtype if dtype is None else dtype, x.device if device is None else _device(device)


def empty_like(
    x: Array,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    *,
    shape: Shape | None = None,
) -> Array:
    """Make an uninitialized array with the shape, dtype and device of ``x``, unless others are given."""
    if dtype is None and device is None and shape is None and isinstance(x, Array):
        own = x._layout or x._planned()
        return _empty(own.new or renewed(own))
    sizes, wanted, where = _like("empty_like", x, dtype, device, shape)
    return empty(sizes, wanted, where)


def full_like(
    x: Array,
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    *,
    shape: Shape | None = None,
) -> Array:
    """Make an array with the shape, dtype and device of ``x``, filled with ``fill_value`` as by :func:`full`."""
    sizes, wanted, where = _like("full_like", x, dtype, device, shape)
    return full(sizes, fill_value, wanted, where)


def zeros_like(
    x: Array,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    *,
    shape: Shape | None = None,
) -> Array:
    """Make an array of zeros with the shape, dtype and device of ``x``."""
    sizes, wanted, where = _like("zeros_like", x, dtype, device, shape)
    return zeros(sizes, wanted, where)


def ones_like(
    x: Array,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    *,
    shape: Shape | None = None,
) -> Array:
    """Make an array of ones with the shape, dtype and device of ``x``."""
    sizes, wanted, where = _like("ones_like", x, dtype, device, shape)
    return full(sizes, 1, wanted, where)


def _on(where: Device, data: npt.NDArray[Any]) -> Array:
    if where.addressable and where.which is None:
        return Array._wrap(data, where)
    with where.activate():
        return Array._wrap(where.backend.upload(data), where)


def _built(where: Device, dtype: dtypes.DType, build: Callable[[Any], Any]) -> Array:
    """The result of ``build``, called with the device's array library, as ``dtype``."""
    if where.addressable:
        return Array._wrap(build(np).astype(dtype, copy=False), where)
    with where.activate():
        result = Array._wrap(build(where.xp), where)
    # CuPy does not cast to every dtype.
    return result.astype(dtype, copy=False)


def arange(
    start: Scalar | None = None,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
) -> Array:
    """Evenly spaced numbers from ``start`` up to but not including ``stop``; a single argument is ``stop``.

    Of complex arguments, as in NumPy, there are as many as of the real or of the imaginary parts, whichever are fewer:
    none where a part of ``step`` is 0 or does not lead to ``stop``. See :func:`linspace` for complex numbers.

    Raises:
        TypeError: neither is given; or bools are asked for, and the result would have more than two.
        ValueError: ``step`` is 0.
    """
    low, high = (0, start) if stop is None else (0 if start is None else start, stop)
    if high is None:
        raise TypeError("arange: expected stop")
    whole = type(low) is type(high) is type(step) is int
    if not whole and any(isinstance(n, Array) for n in (low, high, step)):
        return _counted_from(low, high, step, dtype, device)
    if step == 0:
        raise ValueError("arange: step: expected a number other than 0, got 0")
    if dtype is None:
        wanted = dtypes.default_int if whole else dtypes.result_type(low, high, step)
    else:
        wanted = dtypes.as_dtype(dtype)
    if wanted == dtypes.bool_ and (high - low) / step > 2:
        raise TypeError(f"arange: dtype: expected numbers for more than two elements, got {wanted}")
    where = _device(device)
    if traced_threads and (active := trace()) is not None:
        return active.call(arange, (low, high, step), {"dtype": wanted, "device": where})
    if not whole and not all(isinstance(n, int) for n in (low, high, step)):
        return _on(where, np.arange(low, high, step).astype(wanted))
    if max(abs(low), abs(high), abs(step)) < 2**62:
        return _built(where, wanted, lambda xp: xp.arange(low, high, step))
    # NumPy would turn integers beyond int64 into floats.
    exact: Any = wanted if wanted in dtypes.INTS else None
    return _on(where, np.arange(low, high, step, dtype=exact).astype(wanted))


def _counted_from(
    low: Any, high: Any, step: Any, dtype: npt.DTypeLike | None, device: Device | str | None
) -> Array:
    """:func:`arange` with arrays as arguments; reads their values, which determine the size."""
    numbers = [n._number() if isinstance(n, Array) else n for n in (low, high, step)]
    wanted = dtypes.result_type(low, high, step) if dtype is None else dtypes.as_dtype(dtype)
    where = Device(device) if device is not None else device_of((low, high, step))
    arrays = [n for n in (low, step) if isinstance(n, Array)]
    if not tape.recording(arrays):
        return arange(*numbers, dtype=wanted, device=where)
    indices = arange(len(np.arange(*numbers)), dtype=dtypes.float64, device=where)
    wide = dtypes.result_type(dtypes.float64, wanted)
    start, each = (n.astype(wide) if isinstance(n, Array) else n for n in (low, step))
    result: Array = indices * each + start
    return result.astype(wanted)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array:
    """Make a matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    kind = bool if dtypes.info(wanted).extension else wanted
    where = _device(device)
    if traced_threads and (active := trace()) is not None:
        return active.call(eye, (N, M, k, wanted), {"device": where})
    if where.addressable and kind is wanted:
        if type(N) is not int or type(k) is not int or M is not None or not -N < k < N:
            return Array._wrap(np.eye(N, M, k, wanted), where)
        data = np.zeros((N, N), wanted)
        ones = data.diagonal(k)
        ones.flags.writeable = True
        ones.fill(1)
        return Array._wrap(data, where)
    return _built(where, wanted, lambda xp: xp.eye(N, M, k=k, dtype=kind))


def identity(n: int, dtype: npt.DTypeLike | None = None, *, device: Device | str | None = None) -> Array:
    """Make the identity matrix of ``n`` rows."""
    return eye(n, dtype=dtype, device=device)


def tri(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: npt.DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array:
    """Make a matrix with ones on and below the ``k``-th diagonal and zeros above."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    where = _device(device)
    if traced_threads and (active := trace()) is not None:
        return active.call(tri, (N, M, k, wanted), {"device": where})
    if allows_numpy(where):
        return _built(where, wanted, lambda xp: xp.tri(N, M, k, dtype=bool))
    return _triangle(N, N if M is None else M, k, where).astype(wanted, copy=False)


def _triangle(rows: int, columns: int, k: int, where: Device) -> Array:
    """:func:`tri` in bool, by one comparison."""
    last = arange(k, rows + k, dtype=dtypes.int64, device=where)
    indices = arange(columns, dtype=dtypes.int64, device=where)
    result: Array = FUNCTIONS["greater_equal"](FUNCTIONS["reshape"](last, (-1, 1)), indices)
    return result
