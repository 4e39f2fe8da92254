"""Files as their projects have them: bindings of other libraries, headers of the host, names of the C++ library."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device import nvrtc
from cukern.errors import DeviceError
from cukern.text.host_macros import without_host_macros


def compiles(kernel: ck.Kernel) -> None:
    """Compile a kernel by NVRTC too, where it is installed."""
    try:
        nvrtc.toolkit()
    except DeviceError:
        return
    kernel.ptx()


def launched(text: str, entry: str | None, *args: Any, **options: Any) -> None:
    """Launch one block of a kernel on the current device."""
    kernel = ck.Kernel(text, block=4, plain=True)
    kernel = kernel if entry is None else kernel[entry]
    compiles(kernel)
    kernel(*args, grid=1, **options)


BINDINGS = """
#include <torch/extension.h>
#include <GL/gl.h>
#include <cuda/barrier>
#include <mma.h>
using namespace nvcuda;
#define CHECK(x) TORCH_CHECK(x.is_cuda(), #x " must be on a GPU")
#define BIND(name) PYBIND11_MODULE(name, m)
template <typename scalar_t, // of the tensor, any
          int times /* how often, at least 1 */ = 2>
C10_LAUNCH_BOUNDS_1(256)
__global__ void scale(scalar_t* x, /* out */
                      float by) { // in place
    x[threadIdx.x] *= by * times;
}
REGISTER(scale)
template __global__ void scale<float>(float*, float);
extern "C" __global__ void C10_LAUNCH_BOUNDS_2(256, (4)) first(float* x) { x[threadIdx.x] = 1; }
extern "C" __global__ void second(float* x) { x[threadIdx.x] = 2; }
extern "C" __global__ void third(float* x) { x[threadIdx.x] = 3; }
at::Tensor forward(at::Tensor x) {
    CHECK(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "forward", ([&] {
        scale<scalar_t><<<1, 32>>>(x.data_ptr<scalar_t>(), 2);
    }));
    return x;
}
BENCHMARK(forward)->Range(1, 2);
TORCH_LIBRARY(ours, m) {
    m.def("forward(Tensor x) -> Tensor", &forward);
}
BIND(TORCH_EXTENSION_NAME) { m.def("forward", &forward); }
"""


def test_bindings_are_left_out(device: ck.Device) -> None:
    x = ck.ones(4)
    launched(BINDINGS, "scale<float>", x, 3.0)
    assert x.tolist() == [6.0] * 4
    for value, name in enumerate(("first", "second", "third"), 1):
        launched(BINDINGS, name, x)
        assert x.tolist() == [value] * 4


def test_what_is_left_out_is_named() -> None:
    wrong = BINDINGS.replace("= 3;", "= forward(3);")
    line = 1 + wrong[: wrong.index("forward(3)")].count("\n")
    with ck.device("host"), pytest.raises(ck.CompileError, match=rf":{line}:.*forward") as error:
        ck.Kernel(wrong, plain=True)["third"].bind()
    outer, inner = re.findall("^Left out, as no code of kernels: (.*)$", str(error.value), re.MULTILINE)
    macros = "C10_LAUNCH_BOUNDS_1, REGISTER, C10_LAUNCH_BOUNDS_2, BENCHMARK, TORCH_LIBRARY, BIND"
    assert outer == f"<torch/extension.h>, <GL/gl.h>, {macros}"
    assert inner == "<cuda/barrier>, <mma.h>, forward"


SHARED = """
#define SHARED(T, name) extern __shared__ T name##_bytes[]
#define DYNAMIC extern __shared__
__global__ void whole(float* x) {
    SHARED(float, s);
    s_bytes[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s_bytes[3 - threadIdx.x];
}
__global__ void head(float* x) {
    DYNAMIC float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[3 - threadIdx.x];
}
"""


@pytest.mark.parametrize("entry", ["whole", "head"])
def test_dynamic_shared_memory_of_macros(device: ck.Device, entry: str) -> None:
    x = ck.arange(4, dtype="float32")
    launched(SHARED, entry, x, shared=16)
    assert x.tolist() == [3, 2, 1, 0]


def test_long_messages_of_templates() -> None:
    text = """
template <int... n> struct Numbers {};
template <class T, class U> __device__ T f(T x, U) { return x.none; }
__global__ void g(float* x) { x[0] = f(x[0], Numbers<NUMBERS>()); }
""".replace("NUMBERS", ", ".join(map(str, range(300))))
    with ck.device("host"), pytest.raises(ck.CompileError, match="line 3:"):
        ck.Kernel(text, plain=True).bind()


CONSTANTS = """
#include <cuda_awbarrier_primitives.h>
#include <cuda_fp6.h>
#include <device_functions.h>
#include <sm_60_atomic_functions.h>
#if CUDART_VERSION < 12000 || __CUDACC_VER_MAJOR__ < 12 || CUDA_VERSION < 12000
#error these are of CUDA 12
#endif
__global__ void g(double* x) {
    const double all[] = {
        INFINITY, -NAN, FLT_MAX, M_PI, INT_MAX, CUDART_INF_F, CUDART_PI, CUDART_ONE, CUDART_MIN_DENORM,
        LONG_MIN, FLT_DIG
    };
    for (int i = 0; i < sizeof(all) / 8; ++i) x[i] = all[i];
}
"""


def test_constants_and_versions(device: ck.Device) -> None:
    x = ck.zeros(11, "float64")
    launched(CONSTANTS, None, x)
    pi, least, long_min = np.pi, 5e-324, -(2.0**63)
    wanted = [np.inf, np.nan, np.finfo("f4").max, pi, 2**31 - 1, np.inf, pi, 1, least, long_min, 6]
    np.testing.assert_array_equal(x.numpy(), wanted)


STD = """
#include <algorithm>
#include <type_traits>
#include <cuda/std/limits>
using namespace std;
template <typename T, typename = std::enable_if_t<std::is_floating_point<T>::value>>
__device__ T twice(T x) { return x * std::conditional_t<std::is_same_v<T, float>, int, long>(2); }
template <typename T> __global__ void g(T* x) {
    std::array<T, 3> a{};
    a[1] = std::max<T>(x[1], 7) + std::exp(T(0)) + std::abs(T(-1)) + min(x[2], x[3]);
    T moved = std::move(a[1]);
    std::swap(moved, x[0]);
    x[1] = twice(x[1]);
    x[2] = std::numeric_limits<T>::max();
    x[3] = -cuda::std::numeric_limits<T>::infinity() + moved;
}
template <typename T> __global__ void traits(int* out, size_t n) {
    const auto whole = [](T x) { return (int)x; };
    const bool all[] = {
        std::is_convertible_v<int, T>, !std::is_convertible<T*, T>::value, std::is_array_v<T[3]>,
        std::is_lvalue_reference_v<T&>, !std::is_rvalue_reference_v<T&>, std::is_rvalue_reference_v<T&&>,
        std::is_same_v<std::invoke_result_t<decltype(whole), T>, int>, std::is_constructible_v<T, int>,
        std::conjunction_v<std::is_scalar<T>, std::negation<std::is_empty<T>>>, !std::disjunction_v<std::is_union<T>>,
        std::numeric_limits<T>::is_iec559, !std::numeric_limits<int>::is_iec559,
        sizeof(std::aligned_storage_t<sizeof(T), 16>) == 16,
    };
    out[0] = n;
    for (bool one : all) out[0] -= one;
}
"""


@pytest.mark.parametrize("elem", ["float", "double"])
def test_names_of_the_standard_library(device: ck.Device, elem: str) -> None:
    dtype = {"float": "float32", "double": "float64"}[elem]
    x = ck.arange(4, dtype=dtype)
    launched(STD, f"g<{elem}>", x, block=1)
    assert x.tolist() == [11, 2, np.finfo(dtype).max, -np.inf]
    left = ck.ones(1, "int32")
    launched(STD, f"traits<{elem}>", left, 13, block=1)
    assert left.tolist() == [0]


def test_what_a_build_gives_its_compiler(device: ck.Device, tmp_path: Path) -> None:
    (tmp_path / "ours" / "more").mkdir(parents=True)
    (tmp_path / "ours" / "more" / "scale.h").write_text("#pragma once\n#define SCALE 10\n")
    (tmp_path / "program.cu").write_text("""
#include <more/scale.h>
#include "more/scale.h"
#if !defined(TIMES) || __cplusplus < 202002L
#error the build gives these
#endif
template <typename T> concept Small = sizeof(T) <= 4;
EMPTY __global__ __launch_bounds__(128) void NAME(f)(float* x) {
    if constexpr (Small<float>) x[threadIdx.x] = TIMES(SCALE) + __cplusplus / 100000;
}
""")
    defines = {"TIMES(x)": "(2 * (x))", "EMPTY": None, "NAME(x)": "made_##x"}
    build: dict[str, Any] = {"defines": defines, "include": tmp_path / "ours", "std": "c++20"}
    kernel = ck.Kernel(tmp_path / "program.cu", block=4, plain=True, **build)
    x = ck.zeros(4)
    compiles(kernel)
    pickle.loads(pickle.dumps(kernel))(x, grid=1)
    assert x.tolist() == [22] * 4


def test_files_that_are_included_again(device: ck.Device, tmp_path: Path) -> None:
    """One without a guard is there each time; one that is there once stands in each branch of the compiler's."""
    (tmp_path / "numbers.def").write_text("X(first, 1)\nX(second, 20)\n")
    (tmp_path / "once.h").write_text("#pragma once\n__device__ int added(int n) { return n + 300; }\n")
    (tmp_path / "guarded.h").write_text(
        "#ifndef GUARDED\n#define GUARDED\n__device__ int more(int n) { return n + 4000; }\n#endif\n"
    )
    (tmp_path / "endless.h").write_text('#include "endless.h"\n')
    (tmp_path / "program.cu").write_text("""
#define X(name, value) __device__ int name() { return value; }
#include "numbers.def"
#undef X
#define X(name, value) of_##name = value,
enum Numbers {
#include "numbers.def"
};
#ifdef __SOMETHING_OF_A_COMPILER
#include "once.h"
#include "guarded.h"
#endif
#include "once.h"
#include "guarded.h"
__global__ void f(int* x) { x[threadIdx.x] = more(added(first() + of_second)); }
""")
    kernel = ck.Kernel(tmp_path / "program.cu", block=2, plain=True)
    x = ck.zeros(2, ck.int32)
    compiles(kernel)
    kernel(x, grid=1)
    assert x.tolist() == [4321] * 2
    with pytest.raises(
        ck.TemplateError, match="expected at most 200 files, each in another, got more: endless"
    ):
        ck.Kernel('#include "endless.h"', plain=True, include=tmp_path).source()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        ({"defines": ["N"]}, TypeError, "defines: expected a dict from names of macros to values"),
        ({"defines": {"N 4": 1}}, ValueError, "defines: expected names of macros, got 'N 4'"),
        ({"include": "/none"}, NotADirectoryError, "include: expected an existing folder, got /none"),
        ({"std": "c++11"}, ValueError, r"std: expected 'c\+\+17' or 'c\+\+20', got 'c\+\+11'"),
    ],
)
def test_builds_that_are_refused(build: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ck.Kernel("__global__ void f() {}", plain=True, **build)


MADE = """
#define KERNEL(name) extern "C" __global__ void name
#define MAKE(T, op, name) \\
    __global__ void name##_##T(T* x) { \\
        x[threadIdx.x] = x[threadIdx.x] op 2; /* of all */ \\
    }
#define BOTH(name, op) MAKE(float, op, name) \\
    MAKE(int, op, name)
#define PLAIN_NAME extern "C" __global__ void
KERNEL(first)(float* x) { x[threadIdx.x] = 1; }
BOTH(times,
     *)
PLAIN_NAME last(float* x) { x[threadIdx.x] = 7; }
__global__ void wrong(float* x) { x[0] = nothing; }
"""


def test_kernels_that_macros_make(device: ck.Device) -> None:
    x, numbers = ck.zeros(4), ck.arange(4, dtype="int32")
    for entry, wanted in (("first", 1), ("times_float", 2), ("last", 7)):
        launched(MADE, entry, x)
        assert x.tolist() == [wanted] * 4
    launched(MADE, "times_int", numbers)
    assert numbers.tolist() == [0, 2, 4, 6]
    line = 1 + MADE[: MADE.index("nothing")].count("\n")
    with ck.device("host"), pytest.raises(ck.CompileError, match=rf"{line}\W.*nothing"):
        ck.Kernel(MADE, plain=True)["wrong"].bind()


HALF = """
#include "cuda_fp16.h"
__global__ void g(const __half* x, __half* out, float2* two, float4* four, unsigned* masks) {
    const __half2 a = __halves2half2(x[0], x[1]), b = {x[2], x[3]};
    out[0] = __hadd_sat(x[1], x[2]), out[1] = __hsub_sat(x[1], x[2]), out[2] = __hfma_relu(x[1], x[2], x[2]);
    out[3] = __hcmadd(__half2(x[1], x[2]), b, b).x, out[4] = __hgtu(x[3], x[0]), out[5] = __hne(x[3], x[3]);
    out[6] = __highs2half2(a, b).x, out[7] = CUDART_ONE_FP16;
    masks[0] = __hlt2_mask(a, b), masks[1] = __hbeq2(a, a), masks[2] = __half2short_rz(x[2]);
    atomicAdd(two, make_float2(1, 2));
    atomicAdd(four, make_float4(1, 2, 3, 4));
    cudaGridDependencySynchronize();
}
__global__ void __maxnreg__(64) few(float* x) { x[threadIdx.x] = 3; }
template <class T> __global__ void __maxnreg__(64) several(T* x) { x[threadIdx.x] = 4; }
"""


def test_more_of_half_and_of_vectors(device: ck.Device) -> None:
    x = ck.asarray([0.0, 0.5, -2.5, float("nan")], "float16")
    out, sums, masks = ck.zeros(8, "float16"), ck.ones(8), ck.zeros(3, "int32")
    two, four, unsigned = sums[:2], sums[4:], ck.asarray(masks.numpy().view("uint32"))
    launched(HALF, "g", x, out, two, four, unsigned, block=1)
    # The second factor's imaginary part is NaN, and so is what it is multiplied by.
    np.testing.assert_array_equal(out.numpy(), np.array([0, 1, 0, np.nan, 1, 0, 0.5, 1], "float16"))
    assert (two.tolist(), four.tolist()) == ([2, 3], [2, 3, 4, 5])
    assert unsigned.tolist() == [0, 1, 2**32 - 2]
    y = ck.zeros(4)
    launched(HALF, "few", y)
    assert y.tolist() == [3] * 4
    launched(HALF, "several<float>", y)
    assert y.tolist() == [4] * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "__global__ void g(float* x) {}\n__global__ void g(double* x) {}",
            r"^g: expected one .* of this name, found 2, in line 1 of <kernel.*> and line 2 of .*"
            r'kernel\["g\(float\*\)"\]',
        ),
        (
            "\n__global__ void NAME(g)(int* x) {}",
            '^NAME, in line 2 of <kernel.*>, is no word .*defines={"NAME": ""}',
        ),
        ("ATTRIBUTE __global__ void g(int* x) {}", "^ATTRIBUTE, in line 1 of .* as in include=folder"),
        ("__global__ void LIKELY g(int* x) {}", "^LIKELY, in line 1 of"),
        (
            "/* no */ GLOBAL void g(int* x) {}",
            "found none.*; GLOBAL, in line 1 of <kernel.* as in defines=",
        ),
        ("KERNEL(g) { x[0] = 1; }", "found none; Left out, as no code of kernels: KERNEL"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ck.TemplateError, match=message):
        ck.Kernel(text, plain=True).source()


OVERLOADS = """
#define EXPORT(T) template void on_host<T>(T);
template <class T> T on_host(T x) { return x; }
EXPORT(float)
EXPORT(int)
template <class T>
#if defined(__CUDACC__) || defined(__HIPCC__)
__host__ __device__
#endif
T twice(T x) { return x + x; }
__device__ int2 __shfl_down(int2 x, int) { return x; }
__global__ void f(float *__restrict__ x, const int n) { x[threadIdx.x] = twice(n); }
__global__ void f(int* x, /* so many */ int n = 1) { x[threadIdx.x] = __shfl_down(int2{n, n}, 1).x; }
"""


def test_overloads_of_templates_are_chosen_by_types() -> None:
    kernel = ck.Kernel(
        """
template <class T> __global__ void g(T* x) {}
template <class T, int n = 2> __global__ void g(T* x, int many) { x[0] = n; }""",
        plain=True,
    )
    known = r'kernel\["g<float>\(float\*\)"\] or kernel\["g<float>\(float\*, int\)"\]'
    for entry, found in (("g<float>", "2"), ("g<float>(int*)", "none")):
        with pytest.raises(
            ck.TemplateError, match=rf"^g: expected one .*, found {found}, in line 2 .*{known}"
        ):
            kernel[entry].source()
    assert "::g<float, 2>(x, many)" in kernel["g<float>(float*, int)"].source()


def test_a_macro_before_what_is_missing_is_named() -> None:
    text = "EXPORTED float f(float x) { return x; }\n__global__ void g(float* x) { x[0] = f(2); }"
    with ck.device("host"), pytest.raises(ck.CompileError, match=r"(?m)^EXPORTED, in line 1 of .* defines="):
        ck.Kernel(text, plain=True).bind()


def test_overloads_are_chosen_by_types(device: ck.Device) -> None:
    x, numbers = ck.zeros(4), ck.zeros(4, "int32")
    launched(OVERLOADS, "f(float*,const int)", x, 3)
    launched(OVERLOADS, "f(int *, int)", numbers, 5)
    assert (x.tolist(), numbers.tolist()) == ([6] * 4, [5] * 4)


def test_limits_of_the_host_are_those_of_a_gpu() -> None:
    kernel = ck.Kernel("__global__ void g() {}", plain=True)
    said = (
        "grid.y is 70000, and the host, with the limits of a GPU, takes 65535 at most, and 2147483647 along x"
    )
    with ck.device("host"), pytest.raises(ck.LaunchError, match=said):
        kernel(grid=(1, 70000))


TEMPLATE = """
#include <cmath>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <algorithm>
extern "C" __global__ void << name >>(<< elem >>* x) {
    const uint32_t all = INT_MAX;
    x[0] = INFINITY, x[1] = -FLT_MAX, x[2] = M_PI, x[3] = std::min(x[4], x[5]), x[4] = all, x[5] = CUDART_PI_F;
}
"""


def test_headers_in_templates(device: ck.Device) -> None:
    kernel = ck.Kernel(TEMPLATE, block=1)
    x = ck.arange(6, dtype="float64")
    compiles(ck.Kernel(TEMPLATE, block=1, elem="float64"))
    kernel(x, grid=1)
    wanted = [np.inf, -np.finfo("f4").max, np.pi, 4, 2.0**31 - 1, np.float32(np.pi)]
    np.testing.assert_array_equal(x.numpy(), wanted)


FORMS = """
#define KEEP(x) __device__ int x() { return 1; }
KEEP(a)
REGISTER_IT(forward);
namespace q { FIRST(a); SECOND(b)
THIRD(x)
__global__ void f(float* x) { g(x); foo(y); }
int A::A(int) { h(2); }
foo_t (*pointer)(int);
}
extern "C" void on_host(int n) {
    launched(n);
    for (;;) { checked(n); }
}
extern "C" {
REGISTER_GLOBAL("x")
.set_body([](int a) { f("}", a); });
    # define MORE(x) \\
      x
}
static_assert(sizeof(int) == 4);
S v(1);
ATTRIBUTE(2) __device__ float h() { return 1; }
"""


OWN_MACROS = """
#define HD __host__ __device__
#define FUNCTION(n) HD float n(float x) { return x; }
#define TRAIT(T) template <> struct Trait<T> { static constexpr int v = 1; };
#define NUMBER(n) constexpr int n(int x) { return x; }
#define LAMBDA(n) auto n = [](float x) { return x; };
#define LAUNCH(T) void launch_##T(T* x) { k<T><<<1, 32>>>(x); }
#define WRAP(T) void wrap_##T(T x) { on_host(x); }
#define REGISTER(T) static int known_##T = known(#T);
FUNCTION(f)
TRAIT(int)
LAUNCH(float)
WRAP(int)
NUMBER(n)
WRAP(float);
LAMBDA(l)
REGISTER(int)
"""


def test_macros_of_a_text_that_make_code_of_the_host_are_left_out() -> None:
    assert without_host_macros(OWN_MACROS)[1] == ["LAUNCH", "WRAP", "REGISTER"]


def test_only_macros_of_others_are_left_out() -> None:
    text, names = without_host_macros(FORMS)
    assert names == ["REGISTER_IT", "FIRST", "SECOND", "THIRD", "REGISTER_GLOBAL", "ATTRIBUTE"]
    kept = re.sub(
        r'REGISTER_IT\(.*\);|(FIRST|SECOND|THIRD)\(\w\);?|REGISTER_GLOBAL\("x"\)|\.set_body.*;|ATTRIBUTE\(2\)',
        "",
        FORMS,
    )
    assert text.split() == kept.split()
    assert text.count("\n") == FORMS.count("\n")
    torn = "#if __CUDA_ARCH__ > 800\nvoid f() {\n#else\nvoid g() {\n#endif\n}\nUNKNOWN(x);"
    assert without_host_macros(torn) == (torn, [])


def test_what_a_program_declares_for_its_host(device: ck.Device) -> None:
    """Names that are brought from a namespace, functions that a macro makes, members, and what conditions have."""
    program = ck.Kernel(
        """
    #include <torch/types.h>
    #ifndef __has_cpp_attribute
    #define __has_cpp_attribute(x) 0
    #endif
    struct Table {
        float* keys;
        __host__ void insert(const float* keys, int count);
        __host__ __device__ float first() const { return keys[0]; }
        void erase(int at);
        float last() const;
    };
    inline char brace() { return '{'; }
    typedef unsigned char uint;  // not as headers have it
    __device__ float Table::last() const { return keys[uint(256)]; }
    void Table::insert(const float*, int) {}
    namespace own {
    __global__ void turn(const float* x, float* y) {
    #if __CUDA_ARCH__ >= 700
        extern __shared__ float held[];
        held[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        const Table table{held + blockDim.x - 1 - threadIdx.x};
        y[threadIdx.x] = (table.first() + table.last()) / 2;
    #endif
    }
    void run(float* x) { turn<<<1, 32>>>(x, x); }
    }
    #define BINDING(name, type)                       \\
        void name(torch::Tensor x) {                  \\
            own::turn<<<1, 32>>>((type*)x.data_ptr(), (type*)x.data_ptr()); \\
        }
    BINDING(turn_floats, float)
    BINDING(turn_halves, half)
    using own::run;
    """,
        plain=True,
    )
    text = program["own::turn"].source().partition("// Left out")[0]
    assert "insert" not in text and "erase" not in text
    x, y = ck.arange(32, dtype="float32"), ck.zeros(32)
    program["own::turn"](x, y, grid=1, block=32, shared=128)
    assert y.tolist() == x.tolist()[::-1]


NARROWED = """
#include <cuda_fp16.h>
__constant__ signed char kept[] = {0xff, 1};
__global__ void g(float* x, const __half2* h) {
    int masks[] = {0xffffffff};
    __half2 a = h[0];
    a += h[1], a *= h[1];
    x[0] = kept[0], x[1] = masks[0], x[2] = __low2float(a), x[3] = (h[0] < h[1]) + 2 * (h[0] != h[2]);
    a = __hmax2_nan(h[2], __float2half2_rn(NAN)), x[4] = __hisnan(a.x), x[5] = __half2char_rz(__float2half(-300.5f));
    x[6] = __half2uchar_rz(__float2half(2.5f));
}
"""


def test_numbers_that_do_not_fit_and_operators_of_pairs(device: ck.Device) -> None:
    x, h = ck.zeros(7), ck.asarray([1.0, 2.0, 3.0, 4.0, 1.0, 0.0], "float16")
    launched(NARROWED, None, x, h, block=1)
    assert x.tolist() == [-1, -1, 12, 1, 1, -128, 2]


#: Bodies of kernels that end with a macro.
ENDED = """
#define SET(i, value) x[i] = (value);
#define DONE return;
__global__ void whole(float* x) {
    const char* brace = "}";
    SET(threadIdx.x, sizeof(brace) / 4)  // of all }
}
__global__ void two(float* x) { if (threadIdx.x == 0) SET(0, 3) DONE }
int main() { DONE }
"""


def test_macros_that_stand_for_parameters_and_statements(device: ck.Device) -> None:
    text = """\ufeff#define SIZES int n, \\
    int scale  /* of each */
#define n_of(x) n
__global__ void g(float* x, SIZES) { x[threadIdx.x] = n_of(x) * scale; }
#define ALL float* x, int n
template <int times> __global__ void h( ALL ) { x[threadIdx.x] = n * times; }
__global__ void wrong(float* x, int) { nothing(); }
"""
    x = ck.zeros(4)
    launched(ENDED, "whole", x)
    assert x.tolist() == [2, 2, 2, 2]
    launched(ENDED, "two", x)
    assert x.tolist() == [3, 2, 2, 2]
    launched(text, "g", x, 2, 3)
    assert x.tolist() == [6] * 4
    launched(text, "h<5>", x, 2)
    assert x.tolist() == [10] * 4
    with ck.device("host"), pytest.raises(ck.CompileError, match=r":7:.*nothing"):
        ck.Kernel(text, plain=True)["wrong"].bind()


def test_an_unpickled_kernel_shows_its_own_lines(tmp_path: Path) -> None:
    text = "\n__global__ void g(float* x) {\n    int i = threadIdx.x;\n    x[i] = 1;\n}\n"
    path = tmp_path / "kernel.pickle"
    path.write_bytes(pickle.dumps(ck.Kernel(text, block=4, name="elsewhere", plain=True)))
    program = (
        "import pickle, sys, cukern as ck\n"
        "with ck.device('host'), ck.testing.checked(collect=True) as reports:\n"
        "    pickle.load(open(sys.argv[1], 'rb'))(ck.zeros(3), grid=1)\n"
        "print(reports[0])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert "<elsewhere>:4" in said.stdout and ">    4 |     x[i] = 1;" in said.stdout


LIBRARY = {
    "setup.h": """#pragma once
        #include <limits>
        #include "detail/../types/vec.h"
        #ifdef __CUDACC_RTC__
        #define COMPILER 0x101
        #elif CUDA_VERSION >= 8000
        #define COMPILER 0x102
        #elif CUDA_VERSION < 8000
        #error "too old"
        #endif
        #define OF_CUDA 0x100
        #if COMPILER & OF_CUDA
        #define ON_BOTH __host__ __device__
        #else
        #define ON_BOTH
        #endif
        #define DECLARED ON_BOTH
        #if __cplusplus >= 201402L && defined(__SOME_COMPILER_HAS_NONE)
        #define CONSTANT
        #else
        #define CONSTANT constexpr
        #endif""",
    "types/vec.h": """#pragma once
        #include "../types/../setup.h"
        #include "../detail/functions.h"
        namespace lib {
        typedef unsigned int uint32_t;
        template <class T> struct Vec {
            T x, y;
            DECLARED static CONSTANT int length() { return 2; }
            DECLARED CONSTANT T& operator[](int i) { return i ? y : x; }
            std::function<void(T)> later(std::function<void(T)> how);
            struct Hooks { virtual void first(); void (*second)(T); void (*all[3])(T); T third; };
        };
        template <class T> DECLARED T size(const Vec<T>& v) {
            static_assert(std::numeric_limits<T>::is_iec559, "floats");
            static_assert(sizeof(typename Vec<T>::Hooks) == 48, "a place for each");
            return sqrt(v.x * v.x + v.y * v.y) + of_number(T(-1));
        }
        }""",
    "detail/functions.h": """#pragma once
        namespace lib {
        using std::sqrt;
        using std::fabs;
        template <class T> struct Vec;
        template <class T> DECLARED Vec<T> sqrt(const Vec<T>& v) { return {sqrt(v.x), sqrt(v.y)}; }
        constexpr inline float of_number(float x) { return fabsf(x); }
        constexpr inline double of_number(double x) { return fabs(x); }
        }""",
    "main.cu": """
        #include <lib/setup.h>
        template <typename T> __global__ void sizes(const T* x, T* y, uint32_t n) {
            lib::Vec<T> v{x[0], x[1]};
            y[0] = size(v);
            y[1] = sqrt(v)[1] + v.length() + (n == (lib::uint32_t)n);
        }""",
}


@pytest.mark.parametrize("elem", ["float", "double"])
def test_a_library_of_headers_by_its_build(device: ck.Device, tmp_path: Path, elem: str) -> None:
    """Headers that include one another by several paths, and choose by the compiler, as those of GLM do."""
    for name, text in LIBRARY.items():
        path = tmp_path / ("" if name == "main.cu" else "include/lib") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "include/lib/detail").mkdir(exist_ok=True)
    kernel = ck.Kernel(tmp_path / "main.cu", block=1, plain=True, include=tmp_path / "include")[
        f"sizes<{elem}>"
    ]
    dtype = {"float": "float32", "double": "float64"}[elem]
    y = ck.zeros(2, dtype)
    kernel(ck.asarray([3.0, 4.0], dtype), y, 7, grid=1)
    assert y.tolist() == [6, 5]
