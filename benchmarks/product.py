"""Products of bfloat16 with bias and ReLU in one launch, beside the library's product and PyTorch's.

Usage: python benchmarks/product.py [--scale N] [--out FILE]

The columns "one launch" and "the library's product" go to `cukern/linear/measured.py`, by which a product chooses
between the two. `--scale` divides the sizes, for a try without a GPU. Random data; every result is compared with
PyTorch's in float32.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck
from cukern import dtypes
from cukern.bench.timing import DeviceClock, HostClock, median_seconds
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import program
from cukern.linear import tensor_cores
from cukern.linear.task import task_of

#: Batch, m, k, n, and whether the right factor is contiguous along k.
CASES = [
    ((), 4096, 4096, 4096, False),
    ((), 4096, 4096, 4096, True),
    ((), 8192, 8192, 8192, False),
    ((32,), 512, 512, 512, False),
    ((), 16384, 768, 3072, True),
    ((), 16384, 3072, 768, True),
]


def one_launch(a: ck.Array, b: ck.Array, bias: ck.Array) -> Any:
    """The function of these arrays that runs on tensor cores; what `ck.fuse` chooses where there are none."""
    layouts = [one._planned() for one in (a, b, bias)]
    task = task_of(*layouts[:2], layouts[2:])
    if task is None or a.device.style == "serial":
        return ck.nn.matmul_add_relu
    total = Expr(input_node(0, dtypes.float32)) + Expr(input_node(1, a.dtype))
    made: Any = ck.relu(total)
    ended = program("matmul_add_relu", (made.astype(a.dtype).node,), (dtypes.float32, a.dtype))
    tile = tensor_cores.tile_for(task, a.device)
    return tensor_cores.make_plan(ended, *layouts[:2], layouts[2:], tile)


@ck.fuse
def ended(product: ck.Array, bias: ck.Array) -> ck.Array:
    return ck.relu(product + bias)


def measured(batch: tuple[int, ...], m: int, k: int, n: int, swapped: bool, where: str, clock: Any) -> str:
    """A line of the table: times in microseconds.

    Raises:
        AssertionError: the results differ by more than a bfloat16's rounding.
    """
    import torch

    rng = np.random.default_rng(0)
    sizes = ((*batch, m, k), (*batch, n, k) if swapped else (*batch, k, n), (n,))
    theirs = [
        torch.tensor(rng.standard_normal(size, np.float32), device=where).to(torch.bfloat16) for size in sizes
    ]
    ours = [ck.from_dlpack(one) for one in theirs]
    if swapped:
        theirs[1], ours[1] = theirs[1].transpose(-1, -2), ck.swapaxes(ours[1], -1, -2)
    exact = torch.relu(theirs[0].float() @ theirs[1].float() + theirs[2].float())
    own = one_launch(*ours)
    made = torch.from_dlpack(own(*ours)).float()
    error = float((made - exact).abs().max() / exact.abs().max())
    assert error < 2**-8, f"the results differ by {error:.2g} of the largest"
    sides = [
        lambda: own(*ours),
        lambda: ck.matmul(ours[0], ours[1]),
        lambda: ended(ck.matmul(ours[0], ours[1]), ours[2]),
        lambda: torch.matmul(theirs[0], theirs[1]),
        lambda: torch.relu(torch.matmul(theirs[0], theirs[1]) + theirs[2]),
    ]
    one, library, two, bare, full = (1e6 * s for s in median_seconds(clock, [[side] for side in sides]))
    rate = 2e-6 * m * n * k * (batch[0] if batch else 1) / one
    name = "x".join(map(str, (*batch, m, k, n))) + (" (transposed)" if swapped else "")
    times = f"{one:.0f} | {library:.0f} | {two:.0f} | {bare:.0f} | {full:.0f} | {one / bare:.2f} | {one / full:.2f}"
    return f"| {name} | {times} | {rate:.0f} | {error:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = ck.zeros(1).device
    clock: Any = DeviceClock(device) if device.kind == "cuda" else HostClock()
    lines = [
        f"bfloat16 on {device.properties.name}, device times in us",
        "",
        "| m x k x n | one launch | the library's product | with one kernel after it | PyTorch's product | "
        "PyTorch with both | ratio | ratio | TFLOP/s | error |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    where = "cuda" if device.kind == "cuda" else "cpu"
    for batch, m, k, n, swapped in CASES:
        sizes = [size // arguments.scale for size in (m, k, n)]
        lines.append(measured(batch, *sizes, swapped, where, clock))
        print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    print("\n" + text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
