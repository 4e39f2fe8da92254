"""Every comparison of the tests refuses wrong results: zeros, the opposite sign, a lost last element.

What is compared within a tolerance is compared by :func:`cukern.testing.assert_close` or NumPy's ``assert_allclose``.
Here both go on, once the result is right, to wrong ones planted in its place, within the same tolerance. One that is
accepted fails the test: its tolerance is no bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from cukern.testing import assertions

#: The share of a result's elements, rounded up, whose loss may be less than the rounding of what they are made of:
#: the smallest.
HIDDEN = 0.1


def _lost(right: np.ndarray) -> np.ndarray:
    """A copy with 0 in the place of its last element that is not hidden."""
    wrong = np.array(right, order="C")  # of whose elements reshape makes a view
    size = np.abs(wrong)
    places = np.flatnonzero(size >= np.quantile(size[size > 0], HIDDEN)) if size.any() else np.zeros(0, int)
    wrong.reshape(-1)[places[-1:]] = 0
    return wrong


#: Wrong results, made of the right one.
PLANTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zeros": np.zeros_like,
    "the opposite sign": np.negative,
    "a lost last element": _lost,
}

#: How often each was refused, by dtype of the result.
refused: Counter[tuple[str, str]] = Counter()
#: What is compared in the place of the right result, while :func:`planting` says so.
_planted: list[str] = []

_check_near, _allclose = assertions._check_near, np.testing.assert_allclose


@contextmanager
def planting(what: str) -> Iterator[None]:
    """Compare a wrong result in the place of each right one."""
    _planted.append(what)
    try:
        yield
    finally:
        _planted.clear()


def _given(got: np.ndarray) -> np.ndarray:
    return PLANTS[_planted[0]](got) if _planted else got


def refuse_planted(got: np.ndarray, want: np.ndarray, absolute: Any, relative: float) -> None:
    """Fail if a tolerance accepts what is planted in the place of a right result.

    Those are zeros, the opposite sign, and 0 in the place of an element, each but the smallest. Only finite numbers
    count: others are equal or not.
    """
    right = np.where(np.isfinite(want), want, 0).astype(complex if np.iscomplexobj(want) else float)
    if not right.any():
        return
    for what, plant in PLANTS.items():
        if assertions._agreeing(plant(right), right, absolute, relative).all():
            _fail(f"{what}, in the place of numbers up to {np.abs(right).max():.3g}", absolute, relative)
        refused[str(got.dtype), what] += 1
    hidden = assertions._agreeing(np.zeros_like(right), right, absolute, relative)[right != 0]
    if hidden.sum() > math.ceil(HIDDEN * hidden.size):
        _fail(f"the loss of {hidden.sum()} of {hidden.size} elements", absolute, relative)


def _fail(what: str, absolute: Any, relative: float) -> None:
    most = float(np.max(absolute, initial=0))
    raise AssertionError(f"the tolerance is no bound: rtol={relative:g}, atol up to {most:g} accept {what}")


def install() -> None:
    """Let both comparisons refuse what is planted; before the first test module is imported."""

    def check_near(got: np.ndarray, want: np.ndarray, absolute: Any, relative: float, rule: str) -> None:
        _check_near(_given(got), want, absolute, relative, rule)
        refuse_planted(got, want, absolute, relative)

    @wraps(_allclose)
    def assert_allclose(
        actual: Any, desired: Any, rtol: float = 1e-7, atol: Any = 0, *rest: Any, **more: Any
    ) -> None:
        got, want = assertions._values(actual), assertions._values(desired)
        _allclose(_given(got), want, rtol, atol, *rest, **more)
        refuse_planted(got, np.broadcast_to(want, np.broadcast_shapes(got.shape, want.shape)), atol, rtol)

    assertions._check_near = check_near
    np.testing.assert_allclose = assert_allclose
