"""Inline PTX: the same statements on a GPU, and as C++ on the host."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cukern as ck

#: An instruction on two integers, and what it gives.
INTEGERS = {
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
    "{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }": lambda a, b: (
        np.full_like(a, sum(1 << i for i in range(32) if a[i]))
    ),
}
#: The same of floats.
FLOATS = {
    "fma.rn.f32 %0, %1, %2, %1": lambda a, b: (a.astype(float) * b + a).astype(np.float32),
    "ex2.approx.ftz.f32 %0, %1": np.exp2,
    "rcp.approx.f32 %0, %2": lambda a, b: 1 / b,
    "tanh.approx.f32 %0, %1": np.tanh,
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
        ('asm("add.u32 %0;" : "=r"(i));', "'add.u32' has 1 operands here, fewer than it takes"),
        ('asm("mov.u32 %0, " ONE ";" : "=r"(i));', "'ONE' is no string, of which the text"),
    ],
)
def test_what_the_host_does_not_know_is_named(text: str, message: str) -> None:
    kernel = ck.Kernel(
        f"\n__global__ void compute(unsigned* x) {{\n  unsigned i = 0;\n  {text}\n  x[0] = i; }}", plain=True
    )
    with ck.device("host"), pytest.raises(ck.CompileError, match=re.escape(message)):
        kernel.bind()
