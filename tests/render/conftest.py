"""Fixtures of the tests that compile for GPUs which need not be here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_without_one import Gpu, gpu_without_one


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    """The current device while the module's tests run."""
    with gpu_without_one() as made:
        yield made
