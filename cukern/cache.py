"""What was worked out for keys that came before: plans, layouts, programs."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["Cache", "options_key"]

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


def options_key(options: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A hashable key of options, in which True is not 1; None if one is not hashable."""
    types: tuple[Any, ...] = tuple(map(type, options))
    if tuple in types:
        types = tuple([tuple(map(type, one)) if type(one) is tuple else type(one) for one in options])
    key = options, types
    try:
        hash(key)
    except TypeError:
        return None
    return key
