"""Elementwise functions to 40 digits, by mpmath (``pip install mpmath``): those that NumPy has not in long double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

_CONTEXT = mpmath.mp.clone()
_CONTEXT.dps = 40
#: The scale of gelu's approximation by tanh, as its definition has it.
_TANH_SCALE = _CONTEXT.sqrt(2 / _CONTEXT.pi)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + _CONTEXT.exp(-x))


#: By their names; each takes and returns mpmath's numbers.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "beta": _CONTEXT.beta,
    "betainc": lambda a, b, x: _CONTEXT.betainc(a, b, 0, x, regularized=True),
    "betaln": lambda a, b: _CONTEXT.log(abs(_CONTEXT.beta(a, b))),
    "digamma": _CONTEXT.digamma,
    "elu": lambda x, y: x if x > 0 else y * _CONTEXT.expm1(x),
    "erf": _CONTEXT.erf,
    "erfc": _CONTEXT.erfc,
    "erfcinv": lambda x: _CONTEXT.erfinv(1 - x),
    "erfinv": _CONTEXT.erfinv,
    "exp2": lambda x: _CONTEXT.power(2, x),
    "gamma": _CONTEXT.gamma,
    "gammainc": lambda a, x: _CONTEXT.gammainc(a, 0, x, regularized=True),
    "gammaincc": lambda a, x: _CONTEXT.gammainc(a, x, regularized=True),
    "gelu": lambda x: x * _CONTEXT.erfc(-x / _CONTEXT.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x * _sigmoid(2 * _TANH_SCALE * (x + _CONTEXT.mpf("0.044715") * x**3)),
    "i0": lambda x: _CONTEXT.besseli(0, x),
    "i0e": lambda x: _CONTEXT.besseli(0, x) * _CONTEXT.exp(-abs(x)),
    "i1": lambda x: _CONTEXT.besseli(1, x),
    "i1e": lambda x: _CONTEXT.besseli(1, x) * _CONTEXT.exp(-abs(x)),
    "j0": lambda x: _CONTEXT.besselj(0, x),
    "j1": lambda x: _CONTEXT.besselj(1, x),
    "leaky_relu": lambda x, y: x if x > 0 else y * x,
    "lerp": lambda x, y, z: x + z * (y - x),
    "lgamma": lambda x: _CONTEXT.log(abs(_CONTEXT.gamma(x))),
    "log_sigmoid": lambda x: -_CONTEXT.log1p(_CONTEXT.exp(-x)),
    "logit": lambda x: _CONTEXT.log(x / (1 - x)),
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: max(x, _CONTEXT.mpf(0)),
    "rsqrt": lambda x: 1 / _CONTEXT.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "sinc": _CONTEXT.sincpi,
    "softplus": lambda x: _CONTEXT.log1p(_CONTEXT.exp(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "xlogy": lambda x, y: x * _CONTEXT.log(y),
    "y0": lambda x: _CONTEXT.bessely(0, x),
    "y1": lambda x: _CONTEXT.bessely(1, x),
}


def function(name: str) -> Callable[..., np.ndarray[Any, Any]] | None:
    """The function for NumPy's arrays of long double, element by element; None for one that is not here."""
    exact = FUNCTIONS.get(name)
    if exact is None:
        return None

    def of_arrays(*operands: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = zip(*(array.ravel() for array in operands), strict=True)
        found = [exact(*map(_taken, row)) for row in rows]
        return np.array([_given(one) for one in found]).reshape(operands[0].shape)

    return of_arrays


def _taken(value: Any) -> Any:
    """A number of float64 or complex128, in whatever type, as mpmath's."""
    return (
        _CONTEXT.mpc(complex(value)) if isinstance(value, np.complexfloating) else _CONTEXT.mpf(float(value))
    )


def _given(value: Any) -> Any:
    """mpmath's number in long double: the nearest float64, and the nearest to what that leaves."""
    if isinstance(value, _CONTEXT.mpc):
        return np.clongdouble(_given(value.real)) + 1j * np.clongdouble(_given(value.imag))
    first = float(value)
    rest = float(value - first) if np.isfinite(first) else 0.0
    return np.longdouble(first) + np.longdouble(rest)
