"""A sum, a product and a principal component analysis of an array ten times larger than the memory they may use.

Usage: python benchmarks/streaming.py [--limit GIB] [--chunk MIB] [--threads N] [--scale N] [--out FILE]

The array is in the host's memory; `dask.array` sends its chunks of rows to the GPU and computes on them there, in the
threads of this process. CuPy's pool, from which all arrays on the GPU come, is limited to `--limit` GiB. Random data;
results are compared with those of NumPy in float64: sums and covariances of all chunks, products of random rows. Times
are in the array's bytes a second, once for each pass over the array, beside a bare copy of page-locked memory in the
same run, and beside the same program with chunks of CuPy. `--scale` divides the sizes, for a try without a GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

import cukern as ck

COLUMNS, WIDTH, TIMES = 256, 32, 10
#: Rows of the product that are compared.
ROWS = 2000


class Rows:
    """A NumPy array that is only sliced: `dask.array.from_array` would copy all of it."""

    def __init__(self, data: Any) -> None:
        self.data, self.shape, self.dtype, self.ndim = data, data.shape, data.dtype, data.ndim

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]


class Library:
    """An array library whose arrays are chunks: how they come to its device and back."""

    def __init__(
        self, name: str, up: Callable[[Any], Any], down: Callable[[Any], Any], meta: Any, eigh: Any
    ) -> None:
        self.name, self.up, self.down, self.meta, self.eigh = name, up, down, meta, eigh

    def chunks(self, x: Any, rows: int) -> Any:
        """An array of the host as a Dask array of chunks on the device."""
        given = da.from_array(
            Rows(x), chunks=(rows, -1), name=False, asarray=False, meta=np.empty((0, 0), x.dtype)
        )
        return given.map_blocks(self.up, meta=self.meta, dtype=x.dtype)


def filled(shape: tuple[int, int], scales: Any, rows: int) -> Any:
    """Random numbers, whose columns have different scales."""
    made = np.empty(shape, np.float32)

    def fill(part: int) -> None:
        own = made[part : part + rows]
        np.random.default_rng(part).random(out=own, dtype=np.float32)
        own *= scales

    parallel(fill, range(0, shape[0], rows))
    return made


def parallel(call: Callable[[int], Any], values: Any) -> list[Any]:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(call, values))


def exact(x: Any, rows: int) -> tuple[float, Any]:
    """The sum of all elements, and the variances along the principal axes, of largest first."""
    wide = min(rows, 4096)

    def part(begin: int) -> tuple[Any, Any]:
        own = x[begin : begin + wide].astype(np.float64)
        return own.sum(axis=0), own.T @ own

    with one_thread_each():
        parts = parallel(part, range(0, len(x), wide))
    total, squares = (np.sum([one[k] for one in parts], axis=0) for k in range(2))
    covariance = (squares - np.outer(total, total) / len(x)) / (len(x) - 1)
    return float(total.sum()), np.linalg.eigvalsh(covariance)[::-1]


def one_thread_each() -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def link(device: ck.Device, nbytes: int) -> float | None:
    """Bytes a second of copies from page-locked memory to the GPU."""
    if device.kind != "cuda":
        return None
    cuda = device.xp.cuda
    source = cuda.alloc_pinned_memory(nbytes)
    np.frombuffer(source, np.uint8, nbytes).fill(1)
    target, stream = device.xp.empty(nbytes, np.uint8), cuda.Stream(non_blocking=True)
    rates = []
    for _ in range(6):
        begin = time.perf_counter()
        cuda.runtime.memcpyAsync(target.data.ptr, source.ptr, nbytes, 1, stream.ptr)
        stream.synchronize()
        rates.append(nbytes / (time.perf_counter() - begin))
    return float(np.median(rates))


def close(name: str, made: Any, wanted: Any, limit: float) -> float:
    """The largest difference as a share of the largest value.

    Raises:
        AssertionError: it is over the limit, or NaN.
    """
    apart = float(np.max(np.abs(np.asarray(made, np.float64) - wanted)) / np.max(np.abs(wanted)))
    assert apart <= limit, f"{name}: the results differ by {apart:.2g}, expected {limit:.2g} at most"
    return apart


class Work:
    """The three computations of one array with chunks of one library."""

    def __init__(self, library: Library, x: Any, rows: int) -> None:
        self.library, self.x, self.rows = library, x, rows
        self.weight = np.random.default_rng(1).normal(size=(COLUMNS, WIDTH)).astype(np.float32)
        self.product = np.full((len(x), WIDTH), np.nan, np.float32)

    def sum(self) -> float:
        return float(self.library.chunks(self.x, self.rows).sum().compute())

    def matmul(self) -> Any:
        """The product with a matrix, brought back to the host."""
        weight = da.from_array(self.library.up(self.weight), chunks=-1, asarray=False, name=False)
        made = self.library.chunks(self.x, self.rows) @ weight
        back = made.map_blocks(self.library.down, meta=np.empty((0, 0), np.float32), dtype=np.float32)
        da.store(back, self.product, lock=False)
        return self.product

    def pca(self) -> Any:
        """The variances along the principal axes, largest first, in two passes: means, then covariances."""
        chunks = self.library.chunks(self.x, self.rows)
        centred = chunks - da.from_array(chunks.mean(axis=0).compute(), chunks=-1, asarray=False, name=False)
        # Dask's optimizer would send each chunk once for each of the factors.
        products = da.tensordot(centred, centred, axes=([0], [0])).compute(optimize_graph=False)
        covariance = products / (len(self.x) - 1)
        return self.library.down(self.library.eigh(covariance)[0])[::-1]


def libraries(device: ck.Device) -> list[Library]:
    made = [Library("cukern", ck.asarray, ck.Array.numpy, ck.zeros((0, 0)), ck.linalg.eigh)]
    if device.kind == "cuda":
        cupy = device.xp
        empty = cupy.zeros((0, 0), np.float32)
        made.append(Library("CuPy", cupy.asarray, cupy.asnumpy, empty, cupy.linalg.eigh))
    return made


def measured(work: Work, name: str, passes: int, check: Callable[[Any], float]) -> tuple[float, float]:
    """Bytes a second, and the error."""
    device = ck.zeros(1).device
    device.synchronize()
    begin = time.perf_counter()
    found = getattr(work, name)()
    device.synchronize()
    seconds = time.perf_counter() - begin
    return passes * work.x.nbytes / seconds, check(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=2.0, help="GiB that arrays on the GPU may use")
    parser.add_argument("--chunk", type=int, default=128, help="MiB")
    parser.add_argument("--threads", type=int, default=4, help="of Dask")
    parser.add_argument("--scale", type=int, default=1, help="divides sizes")
    parser.add_argument(
        "--page-locked", action="store_true", help="also with the array in page-locked memory"
    )
    parser.add_argument("--own", action="store_true", help="without chunks of CuPy")
    parser.add_argument("--out", type=Path, help="a file for the table")
    options = parser.parse_args()
    device, lines = ck.zeros(1).device, []

    def show(*given: str) -> None:
        lines.extend(given)
        print(*given, sep="\n", flush=True)

    limit = int(options.limit * 2**30 / options.scale)
    rows = (options.chunk << 20) // options.scale // (4 * COLUMNS)
    copied = link(device, min(limit // 4, 1 << 28))
    if device.kind == "cuda":
        device.xp.get_default_memory_pool().set_limit(size=limit)
    begin = time.perf_counter()
    x = filled(
        (TIMES * limit // (4 * COLUMNS), COLUMNS), np.linspace(1.0, 2.0, COLUMNS, dtype=np.float32), rows
    )
    made = time.perf_counter()
    total, variances = exact(x, rows)
    print(f"made in {made - begin:.1f} s, NumPy's results in {time.perf_counter() - made:.1f} s", flush=True)
    some = np.random.default_rng(2).integers(0, len(x), ROWS)
    show(
        f"{device.properties.name}, float32 {x.shape}, {x.nbytes / 2**30:.2f} GiB in chunks of {rows} rows; "
        f"{limit / 2**30:.2f} GiB for arrays on the GPU; {options.threads} threads of Dask {dask.__version__}",
        "" if copied is None else f"A bare copy of page-locked memory: {copied / 1e9:.1f} GB/s",
        "",
        "| | chunks | array | GB/s | of the bare copy | error |",
        "| --- | --- | --- | --- | --- | --- |",
    )

    def run(library: Library, where: str) -> None:
        first = Work(library, x[: 4 * rows], rows)  # compiles
        first.sum(), first.matmul(), first.pca()
        work = Work(library, x, rows)
        wanted = x[some].astype(np.float64) @ work.weight.astype(np.float64)
        for name, passes, check in (
            ("sum", 1, lambda found: close("sum", found, total, 1e-5)),
            ("matmul", 1, lambda found: close("matmul", found[some], wanted, 1e-5)),
            ("pca", 2, lambda found: close("pca", found, variances, 1e-4)),
        ):
            rate, error = measured(work, name, passes, check)
            share = "" if copied is None else f"{rate / copied:.2f}"
            show(f"| {name} | {library.name} | {where} | {rate / 1e9:.1f} | {share} | {error:.1e} |")

    with dask.config.set(scheduler="threads", num_workers=options.threads):
        for library in libraries(device)[: 1 if options.own else None]:
            run(library, "pageable")
        if options.page_locked and device.kind == "cuda":
            runtime, begin = device.xp.cuda.runtime, time.perf_counter()
            runtime.hostRegister(x.ctypes.data, x.nbytes, 0)
            print(f"locked in {time.perf_counter() - begin:.1f} s", flush=True)
            with suppress(MemoryError):
                run(libraries(device)[0], "page-locked")
            runtime.hostUnregister(x.ctypes.data)
    if device.kind == "cuda":
        used = device.xp.get_default_memory_pool().total_bytes()
        show("", f"The pool held {used / 2**30:.2f} GiB at the end.")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
