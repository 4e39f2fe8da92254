"""Random blocks of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cukern.quant.kinds import KINDS

#: Kinds of blocks, without plain numbers.
BLOCKS = [name for name, row in KINDS.items() if row.dtype is None]
#: Where a block has scales of float16, if not at its beginning; Q8_K has a float there.
_SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}


def random_blocks(kind: str, rows: int, inputs: int, scale: float | None = 0.01) -> npt.NDArray[Any]:
    """Random bytes, with scales of about that size and either sign; with random ones if None."""
    row = KINDS[kind]
    rng = np.random.default_rng(len(kind) + inputs)
    made = rng.integers(0, 256, (rows, inputs // row.weights, row.bytes), np.uint8)
    if scale is not None:
        dtype: Any = np.float32 if kind == "Q8_K" else np.float16
        size = np.dtype(dtype).itemsize
        for at in _SCALES.get(kind, (0, 2) if row.shifted else (0,)):
            drawn = (scale * rng.normal(size=(*made.shape[:-1], 1))).astype(dtype)
            made[..., at : at + size] = drawn.view(np.uint8)
    return made.reshape(rows, -1)
