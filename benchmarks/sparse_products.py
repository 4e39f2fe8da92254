"""Products of sparse matrices beside cuSPARSE through CuPy, and PyTorch's.

Usage: python benchmarks/sparse_products.py [--scale N] [--only WORD] [--out FILE]

CSR in float32 with int32 indices, by a vector and by a matrix of 64 columns, and its gradient with respect to the
values; BSR of blocks of 16 x 16. Random data, random places: so many in each row, or in rows of very different length.
Results are compared with a product in float64 on the host. `--scale` divides the sizes, for a try without a GPU.
Without CuPy or PyTorch their columns are empty.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from measure import Benchmark, Call, difference, torch
from scipy import sparse as scipy_sparse

import cukern as ck

COLUMNS = ["matrix", "product", "own", "cuSPARSE", "PyTorch", "GB/s", "error"]
SIDE = 1 << 17
#: Rows that are compared, and how far they may lie apart, as a share of the largest number.
ROWS, LIMIT = 4096, 5e-6


class Case(NamedTuple):
    """A square matrix: rows and entries in a row, and whether rows differ in length."""

    name: str
    side: int
    entries: int
    uneven: bool = False
    block: int = 1

    def __str__(self) -> str:
        return f"{self.name}, {self.side} rows of {self.entries}"


CASES = [
    Case("even", SIDE * 8, 8),
    Case("even", SIDE * 2, 64),
    Case("even", SIDE // 8, 1024),
    Case("uneven", SIDE * 2, 64, uneven=True),
    Case("blocks of 16 x 16", SIDE // 2, 128, block=16),
]


def matrix(case: Case) -> Any:
    """A matrix of SciPy with random values at random places; lengths of uneven rows follow Pareto's distribution."""
    rng = np.random.default_rng(0)
    rows = case.side // case.block
    each = max(1, min(rows // 2, case.entries // case.block))
    counts = np.full(rows, each)
    if case.uneven:
        drawn = rng.pareto(1.5, rows) + 0.1
        counts = np.minimum(rows // 2, (drawn * each / drawn.mean()).astype(np.int64))
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    # The k-th of n columns of a row lies at random in the first half of the k-th of n parts of the row: none twice.
    place = np.arange(pointers[-1]) - np.repeat(pointers[:-1], counts) + 0.5 * rng.random(pointers[-1])
    indices = (place * np.repeat(rows / np.maximum(counts, 1), counts)).astype(np.int32)
    shape = (case.side, case.side)
    if case.block == 1:
        values = rng.standard_normal(indices.size, np.float32)
        return scipy_sparse.csr_array((values, indices, pointers), shape)
    values = rng.standard_normal((indices.size, case.block, case.block), np.float32)
    return scipy_sparse.bsr_array((values, indices, pointers), shape)


def peers(a: Any, x: ck.Array) -> list[Call | None]:
    """The product by cuSPARSE through CuPy, and that of PyTorch."""
    found: list[Call | None] = [None, None]
    if not x.device.addressable and a.format == "csr":
        import cupy
        import cupyx.scipy.sparse as theirs

        mine = theirs.csr_matrix(tuple(cupy.asarray(one) for one in (a.data, a.indices, a.indptr)), a.shape)
        dense = cupy.asfortranarray(cupy.asarray(x)) if x.ndim == 2 else cupy.asarray(x)
        found[0] = lambda: mine @ dense
    if torch is not None:
        there = torch.from_dlpack(x)
        make = torch.sparse_csr_tensor if a.format == "csr" else torch.sparse_bsr_tensor
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = [torch.from_numpy(one).to(there.device) for one in (a.indptr, a.indices, a.data)]
            made = make(*parts, size=a.shape)
        found[1] = lambda: made @ there
    return found


def compared(bench: Benchmark, case: Case) -> None:
    """The lines of one matrix."""
    case = case._replace(side=max(64 * case.block, case.side // bench.scale))
    a = matrix(case)
    kind = ck.sparse.csr_array if a.format == "csr" else ck.sparse.bsr_array
    made = kind(a, device=bench.device)
    rng = np.random.default_rng(1)
    for columns in (1, 64):
        size = (a.shape[1],) if columns == 1 else (a.shape[1], columns)
        host = rng.standard_normal(size, np.float32)
        x = ck.asarray(host, device=bench.device)
        title = "by a vector" if columns == 1 else f"by {columns} columns"
        some = a[:ROWS] if a.format == "csr" else a.tocsr()[:ROWS]
        exact = some.astype(np.float64) @ host.astype(np.float64)
        error = difference(f"{case}, {title}", (made @ x)[:ROWS], exact, LIMIT, relative=True)
        times = bench.microseconds(lambda x=x: made @ x, *peers(a, x))
        # What must be moved at least: the entries once, the factor and the result once.
        moved = a.data.nbytes + a.indices.nbytes + a.indptr.nbytes + 2 * host.nbytes
        bench.row(case, title, *times, moved / (times[0] or 1.0) / 1e3, f"{error:.1e}")
    if a.format == "csr":
        gradient(bench, case, a, made, x)


def gradient(bench: Benchmark, case: Case, a: Any, made: Any, x: ck.Array) -> None:
    """The gradient of the values: the product of two dense matrices at the entries."""
    g = ck.asarray(np.random.default_rng(2).standard_normal(x.shape, np.float32), device=bench.device)
    with ck.Tape(persistent=True) as tape:
        tape.watch([made.data])
        y = made @ x

    def own() -> Any:
        return tape.gradient(y, [made.data], output_gradients=[g])[0]

    rows, left, right = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), g.numpy(), x.numpy()
    some = np.random.default_rng(3).integers(0, rows.size, 1 << 12)
    exact = (left[rows[some]].astype(np.float64) * right[a.indices[some]]).sum(1)
    error = difference(
        f"{case}, gradient", own()[ck.asarray(some, device=bench.device)], exact, LIMIT, relative=True
    )
    sampled = None
    if torch is not None and not bench.device.addressable:
        parts = [torch.from_numpy(one).cuda() for one in (a.indptr, a.indices, np.zeros_like(a.data))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            places = torch.sparse_csr_tensor(*parts, size=a.shape)
        there, other = torch.from_dlpack(g), torch.from_dlpack(x)
        sampled = lambda: torch.sparse.sampled_addmm(places, there, other.T, beta=0.0)  # noqa: E731
    times = bench.microseconds(own, sampled)
    bench.row(case, "gradient of its values, 64 columns", times[0], None, times[1], None, f"{error:.1e}")


def main() -> None:
    bench = Benchmark(__doc__, "CSR and BSR in float32, device times in us", COLUMNS)
    for case in bench.chosen(CASES):
        compared(bench, case)
    bench.end()


if __name__ == "__main__":
    main()
