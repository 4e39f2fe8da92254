"""The expressions of attention's scores for half types: what they take, and that they are exact where they must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import cukern as ck
from cukern import dtypes
from cukern.nn.attention.cheaper import Given
from cukern.nn.attention.scores import printed, traced

Score = Callable[..., Any]


def tanh(x: Any) -> Any:
    """That of a traced score or of a number."""
    return math.tanh(x) if isinstance(x, float) else ck.tanh(x)


SIZES = (2, 4, 1000, 2000)


def text(
    score: Score, arrays: int = 0, slope: bool = False, sizes: tuple[int, ...] = SIZES, **given: bool
) -> str:
    """The statements of a score, and its results."""
    program, _ = traced(score, [dtypes.float32] * arrays, (False, False), dtypes.float32, ())
    assert program is not None
    uniform = range(5, 5 + arrays)
    made = printed(program, (), sizes, () if slope else None, Given(sizes, uniform, **given))
    return "; ".join([*(f"{line.name} = {line.code}" for line in made.lines), ", ".join(made.values)])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (lambda s, b, h, i, j: s / 2 + 1, "a5 = product * (scale * float(0.5)); v0 = a5 + float(1.0); v0"),
        (
            lambda s, b, h, i, j: 4 * ck.tanh(s / 4),
            "a5 = tanh_of_power(product * (scale * float(0.7213475204444817))); v0 = float(4.0) * a5; v0",
        ),
        (lambda s, b, h, i, j: s - h, "a5 = settled(float((1) * at.head + (0))); v0 = a0 - a5; v0"),
        (
            lambda s, b, h, i, j: s + (2 * (j - i) + 3),
            "a5 = settled(float((-2) * at.row + (2) * at.key + (3))); "
            "a6 = float((-2) * at.more_row + (2) * at.more_key); v0 = a5 + a6; v1 = a0 + v0; v1",
        ),
    ],
    ids=["linear", "tanh", "of a head", "of places"],
)
def test_what_a_score_takes(score: Score, expected: str) -> None:
    assert text(score) == expected


@pytest.mark.parametrize(
    ("score", "unit", "shifted"),
    [
        (lambda s, b, h, i, j, x: s / 2 + 1, (0.5, True), True),
        (lambda s, b, h, i, j, x: s + x * (j - i), (1.0, True), True),
        (lambda s, b, h, i, j, x: s / 4 - abs(i - j) / 2, (0.25, True), False),
        (lambda s, b, h, i, j, x: 3 * tanh(s / 4) - x * (i - 2 * j), (3.0, False), True),
        (lambda s, b, h, i, j, x: -(2 - s) - x, (1.0, True), True),
        (lambda s, b, h, i, j, x: 1 - s, (1.0, False), False),
        (lambda s, b, h, i, j, x: s * (j - i), (1.0, False), False),
    ],
    ids=["linear", "of heads", "distance", "tanh", "negative twice", "falling", "product"],
)
def test_parts_of_a_score(score: Score, unit: tuple[float, bool], shifted: bool) -> None:
    """The sum of both, times the gain, is the score; the shift is the same for all keys of a tile."""
    program, _ = traced(score, [dtypes.float32], (False, False), dtypes.float32, ())
    assert program is not None
    made = printed(program, (), SIZES, None, Given(SIZES, [5], True, True))
    assert made.unit[:2] == unit
    x, scale, product = 0.375, 0.125, -3.0
    shifts = set()
    for more in range(3):
        at = SimpleNamespace(batch=1, head=2, row=30, key=17, more_row=0, more_key=more)
        known = {
            "at": at,
            "product": product,
            "scale": scale,
            "inverse": 1 / scale,
            "settled": float,
            "fabs": abs,
        }
        known |= {
            "tanh_near": math.tanh,
            "a0": product * scale,
            "a3": at.row,
            "a4": at.key + more,
            "a5": x,
            "float": float,
        }
        for line in made.lines:
            known[line.name] = eval(line.code.replace("cast<float>", "float"), known)
        value, shift = (eval(one, known) for one in made.values)
        shifts.add(shift)
        gain = made.unit[0] * (scale if made.unit[1] else 1)
        wanted = score(product * scale, 1, 2, at.row, at.key + more, x)
        assert gain * (value + shift) == pytest.approx(float(wanted), rel=1e-6)
    assert len(shifts) == 1
    assert (shifts != {0.0}) == shifted


@pytest.mark.parametrize(
    ("score", "divided", "value"),
    [
        (lambda s, t: s + t, True, "v0 = a6 + a5; v0"),
        (lambda s, t: (s + t) / 2, True, "v0 = a6 + a5; v0"),
        (lambda s, t: s + t + 5, True, "v0 = a6 + a5; v1 = float(5.0) * a7; v2 = float(0.0) + v1; v0"),
        (lambda s, t: s + t * 2, False, None),
        (lambda s, t: s * t + t, False, None),
        (lambda s, t: 3 * tanh(s) + t, False, None),
        (lambda s, t: s + ck.exp(t) + t, False, None),
        (lambda s, t: (lambda w: s + w - 3 * w)(t + 5), False, None),
    ],
    ids=["sum", "half", "constant", "twice", "product", "tanh", "used twice", "in a sum used twice"],
)
def test_what_is_made_ahead_comes_divided_by_the_scale(
    score: Score, divided: bool, value: str | None
) -> None:
    """If a score is the product and a summand made ahead, which it does not read elsewhere."""
    program, _ = traced(
        lambda s, b, h, i, j, t: score(s, t), [dtypes.float32], (False, False), dtypes.float32, ()
    )
    assert program is not None
    made = printed(program, (), SIZES, None, Given(SIZES, [], shifted=True, ahead=[5]))
    assert made.unit.divided == (frozenset([5]) if divided else frozenset())
    if value:
        lines = [f"{line.name} = {line.code}" for line in made.lines if line.name not in ("a6", "a7")]
        assert "; ".join([*lines, made.values[0]]) == value


def test_an_array_of_heads_times_a_place() -> None:
    """The part that a loop keeps is multiplied once."""
    made = text(lambda s, b, h, i, j, x: s + x * (j - i), arrays=1)
    assert "a5 * a6; v1 = a5 * a7; v2 = v0 + v1" in made


def test_the_slope_of_tanh_is_made_of_its_value() -> None:
    made = text(lambda s, b, h, i, j: 2 * ck.tanh(s / 2), slope=True)
    assert "exp" not in made
    assert made.count("tanh") == 1


@pytest.mark.parametrize(
    ("score", "sizes"),
    [
        (lambda s, b, h, i, j: s + (j - i), (1, 1, 2**24, 1)),
        (lambda s, b, h, i, j: s + 2**14 * j, SIZES),
        (lambda s, b, h, i, j: s + j * i, SIZES),
        (lambda s, b, h, i, j: s + (j - i) // 2, SIZES),
    ],
    ids=["many queries", "large factor", "product", "quotient"],
)
def test_integers_that_sums_of_floats_do_not_hold_stay_integers(score: Score, sizes: tuple[int, ...]) -> None:
    assert "cast<float>" in text(score, sizes=sizes)


def test_quotients_of_places_stay_exact() -> None:
    """Where rounding could move a place to another one; halves are exact."""
    assert " / float(41.0)" in text(lambda s, b, h, i, j: s + ck.floor(j / 41))
    assert "/" not in text(lambda s, b, h, i, j: s + ck.floor(j / 32))


def test_the_slope_of_a_sigmoid_is_not_made_of_a_tanh() -> None:
    """``log(sigmoid(s))`` divides the slope by a sigmoid as small, which one less a tanh's square would lose."""
    assert "tanh" not in text(lambda s, b, h, i, j: ck.log(ck.sigmoid(s)), slope=True)


@pytest.mark.parametrize(
    ("place", "length", "inside"),
    [
        (lambda i, j: j - i + 999, 2999, True),
        (lambda i, j: j - i + 999, 2998, False),
        (lambda i, j: j - i + 998, 2999, False),
        (lambda i, j: abs(i - j), 2000, True),
        (lambda i, j: ck.minimum(i, 7), 8, True),
        (lambda i, j: ck.maximum(-j, -5) + 5, 6, True),
        (lambda i, j: i * j, 2**30, False),
    ],
)
def test_indices_are_clipped_unless_they_are_known_to_be_inside(
    place: Any, length: int, inside: bool
) -> None:
    tables = (ck.zeros((4, length)) if length < 2**20 else ck.broadcast_to(ck.zeros(1), (4, length)),)
    program, lookups = traced(
        lambda s, b, h, i, j, table: s + table[h, place(i, j)], [], (False, False), dtypes.float32, tables
    )
    assert program is not None
    made = "; ".join(line.code for line in printed(program, lookups, SIZES, None).lines)
    assert "index(a2)" in made
    assert ("clipped" not in made) == inside


@pytest.mark.parametrize("swapped", [False, True])
def test_a_condition_for_minus_infinity_is_no_part_of_the_slope(swapped: bool) -> None:
    """Where it makes the score -inf the weight is 0, whatever the slope is."""

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return ck.where(j > i, -math.inf, s / 2) if swapped else ck.where(j <= i, s / 2, -math.inf)

    assert text(score, slope=True).endswith("float(0.5)")
