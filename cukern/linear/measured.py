"""Times of products: whether a kernel of the library's own beats the device's library, alone or with a kernel after it.

To take in other measurements, edit :data:`TIMES`; `benchmarks/product.py` prints them.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Times(NamedTuple):
    """What a product and what follows it take, in microseconds on an H100; of bfloat16 if its form does not say.

    Attributes:
        form: the kernel: "tiles" of :mod:`.tensor_cores`, "parts" if blocks share the depth, "tf32" if of float32,
            "tma" and "tf32 tma" of :mod:`.tma`, "few rows" and "few rows of float32" of :mod:`.few_rows`; "library",
            "tf32 library" and "library of float32" if the device's library adds the bias and applies the ReLU itself.
        batches, m, k, n: sizes.
        by_depth: whether the right factor is contiguous along k.
        own: of the form.
        alone: of the device's library without what follows.
        apart: of the library and one kernel after it.
        then: what follows: "bias" for a bias and a ReLU, "function" for a bias and GELU, "matrix" for a bias and an
            added matrix.
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
    then: str = "bias"


#: Measured: `benchmarks/results/product.md`.
TIMES = (
    Times("library", 1, 4096, 4096, 4096, False, 175.2, 173.8, 193.8),
    Times("tma", 1, 4096, 4096, 4096, False, 176.4, 173.8, 193.8),
    Times("tiles", 1, 4096, 4096, 4096, False, 229.6, 173.8, 193.8),
    Times("library", 1, 4096, 4096, 4096, True, 175.6, 174.2, 194.3),
    Times("tma", 1, 4096, 4096, 4096, True, 176.5, 174.2, 194.3),
    Times("tiles", 1, 4096, 4096, 4096, True, 228.9, 174.2, 194.3),
    Times("library", 1, 8192, 8192, 8192, False, 1379.9, 1508.5, 1562.8),
    Times("tma", 1, 8192, 8192, 8192, False, 1405.7, 1508.5, 1562.8),
    Times("tiles", 1, 8192, 8192, 8192, False, 2101.5, 1508.5, 1562.8),
    Times("library", 32, 512, 512, 512, False, 23.2, 22.1, 33),
    Times("tma", 32, 512, 512, 512, False, 26.3, 22.1, 33),
    Times("tiles", 32, 512, 512, 512, False, 26.6, 22.1, 33),
    Times("library", 32, 512, 512, 512, True, 23.2, 22.2, 33.4),
    Times("tma", 32, 512, 512, 512, True, 26.5, 22.2, 33.4),
    Times("tiles", 32, 512, 512, 512, True, 26.9, 22.2, 33.4),
    Times("library", 1, 16384, 768, 3072, True, 118.8, 114.2, 183.2),
    Times("tma", 1, 16384, 768, 3072, True, 116.7, 114.2, 183.2),
    Times("tiles", 1, 16384, 768, 3072, True, 168.2, 114.2, 183.2),
    Times("library", 1, 16384, 3072, 768, True, 103.1, 102.1, 116.8),
    Times("tma", 1, 16384, 3072, 768, True, 104.9, 102.1, 116.8),
    Times("tiles", 1, 16384, 3072, 768, True, 134, 102.1, 116.8),
    Times("library", 1, 8192, 768, 2304, True, 49.8, 46.8, 72.3),
    Times("tma", 1, 8192, 768, 2304, True, 55.6, 46.8, 72.3),
    Times("tiles", 1, 8192, 768, 2304, True, 70.7, 46.8, 72.3),
    Times("library", 1, 8192, 768, 768, True, 19.9, 18.7, 25.2),
    Times("tma", 1, 8192, 768, 768, True, 20.4, 18.7, 25.2),
    Times("tiles", 1, 8192, 768, 768, True, 32.4, 18.7, 25.2),
    Times("library", 1, 8192, 768, 3072, True, 62.9, 60.5, 95.3),
    Times("tma", 1, 8192, 768, 3072, True, 62.1, 60.5, 95.3),
    Times("tiles", 1, 8192, 768, 3072, True, 86.2, 60.5, 95.3),
    Times("library", 1, 8192, 3072, 768, True, 54, 53.2, 60.7),
    Times("tma", 1, 8192, 3072, 768, True, 66.4, 53.2, 60.7),
    Times("tiles", 1, 8192, 3072, 768, True, 106.4, 53.2, 60.7),
    Times("library", 1, 8192, 768, 50304, True, 941.8, 894.8, 1447.7),
    Times("tma", 1, 8192, 768, 50304, True, 924.2, 894.8, 1447.7),
    Times("tiles", 1, 8192, 768, 50304, True, 1369.6, 894.8, 1447.7),
    Times("library", 1, 64, 64, 64, True, 3.5, 3.3, 4.5),
    Times("tma", 1, 64, 64, 64, True, 4.1, 3.3, 4.5),
    Times("tiles", 1, 64, 64, 64, True, 2.4, 3.3, 4.5),
    Times("library", 1, 128, 128, 128, True, 3.7, 3.5, 4.6),
    Times("tma", 1, 128, 128, 128, True, 4.5, 3.5, 4.6),
    Times("tiles", 1, 128, 128, 128, True, 2.7, 3.5, 4.6),
    Times("library", 1, 256, 256, 256, True, 4, 3.8, 5.2),
    Times("tma", 1, 256, 256, 256, True, 5.1, 3.8, 5.2),
    Times("tiles", 1, 256, 256, 256, True, 3.3, 3.8, 5.2),
    Times("library", 1, 512, 512, 512, True, 4.7, 4.7, 6),
    Times("tma", 1, 512, 512, 512, True, 6.6, 4.7, 6),
    Times("tiles", 1, 512, 512, 512, True, 4.5, 4.7, 6),
    Times("library", 1, 1024, 1024, 1024, True, 7.9, 7.3, 9.7),
    Times("tma", 1, 1024, 1024, 1024, True, 10, 7.3, 9.7),
    Times("tiles", 1, 1024, 1024, 1024, True, 19.8, 7.3, 9.7),
    Times("library", 1, 64, 64, 64, False, 3.5, 3.3, 4.4),
    Times("tma", 1, 64, 64, 64, False, 4.1, 3.3, 4.4),
    Times("tiles", 1, 64, 64, 64, False, 2.5, 3.3, 4.4),
    Times("library", 1, 256, 256, 256, False, 4, 3.7, 5.2),
    Times("tma", 1, 256, 256, 256, False, 5.1, 3.7, 5.2),
    Times("tiles", 1, 256, 256, 256, False, 3.3, 3.7, 5.2),
    Times("library", 1, 64, 4096, 4096, True, 16, 15.7, 17.5),
    Times("parts", 1, 64, 4096, 4096, True, 25, 15.7, 17.5),
    Times("library", 1, 768, 8192, 768, False, 22.9, 22, 24.4),
    Times("parts", 1, 768, 8192, 768, False, 34.5, 22, 24.4),
    Times("library", 1, 256, 16384, 256, True, 13, 12.7, 14.3),
    Times("parts", 1, 256, 16384, 256, True, 20.9, 12.7, 14.3),
    Times("library", 1, 1, 4096, 4096, True, 16.7, 16.2, 17.8),
    Times("few rows", 1, 1, 4096, 4096, True, 13.1, 16.2, 17.8),
    Times("library", 1, 4, 4096, 4096, True, 16.4, 16.1, 17.9),
    Times("few rows", 1, 4, 4096, 4096, True, 12.6, 16.1, 17.9),
    Times("library", 1, 8, 4096, 4096, True, 16.4, 16.3, 18.1),
    Times("few rows", 1, 8, 4096, 4096, True, 13, 16.3, 18.1),
    Times("library", 1, 16, 4096, 4096, True, 17.1, 16.6, 18.4),
    Times("few rows", 1, 16, 4096, 4096, True, 14.5, 16.6, 18.4),
    Times("library", 1, 1, 4096, 4096, False, 14.9, 14.4, 15.9),
    Times("few rows", 1, 1, 4096, 4096, False, 13, 14.4, 15.9),
    Times("library", 1, 4, 4096, 4096, False, 14.8, 14.4, 16.1),
    Times("few rows", 1, 4, 4096, 4096, False, 13, 14.4, 16.1),
    Times("library", 1, 8, 4096, 4096, False, 14.8, 14.3, 16.1),
    Times("few rows", 1, 8, 4096, 4096, False, 13.3, 14.3, 16.1),
    Times("library", 1, 16, 4096, 4096, False, 16.9, 16.3, 18.1),
    Times("few rows", 1, 16, 4096, 4096, False, 14.6, 16.3, 18.1),
    Times("library of float32", 1, 1, 4096, 4096, True, 29.6, 29.4, 30.7),
    Times("few rows of float32", 1, 1, 4096, 4096, True, 25.6, 29.4, 30.7),
    Times("library of float32", 1, 4, 4096, 4096, True, 34.4, 34.4, 36.3),
    Times("few rows of float32", 1, 4, 4096, 4096, True, 25.6, 34.4, 36.3),
    Times("library of float32", 1, 16, 4096, 4096, True, 53, 52.6, 54.6),
    Times("library", 1, 4096, 4096, 8, False, 15.7, 15.5, 17),
    Times("few rows", 1, 4096, 4096, 8, False, 14.4, 15.5, 17),
    Times("library", 1, 16, 65536, 128, True, 13.6, 13, 14.4),
    Times("few rows", 1, 16, 65536, 128, True, 11, 13, 14.4),
    Times("library", 1, 1, 2048, 8192, True, 14.7, 14.3, 15.8),
    Times("few rows", 1, 1, 2048, 8192, True, 14.5, 14.3, 15.8),
    Times("library", 1, 16, 2048, 8192, True, 14.9, 14.5, 16.5),
    Times("few rows", 1, 16, 2048, 8192, True, 15.3, 14.5, 16.5),
    Times("library", 1, 1, 2048, 8192, False, 14.6, 14.2, 15.7),
    Times("few rows", 1, 1, 2048, 8192, False, 16.5, 14.2, 15.7),
    Times("library", 1, 16, 2048, 8192, False, 14.8, 14.3, 16.3),
    Times("few rows", 1, 16, 2048, 8192, False, 16.6, 14.3, 16.3),
    Times("library", 1, 1, 5120, 5120, True, 22.2, 21.8, 23.2),
    Times("few rows", 1, 1, 5120, 5120, True, 23.9, 21.8, 23.2),
    Times("library", 1, 16, 5120, 5120, True, 22.6, 22, 24.1),
    Times("few rows", 1, 16, 5120, 5120, True, 26.2, 22, 24.1),
    Times("library", 1, 1, 5120, 5120, False, 21.6, 21.2, 22.6),
    Times("few rows", 1, 1, 5120, 5120, False, 26.2, 21.2, 22.6),
    Times("library", 1, 16, 5120, 5120, False, 21.8, 21.4, 23.4),
    Times("few rows", 1, 16, 5120, 5120, False, 29.1, 21.4, 23.4),
    Times("library", 1, 1, 4096, 14336, True, 43.4, 43, 44.6),
    Times("few rows", 1, 1, 4096, 14336, True, 45.6, 43, 44.6),
    Times("library", 1, 16, 4096, 14336, True, 44.2, 43.5, 46),
    Times("few rows", 1, 16, 4096, 14336, True, 47.3, 43.5, 46),
    Times("library", 1, 1, 4096, 14336, False, 46.1, 45.6, 47),
    Times("few rows", 1, 1, 4096, 14336, False, 51.6, 45.6, 47),
    Times("library", 1, 16, 4096, 14336, False, 47.5, 47, 49.2),
    Times("few rows", 1, 16, 4096, 14336, False, 52.2, 47, 49.2),
    Times("library", 1, 1, 768, 50304, True, 32.4, 31.8, 33.6),
    Times("few rows", 1, 1, 768, 50304, True, 43.9, 31.8, 33.6),
    Times("library", 1, 16, 768, 50304, True, 33.5, 32.9, 35.7),
    Times("few rows", 1, 16, 768, 50304, True, 43.7, 32.9, 35.7),
    Times("library", 1, 1, 768, 50304, False, 30.4, 29.7, 31.5),
    Times("few rows", 1, 1, 768, 50304, False, 58.5, 29.7, 31.5),
    Times("library", 1, 16, 768, 50304, False, 31.3, 30.8, 33.7),
    Times("few rows", 1, 16, 768, 50304, False, 46.2, 30.8, 33.7),
    Times("library", 1, 1, 8192, 8192, True, 48.8, 48.6, 50),
    Times("few rows", 1, 1, 8192, 8192, True, 49.6, 48.6, 50),
    Times("library", 1, 16, 8192, 8192, True, 49.4, 49, 51.1),
    Times("few rows", 1, 16, 8192, 8192, True, 51.8, 49, 51.1),
    Times("library", 1, 1, 8192, 8192, False, 47.7, 47.4, 48.9),
    Times("few rows", 1, 1, 8192, 8192, False, 50.9, 47.4, 48.9),
    Times("library", 1, 16, 8192, 8192, False, 47.9, 47.4, 49.5),
    Times("few rows", 1, 16, 8192, 8192, False, 53.6, 47.4, 49.5),
    Times("library", 1, 1, 1024, 4096, True, 7, 6.6, 7.9),
    Times("few rows", 1, 1, 1024, 4096, True, 5, 6.6, 7.9),
    Times("library", 1, 16, 1024, 4096, True, 7.1, 6.6, 8.5),
    Times("few rows", 1, 16, 1024, 4096, True, 5.7, 6.6, 8.5),
    Times("library", 1, 1, 1024, 4096, False, 7, 6.5, 7.9),
    Times("few rows", 1, 1, 1024, 4096, False, 5.5, 6.5, 7.9),
    Times("library", 1, 16, 1024, 4096, False, 7.1, 6.6, 8.4),
    Times("few rows", 1, 16, 1024, 4096, False, 6.4, 6.6, 8.4),
    Times("tf32 library", 1, 4096, 4096, 4096, False, 341.6, 341.9, 388.5),
    Times("tf32", 1, 4096, 4096, 4096, False, 1047.5, 341.9, 388.5),
    Times("library of float32", 1, 4096, 4096, 4096, False, 2659.2, 2658.9, 2706.8),
    Times("tf32 library", 1, 4096, 4096, 4096, True, 337.8, 338, 384.5),
    Times("tf32 tma", 1, 4096, 4096, 4096, True, 346.6, 338, 384.5),
    Times("tf32", 1, 4096, 4096, 4096, True, 971.9, 338, 384.5),
    Times("library of float32", 1, 4096, 4096, 4096, True, 2717.3, 2717.4, 2746.9),
    Times("tf32 library", 32, 512, 512, 512, False, 47.1, 47, 72.6),
    Times("tf32", 32, 512, 512, 512, False, 79.6, 47, 72.6),
    Times("library of float32", 32, 512, 512, 512, False, 179.9, 177.6, 199.1),
    Times("tf32 library", 32, 512, 512, 512, True, 49.6, 49.8, 72.8),
    Times("tf32 tma", 32, 512, 512, 512, True, 44.3, 49.8, 72.8),
    Times("tf32", 32, 512, 512, 512, True, 77.2, 49.8, 72.8),
    Times("library of float32", 32, 512, 512, 512, True, 184.8, 184.6, 205),
    Times("tf32 library", 1, 8192, 768, 3072, True, 108, 107.7, 177.3),
    Times("tf32 tma", 1, 8192, 768, 3072, True, 120.8, 107.7, 177.3),
    Times("tf32", 1, 8192, 768, 3072, True, 308.2, 107.7, 177.3),
    Times("library of float32", 1, 8192, 768, 3072, True, 779.6, 778.6, 847.4),
    Times("library of float32", 1, 1024, 1024, 1024, True, 63.7, 63.3, 66.2),
    Times("tma", 1, 16384, 768, 3072, True, 169.3, 114.1, 182.6, "function"),
    Times("tiles", 1, 16384, 768, 3072, True, 185.3, 114.1, 182.6, "function"),
    Times("tma", 1, 16384, 768, 3072, True, 175.2, 114.1, 216.5, "matrix"),
    Times("tiles", 1, 16384, 768, 3072, True, 231.7, 114.1, 216.5, "matrix"),
    Times("tma", 1, 16384, 3072, 768, True, 116.3, 102.1, 118.7, "function"),
    Times("tiles", 1, 16384, 3072, 768, True, 138.8, 102.1, 118.7, "function"),
    Times("tma", 1, 16384, 3072, 768, True, 117.1, 102.1, 124.9, "matrix"),
    Times("tiles", 1, 16384, 3072, 768, True, 142.8, 102.1, 124.9, "matrix"),
    Times("tma", 1, 8192, 768, 3072, True, 89.1, 60.6, 96.3, "function"),
    Times("tiles", 1, 8192, 768, 3072, True, 94.7, 60.6, 96.3, "function"),
    Times("tma", 1, 8192, 768, 3072, True, 91.6, 60.6, 112.4, "matrix"),
    Times("tiles", 1, 8192, 768, 3072, True, 117.1, 60.6, 112.4, "matrix"),
    Times("tma", 1, 8192, 3072, 768, True, 69.6, 53.2, 61.4, "function"),
    Times("tiles", 1, 8192, 3072, 768, True, 112.5, 53.2, 61.4, "function"),
    Times("tma", 1, 8192, 3072, 768, True, 75.2, 53.2, 64.4, "matrix"),
    Times("tiles", 1, 8192, 3072, 768, True, 115.1, 53.2, 64.4, "matrix"),
    Times("tma", 1, 8192, 768, 768, True, 29.9, 18.7, 28.9, "matrix"),
    Times("tiles", 1, 8192, 768, 768, True, 42.2, 18.7, 28.9, "matrix"),
    Times("tma", 1, 256, 256, 256, True, 8.9, 3.8, 5.5, "function"),
    Times("tiles", 1, 256, 256, 256, True, 3.7, 3.8, 5.5, "function"),
    Times("tma", 1, 256, 256, 256, True, 8.4, 3.8, 5.2, "matrix"),
    Times("tiles", 1, 256, 256, 256, True, 4.1, 3.8, 5.2, "matrix"),
    Times("tma", 1, 512, 512, 512, True, 10.4, 4.6, 6.3, "function"),
    Times("tiles", 1, 512, 512, 512, True, 4.9, 4.6, 6.3, "function"),
    Times("tma", 1, 512, 512, 512, True, 10.1, 4.9, 6.5, "matrix"),
    Times("tiles", 1, 512, 512, 512, True, 5.9, 4.9, 6.5, "matrix"),
    Times("tma", 1, 1024, 1024, 1024, True, 14, 7.3, 10.1, "function"),
    Times("tiles", 1, 1024, 1024, 1024, True, 21.3, 7.3, 10.1, "function"),
    Times("tma", 1, 1024, 1024, 1024, True, 14.3, 7.3, 10.4, "matrix"),
    Times("tiles", 1, 1024, 1024, 1024, True, 22.7, 7.3, 10.4, "matrix"),
    Times("tma", 1, 4096, 4096, 4096, True, 191.7, 174.6, 196.2, "function"),
    Times("tiles", 1, 4096, 4096, 4096, True, 235.3, 174.6, 196.2, "function"),
    Times("tma", 1, 4096, 4096, 4096, True, 191.4, 174.5, 205.6, "matrix"),
    Times("tiles", 1, 4096, 4096, 4096, True, 238.7, 174.5, 205.6, "matrix"),
    Times("library", 1, 2048, 1024, 4096, True, 28.8, 27.9, 36.7),
    Times("tma", 1, 2048, 1024, 4096, True, 30.8, 27.9, 36.7),
    Times("tiles", 1, 2048, 1024, 4096, True, 37.3, 27.9, 36.7),
    Times("tma", 1, 2048, 1024, 4096, True, 40, 28.1, 38, "function"),
    Times("tiles", 1, 2048, 1024, 4096, True, 40.1, 28.1, 38, "function"),
    Times("tma", 1, 2048, 1024, 4096, True, 38.9, 28.1, 42.9, "matrix"),
    Times("tiles", 1, 2048, 1024, 4096, True, 46.3, 28.1, 42.9, "matrix"),
    Times("library", 1, 4096, 4096, 1024, False, 46.6, 46.1, 50.9),
    Times("tma", 1, 4096, 4096, 1024, False, 48.3, 46.1, 50.9),
    Times("tiles", 1, 4096, 4096, 1024, False, 58.5, 46.1, 50.9),
    Times("tma", 1, 4096, 4096, 1024, False, 52.8, 45.8, 51.3, "function"),
    Times("tiles", 1, 4096, 4096, 1024, False, 58, 45.8, 51.3, "function"),
    Times("tma", 1, 4096, 4096, 1024, False, 51.8, 45.9, 53.2, "matrix"),
    Times("tiles", 1, 4096, 4096, 1024, False, 59.5, 45.9, 53.2, "matrix"),
    Times("library", 1, 1000, 1000, 1000, False, 10.4, 10, 12.3),
    Times("tma", 1, 1000, 1000, 1000, False, 13.1, 10, 12.3),
    Times("tiles", 1, 1000, 1000, 1000, False, 21.8, 10, 12.3),
    Times("tma", 1, 1000, 1000, 1000, False, 16.9, 9.8, 12.6, "function"),
    Times("tiles", 1, 1000, 1000, 1000, False, 23.5, 9.8, 12.6, "function"),
    Times("tma", 1, 1000, 1000, 1000, False, 16.4, 10, 13, "matrix"),
    Times("tiles", 1, 1000, 1000, 1000, False, 25.5, 10, 13, "matrix"),
    Times("library", 1, 300, 768, 3072, True, 8, 7.6, 9.8),
    Times("tma", 1, 300, 768, 3072, True, 9.1, 7.6, 9.8),
    Times("tiles", 1, 300, 768, 3072, True, 16.6, 7.6, 9.8),
    Times("tma", 1, 300, 768, 3072, True, 13.1, 7.5, 10.2, "function"),
    Times("tiles", 1, 300, 768, 3072, True, 18, 7.5, 10.2, "function"),
    Times("tma", 1, 300, 768, 3072, True, 13, 7.6, 10.4, "matrix"),
    Times("tiles", 1, 300, 768, 3072, True, 19.3, 7.6, 10.4, "matrix"),
    Times("library", 1, 128, 4096, 11008, True, 39.2, 38.3, 41.9),
    Times("tma", 1, 128, 4096, 11008, True, 37.8, 38.3, 41.9),
    Times("tiles", 1, 128, 4096, 11008, True, 74.7, 38.3, 41.9),
    Times("tma", 1, 128, 4096, 11008, True, 41.6, 38.3, 42.5, "function"),
    Times("tiles", 1, 128, 4096, 11008, True, 77.2, 38.3, 42.5, "function"),
    Times("tma", 1, 128, 4096, 11008, True, 41.8, 38.3, 42.9, "matrix"),
    Times("tiles", 1, 128, 4096, 11008, True, 77.4, 38.3, 42.9, "matrix"),
    Times("library", 1, 2048, 8192, 2048, True, 86.3, 85.9, 90.5),
    Times("tma", 1, 2048, 8192, 2048, True, 88.4, 85.9, 90.5),
    Times("tiles", 1, 2048, 8192, 2048, True, 110.7, 85.9, 90.5),
    Times("tma", 1, 2048, 8192, 2048, True, 93.3, 85.7, 91.3, "function"),
    Times("tiles", 1, 2048, 8192, 2048, True, 112.8, 85.7, 91.3, "function"),
    Times("tma", 1, 2048, 8192, 2048, True, 92.1, 85.7, 92.9, "matrix"),
    Times("tiles", 1, 2048, 8192, 2048, True, 112.1, 85.7, 92.9, "matrix"),
    Times("library", 1, 32768, 256, 256, True, 18.4, 15.4, 24.8),
    Times("tma", 1, 32768, 256, 256, True, 15.9, 15.4, 24.8),
    Times("tiles", 1, 32768, 256, 256, True, 19, 15.4, 24.8),
    Times("tma", 1, 32768, 256, 256, True, 23, 15.5, 25.9, "function"),
    Times("tiles", 1, 32768, 256, 256, True, 22.2, 15.5, 25.9, "function"),
    Times("tma", 1, 32768, 256, 256, True, 27.5, 15.4, 30.6, "matrix"),
    Times("tiles", 1, 32768, 256, 256, True, 28.5, 15.4, 30.6, "matrix"),
    Times("library", 8, 1024, 1024, 1024, False, 29.7, 28.7, 38.6),
    Times("tma", 8, 1024, 1024, 1024, False, 31.8, 28.7, 38.6),
    Times("tiles", 8, 1024, 1024, 1024, False, 37.3, 28.7, 38.6),
    Times("tma", 8, 1024, 1024, 1024, False, 41.1, 28.9, 39.9, "function"),
    Times("tiles", 8, 1024, 1024, 1024, False, 40.1, 28.9, 39.9, "function"),
    Times("tma", 8, 1024, 1024, 1024, False, 41.8, 28.8, 43.8, "matrix"),
    Times("tiles", 8, 1024, 1024, 1024, False, 45.4, 28.8, 43.8, "matrix"),
    Times("library", 96, 1024, 64, 1024, False, 90.3, 88.4, 226.4),
    Times("tma", 96, 1024, 64, 1024, False, 91.5, 88.4, 226.4),
    Times("tiles", 96, 1024, 64, 1024, False, 121.2, 88.4, 226.4),
    Times("tma", 96, 1024, 64, 1024, False, 172.6, 88.4, 226.4, "function"),
    Times("tiles", 96, 1024, 64, 1024, False, 157.1, 88.4, 226.4, "function"),
    Times("tma", 96, 1024, 64, 1024, False, 225.2, 88.4, 291, "matrix"),
    Times("tiles", 96, 1024, 64, 1024, False, 258, 88.4, 291, "matrix"),
)


def ratio(batches: int, m: int, k: int, n: int, by_depth: bool, form: str, then: str = "bias") -> float:
    """A kernel's time as a part of the library's, as for the product in the table that is nearest in proportion.

    It is infinite for a form that the table does not have: what was not measured is not chosen. A form that was only
    measured with "bias" has those times for all that may follow.

    Args:
        batches, m, k, n, by_depth, form: see :class:`Times`.
        then: what follows, which the kernel computes at its end; empty if nothing does.
    """

    def distance(one: Times) -> float:
        sizes = zip((batches, m, k, n), (one.batches, one.m, one.k, one.n), strict=True)
        return sum(abs(math.log(x / y)) for x, y in sizes) + (one.by_depth != by_depth)

    of_form = [one for one in TIMES if one.form == form]
    alike = [one for one in of_form if one.then == then] or [one for one in of_form if one.then == "bias"]
    near = min(alike, key=distance, default=None)
    if near is None:
        return math.inf
    return near.own / (near.apart if then else near.alone)
