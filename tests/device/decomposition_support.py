"""The matrices that decompositions are tested with, and how close their results are."""

from __future__ import annotations

import numpy as np


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    """Matrices far from singular."""
    return random(*shape, seed=seed) + 3 * np.eye(shape[-1])


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    root = random(*shape, seed=seed)
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


def tolerance(dtype: str) -> dict[str, float]:
    size = 2e-5 if dtype == "float32" else 1e-12
    return {"rtol": size, "atol": size}
