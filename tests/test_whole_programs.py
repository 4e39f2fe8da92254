"""The programs of `benchmarks/programs`: sides begin with the same loss, and a GPU's graph holds the whole step."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cukern as ck

FOLDER = Path(__file__).parents[1] / "benchmarks"
#: Words of programs that take little time.
QUICK = ("MLP", "neural ODE", "PINN")
#: Divides the programs' sizes.
SCALE = 8

#: Records a step for a GPU that is not here, whose kernels the host runs.
CAPTURE = f"""
import sys, warnings
sys.path.insert(0, {str(FOLDER)!r})
warnings.simplefilter("error")
from cukern.device import stand_in
from cukern.device.recording import Recording, gpu
from cukern.launch.family import STAND_IN
stand_in("cuda", gpu.RecordedGpu(STAND_IN, Recording(), lambda unit: None))
import cukern as ck, models
program, = [one for one in models.PROGRAMS if one.name == sys.argv[1]]
with ck.device("cuda:0"):
    made = models.sides(program, {SCALE}, True)
    eager, captured = made["cukern, eager"](), made["cukern, captured"]()
    losses = [(float(eager()), float(captured())) for _ in range(3)]
    assert captured.graphs == 1, captured
    assert all(abs(a - b) <= {{"float64": 1e-9}}.get(program.dtype, 2e-2) * abs(a) for a, b in losses), losses
"""


@pytest.fixture(name="models", scope="module")
def _models() -> Iterator[Any]:
    """`benchmarks/models.py`."""
    dtype = ck.get_default_dtype()
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("models")
    finally:
        sys.path.remove(str(FOLDER))
        ck.set_default_dtype(dtype)


def first_losses(models: Any, word: str) -> None:
    (program,) = [one for one in models.PROGRAMS if word in one.name]
    losses = {}
    for side, make in models.sides(program, SCALE, True).items():
        losses[side] = float(make()())
    wanted = losses["cukern, eager"]
    assert len(losses) >= 2
    for side, found in losses.items():
        assert abs(found - wanted) <= program.apart * abs(wanted), (side, losses)


@pytest.mark.parametrize("word", QUICK)
def test_sides_begin_alike(models: Any, word: str) -> None:
    first_losses(models, word)


@pytest.mark.thorough
def test_all_sides_begin_alike(models: Any) -> None:
    others = [one.name for one in models.PROGRAMS if not any(word in one.name for word in QUICK)]
    assert len(others) == len(models.PROGRAMS) - len(QUICK)
    for name in others:
        first_losses(models, name)


@pytest.mark.thorough
def test_a_graph_holds_each_step(models: Any) -> None:
    for program in models.PROGRAMS:
        if program.name in ("Navier-Stokes flow", "Gaussian process"):
            continue  # the stand-in has neither cuFFT nor cuSOLVER
        done = subprocess.run(
            [sys.executable, "-c", CAPTURE, program.name], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, (program.name, done.stderr[-2000:])
