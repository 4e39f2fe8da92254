"""Measured times of products: whether one launch on tensor cores beats the library's product and an elementwise kernel.

Made of `benchmarks/results/product.md`; to take in other measurements, edit :data:`TIMES`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import dtypes
from ..dtypes import DType


class Times(NamedTuple):
    """What a product took, in microseconds.

    Attributes:
        dtype: of the factors and the result; another one of its size is taken to be as fast.
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: of the kernel of :mod:`.tensor_cores`, with an epilogue.
        library: of the product alone, by the device's library.
    """

    dtype: str
    batches: int
    m: int
    k: int
    n: int
    by_depth: bool
    own: float
    library: float


TIMES = (
    Times("bfloat16", 1, 4096, 4096, 4096, False, 225, 176),
    Times("bfloat16", 1, 4096, 4096, 4096, True, 223, 176),
    Times("bfloat16", 1, 8192, 8192, 8192, False, 1881, 1447),
    Times("bfloat16", 32, 512, 512, 512, False, 24, 18),
    Times("bfloat16", 1, 16384, 768, 3072, True, 158, 113),
    Times("bfloat16", 1, 16384, 3072, 768, True, 131, 103),
)
#: Bytes that an elementwise kernel of half types reads and writes in a microsecond, and what a launch takes besides.
BANDWIDTH = 4.0e6
LAUNCH = 2.0


def is_own_faster(dtype: DType, batches: int, m: int, k: int, n: int, by_depth: bool) -> bool:
    """Whether one launch with an epilogue is faster than the library's product and an elementwise kernel.

    Of the nearest measured product, it takes the ratio of both times, and the library's arithmetic per microsecond; a
    product of few rows or columns takes at least as long as reading its factors.
    """

    def distance(one: Times) -> float:
        sizes = zip((batches, m, k, n), (one.batches, one.m, one.k, one.n), strict=True)
        return sum(abs(math.log(x / y)) for x, y in sizes) + (one.by_depth != by_depth)

    size = dtype.itemsize
    near = min((one for one in TIMES if dtypes.as_dtype(one.dtype).itemsize == size), key=distance)
    arithmetic = near.library * batches * m * n * k / (near.batches * near.m * near.n * near.k)
    library = max(arithmetic, size * batches * (m * k + k * n + m * n) / BANDWIDTH)
    # The product is written and read once more.
    return library * (near.own / near.library - 1) < 2 * size * batches * m * n / BANDWIDTH + LAUNCH
