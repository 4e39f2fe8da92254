"""The fft extension of the Array API standard, as far as real dtypes go.

The frequencies and the shifts work. Transforms take or return complex numbers, for which cukern has no dtype:
each raises a TypeError that says so.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import dtypes
from . import namespace as ops
from .array import Array
from .array.creation import asarray
from .device import Device
from .elementwise.operands import normalize_axes, require_array
from .namespace.hints import MODULES, missing

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _refuse(name: str) -> NoReturn:
    raise TypeError(
        f"{name}: a Fourier transform makes or takes complex numbers, and cukern has no complex dtype; "
        "numpy.asarray(x) or cupy.asarray(x) share the memory with a library that has"
    )


def fft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("fft")


def ifft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("ifft")


def fftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("fftn")


def ifftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("ifftn")


def rfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("rfft")


def irfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("irfft")


def rfftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("rfftn")


def irfftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("irfftn")


def hfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("hfft")


def ihfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> NoReturn:
    """Refused with a TypeError: cukern has no complex dtype."""
    _refuse("ihfft")


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
    places = normalize_axes(axes, x.ndim, name)
    halves = tuple((-(x.shape[i] // 2) if back else x.shape[i] // 2) for i in places)
    return ops.roll(x, halves, places)


def fftshift(x: Array, /, axes: int | tuple[int, ...] | None = None) -> Array:
    """Swap the halves of ``axes``, by default of all, so that frequency 0 is in the middle."""
    return _shifted(x, axes, "fftshift", False)


def ifftshift(x: Array, /, axes: int | tuple[int, ...] | None = None) -> Array:
    """The inverse of :func:`fftshift`."""
    return _shifted(x, axes, "ifftshift", True)


__getattr__, __dir__ = missing(__name__, __all__, MODULES["fft"], "numpy.fft")
