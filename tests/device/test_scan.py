"""Scans: values against NumPy along any axis, both directions, the GPU's launch shapes, accuracy, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.cli.tune import measure
from cukern.index.families import SCAN
from cukern.index.scan import recurrence, scanned
from cukern.index.scan_variants import Columns, Kernels, Rows, Scanning, Serial, Tiles
from cukern.launch.family import STAND_IN
from cukern.testing import assert_close, gradcheck

ORACLES = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
}
#: A thread a column, columns in tiles; a thread, part of a warp, a warp, two warps a row, walked along or cut into
#: tiles that wait for each other; threads side by side with rows of their own.
SHAPES: dict[str, Any] = {
    "serial": Serial(1, 1, 3),
    "tiles": Serial(64, 4, 6),
    "a thread": Rows(64, 1, 2),
    "part of a warp": Rows(64, 8, 1),
    "warps": Rows(64, 32, 1),
    "warp steps": Rows(64, 32, 2),
    "block": Rows(64, 64, 1),
    "chain": Tiles(64, 1, 8),
    "chain of warps": Tiles(32, 2, 1),
    "columns": Columns(64, 4, 8, 1),
    "column chain": Columns(32, 4, 4, 1),
}


def directed(oracle: Any, a: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """The oracle's scan from either end."""
    return np.flip(oracle(np.flip(a, axis), axis), axis) if reverse else oracle(a, axis)


def scanned_by(shape: Kernels, *args: Any) -> ck.Array:
    """The scan by a variant with these constants."""
    with SCAN.only(shape.name, **SCAN.fields(shape)) as used:
        made = scanned(*args)
    assert used == [shape]
    return made


def served(device: ck.Device, shape: Kernels) -> bool:
    """Whether the device takes it: sequential columns are a host's."""
    return device.kind == "host" or not isinstance(shape, Serial)


def needs(device: ck.Device, shape: Kernels) -> None:
    """Skips a test of a variant that the device does not take."""
    if not served(device, shape):
        pytest.skip("sequential columns are a host's")


def axes_of(name: str) -> tuple[int, ...]:
    """The axes of an array with three that a shape serves."""
    return (
        (0, 1, 2)
        if isinstance(SHAPES[name], Serial)
        else (2,)
        if isinstance(SHAPES[name], (Rows, Tiles))
        else (0, 1)
    )


@pytest.mark.parametrize("name", SHAPES)
def test_launch_shapes(device: ck.Device, name: str) -> None:
    needs(device, SHAPES[name])
    for sizes in ((3, 333, 5), (3, 5, 333), (2, 3, 400)):
        a = np.random.default_rng(0).standard_normal(sizes)
        for axis in axes_of(name):
            for reverse in (False, True):
                made = scanned_by(SHAPES[name], "cumsum", (ck.asarray(a),), axis, ck.float64, reverse)
                assert_close(made, directed(np.cumsum, a, axis, reverse), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["part of a warp", "warp steps", "block", "chain", "columns"])
@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("int8", "int64"),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in (("int32", "int32"), ("bool", "float16"))
        ),
    ],
)
def test_packs_of_dtypes(device: ck.Device, name: str, source: str, value: str) -> None:
    """Sums of small integers, exact in each; arrays that begin within a pack, and rows of odd sizes."""
    a = np.random.default_rng(0).integers(0, 2, 4 * 901).astype(source)
    for first, n in ((0, 900), (1, 900), (3, 901)):
        x = ck.asarray(a)[first : first + 3 * n].reshape((3, 1, n))
        (axis,) = axes_of(name)[-1:]
        for reverse in (False, True):
            made = scanned_by(SHAPES[name], "cumsum", (x,), axis, ck.dtypes.as_dtype(value), reverse)
            want = directed(np.cumsum, x.numpy().astype(value), axis, reverse)
            np.testing.assert_array_equal(made.numpy(), want)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize(
    "name", ["part of a warp", "warp steps", "block", "chain", "column chain", "columns"]
)
def test_lengths_about_a_tile(device: ck.Device, name: str, reverse: bool) -> None:
    """One element less and more than whole tiles, and starts within a pack, up to where they add a tile."""
    shape = SHAPES[name]
    each = 4 * shape.packs if isinstance(shape, (Rows, Tiles)) else shape.items
    lanes = shape.lanes if isinstance(shape, Rows) else shape.block
    step = each * (shape.block // shape.lanes if isinstance(shape, Columns) else lanes)
    values = np.random.default_rng(0).integers(0, 9, 2 * (3 * step + 2) + 3).astype(np.int32)
    for n in (step - 1, step, step + 1, 2 * step, 3 * step + 2):
        for first in (0, 1, 3):
            a = values[first : first + 2 * n]
            sizes = (1, n, 2) if isinstance(shape, Columns) else (2, 1, n)
            x = ck.asarray(values)[first : first + 2 * n].reshape(sizes)
            axis = axes_of(name)[-1]
            made = scanned_by(shape, "cumsum", (x,), axis, ck.int32, reverse)
            np.testing.assert_array_equal(made.numpy(), directed(np.cumsum, a.reshape(sizes), axis, reverse))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_many_tiles(device: ck.Device, reverse: bool) -> None:
    """Tiles, sets of 32, sets of these; of two rows at the same time."""
    a = np.random.default_rng(0).standard_normal((2, 80_001))
    shape = Tiles(32, 1, 1)
    x = ck.asarray(a)
    made = scanned_by(shape, "cumsum", (x,), 1, ck.float64, reverse)
    assert_close(made, directed(np.cumsum, a, 1, reverse), rtol=1e-9, atol=1e-9)
    again = scanned_by(shape, "cumsum", (x,), 1, ck.float64, reverse)
    assert made.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize(
    ("shape", "reverse"),
    [
        (Tiles(32, 9, 1), False),
        (Tiles(64, 4, 2), True),
        pytest.param(Tiles(32, 9, 1), True, marks=pytest.mark.thorough),
        pytest.param(Tiles(64, 4, 2), False, marks=pytest.mark.thorough),
    ],
)
def test_tiles_of_dtypes(device: ck.Device, shape: Tiles, reverse: bool) -> None:
    """Elements wider and narrower than results and of their size, rows that begin within a pack, with the start."""
    ones = np.random.default_rng(0).integers(0, 2, 3 + 2 * 3001)
    pairs = [("float32", "float32"), ("float64", "float32"), ("int8", "int8"), ("int16", "int64")]
    pairs += [("bool", "int8"), ("float16", "float16"), ("bfloat16", "float32"), ("int64", "int8")]
    for source, value in pairs:
        dtype = ck.dtypes.as_dtype(value)
        for first, lead in ((0, False), (1, True), (3, False)):
            a = ones[first : first + 2 * 3001].reshape((2, 3001))
            x = ck.astype(ck.asarray(ones), source)[first : first + 2 * 3001].reshape((2, 3001))
            made = scanned_by(shape, "cumsum", (x,), 1, dtype, reverse, lead).numpy()
            want = directed(np.cumsum, a, 1, reverse)
            if lead:
                want = np.insert(want, 3001 if reverse else 0, 0, 1)
            np.testing.assert_array_equal(made, want.astype(dtype))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_tiles_of_pairs(device: ck.Device, reverse: bool) -> None:
    """Sets of sets of tiles, of arrays that begin at different places in a pack; exact in integers."""
    rng = np.random.default_rng(0)
    a, b = rng.choice([-1.0, 0.0, 1.0], 70_001, p=[0.5, 0.01, 0.49]), rng.integers(-9, 9, 70_001) + 0.0
    pair = (ck.asarray(a)[2:], ck.asarray(b)[1:-1])
    made = scanned_by(Tiles(32, 1, 1), "recurrence", pair, 0, ck.float64, reverse)
    want = recurred(a[2:].reshape((1, -1)), b[1:-1].reshape((1, -1)), reverse)
    np.testing.assert_array_equal(made.numpy(), want[0])


@pytest.mark.parametrize("width", [1, 2, 4])
def test_columns_side_by_side(device: ck.Device, width: int) -> None:
    a = np.random.default_rng(0).integers(0, 9, (2, 70, 24)).astype(np.int16)
    for shape in (Columns(64, 8, 4, width), Columns(32, 32, 8, width), Columns(64, 4, 16, width)):
        for lead in (False, True):
            made = scanned_by(shape, "cumsum", (ck.asarray(a),), 1, ck.int16, False, lead)
            np.testing.assert_array_equal(made.numpy()[:, int(lead) :], np.cumsum(a, 1, dtype=np.int16))


@pytest.mark.parametrize("name", ["tiles", "warps", "chain", "column chain"])
@pytest.mark.parametrize("row", ["cumprod", "cummax"])
def test_rows_in_launch_shapes(device: ck.Device, row: str, name: str) -> None:
    needs(device, SHAPES[name])
    a = np.random.default_rng(0).uniform(0.9, 1.1, (3, 5, 333) if name == "chain" else (3, 333, 5))
    axis = axes_of(name)[-1]
    made = scanned_by(SHAPES[name], row, (ck.asarray(a),), axis, ck.float64)
    assert_close(made, ORACLES[row](a, axis), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", ["serial", "tiles", "part of a warp", "chain", "column chain"])
def test_the_start_is_put_before_or_after(device: ck.Device, name: str, reverse: bool) -> None:
    needs(device, SHAPES[name])
    a = np.random.default_rng(0).integers(-9, 9, (2, 200, 3))
    for axis in axes_of(name):
        made = scanned_by(SHAPES[name], "cumsum", (ck.asarray(a),), axis, ck.int64, reverse, True)
        zero = np.zeros_like(np.take(a, [0], axis))
        want = directed(np.cumsum, a, axis, reverse)
        want = np.concatenate([want, zero] if reverse else [zero, want], axis)
        np.testing.assert_array_equal(made.numpy(), want)


def recurred(a: np.ndarray, b: np.ndarray, reverse: bool) -> np.ndarray:
    """``y[j] = a[j] * y[j - 1] + b[j]`` along the second axis."""
    y, order = np.zeros_like(b), range(b.shape[1])
    value = np.zeros_like(b[:, 0])
    for j in reversed(order) if reverse else order:
        value = a[:, j] * value + b[:, j]
        y[:, j] = value
    return y


@pytest.mark.parametrize("name", SHAPES)
def test_recurrences(device: ck.Device, name: str) -> None:
    needs(device, SHAPES[name])
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1.1, 1.1, (2, 200, 3)), rng.standard_normal((2, 200, 3))
    for reverse in (False, True):
        # Rows lie along the last axis.
        turn = (0, 2, 1) if isinstance(SHAPES[name], (Rows, Tiles)) else (0, 1, 2)
        pair = [ck.asarray(np.ascontiguousarray(one.transpose(turn))) for one in (a, b)]
        made = scanned_by(SHAPES[name], "recurrence", pair, turn.index(1), ck.float64, reverse)
        assert_close(made, recurred(a, b, reverse).transpose(turn), rtol=1e-10, atol=1e-10)


def test_recurrences_keep_zeros_under_infinite_products(device: ck.Device) -> None:
    """However the factors are grouped, a value of 0 stays 0."""
    a, b = np.full((1, 3000, 2), 10.0), np.zeros((1, 3000, 2))
    b[0, 2990] = 1
    for shape in (one for one in SHAPES.values() if served(device, one)):
        turn = (0, 2, 1) if isinstance(shape, (Rows, Tiles)) else (0, 1, 2)
        pair = [ck.asarray(np.ascontiguousarray(one.transpose(turn))) for one in (a, b)]
        made = scanned_by(shape, "recurrence", pair, turn.index(1), ck.float64)
        assert_close(made, recurred(a, b, False).transpose(turn), rtol=1e-12)


def chosen_for_gpu(
    outer: int, n: int, inner: int = 1, source: Any = "float32", value: Any = "float32", pair: bool = False
) -> Any:
    """The variant of least cost, with its constants."""
    source, value = map(ck.dtypes.as_dtype, (source, value))
    operand = fresh_layout(ck.Device("host"), source, (outer, n, inner))
    row = "recurrence" if pair else "cumsum"
    problem = Scanning((operand,) * (1 + pair), row, 1, value)
    fitting = [one for one in SCAN.variants.values() if not one.fits(problem, STAND_IN)]
    configs = [config for one in fitting for config in one.configs(problem, STAND_IN)]
    return min(configs, key=lambda one: one.cost(problem, STAND_IN))


def test_gpu_shapes_by_size() -> None:
    shape = chosen_for_gpu
    assert shape(100, 3) == Serial(256, 1, 1)
    assert shape(100, 4).lanes == 1
    assert shape(100, 100).lanes == 32
    assert shape(16384, 16384) == Rows(256, 32, 4)
    assert shape(1000, 16384).lanes == 256
    assert shape(1, 10**4) == Rows(512, 512, 4)
    assert shape(1, 10**6) == Tiles(256, 4, 6)
    assert shape(1, 10**8) == shape(2, 2**31) == Tiles(256, 8, 6)
    assert shape(1, 2**15) == Rows(512, 512, 4)
    assert shape(1, 2**15 + 4) == Tiles(256, 4, 6)
    assert shape(264, 10**6).name == "rows" and shape(263, 10**6).name == "tiles"
    assert shape(1, 16384, 16384) == Columns(256, 32, 32, 1)
    assert shape(1, 16384, 16384, "int16", "int16") == Columns(256, 32, 32, 2)
    assert shape(1, 100, 3).lanes == 4
    assert shape(1, 16 * 256, 1023).name == shape(1, 10**6, 3).name == "columns"
    dtypes = ("int8", "int16", "float32", "float64")
    for source in dtypes:
        for result in dtypes:
            for pair in (False, True):
                tile = shape(1, 10**8, 1, source, result, pair)
                sizes = ck.dtypes.as_dtype(source).itemsize, ck.dtypes.as_dtype(result).itemsize
                width = max(16 // max(sizes), 4 // sizes[0])
                held = sizes[0] * (1 + pair) + (sizes[1] if sizes[0] != sizes[1] else 0)
                # What a kernel may have without asking, a little of it for other than the tile.
                assert tile.packs >= 2 and tile.block * tile.packs * width * held <= 47 << 10


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("lead", [False, True], ids=["alone", "with the start"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "recurrence"])
def test_the_reference_says_the_same(device: ck.Device, name: str, lead: bool, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    for axis, dtype in ((0, "float64"), (1, "float32"), (2, "float64")):
        arrays = [ck.asarray(rng.uniform(-1.5, 1.5, (3, 37, 4)).astype(dtype)) for _ in range(2)]
        xs = tuple(arrays if name == "recurrence" else arrays[:1])
        started = lead and name in ("cumsum", "cumprod")
        problem = Scanning(tuple(x._planned() for x in xs), name, axis, xs[0].dtype, reverse, started)
        made, want = SCAN(problem)(*xs), SCAN.reference(problem)(*xs)
        assert made.dtype == want.dtype
        assert_close(made, want, rtol=1e-6 if dtype == "float32" else 1e-12)


def test_results_are_what_the_reference_says(device: ck.Device) -> None:
    """Of every variant that fits, as ``python -m cukern tune`` compares them."""
    entries, refused = measure(SCAN, device, 6, 1, 1, 60)
    assert refused == [] and len(entries) == 6
    assert all(one.variants for one in entries)


@pytest.mark.parametrize("sizes", [(1, 70_000), (70_000, 1), (3, 40_000, 2), (2, 700)])
def test_long_columns(device: ck.Device, sizes: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    for axis in range(a.ndim):
        assert_close(
            ck.cumsum(ck.asarray(a), axis), np.cumsum(a.astype(np.float64), axis), rtol=1e-6, atol=1e-4
        )


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    data=st.data(),
    lead=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_shape_and_axis(shape: list[int], data: Any, lead: bool) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = np.random.default_rng(0).integers(-9, 9, shape)
    made = ck.cumulative_sum(ck.asarray(a), axis=axis, include_initial=lead)
    np.testing.assert_array_equal(made.numpy(), np.cumulative_sum(a, axis=axis, include_initial=lead))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_dtypes(device: ck.Device, name: str, dtype: Any) -> None:
    a = np.asarray([1, 0, 1]).astype(dtype)
    made = getattr(ck, name)(ck.asarray(a))
    if dtype == ck.bfloat16:
        assert made.dtype == ck.bfloat16
    else:
        want = getattr(np, name)(a)
        assert made.dtype == want.dtype
        np.testing.assert_array_equal(made.numpy(), want)
    for wanted in (ck.bool_,) if dtype in ck.dtypes.COMPLEX else (ck.float32, ck.int8, ck.bool_):
        assert getattr(ck, name)(ck.asarray(a), dtype=wanted).dtype == wanted


def test_integers_wrap_around(device: ck.Device) -> None:
    a = np.asarray([100, 100, 100], np.int8)
    for dtype in (np.int8, np.uint8, np.int64):
        np.testing.assert_array_equal(
            ck.cumsum(ck.asarray(a), dtype=dtype).numpy(), np.cumsum(a, dtype=dtype)
        )
        np.testing.assert_array_equal(
            ck.cumprod(ck.asarray(a), dtype=dtype).numpy(), np.cumprod(a, dtype=dtype)
        )
    big = np.asarray([2**62, 2**62, 2**62])
    np.testing.assert_array_equal(ck.cumsum(ck.asarray(big)).numpy(), np.cumsum(big))


def test_no_axis_and_no_elements(device: ck.Device) -> None:
    assert ck.cumsum(ck.asarray(3.0)).tolist() == np.cumsum(3.0).tolist() == [3.0]
    assert ck.cumsum(ck.ones((2, 2))).shape == (4,)
    assert ck.cumulative_sum(ck.ones((0,)), include_initial=True).tolist() == [0.0]
    assert ck.cumulative_prod(ck.ones((2, 0)), axis=1, include_initial=True).tolist() == [[1.0], [1.0]]
    assert ck.cummax(ck.ones((0, 3)), 0).shape == (0, 3)
    assert ck.ones((2, 3)).cumsum(1).shape == ck.ones((2, 3)).cumprod(0).shape == (2, 3)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod", "cumsum", "nancumsum", "nancumprod"])
def test_written_to_an_array(device: ck.Device, name: str) -> None:
    x, out = ck.asarray([1.0, 2.0, 3.0]), ck.zeros((2, 3))[1]
    assert getattr(ck, name)(x, axis=0, out=out) is out
    assert out.tolist() == ([1.0, 2.0, 6.0] if "prod" in name else [1.0, 3.0, 6.0])


def test_refusals(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(ValueError, match="axis: needed for an array with 2 axes"):
        ck.cumulative_sum(x)
    with pytest.raises(ValueError, match="0 axes"):
        ck.cumulative_sum(ck.asarray(1.0))
    for f in (ck.cumsum, ck.cumprod, ck.cummax, ck.logcumsumexp, ck.nancumsum):
        with pytest.raises(AxisError):
            f(x, 2)
        with pytest.raises(TypeError, match="expected an array, a number or nested lists of them"):
            f("x", 0)
    with pytest.raises(TypeError):
        ck.cumsum(x, 0.5)  # type: ignore[arg-type]


def test_nan_and_infinity(device: ck.Device) -> None:
    a = np.asarray([-np.inf, -np.inf, 1.0, np.inf, 2.0, np.nan, 3.0])
    x = ck.asarray(a)
    np.testing.assert_array_equal(ck.cummax(x).numpy(), np.maximum.accumulate(a))
    np.testing.assert_array_equal(ck.cummin(x).numpy(), np.minimum.accumulate(a))
    assert_close(ck.logcumsumexp(x[:5]), np.logaddexp.accumulate(a[:5]))
    assert_close(ck.nancumsum(x[2:3]), [1.0])
    np.testing.assert_array_equal(ck.nancumprod(x).numpy(), np.nancumprod(a))


def test_accuracy_of_long_float32_sums(device: ck.Device) -> None:
    a = np.full(1_000_000, 0.1, np.float32)
    want = np.cumsum(a.astype(np.float64))
    assert_close(ck.cumsum(ck.asarray(a)), want, rtol=1e-7)
    halves = ck.cumsum(ck.ones(3000, ck.float16))
    assert halves[-1].item() == 3000


def test_logarithms_of_sums_do_not_overflow(device: ck.Device) -> None:
    a = np.asarray([1000.0, 1001.0, -1000.0, 1002.0], np.float32)
    assert_close(ck.logcumsumexp(ck.asarray(a)), np.logaddexp.accumulate(a.astype(np.float64)), rtol=1e-6)
    assert gradcheck(ck.logcumsumexp, [ck.asarray(a.astype(np.float64))], order=2)


def test_every_run_gives_the_same_bits(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal(300_000).astype(np.float32))
    first = ck.cumsum(x).numpy().tobytes()
    assert all(ck.cumsum(x).numpy().tobytes() == first for _ in range(3))


def test_products_with_zeros_have_derivatives(device: ck.Device) -> None:
    for values in ([2.0, 0.0, 3.0], [0.0, 0.0, 2.0], [1.0, 2.0, 0.0], [0.0]):
        assert gradcheck(ck.cumprod, [ck.asarray(np.asarray(values))], order=2)
    lead = lambda x: ck.cumulative_prod(x, axis=0, include_initial=True)  # noqa: E731
    assert gradcheck(lead, [ck.asarray(np.random.default_rng(0).standard_normal((4, 2)))], order=2)


def test_derivative_of_a_long_product(device: ck.Device) -> None:
    """Only the first results count: what overflows behind them does no harm."""
    x = ck.full((2000,), 2.0, dtype=ck.float64)
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.sum(ck.cumprod(x)[:3])
    g = tape.gradient(y, x)
    assert g[:4].tolist() == [7.0, 6.0, 4.0, 0.0]
    assert not ck.any(ck.isnan(g))


def test_derivatives_of_extremes_go_to_the_last_of_equals(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([1.0, 3.0, 3.0, 2.0]))
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.sum(ck.cummax(x))
    assert tape.gradient(y, x).tolist() == [1.0, 1.0, 2.0, 0.0]


def test_derivatives_cast(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((3, 4)))
    assert gradcheck(lambda x: ck.cumsum(x, 0, dtype=ck.float64), [x], order=2)
    half = ck.asarray(np.ones(4, np.float16))
    with ck.Tape() as tape:
        tape.watch(half)
        y = ck.sum(ck.cumsum(half, dtype=ck.float32))
    assert tape.gradient(y, half).dtype == ck.float16


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences_that_begin_anew(device: ck.Device, reverse: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 3, 300))
    begins = rng.random(300) < 0.1
    a[:, 7], a[0, 20], b[1, 30], a[2, 40] = -0.0, np.nan, np.inf, 0.0
    want, last = np.empty_like(b), np.zeros(3)
    for j in reversed(range(300)) if reverse else range(300):
        before = np.where(last == 0, 0, a[:, j]) * np.where(a[:, j] == 0, np.nan_to_num(last), last)
        last = b[:, j] if begins[j] else np.where(np.isnan(last) & (a[:, j] == 0), np.nan, before) + b[:, j]
        want[:, j] = last
    made = recurrence(ck.asarray(a), ck.asarray(b), 1, reverse, ck.asarray(begins[None]))
    assert_close(made, want)
    columns = recurrence(ck.asarray(a.T), ck.asarray(b.T), 0, reverse, ck.asarray(begins[:, None]))
    assert_close(columns, want.T)


def test_derivatives_of_recurrences_that_begin_anew(device: ck.Device) -> None:
    rng = np.random.default_rng(4)
    a, b = (ck.asarray(rng.normal(size=(2, 7))) for _ in range(2))
    begins = ck.asarray([[False, False, True, False, True, True, False]])
    for reverse in (False, True):
        assert gradcheck(lambda a, b, reverse=reverse: recurrence(a, b, 1, reverse, begins), [a, b], order=2)


def test_products_before_what_is_not_finite_have_their_derivatives(device: ck.Device) -> None:
    def first(v: Any) -> Any:
        return ck.cumprod(v)[:2].sum()

    for bad in (np.nan, np.inf):
        x = ck.asarray([2.0, 3.0, bad, 5.0])
        assert_close(ck.grad(first)(x), [4, 2, 0, 0])
        second = ck.grad(lambda v: (ck.grad(first)(v)[:2] * ck.asarray([1.0, 10.0])).sum())
        assert_close(second(x)[:2], [10, 1])


def test_recurrence_derivatives(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    a, b = (ck.asarray(rng.standard_normal((2, 5, 2))) for _ in range(2))
    for reverse in (False, True):
        assert gradcheck(lambda a, b, reverse=reverse: recurrence(a, b, 1, reverse), [a, b], order=2)
