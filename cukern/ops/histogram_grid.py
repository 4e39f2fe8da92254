"""Histograms of points: the number of points, or their weight, in each cell of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import arange, zeros
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.operands import public, require_array, require_arrays
from ..elementwise.table import equal, where
from ..reduction.rows import sum
from ..shape.joins import concat, unstack
from ..shape.views import reshape
from .calculus import diff
from .histogram import as_sample, bincount, digitize, find_edges, shown_edges

__all__ = ["histogram2d", "histogramdd"]


def _coordinates(sample: Any) -> list[Array]:
    """The coordinates of points, an array (n, d), or of a sequence of d vectors or lists."""
    if isinstance(sample, (list, tuple)) and sample and not np.isscalar(sample[0]):
        columns = require_arrays(sample, "histogramdd")
        if {column.shape for column in columns} != {(columns[0].size,)}:
            raise ValueError(
                f"histogramdd: sample: expected vectors of one size, got {[x.shape for x in columns]}"
            )
        return columns
    points = require_array(sample, "histogramdd", "sample")
    points = reshape(points, (-1, 1)) if points.ndim < 2 else points
    if points.ndim != 2:
        raise ValueError(f"histogramdd: sample: expected shape (n, d), got {points.shape}")
    return list(unstack(points, axis=1))


def _for_each(value: Any, d: int, name: str) -> list[Any]:
    """``value`` for each coordinate: one, or a sequence of ``d``."""
    if not isinstance(value, (list, tuple)):
        return [value] * d
    if len(value) != d:
        raise ValueError(f"histogramdd: {name}: expected one for each of {d} coordinates, got {len(value)}")
    return list(value)


def _edges(flat: Array, bins: Any, ends: Any) -> tuple[Array, str]:
    """The edges of a coordinate and their kind as of :func:`find_edges`; even ones as ``numpy.linspace`` rounds them.

    Those are in float64 between ends that are given, else in the floating dtype of the data.
    """
    given = ends is not None and not isinstance(bins, str)
    edges, rule = find_edges(
        "histogramdd", zeros(0, dtypes.float64, flat.device) if given else flat, bins, ends, None
    )
    if not edges.size:
        raise ValueError("histogramdd: bins: expected at least one edge")
    if rule != "even" or edges.dtype == dtypes.float64:
        return edges, rule
    count = edges.size - 1
    step = (edges[-1] - edges[0]) / count
    inner = arange(count, dtype=edges.dtype, device=edges.device) * step + edges[0]
    return concat([inner, edges[-1:]]), rule


@public
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, list[Array]]:
    """The number of points in each cell of a grid, as ``numpy.histogramdd``.

    Args:
        sample: points, (n, d), or a sequence of their d coordinates, each (n,).
        bins: the number of bins of equal width of every coordinate, or for each coordinate the number or edges in
            ascending order.
        range: for each coordinate the outer edges, or None for the extremes.
        density: whether to divide the result so that its integral is 1.
        weights: the weight of each point, (n,); differentiable.

    Returns:
        The counts, (bins of the first coordinate, ...), in the floating dtype of the weights, else of the sample, the
        default one for integers; and the edges of each coordinate.

    Raises:
        ValueError: the shapes do not fit, or ``bins`` or ``range`` is invalid.

    >>> import cukern as ck
    >>> counts, edges = ck.histogramdd(ck.asarray([[0.0, 1.0], [1.0, 1.0]]), [2, [0.0, 2.0]])
    >>> counts.tolist(), [one.tolist() for one in edges]
    ([[1.0], [1.0]], [[0.0, 0.5, 1.0], [0.0, 2.0]])
    """
    columns = _coordinates(sample)
    d = len(columns)
    samples = [as_sample("histogramdd", column, weights) for column in columns]
    edges, shown = [], []
    for (flat, _), one, ends in zip(
        samples, _for_each(bins, d, "bins"), _for_each(range, d, "range"), strict=True
    ):
        axis_edges, rule = _edges(flat, one, ends)
        edges.append(axis_edges)
        made_of = flat.dtype in dtypes.FLOATS and rule == "even"
        shown.append(
            astype(axis_edges, flat.dtype, copy=False) if made_of else shown_edges(axis_edges, rule, flat)
        )
    shape = tuple(edge.size - 1 for edge in edges)
    cells = _cells([flat for flat, _ in samples], edges, shape)
    counts = bincount(cells, samples[0][1], minlength=math.prod(shape) + 1)[:-1]
    result = counts.dtype if counts.dtype in dtypes.FLOATS else dtypes.float_of(*(x.dtype for x in columns))
    values = reshape(counts if counts.dtype in dtypes.FLOATS else astype(counts, dtypes.float64), shape)
    if density:
        total = sum(values)
        for axis, one in enumerate(edges):
            widths = astype(diff(one), values.dtype, copy=False)
            values = values / reshape(widths, (-1, *(1,) * (d - 1 - axis)))
        values = values / total
    return astype(values, result, copy=False), shown


def _cells(columns: Sequence[Array], edges: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The number of the cell of each point in C order; points outside the grid have the number after the last."""
    with tape.stop_recording():
        flat_cell = zeros(columns[0].size, dtypes.int64, columns[0].device)
        inside: Any = None
        for flat, one, count in zip(columns, edges, shape, strict=True):
            cell = digitize(flat, one) - 1
            cell = where(equal(flat, one[-1]), count - 1, cell)
            fits = (cell >= 0) & (cell < count)
            inside = fits if inside is None else inside & fits
            flat_cell = flat_cell * count + cell
        return where(inside, flat_cell, math.prod(shape))


@public
def histogram2d(
    x: Array, y: Array, /, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """The number of points in each cell of a grid, as ``numpy.histogram2d``.

    Args:
        x: the points' first coordinates, (n,).
        y: the points' second coordinates, (n,).
        bins: for both coordinates, or a pair: the number of bins of equal width, or edges in ascending order.
        range: a pair of the outer edges of each coordinate; by default the extremes.
        density: whether to divide the result so that its integral is 1.
        weights: the weight of each point, (n,); differentiable.

    Returns:
        The counts, (x bins, y bins), in the floating dtype of the weights, else of the data; the edges of x, and of y.

    Raises:
        ValueError: the shapes do not fit, or ``bins`` or ``range`` is invalid.

    >>> import cukern as ck
    >>> ck.histogram2d(ck.asarray([0.0, 1.0]), ck.asarray([0.0, 1.0]), 2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    pair = require_arrays((x, y), "histogram2d", ("x", "y"))
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape:
        raise ValueError(
            f"histogram2d: expected as many x as y, got shapes {pair[0].shape} and {pair[1].shape}"
        )
    both = bins if isinstance(bins, (tuple, list)) and len(bins) == 2 else [bins, bins]
    counts, edges = histogramdd(pair, both, range, density, weights)
    return counts, edges[0], edges[1]
