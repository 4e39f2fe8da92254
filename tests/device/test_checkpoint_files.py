"""Checkpoints that are damaged or lie, and arguments of which none can be made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_files import mutations

import cukern as ck
from cukern import distributed as cd

W, STEP = np.arange(6, dtype=np.float32).reshape(2, 3), 7


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    cd.init()
    with ck.device("host"):
        yield


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return cd.save_checkpoint(tmp_path, STEP, {"w": ck.asarray(W), "n": ck.asarray(3)}, texts={"seen": 9})


def read(folder: Path) -> dict[str, Any]:
    checkpoint = cd.load_checkpoint(folder)
    return {name: checkpoint[name] for name in checkpoint}


def test_what_is_written_is_read(saved: Path) -> None:
    checkpoint = cd.load_checkpoint(saved.parent)
    assert (checkpoint.step, checkpoint.texts) == (STEP, {"seen": 9})
    assert (checkpoint["w"].numpy() == W).all() and checkpoint["n"].item() == 3
    assert sorted(os.listdir(saved)) == ["index.json", "rank-00000-of-00001.safetensors"]


Index = dict[str, Any]
LIES: dict[str, Callable[[Index], Any]] = {
    "cannot convert float infinity": lambda index: index.update(step=float("inf")),
    "KeyError": lambda index: index.pop("arrays"),
    "another number": lambda index: index["arrays"]["w"].update(shape=[2**40, 3]),
    "axes": lambda index: index["arrays"]["w"].update(shape=[2**62] * 100000),
    "two pieces lie in one file": lambda index: index["arrays"]["w"].update(
        shape=[6 * 1000], pieces=[[index["arrays"]["w"]["pieces"][0][0], 6 * i, 6] for i in range(1000)]
    ),
    "lies in no file": lambda index: index["arrays"]["w"].update(pieces=[["../x.safetensors", 0, 6]]),
    "do not follow": lambda index: index["arrays"]["w"]["pieces"][0].__setitem__(1, 3),
    "dtype": lambda index: index["arrays"]["w"].update(dtype="object"),
}


@pytest.mark.parametrize("problem", LIES)
def test_indices_that_lie_are_refused(saved: Path, problem: str) -> None:
    path = saved / "index.json"
    index = json.loads(path.read_text())
    LIES[problem](index)
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: damaged: .*{problem}"):
        read(saved)


def test_arrays_that_are_not_what_the_index_says(saved: Path) -> None:
    (file,) = saved.glob("*.safetensors")
    ck.save_safetensors(file, {"w": ck.zeros(5)})
    with pytest.raises(ValueError, match=rf"{file.name}: damaged: 'w' is not what the index says"):
        read(saved)


def outcome(folder: Path) -> tuple[dict[str, Any], str]:
    """What a checkpoint holds, and what is wrong with it."""
    try:
        return read(folder), ""
    except (ValueError, TypeError, FileNotFoundError) as error:
        return {}, str(error)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.thorough)])
def test_changed_files_are_read_or_refused(saved: Path, count: int) -> None:
    refused = 0
    for path in sorted(saved.iterdir()):
        whole = path.read_bytes()
        tracemalloc.start()
        try:
            for data in mutations(whole, count):
                path.write_bytes(data)
                made, problem = outcome(saved)
                assert sum(x.nbytes for x in made.values()) < 100
                assert not problem or str(saved) in problem
                refused += bool(problem)
            assert tracemalloc.get_traced_memory()[1] < 2**22
        finally:
            tracemalloc.stop()
        path.write_bytes(whole)
    assert refused > 100


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"step": 1.5}, TypeError, r"step: expected an int, got 1\.5"),
        ({"step": "1"}, TypeError, "step: expected an int, got '1'"),
        ({"step": -1}, ValueError, "step: expected at least 0, got -1"),
        ({"keep": 0}, ValueError, "keep: expected at least 1, got 0"),
        ({"keep": 1.0}, TypeError, r"keep: expected an int, got 1\.0"),
        ({"state": [1]}, TypeError, "state: expected arrays by name, got list"),
        ({"state": {1: ck.ones(1)}}, TypeError, "state: expected names that are strings, got 1"),
        ({"state": {"w": 1.0}}, TypeError, "state: 'w': expected an Array or a Piece, got float"),
        ({"texts": {"a": object()}}, TypeError, "texts: expected values that JSON has: .*object"),
        ({"texts": [1]}, TypeError, "texts: expected values by name, got list"),
    ],
)
def test_arguments_of_which_no_checkpoint_can_be_made(
    tmp_path: Path, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"step": 1, "state": {"w": ck.ones(2)}, **changed}
    with pytest.raises(error, match=f"save_checkpoint: {message}"):
        cd.save_checkpoint(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_step_of_numpy(tmp_path: Path) -> None:
    assert cd.save_checkpoint(tmp_path, np.int64(3), {}).name == "step-000000003"  # type: ignore[arg-type]


def test_what_the_format_lacks_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'w': safetensors has no dtype complex128"):
        cd.save_checkpoint(tmp_path, 1, {"w": ck.ones(2, dtype="complex128")})
    assert list(tmp_path.iterdir()) == []


FULL = """
import os, sys, resource, cukern as ck
from cukern import distributed as cd
cd.init()
x = ck.ones(1 << 14)
sys.dont_write_bytecode = True  # it would be cut
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
try:
    cd.save_checkpoint(sys.argv[1], 1, {"x": x})
except OSError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_earlier_checkpoints_alone(saved: Path) -> None:
    left = saved.parent / ".step-000000003.partial"
    left.mkdir()  # of a process that was killed
    command = [sys.executable, "-c", FULL, str(saved.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"File too large: '.*rank-00000-of-00001\.safetensors'", done.stdout), done.stderr
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
