"""Products with quantised weights, beside a copy of as many bytes and the product with bfloat16 weights.

Usage: python benchmarks/quantised.py [--scale N] [--out FILE]

Random weights in bfloat16 precision, quantised to each kind or of random blocks; bfloat16 activations. The weights are
another copy each time, so that no cache has them. The copy reads and writes as many bytes, together, as the blocks
have. Every result is compared with the float64 product of the dequantised weights. `--scale` divides the sizes, for a
try without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark

import cukern as ck
from cukern.quant.kinds import KINDS


class Case(NamedTuple):
    """A product: the kind of the weights, rows of activations, outputs and inputs."""

    kind: str
    rows: int
    outputs: int
    inputs: int

    def scaled(self, scale: int) -> Case:
        """The product with smaller weights."""
        return self._replace(
            outputs=max(32, self.outputs // scale), inputs=max(512, self.inputs // scale // 256 * 256)
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.rows}x{self.inputs}x{self.outputs}"


SIZES = ((14336, 4096), (4096, 14336))
MEASURED = ("Q4_0", "Q4_K", "Q6_K", "Q8_0")
CASES = [
    *(Case(kind, 1, *size) for kind in MEASURED for size in SIZES),
    *(Case("Q4_K", rows, *SIZES[0]) for rows in (2, 4, 8)),
    *(Case("Q4_K", rows, *size) for rows in (16, 64, 128, 256) for size in SIZES),
    *(Case(kind, 512, *size) for kind in MEASURED for size in SIZES),
]
#: Bytes that no cache of a GPU holds.
_CACHES = 2**28


def blocks(case: Case, rng: np.random.Generator) -> np.ndarray:
    """Random blocks whose scales are of ordinary size."""
    row = KINDS[case.kind]
    made = rng.integers(0, 256, (case.outputs, case.inputs // row.weights, row.bytes), np.uint8)
    scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}
    for at in places.get(case.kind, (0, 2) if row.shifted else (0,)):
        made[..., at : at + 2] = scale
    return made.reshape(case.outputs, -1)


def copies(device: ck.Device, make: Callable[[], Any], size: int) -> list[Any]:
    """Equal things in different memory, more than caches hold."""
    count = max(2, min(16, -(-_CACHES // size))) if device.kind == "cuda" else 1
    return [make() for _ in range(count)]


def error(x: ck.Array, w: ck.quant.QuantArray, y: ck.Array) -> float:
    """The largest difference to the exact product, as a part of the results' root mean square."""
    exact = x.astype("float64") @ w.dequantize("float64").T
    return float(ck.max(ck.abs(y.astype("float64") - exact)) / ck.sqrt(ck.mean(exact**2)))


def measure(bench: Benchmark, case: Case) -> None:
    """Add a line to the table.

    Raises:
        AssertionError: the result differs by more than the rounding to 8 bits, or to bfloat16.
    """
    rng, device, shape = np.random.default_rng(0), bench.device, (case.outputs, case.inputs)
    data = blocks(case, rng)
    x = ck.asarray(rng.standard_normal((case.rows, case.inputs)), dtype="bfloat16", device=device)
    weights = copies(device, lambda: ck.quant.from_blocks(data.copy(), shape, case.kind, device), data.nbytes)
    dense = weights[0].dequantize("bfloat16")
    wide = copies(device, dense.copy, dense.nbytes)
    halves = copies(device, partial(ck.ones, data.nbytes // 8, "float32", device=device), data.nbytes // 2)
    found = error(x, weights[0], ck.quant.linear(x, weights[0]))
    assert found < 0.05, f"{case}: the results differ by {found:.2g} of their size"
    own, copy, product = bench.microseconds(
        [partial(ck.quant.linear, x, w) for w in weights],
        [one.copy for one in halves],
        [partial(ck.matmul, x, w.T) for w in wide],
    )
    assert own is not None and copy is not None and product is not None
    rate = data.nbytes / own * 1e-3
    bench.row(
        case, own, copy, f"{copy / own:.2f}", f"{rate:.0f}", product, f"{product / own:.2f}", f"{found:.1e}"
    )


def main() -> None:
    bench = Benchmark(
        __doc__,
        "device times in us",
        [
            "product",
            "quantised",
            "copy of its bytes",
            "share of copy",
            "GB/s",
            "bfloat16",
            "speedup",
            "error",
        ],
    )
    for case in CASES:
        measure(bench, case.scaled(bench.scale))
    bench.end()


if __name__ == "__main__":
    main()
