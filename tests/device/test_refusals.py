"""Calls that NumPy refuses are refused: what would be a plausible wrong result is an error that names the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck

X3, X2, V = np.arange(24.0).reshape(2, 3, 4), np.arange(16.0).reshape(4, 4), np.arange(4.0)
ONES, WHOLE, SIGNED = np.ones(4), np.array([0, 2]), np.array([-1, 2])
Call = Callable[[Any, Callable[[Any], Any]], Any]
#: Calls of functions of a library, of arrays that a second function makes of NumPy's.
CALLS: dict[str, Call] = {
    "transpose: an axis of three": lambda xp, c: c(X3).transpose(0),
    "transpose: no axis of three": lambda xp, c: c(X3).transpose([]),
    "transpose: an empty tuple": lambda xp, c: c(X3).transpose(()),
    "transpose: twice": lambda xp, c: c(X3).transpose(0, 0, 1),
    "transpose: function, an axis of three": lambda xp, c: xp.transpose(c(X3), 0),
    "nanmean: int": lambda xp, c: xp.nanmean(c(V), dtype=int),
    "nanmean: bool": lambda xp, c: xp.nanmean(c(V), dtype=bool),
    "nanvar: int": lambda xp, c: xp.nanvar(c(V), dtype=int),
    "nanstd: int": lambda xp, c: xp.nanstd(c(V), dtype=int),
    "digitize: complex": lambda xp, c: xp.digitize(c(V * 1j), c(V)),
    "digitize: complex bins": lambda xp, c: xp.digitize(c(V), c(V * 1j)),
    "digitize: one complex bin": lambda xp, c: xp.digitize(c(V), c(V[:1] * 1j)),
    "cross: of a plane": lambda xp, c: xp.linalg.cross(c(np.ones(2)), c(np.ones(2))),
    "cross: of a plane and space": lambda xp, c: xp.linalg.cross(c(np.ones(3)), c(np.ones(2))),
    "gradient: one array of coordinates for two axes": lambda xp, c: xp.gradient(c(X2), c(V)),
    "quantile: complex": lambda xp, c: xp.quantile(c(V * 1j), 0.5),
}
#: The same, of which values decide, which are not looked at on a GPU.
OF_VALUES: dict[str, Call] = {
    **{
        f"{name}: weights {weights}": lambda xp, c, name=name, whole=whole, weights=weights: getattr(
            xp, name
        )(c(V), whole, weights=c(np.array(weights)), method="inverted_cdf")
        for name, whole in (("quantile", 0.5), ("percentile", 50))
        for weights in ([1.0, -1, 1, 1], [1.0, np.nan, 1, 1], [1.0, np.inf, 1, 1], [0.0, 0, 0, 0])
    },
    "quantile: one row of weights 0": lambda xp, c: xp.quantile(
        c(X2), 0.5, axis=1, weights=c(np.diag([1.0, 1, 1, 0])), method="inverted_cdf"
    ),
    "pow: operator": lambda xp, c: c(WHOLE) ** c(SIGNED),
    "pow: function": lambda xp, c: xp.pow(c(WHOLE), c(SIGNED)),
    "pow: int8": lambda xp, c: c(WHOLE.astype("i1")) ** c(SIGNED.astype("i1")),
    "pow: unsigned": lambda xp, c: c(WHOLE.astype("u1")) ** c(SIGNED.astype("i1")),
    "pow: of a number": lambda xp, c: 2 ** c(SIGNED),
    "pow: in place": lambda xp, c: c(WHOLE.copy()).__ipow__(c(SIGNED)),
    "pow: to an array": lambda xp, c: xp.pow(c(WHOLE), c(SIGNED), out=c(WHOLE.copy())),
}


def _refused(call: Call, name: str) -> None:
    with np.errstate(all="ignore"), pytest.raises((ValueError, TypeError)):
        call(np, lambda a: a)
    message = "(permute_dims|transpose)" if name == "transpose" else name
    with pytest.raises((ValueError, TypeError), match=f"^{message}: "):
        call(ck, ck.asarray)


@pytest.mark.parametrize("call", CALLS)
def test_what_numpy_refuses(device: ck.Device, call: str) -> None:
    _refused(CALLS[call], call.partition(":")[0])


@pytest.mark.parametrize("call", OF_VALUES)
def test_what_numpy_refuses_for_its_values(device: ck.Device, call: str) -> None:
    if device.kind == "host":
        _refused(OF_VALUES[call], call.partition(":")[0])


def test_plans_that_are_ready_look_at_exponents_too(device: ck.Device) -> None:
    x, y = ck.asarray(WHOLE), ck.asarray(SIGNED)
    assert (x ** ck.abs(y)).tolist() == [0, 4]
    if device.kind == "host":
        with pytest.raises(ValueError, match="pow: integers to negative integer powers"):
            x**y
    assert (ck.asarray([2.0, 3.0]) ** y).tolist() == [0.5, 9.0]


def test_products_broadcast_to_matrices_alone(device: ck.Device) -> None:
    row, square = ck.ones((1, 3)), ck.ones((3, 3))
    many = ck.zeros((2, 3, 3))
    assert ck.matmul(square, square, out=many) is many and many.sum().item() == 54
    for x, y, out in ((row, square, (3, 3)), (square, ck.ones(3), (2, 2)), (square, ck.ones((3, 1)), (3, 3))):
        with pytest.raises(ValueError, match="matmul: out"):
            ck.matmul(x, y, out=ck.zeros(out))


def test_transposes_that_numpy_takes(device: ck.Device) -> None:
    x = ck.asarray(X3)
    for axes in ((), (None,), (2, 0, 1), ((2, 0, 1),), ([-1, 0, 1],)):
        np.testing.assert_array_equal(x.transpose(*axes).numpy(), X3.transpose(*axes))
    assert ck.asarray(V).transpose(0).shape == ck.transpose(ck.asarray(V), np.int64(0)).shape == (4,)
    assert ck.asarray(1.0).transpose(()).shape == ck.asarray(1.0).transpose().shape == ()


ALONG = (
    "sum prod max min mean std var any all nansum nanmean nanmax nanmin nanstd nanvar nanprod argmax argmin "
)
ALONG += "nanargmax nanargmin cumsum cumprod nancumsum cumulative_sum cumulative_prod"


@pytest.mark.parametrize("name", ALONG.split())
def test_an_array_for_the_result_has_its_shape(device: ck.Device, name: str) -> None:
    """A result is not broadcast to it, as those of elementwise functions are."""
    function, x = getattr(ck, name), ck.asarray(X2[:3] + 1)
    made = function(x, axis=0)
    right = ck.zeros_like(made)
    assert function(x, axis=0, out=right) is right
    np.testing.assert_array_equal(right.numpy(), made.numpy())
    for shape in ((2, *made.shape), (1, *made.shape), (5,), ()):
        with pytest.raises(ValueError, match=r"out: a result of shape \(.*\) does not fit an array of shape"):
            function(x, axis=0, out=ck.zeros(shape, made.dtype))


def test_other_arrays_for_results(device: ck.Device) -> None:
    x = ck.asarray(X2)
    for call in (
        lambda out: ck.take(x, ck.asarray([0]), axis=0, out=out),
        lambda out: ck.round(x[:1], out=out),
        lambda out: ck.round(x[:1], 2, out=out),
        lambda out: ck.quantile(x, 0.5, axis=0, out=out),
        lambda out: ck.add.reduce(x, 0, out=out),
        lambda out: ck.add.accumulate(x[:1], 0, out=out),
        lambda out: ck.dot(x[:1], x, out=out),
    ):
        with pytest.raises(ValueError, match="out: "):
            call(ck.zeros((3, 1, 4), "float64"))
    wide = ck.zeros((3, 4, 4), "float64")
    assert ck.exp(x, out=wide) is wide
    np.testing.assert_allclose(wide[2].numpy(), np.exp(X2))


def test_ranges_of_histograms_keep_their_digits(device: ck.Device) -> None:
    x = np.array([16777216, 16777218, 16777220], "f4")
    for ends in ((16777217, 16777219), (16777217.0, 16777219.0)):
        with pytest.raises(ValueError, match="histogram: range: .* is another range in float32"):
            ck.histogram(ck.asarray(x), 1, range=ends)
    exact = np.float64(16777217), np.float64(16777219)
    for bins in (1, 2):
        counts, edges = ck.histogram(ck.asarray(x), bins, range=exact)
        wanted, at = np.histogram(x, bins, range=exact)
        np.testing.assert_array_equal(counts.numpy(), wanted)
        np.testing.assert_array_equal(edges.numpy(), at)
    share = np.array([0.1, 0.3, 0.7, 0.8], "f4")
    counts, edges = ck.histogram(ck.asarray(share), 7, range=(0.1, 0.8))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(share, 7, range=(0.1, 0.8))[0])
    assert edges.dtype == ck.float32


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_an_index_is_not_written_to_another_kind_of_array(device: ck.Device, name: str) -> None:
    x, search = ck.asarray([1.0, 5.0, 2.0], device=device), getattr(ck, name)
    for dtype in ("float32", "complex64", "bool", "uint64"):
        with pytest.raises(TypeError, match=rf"{name}: out: expected an array of integers, got {dtype}"):
            search(x, out=ck.zeros((), dtype, device))
    out = ck.full((), 7, "int64", device)
    assert search(x, out=out) is out
    assert out.item() == {"max": 1, "min": 0}[name[-3:]]
