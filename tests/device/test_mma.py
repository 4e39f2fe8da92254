"""The instructions of tensor cores, fragment by fragment, and a product made of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cukern as ck

LANES = np.arange(32)
G, Q = LANES // 4, LANES % 4
TYPES = {
    "float16": ("__half", 16),
    "bfloat16": ("__nv_bfloat16", 16),
    "float32": ("float", 8),
    "float8_e4m3fn": ("E4M3", 32),
}


def kernel(parameters: str, body: str) -> ck.Kernel:
    text = (
        f'<% include "prelude/mma.cuh" %>\nextern "C" __global__ void << name >>({parameters}) {{\n{body}\n}}'
    )
    return ck.Kernel(text, name="of_a_warp")


def words_of(matrix: np.ndarray, rows: np.ndarray, first: np.ndarray, parts: int) -> np.ndarray:
    """For each lane the word of elements ``first`` and on of one of the rows."""
    picked = matrix[rows[:, None], first[:, None] + np.arange(parts)]
    return np.ascontiguousarray(picked).view(np.uint32)[:, 0]


def fragments(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The words of A (16, K) and of B (K, 8) that each lane holds."""
    parts, half = 4 // a.itemsize, a.shape[1] // 2
    of_a = [words_of(a, G + 8 * (i % 2), half * (i // 2) + Q * parts, parts) for i in range(4)]
    of_b = [words_of(np.ascontiguousarray(b.T), G, half * i + Q * parts, parts) for i in range(2)]
    return np.stack(of_a, axis=1), np.stack(of_b, axis=1)


def matrix_of(d: np.ndarray) -> np.ndarray:
    """D (16, 8) of what each lane holds."""
    made = np.zeros((16, 8), d.dtype)
    for i in range(4):
        made[G + 8 * (i // 2), 2 * Q + i % 2] = d[:, i]
    return made


def product(device: ck.Device, name: str, whole: bool) -> None:
    """A product of random factors, or of ``whole`` numbers, whose sums are exact."""
    rng, (ctype, depth) = np.random.default_rng(0), TYPES[name]
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    draw = (lambda shape: rng.integers(-4, 5, shape)) if whole else rng.standard_normal
    a, b = (draw(shape).astype(dtype) for shape in ((16, depth), (depth, 8)))
    if name == "float32":  # tf32 has 10 bits of mantissa
        a, b = ((x.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32) for x in (a, b))
    c = draw((32, 4)).astype(np.float32)
    exact = matrix_of(c).astype(float) + a.astype(float) @ b.astype(float)
    given = [ck.array(x, device=device) for x in (*fragments(a, b), c)]
    multiply = kernel(
        "const unsigned* a, const unsigned* b, float* d",
        f"""
        float own_d[4];
        unsigned own_a[4], own_b[2];
        for (int i = 0; i < 4; ++i) own_d[i] = d[4 * threadIdx.x + i], own_a[i] = a[4 * threadIdx.x + i];
        for (int i = 0; i < 2; ++i) own_b[i] = b[2 * threadIdx.x + i];
        mma<{ctype}>(own_d, own_a, own_b);
        for (int i = 0; i < 4; ++i) d[4 * threadIdx.x + i] = own_d[i];
        """,
    )
    multiply(*given, grid=1, block=32)
    bound = 0 if whole else 1e-5
    np.testing.assert_allclose(matrix_of(given[2].numpy()), exact, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", TYPES)
def test_products(device: ck.Device, name: str) -> None:
    if name == "float8_e4m3fn" and device.kind != "host" and device.properties.compute_capability < (8, 9):
        pytest.skip("needs a GPU of compute capability 8.9")
    for whole in (False, True):
        product(device, name, whole)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_loads_and_stores_of_matrices(device: ck.Device, count: int, transposed: bool) -> None:
    given = np.arange(8 * count * 8, dtype=np.uint16).reshape(count, 8, 8) + 7
    of_lanes = given.swapaxes(1, 2) if transposed else given
    wanted = np.ascontiguousarray(of_lanes).view(np.uint32).reshape(count, 32).T
    suffix = "_transposed" if transposed else ""
    move = kernel(
        "const unsigned short* given, unsigned* words, unsigned short* again",
        f"""
        __shared__ __align__(16) unsigned short tile[{8 * count}][8], other[{8 * count}][8];
        for (int i = threadIdx.x; i < {64 * count}; i += 32) tile[i / 8][i % 8] = given[i];
        __syncwarp();
        const int row = threadIdx.x % {8 * count};
        unsigned own[{count}];
        load_matrices{suffix}(own, tile[row]);
        for (int i = 0; i < {count}; ++i) words[{count} * threadIdx.x + i] = own[i];
        store_matrices{suffix}(other[row], own);
        __syncwarp();
        for (int i = threadIdx.x; i < {64 * count}; i += 32) again[i] = other[i / 8][i % 8];
        """,
    )
    words, again = ck.zeros((32, count), "uint32", device), ck.zeros(given.shape, "uint16", device)
    move(ck.asarray(given, device=device), words, again, grid=1, block=32)
    np.testing.assert_array_equal(words.numpy(), wanted)
    np.testing.assert_array_equal(again.numpy(), given)


def test_rounding_to_tf32(device: ck.Device) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(61), [np.inf, -np.inf, 0.0]]).astype(np.float32)
    out = ck.zeros(64, device=device)
    body = "y[threadIdx.x] = __int_as_float(as_tf32(x[threadIdx.x]));"
    kernel("const float* x, float* y", body)(ck.asarray(x, device=device), out, grid=1, block=64)
    bits = x.view(np.uint32).astype(np.uint64)
    wanted = np.where(np.isfinite(x), (bits + 0x1000) & 0xFFFFE000, bits).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(out.numpy(), wanted)


def test_e4m3(device: ck.Device) -> None:
    """All of its numbers, the middles between them and what is beside those, and what is too large."""
    if device.kind != "host" and device.properties.compute_capability < (8, 9):
        pytest.skip("needs a GPU of compute capability 8.9")
    codes = np.arange(256, dtype=np.uint8)
    numbers = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    rising = np.sort(numbers[np.isfinite(numbers)])
    middles = (rising[1:] + rising[:-1]) / 2
    beside = [np.nextafter(middles, to) for to in (np.float32(-np.inf), np.float32(np.inf))]
    others = [448.0, 456.0, 464.0, 480.0, 1e30, np.inf, np.nan, 1e-30, 1e-45, 2.0**-10, -0.0]
    x = np.concatenate([numbers, middles, *beside, others, np.negative(others)]).astype(np.float32)
    x = np.pad(x, (0, -len(x) % 4))
    words, back = ck.zeros(len(x) // 4, "uint32", device), ck.zeros(256, device=device)
    body = """const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < n) words[i] = as_e4m3x4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
    if (i < 256) back[i] = as_float(E4M3{(unsigned char)i});"""
    convert = kernel("const float* x, unsigned* words, float* back, int n", body)
    convert(ck.asarray(x, device=device), words, back, len(x), grid=2, block=256)
    np.testing.assert_array_equal(back.numpy(), numbers)
    np.testing.assert_array_equal(back.numpy()[[0x7F, 0xFF]].view(np.uint32), 0x7FFFFFFF)
    made = words.numpy().view(np.uint8)
    wanted = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    np.testing.assert_array_equal(made & 0x7F == 0x7F, np.isnan(x))
    np.testing.assert_array_equal(made[~np.isnan(x)], wanted[~np.isnan(x)])


HALF = "if (threadIdx.x < 16)"


@pytest.mark.parametrize(
    ("body", "threads", "message"),
    [
        (
            f"{HALF} mma<float>(d, a, b); else __syncwarp();",
            32,
            r"15 more at mma<float>(.|\n)*15 more at __syncwarp",
        ),
        (f"{HALF} mma<float>(d, a, b); else mma<__half>(d, a, b);", 32, r"15 more at mma<__half>"),
        ("mma<float>(d, a, b);", 31, "all 32 lanes"),
        ("load_matrices(b, (char*)x + 2);", 32, "no multiple of 16 bytes"),
    ],
    ids=["half of a warp", "two kinds", "a warp that is not whole", "misaligned"],
)
def test_what_the_host_reports(body: str, threads: int, message: str) -> None:
    text = f"float d[4] = {{}};\nunsigned a[4] = {{}}, b[2] = {{}};\n{body}\nx[threadIdx.x] = d[0] + b[0];"
    x: Any = ck.zeros(32, device="host")
    with pytest.raises(ck.KernelFault, match=message):
        kernel("float* x", text)(x, grid=1, block=threads)


def test_wgmma_on_the_host_takes_no_shared_memory() -> None:
    text = """<% include "prelude/wgmma.cuh" %>
    extern "C" __global__ void << name >>(float* x) {
        float d[128] = {};
        const SharedMatrix none(x, 16, 1024);
        if (x[0] > 0) wgmma<__half, 256, true, true>(d, none, none, true);
        x[0] = d[0];
    }"""
    assert ck.Kernel(text, name="unused", block=128).bind("host").attributes["shared_size_bytes"] == 0
