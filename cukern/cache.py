"""What was worked out for keys that came before: plans, layouts, programs."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")
#: The size at which a cache is emptied, so that a process with ever new shapes does not grow.
_CAPACITY = 8192


class Cache(dict[K, V]):
    """A dict that is emptied before it has more than so many entries."""

    __slots__ = ()

    def keep(self, key: K, value: V) -> V:
        """Add ``value``, and return it."""
        if len(self) >= _CAPACITY:
            self.clear()
        self[key] = value
        return value
