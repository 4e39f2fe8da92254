"""What cases of more than 2**31 elements are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import cukern as ck


class Case(NamedTuple):
    """A call, what it should give, and by how much it may differ."""

    call: Callable[[], Any]
    wanted: Any
    tolerance: float = 0.0


class Inputs:
    """Arrays of ``n`` elements."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.rows, self.columns = (3, n // 3) if n % 3 == 0 else (1, n)
        self.side = math.isqrt(n) + 1

    @cached_property
    def marks(self) -> ck.Array:
        """int8: 3, 9, 7 and -5 at the start, the middle, the last but one and the end; zeros elsewhere."""
        made = ck.zeros(self.n, dtype="int8")
        for place, value in ((0, 3), (self.n // 2, 9), (self.n - 2, 7), (self.n - 1, -5)):
            made[place] = value
        return made

    @cached_property
    def numbers(self) -> ck.Array:
        """bfloat16 from 0.1 to 0.9."""
        return ck.random.default_rng(0).uniform(0.1, 0.9, self.n, dtype="bfloat16")

    @cached_property
    def flags(self) -> ck.Array:
        """Three that are true."""
        made = ck.zeros(self.n, dtype="bool")
        made[1] = made[self.n // 2] = made[self.n - 2] = True
        return made

    @cached_property
    def places(self) -> ck.Array:
        """Of the marks."""
        return ck.asarray([0, self.n // 2, self.n - 2, self.n - 1])


def host(x: Any) -> np.ndarray[Any, Any]:
    """A result in float64 on the host."""
    if isinstance(x, ck.Array):
        x = (x.astype("float64") if x.dtype in ck.dtypes.FLOATS else x).numpy()
    return np.asarray(x, "complex128" if np.iscomplexobj(x) else "float64")


def tail(x: ck.Array, count: int = 5) -> ck.Array:
    """The last elements along the first axis; negative starts of slices are avoided here."""
    return x[x.shape[0] - count :]


def ends(f: Callable[..., ck.Array], *xs: ck.Array, tolerance: float = 0.01) -> Case:
    """An elementwise function: at both ends of the result, what it makes of the ends."""

    def call() -> Any:
        made = f(*xs)
        return [host(made[:5]), host(tail(made))]

    def wanted() -> Any:
        return [host(f(*(x[:5] for x in xs))), host(f(*(tail(x) for x in xs)))]

    return Case(call, wanted, tolerance)


def written(a: Inputs, f: Callable[[ck.Array], object]) -> Any:
    y = ck.copy(a.marks)
    f(y)
    return np.r_[host(y[:2]), host(y[a.n // 2]), host(tail(y, 2))]
