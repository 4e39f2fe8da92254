"""Inline PTX of tensor cores and of what feeds them: the same statements on a GPU, and as C++ on the host."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

#: NumPy's types of PTX's, and the bits of an element.
NUMPY = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


@dataclass(frozen=True)
class Product:
    """A form of mma.sync."""

    m: int
    k: int
    types: str

    @property
    def text(self) -> str:
        return f"mma.sync.aligned.m{self.m}n8k{self.k}.row.col.{self.types}"


PRODUCTS = [
    Product(16, 16, "f32.f16.f16.f32"),
    Product(16, 16, "f16.f16.f16.f16"),
    Product(16, 8, "f32.f16.f16.f32"),
    Product(16, 8, "f16.f16.f16.f16"),
    Product(16, 16, "f32.bf16.bf16.f32"),
    Product(16, 8, "f32.bf16.bf16.f32"),
    Product(16, 8, "f32.tf32.tf32.f32"),
    Product(16, 4, "f32.tf32.tf32.f32"),
    Product(16, 32, "s32.s8.s8.s32"),
    Product(16, 16, "s32.u8.s8.s32"),
    Product(8, 16, "s32.s8.u8.s32"),
    Product(8, 4, "f64.f64.f64.f64"),
    Product(16, 4, "f64.f64.f64.f64"),
    Product(16, 8, "f64.f64.f64.f64"),
    Product(16, 16, "f64.f64.f64.f64"),
    Product(16, 32, "f32.e4m3.e5m2.f32"),
]


def _needs_hopper(device: ck.Device) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] < 9:
        pytest.skip("no GPU of compute capability 9.0")


def _per_word(name: str) -> int:
    return max(1, 4 // int(NUMPY[name].itemsize))


def _of_a(form: Product, name: str) -> list[list[tuple[int, int]]]:
    """The first element of each word of A that a lane holds."""
    parts, rows = _per_word(name), form.m // 8
    return [
        [
            (lane // 4 + 8 * (i % rows), 4 * parts * (i // rows) + parts * (lane % 4))
            for i in range(rows * form.k // (4 * parts))
        ]
        for lane in range(32)
    ]


def _packed(matrix: np.ndarray, firsts: list[list[tuple[int, int]]], parts: int) -> np.ndarray:
    """The registers of all lanes, from matrices whose rows are along k."""
    rows = [
        np.concatenate([matrix[row, column : column + parts] for row, column in own]).view(
            np.uint64 if matrix.itemsize == 8 else np.uint32
        )
        for own in firsts
    ]
    return np.array(rows)


def _matrices(form: Product) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A, the transpose of B, C and D."""
    d, a, b, c = form.types.split(".")
    random = np.random.default_rng(form.k)
    shapes = ((form.m, form.k, a), (8, form.k, b), (form.m, 8, c))
    made = []
    for rows, columns, name in shapes:
        low, high = (0, 7) if name.startswith("u") else (-4, 5)
        values = random.integers(low, high, (rows, columns))
        made.append((values if name[0] in "us" else values / 4).astype(NUMPY[name]))
    a_, b_, c_ = made
    product = a_.astype(float) @ b_.astype(float).T + c_.astype(float)
    return a_, b_, c_, product.astype(NUMPY[d])


def _kernel_of(forms: list[Product]) -> ck.Kernel:
    """A kernel with all forms, each of which takes its registers from rows of 8 words of 64 bits."""
    lines = []
    for number, form in enumerate(forms):
        d, a, b, c = form.types.split(".")
        counts = []
        for name, elements in ((d, 8 * form.m), (a, form.m * form.k), (b, 8 * form.k), (c, 8 * form.m)):
            counts.append(elements // 32 // _per_word(name))
        letters = ["d" if name == "f64" else "f" if name == "f32" else "r" for name in (d, a, b, c)]
        at, groups = 0, []
        for count in counts:
            groups.append("{" + ", ".join(f"%{at + i}" for i in range(count)) + "}")
            at += count
        kinds = {"d": "double", "f": "float", "r": "unsigned"}
        outputs = ", ".join(f'"={letters[0]}"(d{number}[{i}])' for i in range(counts[0]))
        inputs = ", ".join(
            f'"{letter}"(*({kinds[letter]}*)(from + {8 * group + i}))'
            for group, (letter, count) in enumerate(zip(letters[1:], counts[1:], strict=True))
            for i in range(count)
        )
        lines.append(f"""
        {{
            unsigned long long* from = in + ({number} * 32 + threadIdx.x) * 24;
            {kinds[letters[0]]} d{number}[{counts[0]}];
            asm volatile("{form.text} "
                         "{", ".join(groups)};\\n" : {outputs} : {inputs});
            for (int i = 0; i < {counts[0]}; ++i)
                *({kinds[letters[0]]}*)(out + ({number} * 32 + threadIdx.x) * 8 + i) = d{number}[i];
        }}""")
    body = "".join(lines)
    return ck.Kernel(
        f"__global__ void products(unsigned long long* in, unsigned long long* out) {{{body}}}",
        block=32,
        plain=True,
    )


def test_products(device: ck.Device) -> None:
    given = np.zeros((len(PRODUCTS), 32, 3, 8), np.uint64)
    for number, form in enumerate(PRODUCTS):
        _, a, b, c = form.types.split(".")
        of_a, of_b, of_c, _ = _matrices(form)
        b_firsts = [
            [(lane // 4, _per_word(b) * (4 * i + lane % 4)) for i in range(form.k // (4 * _per_word(b)))]
            for lane in range(32)
        ]
        c_firsts = [
            [
                (lane // 4 + 8 * (i * _per_word(c) // 2), 2 * (lane % 4) + i * _per_word(c) % 2)
                for i in range(form.m // 4 // _per_word(c))
            ]
            for lane in range(32)
        ]
        for group, (matrix, firsts, name) in enumerate(
            ((of_a, _of_a(form, a), a), (of_b, b_firsts, b), (of_c, c_firsts, c))
        ):
            words = _packed(matrix, firsts, _per_word(name))
            given[number, :, group, : words.shape[1]] = words
    out = ck.zeros((len(PRODUCTS), 32, 8), "uint64")
    _kernel_of(PRODUCTS)(ck.asarray(given), out, grid=1)
    for form, got in zip(PRODUCTS, out.numpy(), strict=True):
        d = form.types.split(".")[0]
        expected, parts = _matrices(form)[3], _per_word(d)
        found = np.zeros_like(expected)
        for lane in range(32):
            for i in range(form.m // 4):
                bits = got[lane, i // parts : i // parts + 1].view(NUMPY[d])
                found[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = bits[i % parts]
        np.testing.assert_array_equal(found, expected, err_msg=form.text)


MATRICES = """
#define LOAD_4(a, b, c, d, at) \\
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\\n" \\
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) \\
                 : "r"(at))
__global__ void matrices(const unsigned short* x, unsigned* out) {
    __shared__ __align__(16) unsigned short held[4][8][8], again[2][8][8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) (&held[0][0][0])[i] = x[i];
    __syncwarp();
    unsigned own[4], other[2], one, turned;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&held[lane / 8][lane % 8][0]);
    const unsigned to = (unsigned)__cvta_generic_to_shared(&again[lane / 8 % 2][lane % 8][0]);
    LOAD_4(own[0], own[1], own[2], own[3], at);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(other[0]), "=r"(other[1]) : "r"(at));
    asm volatile("{ .reg .u64 s; .reg .u32 a; cvta.to.shared.u64 s, %1; cvt.u32.u64 a, s;\\n"
                 "  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [a + 128]; }"
                 : "=r"(one) : "l"(&held[0][lane % 8][0]));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 :: "r"(to), "r"(own[0]), "r"(own[1]) : "memory");
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(own[0]));
    __syncwarp();
    for (int i = 0; i < 4; ++i) out[i * 32 + lane] = own[i];
    for (int i = 0; i < 2; ++i) out[(4 + i) * 32 + lane] = other[i];
    out[6 * 32 + lane] = one;
    out[7 * 32 + lane] = turned;
    for (int i = 0; i < 2; ++i) out[(8 + i) * 32 + lane] = ((unsigned*)again)[i * 32 + lane];
}
"""


def test_matrices(device: ck.Device) -> None:
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    out = ck.zeros((10, 4 * 8, 1), "uint32")
    ck.Kernel(MATRICES, block=32, plain=True)(ck.asarray(x), out, grid=1)
    got = out.numpy().view(np.uint16).reshape(10, 8, 8)
    turned = x.swapaxes(1, 2)
    np.testing.assert_array_equal(got[:4], x)
    np.testing.assert_array_equal(got[4:6], turned[:2])
    np.testing.assert_array_equal(got[6], x[1])
    np.testing.assert_array_equal(got[7], turned[0])
    np.testing.assert_array_equal(got[8:], turned[:2])


#: A pipeline of copies by 16, 8 and 4 bytes, with zeros where the source ends, and by a predicate.
COPIES = """
__device__ __forceinline__ unsigned shared_address(const void* at) {
    unsigned address;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(at));
    return address;
}
__global__ void copies(const float* x, float* out, int n) {
    __shared__ __align__(16) float held[5][128];
    const int t = threadIdx.x;
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 4; ++j) held[i][4 * t + j] = -1;
    const unsigned first = shared_address(&held[0][4 * t]);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\\n" :: "r"(first), "l"(x + 4 * t), "n"(16));
    asm volatile("cp.async.commit_group;\\n" ::);
    const int bytes = 4 * t < n ? (n - 4 * t < 4 ? 4 * (n - 4 * t) : 16) : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                 :: "r"(first + 512), "l"(x + 4 * t), "r"(bytes) : "memory");
    asm volatile("{\\n"
                 "  .reg .pred p;\\n"
                 "  setp.ne.b32 p, %0, 0;\\n"
                 "  @p cp.async.ca.shared.global [%1], [%2], 8;\\n"
                 "}\\n" :: "r"(t % 2), "r"(first + 1024), "l"(x + 4 * t));
    asm volatile("cp.async.ca.shared.global [%0+1536], [%1], 4;" :: "r"(first), "l"(x + 4 * t + 3));
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %2, 1;\\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, p; }" :: "r"(first + 2048), "l"(x + 4 * t), "r"(t & 1));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" :: "n"(1));
    __syncthreads();
    float sum = held[0][127 - t];
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 4; ++j) out[(i * 32 + t) * 4 + j] = held[i][4 * t + j];
    out[640 + t] = sum;
}
"""


def test_copies(device: ck.Device) -> None:
    x, n = np.arange(128, dtype=np.float32), 70
    out = ck.zeros(672)
    ck.Kernel(COPIES, block=32, plain=True)(ck.asarray(x), out, n, grid=1)
    got, own = out.numpy()[:640].reshape(5, 32, 4), x.reshape(32, 4)
    odd = np.arange(32)[:, None] % 2 == 1
    np.testing.assert_array_equal(got[0], own)
    np.testing.assert_array_equal(got[1], np.where(x < n, x, 0).reshape(32, 4))
    np.testing.assert_array_equal(got[2], np.where(odd & (np.arange(4) < 2), own, -1))
    np.testing.assert_array_equal(got[3], np.where(np.arange(4) < 1, own[:, 3:], -1))
    np.testing.assert_array_equal(got[4], np.where(odd, 0, own))
    np.testing.assert_array_equal(out.numpy()[640:], x[::-1][:32])


#: A ring of two stages: one thread asks for bulk copies, an mbarrier counts their bytes, and another one the threads
#: that have read.
RING = """
__device__ unsigned address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ void init(unsigned long long* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(barrier)), "r"(count));
}
__device__ void wait(unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{\\n"
        ".reg .pred       P1;\\n"
        "LAB_WAIT:\\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\\n"
        "@P1                       bra.uni DONE;\\n"
        "bra.uni                   LAB_WAIT;\\n"
        "DONE:\\n"
        "}\\n" :: "r"(address(barrier)), "r"(parity) : "memory");
}
__global__ void ring(const float* x, float* out, int turns) {
    __shared__ __align__(128) float stage[2][128];
    __shared__ unsigned long long full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < 2; ++i) init(&full[i], 1), init(&empty[i], 31);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    unsigned chosen = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; @p mov.s32 %0, 1; }" : "+r"(chosen) : "r"(0xffffffffu));
    const int producer = __ffs(__ballot_sync(0xffffffffu, chosen)) - 1;
    float sum = 0;
    for (int turn = 0; turn < turns; ++turn) {
        const int s = turn % 2, lap = turn / 2;
        if (t == producer) {
            wait(&empty[s], (lap & 1) ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(address(&full[s])), "r"(512) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(address(stage[s])), "l"(x + 128 * turn), "r"(512), "r"(address(&full[s])) : "memory");
        } else {
            wait(&full[s], lap & 1);
            for (int i = 0; i < 4; ++i) sum += stage[s][32 * i + t];
            unsigned long long token;
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                         : "=l"(token) : "r"(address(&empty[s])) : "memory");
        }
    }
    out[t] = sum;
    __syncthreads();
    stage[0][t] = 2 * sum;
    asm volatile("fence.proxy.async.shared::cta;" :::);
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     :: "l"(out + 32), "r"(address(stage[0])), "r"(128) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(0) : "memory");
    }
}
"""


def test_ring(device: ck.Device) -> None:
    turns = 7
    x, out = ck.arange(128 * turns).astype("float32"), ck.zeros(64)
    ck.Kernel(RING, block=32, plain=True)(x, out, turns, grid=1)
    expected = x.numpy().reshape(turns, 4, 32).sum((0, 1))
    got = out.numpy()
    producer = set(np.flatnonzero(got[:32] != expected))
    assert len(producer) == 1
    np.testing.assert_array_equal(got[32:], 2 * got[:32])


#: An mbarrier at which copies arrive, and then threads, by parity and by the phase at which they did.
ARRIVALS = """
__global__ void arrivals(const float* x, float* y) {
    __shared__ __align__(16) float held[512];
    __shared__ unsigned long long barrier;
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(128));
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned)__cvta_generic_to_shared(held + 4 * t)), "l"(x + 4 * t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at) : "memory");
    unsigned done;
    do asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done) : "r"(at) : "memory");
    while (!done);
    const float sum = held[511 - t] + held[t];
    unsigned long long phase;
    for (int i = 0; i < 1 + (t >= 64); ++i) {
        if (i) asm volatile("bar.sync 2, 128;" ::: "memory");
        if (t < 64) asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(phase) : "r"(at) : "memory");
        else asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(at) : "memory");
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.shared.b64 p, [%0], %1; @!p bra again; }"
                     :: "r"(at), "l"(phase) : "memory");
    }
    if (t < 64) asm volatile("bar.arrive 2, 128;" ::: "memory");
    held[t] = sum;
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(24));
    asm volatile("bar.sync %0, %1;" :: "r"(3), "n"(128) : "memory");
    if (t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at) : "memory");
    y[t] = held[127 - t];
}
"""


def test_arrivals(device: ck.Device) -> None:
    _needs_hopper(device)
    x = np.arange(512, dtype=np.float32) ** 2
    kernel = ck.Kernel(ARRIVALS, block=128, plain=True)
    for checked in [False, True] if device.kind == "host" else [False]:
        y = ck.zeros(128)
        with ck.testing.checked() if checked else contextlib.nullcontext():
            kernel(ck.asarray(x), y, grid=1)
        np.testing.assert_array_equal(y.numpy(), (x[:128] + x[::-1][:128])[::-1])


#: A mistake that is planted in one of these texts, the kind of its report, and a part of the line that it names.
PLANTED = {
    "no wait": (COPIES, 'asm volatile("cp.async.wait_group %0;" :: "n"(1));', "unset", "sum = held"),
    "no wait for the last": (
        COPIES,
        'asm volatile("cp.async.wait_all;" ::: "memory");',
        "unset",
        "= held[i]",
    ),
    "no barrier": (COPIES, "__syncthreads();\n    float", "race", "cp.async.cg.shared.global.L2"),
    "no wait for the producer": (RING, "wait(&full[s], lap & 1);", "unset", "sum += stage"),
    "no fence": (
        RING,
        'asm volatile("fence.proxy.async.shared::cta;" :::);',
        "fault",
        "cp.async.bulk.global",
    ),
    "no wait for stores": (
        RING,
        'asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(0) : "memory");',
        "fault",
        "",
    ),
}


@pytest.mark.parametrize("name", list(PLANTED))
def test_planted_mistakes(name: str) -> None:
    text, removed, kind, line = PLANTED[name]
    assert text.count(removed) == 1
    turns = 7
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        for one in (text, text.replace(removed, "float" if removed.endswith("float") else "", 1)):
            assert not reports, reports
            kernel = ck.Kernel(one, block=32, plain=True)
            if text is COPIES:
                kernel(ck.arange(128).astype("float32"), ck.zeros(672), 70, grid=1)
            else:
                kernel(ck.arange(128 * turns).astype("float32"), ck.zeros(64), turns, grid=1)
    found = [(report.kind, int((report.place or ":0").rpartition(":")[2])) for report in reports]
    lines = [number for number, row in enumerate(one.split("\n"), 1) if line and line in row]
    assert any(report[0] == kind and (not lines or report[1] in lines) for report in found), (found, lines)


#: A plain text that includes the library's headers, and has an asm statement of its own.
WITH_HEADERS = """
#include "prelude/mma.cuh"
#include "prelude/copy_async.cuh"
#include <cuda_fp16.h>
__global__ void multiply(const __half* a, const __half* b, float* d) {
    __shared__ __align__(16) __half of_a[16][16], of_b[16][8];
    const int lane = threadIdx.x;
    copy_async((float4*)&of_a[lane / 2][lane % 2 * 8], (const float4*)(a + 8 * lane));
    if (lane < 16) copy_async((float4*)&of_b[lane][0], (const float4*)(b + 8 * lane));
    asm volatile("cp.async.commit_group;");
    wait_copies<0>();
    __syncwarp();
    unsigned left[4], right[2];
    float sums[4] = {};
    load_matrices(left, &of_a[lane % 16][lane / 16 * 8]);
    load_matrices_transposed(right, of_b[lane % 16]);
#ifdef __CUDA_ARCH__
    mma<__half>(sums, left, right);
#endif
    for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}
"""


def test_headers_of_the_prelude(device: ck.Device) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    d = ck.zeros((16, 8))
    ck.Kernel(WITH_HEADERS, block=32, plain=True)(ck.asarray(a), ck.asarray(b), d, grid=1)
    np.testing.assert_array_equal(d.numpy(), a.astype(float) @ b.astype(float))


def test_inline_ptx_in_a_template(device: ck.Device) -> None:
    head = '<% include "prelude/copy_async.cuh" %>\n'
    text = head + COPIES.replace("__global__ void copies", 'extern "C" __global__ void << name >>')
    x, out = ck.arange(128).astype("float32"), ck.zeros(672)
    ck.Kernel(text, block=32, name="by_template")(x, out, 70, grid=1)
    np.testing.assert_array_equal(out.numpy()[:128], x.numpy())


@pytest.mark.parametrize(("removed", "kind"), [("wait_copies<0>();", "unset"), ("__syncwarp();", "race")])
def test_a_warp_that_reads_a_copy_too_early_is_named(removed: str, kind: str) -> None:
    text = WITH_HEADERS.replace(removed, "")
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        a, b, d = ck.ones((16, 16), "float16"), ck.ones((16, 8), "float16"), ck.zeros((16, 8))
        ck.Kernel(text, block=32, plain=True)(a, b, d, grid=1)
    assert {report.kind for report in reports} == {kind}
    lines = text.split("\n")
    named = [lines[int(report.place.rpartition(":")[2]) - 1].strip().partition("(")[0] for report in reports]
    assert named == ["load_matrices", "load_matrices_transposed"]


#: A warpgroup's product of 64 by 64 by 64 elements by descriptors, with A in shared memory and again in registers.
WGMMA = """
#include <cuda_bf16.h>
__device__ static inline unsigned long long encoded(unsigned long long x) { return (x & 0x3FFFF) >> 0x4; }
__device__ unsigned long long descriptor(const __nv_bfloat16* at) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(at));
    const unsigned long long steps = encoded(16ull) << 16 | encoded(1024ull) << 32;
    return encoded(address) | steps | 1llu << 62;
}
__device__ void multiply(float d[8][4], const __nv_bfloat16* a, const __nv_bfloat16* b, int more) {
    const unsigned long long of_a = descriptor(a), of_b = descriptor(b);
    asm volatile(
        "{\\n.reg .pred p;\\nsetp.ne.b32 p, %34, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{REGISTERS}, "
        "%32, %33, p, %35, %36, %37, %38;\\n}\\n"
        : OUTPUTS
        : "l"(of_a), "l"(of_b), "r"(more), "n"(1), "n"(1), "n"(0), "n"(0));
}
__global__ void product(const __nv_bfloat16* x, const __nv_bfloat16* y, float* out) {
    extern __shared__ __align__(1024) __nv_bfloat16 held[];
    __nv_bfloat16 *a = held, *b = held + 4096;
    const int t = threadIdx.x;
    for (int i = t; i < 4096; i += 128) {
        const int row = i / 64, column = i % 64, at = row * 64 + ((column / 8 ^ row % 8) * 8 + column % 8);
        a[at] = x[i], b[at] = y[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" :::);
    __syncthreads();
    float d[8][4];
    asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");
    for (int k = 0; k < 64; k += 16) multiply(d, a + k, b + k, k);
    asm volatile("wgmma.commit_group.sync.aligned;\\n" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;\\n" :: "n"(0) : "memory");
    for (int i = 0; i < 32; ++i)
        out[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + t % 4 * 2 + i % 2] = (&d[0][0])[i];
}
""".replace("REGISTERS", ", ".join(f"%{i}" for i in range(32))).replace(
    "OUTPUTS", ", ".join(f'"+f"(d[{i // 4}][{i % 4}])' for i in range(32))
)


def test_wgmma(device: ck.Device) -> None:
    random = np.random.default_rng(0)
    x, y = (random.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    out = ck.zeros((64, 64))
    ck.Kernel(WGMMA, block=128, plain=True)(ck.asarray(x), ck.asarray(y), out, grid=1, shared=16384)
    np.testing.assert_array_equal(out.numpy(), x.astype(float) @ y.astype(float).T)


@pytest.mark.parametrize(
    ("removed", "kind"),
    [
        ('asm volatile("wgmma.wait_group.sync.aligned %0;\\n" :: "n"(0) : "memory");', "fault"),
        ('asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");', "fault"),
        ('asm volatile("fence.proxy.async.shared::cta;" :::);', "fault"),
    ],
    ids=["no wait", "no fence", "no fence of memory"],
)
def test_planted_mistakes_of_wgmma(removed: str, kind: str) -> None:
    assert WGMMA.count(removed) == 1
    dynamic = "extern __shared__ __align__(1024) __nv_bfloat16 held[];\n    __nv_bfloat16 *a = held, *b = held + 4096;"
    static = WGMMA.replace(dynamic, "__shared__ __align__(1024) __nv_bfloat16 a[4096], b[4096];")
    with ck.device("host"), ck.testing.checked(collect=True) as reports:
        x = ck.ones((64, 64), "bfloat16")
        for text in (WGMMA, static, WGMMA.replace(removed, "")):
            assert not reports, reports
            ck.Kernel(text, block=128, plain=True)(x, x, ck.zeros((64, 64)), grid=1, shared=16384)
    assert kind in {report.kind for report in reports}, reports


#: Tiles by tensor maps, and what blocks of a cluster do to each other's memory.
TILES = """
#include <cuda.h>
__device__ unsigned address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
__global__ void tiles(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ __align__(128) float tile[8][32];
    __shared__ unsigned long long full;
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&full)));
        asm volatile("fence.mbarrier_init.release.cluster;\\nfence.proxy.async;" :::);
    }
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(address(&full)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4}], [%2];"
                     :: "r"(address(tile)), "l"(&from), "r"(address(&full)), "r"(4), "r"(3) : "memory");
    }
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }"
                 :: "r"(address(&full)) : "memory");
    for (int i = 0; i < 8; ++i) tile[i][t] += 1000;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&to), "r"(address(tile)), "r"(0), "r"(0) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
template <int BLOCKS>
__global__ void __cluster_dims__(BLOCKS * 2, 1, 1) neighbours(int* out) {
    __shared__ int own[32];
    unsigned rank, there, cluster;
    asm volatile("mov.u32 %0, %clusterid.x;\\n" : "=r"(cluster) :);
    const int t = threadIdx.x;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    own[t] = 100 * rank + t;
    asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;" ::: "memory");
    int value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(&own[31 - t])), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    out[32 * blockIdx.x + t] = value + 1000 * cluster;
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""


def test_tiles(device: ck.Device) -> None:
    _needs_hopper(device)
    x, y = ck.arange(16 * 64).astype("float32").reshape(16, 64), ck.zeros((8, 32))
    maps = ck.TensorMap(x, box=(8, 32)), ck.TensorMap(y, box=(8, 32), writes=True)
    ck.Kernel(TILES, block=32, plain=True)["tiles"](*maps, grid=1)
    np.testing.assert_array_equal(y.numpy(), x.numpy()[3:11, 4:36] + 1000)


def test_neighbours(device: ck.Device) -> None:
    _needs_hopper(device)
    out = ck.zeros((4, 32), "int32")
    ck.Kernel(TILES, block=32, plain=True)["neighbours<1>"](out, grid=4)
    own = np.array([131 - np.arange(32), 31 - np.arange(32)])
    np.testing.assert_array_equal(out.numpy(), np.concatenate([own, own + 1000]))
    if device.kind == "host":
        with ck.testing.checked():
            ck.Kernel(TILES, block=32, plain=True)["neighbours<1>"](out, grid=4)
