"""Cotangents that are put together when they are read: those of views of one array, and those of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import function
from cukern.testing import assert_close, gradcheck

Views = Callable[[ck.Array], list[ck.Array]]
VIEWS: dict[str, Views] = {
    "items": lambda x: [x[:, i] for i in range(3)],
    "items in another order": lambda x: [x[:, -1], x[:, 1], x[:, 0]],
    "halves": lambda x: [x[..., 2:], x[..., :2]],
    "items and a slice": lambda x: [x[..., :2], x[..., 2], x[..., 3:]],
    "slices that overlap": lambda x: [x[:, 1:], x[:, :-1], x[:, 1:]],
    "a gap": lambda x: [x[0], x[2:]],
    "a new axis": lambda x: [x[None, 0], x[1:]],
    "a new axis of all": lambda x: [x[:, None], x[..., None]],
    "steps": lambda x: [x[::2], x[1::2]],
    "backwards": lambda x: [x[::-1], x[:2], x[2:]],
    "the array too": lambda x: [x, x[:1], x[1:], x * 2],
    "two axes": lambda x: [x[0, 1], x[0, 0], x[1:]],
    "an item twice": lambda x: [x[0], x[1], x[1]],
    "all of it": lambda x: [x[...], x[:, :], x[0:]],
    "an empty part": lambda x: [x[:0], x[0:]],
    "an axis of one": lambda x: [x[:1][0], x[1:, 0]],
}


def of_views(views: Views) -> Callable[[ck.Array], Any]:
    def loss(x: ck.Array) -> Any:
        total = ck.sum(ck.zeros(1, dtype=x.dtype))
        for i, part in enumerate(views(x)):
            total = total + ck.sum(ck.sin((i + 1.0) * part) * part)
        return total

    return loss


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_one_array(device: ck.Device, name: str) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((4, 3, 5)))
    assert gradcheck(of_views(VIEWS[name]), [x], order=2)


def test_a_persistent_tape_and_a_source_that_has_views(device: ck.Device) -> None:
    x, wanted = ck.asarray(np.arange(6.0).reshape(2, 3)), np.array([[6.0, 9.0, 11.0], [0.0, 3.0, 5.0]])
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2
        loss = ck.sum(y[0] * y[1]) + ck.sum(y[:, 1:])
    for _ in range(2):
        of_x, of_y = tape.gradient(loss, [x, y])
        assert_close(of_y, wanted)
        assert_close(of_x, 2 * of_y)
    of_y[...] = 0  # the gradients have memory of their own
    assert_close(tape.gradient(loss, y), wanted)


def test_halves_of_an_array_have_one_launch(device: ck.Device, launches: list[str]) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((64, 1 << 10)))
    with ck.Tape() as tape:
        tape.watch(x)
        loss = ck.sum(x[:, :512] * x[:, 512:])
    launches.clear()
    assert_close(tape.gradient(loss, x), ck.concat([x[:, 512:], x[:, :512]], 1))
    assert "add" not in launches


def test_kernels_add_to_the_cotangents_before(
    device: ck.Device, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, "_MANY_ON_HOST", 0)
    rng = np.random.default_rng(0)
    x, w, row = (ck.asarray(rng.standard_normal(shape)) for shape in ((4, 5), (5, 4), (5,)))

    def loss(x: ck.Array, w: ck.Array, row: ck.Array) -> ck.Array:
        h, v = ck.tanh(x), w.T
        return ck.sum(ck.exp(h) * v + h * x + x * x * row)

    assert gradcheck(loss, [x, w, row], order=2)
    with ck.Tape(persistent=True) as tape:
        tape.watch(x, w, row)
        y = loss(x, w, row)
    first = tape.gradient(y, [x, w, row])
    launches.clear()
    for again, one in zip(tape.gradient(y, [x, w, row]), first, strict=True):
        assert_close(again, one, rtol=0)
    sums = [name for name in launches if name.endswith("_onto")]
    assert sums == ["multiply_vjp_onto", "exp_vjp_onto", "tanh_vjp_onto"]


@pytest.mark.parametrize("pad", [True, False], ids=["pad", "subscript"])
def test_memory_order_is_kept(device: ck.Device, pad: bool) -> None:
    """Of padded arrays, and of the derivatives of subscripts, on a GPU or where arrays are large."""
    values = np.random.default_rng(0).standard_normal((2, 1100, 1024)).astype(np.float32)
    x = ck.swapaxes(ck.asarray(values), 1, 2)
    if pad:
        y = ck.pad(x, ((0, 0), (1, 2), (3, 0)))
        expected = np.pad(values.swapaxes(1, 2), ((0, 0), (1, 2), (3, 0)))
    else:
        weights = ck.asarray(np.arange(1024.0, dtype=np.float32)[:, None])
        y = ck.grad(lambda x: ck.sum(x[:, 3:] * weights[3:]))(x)
        expected = np.broadcast_to(np.where(np.arange(1024) < 3, 0, np.arange(1024))[:, None], x.shape)
    assert np.array_equal(y.numpy(), expected)
    assert ck.swapaxes(y, 1, 2).is_contiguous


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [2, 40])
def test_a_matrix_in_several_products(device: ck.Device, transposed: bool, rows: int) -> None:
    """Of few rows the products are put together, of more they are added in their launches."""
    rng = np.random.default_rng(0)
    xs = [ck.asarray(rng.standard_normal((rows, 12))) for _ in range(4)]
    w = ck.asarray(rng.standard_normal((8, 12) if transposed else (12, 8)))
    v = ck.asarray(rng.standard_normal((3, 12, 8)))

    def loss(w: ck.Array, *xs: ck.Array) -> Any:
        right = w.T if transposed else w
        total = ck.sum(ck.tanh(ck.matmul(xs[0], right + v)))
        for x in xs:
            total = total + ck.sum(ck.tanh(x @ right) ** 2) + ck.sum(right * right)
        return total

    assert gradcheck(loss, [w, *xs], order=2)


def test_a_factor_of_several_products(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    x, *ws = (ck.asarray(rng.standard_normal(shape)) for shape in ((2, 5, 6), (6, 3), (6, 4), (6, 6)))

    def loss(x: ck.Array, *ws: ck.Array) -> Any:
        q, k, v = (x @ w for w in ws)
        return ck.sum(ck.tanh(q)) + ck.sum(k**2) + ck.sum(ck.matmul(v, ck.swapaxes(x, 1, 2)))

    assert gradcheck(loss, [x, *ws], order=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_types_are_rounded_once(device: ck.Device, dtype: str) -> None:
    """The cotangents of a broadcast operand and of a matrix of several products."""
    rng = np.random.default_rng(0)
    x, b = (ck.asarray(rng.standard_normal(shape)).astype(dtype) for shape in ((300, 7), (7,)))
    w = ck.asarray(rng.standard_normal((7, 9))).astype(dtype)

    def loss(b: ck.Array, w: ck.Array) -> Any:
        y = x * b
        return ck.sum(((y @ w).astype("float32") + (x @ w).astype("float32")) ** 2)

    found = ck.grad(loss, argnums=(0, 1))(b, w)
    wide = [one.astype("float64") for one in (x, b, w)]

    def exact(b: ck.Array, w: ck.Array) -> Any:
        return ck.sum(((wide[0] * b) @ w + wide[0] @ w) ** 2)

    for one, other in zip(found, ck.grad(exact, argnums=(0, 1))(*wide[1:]), strict=True):
        assert one.dtype == ck.asarray([], dtype=dtype).dtype
        assert float(ck.max(ck.abs(one.astype("float64") - other))) < 0.02 * float(ck.max(ck.abs(other)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("function", ["concat", "stack"])
@pytest.mark.parametrize("lying", ["in order", "transposed", "sliced"])
def test_large_arrays_are_joined(device: ck.Device, function: str, axis: int, lying: str) -> None:
    """Those that are rows of memory in one launch: on the host, if they are large."""
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 99, (2, 700, 801)).astype(np.float32) for _ in range(3)]
    arrays = [ck.asarray(one) for one in values]
    if lying == "transposed":
        values, arrays = [one.swapaxes(1, 2) for one in values], [ck.swapaxes(one, 1, 2) for one in arrays]
    elif lying == "sliced":
        values, arrays = [one[..., 1:] for one in values], [one[..., 1:] for one in arrays]
    made = getattr(ck, function)(arrays, axis)
    assert np.array_equal(made.numpy(), getattr(np, function)(values, axis))
