"""Resampling of trailing axes, with derivatives of any order, and interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...array.creation import empty
from ...array.layout import address
from ...elementwise.operands import require_array
from ...function import Function
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, divisor, index_type, power_of_two
from ..fused import common_dtype, several
from ..module import Module
from . import bands
from .bands import Band
from .regular import Regular, packs, regular

_BLOCK = 256
_KERNEL = Kernel("nn/resample.cu", block=_BLOCK)
#: Of a thread that goes down the rows of x: the most sums that it keeps, weights along each axis, and columns that it
#: reads; the rows that it makes, at most and at least where there are others, and the threads per multiprocessor below
#: which it has fewer.
_HELD, _TAPS, _REACH = 64, (8, 16, 16), 32
_MOST_ROWS, _FEWEST_ROWS, _BUSY = 64, 4, 512

_REGULAR, _GROUPS_BLOCK = Kernel("nn/resample_regular.cu"), 128
#: Of a thread of groups that are alike: the rows that it makes, of which those are taken that share at most such a part
#: of the rows of x with the next ones, by whether y is smaller; columns of a smaller y, columns of x that it reads, and
#: its products, at most.
_ROWS, _SHARED = (1, 2, 4, 8), {False: 1.0, True: 0.4}
_FEWER, _WIDEST, _PRODUCTS = 4, 32, 1200
#: Rows of x that are asked for before they are needed, by whether y is smaller; blocks of a multiprocessor at least,
#: and where it is smaller and of 16 bits.
_AHEAD, _RESIDENT, _RESIDENT_BACK = {False: 4, True: 1}, 4, 6

_MODES = ("nearest", "nearest-exact", "linear", "cubic", "area")
#: PyTorch's names of modes, with the number of axes that they say.
_OTHER_NAMES = {"bilinear": ("linear", 2), "trilinear": ("linear", 3), "bicubic": ("cubic", 2)}


def _items(x: Array, y: Array, axes: Sequence[Band]) -> int:
    """The columns of a thread that goes down the rows of ``x``; 0 where it cannot keep their sums."""
    across, along = axes[1], axes[2]
    items = ACCESS // x.itemsize
    while items > 1 and (
        along.out % items
        or address(y._data) % (items * x.itemsize)
        or items * (across.taps + along.taps) > _HELD
        or along.grouped(items, x.itemsize).band.taps > _REACH
    ):
        items //= 2
    fits = all(axis.taps <= most for axis, most in zip(axes, _TAPS, strict=True))
    return items if fits else 0


def _rows(out: int, threads: int, multiprocessors: int) -> int:
    """The rows of a thread, of which each makes so many threads."""
    rows = power_of_two(min(out, _MOST_ROWS))
    while rows > _FEWEST_ROWS and threads * divide_up(out, rows) < _BUSY * multiprocessors:
        rows //= 2
    return rows


def _alike(x: Array, y: Array, axes: Sequence[Band]) -> tuple[Regular, Regular] | None:
    """The groups of rows and of columns of a thread, where groups are alike."""
    depth, down, across = axes
    if depth.n != 1 or depth.out != 1 or address(x._data) % ACCESS or address(y._data) % ACCESS:
        return None
    items = ACCESS // x.itemsize
    columns = regular(across, min(items, _FEWER) if across.out < across.n else items)
    if columns is None or columns.reach > _WIDEST:
        return None
    found = None
    for count in _ROWS:
        rows = regular(down, count)
        if rows is None or rows.reach * columns.products + rows.products * columns.items > _PRODUCTS:
            continue
        found = rows, columns
        if rows.reach - rows.apart <= _SHARED[rows.apart > rows.items] * rows.apart:
            break
    return found


def _launch_regular(x: Array, y: Array, planes: int, down: Regular, across: Regular) -> Array:
    """A thread makes a group of rows by a group of columns."""
    smaller = down.apart > down.items
    bound = _REGULAR.bind(
        x.device,
        elem=x.dtype,
        index=index_type(x.size, y.size),
        down=down,
        across=across,
        packs=packs(across, x.shape[-1], x.itemsize),
        block=_GROUPS_BLOCK,
        ahead=_AHEAD[smaller],
        resident=_RESIDENT_BACK if smaller and x.itemsize == 2 else _RESIDENT,
    )
    threads = y.size // (down.items * across.items)
    groups = [divisor(y.shape[-1] // across.items), divisor(y.shape[-2] // down.items)]
    bound((x, y, planes, *x.shape[-2:], *y.shape[-2:], *groups), divide_up(threads, _GROUPS_BLOCK))
    return y


def _launch(x: Array, axes: tuple[Band, Band, Band]) -> Array:
    """The last three axes of ``x`` multiplied by one matrix each."""
    x = x.contiguous()
    shape = (*x.shape[:-3], *(one.out for one in axes))
    y = empty(shape, x.dtype, x.device)
    if not y.size:
        return y
    planes, (depth, across, along) = math.prod(x.shape[:-3]), axes
    alike = _alike(x, y, axes)
    if alike is not None:
        return _launch_regular(x, y, planes, *alike)
    items = _items(x, y, axes)
    groups = along.grouped(max(1, items), x.itemsize)
    wide = groups.wide if address(x._data) % (groups.wide * x.itemsize) == 0 else 1
    threads = planes * depth.out * (along.out // max(1, items))
    rows = _rows(across.out, threads, x.device.properties.multiprocessors) if items else 1
    tables = (depth, across, groups.band if items else along)
    bound = _KERNEL.bind(
        x.device,
        elem=x.dtype,
        index=index_type(x.size, y.size),
        items=max(1, items),
        walks=items > 0,
        wide=wide,
        inside=groups.inside,
        patterns=dict(zip(("used", "sure"), groups.patterns, strict=True)) if items else {},
        flat=depth.n == depth.out == 1,
        taps=tuple(one.taps for one in tables),
    )
    arrays = [array for one in tables for array in one.on(x.device, x.dtype)]
    threads *= divide_up(across.out, rows)
    bound((x, y, *arrays, planes, *x.shape[-3:], *shape[-3:], rows), divide_up(threads, _BLOCK))
    return y


class _Resampled(Function):
    """Linear, and its vjp is that of the transposed matrices."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, axes: tuple[Band, Band, Band]) -> Array:
        ctx.axes = axes
        return _launch(x, axes)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        first, second, third = ctx.axes
        return _Resampled.apply(dy, (first.transposed, second.transposed, third.transposed)), None


def resampled(x: Array, axes: Sequence[Band]) -> Array:
    """The last one to three axes of ``x`` multiplied by one matrix each."""
    outer = x.shape[: x.ndim - len(axes)]
    whole = (*(bands.same(1) for _ in range(3 - len(axes))), *axes)
    made: Array = _Resampled.apply(ops.reshape(x, (*outer, *(one.n for one in whole))), whole)
    return ops.reshape(made, (*outer, *(one.out for one in axes)))


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


def interpolate(
    x: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Array:
    """``x`` with other sizes of the axes after the second: upsampling or downsampling, without smoothing.

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
    if kind == "area":
        return area(x, sizes)
    make: Callable[..., Band] = bands.linear if kind == "linear" else bands.cubic
    option = bool(align_corners)
    if kind.startswith("nearest"):
        make, option = bands.nearest, kind == "nearest-exact"
    if align_corners and make is bands.nearest:
        raise ValueError(f"{name}: align_corners: expected False for mode {mode!r}")
    return resampled(x, [make(*one, option) for one in zip(given, sizes, scales, strict=True)])


#: PyTorch's older name.
upsample = interpolate


class Upsample(Module):
    """:func:`interpolate` as a module; its arguments are those of the function.

    >>> import cukern as ck
    >>> ck.nn.Upsample(scale_factor=2)(ck.ones((1, 1, 3))).shape
    (1, 1, 6)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.options = (size, scale_factor, mode, align_corners)

    def forward(self, x: Array) -> Array:
        """``x`` with other sizes."""
        return interpolate(x, *self.options)


__all__ = ["Upsample", "interpolate", "upsample"]
