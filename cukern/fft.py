"""The fft extension of the Array API standard, and the transforms of two axes that NumPy has beside it.

Transforms of half types are computed in float32, of integers in the default floating dtype. They run in NumPy's
pocketfft on the host and in cuFFT, through CuPy, which caches its plans, on a GPU; all are differentiable to any order.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from . import namespace as ops
from .array import Array
from .array.creation import asarray, empty, zeros
from .array.layout import address, fresh_layout
from .autodiff import tape
from .device import Device
from .device.cuda import cufft
from .device.cuda.libraries import needed
from .elementwise.complex_rows import _conj_times
from .elementwise.operands import normalize_axes, normalize_axis, on_device, recorded, require_array
from .elementwise.table import multiply
from .elementwise.ufunc import one_out, written
from .kernel.by_numpy import quiet
from .kernel.plan import allocate, new
from .namespace.hints import missing

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

#: The norm by which a transform divides by nothing, whose results cuFFT itself makes.
_UNSCALED = {"fftn": "backward", "rfftn": "backward", "ifftn": "forward", "irfftn": "forward"}
#: The norm of a transform's adjoint, by that of the transform.
_ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
#: The most elements along an axis in CuPy's functions.
_LONGEST = 2**31 - 1
Axes = Sequence[int] | None


def _norm(norm: str | None, name: str) -> str:
    wanted = "backward" if norm is None else norm
    if wanted not in _ADJOINT:
        raise ValueError(f"{name}: norm: expected 'backward', 'ortho' or 'forward', got {norm!r}")
    return wanted


def _complex(x: Any, name: str) -> Array:
    """``x`` as complex numbers."""
    x = require_array(x, name)
    dtype = x.dtype if x.dtype in dtypes.INEXACT else dtypes.get_default_dtype()
    return ops.astype(x, dtypes.complex_of(dtype), copy=False)


def _real(x: Any, name: str) -> Array:
    """``x`` as float32 or float64."""
    x = require_array(x, name)
    if x.dtype in dtypes.COMPLEX:
        raise TypeError(f"{name}: x: expected real numbers, got {x.dtype}")
    dtype = x.dtype if x.dtype in dtypes.FLOATS else dtypes.get_default_dtype()
    return ops.astype(x, dtypes.info(dtype).acc, copy=False)


@on_device
def _transformed(
    x: Array, name: str, shape: Sequence[int], dtype: dtypes.DType, turned: bool = False, **options: Any
) -> Array:
    """The result of a function of numpy.fft or cupy.fft, of this shape and dtype.

    Args:
        x: the operand.
        name: the function.
        shape: the shape of the result.
        dtype: the dtype of the result.
        turned: whether to conjugate the complex ones of operand and result, one of which is real.
        options: keywords of the function.
    """
    if not x.size:
        return empty(tuple(shape), dtype, x.device)
    xp = x.device.xp
    if not x.device.addressable:
        with needed(xp, "cufft"):
            return _by_cufft(x, name, shape, dtype, turned, **options)
    data = np.conjugate(x._data) if turned and name == "irfftn" else x._data
    if len(options["axes"]) == 1:  # in fewer steps of NumPy's
        ((axis,), norm) = options["axes"], options["norm"]
        (size,) = options.get("s", (x.shape[axis],))
        result = quiet().run(getattr(xp.fft, name.removesuffix("n")), data, size, axis, norm)
    else:
        result = quiet().run(getattr(xp.fft, name), data, **options)
    if turned and name == "rfftn":
        np.conjugate(result, out=result)
    return Array._wrap(xp.ascontiguousarray(result.astype(dtype, copy=False)), x.device)


def _by_cufft(
    x: Array,
    name: str,
    shape: Sequence[int],
    dtype: dtypes.DType,
    turned: bool,
    axes: Sequence[int],
    norm: str,
    **options: Any,
) -> Array:
    """:func:`_transformed` on a GPU: the transform that divides by nothing, and a factor before or after it.

    cuFFT reads real numbers, too, as pairs: the address of the first has to be a multiple of a complex number's size.
    """
    if address(x._data) % dtypes.complex_of(x.dtype).itemsize:
        x = Array._wrap(x._data.copy(), x.device)
    xp, sizes = x.device.xp, shape if name == "irfftn" else x.shape
    n = 1 if norm == _UNSCALED[name] else math.prod(sizes[axis] for axis in axes)
    factor = 1 / (math.sqrt(n) if norm == "ortho" else n)
    if turned and name == "irfftn":
        x, n = _conj_times(x, factor), 1
    if max(sizes[axis] for axis in axes) > _LONGEST:
        result = Array._wrap(_of_long_axis(x, name, sizes, axes, dtype), x.device)
    elif getattr(xp, "__name__", "") == "cupy" and cufft.has_plan(x.shape, shape, axes, "rfft" in name):
        x = x.contiguous()
        if name == "irfftn" and not turned:  # cuFFT writes to the input of this transform
            x, n = Array._wrap(_scaled(x, factor), x.device), 1
        (result,) = new([fresh_layout(x.device, dtype, tuple(shape))])
        cufft.transform(xp, x._data, result._data, len(axes), name in ("ifftn", "irfftn"))
    else:
        made = getattr(xp.fft, name)(x._data, axes=axes, norm=_UNSCALED[name], **options)
        result = Array._wrap(xp.ascontiguousarray(made.astype(dtype, copy=False)), x.device)
    if turned and name == "rfftn":
        return _conj_times(result, factor)
    return result if n == 1 else Array._wrap(_scaled(result, factor), x.device)


def _of_long_axis(x: Array, name: str, sizes: Sequence[int], axes: Sequence[int], dtype: dtypes.DType) -> Any:
    """The transform along an axis whose size 32 bits do not hold, which CuPy's functions do not take."""
    if len(axes) > 1:
        raise ValueError(
            f"{name}: x: expected at most {_LONGEST} elements along each of several axes, got {sizes}"
        )
    (axis,), xp = axes, x.device.xp
    n = sizes[axis]
    rows = ops.moveaxis(x, axis, -1).contiguous()._data
    if name == "irfftn":  # cuFFT overwrites the input
        rows = rows.copy()
    count = n // 2 + 1 if name == "rfftn" else n
    result = allocate(x.device, (*rows.shape[:-1], count), dtype)
    plan = importlib.import_module("cupy.cuda.cufft").XtPlanNd(
        (n,), None, 1, rows.shape[-1], rows.dtype, None, 1, count, result.dtype, result.size // count,
        dtypes.complex_of(dtype), order="C", last_axis=-1, last_size=n,
    )  # fmt: skip
    plan.fft(rows, result, 1 if name in ("ifftn", "irfftn") else -1)
    return xp.ascontiguousarray(xp.moveaxis(result, -1, axis))


def _scaled(x: Array, factor: float) -> Any:
    """An ndarray of ``x`` times a number, both parts of complex numbers by themselves; no view, which CuPy copies."""
    result = multiply(Array._wrap(x._data.view(dtypes.info(x.dtype).real), x.device), factor)._data
    return type(result)(x.shape, x.dtype, result.data)


def _whole(x: Array, axes: tuple[int, ...], norm: str, back: bool) -> Array:
    """The transform of complex numbers along all of ``axes``, or its inverse."""
    if not axes:
        return x
    with tape.stop_recording():
        result = _transformed(x, "ifftn" if back else "fftn", x.shape, x.dtype, axes=axes, norm=norm)
    return recorded("ifft" if back else "fft", x, result, lambda g: _whole(g, axes, _ADJOINT[norm], not back))


def _weighted(x: Array, n: int, axis: int, inner: float) -> Array:
    """The ``n // 2 + 1`` frequencies, those times ``inner`` that stand for two of the whole transform."""
    weights = np.full(n // 2 + 1, inner)
    weights[:1] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = (-1, *(1,) * (x.ndim - axis - 1))
    return x * asarray(weights.reshape(shape), dtypes.info(x.dtype).real, x.device)


def _half(x: Array, axes: tuple[int, ...], norm: str, turned: bool = False) -> Array:
    """The frequencies of real numbers along axes, of the last one the non-negative ones; ``turned``: conjugated."""
    axis = axes[-1]
    n = x.shape[axis]
    shape = (*x.shape[:axis], n // 2 + 1, *x.shape[axis + 1 :])
    with tape.stop_recording():
        result = _transformed(x, "rfftn", shape, dtypes.complex_of(x.dtype), turned, axes=axes, norm=norm)
    return recorded(
        "rfft", x, result, lambda g: _from_half(_weighted(g, n, axis, 0.5), n, axes, _ADJOINT[norm], turned)
    )


def _from_half(x: Array, n: int, axes: tuple[int, ...], norm: str, turned: bool = False) -> Array:
    """The real numbers of frequencies along axes, of the last one the non-negative ones of ``n``; or of conjugates."""
    axis = axes[-1]
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    sizes, dtype = [shape[place] for place in axes], dtypes.info(x.dtype).real
    with tape.stop_recording():
        result = _transformed(x, "irfftn", shape, dtype, turned, s=sizes, axes=axes, norm=norm)
    return recorded(
        "irfft", x, result, lambda g: _weighted(_half(g, axes, _ADJOINT[norm], turned), n, axis, 2.0)
    )


def _sized(x: Array, n: int, axis: int) -> Array:
    """``x`` cut, or filled up with zeros, to the size ``n`` of an axis."""
    have = x.shape[axis]
    if n < have:
        return x[(slice(None),) * axis + (slice(n),)]
    if n == have:
        return x
    more = zeros((*x.shape[:axis], n - have, *x.shape[axis + 1 :]), x.dtype, x.device)
    return ops.concat([x, more], axis=axis)


def _count(n: Any, default: int, name: str, argument: str = "n") -> int:
    """A number of samples."""
    count = default if n is None else operator.index(n)
    if count < 1:
        raise ValueError(f"{name}: {argument}: expected at least 1 sample, got {count}")
    return count


def _sizes(x: Array, s: Any, axes: Any, name: str, half: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """The axes of a transform of several, and its number of samples along each; ``half``: the last is that of irfft."""
    given = None if s is None else [-1 if n is None else operator.index(n) for n in s]
    if axes is None and given is not None:
        axes = tuple(range(-len(given), 0))
    given_axes = range(x.ndim) if axes is None else axes
    dims = tuple(normalize_axis(operator.index(axis), x.ndim, name) for axis in given_axes)
    if given is not None and len(given) != len(dims):
        raise ValueError(f"{name}: s: expected a number for each of {len(dims)} axes, got {len(given)}")
    have = [x.shape[place] for place in dims]
    if half and have:
        have[-1] = 2 * (have[-1] - 1)
    wanted = have if given is None else [h if n == -1 else n for n, h in zip(given, have, strict=True)]
    return dims, [_count(n, 0, name, "s") for n in wanted]


def _several(x: Any, s: Any, axes: Any, norm: str | None, name: str, back: bool) -> Array:
    x = _complex(x, name)
    dims, sizes = _sizes(x, s, axes, name)
    kind = _norm(norm, name)
    return _along_all(x, dims, sizes, kind, back)


def _along_all(
    x: Array, dims: Sequence[int], sizes: Sequence[int], norm: str, back: bool, in_order: bool = False
) -> Array:
    """The transform of complex numbers along axes, with the number of samples of each.

    Distinct axes are one transform of the library. If an axis comes twice, there is one for each axis: from the last to
    the first, or from the first to the last if ``in_order``.
    """
    if len(set(dims)) == len(dims):
        for place, n in zip(dims, sizes, strict=True):
            x = _sized(x, n, place)
        return _whole(x, tuple(dims), norm, back)
    pairs = list(zip(dims, sizes, strict=True))
    for place, n in pairs if in_order else reversed(pairs):
        x = _whole(_sized(x, n, place), (place,), norm, back)
    return x


def fft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The Fourier transform along an axis: ``y[k] = sum over j of x[j] * exp(-2j * pi * j * k / n)``.

    Args:
        x: any array.
        n: the number of samples, to which the axis is cut or filled up with zeros; its size by default.
        axis: the axis.
        norm: ``"backward"`` divides the inverse by ``n``, ``"forward"`` the transform, ``"ortho"`` both by its root.
        out: the array to write the result to.

    Returns:
        complex64, or complex128 for float64 and complex128.

    Raises:
        AxisError: there is no such axis.
        ValueError: ``n`` is less than 1, or there is no such ``norm``.

    >>> import cukern as ck
    >>> ck.fft.fft(ck.asarray([1.0, 0.0, -1.0, 0.0])).tolist()
    [0j, (2+0j), 0j, (2+0j)]
    """
    return written("fft", _single(x, n, axis, norm, "fft", False), one_out("fft", out))


def _single(x: Any, n: int | None, axis: int, norm: str | None, name: str, back: bool) -> Array:
    x = _complex(x, name)
    place = normalize_axis(axis, x.ndim, name)
    kind = _norm(norm, name)
    return _whole(_sized(x, _count(n, x.shape[place], name), place), (place,), kind, back)


def ifft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`fft`; arguments as there."""
    return written("ifft", _single(x, n, axis, norm, "ifft", True), one_out("ifft", out))


def fftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The Fourier transform along several axes.

    Args:
        x: any array.
        s: the number of samples along each axis, -1 or None for its size.
        axes: the axes; by default all, or the last ones where ``s`` is given. One that is named twice is
            transformed twice.
        norm: as in :func:`fft`.
        out: the array to write the result to.

    Raises:
        AxisError: there is no such axis.
        ValueError: ``s`` and ``axes`` differ in length, or a number of samples is less than 1.
    """
    return written("fftn", _several(x, s, axes, norm, "fftn", False), one_out("fftn", out))


def ifftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`fftn`; arguments as there."""
    return written("ifftn", _several(x, s, axes, norm, "ifftn", True), one_out("ifftn", out))


def fft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """:func:`fftn` along two axes, by default the last."""
    return written("fft2", _several(x, s, axes, norm, "fft2", False), one_out("fft2", out))


def ifft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """The inverse of :func:`fft2`."""
    return written("ifft2", _several(x, s, axes, norm, "ifft2", True), one_out("ifft2", out))


def rfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The ``n // 2 + 1`` non-negative frequencies of :func:`fft` of real numbers; the others are their conjugates.

    Raises:
        TypeError: ``x`` is complex; other errors as in :func:`fft`.
    """
    x = _real(x, "rfft")
    place = normalize_axis(axis, x.ndim, "rfft")
    return written(
        "rfft",
        _half(_sized(x, _count(n, x.shape[place], "rfft"), place), (place,), _norm(norm, "rfft")),
        one_out("rfft", out),
    )


def irfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`rfft`: ``n`` real numbers, by default ``2 * (size - 1)``.

    The imaginary part of frequency 0, and of the last one where ``n`` is even, is not read.
    """
    return written(
        "irfft",
        _real_inverse(_complex(x, "irfft"), n, axis, _norm(norm, "irfft"), "irfft"),
        one_out("irfft", out),
    )


def _real_inverse(x: Array, n: int | None, axis: int, norm: str, name: str, turned: bool = False) -> Array:
    place = normalize_axis(axis, x.ndim, name)
    count = _count(n, 2 * (x.shape[place] - 1), name)
    return _from_half(_sized(x, count // 2 + 1, place), count, (place,), norm, turned)


def rfftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """:func:`rfft` along the last of several axes, then :func:`fftn` along the others; arguments as there."""
    return written("rfftn", _half_several(x, s, axes, norm, "rfftn"), one_out("rfftn", out))


def _half_several(x: Any, s: Any, axes: Any, norm: str | None, name: str) -> Array:
    x = _real(x, name)
    dims, sizes = _sizes(x, s, axes, name)
    kind = _norm(norm, name)
    if not dims:
        raise ValueError(f"{name}: axes: expected at least one")
    if len(set(dims)) < len(dims):
        half = _half(_sized(x, sizes[-1], dims[-1]), dims[-1:], kind)
        return _along_all(half, dims[:-1], sizes[:-1], kind, False)
    for dim, n in zip(dims, sizes, strict=True):
        x = _sized(x, n, dim)
    return _half(x, dims, kind)


def irfftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`rfftn`; ``s`` is the shape of the result along the axes."""
    return written("irfftn", _real_several(x, s, axes, norm, "irfftn"), one_out("irfftn", out))


def _real_several(x: Any, s: Any, axes: Any, norm: str | None, name: str) -> Array:
    x = _complex(x, name)
    dims, sizes = _sizes(x, s, axes, name, half=True)
    kind = _norm(norm, name)
    if not dims:
        raise ValueError(f"{name}: axes: expected at least one")
    if len(set(dims)) < len(dims):
        whole = _along_all(x, dims[:-1], sizes[:-1], kind, True, in_order=True)
        return _from_half(_sized(whole, sizes[-1] // 2 + 1, dims[-1]), sizes[-1], dims[-1:], kind)
    for dim, n in zip(dims[:-1], sizes[:-1], strict=True):
        x = _sized(x, n, dim)
    x = _sized(x, sizes[-1] // 2 + 1, dims[-1])
    return _from_half(x, sizes[-1], dims, kind)


def rfft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """:func:`rfftn` along two axes, by default the last."""
    return written("rfft2", _half_several(x, s, axes, norm, "rfft2"), one_out("rfft2", out))


def irfft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """The inverse of :func:`rfft2`."""
    return written("irfft2", _real_several(x, s, axes, norm, "irfft2"), one_out("irfft2", out))


def hfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """:func:`fft` of samples of which ``x`` has the first half and the others are the conjugates: real numbers."""
    return written(
        "hfft",
        _real_inverse(_complex(x, "hfft"), n, axis, _ADJOINT[_norm(norm, "hfft")], "hfft", turned=True),
        one_out("hfft", out),
    )


def ihfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`hfft`: the first ``n // 2 + 1`` samples.

    Raises:
        TypeError: ``x`` is complex; other errors as in :func:`fft`.
    """
    x = _real(x, "ihfft")
    place = normalize_axis(axis, x.ndim, "ihfft")
    kind = _ADJOINT[_norm(norm, "ihfft")]
    return written(
        "ihfft",
        _half(_sized(x, _count(n, x.shape[place], "ihfft"), place), (place,), kind, turned=True),
        one_out("ihfft", out),
    )


def _frequencies(
    name: str, n: int, d: float, dtype: npt.DTypeLike | None, device: Device | str | None
) -> Array:
    if n < 1:
        raise ValueError(f"{name}: n: expected at least 1, got {n}")
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.info(wanted).kind != "f":
        raise TypeError(f"{name}: dtype: expected a floating dtype, got {wanted}")
    return asarray(getattr(np.fft, name)(n, d), wanted, device)


def fftfreq(
    n: int, d: float = 1.0, device: Device | str | None = None, *, dtype: npt.DTypeLike | None = None
) -> Array:
    """The frequencies of a transform of ``n`` samples, ``d`` apart, in cycles per unit of ``d``: shape (n,).

    Raises:
        TypeError: ``dtype`` is not floating.
        ValueError: ``n`` is less than 1.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int, d: float = 1.0, device: Device | str | None = None, *, dtype: npt.DTypeLike | None = None
) -> Array:
    """The non-negative frequencies of a transform of ``n`` real samples: shape (n // 2 + 1,); see :func:`fftfreq`."""
    return _frequencies("rfftfreq", n, d, dtype, device)


def _shifted(x: Array, axes: Any, name: str, back: bool) -> Array:
    x = require_array(x, name)
    dims = normalize_axes(axes, x.ndim, name)
    halves = tuple((-(x.shape[i] // 2) if back else x.shape[i] // 2) for i in dims)
    return ops.roll(x, halves, dims)


def fftshift(x: Array, /, axes: int | tuple[int, ...] | None = None) -> Array:
    """Swap the halves of ``axes``, by default of all, so that frequency 0 is in the middle."""
    return _shifted(x, axes, "fftshift", False)


def ifftshift(x: Array, /, axes: int | tuple[int, ...] | None = None) -> Array:
    """The inverse of :func:`fftshift`."""
    return _shifted(x, axes, "ifftshift", True)


__getattr__, __dir__ = missing(__name__, __all__, numpys="numpy.fft")
