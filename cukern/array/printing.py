"""Arrays as text, under the options of ``numpy.set_printoptions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes

if TYPE_CHECKING:
    from .array import Array


def text(x: Array) -> str:
    """``str(x)``: the elements alone, as those of a NumPy array."""
    return str(x._fetched())


def described(
    x: Array,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """``repr(x)``: the elements, the shape where they do not show it, the dtype and the device."""
    data, name = x._fetched(), type(x).__name__
    width = np.get_printoptions()["linewidth"] if max_line_width is None else max_line_width
    body = "[]"
    if data.size or data.shape == (0,):
        body = np.array2string(data, width, precision, suppress_small, ", ", f"{name}(", suffix=")")
    parts = [f"dtype={dtypes.info(x.dtype).name}", f"device={str(x.device)!r}"]
    hidden = not data.size and data.shape != (0,)
    if hidden or data.size > np.get_printoptions()["threshold"]:
        parts.insert(0, f"shape={data.shape}")
    tail = f"{', '.join(parts)})"
    last = len(f"{name}({body}") - f"{name}({body}".rfind("\n") - 1
    between = ",\n" + " " * (len(name) + 1) if last + len(tail) + 2 > width else ", "
    return f"{name}({body}{between}{tail}"


def formatted(x: Array, spec: str) -> str:
    """``format(x, spec)``: of one element, that of its number; of more, only the empty ``spec``.

    Raises:
        TypeError: a ``spec`` for more than one element.
    """
    if not spec:
        return text(x)
    if x.size != 1:
        raise TypeError(
            f"format: expected an array of one element for {spec!r}, got shape {x.shape}; "
            "numpy.array2string has precision= and formatter="
        )
    number: Any = x._number()
    return format(number, spec)
