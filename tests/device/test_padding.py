"""Arrays extended beyond their ends: NumPy's values, the kernel at its GPU shape, derivatives, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cukern as ck
from cukern.elementwise.geometry import Geometry
from cukern.shape import remap as moving
from cukern.testing import assert_close, gradcheck

CHOOSE = ["edge", "reflect", "symmetric", "wrap"]
MODES = ["constant", "linear_ramp", "maximum", "mean", "median", "minimum", *CHOOSE]
WIDTHS = st.tuples(st.integers(0, 9), st.integers(0, 9))
PADDED = st.lists(st.tuples(st.integers(1, 4), st.just((0, 0)) | WIDTHS), min_size=1, max_size=3)


@settings(max_examples=60)
@given(axes=PADDED, mode=st.sampled_from(MODES), layout=st.sampled_from(["C", "F", "reversed"]))
def test_values_are_numpys(device: ck.Device, axes: Any, mode: str, layout: str) -> None:
    shape, widths = [n for n, _ in axes], [width for _, width in axes]
    a = np.arange(1.0, 1 + np.prod(shape)).reshape(shape) ** 2
    x = ck.asarray(np.asfortranarray(a).T).T if layout == "F" else ck.asarray(a)
    if layout == "reversed":
        a, x = a[::-1], x[::-1]
    assert_close(ck.pad(x, widths, mode), np.pad(a, widths, mode), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(device: ck.Device, mode: str) -> None:
    x = ck.asarray(np.random.default_rng(0).normal(size=(3, 2)))
    assert gradcheck(lambda x: ck.pad(x, ((4, 1), (0, 5)), mode) ** 2, [x], order=2)


@pytest.mark.parametrize("mode", ["constant", *CHOOSE])
@pytest.mark.parametrize(
    ("shape", "widths"), [((700,), (300, 5000)), ((5, 3), ((1, 2), (40, 3))), ((3, 4, 2), 6)]
)
def test_the_shape_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None], mode: str, shape: Any, widths: Any
) -> None:
    """On the host the kernel runs at the block size of a GPU: threads share rows, groups own pieces."""

    def geometry(kind: str, rows: int, columns: int) -> Geometry:
        return Geometry(64, 8 if rows > 1 else 64, 1, 64)

    monkeypatch.setattr(moving, "geometry", geometry)
    empty(moving._plan)
    a = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    made = ck.pad(ck.asarray(a, device="host"), widths, mode)
    np.testing.assert_array_equal(made.numpy(), np.pad(a, widths, mode))


@pytest.mark.parametrize("mode", ["constant", "wrap"])
def test_many_elements_at_the_ends_of_pieces(device: ck.Device, mode: str) -> None:
    line = np.arange(40_000, dtype=np.int32)
    for a, widths in ((line, (16_384, 7)), (line.reshape(20_000, 2), ((1, 1), (2, 0)))):
        made = ck.pad(ck.asarray(a), widths, mode)
        np.testing.assert_array_equal(made.numpy(), np.pad(a, widths, mode))


def test_64_bit_places(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]
) -> None:
    monkeypatch.setattr(moving, "LARGEST_INDEX", 3)
    empty(moving._plan)
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(ck.pad(ck.asarray(a), 2, "reflect").numpy(), np.pad(a, 2, "reflect"))


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_constants_of_every_dtype(device: ck.Device, dtype: Any) -> None:
    a = np.ones((2, 2), dtype)
    want = np.pad(a, ((1, 0), (0, 2)), constant_values=(0, 1))
    assert_close(ck.pad(ck.asarray(a), ((1, 0), (0, 2)), constant_values=(0, 1)), want, dtype=dtype)


def test_special_constants(device: ck.Device) -> None:
    made = ck.pad(ck.ones(1), (1, 1), constant_values=(float("nan"), -float("inf"))).numpy()
    np.testing.assert_array_equal(made, [np.nan, 1, -np.inf])
    assert ck.pad(ck.ones(1, dtype="uint64"), 1, constant_values=2**64 - 1)[0].item() == 2**64 - 1
    assert ck.pad(ck.ones(1, dtype="int8"), 1, constant_values=2.5).tolist() == [2, 1, 2]


@pytest.mark.parametrize("mode", ["mean", "median"])
@pytest.mark.parametrize("values", [[1, 2, 5, 8], [False, True, True, False], [1.0, np.nan, 3.0, 2.0]])
def test_statistics_of_integers_and_nan(device: ck.Device, mode: str, values: Any) -> None:
    a = np.asarray(values)
    made = ck.pad(ck.asarray(a), (1, 2), mode, stat_length=((2, 4),))
    np.testing.assert_array_equal(made.numpy(), np.pad(a, (1, 2), mode, stat_length=((2, 4),)))


def test_edges_of_the_arguments(device: ck.Device) -> None:
    x = ck.asarray(np.arange(6.0).reshape(2, 3))
    assert_close(ck.pad(x, {-1: (1, 2)}), np.pad(x.numpy(), ((0, 0), (1, 2))))
    assert_close(ck.pad(x, 0, "edge"), x.numpy())
    assert ck.pad(x, 0, "edge")._storage is not x._storage
    assert ck.pad(x, 1, "empty").shape == (4, 5)
    assert_close(ck.pad(ck.zeros((0, 2)), ((1, 2), (0, 1)), constant_values=3), np.full((3, 3), 3.0))
    assert ck.pad(ck.zeros((2, 0)), ((3, 0), (0, 0)), "edge").shape == (5, 0)
    assert ck.pad(ck.asarray(2.0), 3).item() == 2.0
    assert_close(ck.pad(ck.asarray([1, 2]), 3, "reflect"), np.pad([1, 2], 3, "reflect"))


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "negative": (lambda x: ck.pad(x, -1), ValueError, "expected numbers of at least 0"),
    "not integers": (lambda x: ck.pad(x, 1.5), TypeError, "pad_width: expected integers"),
    "too many": (lambda x: ck.pad(x, ((1, 1),) * 3), ValueError, "expected a number or pairs for 2 axes"),
    "mode": (lambda x: ck.pad(x, 1, "mode"), ValueError, "mode: expected a function or one of"),
    "reflection": (
        lambda x: ck.pad(x, 1, "reflect", reflect_type="up"),
        ValueError,
        "expected 'even' or 'odd'",
    ),
    "nothing to repeat": (lambda x: ck.pad(x[:0], 1, "edge"), ValueError, "has nothing to repeat"),
    "no statistic": (
        lambda x: ck.pad(x, 1, "maximum", stat_length=0),
        ValueError,
        "stat_length: expected at least 1",
    ),
    "axis": (lambda x: ck.pad(x, {2: 1}), np.exceptions.AxisError, "axis 2 is out of bounds"),
    "not an array": (lambda x: ck.pad("1", 1), TypeError, "pad: x: expected an array, a number"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, error, message = case
    with pytest.raises(error, match=message):
        function(ck.ones((2, 3)))
