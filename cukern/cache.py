"""What was worked out for keys that came before: plans, layouts, programs."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")


class Cache(dict[K, V]):
    """A dict that is emptied before it has more than ``capacity`` entries, so that ever new keys fill no memory."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int = 8192) -> None:
        super().__init__()
        self.capacity = capacity

    def keep(self, key: K, value: V) -> V:
        """Add ``value``, and return it."""
        if len(self) >= self.capacity:
            self.clear()
        self[key] = value
        return value
