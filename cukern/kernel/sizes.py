"""The arithmetic of launches: numbers of blocks and widths of indices."""

from __future__ import annotations

import struct

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


def divisor(by: int) -> bytes:
    """The kernels' struct Divisor; of 0, by which nothing is divided, that of 1."""
    by = by or 1
    bits = (by - 1).bit_length()
    return struct.pack("Iii", divide_up(2 ** (31 + bits), by), 31 + bits, by)


def index_type(*sizes: int) -> str:
    """The C++ integer type for indices up to the largest of ``sizes``."""
    return "int" if max(sizes) <= LARGEST_INDEX else "long long"
