"""Reductions of many rows of a few values each, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import dtypes
from cukern.reduction.families import REDUCTION
from cukern.testing import assert_close

#: Not whole tiles of rows.
ROWS = 2100


def reduced(device: ck.Device, function: Callable[..., Any], *arrays: Any) -> tuple[np.ndarray, set[int]]:
    """The result, and on the host the lengths of rows that are reduced in lanes."""
    given = [ck.asarray(one, device=device) for one in arrays]
    with REDUCTION.only(*REDUCTION.variants) as used:
        made = function(*given).astype("float64").numpy()
    return made, {one.length for one in used if one.name == "loops"}


#: Each way of the kernel, and each of its states: the others are thorough.
_USUAL = {("sum", 2), ("sum", 3), ("sum", 5), ("sum", 8), ("max", 17), ("argmin", 17), ("argmin", 32)}
_LENGTHS = [
    pytest.param(name, length, marks=() if (name, length) in _USUAL else pytest.mark.thorough)
    for name in ("sum", "max", "argmin")
    for length in (2, 3, 5, 8, 17, 32)
]


@pytest.mark.parametrize(("name", "length"), _LENGTHS)
def test_lengths(device: ck.Device, name: str, length: int) -> None:
    rows = 9000 if length == 32 else ROWS  # for many threads
    a = np.random.default_rng(length).integers(-50, 50, (rows, length)).astype(np.float32)
    made, lengths = reduced(device, lambda x: getattr(ck, name)(x, axis=1), a)
    assert_close(made, getattr(np, name)(a.astype(np.float64), axis=1))
    if device.kind == "host":
        assert lengths == {length}


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("prod", "float64"),
        ("min", "int8"),
        ("sum", "bool"),
        ("sum", "bfloat16"),
        ("any", "float32"),
        ("argmax", "uint64"),
        ("mean", "complex64"),
        ("var", "float32"),
        ("logsumexp", "float32"),
        ("logsumexp", "float64"),
    ],
)
def test_states(device: ck.Device, name: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a = (rng.integers(0, 2 if dtype == "bool" else 3, (ROWS, 6)) - (dtype == "float64")).astype(
        dtypes.as_dtype(dtype)
    )
    if dtype == "complex64":
        a = (a + 1j * rng.integers(-3, 3, a.shape)).astype(dtype)
    function = getattr(ck, name)
    made = function(ck.asarray(a, device=device), axis=1)
    exact = a.astype(np.complex128 if dtype == "complex64" else np.float64)
    exactly = {"logsumexp": lambda x, axis: np.log(np.exp(x).sum(axis=axis))}
    want = (exactly[name] if name in exactly else getattr(np, name))(exact, axis=1)
    made = made.astype(want.dtype if dtype == "complex64" else "float64")
    assert_close(made, want, rtol=2.0**-8 if dtype == "bfloat16" else 1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["max", "argmax", "argmin"])
def test_nan_and_ties(device: ck.Device, name: str) -> None:
    a = np.random.default_rng(2).integers(0, 3, (ROWS, 7)).astype(np.float32)
    a[3, [2, 6]] = a[5, 0] = a[-1, 6] = np.nan
    a[7] = -np.inf if name != "argmin" else np.inf
    a[8] = np.nan
    made, _ = reduced(device, lambda x: getattr(ck, name)(x, axis=1), a)
    assert_close(made, getattr(np, name)(a, axis=1))


def test_several_inputs(device: ck.Device) -> None:
    """A number a row, one a column, and a matrix."""
    rng = np.random.default_rng(3)
    x, y, z, w = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((ROWS, 10), (10,), (ROWS, 1), (ROWS, 10))
    )
    made, lengths = reduced(device, ck.fuse(lambda x, y, z, w: ck.sum((x - y) * z + w, axis=1)), x, y, z, w)
    assert_close(made, np.sum((x.astype(np.float64) - y) * z + w, axis=1), rtol=1e-5, atol=1e-5)
    assert device.kind != "host" or lengths == {10}


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x[:, :700],
        lambda x: x[:, :, :4],
        lambda x: x[:, :, ::-1],
        lambda x: np.swapaxes(x, 0, 1) if isinstance(x, np.ndarray) else ck.swapaxes(x, 0, 1),
    ],
    ids=["every second row", "rows in blocks", "parts of rows", "backwards", "blocks in turn"],
)
def test_views(device: ck.Device, view: Callable[[Any], Any]) -> None:
    a = np.random.default_rng(4).integers(-50, 50, (5, 900, 8)).astype(np.float32)
    made, lengths = reduced(device, lambda x: ck.max(view(x), axis=-1), a)
    assert_close(made, view(a).max(axis=-1))
    if device.kind == "host" and view(a).shape == (5, 700, 8):
        assert lengths == {8}


def test_many_functions_and_few_rows_are_reduced_row_by_row(device: ck.Device) -> None:
    if device.kind != "host":
        pytest.skip("of the host's loops")
    a = np.random.default_rng(5).uniform(0.5, 2, (ROWS, 32)).astype(np.float32)
    made, lengths = reduced(device, ck.fuse(lambda x: ck.sum(ck.log(x), axis=1)), a)
    assert_close(made, np.log(a.astype(np.float64)).sum(axis=1), rtol=1e-5, atol=1e-5)
    assert lengths == {0}
    made, lengths = reduced(device, lambda x: ck.max(x, axis=1), a[:100])
    assert_close(made, a[:100].max(axis=1))
    assert lengths == {0}


def test_gradients_and_sums_onto_others(device: ck.Device) -> None:
    a = np.random.default_rng(6).standard_normal((ROWS, 5)).astype(np.float32)
    x = ck.asarray(a, device=device)
    w = ck.asarray(np.arange(ROWS, dtype=np.float32), device=device)
    with ck.Tape() as tape:
        tape.watch(w)
        y = ck.sum(x * w[:, None]) + ck.sum(w * w)
    assert_close(tape.gradient(y, w), a.astype(np.float64).sum(axis=1) + 2 * np.arange(ROWS), rtol=1e-5)


def test_logarithms_of_sums_of_exponentials_of_infinities(device: ck.Device) -> None:
    a = np.random.default_rng(7).standard_normal((ROWS, 4)).astype(np.float32)
    a[0], a[1, 2], a[2, 0], a[3, 3], a[4] = -np.inf, -np.inf, np.inf, np.nan, [np.inf, np.inf, -np.inf, 0]
    a[5] = [3e38, 3e38, -3e38, 0]
    made, lengths = reduced(device, lambda x: ck.logsumexp(x, axis=1), a)
    exact = a.astype(np.float64)
    peak = np.where(np.isfinite(exact.max(axis=1)), exact.max(axis=1), 0)
    with np.errstate(divide="ignore", over="ignore"):
        want = np.log(np.exp(exact - peak[:, None]).sum(axis=1)) + peak
    assert_close(made, want, rtol=1e-6, atol=1e-6)
    assert device.kind != "host" or lengths == {4}
