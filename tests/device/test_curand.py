"""cuRAND's generators in kernels: the numbers of CUDA's header on both devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck

PROGRAM = """
#include <curand_kernel.h>
template <class State> __global__ void draw(
    State* kept, unsigned long long seed, unsigned long long sequence, unsigned long long offset, unsigned* bits,
    float* f, double* d) {
    State s;
    curand_init(seed, sequence, offset, &s);
    for (int i = 0; i < 5; ++i) bits[i] = curand(&s);
    for (int i = 0; i < 2; ++i) f[i] = curand_uniform(&s), d[i] = curand_uniform_double(&s);
    for (int i = 2; i < 5; ++i) f[i] = curand_normal(&s), d[i] = curand_normal_double(&s);
    const float2 pair = curand_normal2(&s);
    f[5] = pair.x, f[6] = pair.y, f[7] = curand_log_normal(&s, 0.5f, 0.25f);
    const double2 wide = curand_normal2_double(&s);
    d[5] = wide.x, d[6] = wide.y, d[7] = curand_log_normal_double(&s, 0.5, 0.25);
    skipahead(11ull, &s);
    bits[5] = curand(&s);
    skipahead_sequence(3ull, &s);
    bits[6] = curand(&s);
    kept[0] = s;
}
__global__ void four(unsigned* bits, float* f, double* d) {
    curandStatePhilox4_32_10_t s;
    curand_init(5, 6, 7, &s);
    const uint4 x = curand4(&s);
    const float4 y = curand_uniform4(&s), z = curand_normal4(&s);
    const double2 w = curand_uniform2_double(&s);
    bits[0] = x.x, bits[1] = x.y, bits[2] = x.z, bits[3] = x.w, bits[4] = curand(&s);
    f[0] = y.x, f[1] = y.y, f[2] = y.z, f[3] = y.w, f[4] = z.x, f[5] = z.y, f[6] = z.z, f[7] = z.w;
    d[0] = w.x, d[1] = w.y;
}
__global__ void lacking(unsigned* out) {
    curandStateMRG32k3a_t s;
    curand_init(1, 2, 3, &s);
    *out = curand(&s);
}
"""
XORWOW, PHILOX = "curandState", "curandStatePhilox4_32_10_t"
#: What NVIDIA's header gives, compiled by g++: seed, sequence and offset; integers; numbers in float, and in double.
CASES: list[tuple[str, tuple[int, int, int], list[int], str, str]] = [
    (
        XORWOW,
        (0, 0, 0),
        [3179217846, 1883133293, 2220552389, 674260989, 306521119, 2094260242, 1559187405],
        "0x1.d99bccp-2 0x1.270bb6p-3 -0x1.685fc6p-3 0x1.188b68p+0 "
        "-0x1.ac1ca6p-3 0x1.97a97p-3 -0x1.379d1cp-4 0x1.1d318ap+1",
        "0x1.51435efcda8a7p-2 0x1.d4ad27a339a4cp-1 0x1.90cdb6fb10f7fp-1 -0x1.f4aba0ff880d2p-2 "
        "-0x1.2723c5dae1458p-1 0x1.f4e367b657685p-5 -0x1.b751c3e57515cp-1 0x1.8750b9523ba25p+0",
    ),
    (
        XORWOW,
        (1234, 77, 5),
        [4113011543, 1602733491, 3563552947, 411432086, 1777568378, 1761605461, 2008256913],
        "0x1.c14a4ep-1 0x1.0dad2p-9 -0x1.c920aap-3 -0x1.42d24ap-2 "
        "0x1.23c614p-1 -0x1.e595d6p+0 -0x1.ba6f2p-3 0x1.cf7e7ap+0",
        "0x1.697ab10697dabp-2 0x1.388b04403cd99p-2 -0x1.3405c08d82f8fp-2 -0x1.9d53d2a27cac2p-2 "
        "-0x1.c9c794be19edbp+0 -0x1.2c19830facae7p-1 -0x1.5b5ce64b2275fp-1 0x1.fe29fffe9f4dbp-1",
    ),
    (
        XORWOW,
        (9223372036854775813, 1099511627779, 34359738369),
        [1564698623, 4090197612, 157931482, 1147424847, 3938479979, 1489713557, 942889960],
        "0x1.265ebep-3 0x1.a9eaaep-1 -0x1.ca2cf2p-1 0x1.4cafcap+0 "
        "-0x1.2fe108p+0 0x1.2d7c96p-3 -0x1.4233b4p-3 0x1.02589ep+1",
        "0x1.ce446770cd977p-2 0x1.8c80f4ff803abp-2 -0x1.0c88babb87da2p+0 0x1.fe488fcec5d41p+0 "
        "-0x1.c5f786fdaed6cp-1 -0x1.b2a6d81ecdc4ap-5 -0x1.9b2d5d155b153p-2 0x1.b74fb3e79b03ap+0",
    ),
    (
        XORWOW,
        (7, 18446744073709551615, 6),
        [3257663009, 2953536106, 2556784107, 1167272569, 2289741950, 2016247110, 3638917229],
        "0x1.05eac8p-3 0x1.4c3f76p-1 -0x1.17e7d6p-4 -0x1.9e1c86p-1 "
        "0x1.7166a4p-2 0x1.bdf7p-4 -0x1.9db9cp-2 0x1.5b341ep+0",
        "0x1.000307b021f4bp-2 0x1.144d6031ac094p-1 0x1.6f5305d0fbd33p+0 0x1.816a648d2b1eap+0 "
        "-0x1.fffd9a0294336p-1 0x1.b1df6d6a8e9f7p+0 -0x1.e1bac45eba01cp-2 0x1.bd20203529dd9p+0",
    ),
    (
        PHILOX,
        (0, 0, 0),
        [1713891541, 3781805453, 3159862348, 2600524760, 4175744164, 2700470914, 3847917452],
        "0x1.72c804p-2 0x1.2fdfecp-5 0x1.2b74e2p+0 0x1.e97e44p-1 "
        "-0x1.0b2438p-1 -0x1.2c9ep+1 -0x1.492a6ap+0 0x1.295dcp+0",
        "0x1.634ae9d8p-1 0x1.3ea8ca8p-6 -0x1.b0ac54cb95be7p-2 -0x1.183d95025de7bp-1 "
        "0x1.b24999171d4bdp-4 -0x1.072264b3fb0fdp-1 -0x1.52b765595e1b1p-2 0x1.026ebd7521e65p+1",
    ),
    (
        PHILOX,
        (1234, 77, 5),
        [1212756008, 792187149, 4214814024, 2094081686, 530129520, 2353438954, 322190666],
        "0x1.71991ep-3 0x1.bfe348p-1 0x1.5f4df2p-1 -0x1.151454p-2 "
        "-0x1.c46cd6p+0 0x1.171672p+1 0x1.389eb4p-4 0x1.a7e41p+0",
        "0x1.ce454358p-1 0x1.769a22ep-3 0x1.fe5eb3a93f78p-1 -0x1.3a4a1d4832127p+0 "
        "0x1.53b3d4cae21e1p+0 0x1.5c114dbf7481cp-2 -0x1.d080d6ad4f3e8p-4 0x1.062851157d42bp+1",
    ),
    (
        PHILOX,
        (9223372036854775813, 1099511627779, 34359738369),
        [749795821, 3404883154, 887284826, 2423029955, 4071980031, 2707623213, 1783679134],
        "0x1.4b4d56p-1 0x1.707f2cp-2 0x1.36c376p-2 0x1.c3269cp+0 "
        "-0x1.a28128p-3 -0x1.9be7a8p-1 0x1.f3f6c4p-4 0x1.88fa2p+0",
        "0x1.1db53c2p-5 0x1.6092177ep-1 -0x1.dc1e678cc74eep-3 -0x1.b3b15c1acf617p-3 "
        "0x1.ddd490cd05bb3p+0 0x1.ac96265d4d071p-1 0x1.d3197a3767f82p-2 0x1.6d2a5d36c6eddp+0",
    ),
    (
        PHILOX,
        (7, 18446744073709551615, 6),
        [90350233, 1919851195, 3093282437, 1943511608, 84228802, 1388173817, 580868386],
        "0x1.8ac1p-1 0x1.c53fe4p-2 -0x1.44ffbep+0 0x1.33f9b6p-2 "
        "-0x1.af3dfep-3 -0x1.ed2f4ep-4 -0x1.5dd8b8p-1 0x1.f80b8p-1",
        "0x1.a52f1b1p-3 0x1.d61699b8p-1 0x1.f14923cc3507ep-1 0x1.cd90315b446f8p-1 "
        "0x1.6cd66a2d0686dp-1 -0x1.105caf492aa05p+0 -0x1.259255db0a2ep-2 0x1.a1dde9df0007dp+0",
    ),
]
FOUR: tuple[list[int], str, str] = (
    [1453444312, 2997619149, 600583240, 4260505171, 205668225],
    "0x1.494ac4p-3 0x1.d4badp-1 0x1.807cc8p-3 0x1.07fe48p-4 "
    "0x1.9052cep-6 -0x1.ff5c58p-5 0x1.935392p-2 -0x1.24b4bap+0",
    "0x1.54f1062196b48p-5 0x1.bec8333c0aabdp-2",
)


def values(texts: str) -> list[float]:
    return [float.fromhex(text) for text in texts.split()]


def launched(kernel: ck.Kernel, *args: Any) -> None:
    try:
        kernel(*args, grid=1, block=1)
    except ck.CompileError as error:
        if "cannot open source file" in str(error):
            pytest.skip("no headers of cuRAND for NVRTC")
        raise


@pytest.fixture(scope="module")
def program() -> ck.Kernel:
    return ck.Kernel(PROGRAM, block=1, plain=True)


@pytest.mark.parametrize("state", [XORWOW, PHILOX])
def test_numbers_are_those_of_cuda(device: ck.Device, program: ck.Kernel, state: str) -> None:
    for name, start, integers, singles, doubles in CASES:
        if name != state:
            continue
        kept = ck.empty(64, "uint8")
        bits, f, d = ck.empty(7, "uint32"), ck.empty(8), ck.empty(8, "float64")
        launched(program[f"draw<{state}>"], kept, *start, bits, f, d)
        assert bits.tolist() == integers
        assert f.tolist()[:2] == values(singles)[:2] and d.tolist()[:2] == values(doubles)[:2]
        # A GPU takes sines and cosines of floats by its quick instructions.
        np.testing.assert_allclose(f.numpy(), values(singles), atol=1e-5)
        np.testing.assert_allclose(d.numpy(), values(doubles), atol=1e-14)


def test_four_numbers_at_a_time(device: ck.Device, program: ck.Kernel) -> None:
    bits, f, d = ck.empty(5, "uint32"), ck.empty(8), ck.empty(2, "float64")
    launched(program["four"], bits, f, d)
    assert bits.tolist() == FOUR[0] and d.tolist() == values(FOUR[2])
    assert f.tolist()[:4] == values(FOUR[1])[:4]
    np.testing.assert_allclose(f.numpy(), values(FOUR[1]), atol=1e-5)


def test_other_generators_are_refused_by_name(program: ck.Kernel) -> None:
    with (
        ck.device("host"),
        pytest.raises(ck.CompileError, match="the host has cuRAND's XORWOW and Philox4_32_10 alone"),
    ):
        program["lacking"](ck.empty(1, "uint32"))


def _times(a: int, b: int, modulus: int) -> int:
    """The product of polynomials over two elements, whose coefficients are bits."""
    result = 0
    while b:
        result ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
        a = min(a, a ^ modulus)
    return result


def test_each_jump_is_the_square_of_the_one_before() -> None:
    text = (Path(ck.__file__).parent / "device/host/runtime/include/cukern_xorwow.h").read_text()
    rows = [row.split(", ") for row in re.findall(r"\{\{(.*?)\}\}", text)]
    powers = [sum(int(word, 16) << 32 * i for i, word in enumerate(row)) for row in rows]
    modulus = 0x100000F0E0F3C0035000621210861003000060001  # the characteristic polynomial of the step
    assert len(powers) == 128 and powers[0] == 2
    for at in (*range(63), *range(64, 127)):
        assert powers[at + 1] == _times(powers[at], powers[at], modulus)
    sequence = powers[63]
    for _ in range(67 - 63):
        sequence = _times(sequence, sequence, modulus)
    assert powers[64] == sequence
