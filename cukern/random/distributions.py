"""Distributions sampled by rejection, and those derived from gamma variates, as methods of a random generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from .. import dtypes
from ..array.array import Array
from ..array.batched import Batched, Level, in_progress, left
from ..array.creation import asarray
from ..array.host_data import holds_array
from ..array.layout import fresh_layout, shape_of
from ..autodiff import tape
from ..device import Device, capture_hooks
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_constant
from ..elementwise.table import clip, divide, exp, expm1, sigmoid, sqrt, where
from ..kernel import Kernel
from ..kernel.plan import compiled, launch, new, on, threads
from ..linear.decompositions import cholesky, eigh
from ..linear.products import matmul
from ..ops.gamma_functions import log_gamma_slope
from ..shape.joins import stack
from ..shape.views import broadcast_to, expand_dims, squeeze

_KERNEL = Kernel("random/variates.cu", block=256)
#: Elements that one host thread draws in sequence.
_HOST_PIECE = 256
#: Elements that it draws at once, of the kinds ``_ONCE``.
_STRETCH = 64
#: Kinds whose first attempt is nearly always accepted.
_ONCE = ("gamma", "log_gamma", "beta", "noncentral_f")
#: The most elements that a thread of a GPU draws.
_PIECE = 8
#: Blocks that keep a GPU busy.
_BLOCKS = 2112
#: Attempts between the words of two parts of one variate.
_PART = 1 << 28

Size = SupportsIndex | Sequence[SupportsIndex] | None
Parameter = Any


class Distributions:
    """Methods of a random generator whose variates each need an unknown number of random words.

    Parameters are numbers or arrays; ``size`` defaults to their broadcast shape. A number out of range is an error,
    also in a list or an array on the host; an element of an array on a GPU, whose check would have to wait, gives NaN,
    or -1 if integers are drawn. So do elements of cukern arrays that are NaN, and those of a captured step.
    """

    device: Device
    _key: tuple[int, int]

    def _advance(self, groups: int) -> tuple[int]:
        raise NotImplementedError

    def standard_normal(self, size: Size = None, dtype: Any = None) -> Array:
        """Normal with mean 0 and standard deviation 1."""
        raise NotImplementedError

    def _claim_variates(self, elements: int) -> Any:
        """Advance the stream over the words of so many variates; return their counter, or the memory that holds it."""
        offset = capture_hooks.numbers(dtypes.uint64, partial(self._advance, elements)) if elements else None
        return self._advance(elements)[0] if offset is None else offset._data

    def _variates(
        self,
        kind: str,
        wanted: DType,
        size: Size,
        *parameters: Parameter,
        like: DType = dtypes.float64,
        offset: Any = None,
        part: int = 0,
    ) -> Array:
        """Variates of shape ``size``, by default the broadcast shape of the parameters.

        Args:
            like: the dtype in whose arithmetic they are computed; half types' is float32.
            offset: the counter of their words, from :meth:`_claim_variates`; by default that of the next ones.
            part: which words of each element.
        """
        arrays = [p if isinstance(p, Array) else None for p in parameters]
        shapes = [p.shape for p in arrays if p is not None]
        shape = np.broadcast_shapes(*shapes) if size is None else shape_of(size)  # type: ignore[arg-type]
        if shapes and np.broadcast_shapes(shape, *shapes) != shape:
            raise ValueError(f"{kind}: parameters of shapes {shapes} do not broadcast to size {shape}")
        if calls := in_progress():
            drawing = partial(self._variates, like=like, offset=offset, part=part)
            return _of_all(calls, partial(drawing, kind, wanted), shape, parameters)
        with on(self.device):
            (result,) = new((fresh_layout(self.device, wanted, shape),))
        n = math.prod(shape)
        if n:
            datas: list[Array | None] = [None] * len(arrays)
            if shapes:
                with tape.stop_recording():
                    wide = [None if p is None else astype(p, dtypes.float64) for p in arrays]
                    datas = [None if p is None else broadcast_to(p, shape).contiguous() for p in wide]
            numbers = [0.0 if isinstance(p, Array) else float(p) for p in parameters]
            datas, numbers = [*datas, None, None, None][:3], [*numbers, 0.0, 0.0, 0.0][:3]
            offset = self._claim_variates(n) if offset is None else offset
            acc, block = dtypes.info(dtypes.info(like).acc).cxx, threads(self.device, 256)
            function = compiled(
                _KERNEL,
                self.device,
                name=f"random_{kind}_{dtypes.info(wanted).name}_{block}",
                elem=wanted,
                block=block,
                kind=kind,
                live=not isinstance(offset, int),
                acc=acc,
                alike=not shapes,
                stretch=_STRETCH if block == 1 and acc == "float" and kind in _ONCE else 1,
            )
            piece = _HOST_PIECE if block == 1 else max(1, min(_PIECE, n // (block * _BLOCKS)))
            values = (result, *datas, *numbers, n, piece, part * _PART, offset, *self._key)
            launch(self.device, function, -(-n // (piece * block)), block, values)
        return result

    def _law(
        self,
        kind: str,
        wanted: DType,
        size: Size,
        parameters: Sequence[Parameter],
        graph: Callable[[tuple[int, ...], Any], Array],
    ) -> Array:
        """Floats of a law, differentiable with respect to parameters.

        Args:
            graph: called if a tape tracks a parameter, with the shape and a function that draws further variates from
                the same words. Its result has the same values but for rounding, and records the derivative.
        """
        shape = shape_of_parameters(*parameters) if size is None else shape_of(size)  # type: ignore[arg-type]
        offset = self._claim_variates(math.prod(shape))
        result = self._variates(kind, wanted, shape, *parameters, like=wanted, offset=offset)
        if tape.recording([p for p in parameters if isinstance(p, Array)]):
            same = astype(
                graph(shape, partial(self._variates, like=wanted, offset=offset)), wanted, copy=False
            )
            tape.record_copy(kind, same, result)
        return result

    def _parameter(self, value: Any, name: str, low: float, high: float = math.inf) -> Parameter:
        """A Python number of [low, high], or an array on the generator's device."""
        if isinstance(value, (bool, int, float, np.generic)):
            if not low <= float(value) <= high:
                raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")
            return value
        if isinstance(value, Array):
            known = on_host(value)
            if known is not None and np.any((known < low) | (known > high)):
                raise ValueError(f"{name}: expected numbers from {low:g} to {high:g}, got {value!r}")
            return value
        result = asarray(value, device=self.device)
        if isinstance(value, (list, tuple)) and holds_array(value):
            return self._parameter(result, name, low, high)
        known = np.asarray(value, np.float64)
        if not np.all((known >= low) & (known <= high)):
            raise ValueError(f"{name}: expected numbers from {low:g} to {high:g}, got {value!r}")
        return result

    def _parameters(self, kind: str, **given: Any) -> list[Parameter]:
        """Parameters of a kind that are not negative."""
        return [self._parameter(value, f"{kind}: {name}", 0.0) for name, value in given.items()]

    def _log_gamma(self, name: str, shape: Any, size: Size, variates: Any = None, part: int = 0) -> Array:
        """The logarithm of gamma variates, in float64, differentiable with respect to an array ``shape``.

        Args:
            variates: draws them, by default from the next words.
        """
        a = self._parameter(shape, name, 0.0)
        result: Array = (variates or self._variates)("log_gamma", dtypes.float64, size, a, part=part)
        if isinstance(a, Array) and tape.recording((a,)):

            def vjp(cotangents: Any, saved: Any, needs: object) -> tuple[Array]:
                return (cotangents[0] * log_gamma_slope(astype(saved[0], dtypes.float64), saved[1]),)

            tape.record("gamma", (a,), (result,), vjp, (a, result))
        return result

    def gamma(self, shape: Parameter, scale: Parameter = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Gamma with parameter ``shape``, times ``scale``; differentiable, with respect to ``shape`` only once.

        The derivative with respect to ``shape`` keeps each variate's quantile (Figurnov, Mohamed and Mnih, "Implicit
        reparameterization gradients", 2018). It is not the derivative of the drawn numbers, which rejection makes jump.

        Raises:
            ValueError: a number is negative, or parameters do not broadcast to ``size``.

        >>> import cukern as ck
        >>> ck.random.default_rng(0).gamma(2.0, size=1000).mean().item() > 1.8
        True
        """
        wanted = dtypes.floating(dtype, "gamma: dtype")
        shape, scale = self._parameters("gamma", shape=shape, scale=scale)

        def graph(size: Size, variates: Any) -> Array:
            drawn: Array = exp(self._log_gamma("gamma: shape", shape, size, variates))
            drawn = drawn * _wide(positive(scale))
            return drawn

        return self._law("gamma", wanted, size, (shape, scale), graph)

    def beta(self, a: Parameter, b: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Beta with parameters ``a`` and ``b``, in (0, 1); once differentiable with respect to both.

        Raises:
            ValueError: a number is negative, or parameters do not broadcast to ``size``.
        """
        wanted = dtypes.floating(dtype, "beta: dtype")
        a, b = self._parameters("beta", a=a, b=b)

        def graph(size: Size, variates: Any) -> Array:
            return sigmoid(
                self._log_gamma("beta: a", a, size, variates)
                - self._log_gamma("beta: b", b, size, variates, 1)
            )

        return self._law("beta", wanted, size, (a, b), graph)

    def standard_t(self, df: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Student's t with ``df`` degrees of freedom; differentiable with respect to ``df``.

        Raises:
            ValueError: a number is negative, or ``df`` does not broadcast to ``size``.
        """
        wanted, df = dtypes.floating(dtype, "standard_t: dtype"), self._parameter(df, "standard_t: df", 0.0)

        def graph(size: Size, variates: Any) -> Array:
            drawn = (variates(kind, dtypes.float64, size) for kind in ("t_exponential", "t_cosine"))
            return _student(_wide(df), *drawn)

        return self._law("standard_t", wanted, size, (df,), graph)

    def _integers(self, kind: str, dtype: Any, size: Size, *parameters: Parameter) -> Array:
        """Variates of a kind that are integers."""
        return self._counts(kind, self._variates(kind, dtypes.int64, size, *parameters), dtype)

    def _counts(self, name: str, result: Array, dtype: Any) -> Array:
        """Counts in int64 as another integer dtype."""
        wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
        if dtypes.info(wanted).kind not in "iu":
            raise TypeError(f"{name}: dtype: expected an integer dtype, got {wanted}")
        return astype(result, wanted, copy=False)

    def poisson(self, lam: Parameter = 1.0, size: Size = None, dtype: Any = None) -> Array:
        """Poisson counts with mean ``lam``; int64 by default, -1 where an element of ``lam`` is negative or NaN.

        Raises:
            ValueError: a number is negative or above 9.2e18, or ``lam`` does not broadcast to ``size``.
        """
        lam = self._parameter(lam, "poisson: lam", 0.0, 9.2e18)
        return self._integers("poisson", dtype, size, lam)

    def binomial(self, n: Parameter, p: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Numbers of successes in ``n`` trials of probability ``p``; int64 by default.

        -1 where an element is out of range.

        Raises:
            ValueError: a number is out of range, or parameters do not broadcast to ``size``.
        """
        n = self._parameter(n, "binomial: n", 0, 2**62)
        p = self._parameter(p, "binomial: p", 0.0, 1.0)
        return self._integers("binomial", dtype, size, n, p)

    def hypergeometric(
        self, ngood: Parameter, nbad: Parameter, nsample: Parameter, size: Size = None, dtype: Any = None
    ) -> Array:
        """Good elements among ``nsample`` drawn without replacement from ``ngood`` good and ``nbad`` bad ones.

        Integers, int64 by default, -1 where an element is out of range: negative, above 10**9, or a sample larger than
        the population.

        Raises:
            ValueError: a number is out of range, or parameters do not broadcast to ``size``.
        """
        given = (("ngood", ngood), ("nbad", nbad), ("nsample", nsample))
        known = [self._parameter(p, f"hypergeometric: {name}", 0, 10**9) for name, p in given]
        good, bad, sample = known
        if not any(isinstance(p, Array) for p in known) and sample > good + bad:
            raise ValueError(f"hypergeometric: nsample: expected at most {good + bad} elements, got {sample}")
        counts = [on_host(p) for p in known]
        if all(count is not None for count in counts) and np.any(counts[2] > counts[0] + counts[1]):
            raise ValueError("hypergeometric: nsample: expected at most ngood + nbad elements")
        return self._integers("hypergeometric", dtype, size, good, bad, sample)

    def logseries(self, p: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Logarithmic series: ``k`` with probability ``-p**k / (k * log(1 - p))``; integers, int64 by default.

        -1 where an element of ``p`` is out of range.

        Raises:
            ValueError: ``p`` is not in [0, 1), or does not broadcast to ``size``.
        """
        p = self._parameter(p, "logseries: p", 0.0, math.nextafter(1.0, 0.0))
        return self._integers("logseries", dtype, size, p)

    def zipf(self, a: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Zipf: ``k`` with a probability proportional to ``k**-a``; integers, int64 by default.

        -1 where an element of ``a`` is out of range.

        Raises:
            ValueError: ``a`` is not above 1, or does not broadcast to ``size``.
        """
        a = self._parameter(a, "zipf: a", math.nextafter(1.0, 2.0))
        return self._integers("zipf", dtype, size, a)

    def vonmises(self, mu: Parameter, kappa: Parameter, size: Size = None, dtype: Any = None) -> Array:
        """Von Mises, the normal distribution on the circle: angles in [-pi, pi] around ``mu``.

        Raises:
            GradientError: a tape tracks a parameter.
            ValueError: the concentration ``kappa`` is negative, or parameters do not broadcast to ``size``.
        """
        wanted = dtypes.floating(dtype, "vonmises: dtype")
        mu = self._parameter(mu, "vonmises: mu", -math.inf)
        kappa = self._parameter(kappa, "vonmises: kappa", 0.0)
        require_constant("vonmises", mu=mu, kappa=kappa)
        return self._variates("vonmises", wanted, size, mu, kappa, like=wanted)

    def multinomial(self, n: Parameter, pvals: Any, size: Size = None) -> Array:
        """How often each of several outcomes occurs in ``n`` trials; int64.

        Args:
            n: a non-negative number, or an array of these.
            pvals: the outcomes' probabilities along the last axis; they should sum to 1, and the last one is computed
                from the others.
            size: the shape of the result without its last axis; by default the broadcast shape of ``n`` and ``pvals``.

        Raises:
            ValueError: a number is out of range, there is no outcome, or parameters do not broadcast to ``size``.
        """
        n = self._parameter(n, "multinomial: n", 0, 2**62)
        p = self._parameter(
            pvals if isinstance(pvals, Array) else asarray(pvals, dtypes.float64, self.device),
            "multinomial: pvals",
            0.0,
            1.0,
        )
        if not p.ndim or not p.shape[-1]:
            raise ValueError(f"multinomial: pvals: expected at least one outcome, got shape {p.shape}")
        with tape.stop_recording():
            p = astype(p, dtypes.float64)
            shape = shape_of_parameters(n, p[..., 0]) if size is None else shape_of(size)  # type: ignore[arg-type]
            left = broadcast_to(asarray(n, dtypes.int64, self.device), shape)
            rest, counts = p[..., 0] * 0 + 1, []
            for i in range(p.shape[-1] - 1):
                share = _share(p[..., i], rest)
                counts.append(self._variates("binomial", dtypes.int64, shape, left, share))
                left, rest = left - counts[-1], rest - p[..., i]
            return stack([*counts, left], axis=-1)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Size = None, dtype: Any = None, *, method: str = "cholesky"
    ) -> Array:
        """Normal vectors with a mean and a covariance matrix; differentiable with respect to both.

        Args:
            mean: shape (..., n).
            cov: shape (..., n, n), symmetric; the lower triangles are read.
            size: the shape of the result without its last axis; by default that of the parameters.
            dtype: a floating dtype.
            method: ``"cholesky"`` for positive definite covariances; ``"eigh"`` also takes semidefinite ones.

        Raises:
            LinAlgError: on the host, a covariance matrix is not positive definite.
            ValueError: the shapes do not fit, or there is no such method.
        """
        wanted = dtypes.floating(dtype, "multivariate_normal: dtype")
        center, spread = (
            astype(x if isinstance(x, Array) else asarray(x, device=self.device), dtypes.float64, copy=False)
            for x in (mean, cov)
        )
        if not center.ndim or spread.shape[-2:] != (center.shape[-1],) * 2:
            raise ValueError(
                f"multivariate_normal: expected a mean (..., n) and covariances (..., n, n), got {center.shape} "
                f"and {spread.shape}"
            )
        root = _root(spread, method)
        batch = np.broadcast_shapes(center.shape[:-1], spread.shape[:-2])
        shape = batch if size is None else shape_of(size)  # type: ignore[arg-type]
        if np.broadcast_shapes(shape, batch) != shape:
            raise ValueError(
                f"multivariate_normal: parameters of batch {batch} do not broadcast to size {shape}"
            )
        acc = dtypes.info(wanted).acc
        center, root = (astype(x, acc, copy=False) for x in (center, root))
        drawn = self.standard_normal((*shape, center.shape[-1]), acc)
        # With one covariance for all the vectors are the rows of one matrix.
        moved = (
            matmul(drawn, root.mT) if root.ndim == 2 else squeeze(matmul(root, expand_dims(drawn, -1)), -1)
        )
        return astype(center + moved, wanted, copy=False)


def _root(cov: Array, method: str) -> Array:
    """Matrices ``r`` with ``r @ r.mT == cov``."""
    if method == "cholesky":
        return cholesky(cov)
    if method != "eigh":
        raise ValueError(f"multivariate_normal: method: expected 'cholesky' or 'eigh', got {method!r}")
    values, vectors = eigh(cov)
    return vectors * expand_dims(sqrt(clip(values, 0.0, None)), -2)


def _of_all(
    calls: Sequence[Level],
    drawing: Callable[..., Array],
    shape: tuple[int, ...],
    parameters: Sequence[Parameter],
) -> Array:
    """Variates of one example of a batch, drawn for all; the parameters of each."""
    wholes = list(parameters)
    with tape.stop_recording():
        for level in reversed(
            calls
        ):  # the innermost batch is in front of the example, and so behind those around it
            arrays = [one for one in wholes if isinstance(one, Array)]
            ndim = max([one.ndim for one in arrays], default=0)
            wholes = [level.value(one, ndim) if isinstance(one, Array) else one for one in wholes]
        with left():
            made = drawing((*[level.size for level in calls], *shape), *wholes)
    for level in calls:
        made = level.batched(made)
    return made


def on_host(parameter: Parameter, dtype: Any = np.float64) -> Any:
    """The elements of a parameter that the host knows; None for an array on a GPU or of a captured step."""
    if not isinstance(parameter, Array):
        return np.asarray(parameter, dtype)
    if type(parameter) is Batched or not parameter.device.addressable or capture_hooks.recorder() is not None:
        return None
    return parameter._data.astype(dtype, copy=False)


def positive(scale: Parameter) -> Parameter:
    """A scale that is known not to be negative, or an array with NaN for elements that are."""
    return where(scale >= 0, scale, math.nan) if isinstance(scale, Array) else scale


def _wide(parameter: Parameter) -> Parameter:
    return astype(parameter, dtypes.float64, copy=False) if isinstance(parameter, Array) else float(parameter)


@fuse
def _student(df: Any, exponential: Any, cosine: Any) -> Any:
    part = exponential / df
    return exp(part) * sqrt(-df * expm1(-2 * part)) * cosine


@fuse
def _share(p: Any, rest: Any) -> Any:
    """The probability of an outcome among the remaining ones, whose probabilities sum to about ``rest``."""
    return where(rest > 0, clip(divide(p, where(rest > 0, rest, 1)), None, 1.0), 0.0)


def shape_of_parameters(*parameters: Parameter) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(p) if not isinstance(p, Array) else p.shape for p in parameters))
