"""Joined, rolled, padded and partly written arrays in ``ck.jit``, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import costs
from cukern.elementwise.graph import Indexed, View

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "sine": lambda xp, x: xp.sin(x),
    "choice": lambda xp, x: xp.where(x > 0, x, x * 0.5),
    "multiple": lambda xp, x: x * 0.3,
}
MODES = ("constant", "edge", "wrap", "reflect")


@pytest.fixture
def small_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are computed by parts, as large ones are."""
    monkeypatch.setattr(costs, "MANY_BYTES", {"simt": 0, "serial": 0})
    monkeypatch.setattr(costs, "MOST_COPIED", 0)


def part(choice: Random, shape: tuple[int, ...], steps: tuple[int, ...] = (1,)) -> tuple[slice, ...]:
    starts = [choice.randrange(n) for n in shape]
    return tuple(
        slice(a, choice.randint(a + 1, n), choice.choice(steps)) for a, n in zip(starts, shape, strict=True)
    )


def step(choice: Random, xp: Any, values: list[Any]) -> Any:
    """A new array that is made of others, as ``choice`` says."""
    x = values[choice.randrange(len(values))]
    alike = [one for one in values if one.shape == x.shape]
    kind = choice.choice(
        "roll pad concat stack view elementwise both write write_number axis flat wide rows".split()
    )
    axis = choice.randrange(x.ndim)
    if kind == "roll":
        return xp.roll(x, choice.randint(-3, 3), choice.choice([None, axis]))
    if kind == "pad":
        widths = [(choice.randint(0, 2), choice.randint(0, 2)) for _ in x.shape]
        return xp.pad(x, widths, mode=choice.choice(MODES if min(x.shape) > 2 else MODES[:3]))
    if kind in ("concat", "stack") and x.ndim < 4:
        several = [x, *[choice.choice(alike) for _ in range(choice.randint(1, 3))]]
        joined = xp.stack if kind == "stack" else np.concatenate if xp is np else ck.concat
        return joined(several, axis=axis)
    if kind == "view":
        return x[part(choice, x.shape, (1, 1, 1, 2))]
    if kind == "both":
        return x * choice.choice(alike) - x
    if kind == "write":
        y, key = x * 1.0, part(choice, x.shape)
        y[key] = xp.sin(x[key]) * 2
        return y
    if kind == "write_number":
        y = x * 1.0
        y[(slice(None),) * axis + (choice.randrange(x.shape[axis]),)] = 0.25
        return y
    if kind == "axis" and x.ndim < 4:
        return xp.expand_dims(x, axis)
    if kind == "flat":
        return x.reshape(-1)
    if kind == "wide" and x.ndim < 4:
        return xp.broadcast_to(x, (2, *x.shape))
    if kind == "rows":
        return x - x.mean(axis=axis, keepdims=True) * 0.5
    return ELEMENTWISE[choice.choice([*ELEMENTWISE])](xp, x)


def program(xp: Any, seed: int, given: list[Any]) -> list[Any]:
    choice, values = Random(seed), list(given)
    for _ in range(choice.randint(2, 9)):
        values.append(step(choice, xp, values))
    return [values[-1], values[choice.randrange(len(given), len(values))]]


def check(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = tuple(rng.integers(2, 6, rng.integers(1, 4)))
        jitted = ck.jit(lambda given, seed=seed: program(ck, seed, given))
        for again in range(3):
            given = [rng.standard_normal(shape) for _ in range(2)]
            made, desired = jitted([ck.asarray(x) for x in given]), program(np, seed, given)
            for x, y in zip(made, desired, strict=True):
                assert x.shape == y.shape, f"program {seed}, call {again}"
                np.testing.assert_allclose(
                    x.numpy(), y, rtol=1e-9, atol=1e-12, err_msg=f"program {seed}, call {again}"
                )


@pytest.mark.usefixtures("small_waits")
@pytest.mark.parametrize("copied", [0, 1 << 20])
def test_random_programs(device: ck.Device, monkeypatch: pytest.MonkeyPatch, copied: int) -> None:
    monkeypatch.setattr(costs, "MOST_COPIED", copied)
    check(range(20))


@pytest.mark.thorough
@pytest.mark.usefixtures("small_waits")
@pytest.mark.parametrize("copied", [0, 1 << 20])
@pytest.mark.parametrize("first", range(1000, 3000, 200))
def test_many_random_programs(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, copied: int, first: int
) -> None:
    monkeypatch.setattr(costs, "MOST_COPIED", copied)
    check(range(first, first + 200))


def moved(f: Any) -> Any:
    """Sums and differences of the rows of ``f``, each moved another way, as a lattice-Boltzmann method does."""
    total, difference = f[0] + f[1] + f[2], f[0] - f[2]
    one, other = total * difference - f[0], ck.tanh(total) * f[1]
    return ck.stack([one, ck.roll(other, 1, 0), ck.roll(ck.roll(one + other, -1, 0), 2, 1)])


@pytest.mark.usefixtures("small_waits")
def test_expressions_with_common_parts_are_computed_together(device: ck.Device) -> None:
    """One kernel reads the three arrays and writes all results of the elements that it has, wherever these go."""
    f = ck.asarray(np.random.default_rng(0).standard_normal((3, 8, 9)))
    jitted = ck.jit(moved)
    for _ in range(3):
        np.testing.assert_allclose(jitted(f).numpy(), moved(f).numpy(), rtol=1e-12, atol=1e-14)
    sizes = sorted((len(one.outputs), one.outputs[0].size) for one in jitted.launches(f))
    assert sizes[-1] == (3, 6 * 7) and sum(count * size for count, size in sizes) == 3 * 8 * 9


@pytest.mark.usefixtures("small_waits")
def test_derivatives(device: ck.Device) -> None:
    f = ck.asarray(np.random.default_rng(0).standard_normal((3, 4, 5)))
    ck.testing.gradcheck(ck.jit(moved), [f], order=2)


def test_numbers_are_joined(device: ck.Device) -> None:
    jitted = ck.jit(lambda x: ck.stack([x[0], x[1] * 2, x.max()]))
    for i in range(3):
        x = ck.asarray([1.0, 2.0, 4.0], device=device) + i
        assert jitted(x).tolist() == [1 + i, 4 + 2 * i, 4 + i]


def test_views_with_new_axes_of_joined_arrays(device: ck.Device) -> None:
    x = ck.asarray(np.arange(6.0).reshape(2, 3))

    def f(x: Any) -> Any:
        both = ck.concat([x, x * 2])
        return (
            both[:, None] + 1,
            ck.broadcast_to(both[1:3, None, :, None], (2, 2, 3, 2)),
            ck.stack([both[None]] * 2),
        )

    for _ in range(3):
        for made, desired in zip(ck.jit(f)(x), f(x), strict=True):
            np.testing.assert_array_equal(made.numpy(), desired.numpy())


def any_key(choice: Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index of every axis, with new ones between them."""
    key: list[Any] = []
    for n in shape:
        ends = [choice.randint(-n - 1, n + 1) for _ in range(2)]
        kinds = [slice(*ends, choice.choice([None, -2, -1, 1, 2])), slice(None), slice(None, None, -1)]
        key += [None] * (choice.random() < 0.2)
        key.append(choice.choice([*kinds, choice.randrange(-n, n)] if n else kinds))
    return tuple(key)


def test_an_index_of_an_index_is_one() -> None:
    choice, x, merged = Random(0), np.arange(120).reshape(4, 5, 6), 0
    for _ in range(500):
        view, seen = View(0, (), x.shape), x
        for _ in range(3):
            key = any_key(choice, seen.shape)
            view, seen = view.then(Indexed(key)), seen[key]
        assert view.shape == seen.shape
        np.testing.assert_array_equal(view.of_data(x), seen)
        merged += len(view.steps) == 1
    assert merged > 350  # but for empty parts of new axes


def test_equal_views_are_read_once(device: ck.Device) -> None:
    x = ck.asarray(np.arange(8.0), device=device)
    jitted = ck.jit(lambda x: x[1:][1:-1] * x[2:7] + x[2:-1])
    assert jitted(x).tolist() == [k * k + k for k in range(2, 7)]
    (only,) = jitted.launches(x)
    assert len(only.inputs) == 1


@pytest.mark.usefixtures("small_waits")
def test_results_of_joined_arrays_share_kernels(device: ck.Device) -> None:
    def both(xp: Any, x: Any) -> Any:
        ahead, behind = xp.roll(x, -1, 0), xp.roll(x, 1, 0)
        return (ahead - behind) / 2, ahead + behind - 2 * x

    data = np.random.default_rng(0).standard_normal((6, 7))
    jitted = ck.jit(lambda x: both(ck, x))
    for _ in range(3):
        for made, desired in zip(jitted(ck.asarray(data, device=device)), both(np, data), strict=True):
            np.testing.assert_allclose(made.numpy(), desired, rtol=1e-12, atol=1e-14)
    launches = jitted.launches(ck.asarray(data, device=device))
    assert sorted(len(one.outputs) for one in launches) == [2, 4]  # the rows inside, and those at both ends


@pytest.mark.usefixtures("small_waits")
def test_what_is_read_often_is_stored(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of which an element is needed at many places is computed once, where that takes less time."""

    def around(xp: Any, x: Any) -> Any:
        y = xp.exp(xp.sin(x))
        for _ in range(2):
            y = xp.tanh(sum(xp.roll(y, i, 0) for i in range(1, 4)))
        return y

    x = np.random.default_rng(0).standard_normal((9, 4))
    counts = []
    for seconds in (0.0, 1.0):  # of a launch
        monkeypatch.setattr(costs, "launch", lambda limits, seconds=seconds: seconds)
        jitted = ck.jit(lambda x: around(ck, x))
        for _ in range(3):
            made = jitted(ck.asarray(x, device=device))
            np.testing.assert_allclose(made.numpy(), around(np, x), rtol=1e-12)
        reads = [len(one.inputs) for one in jitted.launches(ck.asarray(x, device=device))]
        counts.append(max(reads))
    assert counts[0] < counts[1]


def test_small_arrays_are_shifted_by_one_kernel(device: ck.Device) -> None:
    """Of shifted arrays, and of shifts of what is computed of them, a kernel reads a copy with wider borders."""

    def slope(xp: Any, x: Any) -> Any:
        first = xp.roll(x, -1, 0) - xp.roll(x, 1, 1)
        return xp.roll(first * 2, (3, 5), (0, 1)) + xp.roll(xp.roll(x, 2, 0), -2, 0) - first[::-1]

    data = np.random.default_rng(0).standard_normal((4, 7))
    jitted = ck.jit(lambda x: slope(ck, x))
    for scale in range(3):
        x = ck.asarray(data * scale, device=device)
        np.testing.assert_allclose(jitted(x).numpy(), slope(np, data * scale), rtol=1e-12, atol=1e-14)
    if device.kind == "host":
        pad, only = jitted.launches(x)
        assert pad.name == "pad" and len(only.outputs) == 1
    ck.testing.gradcheck(jitted, [ck.asarray(data, device=device)])
