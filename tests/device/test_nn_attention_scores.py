"""The expressions of attention's scores for half types: what they take, and that they are exact where they must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cukern as ck
from cukern import dtypes
from cukern.nn.attention.cheaper import Given
from cukern.nn.attention.scores import printed, traced

Score = Callable[..., Any]
SIZES = (2, 4, 1000, 2000)


def text(
    score: Score, arrays: int = 0, slope: bool = False, sizes: tuple[int, ...] = SIZES, **given: bool
) -> str:
    """The statements of a score, and its results."""
    program, _ = traced(score, [dtypes.float32] * arrays, (False, False), dtypes.float32, ())
    assert program is not None
    uniform = range(5, 5 + arrays)
    made = printed(program, (), () if slope else None, Given(sizes, uniform, **given))
    return "; ".join([*(f"{line.name} = {line.code}" for line in made.lines), ", ".join(made.values)])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (lambda s, b, h, i, j: s / 2 + 1, "a5 = product * (scale * float(0.5)); v0 = a5 + float(1.0); v0"),
        (
            lambda s, b, h, i, j: 4 * ck.tanh(s / 4),
            "a5 = tanh_of_power(product * (scale * float(0.7213475204444817))); v0 = float(4.0) * a5; v0",
        ),
        (lambda s, b, h, i, j: s - h, "a5 = float((1) * at.head + (0)); v0 = a0 - a5; v0"),
        (
            lambda s, b, h, i, j: s + (2 * (j - i) + 3),
            "a5 = float((-2) * at.row + (2) * at.key + (3)); a6 = float((-2) * at.more_row + (2) * at.more_key); "
            "v0 = a5 + a6; v1 = a0 + v0; v1",
        ),
    ],
    ids=["linear", "tanh", "of a head", "of places"],
)
def test_what_a_score_takes(score: Score, expected: str) -> None:
    assert text(score) == expected


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
