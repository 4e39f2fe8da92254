"""The arithmetic of launches: numbers of blocks and widths of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..errors import LaunchError
from ..text import Dim3

#: The largest index or offset in elements that a kernel computes in 32 bits. It leaves room because the threads of the
#: last blocks count past the last element.
LARGEST_INDEX = 2**31 - 2**21
#: Bytes of a thread's widest memory access.
ACCESS = 16


def divide_up(a: int, b: int) -> int:
    """``a / b``, rounded up."""
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def divisor_of(by: int) -> tuple[int, int, int]:
    """The fields of the kernels' struct Divisor; those of 1 for 0, by which nothing is divided."""
    by = by or 1
    bits = (by - 1).bit_length()
    return divide_up(2 ** (31 + bits), by), 31 + bits, by


def index_type(*sizes: int) -> str:
    """The C++ integer type for indices up to the largest of ``sizes``."""
    return "int" if max(sizes) <= LARGEST_INDEX else "long long"


def as_dim3(value: int | Sequence[int], argument: str) -> Dim3:
    """Convert an integer, or a tuple, list or 1-D array of integers, to three sizes; missing ones are 1.

    Raises:
        LaunchError: ``value`` is not one to three non-negative integers.
    """
    several = isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    given: tuple[Any, ...] = tuple(cast("Sequence[int]", value)) if several else (value,)
    try:
        sizes = [operator.index(n) for n in given]
    except TypeError:
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise LaunchError(f"{argument}: expected one to three integers that are at least 0, got {value!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
