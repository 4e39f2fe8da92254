"""Tests that change how launches are planned begin without plans, and leave none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cukern.array.operators import FUNCTIONS
from cukern.elementwise import launches, plan
from cukern.elementwise.function import Elementwise


@contextmanager
def emptied(*caches: dict[Any, Any]) -> Iterator[None]:
    """Empties the caches before the with-block, and again after it."""
    try:
        for one in caches:
            one.clear()
        yield
    finally:
        for one in caches:
            one.clear()


def elementwise_plans() -> list[dict[Any, Any]]:
    """All caches of elementwise plans: that of all programs, that of traces, and each row's own."""
    rows = (row for row in FUNCTIONS.values() if isinstance(row, Elementwise))
    return [plan._plans, launches._plans, *(row.quick for row in rows)]
