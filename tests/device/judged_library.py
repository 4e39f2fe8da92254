"""Kernels of the library as candidates: their rendered texts, with the lines that say how they are launched.

Run as a program, it prints the name and the text of the kernel of its argument, which a process compiles once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from judged_tasks import layer_norm

import cukern as ck
from cukern.kernel.bound import BoundKernel

Task = ck.testing.Task
UNARY = (
    "tanh exp sin cos sqrt log1p expm1 arctan cbrt floor square abs sigmoid relu softplus silu gelu erf sinh arcsinh"
).split()


TEMPLATES = {"layer_norm": "nn/layer_norm/forward.cu", "cumsum": "index/scan.cu"}


def function(name: str) -> Any:
    return getattr(ck, name, None) or getattr(ck.nn, name)


def call(name: str) -> object:
    """Launch the kernel."""
    if name in UNARY:
        return function(name)(ck.linspace(0, 1, 77))
    x, w = ck.ones((5, 77)), ck.ones(77)
    return ck.cumsum(x, axis=1) if name == "cumsum" else ck.nn.layer_norm(x, (77,), w, w)


def printed(name: str) -> None:
    """Print the name and the text of a kernel, without what every kernel begins with."""
    made: list[BoundKernel] = []
    begin = BoundKernel.__init__

    def noted(self: BoundKernel, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    with ck.device("host"), mock.patch.object(BoundKernel, "__init__", noted):
        call(name)
    template = TEMPLATES.get(name, "elementwise/lines.cu")
    (one,) = (one for one in made if one.rendered.template == template)
    text = one.rendered.text
    print(json.dumps([one.signature.name, text[text.index(f'#line 1 "{template}"') :]]))


def rendered(name: str) -> tuple[str, str]:
    """The name and the text of a kernel, from a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, name], capture_output=True, check=True, cwd=Path(__file__).parent
    )
    kernel, text = json.loads(done.stdout)
    return kernel, text


def candidate(name: str) -> tuple[ck.testing.Task, str]:
    """A task, and the library's kernel for it."""
    kernel, text = rendered(name)
    if name in UNARY:
        head = f"// launch: {kernel}(x, y, n, 64)\n// grid: divide_up(n, 64)\n// block: 1\n"
        task = Task(
            "act(const float x[n], float y[n], int n)",
            function(name),
            [{"n": 300}],
            library="cukern",
            values=["zeros", "permuted", "nan", "inf"],
        )
        return task, head + text
    if name == "layer_norm":
        head = (
            "// scratch: float statistics[2 * rows]\n"
            f"// launch: {kernel}(x, weight, bias, eps, y, statistics, rows, columns)\n// grid: rows\n// block: 1\n"
        )
        task = Task(
            "normed(const float x[rows][columns], const float weight[columns], const float bias[columns], "
            "float y[rows][columns], int rows, int columns, float eps)",
            layer_norm,
            [{"rows": 16, "columns": 128}],
            scalars={"eps": 1e-5},
            values=["zeros", "repeated", "offset", "nan"],
        )
        return task, head + text
    assert name == "cumsum"
    head = f"// launch: {kernel}(x, y, rows, 1, columns, 1, 0)\n// grid: rows\n// block: 1\n"
    task = Task(
        "scan(const float x[rows][columns], float y[rows][columns], int rows, int columns)",
        lambda x: np.cumsum(x, axis=1),
        [{"rows": 4, "columns": 256}],
        values=["zeros", "offset", "nan"],
    )
    return task, head + text


NAMES = ["layer_norm", "cumsum", *UNARY]

if __name__ == "__main__":
    printed(sys.argv[1])
