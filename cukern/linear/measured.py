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
            "tma" of :mod:`.tma`, "few rows" and "few rows of float32" of :mod:`.few_rows`.
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: of the kernel.
        alone: of the device's library without bias and ReLU, measured as PyTorch's product.
        apart: of the library and one kernel after it. Estimated: the library alone, and half of what the two kernels
            take that PyTorch runs after it.
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
    Times("tiles", 1, 4096, 4096, 4096, False, 225, 176, 205),
    Times("tiles", 1, 4096, 4096, 4096, True, 223, 176, 205),
    Times("tiles", 1, 8192, 8192, 8192, False, 1881, 1447, 1558),
    Times("tiles", 32, 512, 512, 512, False, 24, 18, 33),
    Times("tiles", 1, 16384, 768, 3072, True, 158, 113, 198),
    Times("tiles", 1, 16384, 3072, 768, True, 131, 103, 126),
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
