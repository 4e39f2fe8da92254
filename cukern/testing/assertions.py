"""Comparison of arrays with expected values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..device.host.checked import mode
from .shapes import index_of, near

#: Relative tolerance by dtype: some units in the last place, as sums and transcendental functions need.
RTOL: dict[dtypes.DType, float] = {
    dtypes.float16: 4e-3,
    dtypes.bfloat16: 3e-2,
    dtypes.float32: 1e-5,
    dtypes.float64: 1e-12,
    dtypes.complex64: 1e-5,
    dtypes.complex128: 1e-12,
}


def assert_close(
    actual: object,
    desired: object,
    rtol: float | None = None,
    atol: Any = None,
    dtype: Any = None,
) -> None:
    """Raise unless ``actual`` equals ``desired`` to within ``atol + rtol * abs(desired)`` at every element.

    Values are compared in float64 or complex128 on the host. NaN equals NaN, and an infinity itself; of complex
    numbers without finite parts each part. Integers and bools must be equal.

    A sum of larger numbers that cancel has the rounding errors of those. Their size belongs in ``atol``, element
    by element; one number for all accepts zeros in the place of whatever is smaller.

    Args:
        actual: a cukern or NumPy array.
        desired: an array of the same shape, or one Python number for all elements.
        rtol: the relative tolerance; that of the dtype of ``actual`` in :data:`RTOL` when None.
        atol: the absolute tolerance, one number or an array that broadcasts to the shape; when None, ``rtol`` times the
            dtype's smallest normal number, below which numbers are no closer to each other.
        dtype: the required dtype of ``actual``; when None, that of ``desired`` if it is a cukern array, else any.

    Raises:
        AssertionError: the message names the dtypes, the shapes, or the worst element.
        KernelFault: launches are checked, and nothing has written an element of an array from ``ck.empty``.

    >>> import cukern as ck
    >>> assert_close(ck.asarray([1.0, 2.0]), [1.0, 2.000001])

    A product's elements, each by the sum of the magnitudes of its terms:

    >>> a, b = ck.linspace(-1, 1, 12).reshape((3, 4)), ck.linspace(-2, 3, 20).reshape((4, 5))
    >>> x, y = a.numpy().astype("float64"), b.numpy().astype("float64")
    >>> assert_close(a @ b, x @ y, atol=1e-6 * (abs(x) @ abs(y)))
    """
    got, want = _values(actual), _values(desired)
    wanted = desired.dtype if dtype is None and isinstance(desired, Array) else dtype
    if wanted is not None and got.dtype != dtypes.as_dtype(wanted):
        raise AssertionError(f"dtype: expected {dtypes.as_dtype(wanted)}, got {got.dtype}")
    if isinstance(desired, (bool, int, float, complex)):
        want = np.full(got.shape, desired)
    if got.shape != want.shape:
        raise AssertionError(f"shape: expected {want.shape}, got {got.shape}")
    if got.dtype not in RTOL and want.dtype.kind in "biu":
        _check(got, want, got == want, "must be equal")
        return
    relative = RTOL.get(got.dtype, 0.0) if rtol is None else rtol
    rule = f"allowed: rtol={relative:g}"
    if atol is None:
        limits = ml_dtypes.finfo(got.dtype) if got.dtype in RTOL else None  # type: ignore[no-untyped-call]
        absolute = np.asarray(relative * float(limits.smallest_normal) if limits else 0.0)
    else:
        absolute = np.asarray(atol, np.float64)
        rule += f", atol={'up to ' if absolute.ndim else ''}{absolute.max(initial=0):g}"
    _check_near(got, want, absolute, relative, rule)


def _check_near(
    got: npt.NDArray[Any], want: npt.NDArray[Any], absolute: Any, relative: float, rule: str
) -> None:
    wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    a, b = got.astype(wide), want.astype(wide)
    _check(a, b, _agreeing(a, b, absolute, relative), rule)


def _values(x: object) -> npt.NDArray[Any]:
    if not isinstance(x, Array):
        return np.asarray(x)
    if mode.active():
        mode.read(x, "a comparison")
    return x._fetched()


def _agreeing(a: Any, b: Any, absolute: Any, relative: float) -> Any:
    """Where ``a`` is near ``b``, equal to it or NaN as it is; of complex numbers the whole or each part."""
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = np.where(np.isfinite(b), absolute + relative * np.abs(b), -1.0)
        whole = np.abs(a - b) <= allowed
    if not np.iscomplexobj(b):
        return near(a, b, allowed)
    return whole | (
        _agreeing(a.real, b.real, absolute, relative) & _agreeing(a.imag, b.imag, absolute, relative)
    )


def _check(a: npt.NDArray[Any], b: npt.NDArray[Any], good: npt.NDArray[np.bool_], rule: str) -> None:
    if good.all():
        return
    with np.errstate(invalid="ignore"):
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        error = np.abs(a.astype(wide) - b.astype(wide))
    error = np.where(good, -1.0, np.where(np.isnan(error), np.inf, error))
    worst = index_of(int(np.argmax(error)), error.shape)
    raise AssertionError(
        f"{int((~good).sum())} of {good.size} elements differ ({rule}); the worst is at {worst}: "
        f"actual {a[worst]}, desired {b[worst]}, difference {error[worst]:.3g}"
    )
