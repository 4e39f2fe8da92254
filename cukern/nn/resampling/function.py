"""Resampling of trailing axes, with derivatives of any order, and interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...cache import Cache, options_key
from ...elementwise.operands import require_array
from ...function import Function
from ..fused import common_dtype, layouts_of, lies_channels_last, several
from ..module import OfFunction
from . import bands
from .bands import Band
from .families import launch

_MODES = ("nearest", "nearest-exact", "linear", "cubic", "area")
#: PyTorch's names of modes, with the number of axes that they say.
_OTHER_NAMES = {"bilinear": ("linear", 2), "trilinear": ("linear", 3), "bicubic": ("cubic", 2)}


class _Resampled(Function):
    """Linear, and its vjp is that of the transposed matrices."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, axes: tuple[Band, Band, Band]) -> Array:
        ctx.axes = axes
        return launch(x, axes)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        first, second, third = ctx.axes
        return _Resampled.apply(dy, (first.transposed, second.transposed, third.transposed)), None

    @staticmethod
    def vmap(size: int, batched: tuple[bool, ...], x: Array, axes: tuple[Band, Band, Band]) -> Array:
        """Leading axes are of many images anyway."""
        return _Resampled.apply(x, axes)


def resampled(x: Array, axes: Sequence[Band]) -> Array:
    """The last one to three axes of ``x`` multiplied by one matrix each."""
    outer = x.shape[: x.ndim - len(axes)]
    one = bands.same(1)
    if len(axes) == 2 and lies_channels_last(x):
        last = _Resampled.apply(ops.permute_dims(x, (0, 2, 3, 1)), (*axes, bands.same(x.shape[1])))
        return ops.permute_dims(last, (0, 3, 1, 2))
    whole = ((one,) * (3 - len(axes)) + tuple(axes))[-3:]
    if len(axes) == 3:
        return _Resampled.apply(x, whole)
    made = _Resampled.apply(ops.reshape(x, (*outer, *[one.n for one in whole])), whole)
    return ops.reshape(made, (*outer, *[one.out for one in axes]))


def area(x: Array, sizes: Sequence[int]) -> Array:
    """The averages of the windows of adaptive pooling along the last axes."""
    axes = []
    for n, out in zip(x.shape[x.ndim - len(sizes) :], sizes, strict=True):
        first, last = bands.adaptive(n, out)
        axes.append(bands.windows(n, first, last, tuple(b - a for a, b in zip(first, last, strict=True))))
    return resampled(x, axes)


def _targets(
    name: str, given: Sequence[int], size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The sizes of the result, and the distance of its elements in those of ``x``."""
    if (size is None) == (scale_factor is None):
        raise ValueError(f"{name}: size, scale_factor: expected one of them")
    if size is not None:
        sizes = several(size, len(given), name, "size", 1)
        return sizes, tuple(n / out for n, out in zip(given, sizes, strict=True))
    listed = isinstance(scale_factor, (tuple, list))
    factors = tuple(scale_factor) if listed else (scale_factor,) * len(given)
    real = all(isinstance(one, Real) and not isinstance(one, bool) for one in factors)
    if len(factors) != len(given) or not real:
        raise TypeError(
            f"{name}: scale_factor: expected a number or {len(given)} of them, got {scale_factor!r}"
        )
    if not all(one > 0 and math.isfinite(one) for one in factors):
        raise ValueError(f"{name}: scale_factor: expected positive numbers, got {scale_factor!r}")
    sizes = tuple(math.floor(n * float(one)) for n, one in zip(given, factors, strict=True))
    if min(sizes) < 1:
        raise ValueError(f"{name}: scale_factor: {scale_factor!r} leaves nothing of {tuple(given)}")
    return sizes, tuple(1 / float(one) for one in factors)


#: The matrices of layouts and options that passed all checks.
_known: Cache[Any, list[Band]] = Cache()


def interpolate(
    x: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Array:
    """``x`` with other sizes of the axes after the second: upsampling or downsampling.

    Values are PyTorch's. Each element of the result is computed in one pass, and so is each of the gradient, which is
    the same in every run.

    Args:
        x: shape (N, C, L), (N, C, H, W) or (N, C, D, H, W), a floating dtype.
        size: the sizes of the result's axes after the second; an int for all.
        scale_factor: instead of ``size``, the factors by which they grow, rounded down; a number for all. Coordinates
            are scaled by exactly this, also where rounding leaves a size as it is and PyTorch on a CPU copies.
        mode: ``"nearest"``, at the place rounded down; ``"nearest-exact"``, at the nearest center; ``"linear"``,
            between two elements along each axis, also called ``"bilinear"`` and ``"trilinear"``; ``"cubic"``, by Keys'
            kernel with a = -0.75 along each axis, also called ``"bicubic"``; ``"area"``, the average of
            :func:`adaptive_avg_pool2d`.
        align_corners: for linear and cubic, whether the centers of the outermost elements coincide rather than their
            outer edges.
        antialias: for linear and cubic, whether axes that shrink are smoothed: elements of the result are averages of
            all that they cover, with the weights of a triangle or of Keys' kernel with a = -0.5, which the cubic mode
            has for growing axes too then, as Pillow and PyTorch.

    Returns:
        Shape (N, C, *size), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size or factor is not a number.
        ValueError: there is no such mode, sizes do not fit, or an axis of ``x`` after the second is empty.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 3.0]]])
    >>> ck.nn.interpolate(x, scale_factor=2).tolist()
    [[[1.0, 1.0, 3.0, 3.0]]]
    >>> ck.nn.interpolate(x, 4, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    name = "interpolate"
    layouts = layouts_of(x)
    key = (
        None
        if layouts is None
        else options_key((*layouts, size, scale_factor, mode, align_corners, antialias))
    )
    known = None if key is None else _known.get(key)
    if known is not None:
        return resampled(x, known)
    x = require_array(x, name)
    common_dtype(name, {"x": x})
    given = x.shape[2:]
    if not 1 <= len(given) <= 3 or not all(given):
        raise ValueError(
            f"{name}: x: expected shape (N, C, ...) with one to three further axes, got {x.shape}"
        )
    kind, count = _OTHER_NAMES.get(mode, (mode, len(given)))
    if kind not in _MODES or count != len(given):
        names = (*_MODES, *_OTHER_NAMES)
        raise ValueError(f"{name}: mode: expected one of {names} for {len(given)} axes, got {mode!r}")
    sizes, scales = _targets(name, given, size, scale_factor)
    make: Callable[..., Band] = bands.linear if kind == "linear" else bands.cubic
    option = bool(align_corners)
    if kind.startswith("nearest"):
        make, option = bands.nearest, kind == "nearest-exact"
    for argument, value in (("align_corners", align_corners), ("antialias", antialias)):
        if value and kind not in ("linear", "cubic"):
            raise ValueError(f"{name}: {argument}: expected False for mode {mode!r}")
    if antialias:
        make = partial(bands.smoothed, cubic=kind == "cubic")
    if kind == "area":
        return area(x, sizes)
    axes = [make(*one, option) for one in zip(given, sizes, scales, strict=True)]
    if key is not None:
        _known.keep(key, axes)
    return resampled(x, axes)


#: PyTorch's older name.
upsample = interpolate


class Upsample(OfFunction, of=interpolate):
    """:func:`interpolate` as a module; its arguments are those of the function.

    >>> import cukern as ck
    >>> ck.nn.Upsample(scale_factor=2)(ck.ones((1, 1, 3))).shape
    (1, 1, 6)
    """
