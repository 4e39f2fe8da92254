"""Differentiable functions of SciPy, each of a vector of nine sorted numbers between 0.3 and 0.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.special

sp, nd, it, ip, sg = scipy.special, scipy.ndimage, scipy.integrate, scipy.interpolate, scipy.signal
AT = np.linspace(0, 1, 9)
POINT = np.asarray([[0.33]])
#: Of a square of 3 x 3.
SQUARE = np.asarray([[1.0, 2.0], [0.5, 1.0]])

_SPECIAL = "gamma gammaln psi erf erfc erfinv expit logit j0 i0 ndtr exp1 entr".split()
CALLS: dict[str, Callable[[Any], Any]] = {
    **{f"special.{name}": getattr(sp, name) for name in _SPECIAL},
    "special.xlogy": lambda x: sp.xlogy(x, x),
    "special.softmax": lambda x: sp.softmax(x),
    "special.logsumexp": lambda x: sp.logsumexp(x),
    "special.jv": lambda x: sp.jv(1.5, x),
    "ndimage.gaussian_filter": lambda x: nd.gaussian_filter(x, 1.0),
    "ndimage.uniform_filter": lambda x: nd.uniform_filter(x, 3),
    "ndimage.convolve": lambda x: nd.convolve(x, np.ones(3)),
    "ndimage.shift": lambda x: nd.shift(x, 0.5),
    "ndimage.zoom": lambda x: nd.zoom(x, 2.0),
    "ndimage.rotate": lambda x: nd.rotate(x.reshape(3, 3), 30.0),
    "ndimage.map_coordinates": lambda x: nd.map_coordinates(x, [[0.5, 1.5]]),
    "ndimage.sobel": lambda x: nd.sobel(x),
    "ndimage.spline_filter": lambda x: nd.spline_filter(x),
    "ndimage.sum_labels": lambda x: nd.sum_labels(x),
    "integrate.trapezoid": lambda x: it.trapezoid(x),
    "integrate.simpson": lambda x: it.simpson(x),
    "integrate.cumulative_trapezoid": lambda x: it.cumulative_trapezoid(x),
    "integrate.quad": lambda x: it.quad(lambda t: x.sum() * t, 0, 1)[0],
    "integrate.fixed_quad": lambda x: it.fixed_quad(lambda t: x.sum() * t, 0, 1)[0],
    "integrate.quad_vec": lambda x: it.quad_vec(lambda t: x * t, 0, 1)[0],
    "integrate.solve_ivp": lambda x: it.solve_ivp(lambda t, y: -y, (0, 1), x).y[:, -1],
    "integrate.odeint": lambda x: it.odeint(lambda y, t: -y, x, [0, 1.0])[-1],
    "interpolate.interp1d": lambda x: ip.interp1d(AT, x)(0.33),
    "interpolate.CubicSpline": lambda x: ip.CubicSpline(AT, x)(0.33),
    "interpolate.PchipInterpolator": lambda x: ip.PchipInterpolator(AT, x)(0.33),
    "interpolate.make_interp_spline": lambda x: ip.make_interp_spline(AT, x)(0.33),
    "interpolate.UnivariateSpline": lambda x: ip.UnivariateSpline(AT, x, s=0)(0.33),
    "interpolate.BarycentricInterpolator": lambda x: ip.BarycentricInterpolator(AT, x)(0.33),
    "interpolate.splev": lambda x: ip.splev(x, ip.splrep(AT, AT**2)),
    "interpolate.RegularGridInterpolator": lambda x: ip.RegularGridInterpolator((AT,), x)(POINT),
    "interpolate.griddata": lambda x: ip.griddata(AT[:, None], x, POINT),
    "interpolate.RBFInterpolator": lambda x: ip.RBFInterpolator(AT[:, None], x)(POINT),
    "signal.convolve": lambda x: sg.convolve(x, [1.0, 2.0, 1.0]),
    "signal.fftconvolve": lambda x: sg.fftconvolve(x, np.asarray([1.0, 2.0, 1.0])),
    "signal.correlate": lambda x: sg.correlate(x, [1.0, 2.0, 1.0]),
    "signal.lfilter": lambda x: sg.lfilter([1.0, 0.5], [1.0, 0.3], x),
    "signal.savgol_filter": lambda x: sg.savgol_filter(x, 5, 2),
    "signal.detrend": lambda x: sg.detrend(x),
    "signal.resample": lambda x: sg.resample(x, 18),
    "signal.convolve2d": lambda x: sg.convolve2d(x.reshape(3, 3), SQUARE),
    "signal.welch": lambda x: sg.welch(x, nperseg=8)[1],
    "signal.lp2hp, which takes float(x)": lambda x: sg.lp2hp([1.0, 0.5], [1.0], x[1])[0],
    "signal.lp2lp, which takes float(x)": lambda x: sg.lp2lp([1.0, 0.5], [1.0], x[1])[0],
}
