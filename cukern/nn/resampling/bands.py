"""The weights of resampling along an axis, as banded matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ... import dtypes
from ...array import Array
from ...array.creation import asarray
from ...device import Device

Indices = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Band:
    """A matrix of sizes (out, n), whose row o has ``weights[o]`` from column ``starts[o]`` on, and zeros elsewhere.

    Of :meth:`banded` a start is that of several rows.

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

    @cached_property
    def transposed(self) -> Band:
        """The transpose, whose transpose this is."""
        rows, taps = np.nonzero(self.weights)
        made = of_entries(self.out, self.n, self.starts[rows] + taps, rows, self.weights[rows, taps])
        made.__dict__["transposed"] = self
        return made

    def banded(self, rows: int) -> Band:
        """The matrix with one start for each ``rows`` rows, the last of which are zeros."""
        found: dict[int, Band] = self.__dict__.setdefault("_banded", {})
        if rows not in found:
            low = self.starts[::rows]
            last = np.minimum(np.arange(rows - 1, len(low) * rows, rows), self.out - 1)
            reach = int((self.starts[last] + self.taps - low).max())
            starts = np.minimum(low, self.n - reach)
            places = self.starts - np.repeat(starts, rows)[: self.out]
            weights = np.zeros((len(low) * rows, reach))
            np.put_along_axis(
                weights[: self.out], places[:, None] + np.arange(self.taps), self.weights, axis=1
            )
            found[rows] = Band(self.n, starts, weights)
        return found[rows]

    def patterns(self, rows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The weights of the rows of :meth:`banded`'s bands that are not 0 in any band, and in all, as bits."""
        found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = self.__dict__.setdefault("_patterns", {})
        if rows not in found:
            used = self.banded(rows).weights != 0
            of_bands = (-1, rows, used.shape[1])
            some = used.reshape(of_bands).any(0)
            used[self.out :] = True  # rows of zeros after the last
            every = used.reshape(of_bands).all(0) & some
            found[rows] = _bits(some), _bits(every)
        return found[rows]

    def on(self, device: Device, elem: dtypes.DType) -> tuple[Array, Array]:
        """Starts and weights as arrays."""
        return _arrays(self, device, dtypes.info(elem).acc)


def _bits(rows: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(sum(1 << place for place, one in enumerate(row) if one) for row in rows.tolist())


@lru_cache(maxsize=256)
def _arrays(band: Band, device: Device, acc: dtypes.DType) -> tuple[Array, Array]:
    return asarray(band.starts.astype(np.int32), device=device), asarray(
        band.weights.astype(acc), device=device
    )


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


@cache
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
    """Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.75."""
    a = -0.75
    places = _places(n, out, scale, align_corners)
    below = np.floor(places)
    apart = np.abs((places - below)[:, None] - np.arange(-1, 3))
    near = ((a + 2) * apart - (a + 3)) * apart * apart + 1
    far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
    columns = below.astype(np.int64)[:, None] + np.arange(-1, 3)
    return _of_taps(n, columns, np.where(apart <= 1, near, far))


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
