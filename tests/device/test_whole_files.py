"""Files as their projects have them: bindings of other libraries, headers of the host, names of the C++ library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device import nvrtc
from cukern.errors import DeviceError


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
__global__ void scale(scalar_t* x, /* out */
                      float by) { // in place
    x[threadIdx.x] *= by * times;
}
REGISTER(scale)
template __global__ void scale<float>(float*, float);
extern "C" __global__ void first(float* x) { x[threadIdx.x] = 1; }
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
    assert outer == "<torch/extension.h>, <GL/gl.h>, REGISTER, BENCHMARK, TORCH_LIBRARY, BIND"
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
"""


@pytest.mark.parametrize("elem", ["float", "double"])
def test_names_of_the_standard_library(device: ck.Device, elem: str) -> None:
    dtype = {"float": "float32", "double": "float64"}[elem]
    x = ck.arange(4, dtype=dtype)
    launched(STD, f"g<{elem}>", x, block=1)
    assert x.tolist() == [11, 2, np.finfo(dtype).max, -np.inf]
