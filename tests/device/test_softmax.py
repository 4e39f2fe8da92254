"""Softmax and log_softmax: values, launch shapes, infinities, derivatives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from elementwise_support import address_counts
from nn_support import close, sized

import cukern as ck
from cukern.elementwise import plan as launch
from cukern.launch.family import STAND_IN, Used
from cukern.reduction import plan as reduction
from cukern.reduction import softmax
from cukern.reduction.families import SOFTMAX
from cukern.testing import assert_close, gradcheck


def normalized(a: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


#: Rows of every launch shape: a thread each, a warp, blocks of both sizes, in registers and read again.
ROW_SHAPES = [((3, 4), 1), ((2, 200), 1), ((2, 1500), 1), ((2, 5000), 1), ((1, 17_000), 1), ((40, 4, 30), 1)]


@pytest.mark.parametrize(("shape", "axis"), ROW_SHAPES)
def test_gpu_launch_shapes_of_softmax_on_the_host(shape: tuple[int, ...], axis: int) -> None:
    a, g = np.random.default_rng(0).standard_normal((2, *shape))
    with ck.device("host"), SOFTMAX.only("registers", "passes", limits=STAND_IN) as used:
        check_softmax(a, g, axis)
    assert used and (shape[axis] <= 4 or max(one.threads for one in used) > 1)


@pytest.mark.parametrize(
    ("shape", "axis"), [*ROW_SHAPES, ((5000, 70), 0), ((3, 0), 1), ((0, 3), 1), ((5,), 0)]
)
def test_softmax_and_its_derivative(device: ck.Device, shape: tuple[int, ...], axis: int) -> None:
    check_softmax(*np.random.default_rng(0).standard_normal((2, *shape)), axis)


def check_softmax(a: np.ndarray, g: np.ndarray, axis: int) -> None:
    """Values and derivatives with the cotangent ``g``, of arrays in two layouts."""
    want = normalized(a, axis) if a.size else a
    for x in (ck.asarray(a), ck.asarray(np.ascontiguousarray(a.T)).T):
        with ck.Tape(persistent=True) as recorder:
            recorder.watch(x)
            soft, log = ck.softmax(x, axis), ck.log_softmax(x, axis)
        assert_close(soft, want)
        assert_close(log, np.log(want), atol=1e-12)
        total = (g * want).sum(axis, keepdims=True)
        assert_close(recorder.gradient(soft, x, ck.asarray(g)), want * (g - total), atol=1e-12)
        total = g.sum(axis, keepdims=True)
        assert_close(recorder.gradient(log, x, ck.asarray(g)), g - want * total, atol=1e-11)


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
@pytest.mark.parametrize("shape", [(2, 300), (3, 90, 20)])
def test_softmax_in_every_dtype(device: ck.Device, dtype: Any, shape: tuple[int, ...]) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype))
    want = normalized(x.numpy().astype(np.float64), 1)
    assert_close(ck.softmax(x, 1), want, dtype=dtype)
    assert_close(ck.log_softmax(x, 1), np.log(want), dtype=dtype)


@pytest.fixture
def rows_of_packs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Used]:
    """The host launches as a GPU does; the variants it takes."""
    # Its name in the package is that of the function.
    monkeypatch.setattr(sys.modules["cukern.array.array"], "layout_of", address_counts)
    with ck.device("host"), SOFTMAX.only("packs", "registers", "passes", limits=STAND_IN) as used:
        yield used


#: Every length in float32, and of each other dtype some: in packs or not, and of each number of threads a row.
_USUAL = {
    **dict.fromkeys((4, 24, 1024), ck.bfloat16),
    **dict.fromkeys((32, 4096), ck.float16),
    **dict.fromkeys((2, 1000, 32768), ck.float64),
}
_REGISTERS = [
    pytest.param(
        n,
        dtype,
        id=f"{ck.dtypes.info(dtype).name}-{n}",
        marks=() if dtype in (ck.float32, usual) else pytest.mark.thorough,
    )
    for dtype in ck.dtypes.FLOATS
    for n, usual in sorted(_USUAL.items())
]


@pytest.mark.parametrize("n, dtype", _REGISTERS)
def test_rows_in_registers(rows_of_packs: Used, n: int, dtype: Any) -> None:
    """A row a thread, part of a warp, a warp, a block; the last rows of a block left out."""
    rng = np.random.default_rng(0)
    a, g = (rng.standard_normal((3 if n > 5000 else 37, n)).astype(dtype) for _ in range(2))
    x, given = ck.asarray(a), ck.asarray(g)
    want = normalized(a.astype(np.float64), 1)
    with ck.Tape(persistent=True) as recorder:
        recorder.watch(x)
        soft, log = ck.softmax(x), ck.log_softmax(x)
    assert_close(soft, want, dtype=dtype)
    assert_close(log, np.log(want), dtype=dtype)
    # The derivatives are those at the results as they were rounded.
    g, z = g.astype(np.float64), soft.numpy().astype(np.float64)
    by_soft = sized(lambda z, g: z * (g - (g * z).sum(1, keepdims=True)), z, g)
    by_log = sized(lambda z, g: g - np.exp(z) * g.sum(1, keepdims=True), log, g)
    close(recorder.gradient(soft, x, given), by_soft)
    close(recorder.gradient(log, x, given), by_log)
    packed = n % (16 // dtype.itemsize) == 0
    assert [one.name == "packs" for one in rows_of_packs[:2]] == [packed] * 2


def test_what_is_no_row_in_registers(rows_of_packs: Used) -> None:
    a = np.random.default_rng(0).standard_normal((9, 36)).astype(np.float32)
    for x, axis in (
        (a, 0),
        (a[:, 1:33], 1),
        (a.T, 1),
        (a[:, :35], 1),
        (a.reshape(-1)[1:321].reshape(10, 32), 1),
    ):
        assert_close(
            ck.softmax(ck.Array._wrap(x, ck.Device("host")), axis), normalized(x.astype(np.float64), axis)
        )
    assert rows_of_packs and all(one.name != "packs" for one in rows_of_packs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_infinities_of_rows_in_registers(rows_of_packs: Used, dtype: str) -> None:
    a = np.random.default_rng(0).standard_normal((7, 512)).astype(ck.dtypes.as_dtype(dtype))
    a[0], a[1, 1:], a[2, 300], a[3, 7], a[4, 128:] = -np.inf, -np.inf, np.inf, np.nan, -np.inf
    a[5], a[5, 128:] = -200, -np.inf
    for function in (ck.softmax, ck.log_softmax):
        made = function(ck.asarray(a)).numpy().astype(np.float64)
        assert np.isnan(made[[0, 2, 3]]).all()
        np.testing.assert_array_equal(made[1, :2], [1, 0] if function is ck.softmax else [0, -np.inf])
        if function is ck.log_softmax:
            made = np.exp(made)
        assert_close(
            made[4:], normalized(a[4:].astype(np.float64), 1), rtol=1e-5 if dtype == "float32" else 3e-2
        )


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
@pytest.mark.parametrize("value", [0.0, -6e4, 1e4, "lowest"])
def test_rows_of_one_number(rows_of_packs: Used, dtype: Any, value: Any) -> None:
    """Rows that a mask has filled, say."""
    number = float(np.finfo(dtype).min if dtype.kind == "f" else -3e38) if value == "lowest" else value
    x = ck.full((3, 64), number, dtype=dtype)
    assert (ck.softmax(x).numpy() == 1 / 64).all()
    assert_close(ck.log_softmax(x), np.full((3, 64), -np.log(64)), dtype=dtype)
    assert [one.name for one in rows_of_packs] == ["packs"] * 2


def test_softmax_is_one_launch(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is its derivative: no other kernel may be asked for."""
    x = ck.asarray(np.linspace(-1, 1, 12).reshape(3, 4))
    monkeypatch.setattr(launch.Plan, "run", None)
    monkeypatch.setattr(reduction.Plan, "run", None)
    for function in (ck.softmax, ck.log_softmax):
        with ck.Tape() as recorder:
            recorder.watch(x)
            y = function(x, 0)
        recorder.gradient(y, x)


def test_softmax_of_rows_too_long_for_a_block(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "_LONG", 8)
    for function in (ck.softmax, ck.log_softmax):
        a = np.random.default_rng(0).standard_normal((2, 9))
        want = normalized(a, 1)
        assert_close(function(ck.asarray(a)), want if function is ck.softmax else np.log(want))
        assert gradcheck(function, [ck.asarray(a)], order=2)


def test_softmax_to_third_order(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((2, 4)))
    for function in (ck.softmax, ck.log_softmax):
        assert gradcheck(lambda x, function=function: function(x, 0), [x], order=3)


def test_softmax_values(device: ck.Device) -> None:
    a = np.random.default_rng(0).standard_normal((3, 7)) * 30
    e = np.exp(a - a.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    x = ck.asarray(a)
    assert_close(ck.softmax(x), want)
    assert_close(ck.softmax(x.T, 0).T, want)
    assert_close(ck.log_softmax(x), np.log(want), atol=1e-15)
    assert_close(ck.logsumexp(x, 1), np.log(e.sum(1)) + a.max(1))
    assert ck.softmax(ck.asarray([1, 2])).dtype == ck.float32
    assert ck.softmax(ck.zeros((0, 3))).shape == (0, 3)


def test_softmax_of_infinities(device: ck.Device) -> None:
    inf = np.inf
    x = ck.asarray([[0.0, -inf, 0.0], [-inf, -inf, -inf], [1.0, inf, 2.0]])
    soft = ck.softmax(x).numpy()
    assert soft[0].tolist() == [0.5, 0.0, 0.5]
    assert np.isnan(soft[1]).all()
    assert np.isnan(soft[2]).any()
    assert_close(ck.logsumexp(x, 1), np.array([np.log(2), -inf, inf], np.float32))
    logs = ck.log_softmax(x).numpy()
    assert logs[0, 1] == -inf


def test_softmax_of_more_values_than_a_half_sums(device: ck.Device) -> None:
    x = ck.zeros((100_000,), "float16")
    assert_close(ck.softmax(x), np.full(100_000, 1e-5, np.float16), atol=1e-7)
    assert_close(ck.log_softmax(x), np.full(100_000, -np.log(1e5)), dtype="float16")
