"""What programs of others use beside plain C++: variables of the device, cooperative groups, cub, small floats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

VARIABLES = """
#include <cstdio>
#define N 2
namespace a {
const int M = 3;
__constant__ float c[N * M][2];
static __device__ unsigned int counter = 7;
struct P { int x; float y; };
__constant__ P p;
}
__device__ double total;
template <typename T> __global__ void add(T* x) {
    x[threadIdx.x] += a::c[threadIdx.x][1];
    atomicAdd(&a::counter, 1u);
    if (threadIdx.x == 0) total += a::p.x;
}
namespace a {
typedef double real;
__global__ void read(unsigned* out, real* t) {
    if (threadIdx.x == 0) { out[0] = counter; counter = 100; t[0] = total + p.y; }
}
}
"""


def test_variables_are_one_for_all_kernels(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    program = ck.Kernel(VARIABLES, block=6, plain=True)
    assert list(program.globals) == ["a::c", "a::counter", "a::p", "total"]
    values = np.arange(12).reshape(6, 2)
    program.globals["a::c"] = values
    program.globals["a::p"] = np.array((5, 0.5), [("x", "i4"), ("y", "f4")])
    x, out, total = ck.zeros(6), ck.zeros(1, "uint32"), ck.zeros(1, "float64")
    program["add<float>"](x, grid=1)
    program["read"](out, total, grid=1)
    assert x.tolist() == values[:, 1].tolist()
    assert (out.tolist(), total.tolist()) == ([13], [5.5])
    np.testing.assert_array_equal(program.globals["a::c"], values.astype(np.float32))
    assert (int(program.globals["a::counter"]), float(program.globals["total"])) == (100, 5)
    program.globals["total"] = 3
    program["read"](out, total, grid=1)
    assert total.tolist() == [3.5]


def test_variables_of_one_kernel(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    __device__ int start = 4;
    extern "C" __global__ void << name >>(int* x) { x[threadIdx.x] = start; }
    """,
        block=1,
    )
    assert int(kernel.globals["start"]) == 4
    kernel.globals["start"] = 5
    x = ck.zeros(1, "int32")
    kernel(x)
    assert x.tolist() == [5]
    with pytest.raises(KeyError, match="'end' is none of the variables of this text: start"):
        kernel.globals["end"] = 1


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("total", "x", TypeError, "total: expected what float64 can hold, got dtype <U1"),
        ("a::c", np.zeros(5), ValueError, r"a::c: expected shape \(6, 2\), got \(5,\)"),
        (
            "a::counter",
            1.5,
            ValueError,
            "a::counter: expected an integer in the range of unsigned int, got 1.5",
        ),
        (
            "a::counter",
            -1,
            ValueError,
            "a::counter: expected an integer in the range of unsigned int, got -1",
        ),
        (
            "a::counter",
            np.int64(2**32),
            ValueError,
            "a::counter: expected an integer in the range of .*, got 4294",
        ),
        ("a::counter", 2**70, ValueError, "a::counter: expected an integer in the range of .*, got 118059"),
        ("a::p", 1.0, TypeError, "a::p: expected bytes or a NumPy structured array for the struct P"),
        ("a::p", b"123", ck.LaunchError, r"globals\['a::p'\] was set to 3 bytes; the variable has 8"),
    ],
)
def test_values_that_do_not_fit(
    device: ck.Device, name: str, value: object, error: type[Exception], message: str
) -> None:
    program = ck.Kernel(VARIABLES, block=6, plain=True)

    def set_and_launch() -> None:
        program.globals[name] = value
        program["read"](ck.zeros(1, "uint32"), ck.zeros(1, "float64"), grid=1)

    with pytest.raises(error, match=message):
        set_and_launch()


def test_pointers_to_pointers(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    kernel = ck.Kernel(
        """
    __global__ void add(const float* const* x, float** y, int arrays) {
        for (int k = 0; k < arrays; ++k)
            if (x[k]) y[k][threadIdx.x] += x[k][threadIdx.x];
    }
    """,
        block=4,
        plain=True,
    )
    x, y = [ck.arange(4.0, dtype="float32"), None, ck.ones(4)], [ck.ones(4), ck.ones(4), ck.ones(4)]
    kernel(x, y, 3, grid=1)
    assert [one.tolist() for one in y] == [[1, 2, 3, 4], [1] * 4, [2] * 4]
    with pytest.raises(
        ck.LaunchError, match=r"argument y\[1\]: expected dtype float32 for float\*\*, got an array of"
    ):
        kernel(x, [y[0], ck.ones(4, "int32"), y[1]], 3, grid=1)
    with pytest.raises(ck.LaunchError, match=r"argument x\[0\]: const float\*\* takes contiguous arrays"):
        kernel([ck.ones(8)[::2]], y, 1, grid=1)
    with pytest.raises(
        ck.LaunchError, match="argument y is written, and its memory overlaps that of argument x"
    ):
        kernel(y, y, 3, grid=1)
    with pytest.raises(
        ck.LaunchError, match=r"expected a list of arrays for float\*\*, got an array of float32"
    ):
        kernel(x, y[0], 1, grid=1)


def test_enumerations_are_whole_numbers(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    enum Mode { Add = -1, Multiply = 2 };
    enum class Kind : unsigned char { A = 3, B = 200 };
    typedef enum { Red, Green } Color;
    __device__ Mode last;
    __global__ void run(int* y, Mode mode, const Kind kind, enum Mode* modes, Color color) {
        y[0] = mode == Multiply; y[1] = kind == Kind::B; y[2] = modes[1]; y[3] = color; last = mode;
    }
    """,
        block=1,
        plain=True,
    )
    y = ck.zeros(4, "int32")
    kernel(y, 2, np.uint8(200), ck.asarray([0, -1], dtype=ck.int32), 1, grid=1)
    assert (y.tolist(), int(kernel.globals["last"])) == ([1, 1, -1, 1], 2)
    with pytest.raises(ck.LaunchError, match="argument kind: expected an integer for const Kind"):
        kernel(y, 2, 1.5, y, 1, grid=1)


def test_names_that_macros_join_are_kept(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    #define CALL(kind, x) kind ## _value(x)
    __device__ float twice_value(float x) { return 2 * x; }
    void host_value(std::vector<float>& x) { x.clear(); }
    __global__ void run(float* y) { y[0] = CALL(twice, 4); }
    """,
        block=1,
        plain=True,
    )
    y = ck.empty(1)
    kernel(y, grid=1)
    assert y.tolist() == [8]


def test_reports_show_lines_of_the_file_that_is_meant(tmp_path: Path) -> None:
    for folder, line in (("a", 2), ("b", 4)):
        (tmp_path / folder).mkdir()
        text = "\n" * (line - 1) + f"__device__ void put(float* y, int i) {{ y[i] = {line}; }}\n"
        (tmp_path / folder / "put.cuh").write_text(text)
        (tmp_path / folder / "main.cu").write_text(
            '#include "put.cuh"\n__global__ void run(float* y) { put(y, 5); }'
        )
    for folder, line in (("a", 2), ("b", 4)):
        kernel = ck.Kernel(tmp_path / folder / "main.cu", block=1, plain=True, checked=True)
        with ck.device("host"), pytest.raises(ck.KernelFault) as raised:
            kernel(ck.zeros(5), grid=1)
        assert raised.value.reports[0].place == f"put.cuh:{line}"
        assert f">{line:5d} | __device__ void put(float* y, int i) {{ y[i] = {line}; }}" in str(raised.value)


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
struct Wide { double a; int b; };
__global__ void tiles(const int* x, int* y) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    cg::thread_block_tile<4> four = cg::tiled_partition<4>(warp);
    const int own = x[block.thread_rank()];
    const int total = cg::reduce(four, own, cg::plus<int>()), most = cg::reduce(warp, own, cg::greater<int>());
    const int scan = cg::inclusive_scan(four, own) + cg::exclusive_scan(four, own);
    int odd = 0;
    if (threadIdx.x & 1) {
        cg::coalesced_group group = cg::coalesced_threads();
        odd = group.size() * 100 + group.thread_rank() + group.shfl(own, 0);
    }
    const Wide wide = four.shfl(Wide{own + 0.5, own}, 1);
    block.sync();
    cg::sync(warp);
    int* out = y + 8 * block.thread_rank();
    out[0] = total, out[1] = most, out[2] = scan, out[3] = odd, out[4] = (int)(2 * wide.a) + wide.b;
    out[5] = four.ballot(own % 4 != 2), out[6] = 100 * warp.meta_group_rank() + four.meta_group_rank();
    out[7] = cg::this_grid().thread_rank();
}
"""


def test_cooperative_groups(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    x, y = np.arange(64), ck.zeros((64, 8), "int32")
    ck.Kernel(GROUPS, block=64, plain=True)(ck.asarray(x, dtype="int32"), y, grid=1)
    fours = x.reshape(16, 4)
    first = np.repeat(fours[:, 1], 4)
    scan = np.cumsum(fours, 1)
    wanted = [
        np.repeat(fours.sum(1), 4),
        x | 31,
        (2 * scan - fours).reshape(-1),
        np.where(x & 1, 1600 + x % 32 // 2 + (x & ~31) + 1, 0),
        2 * first + 1 + first,
        np.full(64, 0b1011),
        100 * (x // 32) + x % 32 // 4,
        x,
    ]
    np.testing.assert_array_equal(y.numpy(), np.stack(wanted, 1))


PIPELINE = """
#include <cuda_pipeline.h>
__global__ void mirror(const float* x, float* y, int tiles, int n) {
    __shared__ __align__(16) float s[2][128];
    auto issue = [&](int t) {
        const int at = t * 128 + threadIdx.x * 4, there = max(min(n - at, 4), 0);
        __pipeline_memcpy_async(&s[t % 2][threadIdx.x * 4], x + at, 16, 16 - 4 * there);
        __pipeline_commit();
    };
    issue(0);
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) issue(t + 1);
        else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncwarp();
        for (int k = threadIdx.x; k < 128; k += 32) y[t * 128 + k] = s[t % 2][127 - k];
        __syncwarp();
    }
}
"""


def test_copies_of_cuda_pipeline_h(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    """In two stages; beyond the end they are zeros."""
    if device.kind == "cuda" and device.properties.compute_capability[0] < 8:
        pytest.skip("no GPU of compute capability 8.0")
    x, y = ck.arange(630, dtype="float32"), ck.empty(640)
    ck.Kernel(PIPELINE, block=32, plain=True)(x, y, 5, 630, grid=1)
    wanted = np.append(np.arange(630), np.zeros(10)).reshape(5, 128)[:, ::-1]
    np.testing.assert_array_equal(y.numpy().reshape(5, 128), wanted)


def test_a_copy_of_cuda_pipeline_h_that_nothing_waits_for() -> None:
    text = PIPELINE.replace("wait_prior(1)", "wait_prior(2)")
    with (
        ck.device("host"),
        ck.testing.checked(),
        pytest.raises(ck.KernelFault, match="unset: .* of shared s"),
    ):
        ck.Kernel(text, block=32, plain=True)(ck.ones(640), ck.zeros(640), 5, 640, grid=1)


def test_the_blocks_of_a_grid_meet(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    #include <cooperative_groups.h>
    __global__ void turn(const float* x, float* held, float* y) {
        auto grid = cooperative_groups::this_grid();
        const int i = grid.thread_rank(), n = grid.size();
        held[i] = x[i];
        grid.sync();
        y[i] = held[n - 1 - i];
    }
    """,
        block=32,
        plain=True,
    )
    blocks = 4
    x, y = ck.arange(32.0 * blocks, dtype="float32"), ck.zeros(32 * blocks)
    for _ in range(2):
        y.fill(0)
        kernel(x, ck.zeros(32 * blocks), y, grid=blocks)
        assert y.tolist() == x[::-1].tolist()


def test_grids_of_many_blocks_do_not_meet_on_the_host() -> None:
    kernel = ck.Kernel(
        """
    #include <cooperative_groups.h>
    __global__ void meet(int* x) { x[0] = 1; cooperative_groups::this_grid().sync(); }
    """,
        block=2,
        plain=True,
    )
    with ck.device("host"):
        kernel(ck.zeros(1, "int32"), grid=8)
        with pytest.raises(
            ck.KernelFault, match=r"grid_group::sync\(\) of more than 8 blocks(?s:.*)<kernel.*>:3"
        ):
            kernel(ck.zeros(1, "int32"), grid=9)


CUB = """
#include <cub/cub.cuh>
struct Minus { __device__ int operator()(int a, int b) const { return a - b; } };
template <int B>
__global__ void sums(const float* x, float* sums, int* scans, int* sorted) {
    using Reduce = cub::BlockReduce<float, B>;
    using Scan = cub::BlockScan<int, B>;
    using Sort = cub::BlockRadixSort<int, B, 2, int>;
    using Beside = cub::BlockAdjacentDifference<int, B>;
    typedef cub::WarpReduce<float> Warp;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
        typename Sort::TempStorage sort;
        typename Beside::TempStorage beside;
    } temp;
    __shared__ typename Warp::TempStorage warps[B / 32];
    const int t = threadIdx.x;
    const float total = Reduce(temp.reduce).Sum(x[t]), first = Warp(warps[t / 32]).Sum(x[t]);
    if (t == 0) sums[0] = total, sums[1] = first;
    __syncthreads();
    int before, all, items[2] = {t, 1}, out[2];
    Scan(temp.scan).ExclusiveSum(t, before, all);
    __syncthreads();
    Scan(temp.scan).InclusiveSum(items, out);
    __syncthreads();
    scans[t] = before, scans[B + t] = all, scans[2 * B + t] = out[1];
    int keys[2] = {(7 * t + 3) % B, -t}, values[2] = {2 * t, 2 * t + 1};
    Sort(temp.sort).Sort(keys, values);
    for (int i = 0; i < 2; ++i) sorted[2 * t + i] = keys[i], sorted[2 * B + 2 * t + i] = values[i];
    __syncthreads();
    int square[2] = {4 * t * t, (2 * t + 1) * (2 * t + 1)}, left[2], right[2];
    Beside(temp.beside).SubtractLeft(square, left, Minus());
    __syncthreads();
    Beside(temp.beside).SubtractRight(square, right, Minus());
    for (int i = 0; i < 2; ++i) sorted[4 * B + 2 * t + i] = left[i], sorted[6 * B + 2 * t + i] = right[i];
}
"""


def test_cub(device: ck.Device, cukern_checked: Callable[[], None]) -> None:
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    sums, scans, ordered = ck.zeros(2), ck.zeros((3, 64), "int32"), ck.zeros((4, 128), "int32")
    ck.Kernel(CUB, block=64, plain=True)["sums<64>"](ck.asarray(x), sums, scans, ordered, grid=1)
    np.testing.assert_allclose(sums.numpy(), [x.sum(), x[:32].sum()], rtol=1e-5, atol=1e-5)
    t = np.arange(64)
    np.testing.assert_array_equal(scans.numpy()[0], np.cumsum(t) - t)
    np.testing.assert_array_equal(scans.numpy()[1:], [np.full(64, t.sum()), np.cumsum(t + 1)])
    keys = np.stack([(7 * t + 3) % 64, -t], 1).reshape(-1)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(ordered.numpy()[:2], [keys[order], order])
    squares = np.arange(128) ** 2
    np.testing.assert_array_equal(ordered.numpy()[2], np.diff(squares, prepend=0))
    np.testing.assert_array_equal(
        ordered.numpy()[3], -np.diff(squares, append=0) * (squares < 127**2) + squares * (squares == 127**2)
    )


def test_functions_that_few_kernels_call(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    __global__ void compute(const float* x, const int* k, float* y, int* m) {
        y[0] = normf(3, x), y[1] = norm4df(x[0], x[1], x[2], 1e30f), y[2] = rnorm3df(x[0], x[1], x[2]);
        const double large[] = {3e200, 4e200};
        y[3] = scalbnf(x[0], 3), y[4] = (float)(norm(2, large) / 5e200);
        m[0] = lrintf(x[3]), m[1] = ilogbf(x[2]), m[2] = __viaddmax_s32(k[0], k[1], k[2]);
        m[3] = (int)__vimin3_s16x2_relu(k[3], k[4], 0x00050006), m[4] = __vimax3_s32(k[0], k[1], k[2]);
    }
    """,
        block=1,
        plain=True,
    )
    y, m = ck.zeros(5), ck.zeros(5, "int32")
    x, k = ck.asarray([1.0, 2, 4, 2.5]), ck.asarray([-5, 2, -4, 0x7FFF0003, -1 << 16 | 9], dtype="int32")
    kernel(x, k, y, m, grid=1)
    np.testing.assert_allclose(y.numpy(), [21**0.5, 1e30, 21**-0.5, 8, 1], rtol=1e-6)
    assert m.tolist() == [2, 2, -3, 3, 2]


def test_small_floats_and_complex_numbers(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    #include <cuda_fp8.h>
    #include <cuComplex.h>
    __global__ void convert(const float* x, unsigned char* four, unsigned char* five, float* back,
                            const cuComplex* by, cuFloatComplex five_ten, cuDoubleComplex* quotient) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const __nv_fp8_e4m3 a(x[i]);
        const __nv_fp8_e5m2 b(x[i]);
        four[i] = a.__x, five[i] = b.__x, back[i] = float(a) + float(b);
        quotient[0] = cuComplexFloatToDouble(cuCdivf(five_ten, *by));
    }
    """,
        block=16,
        plain=True,
    )
    special = [0, -0.0, 448, 464, 465, 57344, 61439, 1e9, np.inf, -np.inf, 2**-9, 2**-10, 2**-10 * 1.01]
    random = np.random.default_rng(0)
    x = np.append(special, random.standard_normal(99) * 10.0 ** random.integers(-4, 4, 99)).astype(np.float32)
    four, five, back = ck.zeros(x.size, "uint8"), ck.zeros(x.size, "uint8"), ck.zeros(x.size)
    quotient = ck.zeros(1, "complex128")
    kernel(ck.asarray(x), four, five, back, ck.asarray([3 + 4j], "complex64"), 5 + 10j, quotient)
    a = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    b = np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2)
    np.testing.assert_array_equal(four.numpy(), a.view(np.uint8))
    np.testing.assert_array_equal(five.numpy(), b.view(np.uint8))
    np.testing.assert_array_equal(back.numpy(), a.astype(np.float32) + b.astype(np.float32))
    np.testing.assert_allclose(quotient.numpy(), [2.2 + 0.4j], rtol=1e-6)


def test_parts_of_an_integer(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    __global__ void parts(const unsigned* a, const unsigned* b, unsigned* out) {
        const int i = threadIdx.x;
        const unsigned x = a[i], y = b[i];
        const unsigned all[] = {__vadd2(x, y), __vsub4(x, y), __vaddss2(x, y), __vsubus4(x, y), __vmaxs2(x, y),
                                __vminu4(x, y), __vabs4(x), __vabsss2(x), __vabsdiffu4(x, y), __vcmpgts2(x, y),
                                __vsetleu4(x, y), __vsadu4(x, y), __vneg2(x), __vavgu4(x, y), __vavgs2(x, y)};
        for (int k = 0; k < 15; ++k) out[15 * i + k] = all[k];
    }
    """,
        block=40,
        plain=True,
    )
    random = np.random.default_rng(0)
    x, y = random.integers(0, 2**32, (2, 40), dtype=np.uint32)
    x[0], y[0] = 0x80007FFF, 0x8000FFFF
    out = ck.zeros((40, 15), "uint32")
    kernel(ck.asarray(x), ck.asarray(y), out, grid=1)

    def by_part(kind: str, wide: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(wide.astype(kind)).view(np.uint32)

    s2, u2, s4, u4 = ([z.view(kind).astype(np.int64) for z in (x, y)] for kind in ("i2", "u2", "i1", "u1"))
    wanted = [
        by_part("u2", u2[0] + u2[1]),
        by_part("u1", u4[0] - u4[1]),
        by_part("i2", np.clip(s2[0] + s2[1], -(2**15), 2**15 - 1)),
        by_part("u1", np.clip(u4[0] - u4[1], 0, None)),
        by_part("i2", np.maximum(*s2)),
        by_part("u1", np.minimum(*u4)),
        by_part("i1", abs(s4[0])),
        by_part("i2", np.minimum(abs(s2[0]), 2**15 - 1)),
        by_part("u1", abs(u4[0] - u4[1])),
        by_part("i2", -(s2[0] > s2[1]).astype(int)),
        by_part("u1", u4[0] <= u4[1]),
        abs(u4[0] - u4[1]).reshape(40, 4).sum(1),
        by_part("i2", -s2[0]),
        by_part("u1", (u4[0] + u4[1] + 1) // 2),
        by_part("i2", np.sign(s2[0] + s2[1]) * ((abs(s2[0] + s2[1]) + 1) // 2)),
    ]
    np.testing.assert_array_equal(out.numpy(), np.stack(wanted, 1))


def test_a_kernel_that_launches_kernels_is_refused_by_name() -> None:
    program = ck.Kernel(
        "__global__ void child(int* x) { *x = 1; }\n__global__ void parent(int* x) { child<<<1, 2>>>(x); }",
        plain=True,
    )
    with pytest.raises(ck.TemplateError, match=r"parent: child<<<1, 2>>>\(x\).*dynamic parallelism"):
        program["parent"](ck.zeros(1, "int32"))
