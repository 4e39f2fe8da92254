"""Times of products: whether a kernel of the library's own beats the device's library, alone or with a kernel after it.

To take in other measurements, edit :data:`TIMES`; `benchmarks/product.py` and `benchmarks/product_ends.py` print them.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Times(NamedTuple):
    """What a product with a bias and a ReLU takes, in microseconds on an H200; of bfloat16 if its form does not say.

    Attributes:
        form: the kernel: "tiles" of :mod:`.tensor_cores`, "parts" if blocks share the depth, "tf32" if of float32,
            "tma" and "tf32 tma" of :mod:`.tma`, "few rows" and "few rows of float32" of :mod:`.few_rows`; "library",
            "tf32 library" and "library of float32" if the device's library adds the bias and applies the ReLU itself.
            Of "tiles", "tf32" and "tma" also "and product" if that is saved; of the first two, and of "lanes" of
            :mod:`.by_rows`, "of rows" if these are reduced.
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: of the form.
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


#: Measured: `benchmarks/results/product.md`, `benchmarks/results/product_ends.md`.
TIMES = (
    Times("library", 1, 4096, 4096, 4096, False, 171.4, 170.1, 185.8),
    Times("tma", 1, 4096, 4096, 4096, False, 173.1, 170.5, 186.5),
    Times("tiles", 1, 4096, 4096, 4096, False, 226.7, 170.5, 186.3),
    Times("library", 1, 4096, 4096, 4096, True, 172.1, 170.7, 186.4),
    Times("tma", 1, 4096, 4096, 4096, True, 172.9, 170.6, 186.4),
    Times("tiles", 1, 4096, 4096, 4096, True, 225.9, 171, 186.5),
    Times("library", 1, 8192, 8192, 8192, False, 1351.7, 1379.3, 1461.2),
    Times("tma", 1, 8192, 8192, 8192, False, 1368.6, 1408.2, 1497.6),
    Times("tiles", 1, 8192, 8192, 8192, False, 2001.8, 1402.7, 1446.4),
    Times("library", 32, 512, 512, 512, False, 19.5, 18.5, 27),
    Times("tma", 32, 512, 512, 512, False, 22.1, 18.4, 26.9),
    Times("tiles", 32, 512, 512, 512, False, 24.1, 18.5, 27),
    Times("library", 32, 512, 512, 512, True, 19.4, 18.4, 26.7),
    Times("tma", 32, 512, 512, 512, True, 22.1, 18.5, 26.8),
    Times("tiles", 32, 512, 512, 512, True, 24.4, 18.5, 26.9),
    Times("library", 1, 16384, 768, 3072, True, 114.7, 110, 159.3),
    Times("tma", 1, 16384, 768, 3072, True, 110.6, 109.9, 159),
    Times("tiles", 1, 16384, 768, 3072, True, 162.3, 109.9, 159.1),
    Times("library", 1, 16384, 3072, 768, True, 100.9, 99.8, 112.3),
    Times("tma", 1, 16384, 3072, 768, True, 101.7, 100, 112.3),
    Times("tiles", 1, 16384, 3072, 768, True, 131.7, 100, 112.3),
    Times("library", 1, 8192, 768, 2304, True, 48.9, 45.9, 65.4),
    Times("tma", 1, 8192, 768, 2304, True, 47.4, 45.7, 65.3),
    Times("tiles", 1, 8192, 768, 2304, True, 69, 45.8, 65.3),
    Times("library", 1, 8192, 768, 768, True, 19, 18.1, 23.8),
    Times("tma", 1, 8192, 768, 768, True, 19, 18, 23.8),
    Times("tiles", 1, 8192, 768, 768, True, 31.6, 18.1, 23.8),
    Times("library", 1, 8192, 768, 3072, True, 60.9, 58.6, 84),
    Times("tma", 1, 8192, 768, 3072, True, 58.6, 58.4, 84.1),
    Times("tiles", 1, 8192, 768, 3072, True, 83.4, 58.5, 84),
    Times("library", 1, 8192, 3072, 768, True, 53.1, 52.2, 58.3),
    Times("tma", 1, 8192, 3072, 768, True, 56.5, 52.2, 58.3),
    Times("tiles", 1, 8192, 3072, 768, True, 105, 52.2, 58.3),
    Times("library", 1, 256, 256, 256, True, 3.9, 3.7, 4.9),
    Times("tma", 1, 256, 256, 256, True, 5, 3.7, 4.9),
    Times("tiles", 1, 256, 256, 256, True, 3.2, 3.7, 4.9),
    Times("library", 1, 512, 512, 512, True, 4.5, 4.2, 5.6),
    Times("tma", 1, 512, 512, 512, True, 6.3, 4.3, 5.7),
    Times("tiles", 1, 512, 512, 512, True, 4.4, 4.2, 5.6),
    Times("library", 1, 1024, 1024, 1024, True, 7.5, 7.1, 9),
    Times("tma", 1, 1024, 1024, 1024, True, 9.7, 7.1, 9),
    Times("tiles", 1, 1024, 1024, 1024, True, 19.4, 7.1, 9),
    Times("library", 1, 64, 4096, 4096, True, 12.9, 12.7, 14.3),
    Times("parts", 1, 64, 4096, 4096, True, 23.1, 12.7, 14.5),
    Times("library", 1, 768, 8192, 768, False, 22.6, 21.9, 23.8),
    Times("parts", 1, 768, 8192, 768, False, 34, 21.6, 23.4),
    Times("library", 1, 256, 16384, 256, True, 11.9, 11.5, 12.9),
    Times("parts", 1, 256, 16384, 256, True, 20.9, 11.6, 12.9),
    Times("library", 1, 1, 4096, 4096, True, 13.6, 13.4, 14.4),
    Times("few rows", 1, 1, 4096, 4096, True, 10.6, 13.3, 14.4),
    Times("library", 1, 4, 4096, 4096, True, 13.6, 13.3, 14.7),
    Times("few rows", 1, 4, 4096, 4096, True, 10.8, 13.3, 14.7),
    Times("library", 1, 8, 4096, 4096, True, 13.5, 13.2, 14.8),
    Times("few rows", 1, 8, 4096, 4096, True, 10.9, 13.3, 14.9),
    Times("library", 1, 16, 4096, 4096, True, 14, 13.6, 15.2),
    Times("few rows", 1, 16, 4096, 4096, True, 12.2, 13.7, 15.1),
    Times("library", 1, 1, 4096, 4096, False, 13.5, 13.2, 14.2),
    Times("few rows", 1, 1, 4096, 4096, False, 11, 13.3, 14.4),
    Times("library", 1, 4, 4096, 4096, False, 13.2, 13.1, 14.5),
    Times("few rows", 1, 4, 4096, 4096, False, 11.2, 13, 14.5),
    Times("library", 1, 8, 4096, 4096, False, 13.2, 13, 14.5),
    Times("few rows", 1, 8, 4096, 4096, False, 11.6, 13, 14.6),
    Times("library", 1, 16, 4096, 4096, False, 13.8, 13.4, 14.9),
    Times("few rows", 1, 16, 4096, 4096, False, 12.7, 13.3, 14.8),
    Times("library of float32", 1, 1, 4096, 4096, True, 23.5, 23.4, 24.6),
    Times("few rows of float32", 1, 1, 4096, 4096, True, 19.2, 23.4, 24.7),
    Times("library of float32", 1, 4, 4096, 4096, True, 29.2, 29.3, 30.8),
    Times("few rows of float32", 1, 4, 4096, 4096, True, 20.4, 29.1, 30.9),
    Times("library of float32", 1, 16, 4096, 4096, True, 50.7, 51, 52.5),
    Times("library", 1, 4096, 4096, 8, False, 16, 15.4, 16.8),
    Times("few rows", 1, 4096, 4096, 8, False, 13.3, 15.5, 16.7),
    Times("library", 1, 16, 65536, 128, True, 12.1, 11.6, 12.6),
    Times("few rows", 1, 16, 65536, 128, True, 10.1, 11.7, 12.6),
    Times("tf32 library", 1, 4096, 4096, 4096, False, 337.2, 337.4, 373.3),
    Times("tf32", 1, 4096, 4096, 4096, False, 1040.6, 337.6, 372.1),
    Times("library of float32", 1, 4096, 4096, 4096, False, 2676.3, 2674.8, 2706.5),
    Times("tf32 library", 1, 4096, 4096, 4096, True, 330.1, 330.5, 364.9),
    Times("tf32 tma", 1, 4096, 4096, 4096, True, 338.8, 331.3, 365.8),
    Times("tf32", 1, 4096, 4096, 4096, True, 971.7, 331.7, 365.6),
    Times("library of float32", 1, 4096, 4096, 4096, True, 2721.1, 2718.8, 2735.4),
    Times("tf32 library", 32, 512, 512, 512, False, 39.3, 39.3, 60.1),
    Times("tf32", 32, 512, 512, 512, False, 78.5, 39.3, 60.3),
    Times("library of float32", 32, 512, 512, 512, False, 181.6, 178.6, 195.1),
    Times("tf32 library", 32, 512, 512, 512, True, 40.5, 40.4, 60.3),
    Times("tf32 tma", 32, 512, 512, 512, True, 36.1, 40.3, 60.2),
    Times("tf32", 32, 512, 512, 512, True, 74, 40.2, 60.1),
    Times("library of float32", 32, 512, 512, 512, True, 183.4, 183.5, 198.3),
    Times("tf32 library", 1, 8192, 768, 3072, True, 103.1, 103.5, 154.8),
    Times("tf32 tma", 1, 8192, 768, 3072, True, 114.6, 103.3, 154),
    Times("tf32", 1, 8192, 768, 3072, True, 302.8, 103.4, 154.4),
    Times("library of float32", 1, 8192, 768, 3072, True, 777.1, 777, 824.3),
    Times("library of float32", 1, 1024, 1024, 1024, True, 63.5, 63.4, 66),
    Times("library", 1, 8192, 768, 50304, True, 937.4, 890.8, 1275.3),
    Times("tma", 1, 8192, 768, 50304, True, 907.7, 890.8, 1275.3),
    # Of more blocks than multiprocessors, and of a short depth; the library was measured alone, and takes longer apart.
    Times("few rows", 1, 16, 4096, 14336, True, 37.3, 31.1, 31.1),
    Times("few rows", 1, 16, 4096, 14336, False, 42.8, 30.8, 30.8),
    Times("few rows", 1, 8, 4096, 14336, True, 32.9, 30.7, 30.7),
    Times("few rows", 1, 8, 4096, 14336, False, 39.7, 30.2, 30.2),
    Times("few rows", 1, 1, 4096, 14336, True, 31.9, 31.1, 31.1),
    Times("few rows", 1, 1, 4096, 14336, False, 39.3, 31.2, 31.2),
    Times("few rows", 1, 16, 2048, 8192, True, 13.6, 11.4, 11.4),
    Times("few rows", 1, 16, 2048, 8192, False, 15.3, 11.3, 11.3),
    Times("few rows", 1, 16, 768, 50304, True, 39.1, 23.2, 23.2),
    Times("few rows", 1, 16, 768, 50304, False, 50.1, 22.3, 22.3),
    Times("few rows", 1, 1, 768, 50304, True, 36.2, 22.4, 22.4),
    Times("few rows", 1, 1, 768, 50304, False, 45.5, 21.7, 21.7),
    Times("few rows", 1, 16, 5120, 5120, True, 21.5, 16.4, 16.4),
    Times("few rows", 1, 16, 5120, 5120, False, 24.6, 16.1, 16.1),
    Times("few rows", 1, 8, 8192, 8192, True, 35.9, 34.3, 34.3),
    Times("few rows", 1, 8, 8192, 8192, False, 38.7, 33.4, 33.4),
    Times("few rows", 1, 16, 1024, 4096, True, 5.5, 5.9, 5.9),
    Times("few rows", 1, 16, 1024, 4096, False, 5.9, 5.9, 5.9),
    # A GELU of a product and a bias, with the product saved; then the sum of each row of a ReLU: on an H100.
    Times("tma and product", 1, 16384, 768, 3072, True, 192.5, 113.6, 182.3),
    Times("tiles and product", 1, 16384, 768, 3072, True, 219.4, 114.1, 183.1),
    Times("tma and product", 1, 8192, 768, 3072, True, 101.5, 60.6, 96.1),
    Times("tiles and product", 1, 8192, 768, 3072, True, 111.4, 60.6, 96.2),
    Times("tma and product", 1, 4096, 4096, 4096, True, 197.2, 173.8, 195.5),
    Times("tiles and product", 1, 4096, 4096, 4096, True, 247.4, 174.2, 195.5),
    Times("tma and product", 1, 16384, 3072, 768, True, 123.2, 101.6, 118.9),
    Times("tiles and product", 1, 16384, 3072, 768, True, 148.5, 101.8, 118.7),
    Times("tma and product", 1, 512, 512, 512, True, 11.7, 4.6, 6.3),
    Times("tiles and product", 1, 512, 512, 512, True, 5.3, 4.6, 6.3),
    Times("tma and product", 32, 512, 512, 512, True, 39.5, 22.2, 34.1),
    Times("tiles and product", 32, 512, 512, 512, True, 34.3, 22.2, 34.1),
    Times("tma and product", 1, 256, 256, 256, True, 10, 3.8, 5.4),
    Times("tiles and product", 1, 256, 256, 256, True, 3.9, 3.8, 5.4),
    Times("tma and product", 1, 8192, 768, 768, True, 30.9, 18.8, 25.9),
    Times("tiles and product", 1, 8192, 768, 768, True, 41.4, 18.8, 25.8),
    Times("tma and product", 1, 1024, 1024, 1024, True, 15.2, 7.6, 10),
    Times("tiles and product", 1, 1024, 1024, 1024, True, 22.2, 7.5, 9.9),
    Times("tf32 tma and product", 1, 4096, 4096, 4096, True, 380.2, 339.2, 387.9),
    Times("tf32 and product", 1, 4096, 4096, 4096, True, 1040.4, 340.2, 388.1),
    Times("tf32 tma and product", 1, 8192, 768, 3072, True, 175, 108, 179.2),
    Times("tf32 and product", 1, 8192, 768, 3072, True, 360.4, 107.8, 179.9),
    Times("tiles of rows", 1, 65536, 128, 128, True, 13.1, 14.1, 17.3),
    Times("tiles of rows and product", 1, 65536, 128, 128, True, 16.2, 14.1, 17.4),
    Times("tiles of rows", 1, 65536, 128, 64, True, 10.5, 12.5, 14.1),
    Times("tiles of rows and product", 1, 65536, 128, 64, True, 12.4, 12.6, 14.1),
    Times("tiles of rows", 1, 65536, 512, 128, True, 31.1, 34.4, 38.4),
    Times("tiles of rows and product", 1, 65536, 512, 128, True, 36.9, 34.3, 38.4),
    Times("tiles of rows", 1, 65536, 64, 256, True, 18.7, 17.7, 23.5),
    Times("tiles of rows and product", 1, 65536, 64, 256, True, 24.9, 17.8, 23.8),
    Times("tiles of rows", 1, 16384, 768, 64, True, 11.3, 12.7, 13.8),
    Times("tiles of rows and product", 1, 16384, 768, 64, True, 12.3, 12.7, 13.8),
    Times("tiles of rows", 1, 16384, 4096, 256, True, 88.3, 58.4, 61.4),
    Times("tiles of rows and product", 1, 16384, 4096, 256, True, 89.9, 58.2, 61.4),
    Times("tiles of rows", 1, 65536, 128, 128, False, 13.1, 14.1, 17.4),
    Times("tiles of rows and product", 1, 65536, 128, 128, False, 16.2, 14.2, 17.4),
    Times("tiles of rows", 1, 65536, 1024, 128, False, 57.9, 58.9, 64.8),
    Times("tiles of rows and product", 1, 65536, 1024, 128, False, 65.9, 58.9, 64.8),
    Times("tiles of rows", 1, 4096, 4096, 128, False, 62, 16, 17.4),
    Times("tiles of rows and product", 1, 4096, 4096, 128, False, 64.4, 16, 17.3),
    Times("tiles of rows", 32, 1024, 64, 128, False, 6.5, 8, 10.4),
    Times("tiles of rows and product", 32, 1024, 64, 128, False, 7.7, 8.1, 10.1),
    Times("tiles of rows", 1, 1024, 256, 64, True, 3.1, 3.6, 4.9),
    Times("tiles of rows and product", 1, 1024, 256, 64, True, 3.2, 3.6, 4.9),
    Times("tf32 of rows", 1, 65536, 128, 128, True, 26.7, 29.5, 36.1),
    Times("tf32 of rows and product", 1, 65536, 128, 128, True, 34.3, 29.2, 35.6),
    # The slower first: of equally near ones the first counts.
    Times("lanes of rows and product of float64", 1, 16384, 256, 128, False, 107.7, 27, 31.5),
    Times("lanes of rows of float64", 1, 16384, 256, 128, False, 92.6, 27, 31.5),
    Times("lanes of rows and product of float64", 1, 16384, 64, 64, False, 28.1, 9.7, 12.2),
    Times("lanes of rows and product of float32", 1, 16384, 128, 256, False, 53.2, 30.4, 33.7),
    Times("lanes of rows of float64", 1, 16384, 64, 64, False, 18.6, 9.5, 12.1),
    Times("lanes of rows and product of float32", 1, 65536, 64, 64, True, 37.1, 24.9, 28),
    Times("lanes of rows and product of float32", 1, 16384, 512, 128, False, 69.7, 51.4, 54.5),
    Times("lanes of rows and product of float32", 1, 16384, 1024, 32, False, 81.4, 64.3, 66.2),
    Times("lanes of rows and product of float32", 1, 65536, 128, 128, True, 84.1, 60.4, 69.3),
    Times("lanes of rows of float32", 1, 16384, 1024, 32, False, 77.4, 64.3, 66.2),
    Times("lanes of rows of float32", 1, 16384, 128, 256, False, 38.6, 30.3, 33.8),
    Times("lanes of rows of float32", 1, 16384, 512, 128, False, 60.6, 51.4, 54.6),
    Times("lanes of rows of float32", 1, 65536, 128, 128, True, 66.9, 60.5, 69.2),
    Times("lanes of rows of float32", 1, 65536, 64, 64, True, 20.3, 24.9, 28),
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
