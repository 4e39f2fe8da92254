"""A user's own elementwise functions and reductions, which do what the library's rows do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

softsign = ck.elementwise("softsign", "x / (1 + fabs(x))", vjp=lambda g, x, y: g / (1 + ck.abs(x)) ** 2)
swish = ck.elementwise(
    "swish",
    "x / (T(1) + exp(-beta * x))",
    operands="x, beta",
    vjp=lambda g, x, beta, y: (
        g * (y * beta + ck.sigmoid(beta * x) * (1 - beta * y)),
        g * y * (x - y),
    ),
)
clamped = ck.elementwise("clamped", "x < y ? y : x > z ? z : x", kind="numeric")
length = ck.reduction("length", "x * x", "a + b", "sqrt(a)", identity=0, vjp=lambda g, x, y, n: g * x / y)
#: The root of the weighted mean of squares.
spread = ck.reduction(
    "spread",
    "x * x * w",
    "a + b",
    "sqrt(a / n)",
    operands=["x", "w"],
    identity="0",
    vjp=lambda g, x, w, y, n: (g * x * w / (n * y), g * x * x / (2 * n * y)),
)
most = ck.reduction("most", "x", "a > b ? a : b", identity=-np.inf, kind="numeric")
RNG = np.random.default_rng(5)
X, W = RNG.uniform(-2, 2, (3, 4)), RNG.uniform(1, 2, 4)
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}


def numpys_swish(x: Any, beta: Any) -> Any:
    return x / (1 + np.exp(-beta * x))


def numpys_spread(x: Any, w: Any, **options: Any) -> Any:
    return np.sqrt(np.mean(x * x * w, **options))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_of_floats(device: ck.Device, dtype: str) -> None:
    x, w = ck.asarray(X, dtype=dtype), ck.asarray(W, dtype=dtype)
    wide, weights = (one.astype("float64").numpy() for one in (x, w))
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for made, want in (
        (softsign(x), wide / (1 + np.abs(wide))),
        (swish(x, w), numpys_swish(wide, weights)),
        (swish(x, 2), numpys_swish(wide, 2)),
        (length(x, axis=1), np.sqrt((wide * wide).sum(1))),
        (spread(x, w, axis=(0,), keepdims=True), numpys_spread(wide, weights, axis=0, keepdims=True)),
    ):
        assert made.dtype == x.dtype
        assert_close(made, want, **close)


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_values_of_integers(device: ck.Device, dtype: str) -> None:
    values = np.asarray([[3, 90, 7], [1, 2, 100]], dtype)
    x = ck.asarray(values)
    kept = clamped(x, 2, 50)
    assert kept.dtype == x.dtype
    np.testing.assert_array_equal(kept.numpy(), values.clip(2, 50))
    assert softsign(x).dtype == ck.exp(x).dtype
    assert_close(softsign(x), values / (1 + values.astype(float)), rtol=1e-2)
    for axis in (None, 0):
        largest = most(x, axis=axis)
        assert largest.dtype == x.dtype
        np.testing.assert_array_equal(largest.numpy(), values.max(axis=axis))
    assert most(x[:0], axis=0).tolist() == [np.iinfo(dtype).min] * 3
    with pytest.raises(OverflowError, match="out of bounds"):
        clamped(x, 2, 2**70)


def test_results_of_bool(device: ck.Device) -> None:
    differ = ck.elementwise("differ", "x != y", kind="any", result="bool")
    some = ck.reduction("some", "x > T(2)", "a || b", "a && n > 1", identity=0, kind="any", result="bool")
    x = ck.asarray([[1, 2], [3, 1]], dtype="int16")
    assert differ(x, 1).tolist() == [[False, True], [True, False]]
    assert some(x, axis=1).tolist() == [False, True]
    assert differ(x > 1, True).dtype == some(x).dtype == ck.bool_
    with pytest.raises(OverflowError, match="out of bounds"):  # no comparison, which would be answered
        differ(x, 2**70)


def test_strided_empty_and_0d_arrays(device: ck.Device) -> None:
    x = ck.asarray(X)
    for given, values in ((x.T[::-1], X.T[::-1]), (x[0, 0], X[0, 0]), (x[:0], X[:0])):
        assert_close(softsign(given), values / (1 + np.abs(values)), rtol=1e-14)
        assert_close(length(given), np.sqrt((values * values).sum()), rtol=1e-14)
    assert_close(swish(x[:, :1], ck.asarray(W)), numpys_swish(X[:, :1], W), rtol=1e-14)
    assert_close(spread(x[:, :1], ck.asarray(W), axis=-1), numpys_spread(X[:, :1], W, axis=-1), rtol=1e-14)
    assert float(length(3.0)) == float(length([[3.0, 4.0]], axis=1)) - 2 == 3.0
    assert length(x[:0], axis=0).tolist() == [0.0] * 4


def test_long_reductions(device: ck.Device) -> None:
    x = np.arange(200_000, dtype=np.float32) % 7
    wide = ck.reduction("wide", "x", "a + b", "a / n", identity=0, wide=True)
    assert_close(wide(ck.asarray(x)), x.astype(float).mean(), rtol=1e-6)
    assert most(ck.asarray(x)).item() == 6.0


DERIVATIVES: list[tuple[Callable[..., Any], int]] = [
    (softsign, 1),
    (lambda x: swish(x, x), 1),
    (length, 1),
    (lambda x: length(x, axis=(0, 1), keepdims=True), 1),
    (lambda x, w: spread(x, w, axis=1), 2),
    (lambda x: spread(x, 2.0, axis=0), 1),
    (ck.fuse(lambda x, w: spread(softsign(x) - 2, w * w, axis=0)), 2),
    (ck.fuse(lambda x: swish(softsign(x), 2.0) + x), 1),
]


@pytest.mark.parametrize(("function", "arrays"), DERIVATIVES)
def test_derivatives(device: ck.Device, function: Callable[..., Any], arrays: int) -> None:
    assert gradcheck(function, [ck.asarray(one) for one in (X, W)[:arrays]], order=2)


def test_derivatives_of_third_order(device: ck.Device) -> None:
    third = ck.grad(ck.grad(ck.grad(softsign)))
    assert_close(third(ck.asarray(1.0, dtype="float64")), 6 / 2**4, rtol=1e-12)


def test_fused_functions_are_one_kernel(device: ck.Device, launches: list[str]) -> None:
    x = ck.asarray(X)

    def both(x: Any) -> Any:
        return swish(softsign(x) + 1, 2) * 2

    fused = ck.fuse(both)
    assert_close(fused(x), both(x), rtol=1e-14)
    assert launches == ["both", "softsign", "add", "swish", "multiply"]
    launches.clear()
    end = ck.fuse(lambda x: length(both(x), axis=1))(x)
    assert launches == ["length"]
    assert_close(end, length(both(x), axis=1), rtol=1e-14)
    with pytest.warns(UserWarning, match="add of length, which is not elementwise"):
        assert_close(ck.fuse(lambda x: length(x) + 1)(x), length(x) + 1, rtol=1e-14)


def test_operands_without_a_derivative(device: ck.Device) -> None:
    scaled = ck.elementwise("scaled", "x * y", vjp=lambda g, x, y, r: (g * y, None))
    level = ck.elementwise("level", "floor(x) + y", vjp=lambda g, x, y, r: (0, g))
    x = ck.asarray(W)
    assert ck.grad(lambda x: ck.sum(scaled(1.0, x)))(x).tolist() == [0.0] * 4
    assert ck.grad(lambda x: ck.sum(level(x, x)))(x).tolist() == [1.0] * 4
    plain, fused = most.values, ck.fuse(lambda x: most(2 * most.values(x)))
    for function in (plain, most, fused):
        with ck.Tape() as tape:
            tape.watch(x)
            made, other = function(x), (2 * x).sum()  # a value that nobody differentiates is free to use
        assert tape.gradient(other, x).tolist() == [2.0] * 4
        with ck.Tape() as tape:
            tape.watch(x)
            made = function(x)
        with pytest.raises(ck.GradientError, match="most was made without a vjp: give vjp=.*stop_gradient"):
            tape.gradient(made, x)
        assert ck.grad(lambda x, f=function: (x * f(ck.stop_gradient(x))).sum())(x).shape == (4,)
    assert "Has no derivative" in str(most.values.__doc__) and "``x`` combined by" in str(most.__doc__)


@pytest.mark.parametrize(
    "view", [lambda g: g[None], ck.flip, ck.transpose, lambda g: ck.broadcast_to(g, (4,))]
)
def test_derivatives_have_no_views(device: ck.Device, view: Any) -> None:
    """Their symbols stand for arrays of any shape, also where a fused function is differentiated."""
    viewed = ck.elementwise("viewed", "x * x", vjp=lambda g, x, r: view(g) * x)
    for function in (viewed, ck.fuse(lambda x: viewed(x[1:]))):
        with pytest.raises(
            TypeError, match=r"(an index|of axes by ..|broadcast_to) in viewed, which is not elementwise"
        ):
            ck.grad(lambda x, f=function: ck.sum(f(x)))(ck.asarray(W))


def test_functions_of_one_name_are_apart(device: ck.Device) -> None:
    """One that is defined again, and one with the name of a function of the library's."""
    x = ck.asarray([1.0, 2.0])
    assert [ck.elementwise("exp", code)(x).tolist() for code in ("x + 1", "x + 2")] == [
        [2.0, 3.0],
        [3.0, 4.0],
    ]
    assert_close(ck.exp(x), np.exp([1.0, 2.0]), rtol=1e-6)
    totals = [
        ck.reduction("sum", "x", code, identity=one)(x).item() for code, one in (("a + b", 0), ("a * b", 1))
    ]
    assert (*totals, ck.sum(x).item()) == (3.0, 2.0, 3.0)


def test_negative_integers_stand_behind_a_minus(device: ck.Device) -> None:
    minus = ck.elementwise("minus", "x-y", kind="numeric")
    for dtype in ("int32", "int64"):
        assert ck.fuse(lambda x: minus(x, -5))(ck.asarray([1, 2], dtype=dtype)).tolist() == [6, 7]


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (ValueError, "elementwise: name: expected letters.*'a b'", lambda: ck.elementwise("a b", "x")),
        (ValueError, "name: 'less' is taken", lambda: ck.elementwise("less", "x")),
        (
            ck.CompileError,
            r"f: code: expected a C\+\+ expression.*\n.*\(1 \+ x",
            lambda: ck.elementwise("f", "(1 + x"),
        ),
        (ck.CompileError, "f: code", lambda: ck.elementwise("f", "x; return")),
        (
            ValueError,
            "f: code: unknown operand w in 'x [*] w'; expected x, y, z; operands=",
            lambda: ck.elementwise("f", "x * w"),
        ),
        (
            ValueError,
            "f: code: expected the value alone, 'x == y'",
            lambda: ck.elementwise("f", "z = x == y"),
        ),
        (
            ValueError,
            "expected the value alone, 'a / n'",
            lambda: ck.reduction("f", "x", "a", "y = a / n", identity=0),
        ),
        (ValueError, "unknown operand xy", lambda: ck.elementwise("f", "x * xy")),
        (ValueError, "unknown operand w .* expected x$", lambda: ck.elementwise("f", "x * w", operands="x")),
        (ValueError, "expected an operand x, y or z in '1'", lambda: ck.elementwise("f", "1")),
        (ValueError, "operands: y is not in code", lambda: ck.elementwise("f", "x", operands="x y")),
        (ValueError, "operands: T ", lambda: ck.elementwise("f", "x", operands="x T")),
        (ValueError, "operands: expected names", lambda: ck.elementwise("f", "x", operands=[])),
        (ValueError, "kind: expected one of 'real", lambda: ck.elementwise("f", "x", kind="float")),  # type: ignore
        (ValueError, "result: expected one of", lambda: ck.elementwise("f", "x", result="int")),  # type: ignore
        (TypeError, "f: vjp: .* g, x, the result", lambda: ck.elementwise("f", "x", vjp=lambda g, x: g)),
        (ValueError, "unknown operand c in", lambda: ck.reduction("f", "x", "a + c", identity=0)),
        (
            ValueError,
            "post_map_expr: unknown .*a, n",
            lambda: ck.reduction("f", "x", "a + b", "m", identity=0),
        ),
        (ValueError, "identity: unknown operand z", lambda: ck.reduction("f", "x", "a + b", identity="z")),
        (TypeError, "identity: .*NoneType", lambda: ck.reduction("f", "x", "a + b", identity=None)),  # type: ignore
        (ck.CompileError, "f: reduce_expr", lambda: ck.reduction("f", "x", "a +", identity=0)),
        (TypeError, "of values", lambda: ck.reduction("f", "x", "a + b", identity=0, vjp=lambda g, x, y: g)),
        (TypeError, r"swish: expected 2 operand\(s\), x, beta; got 1", lambda: swish(1.0)),
        (TypeError, "length: expected 1", lambda: length(1.0, 2.0)),
        (TypeError, "swish: beta: expected an array", lambda: swish(1.0, "1")),
        (TypeError, "clamped: expected numbers, got bool", lambda: clamped(True, False, True)),
        (ValueError, "swish: shapes", lambda: swish(ck.zeros(2), ck.zeros(3))),
        (ValueError, "spread: shapes", lambda: spread(ck.zeros(2), ck.zeros(3))),
        (ValueError, "length: axis 1 is out of bounds", lambda: length(ck.zeros(2), axis=1)),
    ],
)
def test_errors_name_what_is_wrong(error: type[Exception], message: str, make: Callable[[], object]) -> None:
    with ck.device("host"), pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("error", "message", "vjp"),
    [
        (ValueError, "f: vjp: expected 2 cotangents, of x, y, got 1", lambda g, *rest: g),
        (TypeError, "f: vjp: .* of y .* got Array", lambda g, *rest: (g, ck.zeros(4))),
        (TypeError, "f: vjp: .* of x .* got float", lambda g, *rest: (1.5, g)),
    ],
)
def test_what_a_vjp_returns_is_looked_at(error: type[Exception], message: str, vjp: Any) -> None:
    with ck.device("host"):
        x = ck.asarray(W)
        functions = (
            ck.elementwise("f", "x * y", vjp=vjp),
            ck.reduction("f", "x * y", "a + b", identity=0, vjp=vjp),
        )
        for function in functions:
            with pytest.raises(error, match=message):
                ck.grad(lambda x, function=function: ck.sum(function(x, x)))(x)


def test_what_does_not_compile_is_reported_with_its_text(device: ck.Device) -> None:
    for make in (
        lambda: ck.elementwise("bad", "nosuch(x)"),
        lambda: ck.reduction("bad", "x", "nosuch(a, b)", identity=0),
    ):
        with pytest.raises(ck.CompileError, match="nosuch"):
            make()(ck.asarray([1.0]))


def _doubled(g: Any, x: Any, *rest: Any) -> Any:
    return 2 * g * x


def test_functions_are_pickled(device: ck.Device) -> None:
    squared = ck.elementwise("squared", "x * x", vjp=_doubled)
    energy = ck.reduction("energy", "x * x", "a + b", identity=0, vjp=_doubled)
    x = ck.asarray(W)
    for function in (squared, energy):
        again = pickle.loads(pickle.dumps(function))
        assert again(x).tolist() == function(x).tolist()
        assert_close(ck.grad(lambda x, f=again: ck.sum(f(x)))(x), 2 * W)
