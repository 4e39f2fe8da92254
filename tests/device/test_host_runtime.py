"""What threads of a block, lanes of a warp and blocks of a grid see on the host."""

from __future__ import annotations

import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest
from host_support import build, kernel, lanes, launch, run

import cukern as ck
from cukern.device.host import compiler as host_compiler
from cukern.device.host import translate as host_source
from cukern.errors import LaunchError
from cukern.text import signature

RNG = np.random.default_rng(3)
BLOCKS = [1, 31, 32, 33, 64, 256, 1000, 1024]
SHAPES = [(4, 4, 4), (3, 5, 7), (1, 1, 64), (32, 32, 1), (2, 33, 2)]


def linear_index(block: tuple[int, int, int]) -> tuple[str, int]:
    return "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)", block[0] * block[1] * block[
        2
    ]


# ---------------------------------------------------------------- threads, blocks, shared memory


@pytest.mark.parametrize("fibers", [False, True])
@pytest.mark.parametrize("block", [(7, 1, 1), *SHAPES])
@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 4, 5), (70, 1, 1)])
def test_builtin_variables(fibers, block, grid):
    index, threads = linear_index(block)
    blocks = grid[0] * grid[1] * grid[2]
    out = np.zeros((blocks, threads, 14), np.uint32)
    wait = "__syncthreads();" if fibers else ""
    body = f"""{wait}
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), t = {index};
    unsigned* o = out + (b * {threads} + t) * 14;
    o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z; o[3] = blockIdx.x; o[4] = blockIdx.y;
    o[5] = blockIdx.z; o[6] = blockDim.x; o[7] = blockDim.y; o[8] = blockDim.z; o[9] = gridDim.x;
    o[10] = gridDim.y; o[11] = gridDim.z; o[12] = warpSize; o[13] += 1;"""
    run("unsigned* out", body, out, grid=grid, block=block)
    bz, by, bx, tz, ty, tx = (
        axis.reshape(blocks, threads) for axis in np.indices((*grid[::-1], *block[::-1])).reshape(6, -1)
    )
    for column, wanted in enumerate([tx, ty, tz, bx, by, bz]):
        np.testing.assert_array_equal(out[..., column], wanted)
    assert (out[..., 6:] == [*block, *grid, 32, 1]).all()


REVERSE = """
    {shared}
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    y[blockIdx.x * blockDim.x + t] = s[blockDim.x - 1 - t];"""


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shared", ["__shared__ double s[1024];", "extern __shared__ double s[];"])
def test_shared_memory_and_barrier(block, shared):
    x = RNG.standard_normal((9, block))
    y = np.zeros_like(x)
    run(
        "const double* x, double* y",
        REVERSE.format(shared=shared),
        x,
        y,
        grid=9,
        block=block,
        shared=8 * block,
    )
    np.testing.assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float rows[][3];",
        "extern __shared__\n __align__(16)\n float rows[][3];",
        "extern __shared__ __align__(16) unsigned char raw[]; float (*rows)[3] = (float (*)[3])raw;",
    ],
)
@pytest.mark.parametrize("at_file_scope", [False, True])
def test_forms_of_dynamic_shared_memory(declaration, at_file_scope):
    if at_file_scope and "(*rows)" in declaration:
        declaration, inside = declaration.split(";", 1)
        declaration += ";\n"
    else:
        inside = ""
    before, body = (declaration + "\n", inside) if at_file_scope else ("", declaration)
    body += (
        "rows[threadIdx.x][2] = threadIdx.x; __syncthreads(); out[threadIdx.x] = rows[7 - threadIdx.x][2];"
    )
    out = np.zeros(8, np.float32)
    launch(kernel("float* out", body, before), [out], 1, 8, 96)
    assert out.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    "declaration",
    [
        "__shared__ __align__(128) int s[32];",
        "__align__(128) __shared__ int s[32];",
        "__shared__ alignas(128) int s[32];",
        "static __shared__ alignas(128) int s[32];",
        "__shared__ alignas(4) alignas(128) int s[32];",
        "/* unlike __shared__ memory */ __shared__ int alignas(128) s[32];",
        "alignas(128) __shared__ int s[32];",
        "volatile __shared__ int __align__(128) s[32];",
    ],
)
def test_forms_of_aligned_shared_memory(declaration):
    odd = "__shared__ char first[3]; first[threadIdx.x % 3] = 1;"
    before = f"{odd} {declaration} s[t] = t + (unsigned long long)s % 128; __syncthreads();"
    assert lanes("s[31 - t]", "int", np.int32, before=before).tolist() == list(range(31, -1, -1))


def test_alignments_beside_comments_and_text_stay_where_they_are():
    before = """// faster than __shared__ memory
    struct alignas(16) Three { float v[3]; };
    const char text[] = "__shared__ alignas(16)";
    """
    assert lanes("sizeof(Three) * 100 + text[0]", "int", np.int32, before=before).tolist() == [1695] * 32


def test_more_static_shared_memory_than_cuda_allows_is_refused():
    body = "__shared__ float s[{}]; s[threadIdx.x] = 1; __syncthreads(); x[0] = s[0];"
    run("float* x", body.format(12288), np.zeros(1, np.float32), block=32)
    with pytest.raises(LaunchError, match=r"49156 bytes of static __shared__ memory.* 49152.*shared="):
        run("float* x", body.format(12289), np.zeros(1, np.float32), block=32)


def test_dynamic_shared_memory_at_its_limit():
    out = np.zeros(1, np.int64)
    body = (
        "extern __shared__ char s[]; s[232447] = 5; out[0] = ((unsigned long long)s % 128) * 100 + s[232447];"
    )
    run("long long* out", body, out, shared=232448)
    assert out[0] == 5


def test_rewriting_keeps_the_line_numbers():
    text = kernel("float* out", "extern\n__shared__ float s[];\nout[0] = __LINE__;")
    out = np.zeros(1, np.float32)
    launch(text, [out], shared=4)
    assert out[0] == text.split("\n").index("out[0] = __LINE__;")


@pytest.mark.parametrize("block", BLOCKS)
def test_threads_that_return_before_a_barrier_are_not_waited_for(block):
    out = np.zeros(block, np.int32)
    body = """
    __shared__ int count;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    __syncthreads();
    if (t % 3 == 2) return;
    atomicAdd(&count, 1);
    __syncthreads();
    if (t % 3 == 1) { out[t] = -1; return; }
    out[t] = __syncthreads_count(t % 2);"""
    run("int* out", body, out, block=block)
    threads = np.arange(block)
    last = threads[threads % 3 == 0]
    wanted = np.where(threads % 3 == 0, (last % 2).sum(), np.where(threads % 3 == 1, -1, 0))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("block", [1, 33, 256])
def test_barriers_that_vote(block):
    out = np.zeros((block, 5), np.int32)
    body = """
    int t = threadIdx.x, n = blockDim.x;
    int* o = out + 5 * t;
    o[0] = __syncthreads_count(t % 3 == 0); o[1] = __syncthreads_and(t < n); o[2] = __syncthreads_and(t > 0);
    o[3] = __syncthreads_or(t == n - 1); o[4] = __syncthreads_or(t < 0);"""
    run("int* out", body, out, block=block)
    assert (out == [-(-block // 3), 1, 0, 1, 0]).all()


def test_a_barrier_in_a_helper_and_in_a_loop():
    before = """
template <int n>
__device__ __forceinline__ float block_sum(float x, float* s) {
    s[threadIdx.x] = x;
    for (int k = n / 2; k > 0; k /= 2) {
        __syncthreads();
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    }
    __syncthreads();
    return s[0];
}
"""
    x = RNG.standard_normal(256).astype(np.float32)
    out = np.zeros(256, np.float32)
    body = "__shared__ float s[256]; out[threadIdx.x] = block_sum<256>(x[threadIdx.x], s);"
    launch(kernel("const float* x, float* out", body, before), [x, out], 1, 256)
    np.testing.assert_allclose(out, x.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- types and parameters


def test_sizes_and_alignments_of_vector_types_are_cuda_s():
    sizes = {
        "char1": (1, 1), "char2": (2, 2), "char3": (3, 1), "char4": (4, 4), "uchar4": (4, 4),
        "short2": (4, 4), "short3": (6, 2), "ushort4": (8, 8), "int2": (8, 8), "int3": (12, 4), "int4": (16, 16),
        "uint4": (16, 16), "longlong2": (16, 16), "ulonglong4": (32, 16), "float1": (4, 4), "float2": (8, 8),
        "float3": (12, 4), "float4": (16, 16), "double2": (16, 16), "double3": (24, 8), "double4": (32, 16),
        "dim3": (12, 4), "uint3": (12, 4),
    }  # fmt: skip
    out = np.zeros((len(sizes), 2), np.int32)
    body = "".join(
        f"out[{2 * i}] = sizeof({t}); out[{2 * i + 1}] = alignof({t});" for i, t in enumerate(sizes)
    )
    run("int* out", body, out)
    assert dict(zip(sizes, map(tuple, out.tolist()), strict=True)) == sizes


def test_vector_loads_and_cached_loads():
    x = RNG.standard_normal(64).astype(np.float32)
    y = np.zeros_like(x)
    body = """
    float4 v = __ldg(reinterpret_cast<const float4*>(x) + threadIdx.x);
    __stcg(reinterpret_cast<float4*>(y) + threadIdx.x, make_float4(v.w, v.z, v.y, __ldcs(x + 4 * threadIdx.x)));"""
    run("const float* __restrict__ x, float* __restrict__ y", body, x, y, block=16)
    np.testing.assert_array_equal(y, x.reshape(16, 4)[:, ::-1].ravel())


def test_every_kind_of_parameter():
    types = "struct Pair { double a; int b; }; template <class T, int N> struct View { T* data; long long shape[N], strides[N]; };\n"
    parameters = """bool a, signed char b, short c, int d, long long e, unsigned char f, unsigned short g, unsigned h,
        unsigned long long i, float j, double k, __half l, __nv_bfloat16 m, const Pair n, View<const short, 2> v,
        const float* absent, double* out"""
    body = """
    double numbers[] = {(double)a, (double)b, (double)c, (double)d, (double)e, (double)f, (double)g, (double)h,
        (double)i, j, k, (float)l, (float)m, n.a, (double)n.b, (double)v.data[v.strides[0] + v.strides[1]],
        (double)v.shape[0], (double)v.shape[1], (double)v.strides[0], (double)v.strides[1], (double)(absent == nullptr)};
    for (int q = 0; q < 21; ++q) out[q] = numbers[q];"""
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + types
    view = np.arange(60, dtype=np.int16).reshape(6, 10)[::-2, ::3]
    pair = struct.pack("di4x", 2.5, -7)
    out = np.zeros(21)
    values = [True, -128, -30000, -(2**31), -(2**63), 255, 65535, 2**32 - 1, 2**63, 0.1, 0.1, 0.1, 0.1]
    launch(kernel(parameters, body, before), [*values, pair, view, None, out])
    floats = [np.float32(0.1), 0.1, np.float16(0.1), ml_dtypes.bfloat16(0.1)]
    wanted = [float(v) for v in [*values[:9], *floats]] + [2.5, -7, view[1, 1], 3, 4, -20, 3, 1]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("ctype", ["float", "__half", "__nv_bfloat16"])
def test_a_scalar_beyond_the_type_is_infinite(ctype):
    out = np.zeros(1)
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    launch(kernel(f"{ctype} a, double* out", "out[0] = (float)a;", before), [-1e300, out])
    assert out[0] == -np.inf


def test_a_parameter_changed_by_one_thread_is_not_changed_for_the_next():
    out = np.zeros(64, np.int32)
    run(
        "int n, int* out",
        "n += threadIdx.x; out += blockIdx.x * 8; out[threadIdx.x] = n;",
        5,
        out,
        grid=8,
        block=8,
    )
    assert (out.reshape(8, 8) == 5 + np.arange(8)).all()


def test_a_struct_of_another_size_is_refused():
    text = kernel("Pair p, double* out", "out[0] = p.a;", "struct Pair { double a, b; };\n")
    with pytest.raises(LaunchError, match=r"parameter p: Pair has 16 bytes, got 12"):
        launch(text, [b"x" * 12, np.zeros(1)])


def test_ways_to_declare_a_device_function():
    before = """
__device__ __forceinline__ inline int a(int x) { return x + 1; }
static inline __device__ __forceinline__ int b(int x) { return a(x) + 1; }
__host__ __device__ __noinline__ int c(int x) { return b(x) + 1; }
namespace deep { template <class T> __forceinline__ __device__ T d(T x) { return c(x) + T(1); } }
__constant__ int table[2] = {10, 20};
__device__ int calls = 0;
"""
    text = kernel("int* out", "out[0] = deep::d(table[1]); out[1] = atomicAdd(&calls, 1);", before)
    out = np.zeros(2, np.int32)
    for launches in range(3):
        launch(text, [out])
        assert out.tolist() == [24, launches]


def test_includes_that_cuda_code_has():
    before = "".join(
        f"#include <{name}>\n"
        for name in [
            "cuda_fp16.h",
            "cuda_bf16.h",
            "cuda_runtime.h",
            "math.h",
            "stdint.h",
            "stddef.h",
            "assert.h",
            "limits.h",
            "float.h",
            "stdio.h",
        ]
    )
    out = np.zeros(1)
    launch(
        kernel(
            "double* out", "uint8_t x = 255; out[0] = sqrtf(4.0f) + x + INT_MAX; assert(out[0] > 0);", before
        ),
        [out],
    )
    assert out[0] == 2 + 255 + 2**31 - 1


# ---------------------------------------------------------------- launches


def test_constants_of_cuda_s_header_and_assumptions():
    text = "#include <math_constants.h>\n#include <vector_functions.h>\n"
    text += kernel("double* x", "__builtin_assume(x != 0); x[0] = CUDART_PI; x[1] = CUDART_INF_F;")
    out = np.zeros(2)
    launch(text, [out])
    assert out.tolist() == [np.pi, np.inf]


def test_attributes_know_the_static_shared_memory():
    text = kernel(
        "float* x",
        "__shared__ float s[1000]; __shared__ double d; s[threadIdx.x] = *x; __syncthreads(); d = s[0]; *x = d;",
    )
    attributes = build(text).attributes
    assert attributes["shared_size_bytes"] == 4008
    assert attributes["max_threads_per_block"] == 1024


def test_printf_comes_out_when_the_launch_ends(capfd):
    run("int n", 'if (threadIdx.x == 2) printf("thread %u of %d\\n", threadIdx.x, n);', 4, block=4)
    assert capfd.readouterr().out == "thread 2 of 4\n"


INDICES = [
    "int i = (int)blockIdx.x * 256 + (int)threadIdx.x;",
    "long long i = (long long)blockIdx.x * 256 + (long long)threadIdx.x;",
    "int i = blockIdx.x * blockDim.x + threadIdx.x;",
    "const int i = threadIdx.x + 256 * (blockIdx.x);",
]


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("formula", ["a * x[i] + 1.0f", "exp(x[i]) + tanh(a * x[i])", "fmax(x[i], a)"])
def test_a_loop_over_threads_is_vectorised(tmp_path, index, formula):
    text = kernel(
        "const float* x, float* y, float a, int n", f"{index}\nif (i >= n) return;\ny[i] = {formula};"
    )
    assert "loop vectorized" in vectorised_loops(text, tmp_path)


def vectorised_loops(text, folder):
    """What GCC says of the loops of a kernel that it vectorised."""
    compiler = host_compiler.compiler()
    if not compiler.is_gcc:
        pytest.skip("only GCC says which loops it vectorised")
    command = [*compiler.kernel_command(folder / "kernel.so"), "-fopt-info-vec-optimized"]
    text = host_source.source(signature.parse(text))
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0
    return done.stderr


@pytest.mark.parametrize("function", [ck.relu, lambda x: ck.clip(x, -1.0, 1.0)], ids=["relu", "clip"])
def test_the_largest_of_choices_are_vectorised(tmp_path, function):
    text = ck.fuse(lambda x: function(x).max(axis=1)).source(ck.ones((16, 1024), device="host"))
    # It is the only loop that reads an array beside the states.
    assert "versioned for vectorization because of possible aliasing" in vectorised_loops(text, tmp_path)


def test_an_int_index_is_computed_as_int_and_nothing_else_is():
    body = """
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = threadIdx.y;
    unsigned k = blockIdx.x * 4 + threadIdx.x;
    int l = threadIdx.x - blockIdx.x, m = n * threadIdx.x, o = 2u * threadIdx.x;
    out[0] = i + j + k + l + m + o;"""
    text = host_source.source(signature.parse(kernel("int* out, int n", body)))
    assert "int i = (int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x, j = (int)threadIdx.y;" in text
    assert "unsigned k = blockIdx.x * 4 + threadIdx.x;" in text
    assert "int l = threadIdx.x - blockIdx.x, m = n * threadIdx.x, o = 2u * threadIdx.x;" in text
