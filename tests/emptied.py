"""Tests that change how launches are planned begin without plans, and leave none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cukern.array.operators import FUNCTIONS
from cukern.elementwise import launches, plan
from cukern.elementwise.function import Elementwise


@contextmanager
def emptied(*caches: Any) -> Iterator[None]:
    """Empties dicts, and functions of a cache of their own, before the with-block, and again after it."""
    clears = [one.clear if isinstance(one, dict) else one.cache_clear for one in caches]
    try:
        for clear in clears:
            clear()
        yield
    finally:
        for clear in clears:
            clear()


def elementwise_plans() -> list[dict[Any, Any]]:
    """All caches of elementwise plans: that of all programs, that of traces, and each row's own."""
    rows = (row for row in FUNCTIONS.values() if isinstance(row, Elementwise))
    return [plan._plans, launches._plans, *(row.quick for row in rows)]
