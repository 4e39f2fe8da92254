"""CUDA C++ as it stands: several kernels in a text, templates, namespaces, host code, structs, old warp functions."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import cukern as ck
from cukern.errors import CompileError, LaunchError

TEXT = """
#include <stdio.h>
#include <vector>
#include "scale.h"
#define N 5
namespace outer { namespace inner {
template <typename T, int K = 3>
__global__ void __launch_bounds__(128) times(const T* __restrict__ x, T* y, int n) {
    const int i = threadIdx.x;
    if (i < n) y[i] = x[i] * K << 1;
}
}}
typedef struct { float x, y; } Pair;
__global__ void before(float*);
static __global__ void before(float* x) { x[threadIdx.x] = __shfl_down(x[threadIdx.x], 1) + SCALE; }
__global__ void pairs(const Pair* p, float* out, Pair more) {
    out[threadIdx.x] = p[threadIdx.x].x * p[threadIdx.x].y + more.x;
}
template <class T> __device__ T largest();
template <> __device__ int largest<int>() { return INT_MAX; }
extern "C" { __global__ void limit(int* p) { p[threadIdx.x] = largest<int>(); } }
template <typename... T> __global__ void several(T... x) {}
int main(int argc, char** argv) {
    std::vector<int> v(N);
    before<<<1, 32>>>(nullptr);
    printf("%zu", v.size());
    return 0;
}
"""


@pytest.fixture
def kernels(tmp_path: Path) -> ck.Kernel:
    (tmp_path / "scale.h").write_text("#pragma once\n#include <math.h>\n#define SCALE 100\n")
    (tmp_path / "program.cu").write_text(TEXT)
    return ck.Kernel(tmp_path / "program.cu", block=4, plain=True)


def test_each_kernel_of_a_text_runs(device: ck.Device, kernels: ck.Kernel) -> None:
    x, y, limits = ck.arange(4, dtype="int32"), ck.zeros(4, "int32"), ck.zeros(4, "int32")
    kernels["times<int>"](x, y, 4)
    assert y.tolist() == [0, 6, 12, 18]
    kernels["outer::inner::times<int, 7>"](x, y, 3)
    assert y.tolist() == [0, 14, 28, 18]
    kernels["limit"](limits)
    pickle.loads(pickle.dumps(kernels["limit"]))(limits)
    assert limits.tolist() == [2**31 - 1] * 4
    lanes = ck.arange(32, dtype="float32")
    kernels["before"](lanes, block=32)
    assert lanes.tolist() == [*range(101, 132), 131]
    assert kernels["limit"] is kernels["limit"]


def test_structs(device: ck.Device, kernels: ck.Kernel) -> None:
    pairs = np.array([(1, 2), (3, 4), (5, 6), (7, 8)], [("x", "f4"), ("y", "f4")])
    out = ck.zeros(4)
    kernels["pairs"](ck.asarray(pairs.view(np.uint8)), out, pairs[0])
    assert out.tolist() == [3, 13, 31, 57]
    with pytest.raises(ck.LaunchError, match="more: expected bytes or a NumPy structured scalar"):
        kernels["pairs"](ck.asarray(pairs.view(np.uint8)), out, 1.0)


def test_lines_stay_where_they_are(kernels: ck.Kernel) -> None:
    wrong = ck.Kernel(TEXT.replace('#include "scale.h"', "").replace("* K << 1", "* K << none"), plain=True)
    line = 1 + TEXT[: TEXT.index("* K << 1")].count("\n")
    with ck.device("host"), pytest.raises(ck.CompileError, match=rf"<kernel.*>.*\b{line}\b(?s:.*)none"):
        wrong["times<int>"].bind()


def test_reports_of_templates_name_the_innermost_line() -> None:
    text = """
    __device__ int beyond(int i) {
        return i + 1;
    }
    namespace q {
    template <class T, class U = T> __global__ void shift(const T* x, U* y) {
        y[threadIdx.x] = x[beyond(threadIdx.x)];
    }
    }"""
    kernel = ck.Kernel(text, block=4, plain=True)["shift<float>"]
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        kernel(ck.ones(4), ck.zeros(4))
    ((kind, place),) = {(one.kind, one.place.rpartition(">")[2]) for one in reports}
    assert (kind, place) == ("out of bounds", ":7")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "none",
            "expected one __global__ function none in a kernel's text, found outer::inner::times, before, ",
        ),
        ("times", r'expected an argument for the template parameter T, as in kernel\["times<T, K>"\]'),
        ("times<int, 1, 2>", "times: expected at most 2 template arguments, got int, 1, 2"),
        (
            "several<int>",
            "several: a kernel's template cannot take any number of arguments here|typename... T",
        ),
    ],
)
def test_refusals(kernels: ck.Kernel, entry: str, message: str) -> None:
    with pytest.raises(ck.TemplateError, match=message):
        kernels[entry].source()


def test_a_name_is_asked_for(kernels: ck.Kernel) -> None:
    with pytest.raises(ck.TemplateError, match=r'choose one as in kernel\["name"\]'):
        kernels.source()
    with pytest.raises(TypeError, match="expected the name of a kernel, got int; a launch is kernel"):
        kernels[0]  # type: ignore[index]


def test_templates_with_several_kernels(device: ck.Device) -> None:
    both = ck.Kernel(
        """
    extern "C" __global__ void one(<< elem >>* x) { x[threadIdx.x] = 1; }
    extern "C" __global__ void two(<< elem >>* x) { x[threadIdx.x] = 2; }
    """,
        block=4,
    )
    x = ck.zeros(4, "float64")
    both["two"](x)
    assert x.tolist() == [2] * 4


@pytest.mark.parametrize(
    "last", ["", "static __device__ int twice(int i) { return 2 * i; }\n"], ids=["end", "static"]
)
@pytest.mark.parametrize("chosen", ["first", "second", "third"])
def test_c_linkage_goes_with_the_kernel_that_is_left_out(device: ck.Device, chosen: str, last: str) -> None:
    names = ("first", "second", "third")
    text = 'extern "C" __global__ void second(int*);\n' + last
    text += "".join(
        f'extern "C" __global__ void {name}(int* p) {{ *p = {i}; }}\n' for i, name in enumerate(names)
    )
    text += (
        "template <int N> __global__ void none(int* p) { *p = N; }\n"
        + 'extern "C" __global__ void more(int*) {}\n'
    )
    kernel, found = ck.Kernel(text, block=1, plain=True), ck.full(1, -1, dtype="int32")
    kernel[chosen](found)
    assert found.item() == names.index(chosen)
    kernel["none<7>"](found)
    assert found.item() == 7


def test_macros_of_annotations() -> None:
    text = """
    #ifdef __CUDA_ARCH__
    #define BOTH __host__ __device__
    #else
    #define BOTH
    #endif
    #define BIAS
    BOTH BIAS int three() { return 3; }
    #undef BIAS
    #define BIAS 5
    #define MAKE(name) __device__ int name() { return 1; }
    MAKE(one)
    #undef MAKE
    #define MAKE(name) __device__ int name() { return 2; }
    MAKE(two)
    #ifdef __CUDA_ARCH__
    #define LATER(name) __device__ int name() { return 7; }
    #else
    #define LATER(name) __device__ int name() { return 8; }
    #endif
    LATER(seven);
    #define HERE __device__
    HERE int four() { return sizeof("BOTH HERE"); }
    __global__ void compute(int* x) { x[0] = three(); x[1] = BIAS + 1; x[2] = four();
        x[3] = 100 * one() + 10 * two() + seven(); }"""
    x = ck.zeros(4, "int32", device="host")
    ck.Kernel(text, block=1, plain=True)(x, grid=1)
    assert x.tolist() == [3, 6, 10, 127]


def test_macros_in_the_heads_of_kernels(device: ck.Device) -> None:
    text = """
    #define BOUNDS(x) __launch_bounds__(x)
    #define ALL(...) __launch_bounds__(__VA_ARGS__)
    #define LIMITED BOUNDS(SIZE)
    #define SIZE 256
    #define KERNEL __global__ BOUNDS(64)
    #define PAIR(T) (T* x, \\
                     T value)
    __global__ BOUNDS(256) void called(float* x) { *x += 1; }
    __global__ LIMITED void named(float* x) { *x += 2; }
    __global__ ALL(128,
                   2) void two(float* x) { *x += 4; }
    GIVEN(256) __global__ void given(float* x) { *x += 8; }
    __global__ void listed ARGUMENTS { *x += 16; }
    KERNEL void made(float* x) { *x += 32; }
    #undef SIZE
    #define SIZE 512
    #define EMPTY(x) \n    namespace inner {
    template <int N> __global__ EMPTY(N) LIMITED void of PAIR(float) { *x += N * value; }
    }
    """
    given = {"GIVEN(x)": "", "ARGUMENTS": "(float* x)"}
    program = ck.Kernel(text, block=32, plain=True, defines=given)
    bounds = {"called": 256, "named": 256, "two": 128, "given": None, "listed": None, "made": 64}
    x = ck.zeros(1, "float32", device=device)
    for name, bound in bounds.items():
        program[name](x, grid=1, block=1)
        if bound is not None:
            with pytest.raises(LaunchError, match=f"takes {bound} at most"):
                program[name](x, grid=1, block=bound + 32)
    program["inner::of<32>"](x, 2.0, grid=1, block=1)
    assert x.item() == 63 + 64


def test_namespaces_of_headers_that_are_left_out() -> None:
    text = """
    #include <absent/tensor.hpp>
    #define OWN other
    namespace own { __device__ int one() { return 1; } }
    namespace OWN { __device__ int two() { return 2; } }
    using namespace absent::parts;
    using namespace own;
    using namespace other;
    __global__ void compute(int* x) { *x = one() + two(); }"""
    x = ck.zeros(1, "int32", device="host")
    ck.Kernel(text, block=1, plain=True)(x, grid=1)
    assert x.item() == 3
    with pytest.raises(CompileError, match=r"Left out[^\n]*using namespace absent::parts"):
        ck.Kernel(text.replace("two();", "three();"), block=1, plain=True)(x, grid=1)


def test_bounds_on_a_condition_and_comments_in_macros(device: ck.Device) -> None:
    text = """
    void of_host(int n) {
    #define LAUNCH(T)            \\
      do {                       \\
        /* of all threads */     \\
        for (;;) { launch<T>; }  \\
      } while (false)
      LAUNCH(float);
    }
    template <class T, bool twice>
    #if __CUDA_ARCH__ >= 700
    __launch_bounds__(64)
    #endif
        __global__ void number(T* x) { x[0] = twice ? 2 : (T)CLOCKS_PER_SEC; }
    __global__ void
    #if __CUDA_ARCH__ >= 800
    __launch_bounds__(32)
    #endif
    three(float* x) { x[0] = 3; }"""
    x, program = ck.zeros(1), ck.Kernel(text, block=1, plain=True)
    for name, wanted in (("number<float, true>", 2), ("number<float, false>", 1000000), ("three", 3)):
        program[name](x, grid=1)
        assert x.tolist() == [wanted]
    with pytest.raises(ck.LaunchError, match="64"):
        program["number<float, true>"](x, grid=1, block=128)


def test_a_class_whose_constructors_are_the_hosts_is_not_made_without_one() -> None:
    declared = """
    template <class T> class Pair { public: T a; Pair() : a(4) {} template <class U> Pair(U a) : a(a) {} ~Pair() {} };
    template <> struct Pair<char> { int a; Pair(int b) : a(2 * b) {} __host__ Pair(const Pair& b) : a(b.a) {} };
    struct Made { unsigned a; Made(unsigned b) : a(b) {} __device__ Made(unsigned b, unsigned c) : a(b + c) {} };
    struct Empty { int a; Empty() {} Empty(int b) : a(b) {} };
    __constant__ Empty kept;
    __global__ void compute(int* x) { __shared__ Empty held; held.a = kept.a;"""
    x = ck.zeros(1, "int32", device="host")
    ck.Kernel(f"{declared} Made made(1, 2); x[0] = made.a; }}", block=1, plain=True)(x, grid=1)
    assert x.tolist() == [3]
    for use in ("Pair<int> p; x[0] = p.a;", "Pair<char> p{5}; x[0] = p.a;", "Pair<char> p{}; x[0] = p.a;"):
        with pytest.raises(ck.CompileError, match=r"deleted function|no matching function"):
            ck.Kernel(f"{declared} {use} }}", block=1, plain=True)(x, grid=1)
