"""Sorting: stability, NaN and zeros, the launch shapes of both devices, derivatives, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.cli.tune import measure
from cukern.index import sort_keys
from cukern.index.families import SORT
from cukern.index.sort import permuted, sorted_rows
from cukern.index.sort_variants import Kernels, Merge, Radix, RadixRuns, Sorting
from cukern.launch.family import STAND_IN
from cukern.testing import gradcheck

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]
#: A thread a tile, several tiles a block, a block a tile, of one warp and of several.
SHAPES = {
    "serial": Merge(1, 1, 16),
    "small tiles": Merge(1, 1, 4),
    "threads": Merge(64, 1, 8),
    "groups": Merge(64, 16, 8),
    "warp": Merge(32, 32, 2),
    "block": Merge(128, 128, 4),
}


def stable(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """The stable order of rows, by NumPy; of a descending one NaN comes first."""
    if not descending:
        return np.argsort(x, -1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


def drawn(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Many ties, the ends of the dtype's range, and of floats both zeros, infinities and NaN of both signs."""
    rng = np.random.default_rng(seed)
    dtype = ck.dtypes.as_dtype(dtype)
    if ck.dtypes.info(dtype).kind == "f":
        values = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 2.5, 1e-7]
        return np.asarray(values)[rng.integers(0, len(values), shape)].astype(dtype)
    ends = [0, 1] if dtype == np.bool_ else [np.iinfo(dtype).min, 0, 1, 7, 100, np.iinfo(dtype).max]
    return np.asarray(ends, dtype)[rng.integers(0, len(ends), shape)]


def sorted_by(shape: Kernels | None, x: np.ndarray, indexed: bool, descending: bool) -> list[ck.Array]:
    """The sorted rows, by a variant with these constants if there are some."""
    if shape is None:
        return sorted_rows(ck.asarray(x), indexed, descending)
    with SORT.only(shape.name, **SORT.fields(shape)) as used:
        made = sorted_rows(ck.asarray(x), indexed, descending)
    assert used == [shape][: x.size]
    return made


def host_only(device: ck.Device) -> None:
    """Skips a test of long loops in one thread."""
    if device.kind != "host":
        pytest.skip("runs by one thread are a host's")


def check(x: np.ndarray, descending: bool, shape: Kernels | None = None) -> None:
    """Values and places of the sorted rows, to the bit but for NaN."""
    key = x.astype(np.float64) if ck.dtypes.info(x.dtype).kind == "f" else x
    order = stable(key, descending)
    keys, places = sorted_by(shape, x, True, descending)
    (alone,) = sorted_by(shape, x, False, descending)
    assert places.dtype == ck.int64
    np.testing.assert_array_equal(places.numpy(), order)
    want = np.take_along_axis(x, order, -1)
    for made in (keys.numpy(), alone.numpy()):
        assert made.dtype == x.dtype and made.shape == x.shape
        np.testing.assert_array_equal(made.astype(key.dtype), want.astype(key.dtype))
        numbers = want == want
        np.testing.assert_array_equal(
            np.signbit(made[numbers].astype("f8")), np.signbit(want[numbers].astype("f8"))
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_and_ends_of_every_dtype(device: ck.Device, dtype: str) -> None:
    for shape in ((3, 21), (2, 5000)):
        check(drawn(dtype, shape), False)
        check(drawn(dtype, shape, 1), True)


@pytest.mark.parametrize("name", SHAPES)
def test_launch_shapes(device: ck.Device, name: str) -> None:
    shape = SHAPES[name]
    alone = shape.lanes == shape.block
    for n in (1, shape.run - 1, shape.run, *((shape.run + 1, 5 * shape.run + 3, 1111) if alone else ())):
        if n:
            check(drawn("float32", (5, n), n), False, shape)
            check(drawn("int64", (5, n), n), True, shape)


@pytest.mark.parametrize(
    "n", [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 500, 2047, 2048, 2049, 16385, 70001]
)
def test_lengths(device: ck.Device, n: int) -> None:
    rng = np.random.default_rng(n)
    check(rng.integers(-50, 50, (2, n)).astype("int32"), False)
    check(np.arange(n, dtype="int32")[None], False)
    check(np.arange(n, dtype="int32")[None, ::-1], True)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_digits(device: ck.Device, dtype: str) -> None:
    """Rows of less than a tile, and of several of which the last is not full."""
    shape, tile = Radix(256, 4, 2), 1024
    for n in (1, tile, 3 * tile + 77):
        check(drawn(dtype, (2, n), n), n > tile, shape)
    rng = np.random.default_rng(0)
    if dtype == "float32":
        check(rng.standard_normal((1, 5000), "f4"), True, shape)
    if dtype == "int64":
        check(rng.integers(-(2**62), 2**62, (1, 2100)), False, shape)
        check(np.full((2, 2100), 7), False, shape)
        check(np.zeros((2, 0), "i8"), False, shape)


def test_digits_in_64_bits(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "_LONGEST_ROW", 1000)
    check(drawn("int16", (2, 2500)), False, Radix(256, 4, 2))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_digits_by_one_thread(device: ck.Device, dtype: str) -> None:
    """Runs of one element, of all, and several that are merged; some have the same digits."""
    host_only(device)
    for n, run in ((3, 1), (700, 800), (700, 64)):
        check(drawn(dtype, (2, n), n), n > run, RadixRuns(1, 1, 16, run))
    if dtype == "float32":
        check(np.random.default_rng(0).standard_normal((1, 500), "f4"), True, RadixRuns(1, 1, 16, 500))
        check(np.full((1, 20), 2.5, "f4"), True, RadixRuns(1, 1, 16, 500))


def test_digits_that_all_keys_have_are_left_out(device: ck.Device) -> None:
    host_only(device)
    upper = np.random.default_rng(0).integers(-(2**15), 2**15, (1, 300)).astype("int32")
    for lower in (0x0903, 0x0309):
        check(upper * 2**16 + lower, False, RadixRuns(1, 1, 16, 300))
    check(upper << 8, False, RadixRuns(1, 1, 16, 300))


def chosen_for(limits: Any, n: int, dtype: str = "float32") -> Kernels:
    """The variant of least cost, with its constants."""
    operand = fresh_layout(ck.Device("host"), ck.dtypes.as_dtype(dtype), (3, n))
    problem = Sorting((operand,), True, False)
    fitting = [one for one in SORT.variants.values() if limits.compute_capability >= one.needs]
    configs = [x for one in fitting if not one.fits(problem, limits) for x in one.configs(problem, limits)]
    return min(configs, key=lambda one: one.cost(problem, limits))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_long_rows_are_sorted_by_digits(dtype: str) -> None:
    host = STAND_IN._replace(compute_capability=(0, 0))
    for limits, long in ((STAND_IN, 2**18), (host, 32 * ck.dtypes.as_dtype(dtype).itemsize)):
        assert chosen_for(limits, long - 1, dtype).name == "merge"
        assert chosen_for(limits, long, dtype).name == ("radix runs" if limits is host else "radix")


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bfloat16", "float32"])
def test_the_reference_says_the_same(device: ck.Device, dtype: str, descending: bool) -> None:
    x = ck.asarray(drawn(dtype, (3, 300)))
    for indexed in (False, True):
        problem = Sorting((x._planned(),), indexed, descending)
        made, want = SORT(problem)(x), SORT.reference(problem)(x)
        for a, b in zip(made, want, strict=True):
            assert a.dtype == b.dtype
            wide = np.float64 if a.dtype == ck.bfloat16 else a.dtype
            np.testing.assert_array_equal(a.numpy().astype(wide), b.numpy().astype(wide))


def test_results_are_what_the_reference_says(device: ck.Device) -> None:
    """Of every variant that fits, as ``python -m cukern tune`` compares them."""
    entries, refused = measure(SORT, device, 6, 1, 1, 60)
    assert refused == [] and len(entries) == 6
    assert all(one.variants for one in entries)


def test_many_short_rows(device: ck.Device) -> None:
    check(drawn("float32", (5003, 5)), False)
    check(drawn("float32", (70_001, 1)), False)


def test_places_of_64_bits(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "_LONGEST_ROW", 1000)
    check(drawn("float32", (2, 1001)), False, Merge(1, 1, 16))
    if device.kind == "host":
        check(drawn("float32", (2, 9001)), True, RadixRuns(1, 1, 16, 5000))


def test_the_shape_fits_the_row() -> None:
    for n in (1, 8, 9, 100, 2048, 2049, 10**5):
        shape = chosen_for(STAND_IN, n)
        assert isinstance(shape, Merge)
        assert shape.block % shape.lanes == 0 and (n <= shape.run or shape.lanes == shape.block)
        assert n > 8 * shape.lanes // 2 or shape.lanes == 1


@given(st.data())
def test_any_axis(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4).map(tuple))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    descending = data.draw(st.booleans())
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 4, shape).astype("int32")
    order = ck.argsort(ck.asarray(x), axis=axis, descending=descending).numpy()
    want = np.argsort(-x if descending else x, axis, kind="stable")
    np.testing.assert_array_equal(order, want)
    made = ck.sort(ck.asarray(x), axis=axis, descending=descending).numpy()
    np.testing.assert_array_equal(made, np.take_along_axis(x if axis is not None else x.ravel(), want, axis))


def test_zero_axes(device: ck.Device) -> None:
    x = ck.asarray(3.0)
    assert ck.sort(x).shape == () and ck.argsort(x).tolist() == np.argsort(np.array(3.0)).tolist() == [0]
    assert ck.sort(x, axis=None).shape == (1,)
    values, places = ck.topk(ck.asarray([[1, 2]]), 0)
    assert values.shape == places.shape == (1, 0)


def test_every_run_gives_the_same_and_reads_only(device: ck.Device) -> None:
    a = drawn("float32", (3, 4000))
    x = ck.asarray(a)
    first = ck.sort(x).numpy().tobytes()
    assert all(ck.sort(x).numpy().tobytes() == first for _ in range(3))
    assert x.numpy().tobytes() == a.tobytes()


def test_topk_of_ties_takes_the_first(device: ck.Device) -> None:
    x = ck.asarray([1.0, 3.0, np.nan, 3.0, 2.0, 1.0])
    values, places = ck.topk(x, 3)
    np.testing.assert_array_equal(values.numpy(), [np.nan, 3, 3])
    assert places.tolist() == [2, 1, 3]
    values, places = ck.topk(x, 3, largest=False)
    assert values.tolist() == [1, 1, 2] and places.tolist() == [0, 5, 4]


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=40))
def test_lexsort(rows: list[tuple[int, ...]]) -> None:
    keys = np.asarray(rows, "int32").T.copy()
    want = np.lexsort(keys)
    np.testing.assert_array_equal(ck.lexsort(ck.asarray(keys)).numpy(), want)
    np.testing.assert_array_equal(ck.lexsort([ck.asarray(key) for key in keys]).numpy(), want)


def test_lexsort_along_axes(device: ck.Device) -> None:
    keys = np.random.default_rng(0).integers(0, 3, (2, 5, 6))
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(ck.lexsort(ck.asarray(keys), axis=axis).numpy(), np.lexsort(keys, axis))
    assert ck.lexsort((ck.asarray(1), ck.asarray(2))).item() == 0


def test_permuted_rows(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 5001))
    places = np.argsort(rng.random(x.shape), -1)
    forth = permuted(ck.asarray(x), ck.asarray(places), "gather")
    np.testing.assert_array_equal(forth.numpy(), np.take_along_axis(x, places, -1))
    np.testing.assert_array_equal(permuted(forth, ck.asarray(places), "scatter").numpy(), x)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_derivatives(device: ck.Device, axis: int | None) -> None:
    x = ck.asarray(np.random.default_rng(0).permutation(24).reshape(4, 6) / 8.0)
    assert gradcheck(lambda x: ck.sort(x, axis=axis, descending=True) ** 2, [x], order=2)
    assert gradcheck(lambda x: ck.topk(x, 2, axis=axis)[0] ** 3, [x], order=2)
    # Of ties the permutation of the stable sort has the derivative.
    ties = ck.asarray([2.0, 1.0, 1.0])
    weights = ck.asarray([1.0, 10.0, 100.0])
    assert ck.grad(lambda x: ck.sum(ck.sort(x) * weights))(ties).tolist() == [100, 1, 10]


def test_methods(device: ck.Device) -> None:
    a = np.asarray([[3, 1, 2], [0, 5, 4]])
    x = ck.asarray(a)
    assert x.argsort(descending=True).tolist() == [[0, 2, 1], [1, 2, 0]]
    assert x.argpartition(1, 0).tolist() == np.argsort(a, 0).tolist()
    x.sort(0)
    assert x.tolist() == np.sort(a, 0).tolist()
    x.partition(0)
    assert x.tolist() == np.sort(np.sort(a, 0), 1).tolist()
    with ck.Tape() as tape:
        y = ck.asarray([2.0, 1.0])
        tape.watch(y)
        with pytest.raises(ck.errors.GradientError):
            y.sort()


def test_refusals(device: ck.Device) -> None:
    x = ck.asarray([[3.0, 1.0]])
    for function in (ck.sort, ck.argsort, lambda x, axis: ck.topk(x, 1, axis=axis)):
        with pytest.raises(AxisError, match="axis 2"):
            function(x, axis=2)
    with pytest.raises(TypeError, match="expected an array, a number or nested lists of them"):
        ck.sort("ab")
    with pytest.raises(ValueError, match="order"):
        ck.sort(x, order="name")
    with pytest.raises(ValueError, match="k: expected 0 to 2"):
        ck.topk(x, 3)
    with pytest.raises(TypeError):
        ck.topk(x, 1.5)
    with pytest.raises(ValueError, match="kth: 2 is out of bounds"):
        ck.partition(x, 2)
    with pytest.raises(ValueError, match="kth: -3 is out of bounds"):
        ck.argpartition(x, [0, -3])
    with pytest.raises(TypeError, match="at least one"):
        ck.lexsort([])
    with pytest.raises(ValueError, match="one shape"):
        ck.lexsort((ck.zeros(2), ck.zeros(3)))


def test_many_floats(device: ck.Device) -> None:
    """What the host gives to NumPy: along both axes, NaN last and of one kind of bits; zeros keep their order."""
    x = np.random.default_rng(2).standard_normal((300, 300)).astype("float32")
    x[3, :7] = np.float32(-np.nan)
    for axis in (0, 1):
        made = ck.sort(ck.asarray(x), axis).numpy()
        np.testing.assert_array_equal(made, np.sort(x, axis))
        assert len(set(made[np.isnan(made)].view("u4").tolist())) == 1
    zeros = np.where(x > 0, 0.0, -0.0).astype("float32").ravel()
    assert (np.signbit(ck.sort(ck.asarray(zeros)).numpy()) == np.signbit(zeros)).all()
    places = ck.argpartition(ck.asarray(x), [5, 70], 0)
    for made in (ck.partition(ck.asarray(x), [5, 70], 0), ck.take_along_axis(ck.asarray(x), places, 0)):
        rows = np.sort(x, 0)
        np.testing.assert_array_equal(made.numpy()[[5, 70]], rows[[5, 70]])
        assert (made.numpy()[:5] <= rows[5]).all()
