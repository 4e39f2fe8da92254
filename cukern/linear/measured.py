"""Times of products: whether one launch on tensor cores beats the library's product and a kernel after it.

Made of `benchmarks/results/product.md`; to take in other measurements, edit :data:`TIMES`.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Times(NamedTuple):
    """What a product of half types with a bias and a ReLU took, in microseconds.

    Attributes:
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: measured, of the kernel of :mod:`.tensor_cores`.
        apart: estimated, of the device's library and one kernel after it: PyTorch's product, and half of what the two
            kernels take that PyTorch runs after it.
    """

    batches: int
    m: int
    k: int
    n: int
    by_depth: bool
    own: float
    apart: float


TIMES = (
    Times(1, 4096, 4096, 4096, False, 225, 205),
    Times(1, 4096, 4096, 4096, True, 223, 205),
    Times(1, 8192, 8192, 8192, False, 1881, 1558),
    Times(32, 512, 512, 512, False, 24, 33),
    Times(1, 16384, 768, 3072, True, 158, 198),
    Times(1, 16384, 3072, 768, True, 131, 126),
)


def is_own_faster(batches: int, m: int, k: int, n: int, by_depth: bool) -> bool:
    """Whether one launch with an epilogue is faster, as it is for the measured product nearest in proportion."""

    def distance(one: Times) -> float:
        sizes = zip((batches, m, k, n), (one.batches, one.m, one.k, one.n), strict=True)
        return sum(abs(math.log(x / y)) for x, y in sizes) + (one.by_depth != by_depth)

    near = min(TIMES, key=distance)
    return near.own < near.apart
