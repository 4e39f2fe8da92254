"""nvcuda::wmma: fragments on a GPU and on the host."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

#: Of each product: its shape, the types of factors and sums, their layouts, and NumPy's types.
PRODUCTS = [
    (16, 16, 16, "half", "float", "row", "col", np.float16, np.float32),
    (16, 16, 16, "half", "half", "col", "row", np.float16, np.float16),
    (32, 8, 16, "half", "float", "row", "row", np.float16, np.float32),
    (8, 32, 16, "__nv_bfloat16", "float", "row", "col", ml_dtypes.bfloat16, np.float32),
    (16, 16, 8, "precision::tf32", "float", "row", "col", np.float32, np.float32),
    (16, 16, 16, "signed char", "int", "row", "col", np.int8, np.int32),
    (16, 16, 16, "unsigned char", "int", "col", "col", np.uint8, np.int32),
    (8, 8, 4, "double", "double", "row", "col", np.float64, np.float64),
]
TEXT = """
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
template <int M, int N, int K, class T, class Memory, class Sum, class A, class B>
__device__ void multiply(const void* a, const void* b, const void* c, void* d, int lda, int ldb) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, A> of_a;
    wmma::fragment<wmma::matrix_b, M, N, K, T, B> of_b;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sums, more;
    wmma::load_matrix_sync(of_a, (const Memory*)a, lda);
    wmma::load_matrix_sync(of_b, (const Memory*)b, ldb);
    wmma::load_matrix_sync(sums, (const Sum*)c, N, wmma::mem_row_major);
    wmma::fill_fragment(more, Sum(1));
    wmma::mma_sync(sums, of_a, of_b, sums);
    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] = Sum(sums.x[i] + more.x[i]);
    wmma::store_matrix_sync((Sum*)d, sums, M, wmma::mem_col_major);
}
__global__ void products(const char* a, const char* b, const char* c, char* d) {
"""


def test_products(device: ck.Device) -> None:
    random, text = np.random.default_rng(0), TEXT
    given: list[list[bytes]] = [[], [], []]
    expected = []
    for number, (m, n, k, factor, total, of_a, of_b, numpy_factor, numpy_sum) in enumerate(PRODUCTS):
        kind = factor if "precision" not in factor else "float"
        name = factor.replace("precision", "wmma::precision")
        text += (
            f"    multiply<{m}, {n}, {k}, {name}, {kind}, {total}, wmma::{of_a}_major, wmma::{of_b}_major>("
            f"a + {number} * 4096, b + {number} * 4096, c + {number} * 4096, d + {number} * 4096, "
            f"{k if of_a == 'row' else m}, {n if of_b == 'row' else k});\n"
        )
        low = 0 if numpy_factor is np.uint8 else -4
        a = random.integers(low, 5, (m, k)).astype(numpy_factor)
        b = random.integers(low, 5, (k, n)).astype(numpy_factor)
        c = random.integers(-9, 9, (m, n)).astype(numpy_sum)
        placed = (a if of_a == "row" else a.T, b if of_b == "row" else b.T, c)
        for bytes_of, matrix in zip(given, placed, strict=True):
            bytes_of.append(np.ascontiguousarray(matrix).tobytes().ljust(4096, b"\0"))
        expected.append((a.astype(float) @ b.astype(float) + c.astype(float) + 1).astype(numpy_sum))
    kernel = ck.Kernel(text + "}", block=32, plain=True)
    out = ck.zeros(4096 * len(PRODUCTS), "int8")
    kernel(*(ck.asarray(np.frombuffer(b"".join(one), np.int8)).copy() for one in given), out, grid=1)
    for number, wanted in enumerate(expected):
        m, n = wanted.shape
        got = out.numpy()[4096 * number : 4096 * number + wanted.nbytes].view(wanted.dtype).reshape(n, m).T
        np.testing.assert_array_equal(got, wanted, err_msg=str(PRODUCTS[number]))


MISUSED = """
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void misused(const half* x, float* y) {
    __shared__ __align__(32) half held[256];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += blockDim.x) held[i] = x[i];
    __syncthreads();
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> sums;
    fill_fragment(sums, 0.0f);
    load_matrix_sync(a, held, 16);
    load_matrix_sync(b, held, 16);
    mma_sync(sums, a, b, sums);
    if (t < 32) store_matrix_sync(y, sums, 16, mem_row_major);
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "kind", "line"),
    [
        ("__syncthreads();", "", "race", "held[i] = x[i]"),
        ("if (t < 32)", "sums.x[0] += t / 32;", "race", "store_matrix_sync"),
        (
            "load_matrix_sync(b, held, 16)",
            "load_matrix_sync(b, held + 16, 16)",
            "out of bounds",
            "load_matrix_sync(b",
        ),
        ("load_matrix_sync(b, held, 16)", "load_matrix_sync(b, held + 2, 16)", "fault", "load_matrix_sync(b"),
    ],
    ids=["no barrier", "two warps store", "beyond the array", "not aligned"],
)
def test_misuse_is_reported(right: str, wrong: str, kind: str, line: str) -> None:
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        x, y = ck.arange(256).astype("float16"), ck.zeros(256)
        ck.Kernel(MISUSED, block=64, plain=True)(x, y, grid=1)
        assert not reports, reports
        text = MISUSED.replace(right, wrong)
        ck.Kernel(text, block=64, plain=True)(x, y, grid=1)
    lines = [number for number, row in enumerate(text.split("\n"), 1) if line in row]
    places = [(report.kind, report.place, report.other_place) for report in reports]
    assert any(one[0] == kind and any(f":{n}" in str(one[1:]) for n in lines) for one in places), places
