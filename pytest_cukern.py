"""pytest's option ``--cukern-checked`` and fixture ``cukern_checked``: tests whose launches on the host are checked.

pytest imports the plugins of all installed packages whenever it starts. So this module is beside the package, and
imports it only for a test that is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cukern.errors import KernelReport


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cukern")
    group.addoption(
        "--cukern-checked",
        action="store_true",
        help="check every launch of cukern's host (cukern.testing.checked)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cukern-checked"):
        config.pluginmanager.register(_EveryTest(), "cukern-checked")


@pytest.fixture
def cukern_checked() -> Iterator[list[KernelReport]]:
    """:func:`cukern.testing.checked` around a test."""
    from cukern.testing import checked

    with checked() as reports:
        yield reports


class _EveryTest:
    @pytest.fixture(autouse=True)
    def _cukern_checked_all(self) -> Iterator[None]:
        from cukern.testing import checked

        with checked():
            yield
