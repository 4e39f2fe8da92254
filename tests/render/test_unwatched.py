"""Launches that checks need not watch, as nothing can be wrong; each beside those that are wrong in one thing."""

from __future__ import annotations

import numpy as np
import pytest

from cukern.device.host.checked import proof
from cukern.text.signature import parse

_I = "int i = blockIdx.x * blockDim.x + threadIdx.x; "
_RC = "int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; "
#: By lines: what is right, and what is wrong. x and y have 60 elements, n is 60, w is 10; 8 blocks of 8 threads.
CASES = [
    (_I + "if (i < n) y[i] = 2 * x[i] + 1;", [
        _I + "if (i <= n) y[i] = 2 * x[i] + 1;",
        _I + "y[i] = x[i % n];",
        _I + "if (i < n) y[i] = x[i + 1];",
        _I + "if (i < n) y[i / 2] = x[i];",
        _I + "if (i < n) y[i % 8] = x[i];",
        _I + "if (i < n) y[0] = x[i];",
        "unsigned i = blockIdx.x * blockDim.x + threadIdx.x - 1; if (i < n + 1) y[i] = x[i];",
        "int i = blockIdx.x * (blockDim.x - 1) + threadIdx.x; if (i < n) y[i] = 1;",
        "int i = threadIdx.x; if (i < n) y[i] = 1;",
        _I + "int j = i * 100000000; if (i < n) y[i] = j;",
        _I + "if (i < n) y[i] = n / (i - 1);",
        _I + "float s; if (i < n) y[i] = s;",
        _I + "if (i < n) y[i] = x[i]; else y[0] = 1;",
        _I + "if (i < n || w > 5) y[i] = x[i];",
        _I + "if (i < n) y[i] = x[(int)x[i]];",
        _I + "if (i < n) y[i] = other(x[i]);",
        _I + "if (i < n) y[i] = x[i]; __syncthreads();",
        _I + "i += n; if (i < 2 * n) y[i] = 1;",
        _I + "int* p = (int*)y; if (i < n) p[i] = 1;",
        "volatile int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1;",
    ]),
    (_I + "if (i >= n) return; y[i] += expf(x[i]);", [_I + "if (i > n) return; y[i] += x[i];"]),
    (_I + "if (!(i >= n || i < 1)) y[i] = x[i - 1];", [
        _I + "if (!(i >= n && i < 1)) y[i] = x[i - 1];",
        _I + "if (!(i >= n || i < 1)) y[i] = y[i - 1];",
    ]),
    (_I + "size_t k = i; if (k < n && x[k] > 0.f) y[k] = fmaxf(x[k], a);", [
        _I + "size_t k = i; if (x[k] > 0.f && k < n) y[k] = x[k];",
    ]),
    (_I + "for (int k = i; k < n; k += blockDim.x * gridDim.x) y[k] = x[k];", [
        _I + "for (int k = i; k < n; k += blockDim.x) y[k] = x[k];",
        _I + "for (int k = i; k <= n; k += blockDim.x * gridDim.x) y[k] = x[k];",
        _I + "for (int k = i; k < n; k += blockDim.x * gridDim.x) { y[k] = x[k]; k += 1; }",
        _I + "for (int k = i; k < 2147483647; k += blockDim.x * gridDim.x) if (k < n) y[k] = x[k];",
        _I + "for (int k = i; k < n; k += blockDim.x * gridDim.x) for (int l = k; l < n; ++l) y[l] = 1;",
    ]),
    (_I + "if (i < n / w) { float s = 0; for (int j = 0; j < w; ++j) s += x[i * w + j]; y[i] = s; }", [
        _I + "if (i < n / w) { float s = 0; for (int j = 0; j <= w; ++j) s += x[i * w + j]; y[i] = s; }",
        _I + "if (i <= n / w) { float s = 0; for (int j = 0; j < w; ++j) s += x[i * w + j]; y[i] = s; }",
        _I + "if (i < n / w) { int s = 0; for (int j = 0; j < w; ++j) s += j; y[s] = 1; }",
    ]),
    (_I + "if (i < n / w) for (int j = 0; j < w; ++j) y[i * w + j] = x[j];", [
        _I + "if (i < n / w) for (int j = 0; j < w; ++j) y[i + j] = x[j];",
        _I + "if (i < n / w) for (int j = 0; j < w; ++j) y[i * (w - 1) + j] = x[j];",
        _I + "if (i < n / w) for (int j = 0; j < w; ++j) y[i * w + j] = y[j];",
    ]),
    (_I + "if (4 * i + 3 < n) { float* q = y + 4 * i; q[0] = 1; q[3] = x[4 * i + 2]; }", [
        _I + "if (4 * i + 3 < n) { float* q = y + 4 * i; q[0] = 1; q[4] = x[4 * i + 2]; }",
        _I + "if (4 * i + 3 < n) { float* q = y + 3 * i; q[0] = 1; q[3] = x[4 * i + 2]; }",
    ]),
    ("if (threadIdx.x == 0) y[blockIdx.x] = x[threadIdx.x];", ["if (threadIdx.x <= 1) y[blockIdx.x] = 1;"]),
    (_RC + "if (r < 6 && c < w) y[r * w + c] = x[c * 6 + r];", [
        _RC + "if (r < 6 && c <= w) y[r * w + c] = x[c * 5 + r];",
        _RC + "if (r < 6 && c < w) y[r * (w - 1) + c] = x[c * 6 + r];",
        _RC + "if (r < 7 && c < w) y[r * w + c] = 1;",
    ]),
]  # fmt: skip


def found(body: str, head: str = "", sizes: tuple[int, int] = (60, 60)) -> object:
    """What is known of a launch: x, y, n, w, a = 60, 60 elements, 60, 10, 1.5."""
    text = f'extern "C" __global__ void f(const float* x, float* y, int n, int w, float a) {{ {body} }}'
    known = proof.of(parse(f'#line 1 "prelude/base.cuh"\n#line 1 "<f>"\n{head}{text}'))
    shape = (4, 3, 1, 4, 4, 1) if body.startswith(_RC) else (8, 1, 1, 8, 1, 1)
    return known and known._prove(shape, (0, 0, 60, 10, 0), (*sizes, 0, 0, 0))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_launch_is_not_watched_where_nothing_can_be_wrong(number: int) -> None:
    right, wrong = CASES[number]
    assert found(right), right
    assert not found(right, sizes=(59, 60)) or not found(right, sizes=(60, 5)), right
    for one in wrong:
        assert not found(one), one


@pytest.mark.parametrize("head", [
    "#define i 0\n", "__device__ int k;\n", "// goes on \\\n// here\n", "__device__ float* f(float* x) { return x; }",
])  # fmt: skip
def test_texts_of_more_than_the_kernel_are_watched(head: str) -> None:
    right, _ = CASES[0]
    assert found(right, "// don't\n") and not found(right, head)


@pytest.mark.parametrize("body", [
    "return x;", "if (x > 0) return x; return a + 1;", "float s = 0; for (int i = 0; i < 4; ++i) s += x; return s;",
])  # fmt: skip
def test_functions_of_numbers_are_run_too(body: str) -> None:
    call = _I + "if (i < n) y[i] = gelu(x[i], 2 * i);"
    assert found(call, f"__device__ float gelu(float x, int a) {{ {body} }}\n"), body
    for head in (
        f"__device__ float gelu(float& x, int a) {{ {body} }}\n",
        f"__device__ float gelu(float x, int a) {{ a *= 1 << 30; {body} }}\n",
        f"__device__ float gelu(float x, int a) {{ __shared__ float s; {body} }}\n",
        "__device__ float gelu(float x, int a) { return gelu(x, a); }\n",
        "__device__ float gelu(float x, int a) { if (x > 0) return x; }\n",
    ):
        assert not found(call, head), head
    header = "__device__ float fabsf(double x) { return x; }\n"
    assert not found(_I + "if (i < n) y[i] = fabsf(x[i]);", header)


def test_vectors_have_several_elements() -> None:
    text = """extern "C" __global__ void f(const float4* x, float2* y, int n) {
        const int i = threadIdx.x;
        if (i >= n) return;
        float4 p = x[i];
        p.x += p.w;
        y[i] = make_float2(p.x, 0);
    }"""
    known = proof.of(parse(f'#line 1 "prelude/base.cuh"\n#line 1 "<f>"\n{text}'))
    assert known is not None
    x, y = np.zeros(31, np.float32), np.zeros(15, np.float32)
    shape = (1, 1, 1, 32, 1, 1)
    assert known.holds(shape, (0, 0, 7), (x[x.ctypes.data % 16 // 4 :][:28], y[:14], None))
    assert not known.holds(shape, (0, 0, 7), (x[:27], y, None))
    assert not known.holds(shape, (0, 0, 8), (x, y, None))


def test_what_a_launch_shares_is_watched() -> None:
    text = 'extern "C" __global__ void f(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }'
    known = proof.of(parse(f'#line 1 "prelude/base.cuh"\n#line 1 "<f>"\n{text}'))
    assert known is not None
    memory = np.zeros(64, np.float32)
    header, numbers = (1, 1, 1, 8, 1, 1), (0, 0)
    assert known.holds(header, numbers, (memory[:8], memory[8:16]))
    assert not known.holds(header, numbers, (memory[:8], memory[7:15]))
    assert not known.holds(header, numbers, (memory[:16:2], memory[16:]))
    assert not known.holds(header, numbers, (memory[:8], memory.view(np.float64)[8:16]))
    assert not known.holds(header, numbers, (None, memory[8:16]))
