"""Inline PTX: the same statements on a GPU, and as C++ on the host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

#: An instruction on two integers, and what it gives.
INTEGERS: dict[str, Callable[..., Any]] = {
    "lop3.b32 %0, %1, %2, 0x0f0f, 0x96": lambda a, b: a ^ b ^ 0x0F0F,
    "lop3.b32 %0, %1, %2, 0x0f0f, 0xe8": lambda a, b: (a & b) | (a & 0x0F0F) | (b & 0x0F0F),
    "prmt.b32 %0, %1, %2, 0x3415": lambda a, b: (
        (b >> 8 & 255) | (a >> 8 & 255) << 8 | (b & 255) << 16 | a >> 24 << 24
    ),
    "shf.l.wrap.b32 %0, %1, %2, 7": lambda a, b: b << 7 | a >> 25,
    "shf.r.clamp.b32 %0, %1, %2, 40": lambda a, b: b,
    "bfe.u32 %0, %1, 5, 9": lambda a, b: a >> 5 & 511,
    "bfe.s32 %0, %1, 28, 9": lambda a, b: (a.astype(np.int32) >> 28).view(np.uint32),
    "bfi.b32 %0, %1, %2, 4, 8": lambda a, b: (b & ~np.uint32(0xFF0)) | (a & 255) << 4,
    "mul.hi.u32 %0, %1, %2": lambda a, b: (a.astype(np.uint64) * b >> 32).astype(np.uint32),
    "mul.lo.s32 %0, %1, %2": lambda a, b: a * b,
    "mad.lo.u32 %0, %1, %2, %1": lambda a, b: a * b + a,
    "min.s32 %0, %1, %2": lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "max.u32 %0, %1, %2": np.maximum,
    "neg.s32 %0, %1": lambda a, b: 0 - a,
    "not.b32 %0, %1": lambda a, b: ~a,
    "abs.s32 %0, %1": lambda a, b: np.abs(a.view(np.int32)).view(np.uint32),
    "shr.s32 %0, %1, 3": lambda a, b: (a.view(np.int32) >> 3).view(np.uint32),
    "shl.b32 %0, %1, 33": lambda a, b: a * 0,
    "popc.b32 %0, %1": lambda a, b: np.bitwise_count(a).astype(np.uint32),
    "{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.u32 %0, 1, 7, p; }": lambda a, b: np.where(a < b, 1, 7),
    "{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, 0, 0; }": lambda a, b: a.astype(np.uint64) + b >> 32,
    "sub.cc.u32 %0, %1, %2;\\n\\tsubc.u32 %0, 5, 0": lambda a, b: 5 - (a < b),
    "{ .reg .b64 w; mov.b64 w, {%1, %2}; shr.u64 w, w, 16; cvt.u32.u64 %0, w; }": lambda a, b: (
        b << 16 | a >> 16
    ),
    "mov.u32 %0, %%laneid": lambda a, b: np.arange(len(a), dtype=np.uint32),
    "mov.u32 %0, %%lanemask_lt": lambda a, b: (1 << np.arange(len(a), dtype=np.uint64)) - 1,
    "shfl.sync.down.b32 %0, %1, 1, 31, 0xffffffff": lambda a, b: np.append(a[1:], a[-1]),
    "shfl.sync.bfly.b32 %0, %1, 3, 0x1f, -1": lambda a, b: a[np.arange(32) ^ 3],
    "{ .reg .pred p; .reg .b32 t; shfl.sync.up.b32 t|p, %1, 2, 0x0, -1; selp.b32 %0, t, 7, p; }": lambda a, b: (
        np.append([7, 7], a[:-2])
    ),
    "{ .reg .pred p; .reg .b32 t; shfl.sync.down.b32 t|p, %1, 3, 0x181f, -1; selp.b32 %0, t, 9, p; }": lambda a, b: (
        np.where(np.arange(32) % 8 < 5, np.roll(a, -3), 9)
    ),
    "redux.sync.add.u32 %0, %1, 0xffffffff": lambda a, b: np.full_like(a, a.sum(dtype=np.uint32)),
    "redux.sync.min.s32 %0, %1, -1": lambda a, b: np.full_like(a, a.view(np.int32).min().view(np.uint32)),
    "match.any.sync.b32 %0, 7, 0xffffffff": lambda a, b: np.full_like(a, 2**32 - 1),
    "{ .reg .pred p; elect.sync %0|p, 0xffffffff; mov.u32 %0, 3; }": lambda a, b: np.full_like(a, 3),
    "bfind.u32 %0, %1": lambda a, b: np.where(a == 0, -1.0, np.floor(np.log2(np.maximum(a, 1)))).astype(
        np.int64
    ),
    "bfind.shiftamt.u32 %0, %1": lambda a, b: np.where(
        a == 0, 2.0**32 - 1, 31 - np.floor(np.log2(np.maximum(a, 1)))
    ),
    "prmt.b32.b4e %0, %1, %2, %1": lambda a, b: _permuted(a, b, [0x5670, 0x6701, 0x7012, 0x0123], a),
    "sad.u32 %0, %1, %2, 5": lambda a, b: np.maximum(a, b) - np.minimum(a, b) + np.uint32(5),
    "dp4a.u32.u32 %0, %1, %2, 3": lambda a, b: (
        3 + (a.view(np.uint8).astype(int) * b.view(np.uint8)).reshape(-1, 4).sum(1)
    ),
    "cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0x12345678": lambda a, b: (
        0x56780000
        | (np.clip(a.view(np.int32), -128, 127) & 255) << 8
        | np.clip(b.view(np.int32), -128, 127) & 255
    ),
    "{ .reg .s16 h; cvt.sat.s16.s32 h, %1; cvt.s32.s16 %0, h; }": lambda a, b: np.clip(
        a.view(np.int32), -32768, 32767
    ),
    "{ .reg .u8 h; cvt.u8.u32 h, %1; cvt.u32.u8 %0, h; }": lambda a, b: a & 255,
    "{ .reg .pred p, q; setp.lt.and.s32 p|q, %1, %2, 1; selp.u32 %0, 4, 6, q; }": lambda a, b: np.where(
        a.view(np.int32) < b.view(np.int32), 6, 4
    ),
    "{ .reg .pred p; setp.hi.u32 p, %1, %2; @!p mov.u32 %0, 1; @p mov.u32 %0, 2; }": lambda a, b: 1 + (a > b),
    "{ .reg .pred p; .reg .u32 n; mov.u32 n, 0; LOOP: add.u32 n, n, 3; setp.lt.u32 p, n, 20; "
    "@p bra LOOP; mov.u32 %0, n; }": lambda a, b: np.full_like(a, 21),
    "{ .reg .b64 w, v; mul.wide.u32 w, %1, %2; mad.wide.u32 v, %1, %1, w; shr.u64 v, v, 32; cvt.u32.u64 %0, v; }": (
        lambda a, b: (a.astype(np.uint64) * b + a.astype(np.uint64) * a) >> np.uint64(32)
    ),
    "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }": lambda a, b: a << 16 | a >> 16,
    "{ .reg .b64 w; mov.b64 w, {%1, %2}; bfe.u64 w, w, 20, 30; cvt.u32.u64 %0, w; }": lambda a, b: (
        (a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)) >> np.uint64(20) & np.uint64(2**30 - 1)
    ),
    "mov.u32 %0, %%ntid.x": lambda a, b: np.full_like(a, 32),
    "{ .reg .b32 x, y; and.b32 x, %1, 0xbbffbbff; and.b32 y, %2, 0xbbffbbff; add.f16x2 %0, x, y; }": lambda a, b: (
        _halves(a, b, np.float16, lambda x, y: x + y)
    ),
    "{ .reg .b32 x, y; and.b32 x, %1, 0xbbffbbff; and.b32 y, %2, 0xbbffbbff; "
    "fma.rn.bf16x2 %0, x, y, x; }": lambda a, b: _halves(a, b, ml_dtypes.bfloat16, lambda x, y: x * y + x),
    "{ .reg .b32 x, y; and.b32 x, %1, 0xbbffbbff; and.b32 y, %2, 0xbbffbbff; max.f16x2 %0, x, y; }": lambda a, b: (
        _halves(a, b, np.float16, np.fmax)
    ),
    "{ .reg .f32 x, y; cvt.rn.f32.u32 x, %1; cvt.rn.f32.u32 y, %2; cvt.rn.bf16x2.f32 %0, x, y; }": lambda a, b: (
        a.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) << 16
        | b.astype(ml_dtypes.bfloat16).view(np.uint16)
    ),
    "{ .reg .f32 x; .reg .b16 h; cvt.rn.f32.s32 x, %1; mul.f32 x, x, 0f2C000000; "
    "cvt.rn.satfinite.e4m3x2.f32 h, x, x; cvt.u32.u16 %0, h; }": lambda a, b: _e4m3(a.view(np.int32)) * 257,
    "{ .reg .f32 x; cvt.rn.f32.u32 x, %1; cvt.rna.tf32.f32 %0, x; }": lambda a, b: (
        a.astype(np.float32).view(np.uint32) + 0x1000 & ~np.uint32(0x1FFF)
    ),
    "mul24.lo.u32 %0, %1, %2": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mad24.lo.s32 %0, %1, %2, %1": lambda a, b: (
        (a.view(np.int32) << 8 >> 8) * (b.view(np.int32) << 8 >> 8) + a.view(np.int32)
    ).view(np.uint32),
    "bmsk.clamp.b32 %0, 256, 4": lambda a, b: a * 0,
    "{ .reg .u32 t; mad.lo.cc.s32 t, %1, %2, 1; madc.hi.s32 %0, %1, %2, 0; }": lambda a, b: (
        (a.view(np.int32).astype(np.int64) * b.view(np.int32) >> 32)
        + ((a.astype(np.uint64) * b & np.uint64(2**32 - 1)) == 2**32 - 1)
    ),
    "{ .reg .pred p; testp.normal.f32 p, 0f80000000; selp.u32 %0, 3, 5, p; }": lambda a, b: np.full_like(
        a, 3
    ),
    # Of NaN.
    "{ .reg .pred p; .reg .f32 x; mov.b32 x, 0x7fffffff; setp.ne.and.f32 p, x, x, 1; selp.u32 %0, 3, 5, p; }": (
        lambda a, b: np.full_like(a, 5)
    ),
    "{ .reg .pred p; .reg .f32 x; mov.b32 x, 0x7fffffff; setp.neu.and.f32 p, x, x, 1; selp.u32 %0, 3, 5, p; }": (
        lambda a, b: np.full_like(a, 3)
    ),
    "{ .reg .f32 x; mov.b32 x, 0x7fffffff; set.ne.u32.f32 %0, x, x; }": lambda a, b: a * 0,
    "{ .reg .f32 x; .reg .s64 l; mov.b32 x, 0x7fffffff; cvt.rzi.s64.f32 l, x; shr.s64 l, l, 32; cvt.u32.u64 %0, l; }": (
        lambda a, b: np.full_like(a, 1 << 31)
    ),
    "min.f32 %0, 0f80000000, 0f00000000": lambda a, b: np.full_like(a, 1 << 31),
    "max.f32 %0, 0f80000000, 0f00000000": lambda a, b: a * 0,
    "{ .reg .b16 h; mov.b16 h, 0x7fff; cvt.rzi.s32.f16 %0, h; }": lambda a, b: a * 0,
    "{ .reg .f32 x; mov.b32 x, 0xff800000; cvt.rna.satfinite.tf32.f32 %0, x; }": lambda a, b: np.full_like(
        a, 0xFF7FE000
    ),
    "{ .reg .f32 x; .reg .b16 h; cvt.rn.f32.s32 x, %1; mul.f32 x, x, 0f2C000000; "
    "cvt.rn.satfinite.relu.e4m3x2.f32 h, x, x; cvt.u32.u16 %0, h; }": lambda a, b: (
        _e4m3(np.maximum(a.view(np.int32), 0)) * 257
    ),
    "{ .reg .pred p; .reg .b32 t; shfl.sync.bfly.b32 t|p, %1, 8, 0x181f, -1; selp.b32 %0, t, 9, p; }": lambda a, b: (
        np.where(np.arange(32) & 8, np.roll(a, 8), 9)
    ),
    "{ .reg .pred p; .reg .b32 t; shfl.sync.down.b32 t|p, %1, 33, 0x1f, -1; selp.b32 %0, t, 9, p; }": lambda a, b: (
        np.append(a[1:], 9)
    ),
    "{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.cta.red.popc.aligned.u32 %0, 0, p; }": lambda a, b: (
        np.full_like(a, np.count_nonzero(a))
    ),
    "{ .reg .pred p; setp.lt.u32 p, %1, %2; bar.red.popc.u32 %0, 0, 32, !p; }": lambda a, b: np.full_like(
        a, np.count_nonzero(a >= b)
    ),
    "{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }": lambda a, b: (
        np.full_like(a, sum(1 << i for i in range(32) if a[i]))
    ),
}


def _permuted(a: np.ndarray, b: np.ndarray, selectors: list[int], chosen: np.ndarray) -> np.ndarray:
    """The bytes of both that the selector of a mode names."""
    both = [x | y << 32 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    selected = [selectors[c & 3] for c in chosen.tolist()]
    return np.array(
        [
            sum((word >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i for i in range(4))
            for word, selector in zip(both, selected, strict=True)
        ]
    )


def _halves(a: np.ndarray, b: np.ndarray, dtype: Any, function: Callable[..., np.ndarray]) -> np.ndarray:
    """A function of pairs of 16-bit floats without the bits that make large ones."""
    x, y = ((one & np.uint32(0xBBFFBBFF)).view(dtype).astype(float) for one in (a, b))
    return np.asarray(function(x, y).astype(dtype).view(np.uint32))


def _rounded_to_zero(x: np.ndarray, dtype: Any) -> np.ndarray:
    near = x.astype(dtype)
    return np.where(np.abs(near.astype(float)) > np.abs(x), np.nextafter(near, dtype(0)), near)


def _e4m3(x: np.ndarray) -> np.ndarray:
    scaled = np.clip(x.astype(np.float32) * np.float32(2.0**-39), -448, 448)
    return np.asarray(scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint32))


#: The same of floats.
FLOATS: dict[str, Callable[..., Any]] = {
    "fma.rn.f32 %0, %1, %2, %1": lambda a, b: (a.astype(float) * b + a).astype(np.float32),
    "ex2.approx.ftz.f32 %0, %1": np.exp2,
    "rcp.approx.f32 %0, %2": lambda a, b: 1 / b,
    "tanh.approx.f32 %0, %1": np.tanh,
    "sub.rz.f32 %0, %1, 0f33000000": lambda a, b: _rounded_to_zero(a.astype(float) - 2.0**-25, np.float32),
    "fma.rn.sat.f32 %0, %1, %1, 0f3E800000": lambda a, b: np.clip(a.astype(float) ** 2 + 0.25, 0, 1).astype(
        np.float32
    ),
    "lg2.approx.f32 %0, 0f41200000": lambda a, b: np.full_like(a, np.log2(10)),
    "sqrt.rn.f32 %0, 0f40000000": lambda a, b: np.full_like(a, np.sqrt(np.float32(2))),
    "copysign.f32 %0, %1, %2": lambda a, b: np.copysign(b, a),
    "{ .reg .pred p; setp.gtu.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }": np.maximum,
    "{ .reg .f64 d, e; cvt.f64.f32 d, %1; cvt.f64.f32 e, %2; fma.rn.f64 d, d, e, d; "
    "cvt.rn.f32.f64 %0, d; }": lambda a, b: (a.astype(float) * b + a).astype(np.float32),
    "{ .reg .b16 h; cvt.rz.f16.f32 h, %1; cvt.f32.f16 %0, h; }": lambda a, b: _rounded_to_zero(
        a.astype(float), np.float16
    ),
    "{ .reg .b32 h; .reg .b16 l, m; cvt.rn.f16x2.f32 h, %1, %2; mov.b32 {l, m}, h; cvt.f32.f16 %0, m; }": lambda a, b: (
        a.astype(np.float16)
    ),
    "{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b32 %0, {0, h}; }": lambda a, b: a.astype(ml_dtypes.bfloat16),
    # Registers of bits that hold floats, and the other way round.
    "shfl.sync.bfly.b32 %0, %1, 1, 31, -1": lambda a, b: a[np.arange(32) ^ 1],
    "lop3.b32 %0, %1, 0x7fffffff, 0, 0xc0": lambda a, b: np.abs(a),
    "{ .reg .b32 x; mov.b32 x, %1; fma.rn.sat.f32 %0, x, x, 0f3E800000; }": lambda a, b: np.clip(
        a.astype(float) ** 2 + 0.25, 0, 1
    ).astype(np.float32),
    "{ .reg .b32 h, x; .reg .b16 l, m; mov.b32 x, %1; cvt.rn.f16x2.f32 h, 0f00000000, x; mov.b32 {l, m}, h; "
    "cvt.f32.f16 %0, l; }": lambda a, b: a.astype(np.float16),
    "{ .reg .b32 x; .reg .b64 d; mov.b32 x, %1; cvt.f64.f32 d, x; cvt.rn.f32.f64 %0, d; }": lambda a, b: a,
    "neg.f32 %0, %1": lambda a, b: -a,
    "abs.f32 %0, %2": lambda a, b: np.abs(b),
    "min.f32 %0, %1, %2": np.minimum,
    "max.f32 %0, %1, 0f3F000000": lambda a, b: np.maximum(a, 0.5),
    "{ .reg .s32 i; cvt.rni.s32.f32 i, %1; cvt.rn.f32.s32 %0, i; }": lambda a, b: np.rint(a),
    "{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h; }": lambda a, b: a.astype(np.float16),
}


def _kernel(instructions: list[str], letter: str, kind: str) -> ck.Kernel:
    ended = [one if one.endswith("}") else f"{one};" for one in instructions]
    operands = f': "={letter}"(r) : "{letter}"(a), "{letter}"(b)'
    lines = "\n".join(
        f'asm volatile("{one}" {operands}); out[{i} * 32 + t] = r;' for i, one in enumerate(ended)
    )
    text = f"""
    __global__ void compute(const {kind}* x, const {kind}* y, {kind}* out) {{
        const int t = threadIdx.x;
        const {kind} a = x[t], b = y[t];
        {kind} r;
        {lines}
    }}"""
    return ck.Kernel(text, block=32, plain=True)


def test_integers(device: ck.Device) -> None:
    cases = INTEGERS
    x, y = np.random.default_rng(0).integers(0, 2**32, (2, 32), dtype=np.uint32)
    x[3] = 0
    out = ck.zeros((len(cases), 32), "uint32")
    _kernel(list(cases), "r", "unsigned")(ck.asarray(x), ck.asarray(y), out, grid=1)
    for text, wanted, got in zip(cases, cases.values(), out.numpy(), strict=True):
        expected = np.asarray(wanted(x, y))
        np.testing.assert_array_equal(got, expected.astype(np.uint32), err_msg=text)


def test_floats(device: ck.Device) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    out = ck.zeros((len(FLOATS), 32))
    _kernel(list(FLOATS), "f", "float")(ck.asarray(x), ck.asarray(y), out, grid=1)
    for text, wanted, got in zip(FLOATS, FLOATS.values(), out.numpy(), strict=True):
        expected = wanted(x, y) if text.count("%2") or "lambda" in wanted.__name__ else wanted(x)
        np.testing.assert_allclose(got, expected, rtol=1e-3 if "approx" in text else 1e-7, err_msg=text)


def test_memory_and_barriers(device: ck.Device) -> None:
    kernel = ck.Kernel(
        """
    __device__ __forceinline__ int load(const int* at) {
        int value;
        asm volatile("ld.global.cg.s32 %0, [%1+4];" : "=r"(value) : "l"(at) : "memory");
        return value;
    }
    __global__ void compute(const int4* x, int* out, unsigned* sum) {
        __shared__ int held[4];
        int a, b, c, d;
        asm("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(x + threadIdx.x));
        held[threadIdx.x] = a + b * 10 + c * 100 + d * 1000;
        asm volatile("bar.sync 0;" ::: "memory");
        asm volatile("st.global.s32 [%0], %1;" ::"l"(out + threadIdx.x), "r"(held[3 - threadIdx.x]) : "memory");
        asm volatile("red.global.add.u32 [%0], %1;" ::"l"(sum), "r"(threadIdx.x) : "memory");
        asm volatile("membar.gl;");
        if (threadIdx.x == 0) sum[1] = load((const int*)x);
    }
    """,
        block=4,
        plain=True,
    )
    x, out, total = ck.arange(16, dtype="int32"), ck.zeros(4, "int32"), ck.zeros(2, "uint32")
    kernel(x, out, total, grid=1)
    assert out.tolist() == [16542, 12098, 7654, 3210]
    assert total.tolist() == [6, 1]


ORDERED = """
__global__ void ordered(float* values, unsigned* flag, unsigned* counts, float* out) {
    __shared__ float held[64];
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(held);
    if (blockIdx.x == 0) {
        asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" :: "l"(values + 2 * t), "f"(1.0f * t), "f"(0.5f) : "memory");
        __syncthreads();
        if (t == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(7) : "memory");
        return;
    }
    unsigned seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    while (seen != 7);
    __syncthreads();
    float x, y, z;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "l"(values + 2 * t));
    if (t < 64) {
        asm volatile("st.shared.f32 [%0+4], %1;" :: "r"(at + 4 * (t ^ 1) - 4), "f"(x + y) : "memory");
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("barrier.cta.sync.aligned 1, %0;" :: "r"(128) : "memory");
        asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(z) : "r"(at + 4 * (t - 64)) : "memory");
        out[t - 64] = z;
    }
    unsigned old;
    asm volatile("atom.global.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(counts) "r"(2) : "memory");
    asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" :: "l"(counts + 1), "r"(old) : "memory");
    asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(counts + 2), "r"(0), "r"(t + 1) : "memory");
    asm volatile("red.global.add.f32 [%0], 0f3F800000;" :: "l"(out + 64) : "memory");
    asm volatile("griddepcontrol.wait;\\n\\tgriddepcontrol.launch_dependents;" ::: "memory");
}
"""


def test_ordered_memory(device: ck.Device) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] < 9:
        pytest.skip("no GPU of compute capability 9.0")
    kernel = ck.Kernel(ORDERED, block=128, plain=True)
    for checked in [False, True] if device.kind == "host" else [False]:
        values, flag, counts, out = ck.zeros(256), ck.zeros(1, "uint32"), ck.zeros(3, "uint32"), ck.zeros(65)
        with ck.testing.checked() if checked else contextlib.nullcontext():
            kernel(values, flag, counts, out, grid=2)
        np.testing.assert_array_equal(out.numpy()[:64], (np.arange(64) ^ 1) + 0.5)
        assert out.tolist()[64] == 128
        assert counts.tolist()[:2] == [256, 254]
        assert 1 <= counts.tolist()[2] <= 128


WRITTEN = r"""
// As an asm (of another compiler, asm volatile("trap;"), it's:
#define TWICE(x) asm("{ .reg .u32 t;\n\t" /* twice ( */ \
   "add.u32 t, %0, %0; // a comment: trap;\n" \
   "mov.u32 %0, t; }" : "+r"(x))
#define OPERATION(name) __device__ unsigned name##_of(unsigned a, unsigned b) { \
   unsigned d; asm(#name ".u32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
OPERATION(add)
OPERATION(sub)
__device__ int thousand = 1'000;
__global__ void compute(unsigned* x) {
    unsigned i = 5;
    const char* text = "asm(1) // \" asm(";
    asm("add.u32 %0, %0, 1;" // "add.u32 %0, %0, 1;"
        : "+r"(i) /* : "r"(i) */ : // it's
        "r"('(' + 0), [other] "r"(7u));
    x[0] = i;
    unsigned* at = x + 1;
    asm("add.u32 %0, %1, 9;" : "=r"(*at++) : "r"(0u));
    asm("mov.u32 %0, 3;" : "=r"(*at++));
    x[3] = at - x;
    asm("{ .reg .u32 clock; mov.u32 clock, 4; mov.u32 %0, %%laneid; add.u32 %0, %0, clock; }"
        : "=r"(x[4]) : [laneid] "r"(7u));
    asm(R"(
        { .reg .u32 %%t;   // in a raw string
          add.u32 %%t, %1, 3;
          mov.u32 %0, %%t; }
    )" : "=r"(x[5]) : [a] "r"(i));
    TWICE(i);
    asm volatile("" : "+r"(i) :: "memory");
    x[6] = i;
    x[7] = text[0] + add_of(thousand, 4) + sub_of(7, 2);
}
"""


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["unix", "windows"])
def test_ways_of_writing(device: ck.Device, line_break: str) -> None:
    x = ck.zeros(8, "uint32")
    ck.Kernel(WRITTEN.replace("\n", line_break), block=1, plain=True)(x, grid=1)
    assert x.tolist() == [6, 9, 3, 3, 4, 9, 12, 97 + 1004 + 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'asm("tcgen05.fence::before_thread_sync;");',
            ":4: inline PTX: 'tcgen05.fence::before_thread_sync' is none that the host knows; a GPU runs it; ",
        ),
        ('asm("addc.u32 %0, %0, 0;" : "+r"(i));', "'addc.u32' takes a carry from another asm statement"),
        ('asm("mov.u32 %0, %%pm0;" : "=r"(i));', "'%pm0' is none that the host knows"),
        ('asm("add.u32 %0, %1, missing;" : "=r"(i) : "r"(i));', "'missing' is no operand or register"),
        ('asm("add.u32 %0, %0, 9;" : "+r"(*x++));', "changes something, and CUDA's compilers evaluate"),
        ('asm("mov.u32 %0, %[of];" : "=r"(i) : [of] "r"(i));', "'%[of]' is an operand by its name"),
        ('asm("add.u32 %0;" : "=r"(i));', "'add.u32' has 1 operands here, fewer than it takes"),
        (
            'asm("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%0, %0, %0, %0}, {%0, %0}, {%0}, {%0, %0, %0, %0};"'
            ' : "+r"(i));',
            "'mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {",
        ),
        (
            'asm("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 "'
            ' "{%0, %0, %0, %0}, {%0, %0}, {%0, %0}, {%0, %0, %0, %0};" : "+r"(i));',
            "inline PTX: mma of a shape that the host does not have for these types",
        ),
        (
            'asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %0}, {%0}, {%0}, {%0, %0};" : "+r"(i));',
            "inline PTX: mma with another number of registers than its matrices have",
        ),
        ('asm("mov.u32 %0, " ONE ";" : "=r"(i));', "'ONE' is no string, of which the text"),
    ],
)
def test_what_the_host_does_not_know_is_named(text: str, message: str) -> None:
    kernel = ck.Kernel(
        f"\n__global__ void compute(unsigned* x) {{\n  unsigned i = 0;\n  {text}\n  x[0] = i; }}", plain=True
    )
    with ck.device("host"), pytest.raises(ck.CompileError, match=re.escape(message)):
        kernel.bind()


#: Barriers of phases by which a block exchanges values: what is included, declared, and called in a round.
PHASES = {
    "mbarrier": (
        "",
        "__shared__ unsigned long long barrier; const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);"
        'if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at)); __syncthreads();',
        'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");'
        'asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W; }"'
        ':: "r"(at), "r"(round % 2) : "memory");',
    ),
    "cuda::barrier": (
        "#include <cuda/barrier>\n",
        "__shared__ cuda::barrier<cuda::thread_scope_block> barrier; if (t == 0) init(&barrier, 64); __syncthreads();",
        "barrier.arrive_and_wait();",
    ),
    "bar.sync": ("", "", 'asm volatile("bar.sync 1, 64;" ::: "memory");'),
}


@pytest.mark.parametrize("name", list(PHASES))
def test_what_is_overwritten_in_the_next_phase(name: str) -> None:
    head, begin, meet = PHASES[name]
    for buffers in (2, 1):
        kernel = ck.Kernel(
            f"""{head}__global__ void exchange(int* out) {{
            __shared__ int held[2][64];
            const int t = threadIdx.x;
            {begin}
            for (int round = 0; round < 4; ++round) {{
                held[round % {buffers}][t] = t + round;
                {meet}
                out[t] = held[round % {buffers}][63 - t];
            }}
        }}""",
            block=64,
            plain=True,
        )
        with ck.device("host"), ck.testing.checked(collect=True) as reports:
            out = ck.zeros(64, "int32")
            kernel(out, grid=1)
        assert [report.kind for report in reports][:1] == (["race"] if buffers == 1 else []), reports
        assert out.tolist() == [66 - t for t in range(64)]


def test_active_lanes_behind_a_loop() -> None:
    kernel = ck.Kernel(
        """__global__ void active(unsigned* out) {
            unsigned i = threadIdx.x, mask;
            while (i < 40) i += 3 + threadIdx.x % 4;
            asm volatile("activemask.b32 %0;" : "=r"(mask));
            out[threadIdx.x] = mask + i;
        }""",
        block=32,
        plain=True,
    )
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        kernel(ck.zeros(32, "uint32"), grid=1)
    assert [report.kind for report in reports] == ["lane"]


def test_an_instruction_behind_a_line_break_is_seen() -> None:
    kernel = ck.Kernel(
        r"""__global__ void elect(int* out) {
            int chosen;
            asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\n\tselp.s32 %0, 1, 0, p;\n}" : "=r"(chosen));
            out[threadIdx.x] = chosen;
        }""",
        block=32,
        plain=True,
    )
    out = ck.zeros(32, "int32", device="host")
    kernel(out, grid=1)
    assert sum(out.tolist()) == 1


def test_four_bits_and_powers_of_two() -> None:
    kernel = ck.Kernel(
        """__global__ void convert(const float* x, unsigned* small, unsigned short* powers, unsigned* back) {
            const int t = threadIdx.x;
            asm("{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, %1, %2; cvt.u32.u8 %0, b; }"
                : "=r"(small[t]) : "f"(x[t]), "f"(-x[t]));
            asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(powers[t]) : "f"(x[t]), "f"(1.0f));
            asm("{ .reg .b8 b; cvt.u8.u32 b, %1; cvt.rn.f16x2.e2m1x2 %0, b; }" : "=r"(back[t]) : "r"(small[t]));
            asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(back[8 + t]) : "h"(powers[t]));
        }""",
        block=8,
        plain=True,
    )
    x = np.array([0, 0.3, 1, 1.25, 2.5, 3, 100, np.inf], np.float32)
    with ck.device("host"):
        small, powers, back = ck.zeros(8, "uint32"), ck.zeros(8, "uint16"), ck.zeros(16, "uint32")
        kernel(ck.asarray(x), small, powers, back, grid=1)
    near = np.stack([-x, x]).clip(-6, 6).astype(ml_dtypes.float4_e2m1fn)
    codes = near.view(np.uint8).astype(np.uint32)
    np.testing.assert_array_equal(small.numpy(), codes[0] | codes[1] << 4)
    np.testing.assert_array_equal(back.numpy()[:8].view(np.float16).reshape(8, 2).T, near.astype(np.float32))
    exponents = np.array([0, 126, 127, 128, 129, 129, 134, 254])
    np.testing.assert_array_equal(powers.numpy(), exponents << 8 | 127)
    found = back.numpy()[8:].view(ml_dtypes.bfloat16).reshape(8, 2).astype(np.float64)
    np.testing.assert_array_equal(found[:, 1], 2.0 ** (exponents - 127))
