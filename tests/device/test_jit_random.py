"""Random programs in a jitted function: values, derivatives and batches, beside eager calls and NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import trace

SHAPE = (4, 6)
#: Statements that write to arrays.
WRITES = (8, 9, 10, 12, 18)


def sums(rows: Any, segments: list[int], lib: Any) -> Any:
    """The sums of rows of the same segment, of four."""
    if lib is ck:
        return ck.segment_sum(rows, ck.asarray(segments), SHAPE[0])
    made = np.zeros(SHAPE)
    np.add.at(made, segments, rows)
    return made


def program(rng: np.random.Generator, writes: bool = True) -> Callable[..., list[Any]]:
    """A random program of views, elementwise functions, writes, reductions, products and rolls, in either library."""
    kinds = [k for k in range(20) if writes or k not in WRITES]
    steps = [
        (kinds[k], rng.integers(0, 1 << 30, 4).tolist())
        for k in rng.integers(0, len(kinds), rng.integers(4, 12))
    ]

    def run(given: list[Any], lib: Any = ck) -> list[Any]:
        values = [x.copy() for x in given]
        for kind, (i, j, p, q) in steps:
            x, y = values[i % len(values)], values[j % len(values)]
            a = p % 3
            if kind == 0:
                values.append(x * 0.5 + y)
            elif kind == 1:
                values.append(lib.tanh(x) - y * (1 + a))
            elif kind == 2:
                values.append(lib.where(x < y, x, y * 0.25))
            elif kind == 3:
                values.append(x[::-1, ::-1] + y)
            elif kind == 4:
                values.append(lib.concat([x[a:], y[:a]], axis=0) * 0.5)
            elif kind == 5:
                values.append(lib.permute_dims(x, (1, 0)).reshape(SHAPE))
            elif kind == 6:
                values.append(x - x.mean(axis=q % 2, keepdims=True))
            elif kind == 7:
                values.append(lib.roll(x, 1 + a, q % 2) - y)
            elif kind == 8:
                x[a] = y[q % 4] * 0.5
            elif kind == 9:
                x[:, a:] += y[:, a:] * 0.25
            elif kind == 10:
                part = x[1:, :-1]
                values.append(x + 1)
                part *= 0.5
                values.append(x - part.sum())
            elif kind == 11:
                values.append((x @ y.T)[:, :1] * 0.1 + x)
            elif kind == 12:
                x += y
                x *= 0.5
            elif kind == 13:
                values.append(lib.tanh(x @ (y.T @ y) * 0.05 + y) + x)
            elif kind == 14:
                product = x @ y.T @ y * 0.1
                values += [product + y, product[q % 4] - x]
            elif kind == 15:
                pair = lib.stack([x * 0.5, y], axis=a)
                values.append(
                    pair.sum(axis=a) + (pair[1] if a == 0 else pair[..., 1] if a == 2 else pair[:, 1])
                )
            elif kind == 16:
                mode = ("constant", "edge", "wrap", "reflect")[q % 4]
                values.append(lib.pad(x[1:, a:], [(1, 0), (0, a)], mode) * 0.5 + y)
            elif kind == 17:
                rows = lib.take(x, lib.asarray([a, -1, 0, q % 4]), axis=0)
                if a == 2:
                    values.append(sums(rows * y, [q % 4, 0, 3, 0], lib) - y)
                else:
                    values.append(rows * 0.5 - y if a else rows - rows.mean(axis=1, keepdims=True))
            elif kind == 18:
                product = y.T @ x
                product *= 0.1
                values.append((x @ product).mean(axis=q % 2, keepdims=True) + y)
            else:
                values.append(lib.broadcast_to(x[q % 4], SHAPE) * y.max(axis=0))
            values = values[-6:]
        return values

    return run


def drawn(call: int, dtype: Any = np.float32) -> list[np.ndarray]:
    return [np.random.default_rng(10 * call + k).standard_normal(SHAPE).astype(dtype) for k in range(3)]


def arrays(given: list[np.ndarray]) -> list[ck.Array]:
    return [ck.asarray(one) for one in given]


def near(found: Any, wanted: Any, rounding: float, what: str) -> None:
    """Whether results differ by rounding alone."""
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape, what
        x, y = (one.numpy() if isinstance(one, ck.Array) else one for one in (x, y))
        assert np.abs(x - y).max() <= rounding * max(0.1, np.abs(y).max()), what


def check_values(seeds: range) -> None:
    for seed in seeds:
        function = program(np.random.default_rng(seed))
        jitted = ck.jit(function)
        for call in range(3):
            given = drawn(call)
            found, eager = jitted(arrays(given)), function(arrays(given))
            assert [one.dtype for one in found] == [one.dtype for one in eager]
            near(found, eager, 2e-5, f"program {seed}, call {call}")
            exact = function([one.astype(np.float64) for one in given], np)
            near(found, exact, 2e-4, f"program {seed}, call {call}, NumPy")


def loss_of(function: Callable[..., list[Any]]) -> Callable[..., Any]:
    def loss(given: list[Any], lib: Any = ck) -> Any:
        values = function(given, lib)
        return sum((v * v).sum() * (0.15 + 0.05 * k) + v.sum() * 0.1 for k, v in enumerate(values))

    return loss


def slope(function: Callable[..., Any], at: list[np.ndarray], along: list[np.ndarray]) -> float:
    """The derivative of a function of NumPy's arrays in a direction."""
    step = 1e-6
    high, low = (
        function([x + sign * step * v for x, v in zip(at, along, strict=True)], np) for sign in (1, -1)
    )
    return float(high - low) / (2 * step)


def check_derivatives(seeds: range) -> None:
    """First derivatives, second ones and batches, by turns; in float64."""
    for seed in seeds:
        function = program(np.random.default_rng(seed), writes=False)
        loss = loss_of(function)
        gradient: Any = ck.grad(loss)
        if seed % 3 == 1:
            first = gradient
            gradient = ck.grad(lambda given, of=first: sum((d * d).sum() for d in of(given)))
        elif seed % 3 == 2:
            gradient = ck.vmap(function)
        jitted = ck.jit(gradient)
        for call in range(3):
            given = drawn(call, np.float64)
            if seed % 3 == 2:
                examples = [[x * scale for x in given] for scale in (1, 0.5)]
                found = jitted([ck.stack(list(both)) for both in zip(*map(arrays, examples), strict=True)])
                exact = [
                    np.stack(both) for both in zip(*(function(one, np) for one in examples), strict=True)
                ]
                near(found, exact, 1e-9, f"program {seed}, call {call}, NumPy")
                continue
            found = jitted(arrays(given))
            near(found, gradient(arrays(given)), 1e-9, f"program {seed}, call {call}")
            if seed % 3 == 0:
                along = drawn(100 + call, np.float64)
                product = sum(float((d.numpy() * v).sum()) for d, v in zip(found, along, strict=True))
                size = sum(float(np.abs(d.numpy() * v).sum()) for d, v in zip(found, along, strict=True))
                assert abs(product - slope(loss, given, along)) <= 1e-6 * max(1.0, size), f"program {seed}"


def test_values(device: ck.Device) -> None:
    check_values(range(6))


def test_derivatives(device: ck.Device) -> None:
    check_derivatives(range(6))


@pytest.fixture
def few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions of a few short rows wait, too."""
    monkeypatch.setattr(trace, "LEAST_ROWS", 2)
    monkeypatch.setattr(trace, "LEAST_ELEMENTS", 2)
    monkeypatch.setattr("cukern.index.traced._GATHERED", 2)
    monkeypatch.setattr("cukern.index.traced._COMPUTED", 2)


@pytest.mark.usefixtures("few_wait")
def test_a_mean_of_what_was_computed_of_a_product(device: ck.Device) -> None:
    """Nothing needs the product any more."""
    check_values(range(3628, 3629))


@pytest.mark.thorough
@pytest.mark.usefixtures("few_wait")
@pytest.mark.parametrize("first", range(3000, 4000, 100))
def test_many_programs_of_few_rows(device: ck.Device, first: int) -> None:
    check_values(range(first, first + 100))


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_programs(device: ck.Device, first: int) -> None:
    check_values(range(first, first + 100))


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_derivatives(device: ck.Device, first: int) -> None:
    check_derivatives(range(first, first + 100))
