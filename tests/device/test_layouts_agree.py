"""Elementwise functions have the same bits for every layout; sines, cosines and powers err by less than a unit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.array.operators import FUNCTIONS
from cukern.elementwise.function import Elementwise

#: Functions that the host computes by vectors of contiguous numbers, and one by one elsewhere.
VECTORS = "sin cos pow sinc exp tan"
EVERY = sorted(
    name
    for name, row in FUNCTIONS.items()
    if isinstance(row, Elementwise)
    and "f" in row.types
    and row.result == "x"
    and 0 < row.operands.count("x") < 3
)
_SIZE = 1001


def _operands(row: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    low, high = row.domain
    return [rng.uniform(low, high, _SIZE).astype(dtype) for _ in row.operands]


def _made(row: Any, given: list[Any]) -> dict[str, Any]:
    """The results of some layouts, in the order of the elements."""
    plain = [ck.asarray(one) for one in given]
    spread = [ck.asarray(np.repeat(one, 2))[::2] for one in given]
    moved = [ck.asarray(np.concatenate([one[:1], one]))[1:] for one in given]
    square = [one[:1000].reshape(25, 40) for one in plain]
    turned = [ck.asarray(one[:1000].reshape(25, 40).T.copy()).T for one in given]
    wide = [ck.broadcast_to(one[:, None], (_SIZE, 3)) for one in plain]
    return {
        "contiguous": row(*plain),
        "strided": row(*spread),
        "misaligned": row(*moved),
        "backwards": row(*(one[::-1] for one in plain))[::-1],
        "transposed": row(*turned).reshape(-1),
        "beside another layout": row(square[0], *turned[1:]).reshape(-1),
        "broadcast": row(*wide)[:, 1],
        "few": row(*(one[:5] for one in plain)),
        "one by one": ck.stack([row(*(one[k] for one in plain)) for k in range(7)]),
        "fused": ck.fuse(lambda *each: row(*each) * 1)(*plain),
    }


def differing(names: Iterable[str]) -> list[str]:
    """The functions, dtypes and layouts whose results are not those of contiguous memory."""
    found = []
    for name in names:
        for dtype in ("float32", "float64"):
            made = {
                key: one.numpy()
                for key, one in _made(FUNCTIONS[name], _operands(FUNCTIONS[name], dtype)).items()
            }
            right = made["contiguous"]
            for layout, one in made.items():
                if not np.array_equal(one, right[: one.size], equal_nan=True):
                    found.append(f"{name} of {dtype}, {layout}")
    return found


@pytest.mark.parametrize("names", [VECTORS, pytest.param(" ".join(EVERY), marks=pytest.mark.thorough)])
def test_layouts_have_the_same_bits(device: ck.Device, names: str) -> None:
    """On the host by optimised builds, in which loops become vectors."""
    if device.kind != "host":
        assert not differing(names.split())
        return
    done = subprocess.run(
        [sys.executable, __file__, *names.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "CUKERN_QUICK_BUILDS": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.splitlines()


def _circular(x: float) -> tuple[Decimal, Decimal]:
    """The sine and the cosine, by Taylor's series of what multiples of pi / 2 leave."""
    pi, term, n = Decimal(0), Decimal(1), 0
    while abs(term) > Decimal(10) ** -390:  # Machin's formula
        term = 4 * (4 / Decimal(5) ** (2 * n + 1) - 1 / Decimal(239) ** (2 * n + 1)) / (2 * n + 1)
        pi += -term if n % 2 else term
        n += 1
    quarters = (Decimal(x) / (pi / 2)).to_integral_value()
    rest = Decimal(x) - quarters * (pi / 2)
    sums, term = [Decimal(0), Decimal(0)], Decimal(1)
    for k in range(60):
        sums[k % 2] += -term if k % 4 > 1 else term
        term *= rest / (k + 1)
    cosine, sine = sums
    turns = int(quarters % 4) % 4
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[turns]


def _units(made: float, exact: Decimal, dtype: str) -> float:
    unit = np.spacing(np.abs(np.array(float(exact), dtype)))
    return float(abs(Decimal(made) - exact) / Decimal(float(unit)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sines_and_cosines_are_within_one_unit(device: ck.Device, dtype: str) -> None:
    """Small and large arguments, and multiples of pi / 4; CUDA's are within two units."""
    rng = np.random.default_rng(1)
    most = 37 if dtype == "float32" else 300
    x = [rng.uniform(-10, 10, 60), rng.uniform(-8.4e6, 8.4e6, 20), np.arange(1, 20) * (np.pi / 4)]
    values = np.concatenate([*x, 10 ** rng.uniform(6, most, 12), 10 ** rng.uniform(-30, 0, 12)]).astype(dtype)
    sines, cosines = (function(ck.asarray(values)).tolist() for function in (ck.sin, ck.cos))
    with localcontext() as context:
        context.prec = 400
        for at, sine, cosine in zip(values.tolist(), sines, cosines, strict=True):
            for made, exact in zip((sine, cosine), _circular(at), strict=True):
                assert _units(made, exact, dtype) <= (1 if device.kind == "host" else 2), at


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_are_within_one_unit(device: ck.Device, dtype: str) -> None:
    rng = np.random.default_rng(2)
    most = 30 if dtype == "float32" else 290
    x = np.concatenate(
        [rng.uniform(0.1, 3, 60), 10 ** rng.uniform(-most, most, 40), rng.uniform(0.99, 1.01, 40)]
    )
    y = np.concatenate([rng.uniform(-9, 9, 60), rng.uniform(-1, 1, 40), rng.uniform(-1e3, 1e3, 40)])
    x, y = x.astype(dtype), y.astype(dtype)
    made = ck.pow(ck.asarray(x), ck.asarray(y)).tolist()
    with localcontext() as context:
        context.prec = 60
        for a, b, c in zip(x.tolist(), y.tolist(), made, strict=True):
            assert _units(c, Decimal(a) ** Decimal(b), dtype) <= (1 if device.kind == "host" else 2), (a, b)


def test_powers_of_special_numbers(device: ck.Device) -> None:
    for dtype in ("float32", "float64"):
        ends = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, -0.5, 3, -3, 1e30, 2.5], dtype)
        x, y = (one.ravel() for one in np.meshgrid(ends, ends))
        made = ck.pow(ck.asarray(x), ck.asarray(y)).numpy()
        with np.errstate(all="ignore"):
            wanted = np.power(x, y)
        exact = np.isin(wanted, [0, 1, -1, np.inf, -np.inf]) | np.isnan(wanted)
        np.testing.assert_array_equal(made[exact], wanted[exact])
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(made[zeros]), np.signbit(wanted[zeros]))


if __name__ == "__main__":
    with ck.device("host"):
        for one in differing(sys.argv[1:]):
            print(one)
