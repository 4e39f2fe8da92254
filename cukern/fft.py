"""The fft extension of the Array API standard, and the transforms of two axes that NumPy has beside it.

Transforms of half types are computed in float32, of integers in the default floating dtype. They run in NumPy's
pocketfft on the host and in cuFFT, through CuPy, which caches its plans, on a GPU; all are differentiable to any order.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import dtypes
from . import namespace as ops
from .array import Array
from .array.creation import asarray, empty, zeros
from .array.host_data import quiet
from .array.layout import Layout, address, fresh_layout
from .array.mapping import mapped, over_axis
from .autodiff import tape
from .cache import Cache, options_key
from .device import HERE, Device
from .device.cuda import cufft
from .device.cuda.libraries import needed
from .elementwise.complex_rows import _conj_times, _times_real
from .elementwise.operands import normalize_axes, normalize_axis, recorded, require_array
from .elementwise.ufunc import one_out, written
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


class _Transform(NamedTuple):
    """A function of numpy.fft or cupy.fft, of several axes, and what it gives.

    Attributes:
        name: the function.
        shape, dtype: of the result.
        axes: the axes.
        norm: by what it divides.
        turned: whether to conjugate the complex ones of operand and result, one of which is real.
    """

    name: str
    shape: tuple[int, ...]
    dtype: dtypes.DType
    axes: tuple[int, ...]
    norm: str
    turned: bool = False

    @property
    def sizes(self) -> dict[str, list[int]]:
        """The numbers of samples, which only the inverse to real numbers is told."""
        return {"s": [self.shape[axis] for axis in self.axes]} if self.name == "irfftn" else {}


def _transformed(x: Array, what: _Transform) -> Array:
    """The result of a transform, not recorded."""
    if not x.size:
        return empty(what.shape, what.dtype, x.device)
    with tape.stop_recording() if tape.active() else HERE, x.device.activate():
        if x.device.addressable:
            return _by_numpy(x, what)
        planned = _planned.get((x._layout or x._planned(), what))
        if planned is not None:
            return planned(x)
        with needed(x.device.xp, "cufft"):
            return _by_cufft(x, what)


def _by_numpy(x: Array, what: _Transform) -> Array:
    """:func:`_transformed` on the host."""
    name, axes, norm, sizes = what.name, what.axes, what.norm, what.sizes
    data = np.conjugate(x._data) if what.turned and name == "irfftn" else x._data
    if len(axes) == 1:  # in fewer steps of NumPy's
        (size,) = sizes.get("s", (x.shape[axes[0]],))
        result = quiet().run(getattr(np.fft, name.removesuffix("n")), data, size, axes[0], norm)
    else:
        result = quiet().run(getattr(np.fft, name), data, axes=axes, norm=norm, **sizes)
    if what.turned and name == "rfftn":
        np.conjugate(result, out=result)
    return Array._wrap(np.ascontiguousarray(result.astype(what.dtype, copy=False)), x.device)


class _Planned:
    """A transform by a plan of cuFFT's, of arrays of a layout, and a factor before or after it.

    Args:
        x: the operand.
        what: the transform.
        factor: what the result is multiplied by.
    """

    __slots__ = ("_after", "_axes", "_before", "_factor", "_inverse", "_out", "_xp")

    def __init__(self, x: Array, what: _Transform, factor: float) -> None:
        to_real = what.name == "irfftn"
        self._xp, self._axes, self._inverse = x.device.xp, len(what.axes), to_real or what.name == "ifftn"
        self._out, self._factor = fresh_layout(x.device, what.dtype, what.shape), factor
        scale: Any = _conj_times if what.turned else _times_real
        # cuFFT overwrites the input of a transform to real numbers, which is therefore copied in any case.
        self._before = scale if to_real else None
        self._after = scale if not to_real and (what.turned or factor != 1) else None

    def __call__(self, x: Array) -> Array:
        """The result; the current device is that of ``x``."""
        x = x.contiguous() if self._before is None else self._before(x.contiguous(), self._factor)
        (result,) = new([self._out])
        cufft.transform(self._xp, x._data, result._data, self._axes, self._inverse)
        return result if self._after is None else self._after(result, self._factor)


#: By the layout of the operand, and the transform.
_planned: Cache[tuple[Layout, _Transform], _Planned] = Cache()


def _by_cufft(x: Array, what: _Transform) -> Array:
    """:func:`_transformed` on a GPU: the transform that divides by nothing, and a factor before or after it.

    cuFFT reads real numbers, too, as pairs: the address of the first has to be a multiple of a complex number's size.
    """
    name, shape, axes, norm = what.name, what.shape, what.axes, what.norm
    aligned = address(x._data) % dtypes.complex_of(x.dtype).itemsize == 0
    x = x if aligned else Array._wrap(x._data.copy(), x.device)
    xp, sizes = x.device.xp, shape if name == "irfftn" else x.shape
    n = 1 if norm == _UNSCALED[name] else math.prod(sizes[axis] for axis in axes)
    factor = 1 / (math.sqrt(n) if norm == "ortho" else n)
    long = max(sizes[axis] for axis in axes) > _LONGEST
    if not long and cufft.plans(xp) and cufft.has_plan(x.shape, shape, axes, "rfft" in name):
        planned = _Planned(x, what, factor)
        layout = x._layout or x._planned()
        if layout.aligned:
            _planned.keep((layout, what), planned)
        return planned(x)
    if what.turned and name == "irfftn":
        x, n = _conj_times(x, factor), 1
    if long:
        result = _of_long_axis(x, name, sizes, axes, what.dtype)
    else:
        result = getattr(xp.fft, name)(x._data, axes=axes, norm=_UNSCALED[name], **what.sizes)
    made = Array._wrap(xp.ascontiguousarray(result.astype(what.dtype, copy=False)), x.device)
    if what.turned and name == "rfftn":
        return _conj_times(made, factor)
    return made if n == 1 else _times_real(made, factor)


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
    return xp.moveaxis(result, -1, axis)


@mapped(over_axis("axes"))
def _whole(x: Array, axes: tuple[int, ...], norm: str, back: bool) -> Array:
    """The transform of complex numbers along all of ``axes``, or its inverse."""
    if not axes:
        return x
    result = _transformed(x, _Transform("ifftn" if back else "fftn", x.shape, x.dtype, axes, norm))
    return recorded(
        "ifft" if back else "fft",
        x,
        result,
        lambda g: _whole(g, axes, _ADJOINT[norm], not back),
        lambda t: _whole(t, axes, norm, back),
    )


def _weighted(x: Array, n: int, axis: int, inner: float) -> Array:
    """The ``n // 2 + 1`` frequencies, those times ``inner`` that stand for two of the whole transform."""
    weights = np.full(n // 2 + 1, inner)
    weights[:1] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = (-1, *(1,) * (x.ndim - axis - 1))
    return x * asarray(weights.reshape(shape), dtypes.info(x.dtype).real, x.device)


@mapped(over_axis("axes"))
def _half(x: Array, axes: tuple[int, ...], norm: str, turned: bool = False) -> Array:
    """The frequencies of real numbers along axes, of the last one the non-negative ones; ``turned``: conjugated."""
    axis = axes[-1]
    n = x.shape[axis]
    shape = (*x.shape[:axis], n // 2 + 1, *x.shape[axis + 1 :])
    result = _transformed(x, _Transform("rfftn", shape, dtypes.complex_of(x.dtype), axes, norm, turned))
    return recorded(
        "rfft",
        x,
        result,
        lambda g: _from_half(_weighted(g, n, axis, 0.5), n, axes, _ADJOINT[norm], turned),
        lambda t: _half(t, axes, norm, turned),
    )


@mapped(over_axis("axes"))
def _from_half(x: Array, n: int, axes: tuple[int, ...], norm: str, turned: bool = False) -> Array:
    """The real numbers of frequencies along axes, of the last one the non-negative ones of ``n``; or of conjugates."""
    axis = axes[-1]
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    result = _transformed(x, _Transform("irfftn", shape, dtypes.info(x.dtype).real, axes, norm, turned))
    return recorded(
        "irfft",
        x,
        result,
        lambda g: _weighted(_half(g, axes, _ADJOINT[norm], turned), n, axis, 2.0),
        lambda t: _from_half(t, n, axes, norm, turned),
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


def _all_sized(x: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """``x`` cut, or filled up with zeros, to the sizes of axes."""
    for n, axis in zip(sizes, axes, strict=True):
        x = _sized(x, n, axis)
    return x


def _sizes(
    x: Array, s: Any, axes: Any, name: str, half: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of a transform, and its number of samples along each; ``half``: the last is that of irfft.

    ``axes`` is one axis for a transform of one, and ``s`` its number of samples.
    """
    one = axes is not None and not isinstance(axes, Iterable)
    if one:
        axes, given = (axes,), None if s is None else [operator.index(s)]
    else:
        given = None if s is None else [-1 if n is None else operator.index(n) for n in s]
    if axes is None:
        axes = range(x.ndim) if given is None else range(-len(given), 0)
    dims = tuple(normalize_axis(operator.index(axis), x.ndim, name) for axis in axes)
    if given is not None and len(given) != len(dims):
        raise ValueError(f"{name}: s: expected a number for each of {len(dims)} axes, got {len(given)}")
    have = [x.shape[place] for place in dims]
    if half and have:
        have[-1] = 2 * (have[-1] - 1)
    wanted = (
        have if given is None else [h if n == -1 and not one else n for n, h in zip(given, have, strict=True)]
    )
    for n in wanted:
        if n < 1:
            raise ValueError(f"{name}: {'n' if one else 's'}: expected at least 1 sample, got {n}")
    return dims, tuple(wanted)


def _along_all(
    x: Array, dims: Sequence[int], sizes: Sequence[int], norm: str, back: bool, in_order: bool = False
) -> Array:
    """The transform of complex numbers along axes, with the number of samples of each.

    Distinct axes are one transform of the library. If an axis comes twice, there is one for each axis: from the last to
    the first, or from the first to the last if ``in_order``.
    """
    if len(set(dims)) == len(dims):
        return _whole(_all_sized(x, sizes, dims), tuple(dims), norm, back)
    pairs = list(zip(dims, sizes, strict=True))
    for place, n in pairs if in_order else reversed(pairs):
        x = _whole(_sized(x, n, place), (place,), norm, back)
    return x


#: A transform of an array, and the operand that it takes.
_Found = tuple[Callable[[Array], Array], Array]


def _complex_of(x: Any, s: Any, axes: Any, norm: str | None, name: str, back: bool) -> _Found:
    """The transform of complex numbers."""
    x = _complex(x, name)
    dims, sizes = _sizes(x, s, axes, name)
    kind = _norm(norm, name)
    if len(set(dims)) < len(dims):
        return partial(_along_all, dims=dims, sizes=sizes, norm=kind, back=back), x
    return partial(_whole, axes=dims, norm=kind, back=back), _all_sized(x, sizes, dims)


def _half_of(x: Any, s: Any, axes: Any, norm: str | None, name: str, turned: bool) -> _Found:
    """The transform of real numbers to frequencies; ``turned``: to their conjugates, which divides as the inverse."""
    x = _real(x, name)
    dims, sizes = _sizes(x, s, axes, name)
    kind = _norm(norm, name)
    if not dims:
        raise ValueError(f"{name}: axes: expected at least one")
    if len(set(dims)) == len(dims):
        kind = _ADJOINT[kind] if turned else kind
        return partial(_half, axes=dims, norm=kind, turned=turned), _all_sized(x, sizes, dims)
    (*others, last), (*samples, count) = dims, sizes

    def one_by_one(x: Array) -> Array:
        return _along_all(_half(_sized(x, count, last), (last,), kind), others, samples, kind, False)

    return one_by_one, x


def _real_of(x: Any, s: Any, axes: Any, norm: str | None, name: str, turned: bool) -> _Found:
    """The transform of frequencies to real numbers; ``turned``: of their conjugates, which the inverse divides."""
    x = _complex(x, name)
    dims, sizes = _sizes(x, s, axes, name, half=True)
    kind = _norm(norm, name)
    if not dims:
        raise ValueError(f"{name}: axes: expected at least one")
    (*others, last), (*samples, count) = dims, sizes
    if len(set(dims)) == len(dims):
        kind = _ADJOINT[kind] if turned else kind
        x = _all_sized(x, (*samples, count // 2 + 1), dims)
        return partial(_from_half, n=count, axes=dims, norm=kind, turned=turned), x

    def one_by_one(x: Array) -> Array:
        whole = _along_all(x, others, samples, kind, True, in_order=True)
        return _from_half(_sized(whole, count // 2 + 1, last), count, (last,), kind)

    return one_by_one, x


#: What :func:`_applied` found for a layout and options, if it neither casts nor cuts the operand.
_found: Cache[tuple[Any, ...], Callable[[Array], Array]] = Cache()


def _applied(
    find: Callable[..., _Found],
    x: Any,
    s: Any,
    axes: Any,
    norm: str | None,
    name: str,
    option: bool,
    out: Array | None,
) -> Array:
    """The transform that ``find`` gives for an operand and options, or ``out`` with its elements."""
    layout = getattr(x, "_layout", None)
    key = None if layout is None else options_key((layout, s, axes, norm, name))
    transform = None if key is None else _found.get(key)
    if transform is None:
        transform, operand = find(x, s, axes, norm, name, option)
        if key is not None and operand is x:
            _found.keep(key, transform)
        x = operand
    result = transform(x)
    return result if out is None else written(name, result, one_out(name, out))


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
    return _applied(_complex_of, x, n, axis, norm, "fft", False, out)


def ifft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`fft`; arguments as there."""
    return _applied(_complex_of, x, n, axis, norm, "ifft", True, out)


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
    return _applied(_complex_of, x, s, axes, norm, "fftn", False, out)


def ifftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`fftn`; arguments as there."""
    return _applied(_complex_of, x, s, axes, norm, "ifftn", True, out)


def fft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """:func:`fftn` along two axes, by default the last."""
    return _applied(_complex_of, x, s, axes, norm, "fft2", False, out)


def ifft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """The inverse of :func:`fft2`."""
    return _applied(_complex_of, x, s, axes, norm, "ifft2", True, out)


def rfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The ``n // 2 + 1`` non-negative frequencies of :func:`fft` of real numbers; the others are their conjugates.

    Raises:
        TypeError: ``x`` is complex; other errors as in :func:`fft`.
    """
    return _applied(_half_of, x, n, axis, norm, "rfft", False, out)


def irfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`rfft`: ``n`` real numbers, by default ``2 * (size - 1)``.

    The imaginary part of frequency 0, and of the last one where ``n`` is even, is not read.
    """
    return _applied(_real_of, x, n, axis, norm, "irfft", False, out)


def rfftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """:func:`rfft` along the last of several axes, then :func:`fftn` along the others; arguments as there."""
    return _applied(_half_of, x, s, axes, norm, "rfftn", False, out)


def irfftn(
    x: Array, /, s: Axes = None, axes: Axes = None, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`rfftn`; ``s`` is the shape of the result along the axes."""
    return _applied(_real_of, x, s, axes, norm, "irfftn", False, out)


def rfft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """:func:`rfftn` along two axes, by default the last."""
    return _applied(_half_of, x, s, axes, norm, "rfft2", False, out)


def irfft2(
    x: Array,
    /,
    s: Axes = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: Array | None = None,
) -> Array:
    """The inverse of :func:`rfft2`."""
    return _applied(_real_of, x, s, axes, norm, "irfft2", False, out)


def hfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """:func:`fft` of samples of which ``x`` has the first half and the others are the conjugates: real numbers."""
    return _applied(_real_of, x, n, axis, norm, "hfft", True, out)


def ihfft(
    x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", out: Array | None = None
) -> Array:
    """The inverse of :func:`hfft`: the first ``n // 2 + 1`` samples.

    Raises:
        TypeError: ``x`` is complex; other errors as in :func:`fft`.
    """
    return _applied(_half_of, x, n, axis, norm, "ihfft", True, out)


def _frequencies(
    name: str, n: int, d: float, dtype: npt.DTypeLike | None, device: Device | str | None
) -> Array:
    if n < 1:
        raise ValueError(f"{name}: n: expected at least 1, got {n}")
    return asarray(getattr(np.fft, name)(n, d), dtypes.floating(dtype, f"{name}: dtype"), device)


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
