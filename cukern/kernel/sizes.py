"""The arithmetic of launches: how many blocks, and how wide an index must be."""

from __future__ import annotations

#: The largest index or offset in elements for which a kernel counts in 32 bits: the threads of the last blocks count
#: past the last element.
LARGEST_INDEX = 2**31 - 2**21
#: The bytes of a thread's widest access to memory.
ACCESS = 16


def divide_up(a: int, b: int) -> int:
    """``a / b``, rounded up."""
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The least power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def index_type(*sizes: int) -> str:
    """The C++ type of an index up to the largest of ``sizes``."""
    return "int" if max(sizes) <= LARGEST_INDEX else "long long"
