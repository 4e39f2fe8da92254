"""What the tests of the fused operations share: random arrays, and equality with the float64 reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import cukern as ck
from cukern.device.interface import Properties
from cukern.launch.family import STAND_IN, Family, Used
from cukern.launch.variant import Variant
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


def gpu_limits(device: ck.Device, clusters: int = 1) -> Properties:
    """Those for which kernels of a GPU are laid out: of the device, with so many blocks a cluster at most."""
    limits = device.properties
    if device.style == "serial":
        limits = limits._replace(compute_capability=STAND_IN.compute_capability)
    return limits._replace(max_blocks_per_cluster=min(clusters, limits.max_blocks_per_cluster))


def only_like(
    family: Family[Any], config: Variant[Any], limits: Properties | None = None
) -> AbstractContextManager[Used]:
    """The family with this variant alone, or its own of the same name, and these constants as far as it has them."""
    return only_with(family, config.name, limits, family.fields(config))


def only_with(
    family: Family[Any], name: str, limits: Properties | None, constants: Mapping[str, Any]
) -> AbstractContextManager[Used]:
    """The family with this variant alone, and those of the constants that it has."""
    own = {one.name for one in dataclasses.fields(family.variants[name])}  # type: ignore[arg-type]
    return family.only(name, limits=limits, **{key: constants[key] for key in own & constants.keys()})


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def doubles(arrays: Sequence[Any]) -> list[ck.Array]:
    """In float64, arrays of cukern and of NumPy."""
    device = next((one.device for one in arrays if isinstance(one, ck.Array)), None)
    return [ck.asarray(np.asarray(one).astype(np.float64), device=device) for one in arrays]


class Sized(NamedTuple):
    """An exact result, and how much it changes with the numbers that it is made of.

    Attributes:
        exact: in float64.
        size: its largest change, element by element, in units of random relative changes of the arguments' elements.
            Of a sum of products that is about the root of the sum of their squares, also where they cancel: times
            the epsilon of a dtype, what the roundings of the formula amount to.
    """

    exact: np.ndarray
    size: np.ndarray


#: How often a reference is called with changed arguments, and by how much these are, relative to each element.
SAMPLES, STEP = 8, 2.0**-20


def sized(reference: Callable[..., Any], *arrays: Any, rows: bool = False) -> Any:
    """The results of a function of float64 arrays, each with its size; a single one alone.

    Args:
        reference: of the arrays in float64.
        arrays: of any dtype.
        rows: whether all elements of a row, those along the last axis, have the same size, the root mean square of
            theirs: fewer calls show it.
    """
    given = [np.asarray(one).astype(np.float64) for one in arrays]
    rng = np.random.default_rng(0)
    single = not isinstance(made := reference(*given), (tuple, list))
    exact: list[Any] = [np.asarray(one, np.float64) for one in ((made,) if single else made)]
    changes: list[list[np.ndarray]] = [[] for _ in exact]
    for _ in range(1 if rows else SAMPLES):
        # Of few terms some signs make no change at all, but not for every element of a row.
        by = [rng.choice((-1, 1), one.shape) if rows else rng.standard_normal(one.shape) for one in given]
        moved = reference(*(one * (1 + STEP * change) for one, change in zip(given, by, strict=True)))
        for found, one, right in zip(changes, (moved,) if single else moved, exact, strict=True):
            with np.errstate(invalid="ignore"):
                found.append(np.nan_to_num(np.asarray(one, np.float64) - right) / STEP)
    for i, found in enumerate(changes):
        if rows:
            size = np.sqrt(np.mean(np.square(found), axis=(0, -1), keepdims=True)[0])
        else:
            size = np.max(np.abs(found), axis=0)
        exact[i] = Sized(exact[i], np.broadcast_to(size, exact[i].shape))
    return exact[0] if single else exact


#: Roundings that a result may be away, by the bytes of an element: half types compute in float32, and round at the end.
ROUNDINGS = {2: 1, 4: 16, 8: 16}


def close(actual: ck.Array, expected: Any, ulps: float | None = None) -> None:
    """Each element equal to within ``ulps`` roundings of it, and of what it is made of if it is :class:`Sized`."""
    exact, size = expected if isinstance(expected, Sized) else (np.asarray(expected, np.float64), 0.0)
    # The rounding of float64 itself is all that is left of a sum that cancels.
    exact = np.where(np.abs(exact) < 2.0**-46 * size, 0, exact)
    ulps = ROUNDINGS[actual.itemsize] if ulps is None else ulps
    limits = ml_dtypes.finfo(actual.dtype)
    tolerance = ulps * float(limits.eps)
    assert_close(actual, exact, rtol=tolerance, atol=tolerance * (size + float(limits.smallest_normal)))


def check_equal(
    fused: Callable[..., Any],
    reference: Callable[..., Any],
    arrays: Sequence[ck.Array],
    ulps: float | None = None,
    cotangents: Sequence[ck.Array] | None = None,
    rows: bool = False,
) -> None:
    """Values and gradients of ``fused`` in the arrays' dtype against those of ``reference`` in float64."""
    results, pull = vjp(lambda *own: as_tuple(fused(*own)), *arrays)
    if cotangents is None:
        cotangents = [random(99 + i, one.shape, one.dtype) for i, one in enumerate(results)]
    expected = sized(with_gradients(reference, len(arrays)), *arrays, *cotangents, rows=rows)
    found = (*results, *pull(tuple(cotangents)))
    for one, like, want in zip(found, [*cotangents, *arrays], expected, strict=True):
        assert one.dtype == like.dtype
        assert one.shape == like.shape
        close(one, want, ulps)


def with_gradients(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function of ``count`` arrays and cotangents of its results that returns its results and its gradients."""

    def both(*given: Any) -> tuple[ck.Array, ...]:
        arrays = [ck.asarray(np.asarray(one, np.float64)) for one in given]
        results, pull = vjp(lambda *own: as_tuple(function(*own)), *arrays[:count])
        return (*results, *pull(tuple(arrays[count:])))

    return both
