"""Elementwise operations of many lines of a few elements each, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emptied import elementwise_plans, emptied

import cukern as ck
from cukern.kernel import strides
from cukern.testing import assert_close

#: Elements of all lines: the work of several threads, and not whole tiles of lines.
SIZE = 50_000


def is_short(device: ck.Device, function: Callable[..., Any], *arrays: Any) -> bool:
    """Whether the host computes several lines together."""
    return device.kind == "host" and "together * length" in ck.fuse(function).source(*arrays)


@pytest.mark.parametrize(
    ("dtype", "length"),
    [*(("float32", length) for length in (2, 3, 7, 16, 31)), ("bfloat16", 7)],
)
def test_a_number_a_line_and_one_a_column(device: ck.Device, dtype: str, length: int) -> None:
    rng = np.random.default_rng(length)
    x, y, z = (
        ck.asarray(rng.integers(-8, 8, shape).astype(np.float32), device=device).astype(dtype)
        for shape in ((SIZE // length, length), (SIZE // length, 1), (length,))
    )

    def expression(x: Any, y: Any, z: Any) -> Any:
        return (x - y) * z + y

    made = ck.fuse(expression)(x, y, z)
    exact = expression(*(one.astype("float64").numpy() for one in (x, y, z)))
    assert_close(made.astype("float64"), exact, rtol=2.0**-8 if dtype == "bfloat16" else 0)
    assert device.kind != "host" or is_short(device, expression, x, y, z)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, 1:] - x[:, :-1],
        lambda x: x[:, ::2] * 2,
        lambda x: x[:, ::-1] + x,
        lambda x: x[::2] * x[:1],
        lambda x: x[:, 2:5] + x[:, :1],
        lambda x: x[:, :3].T + x[:, 3:6].T,
    ],
    ids=["differences", "every second", "backwards", "every second line", "parts", "columns"],
)
def test_views(device: ck.Device, view: Callable[[Any], Any]) -> None:
    a = np.random.default_rng(1).integers(-9, 9, (6000, 8)).astype(np.float32)
    assert_close(ck.fuse(view)(ck.asarray(a, device=device)), view(a))


def test_dtypes_and_several_results(device: ck.Device) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-50, 50, (6000, 3)).astype(np.int32), rng.integers(1, 9, (6000, 1)).astype(np.uint8)

    def both(x: Any, y: Any) -> Any:
        return x // y, x > y

    quotients, larger = ck.fuse(both)(ck.asarray(a, device=device), ck.asarray(b, device=device))
    np.testing.assert_array_equal(quotients.numpy(), a // b)
    np.testing.assert_array_equal(larger.numpy(), a > b)
    z = (a[:, :1] + 1j * a[:, 1:2]).astype(np.complex64)
    made = ck.asarray(z, device=device) * ck.asarray(a.astype(np.float32), device=device)
    assert_close(made, z.astype(np.complex128) * a)


def test_quick_functions_and_nan(device: ck.Device) -> None:
    """The host makes a tile again if it has a NaN."""
    rng = np.random.default_rng(3)
    a, b = (
        rng.standard_normal((6000, 3)).astype(np.float32),
        rng.standard_normal((6000, 1)).astype(np.float32),
    )
    a[[0, 100, 5999], [1, 0, 2]] = np.nan, np.inf, -np.inf
    b[200] = np.nan
    with np.errstate(invalid="ignore"):
        for name in ("exp", "tanh", "sin"):
            made = ck.fuse(lambda x, y, name=name: getattr(ck, name)(x - y))(
                *(ck.asarray(one, device=device) for one in (a, b))
            )
            want = getattr(np, name)(a.astype(np.float64) - b)
            assert_close(made, want, rtol=1e-6, atol=1e-6)


def test_in_place(device: ck.Device) -> None:
    a = np.random.default_rng(4).integers(-9, 9, (6000, 3)).astype(np.float32)
    x = ck.asarray(a.copy(), device=device)
    x -= ck.asarray(a[:, :1].copy(), device=device)
    assert_close(x, a - a[:, :1])
    x = ck.asarray(a.copy(), device=device)
    x -= x[:, :1]  # its own memory
    assert_close(x, a - a[:, :1])
    x = ck.asarray(a.copy(), device=device)
    part = x[:, :2]
    part *= ck.asarray(a[0, :2].copy(), device=device)
    assert_close(x, np.concatenate([a[:, :2] * a[0, :2], a[:, 2:]], axis=1))


def test_derivatives(device: ck.Device) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape) for shape in ((6000, 3), (6000, 1)))
    x, y = (ck.asarray(one, device=device) for one in (a, b))
    with ck.Tape() as tape:
        tape.watch(x, y)
        z = ck.sum(ck.tanh(x * y))
    dx, dy = tape.gradient(z, [x, y])
    slope = 1 - np.tanh(a * b) ** 2
    assert_close(dx, slope * b, rtol=1e-10, atol=1e-12)
    assert_close(dy, (slope * a).sum(axis=1, keepdims=True), rtol=1e-10, atol=1e-12)


def test_few_and_long_lines_are_computed_one_by_one(device: ck.Device) -> None:
    for shape in ((100, 3), (600, 32)):
        x = ck.asarray(np.random.default_rng(6).standard_normal(shape), device=device)
        assert not is_short(device, lambda x, y: x + y, x, x[..., :1])
        assert_close(x + x[..., :1], x.numpy() + x.numpy()[..., :1])


def test_complex_results_of_real_operands(device: ck.Device) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((6000, 3), (6000, 1)))
    a[[0, 200, 5999], [1, 0, 2]] = np.inf

    def products(x: Any, y: Any) -> Any:
        return (x - y) * (1 + 2j)

    x, y = (ck.asarray(one, device=device) for one in (a, b))
    made, of_numbers = ck.fuse(products)(x, y).numpy(), np.isfinite(a)
    np.testing.assert_array_equal(made[of_numbers], (a - b)[of_numbers] * np.complex64(1 + 2j))
    one_by_one = ck.fuse(products)(ck.asarray(a - b, device=device).reshape(-1), ck.zeros(1, device=device))
    np.testing.assert_array_equal(made.reshape(-1), one_by_one.numpy())
    assert device.kind != "host" or is_short(device, products, x, y)


def test_many_operands(device: ck.Device) -> None:
    """More than the stack of a host's thread holds are not copied to it."""
    number = 200
    rows = np.random.default_rng(8).integers(-9, 9, (number, 6000, 1)).astype(np.float64)

    def total(x: Any, *of_rows: Any) -> Any:
        for one in of_rows:
            x = x + one
        return x

    operands = [ck.asarray(one, device=device) for one in (np.ones((6000, 3)), *rows)]
    assert_close(ck.fuse(total)(*operands), np.broadcast_to(1 + rows.sum(axis=0), (6000, 3)), rtol=0, atol=0)
    assert not is_short(device, total, *operands)
    assert device.kind != "host" or is_short(device, total, *operands[:20])


def test_64_bit_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(7).standard_normal((6000, 5))
    x = ck.asarray(a, device=device)
    with emptied(*elementwise_plans()):
        monkeypatch.setattr(strides, "LARGEST_INDEX", 1)
        function = ck.fuse(lambda x, y, z: x * y - z)
        given = x, x[:, :1], x[:1]
        assert "long long" in function.source(*given)
        assert device.kind != "host" or is_short(device, lambda x, y, z: x * y - z, *given)
        assert_close(function(*given), a * a[:, :1] - a[:1])
