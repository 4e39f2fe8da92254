"""What functions cost to compute, in operations: the numbers from which `cukern/elementwise/costs.py` rounds its own.

Usage: python benchmarks/row_costs.py [--scale N] [--only WORD] [--out FILE]

For each row of the elementwise table that takes one or two floats: a kernel adds eight results of it, of different
arguments in float32; its time on the device, in multiplications with an addition at the rate that the cost models take
for the device. The addition and the argument's own sum are not counted. Rows that take less than the memory are shown
with what the memory took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Benchmark

import cukern as ck
from cukern.array.operators import FUNCTIONS
from cukern.elementwise.function import Elementwise
from cukern.launch.cost import flops

#: Elements, results of the function that are added, and operations of each besides the function's.
ELEMENTS, RESULTS, OTHERS = 1 << 24, 8, 2


def calls(row: Elementwise, operands: int) -> Callable[..., Any]:
    """A function that adds several results of a row."""

    def added(x: Any, y: Any) -> Any:
        result = x
        for i in range(RESULTS):
            own = x + 0.001 * i
            result = result + (row(own) if operands == 1 else row(own, y))
        return result

    return ck.fuse(added)


def main() -> None:
    bench = Benchmark(__doc__, "elementwise rows of float32", ["row", "operands", "us", "operations"])
    rng, size = np.random.default_rng(0), ELEMENTS // bench.scale
    x, y = (ck.asarray(rng.uniform(0.1, 0.9, size).astype("float32")) for _ in range(2))
    rate = flops(bench.device.properties) / 2  # which counts both operations
    rows = {name: row for name, row in FUNCTIONS.items() if isinstance(row, Elementwise) and "f" in row.types}
    for name in bench.chosen(sorted(rows)):
        row = rows[name]
        operands = row.operands.count("x")
        if row.operands not in ("x", "xx") or row.result != "x":
            continue
        function = calls(row, operands)
        (taken,) = bench.microseconds(lambda function=function: function(x, y))
        assert taken is not None
        bench.row(name, operands, taken, 1e-6 * taken * rate / size / RESULTS - OTHERS)
    bench.end()


if __name__ == "__main__":
    main()
