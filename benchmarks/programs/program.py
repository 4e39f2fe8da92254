"""What a program of this folder says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Program"]

#: By how much of it the first loss may differ by default: rounding grows from layer to layer.
LIMITS = {"bfloat16": 0.05, "float32": 1e-3, "float64": 1e-9}


@dataclass(frozen=True)
class Program:
    """A step that is written once for any library, and measured.

    Attributes:
        name: shown in tables.
        build: of the library's names and the scale that divides sizes; returns a module with ``loss(*inputs)``, which
            a step differentiates for AdamW, or with ``advance(*inputs)``, which a step calls alone. A module may have
            ``finish()``, called without recording after the optimizer's step.
        inputs: NumPy arrays of a generator and the scale; those of floating dtypes are converted to ``dtype``.
        dtype: the name of the dtype of parameters and inputs.
        limit: the greatest difference of sides' first losses, as a fraction; that of the dtype in `LIMITS` when None.
        jax: of the parameters by their names, the inputs and the learning options; returns a step for JAX.
    """

    name: str
    build: Callable[[Any, int], Any]
    inputs: Callable[[np.random.Generator, int], list[Any]]
    dtype: str
    limit: float | None = None
    jax: Callable[[dict[str, Any], list[Any], int], Callable[[], Any]] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def apart(self) -> float:
        """The greatest difference of sides' first losses, as a fraction."""
        return LIMITS[self.dtype] if self.limit is None else self.limit
