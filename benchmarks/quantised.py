"""Products with quantised weights, beside a copy of as many bytes and the product with bfloat16 weights.

Usage: python benchmarks/quantised.py [--scale N] [--out FILE]

Random weights in bfloat16 precision, quantised to each kind or of random blocks; bfloat16 activations. The weights are
another copy each time, so that no cache has them. The copy reads and writes as many bytes, together, as the blocks
have. Every result is compared with the float64 product of the dequantised weights. `--scale` divides the sizes, for a
try without a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cukern as ck
from cukern.bench.timing import DeviceClock, HostClock, median_seconds
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
    *(Case(kind, 512, *SIZES[0]) for kind in MEASURED),
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


def copies(case: Case, device: ck.Device, make: Callable[[], Any], size: int) -> list[Any]:
    """Equal things in different memory, more than caches hold."""
    count = max(2, min(16, -(-_CACHES // size))) if device.kind == "cuda" else 1
    return [make() for _ in range(count)]


def error(x: ck.Array, w: ck.quant.QuantArray, y: ck.Array) -> float:
    """The largest difference to the exact product, as a part of the results' root mean square."""
    exact = x.astype("float64") @ w.dequantize("float64").T
    return float(ck.max(ck.abs(y.astype("float64") - exact)) / ck.sqrt(ck.mean(exact**2)))


def measured(case: Case, device: ck.Device, clock: Any) -> str:
    """A line of the table, with times in microseconds.

    Raises:
        AssertionError: the result differs by more than the rounding to 8 bits, or to bfloat16.
    """
    rng = np.random.default_rng(0)
    data = blocks(case, rng)
    x = ck.asarray(rng.standard_normal((case.rows, case.inputs)), dtype="bfloat16", device=device)
    weights = copies(
        case, device, lambda: ck.quant.from_blocks(data.copy(), (case.outputs, case.inputs), case.kind, device),
        data.nbytes,
    )  # fmt: skip
    dense = weights[0].dequantize("bfloat16")
    wide = copies(case, device, dense.copy, dense.nbytes)
    halves = copies(
        case, device, partial(ck.ones, data.nbytes // 8, "float32", device=device), data.nbytes // 2
    )
    found = error(x, weights[0], ck.quant.linear(x, weights[0]))
    assert found < 0.05, f"{case}: the results differ by {found:.2g} of their size"
    calls = [
        [partial(ck.quant.linear, x, w) for w in weights],
        [one.copy for one in halves],
        [partial(ck.matmul, x, w.T) for w in wide],
    ]
    own, copy, product = (1e6 * s for s in median_seconds(clock, calls))
    rate = data.nbytes / own * 1e-3
    times = f"{own:.1f} | {copy:.1f} | {copy / own:.2f} | {rate:.0f} | {product:.1f} | {product / own:.2f}"
    return f"| {case} | {times} | {found:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = ck.zeros(1).device
    clock: Any = DeviceClock(device) if device.kind == "cuda" else HostClock()
    lines = [
        f"{device.properties.name}, device times in us",
        "",
        "| product | quantised | copy of its bytes | share of copy | GB/s | bfloat16 | speedup | error |",
        "| --- " * 8 + "|",
    ]
    print(*lines, sep="\n", flush=True)
    for case in CASES:
        lines.append(measured(case.scaled(arguments.scale), device, clock))
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
