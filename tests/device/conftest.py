"""Fixtures of the tests that run kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cukern.elementwise import plan as launch
from cukern.nn.convolution import families, splitting
from cukern.reduction import plan as reduction


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that run, in order; reductions by their own name."""
    made: list[str] = []

    def count(kind: Any, method: str, name: Any) -> None:
        run = getattr(kind, method)

        def counted(plan: Any, *args: Any) -> Any:
            # What comes again by `run` is counted there.
            if (plan.which is None or plan.which() == plan.device.index) and (
                method == "run" or plan.launch is not None
            ):
                made.append(name(plan))
            return run(plan, *args)

        monkeypatch.setattr(kind, method, counted)

    # What the host's runtime makes would not be counted.
    monkeypatch.setattr(launch.Plan, "make", property(lambda plan: None, launch.Plan.make.__set__))
    for method in ("run", "single", "pair", "beside_number"):
        count(launch.Plan, method, lambda plan: plan.program.name)
    count(reduction.Plan, "run", lambda plan: plan.problem.reduction.name)
    return made


@pytest.fixture
def few_pixels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels of convolutions count 20 pixels at most: longer ones are cut."""
    monkeypatch.setattr(splitting, "LARGEST_INDEX", 20)
    # What was chosen before has not been cut, and what is chosen now must not be cut later.
    caches = families._convolution, families._weights_gradient
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
