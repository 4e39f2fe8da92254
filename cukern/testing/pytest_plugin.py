"""pytest's option ``--cukern-checked`` and fixture ``cukern_checked``: tests whose launches on the host are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cukern")
    group.addoption(
        "--cukern-checked",
        action="store_true",
        help="check every launch of cukern's host (cukern.testing.checked)",
    )


@pytest.fixture
def cukern_checked() -> Iterator[Any]:
    """:func:`cukern.testing.checked` around a test."""
    from .checked import checked

    with checked() as reports:
        yield reports


@pytest.fixture(autouse=True)
def _cukern_checked_all(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--cukern-checked"):
        yield
        return
    from .checked import checked

    with checked():
        yield
