"""What was worked out for keys that came before: plans, layouts, programs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Cache", "Is", "options_key"]

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


class Is:
    """A key for an object that has no other equal: unlike its id, it equals no later object's.

    Objects are kept alive where there are no weak references to them.
    """

    __slots__ = ("_hash", "_of")

    def __init__(self, of: Any) -> None:
        self._hash = id(of)
        try:
            self._of: Callable[[], Any] = weakref.ref(of)
        except TypeError:
            self._of = lambda: of

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Is) and (of := self._of()) is not None and of is other._of()


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
