"""Reductions: values, dtypes and exceptions of NumPy over any axes and layouts, accuracy, derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dtype_rule import ruled

import cukern as ck
from cukern.array import operators
from cukern.kernel import strides
from cukern.reduction.families import REDUCTION
from cukern.reduction.rows import Reduce
from cukern.testing import assert_close, gradcheck

ROWS: dict[str, Reduce] = {name: f for name, f in operators.FUNCTIONS.items() if isinstance(f, Reduce)}
WITH_NUMPY = [name for name in ROWS if hasattr(np, name)]
SEARCHES = ("argmax", "argmin", "nanargmax", "nanargmin")
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-12}
TOLERANCE |= {"complex64": 2e-6, "complex128": 1e-12}


def numpy_of(name: str, a: np.ndarray, axis: Any, **options: Any) -> np.ndarray:
    """NumPy's result, of floats computed in float64."""
    wide = a.astype(np.float64) if ck.dtypes.info(a.dtype).kind == "f" else a
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(getattr(np, name)(wide, axis=axis, **options))


def check(got: ck.Array, want: np.ndarray) -> None:
    tolerance = TOLERANCE.get(ck.dtypes.info(got.dtype).name, 0.0)
    assert_close(
        got, want.astype(got.numpy().dtype) if not tolerance else want, rtol=tolerance, atol=tolerance
    )


#: Rows that between them have every kind of state; the others differ from one by an expression.
KINDS = ["sum", "max", "argmax", "var"]
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((1,), 0),
    ((5,), None),
    ((3, 4), 0),
    ((3, 4), 1),
    ((3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (-1, 0)),
    ((2, 3, 4), 1),
    ((2, 3, 4), ()),
    ((7, 130), 0),
    ((7, 130), 1),
    ((3, 1, 4), 1),
    ((200_000,), None),
    ((3, 100_000), 1),
    ((100_000, 3), 0),
    ((2, 70_000, 2), 1),
]


@pytest.mark.parametrize("name", WITH_NUMPY)
def test_values_over_any_axes(device: ck.Device, name: str) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES if name in KINDS else SHAPES[2:9]:
        if name in SEARCHES and isinstance(axis, tuple):
            continue
        a = np.asarray(
            rng.standard_normal(shape) if name != "prod" else 1 + 1e-3 * rng.standard_normal(shape)
        )
        x = ck.asarray(a.astype(np.float32))
        for keepdims in (False, True):
            got = ROWS[name](x, axis, keepdims=keepdims)
            want = numpy_of(name, a.astype(np.float32), axis, keepdims=keepdims)
            assert got.shape == want.shape, (shape, axis)
            assert_close(got, want, rtol=1e-4 if name == "prod" else 2e-6, atol=1e-5)
        assert_close(x, a.astype(np.float32))


#: Dtypes whose kernels are those of another integer but for the type's name: of theirs, those of KINDS and few more.
ALIKE = [np.dtype(name) for name in ("int8", "int16", "uint16", "int32", "uint64")]


def check_dtype(dtype: Any, names: list[str]) -> None:
    """Values and dtypes of the rows named, of one dtype."""
    a = np.random.default_rng(0).integers(0, 3, (3, 5)).astype(dtype)
    for name in names:
        got = ROWS[name](ck.asarray(a), 1)
        want = numpy_of(name, a, 1)
        check(got, want)
        if dtype != ck.bfloat16:
            assert got.dtype == ruled(np.asarray(getattr(np, name)(a, axis=1)).dtype, a.dtype), name
        else:
            assert got.dtype in (ck.bfloat16, ck.bool_, ck.int64), name


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_values_and_dtypes_in_every_dtype(device: ck.Device, dtype: Any) -> None:
    check_dtype(dtype, [*KINDS, "prod", "mean", "any"] if dtype in ALIKE else WITH_NUMPY)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ALIKE, ids=str)
def test_values_and_dtypes_of_the_other_rows(device: ck.Device, dtype: Any) -> None:
    check_dtype(dtype, WITH_NUMPY)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "transposed": lambda a: a.T.copy().T,
    "stride-0": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(device: ck.Device, layout: str, name: str) -> None:
    a = LAYOUTS[layout](np.random.default_rng(0).standard_normal((4, 9, 12)))
    with device.activate():
        x = ck.Array._wrap(device.xp.asarray(a), device)
    for axis in (None, 1, 2):
        assert_close(ROWS[name](x, axis), getattr(np, name)(a, axis=axis), rtol=1e-11)


@pytest.mark.parametrize(
    "name",  # of each state one; those of the others are as large
    [
        "sum",
        "argmax",
        "var",
        *(pytest.param(one, marks=pytest.mark.thorough) for one in ("max", "logsumexp")),
    ],
)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3000), (3000, 2), (1, 100_000), (4, 6, 9)])
def test_gpu_launch_shapes_on_the_host(name: str, shape: tuple[int, ...]) -> None:
    """Warps and blocks that share a row compute the same where the host runs them."""
    with ck.device("host"), ck.kernels_only(), REDUCTION.only("columns", "rows"):
        a = np.random.default_rng(0).standard_normal(shape)
        x = ck.asarray(a)
        for axis in range(len(shape)):
            want = np.log(np.exp(a).sum(axis)) if name == "logsumexp" else getattr(np, name)(a, axis=axis)
            assert_close(ROWS[name](x, axis), want, rtol=1e-11)


@pytest.mark.parametrize("name", ["sum", "argmax"])
def test_64_bit_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The kernels of arrays beyond 2**31 elements, on small ones."""
    monkeypatch.setattr(strides, "LARGEST_INDEX", 1)
    a = np.random.default_rng(0).standard_normal((3, 40, 50))
    with REDUCTION.only("columns", "rows", "loops"):
        for axis in (None, 0, 1, 2):
            size = 1e-15 * np.abs(a).sum(axis) if name == "sum" else None
            assert_close(ROWS[name](ck.asarray(a), axis), getattr(np, name)(a, axis=axis), atol=size)


def test_empty(device: ck.Device) -> None:
    x = ck.zeros((0, 3))
    assert ROWS["sum"](x, 0).tolist() == [0.0, 0.0, 0.0]
    assert ROWS["prod"](x).item() == 1.0
    assert ROWS["sum"](x, 1).shape == (0,)
    assert ROWS["all"](x).item() is True
    assert ROWS["any"](x).item() is False
    assert np.isnan(ROWS["mean"](x).item())
    assert ROWS["logsumexp"](x, 0).tolist() == [-np.inf] * 3
    assert ROWS["max"](x, 1).shape == (0,)
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=f"{name}: no value to reduce"):
            ROWS[name](x, 0)


def test_nan(device: ck.Device) -> None:
    a = np.array([[1.0, np.nan, 3.0, np.nan], [np.inf, 2.0, -np.inf, 0.0]], np.float32)
    x = ck.asarray(a)
    for name in ("max", "min", "argmax", "argmin", "sum", "any", "all"):
        assert_close(ROWS[name](x, 1), numpy_of(name, a, 1))


def test_the_first_of_equal_elements_is_found(device: ck.Device) -> None:
    a = np.array([[1, 3, 3, 2], [0, 0, 0, 0]])
    assert ROWS["argmax"](ck.asarray(a), 1).tolist() == [1, 0]
    assert ROWS["argmin"](ck.asarray(a), 1).tolist() == [0, 0]
    big = np.zeros(200_000)
    big[[70_000, 150_000]] = 1
    assert ROWS["argmax"](ck.asarray(big)).item() == 70_000
    assert ROWS["argmax"](ck.asarray(a).T).item() == np.argmax(a.T)


def test_refusals(device: ck.Device) -> None:
    x = ck.zeros((2, 3))
    with pytest.raises(
        np.exceptions.AxisError, match="sum: axis 2 is out of bounds for an array with 2 axes"
    ):
        ROWS["sum"](x, 2)
    with pytest.raises(ValueError, match="named twice"):
        ROWS["sum"](x, (0, -2))
    with pytest.raises(TypeError):
        ROWS["sum"](x, 0.5)
    with pytest.raises(
        TypeError, match=r"sum: x: expected an array, a number or nested lists of them, got str"
    ):
        ROWS["sum"]("1.0")


def test_sum_dtype(device: ck.Device) -> None:
    x = ck.asarray([200, 100], dtype="uint8")
    assert ROWS["sum"](x).item() == 300
    got = ROWS["sum"](x, dtype="float32")
    assert got.dtype == ck.float32
    assert got.item() == 300.0
    assert ROWS["sum"](x, dtype="uint8").item() == 44


def test_integer_sums_wrap(device: ck.Device) -> None:
    a = np.array([2**63 - 1, 1, 5])
    assert ROWS["sum"](ck.asarray(a)).item() == a.sum()


@pytest.mark.parametrize("value", [0.1, 1.0])
def test_float32_sums_keep_six_digits(device: ck.Device, value: float) -> None:
    n = 10_000_000
    x = ck.full((n,), value)
    want = float(np.float32(value)) * n
    assert abs(ROWS["sum"](x).item() / want - 1) < 1e-6
    assert abs(ROWS["mean"](x).item() / float(np.float32(value)) - 1) < 1e-6
    columns = x.reshape(n // 4, 4)
    assert np.all(np.abs(ROWS["sum"](columns, 0).numpy() / (want / 4) - 1) < 1e-6)


def test_variance_far_from_zero(device: ck.Device) -> None:
    a = (np.random.default_rng(0).standard_normal((4, 50_000)) + 1e4).astype(np.float32)
    assert_close(ROWS["var"](ck.asarray(a), 1), a.astype(np.float64).var(1), rtol=1e-6)
    assert_close(ROWS["std"](ck.asarray(a), 1, correction=1), a.astype(np.float64).std(1, ddof=1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_whose_first_value_is_far_from_the_others(device: ck.Device, dtype: type) -> None:
    """By one kernel with the mean and by itself, of rows of one piece and of two; values that are not finite, too."""

    @ck.jit
    def both(x: ck.Array) -> tuple[ck.Array, ck.Array]:
        return x.mean(axis=1), x.var(axis=1)

    for n in (40, 300, 20_000):
        a = np.random.default_rng(n).standard_normal((16, n)).astype(dtype)
        a[:4, 0], a[4:8] = 1e6, a[4:8] + dtype(1e4)
        a[8:12] = a[8:12, :1]
        x, wanted = ck.asarray(a), (a.mean(1, np.float64), a.astype(np.longdouble).var(1))
        tolerance = 1e-6 if dtype is np.float32 else 1e-12
        for y, own in zip((*both(x), x.var(axis=1)), (*wanted, wanted[1]), strict=True):
            assert_close(y, own.astype(np.float64), rtol=tolerance, atol=1e-7)
        for place in (0, n // 2):
            a[:, place] = np.inf
            a[1, -1], a[2, 1] = -np.inf, np.nan
            mean, variance = both(ck.asarray(a))
            assert np.isnan(variance.numpy()).all()
            assert np.isnan(mean.numpy()[1:3]).all() and (mean.numpy()[3:] == np.inf).all()


def test_sums_are_the_same_every_time(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((3, 100_000)).astype(np.float16))
    first = ROWS["sum"](x, 1).numpy()
    assert all((ROWS["sum"](x, 1).numpy() == first).all() for _ in range(3))


def test_methods(device: ck.Device) -> None:
    a = np.random.default_rng(0).standard_normal((3, 4))
    x = ck.asarray(a)
    for name in WITH_NUMPY:
        if name.startswith("nan"):
            continue
        assert_close(getattr(x, name)(0, keepdims=True), getattr(np, name)(a, axis=0, keepdims=True))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "max", "min", "var", "std", "logsumexp", "softmax", "log_softmax"]
)
def test_gradients_to_second_order(device: ck.Device, name: str) -> None:
    x = ck.asarray(np.random.default_rng(3).uniform(0.5, 2.0, (2, 3)))
    function = getattr(ck, name)
    assert gradcheck(lambda x: function(x, 1) if "softmax" not in name else function(x), [x], order=2)
    if "softmax" not in name:
        assert gradcheck(lambda x: function(x), [x], order=1)


def test_gradient_of_a_product_with_zeros(device: ck.Device) -> None:
    for values in ([2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [5.0], [1.0, 2.0, 3.0, 4.0, 5.0]):
        x = ck.asarray(values)
        with ck.Tape() as recorder:
            recorder.watch(x)
            y = ROWS["prod"](x)
        others = [np.prod([v for j, v in enumerate(values) if j != i]) for i in range(len(values))]
        assert_close(recorder.gradient(y, x), np.array(others))
    assert gradcheck(
        lambda x: ROWS["prod"](x, (0, 2)), [ck.asarray(np.array([[[0.0, 2.0], [1.0, 3.0]]]))], order=2
    )


def test_equal_extremes_share_the_gradient(device: ck.Device) -> None:
    x = ck.asarray([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = ROWS["max"](x, 1)
    assert_close(recorder.gradient(y, x), np.array([[0, 0.5, 0.5], [1 / 3] * 3]))


def test_the_gradient_of_a_constant_row_is_finite(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = ROWS["std"](x, 1)
    assert_close(recorder.gradient(y, x), np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
def test_more_values_than_the_dtype_counts(device: ck.Device, dtype: str) -> None:
    a = (np.arange(40_000) % 100).astype(dtype)
    for name in ("max", "min", "argmax", "sum", "mean"):
        assert_close(ROWS[name](ck.asarray(a)), getattr(np, name)(a))


def test_gradients_of_degenerate_reductions(device: ck.Device) -> None:
    empty = ck.zeros((2, 0))
    assert ck.grad(lambda x: ROWS["prod"](x, 1).sum())(empty).shape == (2, 0)
    one = ck.asarray([[1.0]])
    assert np.isnan(ck.grad(lambda x: ROWS["var"](x, correction=1))(one).item())
    infinite = ck.grad(lambda x: ROWS["max"](x) * np.inf)(ck.asarray([1.0, 2.0]))
    assert infinite.tolist() == [0.0, np.inf]


def test_logsumexp_of_long_rows(device: ck.Device) -> None:
    inf = np.inf
    a = np.full((7, 100), -inf)
    a[1, 50:] = inf
    a[2, 0] = np.nan
    a[3, 99] = 1.0
    a[4, :90], a[4, 90:] = inf, np.nan
    a[5] = np.linspace(-1000, 1000, 100)
    a[6] = np.linspace(1000, -1000, 100)
    with np.errstate(all="ignore"):
        top = np.log(np.exp(np.linspace(-1000, 1000, 100) - 1000).sum()) + 1000
    assert_close(ck.logsumexp(ck.asarray(a), 1), np.array([-inf, inf, np.nan, 1.0, np.nan, top, top]))


def test_options_that_are_refused(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(ValueError, match="max: where: give initial"):
        ck.max(x, where=ck.asarray(True))
    with pytest.raises(TypeError, match="sum: where: expected an array of bool, got float32"):
        ck.sum(x, where=x)
    with pytest.raises(ValueError, match="broadcast"):
        ck.sum(x, where=np.ones(2, bool))
    with pytest.raises(ValueError, match="correction and ddof"):
        ck.var(x, correction=1, ddof=1)
    with pytest.raises(TypeError):
        ck.argmax(x, (0, 1))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="sum: initial: not taken in a fused function"):
        assert ck.fuse(lambda x: ck.sum(x, initial=1))(x).item() == 7.0


def test_initial_is_the_result_of_no_value(device: ck.Device) -> None:
    x = ck.zeros((0, 2))
    assert ck.max(x, 0, initial=3).tolist() == [3.0, 3.0]
    assert ck.min(x, initial=3).item() == 3.0
    assert ck.min(ck.zeros(0, "int32"), initial=3).dtype == ck.int32
    assert ck.sum(x, 0, initial=3).tolist() == [3.0, 3.0]


def test_means_in_another_dtype(device: ck.Device) -> None:
    a = np.array([-3, -4, 1], np.int8)
    x = ck.asarray(a)
    assert ck.mean(x, dtype="float32").dtype == ck.float32
    assert ck.mean(x, dtype="int64").item() == a.mean(dtype=np.int64) == -2
    assert ck.std(x, dtype="float16").dtype == ck.float16
    assert ck.var(ck.asarray([1e4, -1e4], dtype="float16"), dtype="float32").item() == 1e8


def test_gradients_of_masked_reductions(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((3, 4)))
    mask = ck.asarray(np.arange(12).reshape(3, 4) % 3 > 0)
    for name in ("sum", "prod", "mean", "var", "std"):
        function = getattr(ck, name)
        assert gradcheck(lambda x, function=function: function(x, 1, where=mask), [x], order=2)
    for name in ("max", "min"):
        function = getattr(ck, name)
        assert gradcheck(lambda x, function=function: function(x, 1, where=mask, initial=0.0), [x])


NANS = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [4.0, 2.0, 4.0]])


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"])
def test_slices_of_nan(device: ck.Device, name: str) -> None:
    for axis in (0, 1, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = getattr(np, name)(NANS, axis=axis)
        assert_close(getattr(ck, name)(ck.asarray(NANS), axis), np.asarray(want))


def test_gradients_beside_nan(device: ck.Device) -> None:
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"):
        function = getattr(ck, name)
        gradient = ck.grad(lambda x, function=function: function(x, 1).sum())(ck.asarray(NANS[::2])).numpy()
        assert np.isfinite(gradient).all(), name
        assert gradient[0, 1] == 0, name
        without = ck.grad(lambda x, function=function: function(x))(ck.asarray(NANS[0, ::2]))
        assert_close(gradient[0, ::2], without)


def test_places_beside_nan(device: ck.Device) -> None:
    x = ck.asarray(NANS[::2])
    assert ck.nanargmax(x, 1).tolist() == [2, 0]
    assert ck.nanargmin(x, 1).tolist() == [0, 1]
    assert ck.nanargmax(x).item() == 3
    assert ck.nanargmin(ck.asarray([3, 1, 1])).item() == 1
    for function in (ck.nanargmax, ck.nanargmin):
        with pytest.raises(ValueError, match="all elements are NaN along axis 1"):
            function(ck.asarray(NANS), 1)
        with pytest.raises(ValueError, match="no value"):
            function(ck.zeros(0))
    assert ck.nanmax(ck.zeros((0, 2)), 1).shape == (0,)
    with pytest.raises(ValueError, match="no value"):
        ck.nanmax(ck.zeros((0, 2)), 0)


def test_average_refuses(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(TypeError, match="or an axis as well"):
        ck.average(x, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="that of axis 0"):
        ck.average(x, 0, [1.0, 2.0, 3.0])
    if device.kind == "host":
        with pytest.raises(ZeroDivisionError):
            ck.average(x, 0, [1.0, -1.0])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_means_of_many_values_keep_their_digits(device: ck.Device, dtype: str) -> None:
    n = 10_000_000
    x = ck.full((n,), 0.1, dtype)
    want = float(np.asarray(0.1, dtype))
    assert abs(ck.mean(x).item() / want - 1) < (1e-6 if dtype == "float32" else 1e-3)
    assert abs(ck.mean(x, dtype="float64").item() / want - 1) < 1e-12
    assert ck.mean(x.reshape(n // 4, 4), 0).tolist() == [ck.mean(x).item()] * 4


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_in_long_rows(device: ck.Device, name: str) -> None:
    """Rows of several batches: the first of equals wins, and the first NaN over all."""
    x = np.zeros((6, 600), np.float32)
    x[0, [130, 400]], x[1, [70, 71]] = (1, 1), (-1, -1)
    x[2], x[3] = np.arange(600), np.arange(600)[::-1]
    x[4, [200, 300, 599]] = (np.nan, np.inf, np.nan)
    x[5] = np.inf if name == "argmin" else -np.inf
    want = getattr(np, name)(x, 1)
    assert getattr(ck, name)(ck.asarray(x), axis=1).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32])
def test_many_values_in_few_results(device: ck.Device, dtype: Any) -> None:
    """What the host gives to NumPy: NaN, the place of the first of equals, kept axes and the derivative."""
    x = (np.arange(3 * 40_000).reshape(3, 40_000) * 7919 % 65_521 % 200 - 100).astype(dtype)
    if dtype == np.float32:
        x[1, 5000] = np.nan
    of_one_kind = ("nanmax", "nanmin") if dtype == np.float32 else ("all", "any")
    for name in (*of_one_kind, "argmax", "argmin", "max", "min"):
        for axis in (None, 1):
            want = getattr(np, name)(x, axis, keepdims=True)
            made = getattr(ck, name)(ck.asarray(x), axis, keepdims=True)
            assert made.dtype == want.dtype
            np.testing.assert_array_equal(made, want)
    if dtype == np.bool_:
        assert ck.count_nonzero(ck.asarray(x)).item() == np.count_nonzero(x)
    if dtype == np.float32:
        g = ck.grad(lambda x: ck.max(x))(ck.asarray(x[0])).numpy()
        np.testing.assert_allclose(g, (x[0] == np.max(x[0])) / np.sum(x[0] == np.max(x[0])), rtol=1e-6)
