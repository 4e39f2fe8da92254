"""Products with bias and ReLU in one launch, beside the library's product, a kernel after it, and PyTorch's.

Usage: python benchmarks/product.py [--scale N] [--out FILE]

Every form that `cukern.linear.tensor_cores` has for a product is a line. After the table stand the same times as rows
of `cukern/linear/measured.py`, by which a product chooses: put them into `TIMES`, where a form that has no times is
never chosen. `--scale` divides the sizes, for a try without a GPU. Random data; every result is compared with the exact
float32 product of the device's library. The larger factor is another copy each time, so that it is not in a cache.
Without PyTorch its columns are empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark, Call, difference, torch

import cukern as ck
from cukern import dtypes
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import program
from cukern.linear import library, tensor_cores
from cukern.linear.measured import Times
from cukern.linear.plan import Plan
from cukern.linear.task import task_of


class Case(NamedTuple):
    """A product: its dtype, sizes, and whether the right factor is contiguous along k."""

    dtype: str
    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    swapped: bool = False
    tf32: bool = False

    def scaled(self, scale: int) -> Case:
        """The product of smaller matrices; few rows stay as many."""
        m, k, n = (size if size <= 16 else max(32, size // scale) for size in self[2:5])
        return self._replace(m=m, k=k, n=n)

    def __str__(self) -> str:
        sizes = "x".join(map(str, (*self.batch, self.m, self.k, self.n)))
        return f"{'tf32' if self.tf32 else self.dtype} {sizes}{' (transposed)' if self.swapped else ''}"


CASES = [
    Case("bfloat16", (), 4096, 4096, 4096),
    Case("bfloat16", (), 4096, 4096, 4096, True),
    Case("bfloat16", (), 8192, 8192, 8192),
    *(Case("bfloat16", (32,), 512, 512, 512, swapped) for swapped in (False, True)),
    Case("bfloat16", (), 16384, 768, 3072, True),
    Case("bfloat16", (), 16384, 3072, 768, True),
    *(
        Case("bfloat16", (), 8192, *sizes, True)
        for sizes in ((768, 2304), (768, 768), (768, 3072), (3072, 768))
    ),
    Case("bfloat16", (), 8192, 768, 50304, True),
    *(Case("bfloat16", (), size, size, size, True) for size in (64, 128, 256, 512, 1024)),
    *(Case("bfloat16", (), size, size, size) for size in (64, 256)),
    Case("bfloat16", (), 64, 4096, 4096, True),
    Case("bfloat16", (), 768, 8192, 768),
    Case("bfloat16", (), 256, 16384, 256, True),
    *(Case("bfloat16", (), rows, 4096, 4096, swapped) for swapped in (True, False) for rows in (1, 4, 8, 16)),
    *(Case("float32", (), rows, 4096, 4096, True) for rows in (1, 4, 16)),
    Case("bfloat16", (), 4096, 4096, 8),
    Case("bfloat16", (), 16, 65536, 128, True),
    *(
        Case("bfloat16", (), rows, *sizes, swapped)
        for sizes in ((2048, 8192), (5120, 5120), (4096, 14336), (768, 50304), (8192, 8192), (1024, 4096))
        for swapped in (True, False)
        for rows in (1, 16)
    ),
    *(
        Case("float32", (), 4096, 4096, 4096, swapped, tf32)
        for swapped in (False, True)
        for tf32 in (True, False)
    ),
    *(
        Case("float32", (32,), 512, 512, 512, swapped, tf32)
        for swapped in (False, True)
        for tf32 in (True, False)
    ),
    *(Case("float32", (), 8192, 768, 3072, True, tf32) for tf32 in (True, False)),
    Case("float32", (), 1024, 1024, 1024, True),
]
#: Bytes that no cache of a GPU holds, also of the matrices that come again in the next ten calls of another side.
_CACHES = 2**29
COLUMNS = [
    *("m x k x n", "form", "one launch", "the library's product", "with one kernel after it"),
    *("PyTorch's product", "PyTorch with both", "TFLOP/s", "GB/s", "error"),
]


@ck.fuse
def ended(product: ck.Array, bias: ck.Array) -> ck.Array:
    return ck.relu(product + bias)


def plans(a: ck.Array, b: ck.Array, bias: ck.Array, tf32: bool) -> dict[str, Callable[..., ck.Array]]:
    """The launch of each form that takes the product."""
    layouts = [one._planned() for one in (a, b, bias)]
    task = task_of(*layouts[:2], layouts[2:])
    assert task is not None, "every case is aligned"
    total = Expr(input_node(0, dtypes.float32)) + Expr(input_node(1, a.dtype))
    made: Any = ck.relu(total)
    whole = program("matmul_add_relu", (made.astype(a.dtype).node,), (dtypes.float32, a.dtype))
    found: dict[str, Callable[..., ck.Array]] = {}
    ending = library.ending_of(whole, task, layouts[2:]) if a.device.kind == "cuda" else None
    for name, form in tensor_cores.forms(task, a.device, tf32, ending).items():
        plan = tensor_cores.make_plan(whole, *layouts[:2], layouts[2:], form)
        assert plan is not None
        found[name] = plan
    return found


def peers(a: ck.Array, b: ck.Array, bias: ck.Array) -> list[Call | None]:
    """PyTorch's product, and that with bias and ReLU."""
    if torch is None:
        return [None, None]
    x, w, c = (torch.from_dlpack(one) for one in (a, b, bias))
    return [lambda: torch.matmul(x, w), lambda: torch.relu(torch.matmul(x, w) + c)]


def operands(case: Case, device: ck.Device) -> tuple[list[tuple[ck.Array, ck.Array]], ck.Array]:
    """Pairs of equal factors in different memory, more than caches hold, and a bias."""
    rng = np.random.default_rng(0)

    def random(*size: int) -> ck.Array:
        return ck.asarray(rng.standard_normal(size, np.float32), device=device).astype(case.dtype)

    a = random(*case.batch, case.m, case.k)
    b = random(*case.batch, case.n, case.k) if case.swapped else random(*case.batch, case.k, case.n)
    copies = max(1, min(16, _CACHES // max(a.nbytes, b.nbytes))) if device.kind == "cuda" else 1
    pairs = [(a, b), *((a.copy(), b.copy()) for _ in range(copies - 1))]
    if case.swapped:
        pairs = [(x, ck.swapaxes(w, -1, -2)) for x, w in pairs]
    for one in (array for pair in pairs for array in pair):
        one._planned()  # as a plan takes it
    return pairs, random(case.n)


def measure(case: Case, bench: Benchmark) -> list[Times]:
    """Add lines to the table; the rows of `measured.py`."""
    pairs, bias = operands(case, bench.device)
    a, b = pairs[0]
    exact = ended(a.astype("float32") @ b.astype("float32"), bias.astype("float32"))
    product: Any = Plan(a._planned(), b._planned()) if bench.device.kind == "cuda" else ck.matmul
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
    limit = 2**-8 if case.dtype == "bfloat16" or case.tf32 else 2**-18
    count = math.prod(case.batch)
    size = a.dtype.itemsize * count * (case.m * case.k + case.k * case.n + case.m * case.n)
    rows = []
    with ck.matmul_precision("tf32" if case.tf32 else "highest"):
        for name, plan in plans(a, b, bias, case.tf32).items():
            error = difference(f"{case}, {name}", plan(a, b, bias), exact, limit, relative=True)
            calls: list[list[Call | None]] = [
                [
                    partial(plan, x, w, bias),
                    partial(product, x, w),
                    lambda x=x, w=w: ended(product(x, w), bias),  # type: ignore[misc]
                    *peers(x, w, bias),
                ]
                for x, w in pairs
            ]
            sides = [[call for call in side if call is not None] or None for side in zip(*calls, strict=True)]
            times = bench.microseconds(*sides)
            own, alone, apart = (round(one, 1) for one in times[:3] if one is not None)
            rate = 2e-6 * count * case.m * case.n * case.k / own
            bench.row(case, name, *times, f"{rate:.0f}", f"{1e-3 * size / own:.0f}", f"{error:.1e}")
            rows.append(Times(name, count, case.m, case.k, case.n, case.swapped, own, alone, apart))
    return rows


def main() -> None:
    bench = Benchmark(__doc__, "device times in us", COLUMNS)
    rows = [row for case in bench.chosen(CASES) for row in measure(case.scaled(bench.scale), bench)]
    bench.end("```py", *(f"{row!r}," for row in rows), "```")


if __name__ == "__main__":
    main()
