"""Times of products: whether a kernel of the library's own beats the device's library, alone or with a kernel after it.

To take in other measurements, edit :data:`TIMES`; `benchmarks/product.py` prints them.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Times(NamedTuple):
    """What a product with a bias and a ReLU takes, in microseconds on an H200; of bfloat16 if its form does not say.

    Attributes:
        form: the kernel: "tiles" of :mod:`.tensor_cores`, "parts" if blocks share the depth, "tf32" if of float32,
            "tma" and "tf32 tma" of :mod:`.tma`, "few rows" and "few rows of float32" of :mod:`.few_rows`.
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: of the kernel.
        alone: of the device's library without bias and ReLU.
        apart: of the library and one kernel after it.
    """

    form: str
    batches: int
    m: int
    k: int
    n: int
    by_depth: bool
    own: float
    alone: float
    apart: float


#: Measured: `benchmarks/results/product.md`.
TIMES = (
    Times("tma", 1, 4096, 4096, 4096, False, 181.9, 176.1, 190.5),
    Times("tiles", 1, 4096, 4096, 4096, False, 234.8, 176.6, 191.2),
    Times("tma", 1, 4096, 4096, 4096, True, 181.9, 176.4, 191.3),
    Times("tiles", 1, 4096, 4096, 4096, True, 233.6, 176.6, 191.5),
    Times("tma", 1, 8192, 8192, 8192, False, 1487.2, 1473.9, 1564.9),
    Times("tiles", 1, 8192, 8192, 8192, False, 2116.2, 1508, 1553.9),
    Times("tma", 32, 512, 512, 512, False, 20.1, 18.5, 27.1),
    Times("tiles", 32, 512, 512, 512, False, 24.8, 18.6, 27),
    Times("tma", 1, 16384, 768, 3072, True, 131.7, 113.1, 161.5),
    Times("tiles", 1, 16384, 768, 3072, True, 167.6, 113.2, 161.2),
    Times("tma", 1, 16384, 3072, 768, True, 107.7, 103.1, 114.9),
    Times("tiles", 1, 16384, 3072, 768, True, 136.3, 103, 114.4),
    Times("parts", 1, 768, 8192, 768, False, 34.5, 22, 23.6),
    Times("parts", 1, 256, 16384, 256, True, 21, 11.6, 12.9),
    Times("few rows", 1, 1, 4096, 4096, True, 10.3, 13.4, 14.4),
    Times("few rows", 1, 8, 4096, 4096, True, 10.4, 13.5, 14.6),
    Times("few rows", 1, 16, 4096, 4096, True, 11.9, 13.7, 14.8),
    Times("few rows", 1, 1, 4096, 4096, False, 10.5, 13.3, 14.2),
    Times("few rows", 1, 8, 4096, 4096, False, 11.0, 13.2, 14.4),
    Times("few rows", 1, 16, 4096, 4096, False, 12.7, 13.5, 14.7),
    Times("few rows of float32", 1, 1, 4096, 4096, True, 20.4, 23.2, 24.6),
    Times("few rows of float32", 1, 4, 4096, 4096, True, 21.7, 29.1, 30.8),
    Times("few rows", 1, 4096, 4096, 8, False, 13.9, 15.6, 16.6),
    # Of the kernel before this one, with whose parts of the depth it was not measured again.
    Times("few rows", 1, 16, 65536, 128, True, 29.5, 11.5, 12.5),
    Times("tf32", 1, 4096, 4096, 4096, False, 1047.7, 349.6, 383.6),
    Times("tf32", 32, 512, 512, 512, False, 78.6, 39.2, 60.3),
    Times("tf32 tma", 1, 4096, 4096, 4096, True, 341.1, 331.3, 367.1),
    Times("tf32 tma", 32, 512, 512, 512, True, 37.1, 40.4, 60.7),
    Times("tf32 tma", 1, 8192, 768, 3072, True, 117.2, 103, 155.3),
)


def ratio(batches: int, m: int, k: int, n: int, by_depth: bool, form: str, then: bool = True) -> float:
    """A kernel's time as a part of the library's, as for the product in the table that is nearest in proportion.

    It is infinite for a form that the table does not have: what was not measured is not chosen.

    Args:
        batches, m, k, n, by_depth, form: see :class:`Times`.
        then: whether an expression of the product follows, which the kernel computes at its end.
    """

    def distance(one: Times) -> float:
        sizes = zip((batches, m, k, n), (one.batches, one.m, one.k, one.n), strict=True)
        return sum(abs(math.log(x / y)) for x, y in sizes) + (one.by_depth != by_depth)

    near = min((one for one in TIMES if one.form == form), key=distance, default=None)
    if near is None:
        return math.inf
    return near.own / (near.apart if then else near.alone)
