"""What the tests of the fused operations share: random arrays, and equality with the float64 reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import cukern as ck
from cukern.testing import assert_close
from cukern.transforms import vjp

DTYPES = [ck.float16, ck.bfloat16, ck.float32, ck.float64]
DTYPE_NAMES = ["float16", "bfloat16", "float32", "float64"]


def epsilon(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def random(seed: int, shape: tuple[int, ...], dtype: Any = "float64", scale: float = 1.0) -> ck.Array:
    """Normal numbers, rounded to ``dtype``."""
    return ck.asarray(
        (np.random.default_rng(seed).normal(size=shape) * scale).astype(ck.zeros(0, dtype).dtype)
    )


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def doubles(arrays: Sequence[ck.Array]) -> list[ck.Array]:
    return [ck.asarray(one.numpy().astype(np.float64), device=one.device) for one in arrays]


def close(actual: ck.Array, expected: Any, ulps: float) -> None:
    """Equal to within ``ulps`` units in the last place of the largest number expected, and of each number."""
    wanted = np.asarray(expected, np.float64)
    tolerance = ulps * epsilon(actual.dtype)
    finite = np.abs(wanted[np.isfinite(wanted)])
    assert_close(actual, wanted, rtol=tolerance, atol=tolerance * (finite.max() if finite.size else 0.0))


def check_equal(
    fused: Callable[..., Any],
    reference: Callable[..., Any],
    arrays: Sequence[ck.Array],
    ulps: float = 4,
    cotangents: Sequence[ck.Array] | None = None,
) -> None:
    """Values and gradients of ``fused`` in the arrays' dtype against those of ``reference`` in float64."""
    results, pull = vjp(lambda *own: as_tuple(fused(*own)), *arrays)
    expected, pull_expected = vjp(lambda *own: as_tuple(reference(*own)), *doubles(arrays))
    for result, want in zip(results, expected, strict=True):
        assert result.dtype == arrays[0].dtype
        close(result, want, ulps)
    if cotangents is None:
        cotangents = [random(99 + i, one.shape, one.dtype) for i, one in enumerate(results)]
    found, wanted = pull(tuple(cotangents)), pull_expected(tuple(doubles(cotangents)))
    for one, array, want in zip(found, arrays, wanted, strict=True):
        assert one.dtype == array.dtype
        assert one.shape == array.shape
        close(one, want, ulps)
