"""The weights of resampling along an axis, as banded matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ... import dtypes
from ...array import Array
from ...array.creation import asarray
from ...device import Device
from ...kernel.sizes import ACCESS, divide_up
from ...pytree import declare_leaf

Indices = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@declare_leaf
@dataclass(frozen=True, eq=False)
class Band:
    """A matrix of sizes (out, n), whose row o has ``weights[o]`` from column ``starts[o]`` on, and zeros elsewhere.

    Attributes:
        n: elements along the axis that is read.
        starts: shape (out,), in ascending order.
        weights: shape (out, taps).
    """

    n: int
    starts: Indices
    weights: Weights

    @property
    def out(self) -> int:
        """Elements of the result."""
        return len(self.starts)

    @property
    def taps(self) -> int:
        """Elements that one of the result is the sum of."""
        return int(self.weights.shape[1])

    def dense(self) -> Weights:
        """The matrix, shape (out, n)."""
        made = np.zeros((self.out, self.n))
        for o, (start, weights) in enumerate(zip(self.starts, self.weights, strict=True)):
            made[o, start : start + self.taps] = weights
        return made

    @cached_property
    def transposed(self) -> Band:
        """The transpose, whose transpose this is."""
        rows, taps = np.nonzero(self.weights)
        made = of_entries(self.out, self.n, self.starts[rows] + taps, rows, self.weights[rows, taps])
        made.__dict__["transposed"] = self
        return made

    def grouped(self, items: int, bytes_of: int) -> Groups:
        """The matrix by groups of ``items`` rows, which divide it, for elements of so many bytes."""
        return _groups(self, items, ACCESS // bytes_of)

    def on(self, device: Device, elem: dtypes.DType) -> tuple[Array, Array]:
        """Starts and weights as arrays."""
        return _arrays(self, device, dtypes.info(elem).acc)


class Groups(NamedTuple):
    """A matrix with one start for several rows, which may lie before its first column; what reaches beyond is 0.

    Attributes:
        band: with a start a group and weights of each row.
        wide: columns that are read together: starts and the columns of the matrix are multiples of them.
        inside: whether all columns that are read are of the matrix.
        patterns: for each row of a group, the places whose weights are not 0 in some group, as bits; and those where
            they are not 0 in any group in which the place is a column of the matrix.
    """

    band: Band
    wide: int
    inside: bool
    patterns: tuple[tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=1024)
def _groups(band: Band, items: int, widest: int) -> Groups:
    used = band.weights != 0
    low = (band.starts + used.argmax(1)).reshape(-1, items).min(1)
    last = band.starts + band.taps - 1 - used[:, ::-1].argmax(1)
    last = np.where(used.any(1), last, band.starts).reshape(-1, items).max(1)
    starts, wide, (step, left) = low, 1, divmod(items * band.n, band.out)
    if not left:
        # Equally far apart they have the same pattern, and may be read in packs.
        first = (low - step * np.arange(len(low))).min()
        wide = math.gcd(step, band.n, widest)
        starts = first // wide * wide + step * np.arange(len(low))
        if (last - starts).max() > 2 * (last - low).max() + 2 * wide:
            starts, wide = low, 1
    reach = divide_up(int((last - starts).max()) + 1, wide) * wide
    weights = np.zeros((band.out, reach))
    rows, taps = np.nonzero(used)
    weights[rows, band.starts[rows] + taps - np.repeat(starts, items)[rows]] = band.weights[rows, taps]
    columns = starts[:, None] + np.arange(reach)
    outside = (columns < 0) | (columns >= band.n)
    present = (weights != 0).reshape(-1, items, reach)
    some = present.any(0)
    sure = some & (present | outside[:, None]).all(0)
    return Groups(Band(band.n, starts, weights), wide, not outside.any(), (_bits(some), _bits(sure)))


def _bits(rows: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(sum(1 << place for place, one in enumerate(row) if one) for row in rows.tolist())


@lru_cache(maxsize=256)
def _arrays(band: Band, device: Device, dtype: dtypes.DType) -> tuple[Array, Array]:
    """A band's starts and weights on a device; few are kept, as they take its memory."""
    starts, weights = band.starts.astype(np.int32), band.weights.astype(dtype)
    return asarray(starts, device=device), asarray(weights, device=device)


def of_entries(n: int, out: int, rows: Indices, columns: Indices, values: Weights) -> Band:
    """The matrix of sizes (out, n) with these entries; repeated ones add up."""
    low, high = np.full(out, n), np.full(out, -1)
    np.minimum.at(low, rows, columns)
    np.maximum.at(high, rows, columns)
    taps = max(1, int((high - low).max()) + 1)
    # A row without entries begins where the one before it does.
    starts = np.maximum.accumulate(np.where(high < 0, 0, np.minimum(low, n - taps)))
    weights = np.zeros((out, taps))
    np.add.at(weights, (rows, columns - starts[rows]), values)
    return Band(n, starts.astype(np.int64), weights)


def _of_taps(n: int, columns: Indices, weights: Weights) -> Band:
    """From the columns and weights of each row, (out, taps); columns beyond the ends are the end's."""
    out, taps = columns.shape
    rows = np.repeat(np.arange(out), taps)
    return of_entries(n, out, rows, np.clip(columns, 0, n - 1).reshape(-1), weights.reshape(-1))


@lru_cache(maxsize=256)
def same(n: int) -> Band:
    """The identity."""
    return Band(n, np.arange(n), np.ones((n, 1)))


@lru_cache(maxsize=256)
def nearest(n: int, out: int, scale: float, exact: bool) -> Band:
    """The element at ``floor(o * scale)``, or with ``exact`` at ``floor((o + 0.5) * scale)``, in float32."""
    places = np.arange(out, dtype=np.float32) + np.float32(0.5 * exact)
    columns = np.floor(places * np.float32(scale)).astype(np.int64)
    return _of_taps(n, columns[:, None], np.ones((out, 1)))


def _places(n: int, out: int, scale: float, align_corners: bool) -> Weights:
    """Where in an axis of ``n`` elements the elements of the result lie."""
    if align_corners:
        scale, edge = ((n - 1) / (out - 1) if out > 1 else 0.0), 0.0
    else:
        edge = 0.5
    return (np.arange(out, dtype=np.float64) + edge) * scale - edge


@lru_cache(maxsize=256)
def linear(n: int, out: int, scale: float, align_corners: bool) -> Band:
    """The two elements around a place, each by its distance from the other."""
    places = np.maximum(_places(n, out, scale, align_corners), 0.0)
    below = np.minimum(np.floor(places), n - 1)
    share = np.minimum(places - below, 1.0)
    columns = below.astype(np.int64)[:, None] + np.arange(2)
    return _of_taps(n, columns, np.stack([1 - share, share], axis=1))


@lru_cache(maxsize=256)
def cubic(n: int, out: int, scale: float, align_corners: bool) -> Band:
    """Keys' kernel with a = -0.75."""
    places = _places(n, out, scale, align_corners)
    below = np.floor(places)
    apart = np.abs((places - below)[:, None] - np.arange(-1, 3))
    columns = below.astype(np.int64)[:, None] + np.arange(-1, 3)
    return _of_taps(n, columns, _keys(apart, -0.75))


@lru_cache(maxsize=256)
def smoothed(n: int, out: int, scale: float, align_corners: bool, cubic: bool) -> Band:
    """A triangle, or Keys' kernel with a = -0.5, as wide as elements of the result, of weights with the sum 1."""
    if align_corners:
        scale = (n - 1) / (out - 1) if out > 1 else 0.0
    widened = max(scale, 1.0)
    reach = (2 if cubic else 1) * widened
    centers = scale * (np.arange(out) + 0.5)
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centers + reach + 0.5).astype(np.int64), n)
    columns = first[:, None] + np.arange((last - first).max())
    apart = np.abs(columns + 0.5 - centers[:, None]) / widened
    weights = _keys(apart, -0.5) if cubic else np.maximum(1 - apart, 0.0)
    weights = np.where(columns < last[:, None], weights, 0.0)
    return _of_taps(n, columns, weights / weights.sum(1, keepdims=True))


def _keys(apart: Weights, a: float) -> Weights:
    """The kernel of Keys, "Cubic convolution interpolation for digital image processing", 1981, at distances."""
    near = ((a + 2) * apart - (a + 3)) * apart * apart + 1
    far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
    return np.where(apart <= 1, near, np.where(apart < 2, far, 0.0))


@lru_cache(maxsize=256)
def windows(n: int, first: tuple[int, ...], last: tuple[int, ...], divisors: tuple[int, ...]) -> Band:
    """The sums from ``first`` up to ``last``, exclusive, over the divisors; what lies beyond the axis is 0."""
    low, high = np.maximum(first, 0), np.minimum(last, n)
    counts = np.maximum(high - low, 0)
    rows = np.repeat(np.arange(len(low)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return of_entries(n, len(low), rows, low[rows] + within, 1.0 / np.asarray(divisors)[rows])


def adaptive(n: int, out: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the windows of adaptive pooling begin and end: floor(o * n / out) and ceil((o + 1) * n / out)."""
    return tuple(o * n // out for o in range(out)), tuple(-(-(o + 1) * n // out) for o in range(out))
