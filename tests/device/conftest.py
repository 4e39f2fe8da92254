"""Fixtures of the tests that run kernels."""

from __future__ import annotations

from typing import Any

import pytest

from cukern.ops import launch, reduction


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that run, in order; reductions by their own name."""
    made: list[str] = []

    def count(kind: Any, name: Any) -> None:
        run = kind.run

        def counted(plan: Any, *args: Any) -> Any:
            if plan.current is None or plan.current() == plan.device.index:  # else it comes again
                made.append(name(plan))
            return run(plan, *args)

        monkeypatch.setattr(kind, "run", counted)

    count(launch.Plan, lambda plan: plan.program.name)
    count(reduction.Plan, lambda plan: plan.rendered[0][1]["reduction"].name)
    return made
