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
#: Not measured yet, but for the library's large products. By tensor maps: 650 TFLOP/s, and what its tiles leave over in
#: the last wave; tiles of tf32: 250 TFLOP/s; parts: 400, and 3 us to add them up. Few rows: the large factor's bytes at
#: 0.85 of a copy's bandwidth by the kernel and at 0.88 by the library, and 2 us for a kernel of a small result.
ESTIMATES = (
    Times("tma", 1, 4096, 4096, 4096, False, 211, 176, 205),
    Times("tma", 1, 8192, 8192, 8192, False, 1690, 1447, 1558),
    Times("tma", 32, 512, 512, 512, False, 22, 18, 33),
    Times("tma", 1, 16384, 768, 3072, True, 125, 113, 198),
    Times("tma", 1, 16384, 3072, 768, True, 120, 103, 126),
    Times("tf32", 1, 4096, 4096, 4096, False, 550, 373, 430),
    Times("tf32", 32, 512, 512, 512, False, 50, 44, 66),
    Times("parts", 1, 768, 8192, 768, False, 27, 25, 28),
    Times("few rows", 1, 8, 4096, 4096, True, 9.3, 9.0, 11.0),
    Times("few rows of float32", 1, 8, 4096, 4096, True, 18.6, 17.9, 19.9),
)


def ratio(batches: int, m: int, k: int, n: int, by_depth: bool, form: str, then: bool = True) -> float:
    """A kernel's time as a part of the library's, as for the product in the table that is nearest in proportion.

    Args:
        batches, m, k, n, by_depth, form: see :class:`Times`.
        then: whether an expression of the product follows, which the kernel computes at its end.
    """

    def distance(one: Times) -> float:
        sizes = zip((batches, m, k, n), (one.batches, one.m, one.k, one.n), strict=True)
        return sum(abs(math.log(x / y)) for x, y in sizes) + (one.by_depth != by_depth)

    near = min((one for one in (*TIMES, *ESTIMATES) if one.form == form), key=distance)
    return near.own / (near.apart if then else near.alone)
