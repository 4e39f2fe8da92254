"""Convolutions as products of transformed tiles, against their definition in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, random

import cukern as ck
from cukern import nn
from cukern.nn.convolution import plan, winograd
from cukern.testing import gradcheck


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The transforms of small arrays, which would be convolved otherwise, in any floating dtype."""
    found: list[object] = []
    for name in ("Convolution", "Weights"):
        real = getattr(winograd, name)
        monkeypatch.setattr(winograd, name, lambda *given, real=real: found.append(given) or real(*given))
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(winograd, "_pays", lambda *_: True)
    yield found


#: Planes of whole tiles, and whose rows and columns end within one; padding that is none, larger than a window, and uneven.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {"padding": 1}),
    ((3, 4, 4, 12), (8, 4, 3, 3), {"padding": 1}),
    ((2, 3, 5, 6), (3, 4, 3, 3), {"transposed": True, "padding": 1}),
    ((1, 3, 4, 4), (2, 3, 3, 3), {"padding": (3, 0)}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CASES, ids=str)
def test_is_the_definition(
    device: ck.Device,
    made: list[object],
    x: tuple[int, ...],
    w: tuple[int, ...],
    options: dict[str, Any],
    last: bool,
) -> None:
    check(x, w, last=last, **options)
    assert len(made) == 3
