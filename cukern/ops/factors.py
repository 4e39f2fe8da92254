"""The product of linear factors, one for each root of a polynomial."""

from __future__ import annotations

from ..array import Array
from ..array.creation import ones
from ..reduction.rows import sum
from ..shape.joins import stack
from ..shape.views import expand_dims, reshape
from .calculus import convolve
from .padding import pad

#: The most factors that are multiplied together, of which all products of two coefficients are in memory at once.
_FACTORS = 512


def product(zeros_at: Array) -> Array:
    """The coefficients of the product of x - r for each r, by pairs of factors."""
    result: Array | None = None
    first, size = 0, zeros_at.size
    while first < size:
        count = min(_FACTORS, 1 << ((size - first).bit_length() - 1))
        some = zeros_at[first : first + count]
        factors = stack([ones(count, some.dtype, some.device), -some], axis=-1)
        while len(factors) > 1:
            factors = _products(factors[0::2], factors[1::2])
        result = factors[0] if result is None else convolve(result, factors[0])
        first += count
    assert result is not None
    return result


def _products(p: Array, q: Array) -> Array:
    """The products of polynomials, (n, k) each: rows of products of coefficients, each a place behind the one above."""
    n, k = p.shape
    apart = pad(expand_dims(p, 2) * expand_dims(q, 1), [(0, 0), (0, 0), (0, k)])
    shifted = reshape(reshape(apart, (n, -1))[:, : k * (2 * k - 1)], (n, k, 2 * k - 1))
    return sum(shifted, 1)
