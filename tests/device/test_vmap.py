"""vmap: against loops over the examples of a batch, and against NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck

RNG = np.random.default_rng(0)


def made(*shape: int) -> ck.Array:
    return ck.asarray(RNG.standard_normal(shape))


def agree(f: Callable[..., Any], *arrays: ck.Array, rtol: float = 1e-12) -> None:
    """Check a function of arrays of a batch against a loop of its examples."""
    results = [f(*(x[i] for x in arrays)) for i in range(arrays[0].shape[0])]
    got = ck.vmap(f)(*arrays)
    expected = ck.tree.map(lambda *each: np.stack([np.asarray(one) for one in each]), *results)
    for one, wanted in zip(ck.tree.leaves(got), ck.tree.leaves(expected), strict=True):
        assert one.shape == wanted.shape
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one.numpy(), wanted, rtol=rtol, atol=1e-13)


ROWS: dict[str, Callable[[ck.Array, ck.Array], Any]] = {
    "elementwise": lambda x, y: ck.where(x > y, ck.sin(x) * 2, y**2),
    "scalar and vector": lambda x, y: x[0] * y + x.sum(),
    "fused": lambda x, y: ck.fuse(lambda a, b: a[1:] * b[:-1] + ck.exp(a[0]))(x, y),
    "reductions": lambda x, y: (x.sum(), y.max(), ck.var(x * y), ck.argmin(x), ck.any(x > y)),
    "reduction along axes": lambda x, y: (x[:, None] * y).mean(0, keepdims=True),
    "views": lambda x, y: (x.reshape(1, 3, 1).T, ck.flip(y), x[None, ::2], ck.broadcast_to(y, (2, 3))),
    "products": lambda x, y: (x @ y, x[:, None] @ y[None], ck.outer(x, y) @ x, x @ ck.outer(y, y)),
    "joins": lambda x, y: (
        ck.concat([x, y * 2]),
        ck.stack([x, ck.ones(3)], 1),
        ck.unstack(x),
        ck.split(y, 3),
    ),
    "indices": lambda x, y: (x[[0, 2, 1]], x[ck.argmax(y)], ck.arange(3.0)[ck.argmax(y)], x[-1]),
}


@pytest.mark.parametrize("name", ROWS)
def test_values_are_those_of_a_loop(name: str) -> None:
    agree(ROWS[name], made(4, 3), made(4, 3))
