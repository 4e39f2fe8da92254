"""Histograms: the number of elements, or their weight, in each bin."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray
from ..array.creation import zeros as zeros_of
from ..autodiff import tape
from ..device.interface import Style
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public, require_array
from ..elementwise.row import is_scalar
from ..elementwise.table import greater, greater_equal, isnan, where
from ..errors import require_choice, require_int
from ..index.search import searchsorted
from ..index.take import index_add
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, compiled, launch, serial, zeros
from ..kernel.sizes import divide_up
from ..reduction.rows import any, max, min, sum
from ..shape.views import flip, reshape
from .calculus import diff

__all__ = ["bincount", "digitize", "histogram", "histogram_bin_edges"]

_KERNEL = Kernel("ops/histogram.cu", block=256)
_BINCOUNT = by_numpy("bincount", least=0)(lambda x, bins: np.bincount(x, minlength=bins))
#: Bins that fit in the shared memory of a block.
_SHARED = 8192
#: The share of a bin by which rounding may move the ends of a range.
_MOVED = 0.25


class Shape(NamedTuple):
    """The geometry of counting: threads per block, the memory of the counters, elements per block."""

    block: int
    mode: str
    piece: int


def shape_for(style: Style, n: int, bins: int) -> Shape:
    """The geometry for ``n`` elements and a style of device."""
    if style == "serial":
        blocks = int(np.clip(n >> 16, 1, np.clip((1 << 22) // bins, 1, 16)))
        return Shape(1, "own", divide_up(n, blocks))
    return Shape(256, "shared" if bins <= _SHARED else "global", int(np.maximum(4096, divide_up(n, 2048))))


def _launch(x: Array, edges: Array | None, bins: int, rule: str, shape: Shape, result: Any) -> None:
    x = x.contiguous()
    kind = None if edges is None else edges.dtype
    compute = x.dtype if kind is None else dtypes.comparable(x.dtype, kind)
    function = compiled(
        _KERNEL, x.device, name=f"histogram_{rule}_{shape.mode}_{dtypes.info(x.dtype).name}_{shape.block}",
        block=shape.block, rule=rule, mode=shape.mode, source=dtypes.info(x.dtype).cxx,
        edge="" if kind is None else dtypes.info(kind).cxx, compute=dtypes.info(dtypes.info(compute).acc).cxx,
    )  # fmt: skip
    arrays = (x._data,) if edges is None else (x._data, edges.contiguous()._data)
    shared = 4 * bins if shape.mode == "shared" else 0
    values = (*arrays, result, x.size, shape.piece, bins)
    launch(x.device, function, divide_up(x.size, shape.piece), shape.block, values, shared)


def counted(x: Array, edges: Array | None, bins: int, rule: str, shape: Shape | None = None) -> Array:
    """The number of elements in each bin, int64; without edges, the counts of the numbers 0 to ``bins - 1``."""
    if not x.size or not bins:
        return Array._wrap(zeros(x.device, (bins,), dtypes.int64), x.device)
    shape = shape or shape_for(x.device.style, x.size, bins)
    rows = divide_up(x.size, shape.piece) if shape.mode == "own" else 1
    result = zeros(x.device, (rows, bins), dtypes.int64)
    _launch(x, edges, bins, rule, shape, result)
    counts = Array._wrap(result, x.device)
    return sum(counts, 0) if rows > 1 else reshape(counts, (bins,))


def _weighed(x: Array, edges: Array | None, bins: int, rule: str, weights: Array) -> Array:
    """The sums of weights in each bin, in the order of the elements, in float64 or an integer dtype."""
    indices = allocate(x.device, (x.size,), dtypes.int64)
    if x.size:
        block, piece = (1, 16384) if serial(x.device) else (256, 2048)
        _launch(x, edges, bins, rule, Shape(block, "place", piece), indices)
    kind = dtypes.info(weights.dtype).kind
    wide = dtypes.float64 if kind == "f" else dtypes.int64 if kind == "b" else weights.dtype
    start = zeros_of(bins + 1, wide, x.device)
    added = index_add(start, Array._wrap(indices, x.device), astype(weights, wide, copy=False))
    return added[:bins]


# ----- edges -----


@fuse
def _spaced(k: Any, low: Any, high: Any, bins: Any) -> Any:
    first, last = astype(low, dtypes.float64), astype(high, dtypes.float64)
    flat = first == last
    first, last = where(flat, first - 0.5, first), where(flat, last + 0.5, last)
    return where(k == bins, last, first + k * ((last - first) / bins))


def _outer(name: str, x: Array, range: Any) -> tuple[Any, Any]:
    """The outer edges of the first and the last bin, as 0-d arrays.

    Raises:
        ValueError: they are not a range, as far as the host knows them.
    """
    if range is None and x.size:
        low, high = min(x), max(x)
        if not x.device.addressable:
            return low, high
    else:
        low, high = (
            asarray(end, dtypes.float64, x.device) for end in ((0.0, 1.0) if range is None else range)
        )
    given = range is not None
    with tape.stop_recording():  # only to check the values
        ends = (float(range[0]), float(range[1])) if given else (low.item(), high.item())
    if ends[0] > ends[1]:
        raise ValueError(f"{name}: range: expected the smaller end first, got {range}")
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1])):
        raise ValueError(f"{name}: range: expected finite ends, {'got' if given else 'found'} {ends}")
    return low, high


def _even(name: str, x: Array, bins: int, range: Any) -> Array:
    """The edges of ``bins`` bins of equal width."""
    dtype = x.dtype if x.dtype in dtypes.FLOATS else dtypes.float64
    low, high = _outer(name, x, range)
    if range is not None:
        # NumPy's numbers and arrays keep their digits, Python's have the dtype of the data.
        dtype = dtypes.result_type(dtype, *(end.dtype for end in range if hasattr(end, "dtype")))
        dtype = dtype if dtype in dtypes.FLOATS else dtypes.float64
        ends = [float(end) for end in range]
        moved = [np.abs(float(dtype.type(end)) - end) for end in ends]
        if np.max(moved) > _MOVED * (ends[1] - ends[0]) / bins:
            raise ValueError(
                f"{name}: range: {tuple(range)} is another range in {dtype}, the dtype of the data; make that float64"
            )
    k = arange(bins + 1, dtype=dtypes.float64, device=x.device)
    edges = astype(_spaced(k, low, high, float(bins)), dtype, copy=False)
    if x.device.addressable and bool(any(greater_equal(edges[:-1], edges[1:]))):
        raise ValueError(f"{name}: bins: {bins} are too many for the range of the data in {dtype}")
    return edges


def shown_edges(edges: Array, rule: str, x: Array) -> Array:
    """The edges to return: equidistant ones of integers in the default dtype instead of float64."""
    if rule != "even" or x.dtype in dtypes.FLOATS:
        return edges
    return astype(edges, dtypes.get_default_dtype(), copy=False)


#: NumPy's names of rules for the width of bins.
_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def _estimated(name: str, x: Array, rule: str, range: Any, weights: Any) -> int:
    """The number of bins by a rule, which NumPy computes on the host."""
    require_choice(f"{name}: bins", rule, _RULES)
    if weights is not None:
        raise TypeError(f"{name}: bins: {rule!r} is for data without weights")
    _outer(name, x, range)  # whose errors are this function's
    data = x.numpy()
    data = data.astype(np.float64) if x.dtype in dtypes.FLOATS else data
    ends = None if range is None else (float(range[0]), float(range[1]))
    return np.histogram_bin_edges(data, rule, ends).size - 1


def find_edges(name: str, x: Array, bins: Any, range: Any, weights: Any) -> tuple[Array, str]:
    """The edges of the bins, and whether they are "even" or to "search"."""
    if isinstance(bins, str):
        with tape.stop_recording():
            bins = _estimated(name, x, bins, range, weights)
    if is_scalar(bins) or not np.ndim(bins):
        try:
            count = operator.index(bins)
        except TypeError:
            raise TypeError(f"{name}: bins: expected an integer, a name or edges, got {bins!r}") from None
        if count < 1:
            raise ValueError(f"{name}: bins: expected at least 1, got {count}")
        return _even(name, x, count, range), "even"
    edges = asarray(bins, device=x.device)
    if edges.ndim != 1:
        raise ValueError(f"{name}: bins: expected edges along one axis, got shape {edges.shape}")
    if edges.device.addressable and bool(any(greater(edges[:-1], edges[1:]))):
        raise ValueError(f"{name}: bins: expected edges in ascending order")
    return edges, "search"


def as_sample(name: str, x: Array, weights: Any) -> tuple[Array, Array | None]:
    """Data and weights as vectors; bools as numbers."""
    x = require_array(x, name)
    flat = reshape(astype(x, dtypes.uint8) if x.dtype == dtypes.bool_ else x, (-1,))
    if weights is None:
        return flat, None
    shares = asarray(weights, device=x.device)
    if shares.shape != x.shape:
        raise ValueError(f"{name}: weights: expected shape {x.shape}, got {shares.shape}")
    return flat, reshape(shares, (-1,))


@public
def histogram_bin_edges(x: Array, /, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of the bins of a :func:`histogram`."""
    flat, shares = as_sample("histogram_bin_edges", x, weights)
    return shown_edges(*find_edges("histogram_bin_edges", flat, bins, range, shares), flat)


@public
def histogram(
    x: Array, /, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array]:
    """The number of elements in each bin, as ``numpy.histogram``; bins contain their lower edge.

    Args:
        x: any array; NaN is in no bin.
        bins: the number of bins of equal width; or their edges in ascending order, (bins + 1,); or the name of a rule
            for their number, which waits for the device: ``"auto"``, ``"fd"``, ``"doane"``, ``"scott"``, ``"rice"``,
            ``"sturges"``, ``"stone"`` or ``"sqrt"``.
        range: the outer edges of the first and the last bin; by default the extremes of ``x``.
        density: whether to divide the result so that its integral is 1, in the dtype of the edges.
        weights: the weight of each element, of the shape of ``x``; the result is differentiable with respect to it, and
            the edges with respect to ``range`` or the extremes of ``x``.

    Returns:
        The counts, (bins,), in int64 or the dtype of the weights; and the edges, (bins + 1,). The last bin also
        contains its upper edge.

    Raises:
        TypeError: ``bins`` is not an integer, a name or edges.
        ValueError: ``bins`` or ``range`` is invalid; values on a GPU are not checked.

    >>> import cukern as ck
    >>> ck.histogram(ck.asarray([1, 2, 1, 4]), [1, 2, 3, 4])[0].tolist()
    [2, 1, 1]
    """
    flat, shares = as_sample("histogram", x, weights)
    edges, rule = find_edges("histogram", flat, bins, range, shares)
    shown = shown_edges(edges, rule, flat)
    count = edges.size - 1 if edges.size else 0
    if shares is None or not count:
        result = counted(flat, edges, count, rule)
    else:
        result = _weighed(flat, edges, count, rule, shares)
        if shares.dtype in dtypes.FLOATS:
            result = astype(result, shares.dtype, copy=False)
    if density:
        wide = astype(result, dtypes.float64, copy=False)
        dense = wide / diff(astype(edges, dtypes.float64, copy=False)) / sum(wide)
        kinds = [result.dtype] if result.dtype in dtypes.FLOATS else []
        result = astype(dense, dtypes.float_of(shown.dtype, *kinds), copy=False)
    return result, shown


@public
def bincount(x: Array, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of the numbers 0, 1, 2, ... occurs.

    Waits for the device, to read the largest number.

    Args:
        x: a vector of non-negative integers.
        weights: the weight of each element, of the shape of ``x``; differentiable.
        minlength: the minimum size of the result.

    Returns:
        int64; with weights, their floating dtype, the default one for integers. Weights are added in float64.

    Raises:
        TypeError: ``x`` is not of integers.
        ValueError: ``x`` is not a vector or has a negative number, or the number of weights is wrong.

    >>> import cukern as ck
    >>> ck.bincount(ck.asarray([1, 3, 1])).tolist()
    [0, 2, 0, 1]
    """
    x = require_array(np.zeros(0, np.int64) if isinstance(x, (list, tuple)) and not x else x, "bincount")
    if dtypes.info(x.dtype).kind == "f":
        raise TypeError(f"bincount: x: expected integers, got {x.dtype}")
    if x.ndim != 1:
        raise ValueError(f"bincount: x: expected one axis, got shape {x.shape}")
    bins = require_int("bincount: minlength", minlength, 0)
    if weights is None and (counts := _BINCOUNT(x, bins)) is not None:
        return counts
    flat, shares = as_sample("bincount", x, weights)
    if x.size:
        low, high = int(min(flat).item()), int(max(flat).item())
        if low < 0:
            raise ValueError(f"bincount: x: expected no negative number, got {low}")
        bins = high + 1 if high >= bins else bins
    if shares is None:
        return counted(flat, None, bins, "value")
    result = dtypes.float_of(shares.dtype)
    counts = _weighed(flat, None, bins, "value", astype(shares, dtypes.float64, copy=False))
    return astype(counts, result, copy=False)


def _ascending(edges: npt.NDArray[Any]) -> bool:
    """Whether edges in host memory ascend; NaN comes last."""
    known = edges[: edges.size - int(np.isnan(edges).sum())]
    return bool(np.all(known[:-1] <= known[1:])) and not np.any(np.isnan(known))


@public
def digitize(x: Any, /, bins: Any, right: bool = False) -> Array:
    """The index ``i`` of the bin of each element: ``bins[i - 1] <= x < bins[i]``.

    Args:
        x: any array.
        bins: the edges in ascending or in descending order, where NaN is the largest number; arrays on a GPU are not
            checked.
        right: whether bins contain their upper edge instead of the lower one.

    Returns:
        int64, of the shape of ``x``: 0 before the first edge, the number of edges after the last.

    Raises:
        TypeError: ``x`` or ``bins`` is complex.
        ValueError: ``bins`` is not a vector, or not monotonic.

    >>> import cukern as ck
    >>> ck.digitize(ck.asarray([0.2, 6.4, 3.0]), [0.0, 1.0, 2.5, 4.0]).tolist()
    [1, 4, 3]
    """
    device = x.device if isinstance(x, Array) else bins.device if isinstance(bins, Array) else None
    with tape.stop_recording():
        values = asarray(x, device=device)
        edges = asarray(bins, device=values.device)
        for name, one in (("x", values), ("bins", edges)):
            if one.dtype in dtypes.COMPLEX:
                raise TypeError(f"digitize: {name}: expected real numbers, got {one.dtype}")
        if edges.ndim != 1:
            raise ValueError(f"digitize: bins: expected one axis, got shape {edges.shape}")
        side: Any = "left" if right else "right"
        if edges.size < 2:
            return searchsorted(edges, values, side=side)
        if edges.device.addressable and not (
            _ascending(edges._fetched()) or _ascending(edges._fetched()[::-1])
        ):
            raise ValueError("digitize: bins: expected edges in ascending or in descending order")
        falls = isnan(edges[0]) | (edges[0] > edges[edges.size - 1])
        positions = searchsorted(where(falls, flip(edges), edges), values, side=side)
        return where(falls, edges.size - positions, positions)
