"""A case: a public function, arguments for it, and NumPy's function of the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cukern as ck

#: NumPy's kinds of dtype.
ALL, NUMERIC, REAL, FLOAT, INTEGER = "biuf", "iuf", "iuf", "f", "iu"


@dataclass(frozen=True)
class A:
    """An array argument: values drawn uniformly from an open interval, or given.

    Attributes:
        shape: its shape.
        low: the lower end; integers are drawn from ``ceil(low)`` on.
        high: the upper end.
        kind: "" for the dtype that the case runs in, else a dtype that it always has.
        values: given instead of drawn.
        distinct: whether the values are all different, a permutation of evenly spaced ones.
    """

    shape: tuple[int, ...] = (3, 4)
    low: float = -2.0
    high: float = 2.0
    kind: str = ""
    values: Any = None
    distinct: bool = False

    def draw(self, dtype: Any, seed: int) -> np.ndarray:
        """The NumPy array of this argument in a case that runs in ``dtype``."""
        dtype = np.dtype(self.kind or dtype)
        if self.values is not None:
            return np.asarray(self.values, dtype)
        rng = np.random.default_rng(seed)
        kind = ck.dtypes.info(dtype).kind
        if kind == "b":
            return np.asarray(rng.random(self.shape) < 0.5)
        size = int(np.prod(self.shape))
        if self.distinct:
            spaced = np.arange(size) if kind in "iu" else np.linspace(self.low, self.high, size)
            return rng.permutation(spaced).reshape(self.shape).astype(dtype)
        if kind in "iu":
            low = max(np.ceil(self.low), 0 if kind == "u" else -100)
            high = int(max(np.ceil(self.high), low + 1)) + 1
            return np.asarray(rng.integers(int(low), high, self.shape)).astype(dtype)
        return np.asarray(rng.uniform(self.low, self.high, self.shape)).astype(dtype)


@dataclass(frozen=True)
class Case:
    """One call of a public function.

    Attributes:
        name: the public name, ``linalg.inv`` for one of a module.
        args: its arguments; an :class:`A`, also within a list or tuple, is an array.
        options: its keyword arguments.
        oracle: NumPy's function of the same arguments; by default the one of the same name. Arrays of half and
            single precision reach it in float64.
        kinds: the kinds of dtype that it takes, of "biuf".
        gradient: the highest order of derivative that is checked, in float64; 0 for none.
        tolerance: how much wider than the usual tolerance of a dtype the check is, for a function that adds up
            rounding errors of many steps; it says by what factor.
        dtype: "numpy" when the result's dtype must be NumPy's for the dtype of the case, "same" when it must be
            the case's, else the dtype itself; "" leaves it unchecked.
        repeat: whether the arguments may have equal rows, as a view of stride 0 has.
        halves: whether it takes float16 and bfloat16.
        label: tells cases of one name apart.
    """

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    oracle: Callable[..., Any] | None = None
    kinds: str = ALL
    gradient: int = 2
    tolerance: float = 1.0
    dtype: Any = "numpy"
    repeat: bool = True
    halves: bool = True
    label: str = ""

    @property
    def id(self) -> str:
        """What the tests call it."""
        return f"{self.name}-{self.label}" if self.label else self.name

    def takes(self, dtype: Any) -> bool:
        """Whether it takes arrays of a dtype."""
        info = ck.dtypes.info(dtype)
        return info.kind in self.kinds and (self.halves or info.kind != "f" or info.itemsize > 2)

    def function(self) -> Callable[..., Any]:
        """cukern's function."""
        found: Any = ck
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def reference(self) -> Callable[..., Any]:
        """NumPy's function."""
        found: Any = np
        if self.oracle is not None:
            return self.oracle
        for part in self.name.split("."):
            found = getattr(found, part)
        return found
