"""Compiles and launches CUDA C++ on the host device, one level below Kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cukern.device.host import backend as host
from cukern.text import signature

Dim3 = tuple[int, int, int]


@cache
def build(text: str) -> host.HostFunction:
    return host.backend().compile(0, signature.parse(text))


def launch(
    text: str, values: Sequence[Any], grid: int | Dim3 = 1, block: int | Dim3 = 1, shared: int = 0
) -> None:
    as_dim3 = [(size, 1, 1) if isinstance(size, int) else size for size in (grid, block)]
    build(text)(as_dim3[0], as_dim3[1], shared, values)


def kernel(parameters: str, body: str, before: str = "") -> str:
    return f'#line 1 "test.cu"\n{before}extern "C" __global__ void test_kernel({parameters}) {{\n{body}\n}}\n'


def run(parameters: str, body: str, *values: Any, grid: Any = 1, block: Any = 1, shared: int = 0) -> None:
    launch(kernel(parameters, body), values, grid, block, shared)


def lanes(expression: str, ctype: str, dtype: Any, block: int = 32, before: str = "") -> np.ndarray:
    """The value of ``expression`` in each thread ``t`` of one block."""
    out = np.zeros(block, dtype)
    text = kernel(f"{ctype}* out", f"int t = threadIdx.x; {before} out[t] = {expression};")
    launch(text, [out], 1, block)
    return out
