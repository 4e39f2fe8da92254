"""Rows of activations made of pieces: of lines, and of a line and an exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kinds import unary
from .logic import logical_and
from .table import exp, where

#: Klambauer and others, "Self-normalizing neural networks", 2017.
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _between(x: Any, low: float, high: float) -> Any:
    return logical_and(x > low, x < high)


relu6 = unary(
    "relu6",
    "minimum(maximum(x, T(0)), T(6))",
    vjp=lambda g, x, r: where(_between(x, 0, 6), g, 0),
    oracle=lambda x: np.clip(x, 0, 6),
    doc="x limited to the range from 0 to 6; its derivative at a bound is 0.",
)
hardsigmoid = unary(
    "hardsigmoid",
    "minimum(maximum(x + T(3), T(0)), T(6)) / T(6)",
    vjp=lambda g, x, r: where(_between(x, -3, 3), g / 6, 0),
    oracle=lambda x: np.clip(x + 3, 0, 6) / 6,
    doc="x + 3 limited to the range from 0 to 6, over 6: sigmoid of three lines; its derivative at a bound is 0.",
)
hardswish = unary(
    "hardswish",
    "maximum(x, T(-3)) * (minimum(maximum(x + T(3), T(0)), T(6)) / T(6))",
    vjp=lambda g, x, r: where(_between(x, -3, 3), g * (x / 3 + 0.5), where(x <= -3, 0, g)),
    oracle=lambda x: x * np.clip(x + 3, 0, 6) / 6,
    doc="x * hardsigmoid(x) (Howard and others, 2019).",
)


selu = unary(
    "selu",
    f"T({_SELU_SCALE!r}) * (x > T(0) ? x : T({_SELU_ALPHA!r}) * expm1(x))",
    vjp=lambda g, x, r: g * _SELU_SCALE * where(x > 0, 1, _SELU_ALPHA * exp(where(x > 0, 0, x))),
    oracle=lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    doc="1.0507 * elu(x, 1.6733), which keeps a mean of 0 and a variance of 1 (Klambauer and others, 2017).",
)
