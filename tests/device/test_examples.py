"""Each tutorial script runs from its first line to its last, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cukern as ck

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "01_matmul_add_relu": "Recomputing: first and second derivatives agree",
    "02_layer_norm": "to second order",
    "03_linear_four_levels": "level 4 fused: right, derivatives agree to order 1",
    "04_lltm": "cukern.nn.LLTM: (50, 16, 128)",
    "05_pooling": "the first of equal maxima gets the gradient: [[[0.0, 2.0, 1.0, 0.0]]]",
    "06_train_a_model": "step 200",
    "07_gpt": "saved and loaded: step 3",
    "08_vae": "drawn by the model:",
    "10_gpt2": "with the cache as without it",
    "12_generate": "logits of the file's model differ by",
    "13_gpt_parallel": "over Mesh(data=1, tensor=1)",
    "11_cnn": "right on digits that it has not seen:",
    "09_tensor_cores": "given back too early: wrong numbers",
}
#: Sizes that take seconds, for scripts that train longer.
SMALL = {
    "07_gpt": "--steps 3 --batch 2 --length 8 --features 8 --layers 1 --write 10",
    "08_vae": "--steps 3 --batch 4 --hidden 8 --latent 2",
    "12_generate": "--steps 3 --batch 2 --length 8 --features 32 --layers 1 --write 10",
    "13_gpt_parallel": "--steps 2 --batch 2 --length 8 --features 8 --layers 1",
    "11_cnn": "--steps 2 --batch 4 --channels 4",
    "10_gpt2": "--steps 10 --batch 1 --write 8 --chunks 2 --checkpoint",
}
#: Where the scripts find the library, and the packages that this process has.
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, device: ck.Device) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *SMALL.get(script.stem, "").split()],
        env={**os.environ, "PYTHONPATH": PATH, "CUKERN_DEVICE": str(device)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[script.stem] in done.stdout


@pytest.mark.thorough
def test_launches_of_a_gpt_are_counted(device: ck.Device) -> None:
    """The script of the measurement on a small model: PyTorch's losses too where it is installed."""
    path = ROOT / "benchmarks" / "gpt2_launches.py"
    done = subprocess.run(
        [sys.executable, str(path), "--tiny", "--steps", "1", "--dtype", "float32"],
        env={**os.environ, "PYTHONPATH": PATH, "CUKERN_DEVICE": str(device)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # On a GPU those that end with an expression are kernels.
    products = "39" if device.kind == "host" else r"[1-9]\d*"
    assert re.search(rf"what it launches \| {products} \| \d+ \|", done.stdout)


def test_every_example_is_known() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(SAYS)
