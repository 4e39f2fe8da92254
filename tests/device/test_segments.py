"""Reductions of segments, and scatter: values, dtypes, derivatives and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.array.deferred import Deferred
from cukern.array.layout import fresh_layout
from cukern.device import capture_hooks
from cukern.index import combine, gather_scatter, segments, take
from cukern.testing import assert_close, gradcheck

X = np.random.default_rng(0).standard_normal((300, 3))
#: Segment 3 has no rows, and segment 1 so many that a tree combines them.
IDS = np.where(np.arange(300) % 7 < 4, 1, np.arange(300) * 5 % 3 * 2)
UFUNCS = {
    "sum": (np.add, 0),
    "prod": (np.multiply, 1),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


def wanted(how: str, x: np.ndarray[Any, Any], ids: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    if how == "mean":
        counts = np.bincount(ids, minlength=number)
        return wanted("sum", x, ids, number) / np.maximum(counts, 1).reshape(-1, *(1,) * (x.ndim - 1))
    ufunc, start = UFUNCS[how]
    made = np.full((number, *x.shape[1:]), start, x.dtype)
    ufunc.at(made, ids, x)
    return made


def few(*names: str) -> list[Any]:
    """The reductions; all but some are thorough."""
    every = [*UFUNCS, "mean"]
    return [how if how in names else pytest.param(how, marks=pytest.mark.thorough) for how in every]


@pytest.fixture(params=["own", "parallel"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of the device; those of a GPU on the host too."""
    if request.param == "parallel":
        for module in (gather_scatter, combine, segments):
            monkeypatch.setattr(module, "serial", lambda device: False)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("how", few("prod", "max", "mean"))
def test_values(device: ck.Device, how: str) -> None:
    f: Callable[..., ck.Array] = getattr(ck, f"segment_{how}")
    x, ids = ck.asarray(X), ck.asarray(IDS)
    assert_close(f(x, ids, 6), wanted(how, X, IDS, 6), rtol=1e-12)
    rising = np.sort(IDS)
    offsets = np.searchsorted(rising, np.arange(7))
    want = wanted(how, X, rising, 6)
    assert_close(f(x, ck.asarray(rising), 6, indices_are_sorted=True), want, rtol=1e-12)
    assert_close(f(x, offsets=ck.asarray(offsets)), want, rtol=1e-12)
    assert_close(f(x.T, offsets=ck.asarray(offsets), axis=1), want.T, rtol=1e-12)
    assert f(x, ids).shape == (5, 3)
    assert_close(f(x[:, 0], ids, 6), wanted(how, X[:, 0], IDS, 6), rtol=1e-12)
    assert ck.array_equal(f(x, ids, 6), f(x, ids, 6))


def test_offsets_that_a_gpu_does_not_refuse_stay_within_bounds(device: ck.Device) -> None:
    for offsets in ([0, 1, 3], [0, 0, 3, 3], [-5, 9, 2], [4, 0, 1, -7, 2]):
        keys, starts = gather_scatter.between(device, ck.asarray(offsets)._data, 3)
        keys, starts = (ck.Array._wrap(one, device).tolist() for one in (keys, starts))
        assert all(0 <= key < len(offsets) - 1 for key in keys)
        assert starts == np.clip(offsets, 0, 3).tolist()
        if offsets == sorted(offsets):
            assert keys == np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)).tolist()


@pytest.mark.parametrize("how", few("sum", "prod", "max"))
def test_derivatives(device: ck.Device, how: str) -> None:
    f: Callable[..., ck.Array] = getattr(ck, f"segment_{how}")
    x, ids = ck.asarray(X[:6, :2]), ck.asarray([1, 0, 2, 0, 1, 0])
    gradcheck(lambda x: f(x, ids, 3), (x,), order=2)
    gradcheck(lambda x: f(x, axis=1, offsets=[0, 4, 6]), (x.T,), order=2)


def test_derivatives_of_zeros_and_of_equal_values(device: ck.Device) -> None:
    x = ck.asarray([2.0, 0.0, 3.0, 5.0])
    product = ck.grad(lambda x: ck.segment_prod(x, [0, 0, 0, 1], 2).sum())(x)
    assert product.tolist() == [0.0, 6.0, 0.0, 1.0]
    equal = ck.grad(lambda x: (ck.segment_max(x, [0, 0, 1, 1], 2) * ck.asarray([4.0, 1.0])).sum())
    assert equal(ck.asarray([7.0, 7.0, 1.0, float("nan")])).tolist()[:3] == [2.0, 2.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_segment(device: ck.Device, bad: float) -> None:
    x = ck.asarray([2.0, bad, 3.0, 4.0, -0.0, 5.0, bad, 7.0])
    for ids in ([0, 0, 1, 1, 2, 2, 3, 3], [3, 3, 0, 0, 1, 1, 2, 2]):

        def product(v: Any, ids: Any = ids) -> Any:
            return ck.segment_prod(v, ck.asarray(ids)).sum()

        assert_close(ck.grad(product)(x), [bad, 2, 4, 3, 5, 0, 7, bad])
        twice = ck.grad(lambda v, product=product: (ck.grad(product)(v) * np.arange(8.0))[2:6].sum())
        assert_close(twice(x)[2:6], [3, 2, 5, 4])
    # A zero in the same segment does not hide a NaN.
    if np.isnan(bad):
        made = ck.grad(lambda v: ck.segment_prod(v, ck.asarray([0, 0, 0])).sum())(ck.asarray([bad, 0.0, 3.0]))
        assert np.isnan(made.numpy()).tolist() == [False, True, True]


def test_complex_numbers(device: ck.Device) -> None:
    x = ck.asarray(X[:5] + 1j * X[5:10])
    ids = np.asarray([0, 1, 0, 0, 1])
    for how in ("sum", "prod", "mean"):
        f = getattr(ck, f"segment_{how}")
        assert_close(f(x, ck.asarray(ids), 2), wanted(how, x.numpy(), ids, 2), rtol=1e-12)
    gradcheck(lambda x: ck.segment_prod(x, ids, 2), (x,))
    with pytest.raises(TypeError, match="segment_max: x: expected real numbers, got complex128"):
        ck.segment_max(x, ids)
    with pytest.raises(TypeError, match="scatter: x: expected real numbers for the min"):
        ck.scatter(x, [0, 1, 0, 0, 1], 0, reduce="min")


def test_dtypes(device: ck.Device) -> None:
    ids = ck.asarray([0, 0, 2])
    for dtype, total, mean in (
        ("bool", "int64", "float32"),
        ("int8", "int64", "float32"),
        ("float16", "float16", "float16"),
    ):
        x = ck.ones(3, dtype=dtype)
        assert ck.segment_sum(x, ids).dtype == total and ck.segment_prod(x, ids).dtype == total
        assert ck.segment_mean(x, ids).dtype == mean
        assert ck.segment_max(x, ids).dtype == ck.segment_min(x, ids).dtype == dtype
        assert ck.segment_sum(x, ids).tolist() == [2, 0, 1]
    assert ck.segment_max(ck.asarray([1, 2, 3], "int8"), ids).tolist() == [2, -128, 3]
    assert ck.segment_min(ck.asarray([1, 2, 3], "uint16"), ids).tolist() == [1, 65535, 3]
    assert ck.segment_max(ck.asarray([False, True, False]), ids).tolist() == [True, False, False]


@pytest.mark.usefixtures("kernels")
def test_counts_and_sums_that_half_types_do_not_hold(device: ck.Device) -> None:
    """70000 rows of 10: neither is below the largest float16, but the mean is, and the derivative."""
    x, offsets = ck.full((70_000, 1), 10.0, dtype="float16"), ck.asarray([0, 70_000])
    for f in (ck.segment_mean, ck.segment_max):
        made, pull = ck.vjp(lambda rows, f=f: f(rows, offsets=offsets), x)
        assert made.tolist() == [[10.0]]
        assert_close(pull(ck.ones((1, 1), dtype="float16"))[0][-1:], [[1 / 70_000]], rtol=1e-2)


def test_sizes_of_nothing(device: ck.Device) -> None:
    nothing = ck.zeros((0, 2))
    assert ck.segment_sum(nothing, ck.zeros(0, dtype="int64")).shape == (0, 2)
    assert ck.segment_prod(nothing, [], 2).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert ck.segment_mean(nothing, offsets=[0, 0]).tolist() == [[0.0, 0.0]]
    assert ck.segment_max(ck.zeros((3, 0)), [0, 0, 1]).shape == (2, 0)
    assert ck.grad(lambda x: ck.segment_prod(x, [], 2).sum())(nothing).shape == (0, 2)
    assert (
        ck.scatter(nothing, ck.zeros((0, 2), dtype="int64"), 0, 3, reduce="max").tolist() == [[0.0, 0.0]] * 3
    )
    row = ck.broadcast_to(ck.asarray([1.0, 2.0]), (4, 2))
    assert ck.segment_sum(row, [0, 1, 1, 0], 2).tolist() == [[2.0, 4.0], [2.0, 4.0]]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("how", few("max", "mean"))
def test_scatter(device: ck.Device, how: Any) -> None:
    x, ids = X[:24].reshape(4, 6, 3), np.arange(72).reshape(4, 6, 3) * 7 % 5
    want = np.stack(
        [np.stack([wanted(how, x[i, :, k], ids[i, :, k], 6) for k in range(3)], 1) for i in range(4)]
    )
    want[np.isinf(want)] = 0
    assert_close(ck.scatter(ck.asarray(x), ck.asarray(ids), 1, 6, reduce=how), want, rtol=1e-12)
    column = ck.asarray(ids[:1, :, :1])
    want = ck.scatter(ck.asarray(x), ck.broadcast_to(column, x.shape), 1, 6, reduce=how)
    assert_close(ck.scatter(ck.asarray(x), column, 1, 6, reduce=how), want)
    assert_close(ck.scatter(ck.asarray(x), column[0, :, 0], 1, 6, reduce=how), want)


def test_scatter_has_derivatives(device: ck.Device) -> None:
    ids = ck.asarray([[0, 2, 0], [1, 1, 0]])
    gradcheck(lambda x: ck.scatter(x, ids, 1, 4, reduce="prod"), (ck.asarray(X[:2]),), order=2)


def test_errors(device: ck.Device) -> None:
    x, ids = ck.zeros((3, 2)), ck.asarray([0, 1, 1])
    for call, error, message in (
        (lambda: ck.segment_sum(x), TypeError, "expected either segment_ids or offsets, got neither"),
        (lambda: ck.segment_sum(x, ids, offsets=[0, 3]), TypeError, "got both"),
        (lambda: ck.segment_sum(x, ids[:2]), ValueError, r"segment_ids: expected shape \(3,\)"),
        (lambda: ck.segment_sum(x, [0.5, 0, 0]), IndexError, "expected integer indices"),
        (lambda: ck.segment_sum(x, ids, -1), ValueError, "num_segments: expected at least 0, got -1"),
        (lambda: ck.segment_sum(x, offsets=[[0, 3]]), ValueError, "offsets: expected a vector"),
        (lambda: ck.segment_sum(x, offsets=[0]), ValueError, "offsets: expected rising numbers from 0 to 3"),
        (lambda: ck.segment_sum(x, num_segments=2, offsets=[0, 3]), ValueError, "num_segments: expected 1"),
        (lambda: ck.segment_sum(ck.asarray(1.0), ids), ValueError, "axis 0 is out of bounds"),
        (lambda: ck.scatter(x, ck.asarray([[0, 1, 1]]), 1), ValueError, "do not broadcast"),
        (lambda: ck.scatter(x, ids, 0, reduce="or"), ValueError, "reduce: expected one of sum, prod"),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=message):
            call()


def test_numbers_out_of_range(device: ck.Device) -> None:
    if device.kind != "host":
        pytest.skip("not checked on a GPU")
    x = ck.zeros(3)
    with pytest.raises(IndexError, match="index 2 is out of bounds for an axis of size 2"):
        ck.segment_sum(x, [0, 1, 2], 2)
    with pytest.raises(ValueError, match="segment_ids: expected rising order"):
        ck.segment_sum(x, [0, 1, 0], 2, indices_are_sorted=True)
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3]):
        with pytest.raises(ValueError, match="offsets: expected rising numbers from 0 to 3"):
            ck.segment_sum(x, offsets=offsets)


@pytest.fixture
def of_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kernels of a GPU, which clip indices, also on the host; the sizes of the index arrays that are sorted."""
    monkeypatch.setattr(take, "wraps", lambda x: True)
    for module in (gather_scatter, combine, segments):
        monkeypatch.setattr(module, "serial", lambda device: False)
    made: list[int] = []
    sort = gather_scatter.sorted_rows

    def counted(keys: ck.Array, *options: bool) -> list[ck.Array]:
        made.append(keys.size)
        return sort(keys, *options)

    monkeypatch.setattr(gather_scatter, "sorted_rows", counted)
    return made


def message_passing(x: ck.Array, sources: ck.Array, targets: ck.Array) -> ck.Array:
    for _ in range(3):
        x = ck.segment_sum(x[sources], targets, x.shape[0])
    return x


def test_indices_are_sorted_once(device: ck.Device, of_gpu: list[int]) -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 5, (2, 40))
    sources, targets = map(ck.asarray, ends)
    x, adjacency = ck.asarray(rng.normal(size=(5, 2))), np.zeros((5, 5))
    np.add.at(adjacency, (ends[1], ends[0]), 1)
    power = np.linalg.matrix_power(adjacency, 3)
    for _ in range(2):
        value, gradient = ck.value_and_grad(lambda x: (message_passing(x, sources, targets) * x).sum())(x)
        assert value.item() == pytest.approx((power @ x.numpy() * x.numpy()).sum())
        assert_close(gradient, (power + power.T) @ x.numpy(), rtol=1e-12)
    # Those that are summed by in the forward, and those in the backward.
    assert of_gpu == [40, 40]


def test_a_record_keeps_the_order_of_its_indices(device: ck.Device, of_gpu: list[int]) -> None:
    """Also of indices that nobody else has any more, of any number of axes."""
    if device.addressable:
        pytest.skip("the host sorts no indices")
    x, ids = ck.asarray(np.arange(8.0).reshape(4, 2)), ck.asarray([[3, 0], [0, 3], [1, 1]])
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        total = (x[ids] * ck.arange(3.0)[:, None, None]).sum()
    assert_close(x[::2, :1][ids // 2], x.numpy()[::2, :1][ids.numpy() // 2])
    assert_close(x[:, 1:][ids], x.numpy()[:, 1:][ids.numpy()])  # not by rows in memory
    del ids
    for _ in range(2):
        assert_close(tape.gradient(total, x)[:, 0], [1, 4, 0, 1])
    assert of_gpu == [6]


def test_indices_that_are_written(device: ck.Device, of_gpu: list[int]) -> None:
    x = ck.asarray(np.arange(12.0).reshape(6, 2))
    ids = ck.asarray([3, 0, 0, 2, 1, 1])
    with ck.Tape() as tape:
        tape.watch(x)
        total = (ck.segment_sum(x, ids, 4) * ck.arange(4.0)[:, None]).sum()
        ids[:] = ck.asarray([0, 0, 0, 0, 0, 3])
        # What was recorded has the former indices, and what comes later the new ones.
        later = ck.segment_sum(x, ids, 4)
    assert_close(tape.gradient(total, x)[:, 0], [3, 0, 0, 2, 1, 1])
    assert_close(later, wanted("sum", x.numpy(), np.asarray([0, 0, 0, 0, 0, 3]), 4))
    assert_close(ck.segment_sum(x, ids[:6], 4), later.numpy())
    parts = [ck.segment_sum(x[:2], ids[i : i + 2], 4) for i in range(5)]
    for i, part in enumerate(parts):
        assert_close(part, wanted("sum", x.numpy()[:2], ids.numpy()[i : i + 2], 4))
    assert len(ids._storage.kept or ()) == 4
    # Another library may write where it was given the memory.
    ids.__dlpack__()
    of_gpu.clear()
    for _ in range(2):
        ck.segment_sum(x, ids, 4)
    assert of_gpu == [6, 6]


class _Recorder:
    """A capture that runs what it cannot record between its graphs."""

    def __init__(self) -> None:
        self.parts: list[tuple[Callable[[], Any], Any]] = []

    def between(self, call: Callable[[], Any]) -> Any:
        capture_hooks.begin(None)
        made = [one.copy() for one in call()]
        capture_hooks.begin(self)  # type: ignore[arg-type]
        self.parts.append((call, made))
        return made


def test_captured_sums_by_indices_that_were_sorted_before(
    device: ck.Device, of_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.kind == "cuda":
        pytest.skip("a stand-in for a capture, which a GPU has: see the next test")
    monkeypatch.setattr(gather_scatter, "_LONG", 10)
    rng = np.random.default_rng(0)
    x, numbers = ck.asarray(rng.normal(size=(30, 2))), rng.integers(0, 4, (3, 30))
    ids, few, new = ck.asarray(numbers[0]), ck.asarray(numbers[0][:5]), ck.asarray(numbers[1])
    for one in (ids, few):
        ck.segment_sum(x[: one.size], one, 4)
    recorder = _Recorder()
    capture_hooks.begin(recorder)  # type: ignore[arg-type]
    try:
        for _ in range(2):
            result = ck.segment_sum(x, ids, 4)
        # The others are sorted in the graph: they were not sorted before, or take less time than another graph.
        ck.segment_sum(x, new, 4)
        ck.segment_sum(x[:5], few, 4)
    finally:
        capture_hooks.begin(None)
    assert of_gpu == [30, 5, 30, 5]
    assert_close(result, wanted("sum", x.numpy(), numbers[0], 4))
    ((again, made),) = recorder.parts
    for number, sorts in ((0, 0), (2, 1), (2, 0)):
        if sorts:
            ids[:] = ck.asarray(numbers[number])
        of_gpu.clear()
        for old, one in zip(made, again(), strict=True):
            old[...] = one
        keys, positions, starts = made
        assert of_gpu == [30] * sorts
        assert positions.tolist() == np.argsort(numbers[number], kind="stable").tolist()
        assert keys.tolist() == np.sort(numbers[number]).tolist()
        assert starts.tolist() == np.searchsorted(keys, np.arange(5)).tolist()


def test_a_captured_sum_follows_its_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather_scatter, "_LONG", 10)
    rng = np.random.default_rng(0)
    x, ids = ck.asarray(rng.normal(size=(30, 2))), ck.asarray(rng.integers(0, 4, 30))
    summed = ck.capture(lambda: ck.segment_sum(x, ids, 4))
    for call in range(6):
        if call % 2:
            ids[...] = ck.asarray(rng.integers(0, 4, 30))
        for _ in range(2):
            assert_close(summed(), wanted("sum", x.numpy(), ids.numpy(), 4))


def test_cotangents_that_are_not_gathered(device: ck.Device, of_gpu: list[int]) -> None:
    rng = np.random.default_rng(0)
    y, sources, targets = rng.normal(size=(4, 2)), rng.integers(0, 5, 300), rng.integers(-4, 4, 300)
    made: list[str] = []

    def gathered() -> ck.Array:
        made.append("rows")
        return ck.asarray(y[targets][None])

    def rows() -> ck.Array:
        layout = fresh_layout(device, np.dtype(np.float64), (1, 300, 2))
        return Deferred.of(layout, gathered)

    # It has a shape before it is computed, and is an ordinary array from when it is read.
    one = rows()
    assert one.shape == (1, 300, 2) and one.device is device and not made
    assert_close(one + 0, y[targets][None])
    assert made == ["rows"] and type(one) is ck.Array
    assert_close(one, y[targets][None])
    assert made == ["rows"]
    # Rows that are summed are read where they come from: in order too, and without what is kept of an array.
    plain = np.arange(300) % 4
    for ids, at in ((targets, sources), (plain, np.sort(sources)), (plain, sources)):
        ids = ids % 4
        given = ck.asarray(ids), ck.asarray(at)
        named = take.kernel_indices(given[0]._data, 4, one, "", given[0])
        for summed in (given[1]._data, take.kernel_indices(given[1]._data, 5, one, "", given[1])):
            own = take.Gathered(ck.asarray(y)[None], named, 4, 2)
            later = Deferred.of(fresh_layout(device, np.dtype(np.float64), (1, 300, 2)), own)
            found = take.scatter(later, summed, 1, 5, 2)
            assert ck.array_equal(found, take.scatter(own(), summed, 1, 5, 2))
            assert type(later) is Deferred
            assert_close(found[0], wanted("sum", y[ids], at, 5), rtol=1e-12, atol=1e-12)


def test_gradients_of_gathered_rows(device: ck.Device, of_gpu: list[int]) -> None:
    rng = np.random.default_rng(0)
    ends, start = rng.integers(0, 5, (2, 40)), rng.normal(size=(5, 2))
    adjacency = np.zeros((5, 5))
    np.add.at(adjacency, (ends[1], ends[0]), 1)
    x, sources, targets = ck.asarray(start), *map(ck.asarray, ends)
    with ck.Tape() as tape:
        tape.watch(x)
        rows = x[sources]
        sums = ck.segment_sum(rows, targets, 5)
        total = (sums * sums).sum()
    of_x, of_rows, of_sums = tape.gradient(total, [x, rows, sums])
    of_sums[:] = 0.0
    assert type(of_rows) is ck.Array
    assert_close(of_rows, (2 * adjacency @ start)[ends[1]], rtol=1e-12)
    assert_close(of_x, adjacency.T @ (2 * adjacency @ start), rtol=1e-12)
    # Others read the rows too.
    total = ck.grad(
        lambda x: ((rows := x[sources]) ** 2).sum() + (ck.segment_sum(rows, targets, 5) ** 2).sum()
    )(x)
    assert_close(total, of_x.numpy() + 2 * np.bincount(ends[0], minlength=5)[:, None] * start, rtol=1e-12)
    assert gradcheck(lambda x: ck.segment_sum(ck.tanh(x)[sources], targets, 5) ** 2, [x], order=2)
