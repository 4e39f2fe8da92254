"""What elementwise functions have of NumPy's ufuncs, beside NumPy: arguments and methods; ``out`` of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.array import operators
from cukern.autodiff import tape as tape_state
from cukern.index import fold

VALUES = np.random.default_rng(0).integers(1, 9, (5, 4))
#: Combined by a reduction, in pairs, and in turn.
COMBINED = ["add", "bitwise_xor", "subtract"]


@pytest.mark.parametrize("name", [*COMBINED, "maximum", "logical_and"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reduce(name: str, axis: int) -> None:
    ours, theirs = getattr(ck, name), getattr(np, name)
    for options in ({}, {"keepdims": True}):
        made = ours.reduce(ck.asarray(VALUES), axis, **options)
        expected = theirs.reduce(VALUES, axis, **options)
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("name", COMBINED)
def test_accumulate_and_slices(name: str) -> None:
    ours, theirs, x = getattr(ck, name), getattr(np, name), ck.asarray(VALUES)
    np.testing.assert_array_equal(ours.accumulate(x, 1), theirs.accumulate(VALUES, 1))
    for dtype in ("bool", "int8"):
        given = VALUES % 2 if dtype == "bool" else VALUES
        for method in ("reduce", "accumulate"):
            try:
                expected = getattr(theirs, method)(given, 1, dtype)
            except TypeError:
                continue
            np.testing.assert_array_equal(
                getattr(ours, method)(ck.asarray(given), 1, dtype), expected, strict=True
            )
    starts = [0, 3, 2, 2]
    np.testing.assert_array_equal(ours.reduceat(x, starts), theirs.reduceat(VALUES, starts))
    np.testing.assert_array_equal(ours.outer(x[0], [1, 2]), theirs.outer(VALUES[0], [1, 2]))


def test_reduce_with_options() -> None:
    x, mask = ck.asarray(VALUES), VALUES > 3
    for name in ("add", "bitwise_xor"):
        ours, theirs = getattr(ck, name), getattr(np, name)
        options: dict[str, Any] = {"axis": (0, 1), "initial": 5}
        made = ours.reduce(x, where=ck.asarray(mask), **options)
        np.testing.assert_array_equal(made, theirs.reduce(VALUES, where=mask, **options))
    assert ck.bitwise_xor.reduce(ck.zeros((0, 2), "int64")).tolist() == [0, 0]
    out = ck.zeros(4, "int64")
    assert ck.add.reduce(x, out=out) is out and out.tolist() == VALUES.sum(0).tolist()


def test_reduce_combines_the_first_number_once_and_in_order() -> None:
    x, mask = VALUES[:, :2] * 0.5, VALUES[:, :2] > 3
    for name in ("subtract", "divide", "hypot", "logaddexp", "fmax"):
        ours, theirs = getattr(ck, name), getattr(np, name)
        for chosen in (mask, True):
            where = ck.asarray(mask) if chosen is mask else True
            made = ours.reduce(ck.asarray(x), where=where, initial=2.0)
            np.testing.assert_allclose(made, theirs.reduce(x, where=chosen, initial=2.0), rtol=1e-12)
    odd = ck.logical_xor.reduce(ck.asarray(mask), where=ck.asarray(mask), initial=True)
    np.testing.assert_array_equal(odd, np.logical_xor.reduce(mask, where=mask, initial=True))
    np.testing.assert_array_equal(ck.subtract.reduce(ck.ones((0, 2)), initial=2.0), [2.0, 2.0])
    assert ck.add.reduce(ck.asarray(3)).item() == 3


def test_slices_of_any_length() -> None:
    x = np.random.default_rng(1).uniform(0.5, 2, (23, 2))
    for name, starts in (
        ("hypot", [0, 7, 7, 20, 3]),
        ("subtract", [0, 7, 7, 20, 3]),
        ("add", [22]),
        ("add", []),
    ):
        places = np.asarray(starts, np.int64)
        made = getattr(ck, name).reduceat(ck.asarray(x), places)
        np.testing.assert_allclose(made, getattr(np, name).reduceat(x, places), rtol=1e-12)


@pytest.mark.parametrize(("shape", "axis"), [((700,), 0), ((5, 300, 3), 1), ((300, 70), 0), ((40000,), 0)])
def test_slices_of_any_starts(device: ck.Device, shape: tuple[int, ...], axis: int) -> None:
    """Rising or not, few long ones and many short ones."""
    rng = np.random.default_rng(2)
    n, x = shape[axis], rng.integers(1, 5, shape)
    many = rng.integers(0, n, n // 3)
    for starts in (
        np.array([0]),
        np.array([0, n // 2, n - 1]),
        np.array([3, 1, 2, 2, n - 1, 0]),
        np.sort(many),
        many,
    ):
        for name in ("add", "maximum", "bitwise_xor", "subtract", "logical_and", "gcd"):
            expected = getattr(np, name).reduceat(x, starts, axis)
            made = getattr(ck, name).reduceat(ck.asarray(x), ck.asarray(starts), axis)
            assert made.dtype == expected.dtype
            np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [("add", "int8", "int64"), ("minimum", "bfloat16", "bfloat16"), ("logical_xor", "float16", "bool")],
)
def test_slices_in_the_shapes_of_a_gpu(device: ck.Device, name: str, dtype: str, result: str) -> None:
    rng, row, made = np.random.default_rng(3), getattr(ck, name), ck.zeros(0, result).dtype
    for sizes, axis in (((300,), 0), ((2, 130, 5), 1), ((9, 40), 0)):
        n, x = sizes[axis], rng.integers(1, 5, sizes)
        few, many = ck.asarray(x).astype(dtype), rng.integers(0, n, n // 3)
        for starts in ([0], [0, n // 2, n - 1], [3, 1, 2, 2, n - 1, 0], np.sort(many), many):
            places = ck.asarray(np.asarray(starts))._data
            got = fold.folded(row, few, places, axis, made, False, 64)
            expected = getattr(np, name).reduceat(x, starts, axis)
            np.testing.assert_array_equal(got.astype("int64"), expected)


def test_slices_have_derivatives() -> None:
    x = ck.asarray(np.random.default_rng(4).uniform(0.5, 2, (9, 2)))
    for f in (ck.add, ck.multiply, ck.maximum, ck.hypot, ck.subtract):
        for starts in ([0, 4, 7], [3, 1, 7, 7, 2]):
            ck.testing.gradcheck(lambda x, f=f, starts=starts: f.reduceat(x, starts), (x,))
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.add.reduceat(x, [2, 6])
    assert tape.gradient(y, x)[:, 0].tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_slices_take_one_launch(monkeypatch: pytest.MonkeyPatch, launches: list[str]) -> None:
    made: list[Any] = []
    launch = fold.launch_2d
    monkeypatch.setattr(
        fold, "launch_2d", lambda *args, **options: (made.append(args), launch(*args, **options))
    )
    x, starts = ck.ones(40000, "int32"), ck.asarray([0, 5])
    for function in (ck.subtract, ck.bitwise_xor):
        function.reduceat(x, starts)
    assert len(made) == 2 and not launches


def test_comparisons_combine_bools_alone() -> None:
    x = ck.asarray(VALUES)
    bits = VALUES > 3
    np.testing.assert_array_equal(ck.less.reduce(ck.asarray(bits)), np.less.reduce(bits))
    for call in (ck.less.reduce, ck.equal.accumulate, lambda x: ck.logical_and.reduce(x, dtype="float32")):
        with pytest.raises(TypeError, match="the result is bool"):
            call(x)


def test_reduce_refuses() -> None:
    x = ck.asarray(VALUES)
    with pytest.raises(ValueError, match=r"subtract\.reduce: axis: expected one axis"):
        ck.subtract.reduce(x, None)
    with pytest.raises(ValueError, match=r"exp\.reduce: expected a function of two operands"):
        ck.exp.reduce(x)
    with pytest.raises(ValueError, match=r"fmax\.reduce: no element"):
        ck.fmax.reduce(ck.zeros((0, 2)))
    with pytest.raises(IndexError, match=r"add\.reduceat: indices: expected 0 to 4"):
        ck.add.reduceat(x, [5])


@pytest.mark.parametrize("name", ["add", "maximum", "bitwise_xor", "subtract"])
def test_at_applies_to_repeated_indices_in_turn(name: str) -> None:
    for key, values in (([0, 2, 2, -1], 3), ((slice(None), [1, 1]), VALUES[:, :2])):
        x, expected = ck.asarray(VALUES.copy()), VALUES.copy()
        getattr(ck, name).at(x, key, ck.asarray(values) if isinstance(values, np.ndarray) else values)
        getattr(np, name).at(expected, key, values)
        np.testing.assert_array_equal(x, expected)
    x = ck.asarray([1.0, 2.0])
    ck.negative.at(x, [0, 0, 1])
    assert x.tolist() == [1.0, -2.0]
    whole = ck.arange(3)
    ck.add.at(whole, [1, 1], 1.5)  # as in NumPy, each sum is rounded towards 0
    assert whole.tolist() == [0, 3, 2]
    with pytest.raises(TypeError, match=r"add\.at: complex64 to int64 would drop the imaginary part"):
        ck.add.at(whole, [0], 1j)
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ck.GradientError):
            ck.negative.at(x, [0])


def test_arguments_of_elementwise_functions() -> None:
    x = ck.asarray([1.0, 4.0, 9.0])
    mask = ck.asarray([True, False, True])
    out = ck.full(3, -1.0)
    assert ck.sqrt(x, out=out, where=mask) is out and out.tolist() == [1.0, -1.0, 3.0]
    assert ck.add(x, 1, where=mask).tolist() == [2.0, 0.0, 10.0]
    finite = ck.isfinite(x, where=mask)
    assert finite.dtype == ck.bool_ and finite.tolist() == [True, False, True]
    assert ck.add(x, x, (out,)) is out and out.tolist() == [2.0, 8.0, 18.0]
    wide = ck.zeros((2, 3))
    assert ck.negative(x, wide).tolist() == [[-1.0, -4.0, -9.0]] * 2
    small = ck.asarray([100, 100], dtype="int8")
    assert ck.add(small, small, dtype="int16").tolist() == [200, 200]
    assert ck.divide(small, 8, dtype="float64").dtype == "float64"
    assert ck.abs(ck.asarray([3 + 4j]), dtype="float32").tolist() == [5.0]
    assert ck.equal(small, 100, dtype=bool).tolist() == [True, True]
    whole, part = ck.divmod(ck.asarray([7, -7]), 2, where=ck.asarray([True, False]))
    assert (whole.tolist(), part.tolist()) == ([3, 0], [1, 0])


def test_out_is_written_by_the_launch_that_computes(
    device: ck.Device, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any layout, and of other dtypes; an operand may be the same array."""
    written = []
    monkeypatch.setitem(operators.FUNCTIONS, "setitem", lambda *args: written.append(args))
    x, y = ck.asarray([1.0, 4.0, 9.0]), ck.asarray([[1.0], [2.0]])
    out, wide, turned = ck.zeros((2, 3)), ck.zeros((2, 3), "float64"), ck.zeros((3, 2)).T
    for target in (out, wide, turned):
        assert ck.multiply(x, y, out=target) is target
        assert target.tolist() == [[1, 4, 9], [2, 8, 18]]
    assert ck.negative(x, out=out).tolist() == [[-1, -4, -9]] * 2
    assert ck.add(out, 1, out=out).tolist() == [[0, -3, -8]] * 2
    assert ck.add(out, out[:], out=out).tolist() == [[0, -6, -16]] * 2
    assert ck.clip(out, -7, None, out=out).tolist() == [[0, -6, -7]] * 2
    assert ck.pow(x, 2, out=x).tolist() == [1, 16, 81]
    assert ck.round(ck.asarray([0.6, 0.7, 1.4]), out=x).tolist() == [1, 1, 1]
    flags = ck.zeros(3, "bool")
    assert ck.less(x, x + 1, out=flags).tolist() == [True] * 3
    assert not written and "copy" not in launches and "astype" not in launches


def test_out_that_overlaps_an_operand(device: ck.Device) -> None:
    values = np.arange(8.0)
    for into, of in (
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, -1),) * 2,
    ):
        x, expected = ck.asarray(values), values.copy()
        ck.multiply(x[of], 2, out=x[into])
        np.multiply(expected[of], 2, out=expected[into])
        np.testing.assert_array_equal(x, expected)
    x, expected = ck.asarray(values), values.copy()
    ck.add(x, x[::-1], out=x)
    np.testing.assert_array_equal(x, expected + expected[::-1])
    square, expected = ck.asarray(values[:4].reshape(2, 2)), values[:4].reshape(2, 2).copy()
    ck.add(square, square.T, out=square)
    np.testing.assert_array_equal(square, expected + expected.T)
    ck.negative(square[0], out=square)
    np.testing.assert_array_equal(square, -(expected + expected.T)[[0, 0]])
    repeated = ck.broadcast_to(ck.zeros(1), (3,))
    with pytest.raises(ValueError, match="repeated view"):
        ck.add(ck.ones(3), 1, out=repeated)


def test_a_write_to_out_is_noticed_by_tapes() -> None:
    x, y = ck.asarray([1.0, 2.0]), ck.zeros(2)
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        made = x * y
        with tape_state.stop_recording():
            ck.add(y, 1, out=y)
    with pytest.raises(ck.GradientError, match="written"):
        tape.gradient(made, x)


def test_arguments_of_elementwise_functions_that_are_refused() -> None:
    x, whole = ck.asarray([1.5]), ck.asarray([1])
    for call, error, match in (
        (
            lambda: ck.add(x, 1, dtype="int32"),
            TypeError,
            "add: cannot cast float32 to int32, casting='same_kind'",
        ),
        (lambda: ck.add(whole, 0.5, dtype="int32"), TypeError, "add: cannot cast 0.5 to int32"),
        (lambda: ck.sin(whole, dtype="int32"), TypeError, "sin: dtype: it does not compute in int32"),
        (
            lambda: ck.add(x, whole, casting="no"),
            TypeError,
            "add: cannot cast int64 to float32, casting='no'",
        ),
        (
            lambda: ck.add(x, x, out=whole),
            TypeError,
            "add: out: a result of float32 cannot be written to int64",
        ),
        (lambda: ck.add([1.0, 2.0], x, out=x), ValueError, r"add: out: a result of shape \(2,\)"),
        (
            lambda: ck.add(x, x, out=np.zeros(1)),
            TypeError,
            r"add: out: expected a cukern\.Array to write into",
        ),
        (lambda: ck.add(x, x, where=whole), TypeError, "add: where: expected an array of bool, got int64"),
        (lambda: ck.equal(x, x, dtype="int8"), TypeError, "equal: dtype: the result is bool, got int8"),
        (lambda: ck.add(x, x, casting="any"), ValueError, "add: casting: expected one of no, equiv"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_options_have_derivatives() -> None:
    x = ck.asarray(np.random.default_rng(1).uniform(0.5, 2.0, (3, 2)))
    mask = ck.asarray([True, False])
    ck.testing.gradcheck(lambda x: ck.hypot.reduce(x), (x,))
    ck.testing.gradcheck(lambda x: ck.subtract.accumulate(x), (x,))
    ck.testing.gradcheck(lambda x: ck.multiply(x, x, where=mask), (x,))
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ck.GradientError):
            ck.exp(x, out=ck.zeros((3, 2), "float64"))


def test_numpys_ufuncs_use_them() -> None:
    x = ck.asarray([3, 5, 6])
    assert np.bitwise_xor.reduce(x).item() == 0
    assert np.add(x, 1, dtype=np.float64).dtype == "float64"  # type: ignore[arg-type]
    np.add.at(x, [0, 0], 1)  # type: ignore[arg-type]
    assert x.tolist() == [5, 5, 6]
    out = np.zeros(3)
    assert np.negative(x, out=out) is out and out.tolist() == [-5, -5, -6]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "arguments", "dtype"),
    [
        ("sum", (0, None), "float64"),
        ("mean", (0, None), "float64"),
        ("var", (0, None), "float64"),
        ("max", (0,), "float64"),
        ("all", (0,), "bool"),
        ("argmax", (0,), "int64"),
        ("cumsum", (0, None), "float64"),
        ("take", ([0, 1], 0), "float64"),
        ("clip", (1, 2), "float64"),
    ],
)
def test_out_by_position(name: str, arguments: tuple[Any, ...], dtype: str) -> None:
    """In NumPy's place among the arguments, of the function and of the method."""
    data = VALUES[:2].astype("float64")
    expected = getattr(np, name)(data, *arguments)
    x = ck.asarray(data)
    for call in (
        lambda out: getattr(ck, name)(x, *arguments, out),
        lambda out: getattr(x, name)(*arguments, out),
    ):
        out = ck.zeros(expected.shape, dtype)
        assert call(out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-12)
    with pytest.raises(ValueError, match=f"{name}: out: a result of shape"):
        getattr(ck, name)(x, *arguments, ck.zeros((7, 7), dtype))
