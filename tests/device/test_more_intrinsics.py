"""Intrinsics that few kernels call: numbers by direction, floats of 4 to 8 bits, address spaces, Bessel functions."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

HALVES = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
__global__ void halves(const float* x, const long long* n, float* out, int* whole, unsigned* fp8, int count) {
    const int i = threadIdx.x;
    const __half h = __float2half(x[i]);
    const __nv_bfloat16 b = __float2bfloat16(x[i]);
    int at = 0;
#define PUT(value) whole[at++ * count + i] = (int)(value)
    PUT(__half2int_rd(h)); PUT(__half2uint_ru(h)); PUT(__half2short_rd(h)); PUT(__half2ushort_ru(h));
    PUT(__half2ll_ru(h));
    PUT(__bfloat162int_ru(b)); PUT(__bfloat162ll_rd(b)); PUT(__bfloat162short_ru(b));
    at = 0;
#define PUT_FLOAT(value) out[at++ * count + i] = (float)(value)
    PUT_FLOAT(__int2half_rz((int)n[i])); PUT_FLOAT(__int2half_ru((int)n[i])); PUT_FLOAT(__ll2half_rd(n[i]));
    PUT_FLOAT(__int2bfloat16_rz((int)n[i])); PUT_FLOAT(__ll2bfloat16_ru(n[i]));
    PUT_FLOAT(__uint2bfloat16_rd((unsigned)n[i]));
    PUT_FLOAT(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(3 * i), __NV_E4M3)));
    PUT_FLOAT(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(3 * i), __NV_E5M2)));
    fp8[i] = __nv_cvt_halfraw_to_fp8(h, __NV_SATFINITE, __NV_E4M3);
    fp8[count + i] = __nv_cvt_bfloat16raw_to_fp8(b, __NV_SATFINITE, __NV_E5M2);
}
"""


def _toward(values: np.ndarray, dtype: np.dtype, direction: int) -> np.ndarray:
    """Integers rounded to a 16-bit float down (-1), up (1), or to zero (0)."""
    bits = 10 if dtype == np.float16 else 7
    result = []
    for value in values.tolist():
        step = 2 ** max(0, abs(value).bit_length() - 1 - bits)
        rounded = {-1: math.floor, 1: math.ceil, 0: math.trunc}[direction](value / step)
        result.append(rounded * step)
    return np.array(result, np.float32)


def test_halves(device: ck.Device) -> None:
    count = 64
    x = np.random.default_rng(0).uniform(-300, 300, count).astype(np.float32)
    n = np.random.default_rng(1).integers(-60000, 60000, count)
    out, whole, fp8 = ck.zeros((8, count)), ck.zeros((8, count), "int32"), ck.zeros((2, count), "uint32")
    ck.Kernel(HALVES, block=count, plain=True)(ck.asarray(x), ck.asarray(n), out, whole, fp8, count, grid=1)
    h, b = x.astype(np.float16).astype(float), x.astype(ml_dtypes.bfloat16).astype(float)
    no_less = np.maximum
    expected = [np.floor(h), no_less(np.ceil(h), 0), np.floor(h), no_less(np.ceil(h), 0), np.ceil(h)]
    expected += [np.ceil(b), np.floor(b), np.ceil(b)]
    np.testing.assert_array_equal(whole.numpy(), np.array(expected))
    half, bfloat = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
    unsigned = n.astype(np.uint32).astype(np.int64)
    made = [_toward(n, half, 0), _toward(n, half, 1), _toward(n, half, -1), _toward(n, bfloat, 0)]
    made += [_toward(n, bfloat, 1), _toward(unsigned, bfloat, -1)]
    codes = (3 * np.arange(count)).astype(np.uint8)
    made += [codes.view(one).astype(np.float32) for one in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
    np.testing.assert_array_equal(out.numpy(), np.array(made))
    small = [
        x.astype(np.float16).astype(ml_dtypes.float8_e4m3fn),
        x.astype(ml_dtypes.bfloat16).astype(ml_dtypes.float8_e5m2),
    ]
    np.testing.assert_array_equal(fp8.numpy(), np.array([one.view(np.uint8) for one in small]))


INTEGERS = """
__global__ void integers(const unsigned* x, const unsigned* y, unsigned* out, double* bessel, int count) {
    const int i = threadIdx.x;
    const unsigned a = x[i], b = y[i];
    bool first, second;
    out[i] = __vibmax_s32((int)a, (int)b, &first) + (first ? 1u : 0u);
    out[count + i] = __vibmin_u16x2(a, b, &first, &second) ^ (first ? 2u : 0u) ^ (second ? 1u : 0u);
    out[2 * count + i] = __fns(a, i % 32, i % 5 - 2);
    out[3 * count + i] = __dp2a_lo((int)a, (int)b, 5);
    out[4 * count + i] = __dp2a_hi(a, b, 5u);
    bessel[i] = cyl_bessel_i0(i / 4.0 - 8);
    bessel[count + i] = cyl_bessel_i1(i / 4.0 - 8);
}
"""


def test_integers(device: ck.Device) -> None:
    count = 64
    x, y = np.random.default_rng(2).integers(0, 2**32, (2, count), dtype=np.uint32)
    out, bessel = ck.zeros((5, count), "uint32"), ck.zeros((2, count), "float64")
    ck.Kernel(INTEGERS, block=count, plain=True)(ck.asarray(x), ck.asarray(y), out, bessel, count, grid=1)
    expected: list[list[int]] = [[], [], [], [], []]
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        signed = [v - 2**32 if v >= 2**31 else v for v in (a, b)]
        expected[0].append((max(signed) + (signed[0] >= signed[1])) % 2**32)
        high, low = a >> 16 <= b >> 16, a & 0xFFFF <= b & 0xFFFF
        pair = (a if high else b) & 0xFFFF0000 | (a if low else b) & 0xFFFF
        expected[1].append(pair ^ (2 if high else 0) ^ (1 if low else 0))
        expected[2].append(_nth_set(a, i % 32, i % 5 - 2))
        halves = [np.int16(np.uint16(a >> 16 * k & 0xFFFF)) for k in (0, 1)]
        chars = [np.int8(np.uint8(b >> 8 * k & 0xFF)) for k in (0, 1)]
        expected[3].append((5 + sum(int(p) * int(q) for p, q in zip(halves, chars, strict=True))) % 2**32)
        expected[4].append(
            (5 + sum((a >> 16 * k & 0xFFFF) * (b >> 16 + 8 * k & 0xFF) for k in (0, 1))) % 2**32
        )
    np.testing.assert_array_equal(out.numpy(), np.array(expected))
    points = np.arange(count) / 4 - 8
    angle = (np.arange(20000) + 0.5) * np.pi / 20000
    values = [
        np.mean(np.exp(points[:, None] * np.cos(angle)) * np.cos(order * angle), axis=1) for order in (0, 1)
    ]
    np.testing.assert_allclose(bessel.numpy(), np.array(values), rtol=1e-12, atol=1e-13)


def _nth_set(mask: int, base: int, n: int) -> int:
    """The place of the n-th set bit from a bit on."""
    if n == 0:
        return base if mask >> base & 1 else 2**32 - 1
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(n) - 1] if len(found) >= abs(n) else 2**32 - 1


SMALL = """
#include <cuda_fp4.h>
__global__ void small(const float* x, unsigned* out, float* back, int count) {
    const int i = threadIdx.x;
    out[i] = __nv_cvt_float_to_fp4(x[i], __NV_E2M1, cudaRoundNearest);
    out[count + i] = __nv_fp4x4_e2m1(make_float4(x[i], -x[i], 0.75f, 5.0f)).__x;
    back[i] = float(__nv_fp4_e2m1(x[i]));
    back[count + i] = __high2float(__half2(__nv_cvt_fp4x2_to_halfraw2((__nv_fp4x2_storage_t)(3 * i), __NV_E2M1)));
}
"""


def test_four_bits(device: ck.Device) -> None:
    count = 64
    x = np.linspace(-7, 7, count).astype(np.float32)
    out, back = ck.zeros((2, count), "uint32"), ck.zeros((2, count))
    try:
        ck.Kernel(SMALL, block=count, plain=True)(ck.asarray(x), out, back, count, grid=1)
    except ck.CompileError as error:
        if "open source file" in error.log:
            pytest.skip("this version of CUDA has no cuda_fp4.h")
        raise
    small = ml_dtypes.float4_e2m1fn
    near = np.clip(x, -6, 6).astype(small)
    codes = near.view(np.uint8).astype(np.uint32)
    np.testing.assert_array_equal(out.numpy()[0], codes)
    np.testing.assert_array_equal(out.numpy()[1], codes | (codes ^ 8) << 4 | 0x2 << 8 | 0x6 << 12)
    np.testing.assert_array_equal(back.numpy()[0], near.astype(np.float32))
    high = (3 * np.arange(count) >> 4 & 15).astype(np.uint8)
    np.testing.assert_array_equal(back.numpy()[1], high.view(small).astype(np.float32))


POWERS = """
#include <cuda_fp8.h>
__global__ void powers(const float* x, unsigned* out, float* back, int count) {
    const int i = threadIdx.x;
    out[i] = __nv_cvt_float_to_e8m0(x[i], __NV_SATFINITE, cudaRoundPosInf);
    out[count + i] = __nv_cvt_float2_to_e8m0x2(make_float2(x[i], 1), __NV_NOSAT, cudaRoundZero);
    back[i] = float(__nv_fp8_e8m0(x[i]));
}
"""


def test_powers_of_two(device: ck.Device) -> None:
    x = np.array([0, 2.0**-127, 1.5 * 2.0**-127, 0.75, -1, 1.01, 448, 3e38, np.inf, np.nan], np.float32)
    count = len(x)
    out, back = ck.zeros((2, count), "uint32"), ck.zeros(count)
    try:
        ck.Kernel(POWERS, block=count, plain=True)(ck.asarray(x), out, back, count, grid=1)
    except ck.CompileError as error:
        if "e8m0" in error.log:
            pytest.skip("this version of CUDA has no __nv_fp8_e8m0")
        raise
    up = [0, 0, 1, 127, 127, 128, 136, 254, 254, 255]
    down = [0, 0, 0, 126, 127, 127, 135, 254, 255, 255]
    assert out.tolist() == [up, [127 << 8 | one for one in down]]
    np.testing.assert_array_equal(back.numpy(), [np.nan if e == 255 else 2.0 ** (e - 127) for e in up])


DIRECTED = """
#define EACH(suffix) \\
    PUT(__dadd_##suffix(a, b)); PUT(__dsub_##suffix(a, b)); PUT(__dmul_##suffix(a, b)); PUT(__ddiv_##suffix(a, b)); \\
    PUT(__fma_##suffix(a, b, c)); PUT(__drcp_##suffix(b)); PUT(__dsqrt_##suffix(fabs(a)))
#define PUT(value) out[at++ * count + i] = value
__global__ void directed(const double* x, const double* y, const double* z, double* out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double a = x[i], b = y[i], c = z[i];
    int at = 0;
    EACH(rn); EACH(rz); EACH(ru); EACH(rd);
}
"""
#: Their directions: to nearest, to zero, up, down.
DIRECTIONS = ("n", "z", "u", "d")


def _directed(exact: Fraction, direction: str) -> float:
    """A number as a double, none of whose neighbours is beyond the largest."""
    near = exact.numerator / exact.denominator
    error = Fraction(near) - exact
    towards = {"n": near, "u": math.inf, "d": -math.inf, "z": 0.0}[direction]
    away = error > 0 if towards < near else error < 0
    return math.nextafter(near, towards) if error and away else near


def _directed_root(x: float, direction: str) -> float:
    near = math.sqrt(x)
    error = Fraction(near) ** 2 - Fraction(x)
    if direction == "u":
        return math.nextafter(near, math.inf) if error < 0 else near
    return math.nextafter(near, 0) if error > 0 and direction != "n" else near


def test_directed_doubles_are_right_to_the_last_bit(device: ck.Device) -> None:
    count, rng = 256, np.random.default_rng(3)
    x, y, z = rng.choice([-1.0, 1.0], (3, count)) * np.exp2(rng.uniform(-30, 30, (3, count)))
    x[:64], y[:64] = x[:64] * 2.0**-500, y[:64] * 2.0**-550  # products that are subnormal, or less
    z[32:64] *= 2.0**-1040
    z[64:128] = -x[64:128] * y[64:128]  # sums that cancel
    y[128:144], z[128:144] = 3, 0  # products with one bit more, or exact
    out = ck.zeros((4, 7, count), "float64")
    kernel = ck.Kernel(DIRECTED, block=64, plain=True)
    kernel(ck.asarray(x), ck.asarray(y), ck.asarray(z), out, count, grid=4)
    wanted = np.empty((4, 7, count))
    for i, values in enumerate(zip(x.tolist(), y.tolist(), z.tolist(), strict=True)):
        a, b, c = map(Fraction, values)
        for row, direction in enumerate(DIRECTIONS):
            exact = (a + b, a - b, a * b, a / b, a * b + c, 1 / b)
            wanted[row, :6, i] = [_directed(one, direction) for one in exact]
            wanted[row, 6, i] = _directed_root(abs(values[0]), direction)
    np.testing.assert_array_equal(out.numpy(), wanted)


def test_directed_doubles_at_the_ends(device: ck.Device) -> None:
    """Overflow, sums of 0, infinities and NaN, as IEEE 754 has them."""
    largest, least = np.finfo(float).max, 5e-324
    x = np.array([largest, -largest, 1, -0.0, 0, np.inf, least, np.nan])
    y = np.array([largest, largest, -1, 0, 0, 1, 0.5, 1])
    out = ck.zeros((4, 7, len(x)), "float64")
    kernel = ck.Kernel(DIRECTED, block=len(x), plain=True)
    kernel(ck.asarray(x), ck.asarray(y), ck.asarray(-y), out, len(x), grid=1)
    sums, _, products = out.numpy()[:, :3].transpose(1, 0, 2)
    inf, nan = np.inf, np.nan
    rest = [inf, 0.5, nan]
    np.testing.assert_array_equal(sums[0], [inf, 0, 0, 0, 0, *rest])
    np.testing.assert_array_equal(sums[1], [largest, 0, 0, 0, 0, *rest])
    np.testing.assert_array_equal(sums[2], [inf, 0, 0, 0, 0, inf, np.nextafter(0.5, 1), nan])
    np.testing.assert_array_equal(sums[3], [largest, 0, 0, 0, 0, *rest])
    np.testing.assert_array_equal(np.signbit(sums[:, 1:5]), [[0, 0, 0, 0]] * 3 + [[1, 1, 1, 0]])
    np.testing.assert_array_equal(products[:, 0], [inf, largest, inf, largest])
    np.testing.assert_array_equal(products[:, 1], [-inf, -largest, -largest, -inf])
    np.testing.assert_array_equal(products[:, 6], [0, 0, least, 0])


def test_a_sum_of_zero_has_the_sign_of_its_direction(device: ck.Device) -> None:
    kernel = ck.Kernel(
        "__global__ void zeros(float x, float* out) { out[0] = __fadd_rd(x, -x); out[1] = __fsub_rd(x, x); "
        "out[2] = __fmaf_rd(x, x, -x * x); out[3] = __fadd_ru(x, -x); out[4] = __fadd_rd(x - x, x - x); }",
        block=1,
        plain=True,
    )
    out = ck.ones(5)
    kernel(3.0, out, grid=1)
    assert np.signbit(out.numpy()).tolist() == [True, True, True, False, False] and not out.numpy().any()


SPACES = """
__constant__ float table[4];
__device__ float variable;
__device__ unsigned where(const void* at) {
    return (__isShared(at) ? 1 : 0) | (__isLocal(at) ? 2 : 0) | (__isConstant(at) ? 4 : 0) | (__isGlobal(at) ? 8 : 0);
}
__global__ void spaces(const float* x, int n, unsigned* out, float* back) {
    __shared__ float held[32];
    extern __shared__ float more[];
    float own[4] = {x[0], x[1], x[2], x[3]};
    const void* all[] = {held + 31, more + 15, own + n, table + 3, x, &variable};
    for (int i = 0; i < 6; ++i) out[i] = where(all[i]);
    held[n] = x[0];
    back[0] = *(float*)__cvta_shared_to_generic(__cvta_generic_to_shared(held + n));
    back[1] = *(const float*)__cvta_global_to_generic(__cvta_generic_to_global(x + 1));
    back[2] = *(float*)__cvta_local_to_generic(__cvta_generic_to_local(own + n));
    back[3] = *(const float*)__cvta_constant_to_generic(__cvta_generic_to_constant(table + n));
}
"""


def test_address_spaces(device: ck.Device) -> None:
    kernel = ck.Kernel(SPACES, block=1, plain=True)
    kernel.globals["table"] = [1, 2, 3, 4]
    out, back = ck.zeros(6, "uint32"), ck.zeros(4)
    kernel(ck.asarray([5.0, 6.0, 7.0, 8.0]), 2, out, back, grid=1, shared=64)
    assert out.tolist() == [1, 1, 2, 4, 8, 8]
    assert back.tolist() == [5, 6, 7, 3]


MINIFLOATS = """
#include <cuda_fp6.h>
#include <cuda_fp4.h>
__global__ void small(const float* x, unsigned* out, float* back, int count) {
    const int i = threadIdx.x;
    int at = 0;
#define PUT(value) out[at++ * count + i] = value
    const float2 two = make_float2(x[i], -x[i]);
    PUT(__nv_cvt_float2_to_fp6x2(two, __NV_E2M3, cudaRoundNearest));
    PUT(__nv_cvt_float2_to_fp6x2(two, __NV_E3M2, cudaRoundNearest));
    PUT(__nv_cvt_float2_to_fp4x2(two, __NV_E2M1, cudaRoundNearest));
    PUT(__nv_fp6_e2m3(__float2half(x[i])).__x);
    PUT(__nv_fp6x4_e3m2(make_float4(x[i], -x[i], x[i], 0)).__x);
    PUT(__nv_fp4x2_e2m1(make_double2(x[i], -x[i])).__x);
    at = 0;
#define PUT_FLOAT(value) back[at++ * count + i] = value
    PUT_FLOAT(float(__nv_fp6_e3m2(x[i])));
    PUT_FLOAT(float2(__nv_fp4x2_e2m1(two)).y);
    PUT_FLOAT(__half2float(__half(__nv_cvt_fp6_to_halfraw((__nv_fp6_storage_t)i, __NV_E2M3))));
    PUT_FLOAT((float)int(__nv_fp6_e2m3(x[i])));
}
"""


def test_four_and_six_bits(device: ck.Device) -> None:
    count = 64
    x = np.append(np.linspace(-8, 8, count - 1), np.inf).astype(np.float32)
    out, back = ck.zeros((6, count), "uint32"), ck.zeros((4, count))
    try:
        ck.Kernel(MINIFLOATS, block=count, plain=True)(ck.asarray(x), out, back, count, grid=1)
    except ck.CompileError as error:
        if "open source file" in error.log:
            pytest.skip("this version of CUDA has no cuda_fp6.h")
        raise

    def near(dtype: type) -> np.ndarray:
        largest = float(ml_dtypes.finfo(dtype).max)
        return np.clip(x, -largest, largest).astype(dtype)

    e2m3, e3m2, e2m1 = map(near, (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn))
    codes = [one.view(np.uint8).astype(np.uint32) for one in (e2m3, e3m2, e2m1)]
    pairs = [
        code | (code ^ sign) << width for code, sign, width in zip(codes, (32, 32, 8), (8, 8, 4), strict=True)
    ]
    wanted = [*pairs, codes[0], pairs[1] | codes[1] << 16, pairs[2]]
    np.testing.assert_array_equal(out.numpy(), np.array(wanted))
    every = np.arange(count, dtype=np.uint8).view(ml_dtypes.float6_e2m3fn).astype(np.float32)
    numbers = [e3m2.astype(np.float32), -e2m1.astype(np.float32), every, np.trunc(e2m3.astype(np.float32))]
    np.testing.assert_array_equal(back.numpy(), np.array(numbers))
