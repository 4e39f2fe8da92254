"""The host's maths functions, intrinsics and 16-bit floats, against NumPy and the math module in float64."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import ml_dtypes
import numpy as np
import pytest
from host_support import kernel, launch

RNG = np.random.default_rng(7)
N = 512


def spread(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, N)


def positive() -> np.ndarray:
    return np.geomspace(1e-4, 1e4, N)


def each(function, *columns: np.ndarray) -> np.ndarray:
    return np.array([function(*(float(x) for x in row)) for row in zip(*columns, strict=True)])


UNARY = {
    "exp": (np.exp, spread(-20, 20)),
    "exp2": (np.exp2, spread(-20, 20)),
    "exp10": (lambda x: np.power(10.0, x), spread(-8, 8)),
    "expm1": (np.expm1, spread(-3, 3)),
    "log": (np.log, positive()),
    "log1p": (np.log1p, spread(-0.9, 5)),
    "log2": (np.log2, positive()),
    "log10": (np.log10, positive()),
    "logb": (lambda x: np.floor(np.log2(x)), positive() * 1.1),
    "sin": (np.sin, spread(-9, 9)),
    "cos": (np.cos, spread(-9, 9)),
    "tan": (np.tan, spread(-1.4, 1.4)),
    "asin": (np.arcsin, spread(-1, 1)),
    "acos": (np.arccos, spread(-1, 1)),
    "atan": (np.arctan, spread(-9, 9)),
    "sinh": (np.sinh, spread(-9, 9)),
    "cosh": (np.cosh, spread(-9, 9)),
    "tanh": (np.tanh, spread(-4, 4)),
    "asinh": (np.arcsinh, spread(-9, 9)),
    "acosh": (np.arccosh, spread(1, 9)),
    "atanh": (np.arctanh, spread(-0.9, 0.9)),
    "sqrt": (np.sqrt, positive()),
    "rsqrt": (lambda x: 1 / np.sqrt(x), positive()),
    "cbrt": (np.cbrt, spread(-9, 9)),
    "rcbrt": (lambda x: 1 / np.cbrt(x), positive()),
    "erf": (lambda x: each(math.erf, x), spread(-3, 3)),
    "erfc": (lambda x: each(math.erfc, x), spread(-3, 5)),
    "erfcx": (lambda x: each(lambda v: math.exp(v * v) * math.erfc(v), x), spread(-2, 5)),
    "tgamma": (lambda x: each(math.gamma, x), spread(0.3, 9)),
    "lgamma": (lambda x: each(math.lgamma, x), spread(5, 40)),
    "normcdf": (lambda x: each(lambda v: math.erfc(-v / math.sqrt(2)) / 2, x), spread(-4, 4)),
    "floor": (np.floor, spread(-9, 9)),
    "ceil": (np.ceil, spread(-9, 9)),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), np.arange(-256, 256) / 4),
    "trunc": (np.trunc, spread(-9, 9)),
    "rint": (np.rint, np.arange(-256, 256) / 4),
    "nearbyint": (np.rint, np.arange(-256, 256) / 4),
    "fabs": (np.abs, spread(-9, 9)),
    "sinpi": (lambda x: np.sin(np.pi * (x % 2)), np.arange(-256, 256) / 7),
    "cospi": (lambda x: np.cos(np.pi * (x % 2)), np.arange(-256, 256) / 7),
}
INVERSES = {
    "erfinv": (lambda y: each(math.erf, y), spread(-0.999, 0.999)),
    "erfcinv": (lambda y: each(math.erfc, y), spread(0.001, 1.999)),
    "normcdfinv": (lambda y: each(lambda v: math.erfc(-v / math.sqrt(2)) / 2, y), spread(0.001, 0.999)),
}
BINARY = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "remainder": lambda x, y: each(math.remainder, x, y),
    "copysign": np.copysign,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "max": np.fmax,
    "min": np.fmin,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "pow": lambda x, y: np.power(np.abs(x), y),
}
CTYPES = {np.float32: "float", np.float64: "double"}


@cache
def table(arity: int, dtype: type, names: tuple[str, ...], suffix: str = "") -> dict[str, np.ndarray]:
    """Every function of a table in one kernel: its values at its own points."""
    ctype = CTYPES[dtype]
    call = "({0}[i])" if arity == 1 else "({0}[i], b[i])"
    rows = {**UNARY, **{k: (v[0], v[1]) for k, v in INVERSES.items()}}
    if arity == 1:
        points = [rows[name][1] for name in names]
    else:
        first = spread(-5, 5)
        points = [np.abs(first) if name == "pow" else first for name in names]
    points = np.array(points).astype(dtype)
    second = (RNG.permutation(spread(-3, 3)) if arity == 2 else np.zeros(N)).astype(dtype)
    out = np.zeros_like(points)
    body = "int i = threadIdx.x;\n" + "\n".join(
        f"out[{k * N} + i] = {name}{suffix}" + call.format(f"(a + {k * N})") + ";"
        for k, name in enumerate(names)
    )
    launch(kernel(f"const {ctype}* a, const {ctype}* b, {ctype}* out", body), [points, second, out], 1, N)
    return {name: (points[k], second, out[k]) for k, name in enumerate(names)}


def close(got: np.ndarray, wanted: np.ndarray, dtype: type, ulps: float = 8) -> None:
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, wanted, rtol=ulps * eps, atol=ulps * eps * 1e-3)


@pytest.mark.parametrize("dtype", CTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    points, _, got = table(1, dtype, tuple(UNARY))[name]
    wanted = UNARY[name][0](points.astype(np.float64))
    eps = float(np.finfo(dtype).eps)
    # Where a function crosses zero inside its range, the float64 reference of float64 points is itself inexact.
    absolute = {"sinpi": 4, "cospi": 4, "erfc": 0}.get(name, 0.5)
    np.testing.assert_allclose(got, wanted, rtol=(16 if name == "erfc" else 8) * eps, atol=absolute * eps)


@pytest.mark.parametrize("dtype", CTYPES)
@pytest.mark.parametrize("name", INVERSES)
def test_inverse_functions_undo_the_function(name, dtype):
    points, _, got = table(1, dtype, tuple(INVERSES))[name]
    back = INVERSES[name][0](got.astype(np.float64))
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(back, points, rtol=16 * eps, atol=4 * eps)


@pytest.mark.parametrize("dtype", CTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    first, second, got = table(2, dtype, tuple(BINARY))[name]
    close(got, BINARY[name](first.astype(np.float64), second.astype(np.float64)), dtype)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf"])
def test_vectorised_float_functions_all_over_their_range(name):
    """One float in 1999, with the special ones: the distance from the exact value in units in the last place."""
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    x = np.concatenate([np.arange(0, 2**32, 1999, dtype=np.uint32).view(np.float32), special])
    x = np.concatenate([x, np.ones(-len(x) % 256, np.float32)])
    got = np.zeros_like(x)
    body = f"int i = blockIdx.x * 256 + threadIdx.x; y[i] = {name}(x[i]);"
    launch(kernel("const float* x, float* y", body), [x, got], len(x) // 256, 256)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name, np.vectorize(math.erf))(x.astype(np.float64))
        nearest = wanted.astype(np.float32)
        unit = np.spacing(np.abs(nearest)).astype(np.float64)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(got[~finite], nearest[~finite])
    most = 2.5 if name == "tanh" else 2  # as the header says
    assert (np.abs(got[finite] - wanted[finite]) < most * unit[finite]).all()
    np.testing.assert_array_equal(np.signbit(got[x == 0]), np.signbit(nearest[x == 0]))


def test_names_with_the_suffix_f_are_the_float_functions():
    names = tuple(name for name in UNARY if name not in ("rcbrt", "erfcx"))
    plain, suffixed = table(1, np.float32, tuple(UNARY)), table(1, np.float32, names, "f")
    for name in names:
        np.testing.assert_array_equal(suffixed[name][2], plain[name][2], err_msg=name)


def test_integers_are_computed_as_double():
    out = np.zeros(4)
    launch(
        kernel(
            "double* out", "out[0] = exp(1); out[1] = sqrt(2u); out[2] = pow(2, 0.5); out[3] = atan2(1, 2ll);"
        ),
        [out],
    )
    np.testing.assert_allclose(out, [math.e, math.sqrt(2), math.sqrt(2), math.atan2(1, 2)], rtol=1e-15)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("fmax(nan, 1.0f)", 1.0),
        ("max(1.0f, nan)", 1.0),
        ("exp(inf)", math.inf),
        ("exp(-inf)", 0.0),
        ("log(0.0f)", -math.inf),
        ("log(-1.0f)", math.nan),
        ("inf - inf", math.nan),
        ("0.0f * nan", math.nan),
        ("nan == nan ? 1.0f : 0.0f", 0.0),
        ("isnan(nan) ? 1.0f : 0.0f", 1.0),
        ("isinf(-inf) ? 1.0f : 0.0f", 1.0),
        ("isfinite(inf) ? 1.0f : 0.0f", 0.0),
        ("signbit(-0.0f) ? 1.0f : 0.0f", 1.0),
        ("1.0f / -0.0f", -math.inf),
        ("sinpi(1e30f)", 0.0),
        ("erfinv(1.0f)", math.inf),
        ("erfinv(2.0f)", math.nan),
        ("normcdfinv(0.0f)", -math.inf),
        ("erfcx(30.0f)", 0.018795888861416751),
        ("nextafter(1.0f, 2.0f)", 1.00000011920928955),
        ("ldexp(3.0f, 4)", 48.0),
        ("fma(3.0f, 4.0f, 5.0f)", 17.0),
        ("__saturatef(nan)", 0.0),
        ("x[0] * 0.0f", math.nan),
    ],
)
def test_special_values(expression, wanted):
    out = np.zeros(1, np.float32)
    body = f"const float inf = __int_as_float(0x7f800000), nan = __int_as_float(0x7fc00000); out[0] = {expression};"
    launch(kernel("const float* x, float* out", body), [np.array([np.inf], np.float32), out])
    np.testing.assert_allclose(out[0], np.float32(wanted), rtol=2e-7)


def test_functions_with_two_results():
    out = np.zeros(8)
    body = """
    int e; double whole, s, c;
    out[0] = frexp(48.0, &e); out[1] = e;
    out[2] = modf(-3.25, &whole); out[3] = whole;
    sincos(0.5, &s, &c); out[4] = s; out[5] = c;
    sincospi(0.25, &s, &c); out[6] = s; out[7] = c;"""
    launch(kernel("double* out", body), [out])
    root = math.sqrt(0.5)
    wanted = [0.75, 6, -0.25, -3, math.sin(0.5), math.cos(0.5), root, root]
    np.testing.assert_allclose(out, wanted, rtol=1e-15)


INTEGER = {
    "__popc(0xf0f0f0f1u)": 17,
    "__popcll(0xffffffffffffffffull)": 64,
    "__clz(0)": 32,
    "__clz(1)": 31,
    "__clzll(1)": 63,
    "__ffs(0)": 0,
    "__ffs(8)": 4,
    "__ffsll(1ll << 40)": 41,
    "__brev(1u)": 0x80000000,
    "__brevll(2ull) >> 32": 0x40000000,
    "__umulhi(0xffffffffu, 0xffffffffu)": 0xFFFFFFFE,
    "__mulhi(-2, 3)": -1,
    "__umul64hi(~0ull, ~0ull) >> 32": 0xFFFFFFFF,
    "__mul64hi(-2ll, 3ll)": -1,
    "__mul24(0x1000003, 5)": 15,
    "__mul24(-3, 5)": -15,
    "__umul24(0x1000003u, 5u)": 15,
    "__byte_perm(0x33221100u, 0x77665544u, 0x7531u)": 0x77553311,
    "__byte_perm(0x80u, 0u, 0x8888u)": 0xFFFFFFFF,
    "__funnelshift_l(0x80000000u, 1u, 1u)": 3,
    "__funnelshift_r(1u, 1u, 1u)": 0x80000000,
    "__hadd(-3, 0)": -2,
    "__rhadd(-3, 0)": -1,
    "__sad(-5, 7, 1u)": 13,
    "__dp4a(0x01020304, 0x01010101, 5)": 15,
    "min(-1, 1)": -1,
    "max(3u, 2)": 3,
    "max(-1, 1u)": 0xFFFFFFFF,
    "abs(-5)": 5,
    "abs(-5ll)": 5,
    "__float2int_rn(2.5f)": 2,
    "__float2int_rn(-3.5f)": -4,
    "__float2int_rz(-2.9f)": -2,
    "__float2int_ru(2.1f)": 3,
    "__float2int_rd(-2.1f)": -3,
    "__float2int_rn(3e9f)": 2147483647,
    "__float2int_rn(-3e9f)": -2147483648,
    "__float2int_rn(__int_as_float(0x7fc00000))": 0,
    "__double2int_rz(__longlong_as_double(0x7ff8000000000000ll))": -(2**31),
    "__double2uint_rz(__longlong_as_double(0x7ff8000000000000ll))": 2**31,
    "__float2ll_rz(__int_as_float(0x7fc00000))": -(2**63),
    "(long long)(__float2ull_rz(__int_as_float(0x7fc00000)) >> 62)": 2,
    "__float2uint_rn(-1.0f)": 0,
    "__float2uint_rz(5e9f)": 4294967295,
    "__double2ll_rn(1e30)": 2**63 - 1,
    "__double2ll_rn(-9223372036854775808.0)": -(2**63),
    "__double2int_rn(2147483646.5)": 2147483646,
    "__float_as_int(1.0f)": 0x3F800000,
    "__double_as_longlong(1.0)": 0x3FF0000000000000,
    "__double2hiint(1.0)": 0x3FF00000,
    "(long long)__hiloint2double(0x40080000, 0)": 3,
    "(long long)__int2float_rn(16777217)": 16777216,
    "(long long)__int2float_ru(16777217)": 16777218,
    "(long long)__ll2float_rz((1ll << 62) + 1)": 2**62,
    "(long long)__ll2float_ru((1ll << 62) + 1)": 2**62 + 2**39,
    "(long long)__ull2double_rd((1ull << 62) + 1)": 2**62,
    "__float_as_int(__fadd_ru(1.0f, 1e-20f))": 0x3F800001,
    "__float_as_int(__fadd_rd(1.0f, 1e-20f))": 0x3F800000,
    "__float_as_int(__fsub_rz(1.0f, 1e-20f))": 0x3F7FFFFF,
    "__float_as_int(__fmul_rd(16777215.0f, 16777215.0f))": 0x577FFFFE,
    "__float_as_int(__fmul_ru(16777215.0f, 16777215.0f))": 0x577FFFFF,
    "__float_as_int(__fdiv_rd(1.0f, 3.0f))": 0x3EAAAAAA,
    "__float_as_int(__fdiv_ru(1.0f, 3.0f))": 0x3EAAAAAB,
    "__float_as_int(__frcp_rz(-3.0f))": -0x41555556,
    "__float_as_int(__fsqrt_rd(2.0f))": 0x3FB504F3,
    "__float_as_int(__fsqrt_ru(2.0f))": 0x3FB504F4,
    "__float_as_int(__fmaf_ru(1.0f, 1.0f, 1e-20f))": 0x3F800001,
    "__float_as_int(__double2float_rd(0.1))": 0x3DCCCCCC,
    "__float_as_int(__double2float_ru(0.1))": 0x3DCCCCCD,
}


@lru_cache(maxsize=1)
def integers() -> dict[str, int]:
    out = np.zeros(len(INTEGER), np.int64)
    body = "\n".join(f"out[{k}] = (long long)({expression});" for k, expression in enumerate(INTEGER))
    launch(kernel("long long* out", body), [out])
    return dict(zip(INTEGER, out.tolist(), strict=True))


@pytest.mark.parametrize("expression", INTEGER)
def test_integer_intrinsics(expression):
    assert integers()[expression] == INTEGER[expression]


HALVES = {
    "half": ("__half", np.float16, "cuda_fp16.h"),
    "bfloat16": ("__nv_bfloat16", ml_dtypes.bfloat16, "cuda_bf16.h"),
}
ALL_BITS = np.arange(65536, dtype=np.uint16)


def same_numbers(got: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, or NaN in both."""
    numbers = ~np.isnan(wanted.astype(np.float32))
    bits = np.uint16 if got.dtype.itemsize == 2 else np.uint32
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), ~numbers)
    np.testing.assert_array_equal(got.view(bits)[numbers], wanted.view(bits)[numbers])


def half_kernel(which: str, parameters: str, body: str) -> str:
    ctype, _, header = HALVES[which]
    index = "int i = (int)blockIdx.x * 256 + (int)threadIdx.x;"
    return kernel(
        parameters.replace("H*", f"{ctype}*"), index + body.replace("NAME", which), f"#include <{header}>\n"
    )


@pytest.mark.parametrize("which", HALVES)
def test_every_16_bit_pattern_to_float(which):
    dtype = HALVES[which][1]
    x, out = ALL_BITS.view(dtype), np.zeros(65536, np.float32)
    launch(half_kernel(which, "const H* x, float* out", "out[i] = __NAME2float(x[i]);"), [x, out], 256, 256)
    same_numbers(out, x.astype(np.float32))


@pytest.mark.parametrize("which", HALVES)
def test_float_to_16_bits_rounds_to_nearest_even(which):
    dtype = HALVES[which][1]
    numbers = np.sort(
        ALL_BITS.view(dtype).astype(np.float32)[~np.isnan(ALL_BITS.view(dtype).astype(np.float32))]
    )
    with np.errstate(all="ignore"):
        middles = numbers[:-1] / 2 + numbers[1:] / 2
        points = np.concatenate(
            [numbers[:-1], middles, np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf)]
        )
        points = points[: len(points) // 256 * 256]
        points[:3] = np.nan, 3e38, -3e38
        wanted = points.astype(dtype)
    out = np.zeros(len(points), dtype)
    text = half_kernel(which, "const float* x, H* out", "out[i] = __float2NAME(x[i]);")
    launch(text, [points, out], len(points) // 256, 256)
    same_numbers(out, wanted)


@pytest.mark.parametrize("which", HALVES)
def test_directed_rounding_brackets_the_value(which):
    dtype = HALVES[which][1]
    x = (RNG.standard_normal(4096) * 10.0 ** RNG.integers(-6, 4, 4096)).astype(np.float32)
    down, up, zero = (np.zeros(4096, dtype) for _ in range(3))
    body = "down[i] = __float2NAME_rd(x[i]); up[i] = __float2NAME_ru(x[i]); zero[i] = __float2NAME_rz(x[i]);"
    launch(half_kernel(which, "const float* x, H* down, H* up, H* zero", body), [x, down, up, zero], 16, 256)
    low, high = down.astype(np.float32), up.astype(np.float32)
    assert (low <= x).all()
    assert (x <= high).all()
    assert (np.nextafter(down, np.array(np.inf, dtype)).view(np.uint16) == up.view(np.uint16))[low != x].all()
    np.testing.assert_array_equal(zero.astype(np.float32), np.where(x > 0, low, high))


@pytest.mark.parametrize("which", HALVES)
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_half_arithmetic(which, op):
    dtype = HALVES[which][1]
    a, b = (RNG.integers(0, 65536, 65536, dtype=np.uint16).view(dtype) for _ in range(2))
    out = np.zeros(65536, dtype)
    name = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[op]
    body = f"out[i] = i % 2 ? a[i] {op} b[i] : __h{name}(a[i], b[i]);"
    launch(half_kernel(which, "const H* a, const H* b, H* out", body), [a, b, out], 256, 256)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float32), b.astype(np.float32)
        wanted = {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[op].astype(dtype)
    same_numbers(out, wanted)


@pytest.mark.parametrize("which", HALVES)
def test_half_comparisons_and_bits(which):
    dtype = HALVES[which][1]
    a, b = (RNG.integers(0, 65536, 65536, dtype=np.uint16).view(dtype) for _ in range(2))
    b[::3] = a[::3]
    out = np.zeros(65536, np.int32)
    body = """out[i] = (a[i] < b[i]) | (a[i] <= b[i]) * 2 | (a[i] > b[i]) * 4 | (a[i] >= b[i]) * 8 | (a[i] == b[i]) * 16
        | __hne(a[i], b[i]) * 32 | __hisnan(a[i]) * 64 | __hneu(a[i], b[i]) * 128 | (a[i] != b[i]) * 256;"""
    launch(half_kernel(which, "const H* a, const H* b, int* out", body), [a, b, out], 256, 256)
    x, y = a.astype(np.float32), b.astype(np.float32)
    wanted = (x < y) | (x <= y) * 2 | (x > y) * 4 | (x >= y) * 8 | (x == y) * 16 | np.isnan(x) * 64
    # __hne is PTX's setp.ne, which is false of NaN; __hneu and != are setp.neu, as NVRTC's PTX shows.
    wanted = wanted | ((x < y) | (x > y)) * 32 | (x != y) * (128 + 256)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("which", HALVES)
def test_half_functions(which):
    dtype = HALVES[which][1]
    x = spread(0.25, 3).astype(dtype)
    names = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "tanh": np.tanh, "floor": np.floor}
    out = np.zeros((len(names) + 4, N), dtype)
    body = "".join(f"out[{k * N} + i] = h{name}(x[i]);" for k, name in enumerate(names))
    k = len(names)
    body += f"out[{k * N} + i] = __hfma(x[i], x[i], x[i]); out[{(k + 1) * N} + i] = __hmax(-x[i], x[i]);"
    body += f"out[{(k + 2) * N} + i] = -x[i]; out[{(k + 3) * N} + i] = __int2NAME_rn(i * 257);"
    launch(half_kernel(which, "const H* x, H* out", body), [x, out], 2, 256)
    wide = x.astype(np.float64)
    for row, function in zip(out, names.values(), strict=False):
        np.testing.assert_allclose(
            row.astype(np.float64), function(wide), rtol=1.01 * float(ml_dtypes.finfo(dtype).eps), atol=1e-7
        )
    same_numbers(out[k], (wide * wide + wide).astype(np.float32).astype(dtype))
    same_numbers(out[k + 1], x)
    same_numbers(out[k + 2], -x)
    with np.errstate(over="ignore"):
        same_numbers(out[k + 3], (np.arange(N) * 257.0).astype(np.float32).astype(dtype))


def test_double_to_half_rounds_once():
    # Just above the middle of two halves, by less than a float can tell.
    x = np.array(
        [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40]
    )
    half, brain = np.zeros(4, np.uint16), np.zeros(4, np.uint16)
    body = """for (int i = 0; i < 4; ++i) {
        half[i] = __half_as_ushort(__double2half(x[i])); brain[i] = __bfloat16_as_ushort(__double2bfloat16(x[i])); }"""
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    launch(
        kernel("const double* x, unsigned short* half, unsigned short* brain", body, before), [x, half, brain]
    )
    assert half[:2].tolist() == [0x3C01, 0x3C00]
    assert brain[2:].tolist() == [0x3F81, 0x3F80]


def test_pairs_of_halves():
    out = np.zeros(6, np.float32)
    body = """
    __half2 a = __floats2half2_rn(1.5f, -2.0f), b = __float2half2_rn(2.0f);
    float2 c = __half22float2(__hfma2(a, b, b));
    out[0] = c.x; out[1] = c.y;
    __nv_bfloat162 d = __hmul2(__floats2bfloat162_rn(3.0f, 4.0f), __float2bfloat162_rn(0.5f));
    out[2] = __low2float(d); out[3] = __high2float(d);
    out[4] = __half2float(__high2half(a + b)); out[5] = sizeof(__half2) * 10 + alignof(__half2);"""
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    launch(kernel("float* out", body, before), [out])
    assert out.tolist() == [5.0, -2.0, 1.5, 2.0, 0.0, 44.0]
