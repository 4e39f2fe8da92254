"""Derivatives of the elementwise functions, from the table."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from elementwise_support import (
    DIFFERENTIABLE,
    ROWS,
    operands,
)

import cukern as ck
from cukern import namespace
from cukern.autodiff import tape
from cukern.elementwise.row import Row
from cukern.testing import assert_close, gradcheck

# ----- derivatives -----


#: Rows whose second derivatives by a parameter are NaN; test_special_functions has the others.
ONCE = {"gammainc", "gammaincc", "betainc", "zeta"}


def domains() -> dict[tuple[str, tuple[float, float]], list[Row]]:
    """The differentiable rows of one kind of operands, together by the interval they are drawn from."""
    groups: dict[tuple[str, tuple[float, float]], list[Row]] = {}
    for row in DIFFERENTIABLE:
        if row.name in ONCE:
            continue
        groups.setdefault((row.operands, row.domain), []).append(row)
    return groups


#: Rows of a kernel: of twice as many a compiler takes three times as long.
_TOGETHER = 12


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(rows[i : i + _TOGETHER], id=f"{kind}-{domain}-{i}".replace(" ", ""))
        for (kind, domain), rows in domains().items()
        for i in range(0, len(rows), _TOGETHER)
    ],
)
def test_gradients_of_all_rows_to_second_order(device: ck.Device, rows: list[Row]) -> None:
    """A kernel of rows of one domain, in which nothing is read that the inputs do not give."""
    arrays = [ck.asarray(v) for v in operands(rows[0], np.float64, (4,))]
    together = namespace.fuse(lambda *xs: [row.apply(xs) for row in rows])
    assert gradcheck(together, arrays, order=2)


#: Rows that save their result, or choose at a kink.
READS_RESULT = ["divide", "tanh", "sqrt", "sigmoid", "elu", "relu", "pow", "reciprocal", "logaddexp", "hypot"]
#: With these, some of each number and kind of operands; the others differ from one by an expression.
SOME = {
    *READS_RESULT,
    "add",
    "multiply",
    "exp",
    "negative",
    "where",
    "clip",
    "lerp",
    "maximum",
    "betainc",
    "lgamma",
    "abs",
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[] if row.name in SOME else pytest.mark.thorough, id=row.name)
        for row in DIFFERENTIABLE
    ],
)
def test_the_backward_is_one_kernel_at_most(device: ck.Device, launches: list[str], row: Row) -> None:
    arrays = [ck.asarray(v) for v in operands(row, np.float32, (4,))]
    tracked = [a for a in arrays if a.dtype == ck.float32]
    with ck.Tape() as recorder:
        recorder.watch(*tracked)
        y = row.apply(tuple(arrays))
    launches.clear()
    gradients = recorder.gradient(y, tracked)
    assert any(one is not None for one in gradients)
    assert len(launches) <= 1


@pytest.mark.parametrize("name", READS_RESULT)
def test_gradients_of_single_rows_to_second_order(device: ck.Device, name: str) -> None:
    row = ROWS[name]
    assert gradcheck(
        lambda *xs: row.apply(xs), [ck.asarray(v) for v in operands(row, np.float64, (4,))], order=2
    )


@pytest.mark.parametrize(
    ("name", "saves"),
    [
        ("add", 0),
        ("negative", 0),
        ("tanh", 1),
        ("exp", 1),
        ("multiply", 2),
        ("where", 1),
        ("relu", 1),
        ("sigmoid", 1),
    ],
)
def test_only_what_the_derivative_reads_is_saved(device: ck.Device, name: str, saves: int) -> None:
    row = ROWS[name]
    arrays = [ck.asarray(v) for v in operands(row, np.float64)]
    with ck.Tape() as recorder:
        recorder.watch(*(a for a in arrays if a.dtype == ck.float64))
        row.apply(tuple(arrays))
    ((_, _, _, saved, *_),) = recorder._records
    assert len(saved) == saves


def test_an_operand_that_is_not_tracked_saves_less(device: ck.Device) -> None:
    x, y = ck.ones(3), ck.ones(3)
    with ck.Tape() as recorder:
        recorder.watch(x)
        x * y
    ((_, _, _, saved, *_),) = recorder._records
    assert [one is y for one in saved] == [True]


def test_nothing_is_recorded_for_arrays_that_no_tape_tracks(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    for name in ("record", "record_tracked"):
        monkeypatch.setattr(tape, name, lambda *args, **options: calls.append(args))
    with ck.Tape() as recorder:
        recorder.watch(ck.ones(2))
        namespace.tanh(ck.ones(3))
    assert not calls


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
def test_gradients_of_broadcast_operands(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray(np.arange(6.0).reshape(2, 3), dtype=dtype)
    row, number = ck.asarray([1.0, 2.0, 3.0], dtype=dtype), ck.asarray(2.0, dtype=dtype)
    with ck.Tape() as recorder:
        recorder.watch(x, row, number)
        y = (x * row * number).sum()
    gx, grow, gnumber = recorder.gradient(y, (x, row, number))
    assert_close(gx, np.broadcast_to([2.0, 4.0, 6.0], (2, 3)), dtype=dtype)
    assert_close(grow, np.array([6.0, 10.0, 14.0]), dtype=dtype)
    assert_close(gnumber, 3.0 + 5.0 * 2 + 7.0 * 3 - 0.0, dtype=dtype)


@pytest.mark.parametrize(
    ("name", "at", "gradient"),
    [("abs", 0.0, 0.0), ("relu", 0.0, 0.0), ("clip", 1.0, 1.0)],
)
def test_documented_derivatives_at_kinks(device: ck.Device, name: str, at: float, gradient: float) -> None:
    x = ck.asarray([at])
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = namespace.clip(x, -1.0, 1.0) if name == "clip" else ROWS[name].apply((x,))
    assert recorder.gradient(y, x).tolist() == [gradient]


def test_ties_share_the_derivative(device: ck.Device) -> None:
    x, y = ck.asarray([1.0, 2.0]), ck.asarray([1.0, 3.0])
    with ck.Tape() as recorder:
        recorder.watch(x, y)
        z = namespace.maximum(x, y)
    gx, gy = recorder.gradient(z, (x, y))
    assert gx.tolist() == [0.5, 0.0]
    assert gy.tolist() == [0.5, 1.0]


def test_powers_of_numbers(device: ck.Device) -> None:
    a = np.array([0.5, 1.0, 3.0])
    x = ck.asarray(a)
    for power in (2, 2.0, 0.5, -1, 1, 3, 0, 2.5):
        assert_close(x**power, a**power)
    assert_close(ck.asarray([2, 3]) ** 2, np.array([4, 9]))
    with pytest.raises(ValueError, match="negative integer powers"):
        ck.asarray([2, 3]) ** -1
    zero = ck.asarray([0.0])
    for power, slope in ((2, 0.0), (3, 0.0), (0, 0.0), (1, 1.0)):
        with ck.Tape() as recorder:
            recorder.watch(zero)
            y = zero**power
        assert recorder.gradient(y, zero).tolist() == [slope]


def test_power_at_zero_has_finite_higher_derivatives(device: ck.Device) -> None:
    for order, exponent in ((2, 0.0), (3, 1.0)):
        y = ck.asarray(exponent, dtype="float64")
        f = functools.partial(lambda y, x: x**y, y)
        for _ in range(order):
            f = ck.grad(f)
        assert f(ck.asarray(0.0, dtype="float64")).item() == 0


def test_gradient_of_logaddexp_of_infinities(device: ck.Device) -> None:
    for a, b, want in ((-np.inf, -np.inf, (0.5, 0.5)), (np.inf, 0.0, (1, 0)), (-np.inf, 0.0, (0, 1))):
        got = ck.grad(ck.logaddexp, (0, 1))(ck.asarray(a), ck.asarray(b))
        assert tuple(g.item() for g in got) == want
