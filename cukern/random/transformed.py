"""Distributions that transform uniform, normal, exponential and gamma variates, as methods of a random generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..array.array import Array
from ..array.creation import asarray
from ..array.layout import shape_of
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_constant
from ..elementwise.table import clip, exp, expm1, floor, isnan, log1p, sqrt, where
from ..reduction.softmax import softmax
from .distributions import Distributions, Parameter, Size, on_host, positive, shape_of_parameters

_MAX = 2**63 - 1
#: Smaller numbers are finite in every floating dtype of more than 16 bits.
_LARGE = 1e38
#: (loc, scale) of ``loc + scale * drawn``, computed by the launch that draws; empty for the drawn numbers themselves.
Location = tuple[float, float] | tuple[()]


class Transformed(Distributions):
    """Methods of a random generator whose variates are functions of others.

    Parameters are numbers or arrays, with respect to which the variates are differentiable unless stated otherwise;
    ``size`` defaults to their broadcast shape, ``dtype`` to the default floating one. What is out of range is an error
    or gives NaN or -1, as :class:`Distributions` says.
    """

    def _draw(
        self, kind: str, size: Size, dtype: dtypes.DType, *extra: float, located: Location = ()
    ) -> Array:
        raise NotImplementedError

    def _floats(
        self, kind: str, size: Size, dtype: Any, *parameters: Parameter, located: Location = ()
    ) -> Array:
        """Draw numbers of a floating kind; without ``size``, in the shape that the parameters broadcast to.

        Raises:
            ValueError: the parameters do not broadcast to ``size``.
        """
        wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        row = dtypes.info(wanted)
        if row.kind != "f" and not (row.kind == "c" and kind == "normal"):
            raise TypeError(f"{kind}: dtype: expected a floating dtype, got {wanted}")
        shapes = [p.shape for p in parameters if isinstance(p, Array)]
        sizes = np.broadcast_shapes(*shapes) if size is None else shape_of(size)  # type: ignore[arg-type]
        if shapes and np.broadcast_shapes(sizes, *shapes) != sizes:
            raise ValueError(f"{kind}: parameters of shapes {shapes} do not broadcast to size {sizes}")
        if row.kind != "c":
            return self._draw(kind, sizes, wanted, located=located)
        parts = self._draw(kind, (*sizes, 2), row.real) * math.sqrt(0.5)
        return Array._wrap(parts._data.view(wanted).reshape(sizes), self.device)

    def _known(self, parameter: Any) -> Any:
        """A parameter as a Python number or a cukern array."""
        if isinstance(parameter, (Array, int, float, complex)):
            return parameter
        return asarray(parameter, device=self.device)

    def _located(self, kind: str, loc: Any, scale: Any, size: Size, dtype: Any) -> Array:
        """``loc + scale * drawn`` for variates of a kind."""
        loc, scale = self._known(loc), self._parameter(scale, f"{kind}: scale", 0.0)
        return self._moved(kind, loc, positive(scale), size, dtype)

    def _moved(self, kind: str, loc: Any, scale: Any, size: Size, dtype: Any, *given: Parameter) -> Array:
        """``loc + scale * drawn``, in the launch that draws if both are numbers; ``given``: parameters of the shape."""
        numbers = all(isinstance(one, (int, float)) and abs(one) < _LARGE for one in (loc, scale))
        if numbers and (dtype is None or dtypes.as_dtype(dtype) not in dtypes.COMPLEX):
            located: Location = () if loc == 0 and scale == 1 else (float(loc), float(scale))
            return self._floats(kind, size, dtype, located=located)
        drawn = self._floats(kind, size, dtype, *(given or (loc, scale)))
        return _affine(drawn, loc, scale)

    # ----- uniform, normal, exponential -----

    def random(self, size: Size = None, dtype: Any = None) -> Array:
        """Uniform in [0, 1), in steps of 2**-24 (float32), 2**-53 (float64), 2**-11 (float16) or 2**-8 (bfloat16)."""
        return self._floats("uniform", size, dtype)

    def uniform(
        self, low: Parameter = 0.0, high: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Uniform in [low, high); rounding may give ``high``."""
        low, high = self._known(low), self._known(high)
        return self._moved("uniform", low, high - low, size, dtype, low, high)

    def standard_normal(self, size: Size = None, dtype: Any = None) -> Array:
        """Normal with mean 0 and standard deviation 1, by the Box-Muller transform.

        Of a complex dtype both parts are normal, with a variance of 0.5 each.
        """
        return self._floats("normal", size, dtype)

    def normal(
        self, loc: Parameter = 0.0, scale: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return self._located("normal", loc, scale, size, dtype)

    def lognormal(
        self, mean: Parameter = 0.0, sigma: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """The exponential of a :meth:`normal` variate with mean ``mean`` and standard deviation ``sigma``."""
        mean, sigma = self._known(mean), self._parameter(sigma, "lognormal: sigma", 0.0)
        return _lognormal(self._floats("normal", size, dtype, mean, sigma), mean, positive(sigma))

    def standard_exponential(self, size: Size = None, dtype: Any = None) -> Array:
        """Exponential with mean 1."""
        return self._floats("exponential", size, dtype)

    def exponential(self, scale: Parameter = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Exponential with mean ``scale``."""
        return self._located("exponential", 0.0, scale, size, dtype)

    # ----- inverses of distribution functions -----

    def gumbel(
        self, loc: Parameter = 0.0, scale: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Gumbel, the distribution of extreme values: ``loc - scale * log(-log(u))`` for uniform ``u``."""
        return self._located("gumbel", loc, scale, size, dtype)

    def laplace(
        self, loc: Parameter = 0.0, scale: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Laplace, of density ``exp(-abs(x - loc) / scale) / (2 * scale)``."""
        return self._located("laplace", loc, scale, size, dtype)

    def logistic(
        self, loc: Parameter = 0.0, scale: Parameter = 1.0, size: Size = None, dtype: Any = None
    ) -> Array:
        """Logistic: ``loc + scale * log(u / (1 - u))`` for uniform ``u``."""
        return self._located("logistic", loc, scale, size, dtype)

    def standard_cauchy(self, size: Size = None, dtype: Any = None) -> Array:
        """Cauchy, of density ``1 / (pi * (1 + x**2))``."""
        return self._floats("cauchy", size, dtype)

    def _of_exponential(self, name: str, f: Any, a: Parameter, size: Size, dtype: Any) -> Array:
        a = self._parameter(a, name, 0.0)
        return f(self._floats("exponential", size, dtype, a), a)

    def pareto(self, a: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Pareto's second distribution (Lomax), of density ``a / (1 + x)**(a + 1)`` for positive ``x``."""
        return self._of_exponential("pareto: a", _pareto, a, size, dtype)

    def power(self, a: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Of density ``a * x**(a - 1)`` in [0, 1]."""
        return self._of_exponential("power: a", _power, a, size, dtype)

    def rayleigh(self, scale: Parameter = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Rayleigh, the length of a normal vector in the plane whose elements have standard deviation ``scale``."""
        return self._of_exponential("rayleigh: scale", _rayleigh, scale, size, dtype)

    def weibull(self, a: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Weibull of shape ``a``, of density ``a * x**(a - 1) * exp(-x**a)`` for positive ``x``."""
        return self._of_exponential("weibull: a", _weibull, a, size, dtype)

    def triangular(
        self, left: Parameter, mode: Parameter, right: Parameter, size: Size = None, dtype: Any = None
    ) -> Array:
        """Of a density that rises linearly from ``left`` to ``mode``, and falls to ``right``.

        Raises:
            ValueError: numbers are not in the order ``left <= mode <= right``, with ``left < right``.
        """
        left, mode, right = (self._known(p) for p in (left, mode, right))
        first, middle, last = (on_host(p) for p in (left, mode, right))
        wrong = [
            one is not None and other is not None and bool(np.any(one > other))
            for one, other in ((first, middle), (middle, last), (first, last))
        ]
        if any(wrong) or (first is not None and last is not None and bool(np.any(first == last))):
            raise ValueError(
                f"triangular: expected left <= mode <= right and left < right, got {left}, {mode} and {right}"
            )
        u = self._floats("uniform", size, dtype, left, mode, right)
        return _triangular(u, left, mode, right)

    def geometric(self, p: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """The number of trials of probability ``p`` up to the first success; integers, int64 by default."""
        p = self._parameter(p, "geometric: p", 5e-324, 1.0)
        if not isinstance(p, Array):
            shape = () if size is None else size
            # A failure of probability 0 has no logarithm.
            log_failure = math.log1p(-p) if p < 1 else -math.inf
            return self._counts("geometric", self._draw("geometric", shape, dtypes.int64, log_failure), dtype)
        with tape.stop_recording():
            result: Array = _geometric(self._floats("exponential", size, dtypes.float64, p), p)
        return self._counts("geometric", result, dtype)

    # ----- of gamma variates -----

    def standard_gamma(self, shape: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """:meth:`gamma` with a scale of 1."""
        return self.gamma(shape, 1.0, size, dtype)

    def chisquare(self, df: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Chi-squared with ``df`` degrees of freedom: the sum of that many squared standard normal variates.

        Once differentiable, as :meth:`gamma`.
        """
        df = self._parameter(df, "chisquare: df", 0.0)
        return self.gamma(df * 0.5, 2.0, size, dtype)

    def noncentral_chisquare(
        self, df: Parameter, nonc: Parameter, size: Size = None, dtype: Any = None
    ) -> Array:
        """Chi-squared with ``df`` degrees of freedom and noncentrality ``nonc``: a Poisson mixture of central ones.

        Once differentiable with respect to ``df``, as :meth:`gamma`.

        Raises:
            GradientError: a tape tracks ``nonc``.
        """
        wanted = dtypes.floating(dtype, "noncentral_chisquare: dtype")
        df, nonc = self._parameters("noncentral_chisquare", df=df, nonc=nonc)
        require_constant("noncentral_chisquare", nonc=nonc)

        def graph(size: Size, variates: Any) -> Array:
            return 2 * exp(self._log_half_chisquare("noncentral_chisquare: df", df, nonc, size, variates))

        return self._law("noncentral_chisquare", wanted, size, (df, nonc), graph)

    def _log_half_chisquare(self, name: str, df: Any, nonc: Any, size: Size, variates: Any) -> Array:
        """The logarithm of half a noncentral chi-squared variate, in float64: a Poisson mixture of central ones."""
        with tape.stop_recording():
            extra = astype(variates("poisson", dtypes.int64, size, nonc * 0.5, part=2), dtypes.float64)
            extra = where(extra < 0, math.nan, extra)
        return self._log_gamma(name, astype(positive(df) * 0.5 + extra, dtypes.float64), size, variates)

    def f(self, dfnum: Parameter, dfden: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Fisher's F: the ratio of two :meth:`chisquare` variates, each divided by its degrees of freedom.

        Once differentiable, as :meth:`gamma`.
        """
        return self.noncentral_f(dfnum, dfden, 0.0, size, dtype)

    def noncentral_f(
        self, dfnum: Parameter, dfden: Parameter, nonc: Parameter, size: Size = None, dtype: Any = None
    ) -> Array:
        """:meth:`f` whose numerator is a :meth:`noncentral_chisquare` variate; once differentiable but by ``nonc``."""
        wanted = dtypes.floating(dtype, "noncentral_f: dtype")
        dfnum, dfden, nonc = self._parameters("noncentral_f", dfnum=dfnum, dfden=dfden, nonc=nonc)
        require_constant("noncentral_f", nonc=nonc)

        def graph(size: Size, variates: Any) -> Array:
            above = self._log_half_chisquare("noncentral_f: dfnum", dfnum, nonc, size, variates)
            below = self._log_gamma("noncentral_f: dfden", positive(dfden) * 0.5, size, variates, 1)
            return exp(above - below) * (dfden / dfnum)

        return self._law("noncentral_f", wanted, size, (dfnum, dfden, nonc), graph)

    def dirichlet(self, alpha: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Dirichlet: points whose coordinates are positive and sum to 1.

        Once differentiable, as :meth:`gamma`.

        Args:
            alpha: positive numbers, shape (..., n).
            size: the shape of the result without its last axis; by default that of ``alpha``.
            dtype: a floating dtype.

        Raises:
            ValueError: ``alpha`` is a number, or does not broadcast to ``size``.

        >>> import cukern as ck
        >>> x = ck.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=4)
        >>> x.shape, ck.allclose(x.sum(-1), 1)
        ((4, 3), True)
        """
        wanted, known = dtypes.floating(dtype, "dirichlet: dtype"), self._known(alpha)
        if not isinstance(known, Array) or not known.ndim:
            raise ValueError(f"dirichlet: alpha: expected at least one axis, got {alpha!r}")
        shape = known.shape if size is None else (*shape_of(size), known.shape[-1])  # type: ignore[arg-type]
        result = self._log_gamma("dirichlet: alpha", known, shape, partial(self._variates, like=wanted))
        return astype(softmax(result, -1), wanted, copy=False)

    def wald(self, mean: Parameter, scale: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Wald's (inverse Gaussian) distribution.

        Raises:
            GradientError: a tape tracks a parameter.

        Source: Michael, Schucany and Haas, "Generating random variates using transformations with multiple roots",
        1976.
        """
        wanted = dtypes.floating(dtype, "wald: dtype")
        mean, scale = self._parameters("wald", mean=mean, scale=scale)
        require_constant("wald", mean=mean, scale=scale)
        with tape.stop_recording():
            drawn = self._floats("normal", size, dtypes.float64, mean, scale)
            result: Array = _wald(drawn, self.random(drawn.shape, dtypes.float64), mean, scale)
        return astype(result, wanted, copy=False)

    def negative_binomial(self, n: Parameter, p: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """The number of failures before ``n`` successes of probability ``p``; integers, int64 by default."""
        n = self._parameter(n, "negative_binomial: n", 0.0)
        p = self._parameter(p, "negative_binomial: p", 5e-324, 1.0)
        size = shape_of_parameters(n, p) if size is None else size
        return self._counts(
            "negative_binomial", self._variates("negative_binomial", dtypes.int64, size, n, p), dtype
        )


def _fused(function: Callable[..., Any]) -> Any:
    """One kernel of a function of drawn numbers and parameters, with results in the dtype of the drawn numbers."""

    def cast(drawn: Any, *parameters: Any) -> Any:
        return function(drawn, *parameters).astype(drawn.dtype)

    cast.__name__ = function.__name__
    return fuse(cast)


@_fused
def _affine(drawn: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * drawn


@_fused
def _lognormal(drawn: Any, mean: Any, sigma: Any) -> Any:
    return exp(mean + sigma * drawn)


@_fused
def _pareto(drawn: Any, a: Any) -> Any:
    return where(a >= 0, expm1(drawn / a), math.nan)


@_fused
def _power(drawn: Any, a: Any) -> Any:
    return where(a >= 0, exp(-drawn / a), math.nan)


@_fused
def _rayleigh(drawn: Any, scale: Any) -> Any:
    return where(scale >= 0, scale * sqrt(2 * drawn), math.nan)


@_fused
def _weibull(drawn: Any, a: Any) -> Any:
    return where(a >= 0, where(a == 0, 0.0, drawn ** (1 / a)), math.nan)


@_fused
def _triangular(drawn: Any, left: Any, mode: Any, right: Any) -> Any:
    base, rise = right - left, mode - left
    up, down = drawn * base * rise, (1 - drawn) * base * (right - mode)
    rising = drawn * base <= rise
    result = where(rising, left + sqrt(where(rising, up, 1)), right - sqrt(where(rising, 1, down)))
    return where((left <= mode) & (mode <= right), result, math.nan)


@fuse
def _geometric(drawn: Any, p: Any) -> Any:
    trials = floor(drawn / -log1p(-p)) + 1
    whole = where(trials >= 2.0**63, _MAX, clip(trials, None, 2.0**63 - 1024).astype(dtypes.int64))
    return where((p > 0) & (p <= 1), whole, -1)


@fuse
def _wald(drawn: Any, u: Any, mean: Any, scale: Any) -> Any:
    y = mean * drawn * drawn
    # The smaller root of the transform, in a form without cancellation.
    root = mean * 2 * scale / (2 * scale + y + sqrt(y * (4 * scale + y)))
    result = where(u * (mean + root) <= mean, root, mean * mean / root)
    return where((mean >= 0) & (scale >= 0) & ~isnan(result), result, math.nan)
