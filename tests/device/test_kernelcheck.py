"""``kernelcheck``: mistakes planted in derivatives are found, and right functions pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wrong_backwards import FAMILIES, Family

import cukern as ck
from cukern.testing import KernelcheckError, kernelcheck
from cukern.testing.slopes import derivative

#: What runs by default, with the sizes and types that it needs.
QUICK = {
    ("swish", "third block"): ([67], []),
    ("differences, float32 alone", ""): ([33], []),
    ("differences, float32 alone", "strides ignored"): ([33], []),
}
#: What is tried by default with the sizes and types that kernelcheck chooses itself: a family's right backward and one
#: of its mistakes.
WHOLE = [("gather", ""), ("gather", "overwritten")]


@pytest.fixture(autouse=True)
def on_the_host() -> object:
    with ck.device("host"):
        yield


def planted(quick: bool) -> list[object]:
    cases = [(family, mistake) for family in FAMILIES for mistake in ("", *family.mistakes)]
    chosen = [case for case in cases if not quick or (case[0].name, case[1]) in QUICK]
    return [
        pytest.param(
            *case,
            id=f"{case[0].name}: {case[1] or 'right'}",
            marks=[] if quick or (case[0].name, case[1]) in WHOLE else pytest.mark.thorough,
        )
        for case in chosen
    ]


def outcome(family: Family, mistake: str, **options: object) -> KernelcheckError | None:
    try:
        kernelcheck(family.make(mistake), family.args(), order=1, **options)
    except KernelcheckError as error:
        return error
    return None


@pytest.mark.parametrize(("family", "mistake"), planted(True))
def test_a_mistake_is_found_where_it_shows(family: Family, mistake: str) -> None:
    sizes, types = QUICK[family.name, mistake]
    found = outcome(family, mistake, sizes=sizes, dtypes=types)
    assert (found is not None) == bool(mistake), found
    if mistake == "third block":
        assert "size 2 is 67" in str(found) and "args[0], element (" in str(found)
        assert "written by dx of <swish_backward" in str(found)


@pytest.mark.parametrize(("family", "mistake"), planted(False))
def test_each_mistake_is_found_and_nothing_else(family: Family, mistake: str) -> None:
    found = outcome(family, mistake)
    assert (found is not None) == bool(mistake), found


def test_dual_numbers_move_along_a_direction() -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = pow(x[i], << elem >>(3)) + 2 * tanh(x[i]) / fmax(x[i], 0.5f) - (x[i] > 1 ? exp(x[i]) : 1);
}"""
    kernel = ck.Kernel(text, name="several")

    def several(x: ck.Array) -> ck.Array:
        y = ck.empty_like(x)
        kernel(x, y, x.size)
        return 2 * y

    x = np.array([0.25, 0.75, 2.0])
    (values,), (slopes,) = derivative(several, [ck.asarray(x, dtype="float32")], [np.array([1.0, 2.0, -1.0])])
    larger = np.maximum(x, 0.5)
    slope = (
        3 * x**2 + 2 / np.cosh(x) ** 2 / larger - 2 * np.tanh(x) / larger**2 * (x > 0.5) - np.exp(x) * (x > 1)
    )
    want = x**3 + 2 * np.tanh(x) / larger - np.where(x > 1, np.exp(x), 1)
    np.testing.assert_allclose(values, 2 * want, rtol=1e-14)
    np.testing.assert_allclose(slopes, 2 * slope * [1, 2, -1], rtol=1e-13)


def test_dual_numbers_have_the_slopes_of_each_function() -> None:
    of_x = [
        *(
            "exp exp2 exp10 expm1 log log1p log2 log10 sin cos tan sinpi cospi asin acos atan sinh cosh".split()
        ),
        *("tanh asinh atanh sqrt rsqrt cbrt erf erfc normcdf floor ceil round trunc rint nearbyint".split()),
    ]
    of_two = ["hypot", "atan2", "fmax", "fmin", "copysign", "fmod"]
    rows = [f"{name}(x)" for name in of_x] + [
        "acosh(x + 1)",
        "fabs(a)",
        "abs(b)",
        "pow(x, a)",
        "pow(x, -2)",
        "pow(2, a)",
    ]
    rows += [f"{name}({pair})" for name in of_two for pair in ("a, b", "b, a", "a, 0.7", "-0.7, a")]
    rows += [
        "fma(x, a, b)",
        "a / b - b / x",
        "+a - -b",
        "x * (a + 2)",
        "isfinite(a) && !signbit(a) ? a : 2 * b",
    ]
    rows += [f"__shfl_{name}_sync(0xffffffffu, a, 1)" for name in ("up", "down", "xor")] + [
        "__shfl_sync(0xffffffffu, a, i / 2)"
    ]
    text = """
using T = << elem >>;
extern "C" __global__ void << name >>(const T* xs, const T* as, const T* bs, T* y, T* sum) {
    const int i = threadIdx.x;
    const T x = xs[i], a = as[i], b = bs[i];
    ROWS
    atomicAdd(sum, a);
    T own = a;
    own += b, own *= x, own -= a, own /= b;
    y[32 * COUNT + i] = own;
}"""
    lines = (f"y[{32 * number} + i] = {row};" for number, row in enumerate(rows))
    text = text.replace("ROWS", "\n    ".join(lines)).replace("COUNT", str(len(rows)))
    kernel = ck.Kernel(text, name="each", block=32)

    def each(x: ck.Array, a: ck.Array, b: ck.Array) -> tuple[ck.Array, ck.Array]:
        y, sums = ck.zeros((len(rows) + 1, 32), x.dtype), ck.zeros(1, x.dtype)
        kernel(x, a, b, y, sums, grid=1)
        return y, sums

    rng = np.random.default_rng(0)
    at = [rng.uniform(0.1, 0.45, 32), *(rng.uniform(0.3, 3, (2, 32)) * rng.choice([-1, 1], (2, 32)))]
    for moves in ((True, True, True), (False, True, False), (True, False, True)):
        directions = [rng.standard_normal(32) * moved for moved in moves]
        values, slopes = derivative(each, [ck.asarray(one) for one in at], directions)
        step = 1e-5
        low, usual, high = (
            each(*(ck.asarray(one + by * d) for one, d in zip(at, directions, strict=True)))
            for by in (-step, 0, step)
        )
        for number in range(2):
            want = (high[number].numpy() - low[number].numpy()) / (2 * step)
            np.testing.assert_allclose(values[number], usual[number].numpy(), rtol=1e-14)
            if number == 1 and not moves[1]:  # the sum of what does not move
                assert not slopes[number].any()
                continue
            np.testing.assert_allclose(slopes[number], want, rtol=1e-6, atol=1e-7)


def test_what_does_not_move_has_no_slope_beside_infinities() -> None:
    text = """
extern "C" __global__ void << name >>(const << elem >>* x, const << elem >>* c, << elem >>* y) {
    y[0] = fmod(x[0], c[0]);
    y[1] = x[0] + c[1] * c[1] - 1 / c[1];
}"""
    kernel = ck.Kernel(text, name="beside", block=1)

    def beside(x: ck.Array, c: ck.Array) -> ck.Array:
        y = ck.zeros(2, x.dtype)
        kernel(x, c, y, grid=1)
        return y

    _, (slopes,) = derivative(
        beside, [ck.asarray([1e200]), ck.asarray([1e-200, np.inf])], [np.array([3.0]), None]
    )
    np.testing.assert_array_equal(slopes, [3, 3])


class _OnceDifferentiable(ck.Function):
    """A cube whose gradient is right, and is made by a backward that no tape can differentiate."""

    @staticmethod
    def forward(ctx: Any, x: ck.Array) -> ck.Array:
        ctx.save_for_backward(x)
        return ck.asarray(x.numpy() ** 3)

    @staticmethod
    def backward(ctx: Any, dy: ck.Array) -> ck.Array:
        (x,) = ctx.saved_arrays
        return ck.asarray(3 * x.numpy() ** 2 * dy.numpy())


def test_the_order_that_is_asked_for_is_checked() -> None:
    options: dict[str, Any] = {"dtypes": ["float64"], "sizes": []}
    kernelcheck(_OnceDifferentiable.apply, [ck.asarray([0.5, 2.0], dtype="float64")], order=1, **options)
    with pytest.raises(KernelcheckError):
        kernelcheck(_OnceDifferentiable.apply, [ck.asarray([0.5, 2.0], dtype="float64")], order=2, **options)


def test_arguments_that_are_none() -> None:
    with pytest.raises(TypeError, match="args: there is no floating array"):
        kernelcheck(ck.negative, [ck.asarray([1, 2])])
    with pytest.raises(ValueError, match="order: expected at least 0, got -1"):
        kernelcheck(ck.negative, [ck.asarray([1.0])], order=-1)
    with pytest.raises(TypeError, match="dtypes: expected floating types, got int32"):
        kernelcheck(ck.negative, [ck.asarray([1.0])], dtypes=["int32"], sizes=[])
    with pytest.raises(ZeroDivisionError):
        kernelcheck(lambda x: x / (1 // 0), [ck.asarray([1.0])])


def test_kernels_of_jit_are_watched_and_compared_with_the_operations() -> None:
    def both(x: ck.Array) -> dict[str, ck.Array]:
        y = ck.exp(x)
        return {"given": x, "more": y + 1, "turned": (y * 2).T}

    f, x = ck.jit(both), ck.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    options: Any = {"order": 1, "dtypes": ["float32"], "sizes": []}
    text = f.launches(x)[0].text()
    f.replace(0, text.replace("a0 =", "a0 = 0 +"), x)
    assert "as given, float32" in kernelcheck(f, [x], **options).cases
    line = both.__code__.co_firstlineno + 2
    f.replace(0, text.replace("y1[j] =", "y1[j] = (j == 5) +"), x)
    with pytest.raises(KernelcheckError) as wrong:
        kernelcheck(f, [x], **options)
    (finding,) = wrong.value.findings
    assert finding.kind == "jit" and finding.place == f"{__file__}:{line}"
    assert finding.message.startswith("output 2, element (2, 1): ") and "1 of 12 elements" in finding.message
    f.replace(0, text.replace("y0[j] =", "y0[j + 1] ="), x)
    with pytest.raises(KernelcheckError) as outside:
        kernelcheck(f, [x], **options)
    finding = outside.value.findings[0]
    assert finding.kind == "fault" and finding.place.startswith("<replacement of exp_add_multiply")
    assert finding.message.startswith(
        f"test_kernelcheck.py:{line - 1},{line}: exp_add_multiply_float32_1: out of b"
    )
